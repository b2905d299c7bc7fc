/* SPDX-License-Identifier: MIT */
/* residual.h -- a residual network, and a training of it with everything that may not cost a bit:
 * augmentation, batch normalisation, dropout, Adam, clipping, an average of the weights,
 * regularisation, class weights, two passes a batch, a short batch in every epoch.
 */
#ifndef TEST_SUPPORT_RESIDUAL_H
#define TEST_SUPPORT_RESIDUAL_H

#include "support/training.h"

/* For pictures of 32x32x3 and ten classes: nine layers with weights, two joins, one of them over a
 * projection; 8x8 places at most, so that it is trained in moments. */
extern const char residual_model[];

/* resnet20 with dropout before its last layer; the caller frees it. */
char *residual_resnet20(void);

/* Everything, in 12 steps: 3 epochs of `pictures` pictures in batches of `batch`. Sets all but
 * model, data and devices; the epoch's last of four batches is to be short. */
void residual_set(training *t, const char *batch, const char *mode, const char *precision);

/* Run with `options` ("name value name value ..."). */
void residual_run(training *t, const char *options);

/* Run as residual_run with `before`, up to step `stop`; then the rest with `after`. */
void residual_interrupt(training *t, const char *before, uint64_t stop, const char *after);

#endif
