/* SPDX-License-Identifier: MIT */
/* network.h -- a model's loss in double, computed once more in the most obvious way.
 *
 * Reads the layers that model.h describes and shares nothing else with src/ but the random words of
 * dropout. What finite differences of a whole network are taken of.
 */
#ifndef TEST_SUPPORT_NETWORK_H
#define TEST_SUPPORT_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "train/model.h"

/* A model and a batch. All borrowed. */
typedef struct {
    const ls_model *model;
    size_t samples;
    const float *x;        /* [samples, input], the samples 0, 1 ... of a data set */
    const int32_t *label;  /* [samples], for the crossentropies, or NULL */
    const float *target;   /* [samples, outputs], for mse and mae, or NULL */
    const int *group;      /* [samples] which of them batch normalisation takes together */
    int group_count;       /* groups are 0 .. group_count-1 */
    uint64_t seed;         /* dropout's, in epoch 0 */
} network;

/* The mean loss of the batch with these weights (the arena of model.h). statistics (the arena): as
 * in inference, with them and without dropout; NULL: as in training. */
double network_loss(const network *n, const double *weights, const double *statistics);

#endif
