/* SPDX-License-Identifier: MIT */
/* normalize.h -- batch normalisation as a layer of the passes (kernels/batchnorm.h has its ops).
 *
 * Internal to forward.c and backward.c.
 */
#ifndef LS_TRAIN_NORMALIZE_H
#define LS_TRAIN_NORMALIZE_H

#include "train/replica.h"

/* y of layer `l` from x. In a training pass the shards' statistics are computed and exchanged with
 * the other ranks, and the moving ones move (in `moved`). Collective then. In a repeated pass
 * those of its whole pass are merged again. `fold`: of the pass; NULL in inference. */
LS_MUST_USE ls_status ls_normalize_forward(ls_replica *r, int l, const ls_pass_input *input,
                                           const ls_fold *fold, const float *x, float *y);

/* d gamma and d beta into the pieces, then dx (NULL: not wanted) from dy; in place allowed.
 * Collective in a training pass. */
LS_MUST_USE ls_status ls_normalize_backward(ls_replica *r, int l, const ls_pass_input *input,
                                            const ls_fold *fold, const float *x, const float *dy,
                                            float *dx);

#endif
