/* SPDX-License-Identifier: MIT */
/* normalisation.h -- one training pass of batch normalisation on a host device, all ops in order.
 *
 * The shards are dealt to `world` ranks; what a trainer gathers lies in one array here. With
 * `accumulate` 1 only, since statistics are those of a pass.
 */
#ifndef TEST_SUPPORT_NORMALISATION_H
#define TEST_SUPPORT_NORMALISATION_H

#include "device/device.h"
#include "kernels/kernels.h"

typedef struct {
    ls_batchnorm_shape shape;
    int shard_count, world;
    size_t count[LS_SHARD_MAX]; /* samples of each shard */
    bool by_shard, relu;
    float epsilon, one_minus_momentum;
    const float *x, *dy;        /* [samples, height, width, channels] */
    const float *gamma, *beta;
    float moving_mean, moving_variance; /* of every channel, before */
} normalisation;

/* What the pass computes. In `floats`, one after the other, for comparisons of everything. */
typedef struct {
    size_t float_count;
    float *floats; /* owned */
    float *row, *sums;                    /* [shard_count, 2 * channels] */
    float *merged, *merged_sums;          /* [2 * channels] */
    float *moving_mean, *moving_variance; /* [channels] */
    float *y, *dx;
    float *dgamma, *dbeta;                /* [world, pieces of a rank, channels] */
} normalised;

enum { NORMALISED_PIECES = 2 * LS_FOLD_MERGE_MAX };

size_t normalisation_samples(const normalisation *n);
size_t normalisation_floats(const normalisation *n); /* of x */

/* Samples dealt to shards as the trainer does. */
void normalisation_deal(normalisation *n, size_t samples);

/* Run it. Fails the running test where an op fails. `out` is freed by normalised_free. */
void normalisation_run(ls_stream *stream, const normalisation *n, normalised *out);
void normalised_free(normalised *out);

#endif
