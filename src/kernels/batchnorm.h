/* SPDX-License-Identifier: MIT */
/* batchnorm.h -- the ops of batch normalisation (docs/numerics.md 4), part of kernels.h's list.
 *
 * x is [samples, height, width, channels]; everything is per channel. A shard's statistics are a
 * row of 2 * channels floats, mean[channels] then M2[channels] (M2 = the sum of squared distances
 * from that mean); its n, the number of values per channel, is samples * height * width and known
 * without looking at x. One training pass:
 *
 *   forward    batchnorm_statistics   own shards' rows
 *              (gather: the rows of all V shards on every rank)
 *              batchnorm_merge        V rows -> the row of the whole batch; moving statistics
 *              batchnorm              y
 *   backward   batchnorm_gradient_sums  own shards' rows of S1 = sum dy, S2 = sum dy * xhat;
 *                                       d beta and d gamma into the pieces of the arena
 *              (gather)
 *              batchnorm_merge_sums   V rows -> the row of the whole batch
 *              batchnorm_gradient     dx
 *
 * With statistics per shard (mode `shard`) nothing is merged for use: a shard reads its own row.
 * The source: S. Ioffe, C. Szegedy, "Batch normalization", ICML 2015; the merge is that of T. F.
 * Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979.
 */
#ifndef LS_KERNELS_BATCHNORM_H
#define LS_KERNELS_BATCHNORM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/fold.h"

typedef struct {
    size_t height, width, channels;
} ls_batchnorm_shape;

/* Which statistics a sample is normalised with: variance = M2 / n. Inference is row = (moving mean,
 * moving variance) with n = 1. */
typedef struct {
    const float *row;      /* mean[channels], M2[channels]; shard s's at row + s * stride */
    size_t stride;         /* in floats; 0: one row for all samples */
    float n[LS_SHARD_MAX]; /* values per channel behind shard s's row; stride 0: n[0] */
} ls_batchnorm_statistics_of;

/* For every leaf of the fold with samples: S = batch sum of x; mean = S / n; M2 = batch sum of
 * d * d, d = x - mean (chain fmaf(d, d, acc)); batch sums within the shard. A leaf without samples
 * gets zeros; rows of other shards are not touched. */
typedef struct {
    ls_batchnorm_shape shape;
    const ls_fold *fold;
    const float *x;
    float *row; /* [V, 2 * channels], by the shard's number */
} ls_batchnorm_statistics_args;

/* Fold the rows by the canonical tree over all V shards, skipping those with n = 0:
 *   n = na + nb, f = nb / n, delta = mb - ma,
 *   mean = fmaf(delta, f, ma), M2 = fmaf(delta * delta, na * f, M2a + M2b),
 * n as integers, converted to float where used. Then move: new = mean and, unless by_shard, M2 / n;
 * moving = fmaf(one_minus_momentum, new - moving, moving). by_shard: the variance that moves is
 * merged from the shards' own, v = fmaf(vb - va, f, va), v_s = M2_s / n_s.
 * All n zero: `merged` is zeros and nothing moves. */
typedef struct {
    size_t channels;
    int shard_count;
    size_t n[LS_SHARD_MAX]; /* [shard_count] */
    const float *row;       /* [shard_count, 2 * channels] */
    bool by_shard;
    float one_minus_momentum;
    float *merged;                   /* [2 * channels] mean, M2 of the whole */
    float *moving_mean, *moving_variance; /* [channels] in place */
} ls_batchnorm_merge_args;

/* y = fmaf(gamma, (x - mean) * inv, beta), inv = 1 / sqrt(M2 / n + epsilon); then relu where asked
 * for. In place allowed. `fold` says which sample is whose shard's; NULL where stride is 0. */
typedef struct {
    ls_batchnorm_shape shape;
    size_t samples;
    const ls_fold *fold;
    ls_batchnorm_statistics_of statistics;
    float epsilon;
    bool relu;
    const float *gamma, *beta; /* [channels] */
    const float *x;
    float *y;
} ls_batchnorm_args;

/* For every leaf: S1 = batch sum of dy, S2 = batch sum of dy * xhat (chain fmaf(dy, xhat, acc)),
 * xhat = (x - mean) * inv; a leaf without samples gets zeros. And folded over the leaves by the
 * fold: d beta = the S1, d gamma = the S2 of a piece. */
typedef struct {
    ls_batchnorm_shape shape;
    const ls_fold *fold;
    ls_batchnorm_statistics_of statistics;
    float epsilon;
    const float *x, *dy;
    float *row;            /* [V, 2 * channels] S1[channels], S2[channels], by the shard's number */
    float *dgamma, *dbeta; /* piece p at + p * piece_stride */
    size_t piece_stride;
} ls_batchnorm_gradient_sums_args;

/* merged = the rows added by the canonical tree, those with n = 0 skipped. */
typedef struct {
    size_t channels;
    int shard_count;
    size_t n[LS_SHARD_MAX];
    const float *row; /* [shard_count, 2 * channels] */
    float *merged;    /* [2 * channels] */
} ls_batchnorm_merge_sums_args;

/* dx = (gamma * inv) * fmaf(-xhat, S2 / n, dy - S1 / n). In place (dx = dy) allowed. The row of
 * sums is chosen as that of the statistics. */
typedef struct {
    ls_batchnorm_shape shape;
    size_t samples;
    const ls_fold *fold; /* NULL where the statistics' stride is 0 */
    ls_batchnorm_statistics_of statistics;
    const float *sums; /* S1[channels], S2[channels]; shard s's at sums + s * statistics.stride */
    float epsilon;
    const float *gamma;
    const float *x, *dy;
    float *dx;
} ls_batchnorm_gradient_args;

#define LS_BATCHNORM_KERNELS(X)                                                                   \
    X(batchnorm_statistics)                                                                       \
    X(batchnorm_merge)                                                                            \
    X(batchnorm)                                                                                  \
    X(batchnorm_gradient_sums)                                                                    \
    X(batchnorm_merge_sums)                                                                       \
    X(batchnorm_gradient)

#endif
