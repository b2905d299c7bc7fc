/* SPDX-License-Identifier: MIT */
/* batchnorm.c -- reference: batch normalisation, channel by channel.
 *
 * The definition of the bits (docs/numerics.md 4): batch sums of a shard are those of batch_sum.c,
 * slices of ls_slice_rows(width) whole rows, one chain per slice, slices by the tree; rows of
 * shards meet in the canonical tree, written here as it is defined, by recursion.
 */
#include "kernels/reference/reference.h"

#include <limits.h>
#include <math.h>

/* -- batch sums within a shard ----------------------------------------------------------------- */

typedef enum {
    VALUES,    /* x */
    SQUARES,   /* (x - mean) squared */
    GRADIENTS, /* dy */
    PRODUCTS   /* dy * xhat */
} term;

/* What is summed: a term of one channel. */
typedef struct {
    ls_batchnorm_shape shape;
    const ls_fold *fold;
    term term;
    const float *x, *dy;
    size_t channel;
    float mean, inv;
} channel_sum;

static float add_term(const channel_sum *sum, size_t element, float acc)
{
    const float d = sum->term == VALUES || sum->term == GRADIENTS
                        ? 0.0f : sum->x[element] - sum->mean;
    switch (sum->term) {
    case VALUES: return acc + sum->x[element];
    case SQUARES: return ls_fmaf(d, d, acc);
    case GRADIENTS: return acc + sum->dy[element];
    case PRODUCTS: break;
    }
    return ls_fmaf(sum->dy[element], d * sum->inv, acc);
}

/* The chain over rows [begin, end). */
static float slice_sum(const channel_sum *sum, size_t begin, size_t end)
{
    float acc = 0.0f;
    for (size_t place = begin * sum->shape.width; place < end * sum->shape.width; place++) {
        acc = add_term(sum, place * sum->shape.channels + sum->channel, acc);
    }
    return acc + 0.0f;
}

static float shard_sum(const channel_sum *sum, int leaf)
{
    const size_t rows = ls_slice_rows(sum->shape.width);
    const size_t end = sum->fold->sample[leaf + 1] * sum->shape.height;
    ls_tree_f32 slices = { .depth = 0 };
    for (size_t row = sum->fold->sample[leaf] * sum->shape.height; row < end; row += rows) {
        ls_tree_push_f32(&slices, slice_sum(sum, row, row + rows < end ? row + rows : end));
    }
    return ls_tree_root_f32(&slices);
}

/* Values per channel of a leaf. */
static size_t leaf_count(const ls_fold *fold, int leaf, ls_batchnorm_shape shape)
{
    return (fold->sample[leaf + 1] - fold->sample[leaf]) * shape.height * shape.width;
}

ls_status ls_batchnorm_statistics_reference(ls_stream *stream,
                                            const ls_batchnorm_statistics_args *args)
{
    (void)stream;
    const size_t C = args->shape.channels;
    for (int leaf = 0; leaf < args->fold->leaf_count; leaf++) {
        float *row = args->row + (size_t)args->fold->shard[leaf] * 2 * C;
        const size_t n = leaf_count(args->fold, leaf, args->shape);
        for (size_t c = 0; c < C; c++) {
            channel_sum sum = { .shape = args->shape, .fold = args->fold, .term = VALUES,
                                .x = args->x, .channel = c };
            row[c] = n > 0 ? shard_sum(&sum, leaf) / (float)n : 0.0f;
            sum.term = SQUARES;
            sum.mean = row[c];
            row[C + c] = shard_sum(&sum, leaf);
        }
    }
    return LS_OK;
}

/* -- merges ------------------------------------------------------------------------------------ */

/* What is known of some shards, in one channel. */
typedef struct {
    size_t n;
    float mean, M2, variance;
} moments;

/* Shards [begin, begin + count). */
static moments merge_shards(const ls_batchnorm_merge_args *args, size_t c, size_t begin,
                            size_t count)
{
    if (count == 1) {
        const float *row = args->row + begin * 2 * args->channels + c;
        const size_t n = args->n[begin];
        if (n == 0) return (moments){ 0, 0.0f, 0.0f, 0.0f };
        const float M2 = row[args->channels];
        return (moments){ n, row[0], M2, M2 / (float)n };
    }
    const size_t half = ls_tree_split(count);
    const moments a = merge_shards(args, c, begin, half);
    const moments b = merge_shards(args, c, begin + half, count - half);
    if (a.n == 0) return b;
    if (b.n == 0) return a;
    const size_t n = a.n + b.n;
    const float f = (float)b.n / (float)n, delta = b.mean - a.mean;
    return (moments){ n, ls_fmaf(delta, f, a.mean),
                      ls_fmaf(delta * delta, (float)a.n * f, a.M2 + b.M2),
                      ls_fmaf(b.variance - a.variance, f, a.variance) };
}

ls_status ls_batchnorm_merge_reference(ls_stream *stream, const ls_batchnorm_merge_args *args)
{
    (void)stream;
    const float weight = args->one_minus_momentum;
    for (size_t c = 0; c < args->channels; c++) {
        const moments all = merge_shards(args, c, 0, (size_t)args->shard_count);
        args->merged[c] = all.mean;
        args->merged[args->channels + c] = all.M2;
        if (all.n == 0) continue;
        float *mean = &args->moving_mean[c], *variance = &args->moving_variance[c];
        const float new_variance = args->by_shard ? all.variance : all.M2 / (float)all.n;
        *mean = ls_fmaf(weight, all.mean - *mean, *mean);
        *variance = ls_fmaf(weight, new_variance - *variance, *variance);
    }
    return LS_OK;
}

typedef struct {
    size_t n;
    float sum;
} part;

static part add_shards(const ls_batchnorm_merge_sums_args *args, size_t e, size_t begin,
                       size_t count)
{
    if (count == 1) {
        const size_t n = args->n[begin];
        return (part){ n, n > 0 ? args->row[begin * 2 * args->channels + e] : 0.0f };
    }
    const size_t half = ls_tree_split(count);
    const part a = add_shards(args, e, begin, half);
    const part b = add_shards(args, e, begin + half, count - half);
    if (a.n == 0) return b;
    if (b.n == 0) return a;
    return (part){ a.n + b.n, a.sum + b.sum };
}

ls_status ls_batchnorm_merge_sums_reference(ls_stream *stream,
                                            const ls_batchnorm_merge_sums_args *args)
{
    (void)stream;
    for (size_t e = 0; e < 2 * args->channels; e++) {
        args->merged[e] = add_shards(args, e, 0, (size_t)args->shard_count).sum;
    }
    return LS_OK;
}

/* -- what a sample is normalised with ---------------------------------------------------------- */

/* A channel's statistics, as a sample sees them. */
typedef struct {
    float n, mean, inv;
} seen;

/* `shard`: 0 where there is one row for all. */
static seen seen_by(const ls_batchnorm_statistics_of *statistics, int shard, size_t c,
                    size_t channels, float epsilon)
{
    const float *row = statistics->row + (size_t)shard * statistics->stride;
    const float n = statistics->n[shard];
    return (seen){ n, row[c], 1.0f / sqrtf(row[channels + c] / n + epsilon) };
}

/* The shard whose row a sample reads. `leaf` is that of the sample before, and moves on. */
static int shard_of(const ls_batchnorm_statistics_of *statistics, const ls_fold *fold,
                    size_t sample, int *leaf)
{
    if (statistics->stride == 0) return 0;
    while (fold->sample[*leaf + 1] <= sample) ++*leaf;
    return fold->shard[*leaf];
}

ls_status ls_batchnorm_reference(ls_stream *stream, const ls_batchnorm_args *args)
{
    (void)stream;
    const size_t C = args->shape.channels, places = args->shape.height * args->shape.width;
    int leaf = 0;
    for (size_t sample = 0; sample < args->samples; sample++) {
        const int shard = shard_of(&args->statistics, args->fold, sample, &leaf);
        for (size_t i = sample * places * C; i < (sample + 1) * places * C; i++) {
            const size_t c = i % C;
            const seen s = seen_by(&args->statistics, shard, c, C, args->epsilon);
            const float y = ls_fmaf(args->gamma[c], (args->x[i] - s.mean) * s.inv, args->beta[c]);
            args->y[i] = args->relu && y <= 0.0f ? 0.0f : y;
        }
    }
    return LS_OK;
}

/* -- gradients --------------------------------------------------------------------------------- */

/* Fold the leaves' sums, one float each of their rows, into one float of each piece. */
static void fold_rows(const ls_fold *fold, const float *row, size_t row_stride, float *out,
                      size_t piece_stride)
{
    float temporary[UCHAR_MAX + 1]; /* slots piece_count .. slot_count-1 */
    for (int i = 0; i < fold->leaf_count; i++) {
        float t = row[(size_t)fold->shard[i] * row_stride];
        for (int m = 0; m < fold->merge_count[i]; m++) {
            const int slot = fold->merge[i][m];
            t = (slot < fold->piece_count ? out[(size_t)slot * piece_stride] : temporary[slot]) + t;
        }
        const int slot = fold->store[i];
        if (slot < fold->piece_count) {
            out[(size_t)slot * piece_stride] = t;
        } else {
            temporary[slot] = t;
        }
    }
}

ls_status ls_batchnorm_gradient_sums_reference(ls_stream *stream,
                                               const ls_batchnorm_gradient_sums_args *args)
{
    (void)stream;
    const ls_fold *fold = args->fold;
    const size_t C = args->shape.channels;
    for (size_t c = 0; c < C; c++) {
        for (int leaf = 0; leaf < fold->leaf_count; leaf++) {
            float *row = args->row + (size_t)fold->shard[leaf] * 2 * C;
            row[c] = row[C + c] = 0.0f;
            if (leaf_count(fold, leaf, args->shape) == 0) continue;
            const int shard = args->statistics.stride == 0 ? 0 : fold->shard[leaf];
            const seen s = seen_by(&args->statistics, shard, c, C, args->epsilon);
            channel_sum sum = { args->shape, fold, GRADIENTS, args->x, args->dy, c, s.mean, s.inv };
            row[c] = shard_sum(&sum, leaf);
            sum.term = PRODUCTS;
            row[C + c] = shard_sum(&sum, leaf);
        }
        fold_rows(fold, args->row + c, 2 * C, args->dbeta + c, args->piece_stride);
        fold_rows(fold, args->row + C + c, 2 * C, args->dgamma + c, args->piece_stride);
    }
    return LS_OK;
}

ls_status ls_batchnorm_gradient_reference(ls_stream *stream, const ls_batchnorm_gradient_args *args)
{
    (void)stream;
    const size_t C = args->shape.channels, places = args->shape.height * args->shape.width;
    int leaf = 0;
    for (size_t sample = 0; sample < args->samples; sample++) {
        const int shard = shard_of(&args->statistics, args->fold, sample, &leaf);
        const float *S1 = args->sums + (size_t)shard * args->statistics.stride, *S2 = S1 + C;
        for (size_t i = sample * places * C; i < (sample + 1) * places * C; i++) {
            const size_t c = i % C;
            const seen s = seen_by(&args->statistics, shard, c, C, args->epsilon);
            const float xhat = (args->x[i] - s.mean) * s.inv;
            args->dx[i] = args->gamma[c] * s.inv
                          * ls_fmaf(-xhat, S2[c] / s.n, args->dy[i] - S1[c] / s.n);
        }
    }
    return LS_OK;
}
