/* SPDX-License-Identifier: MIT */
/* batchnorm.c -- the checked entries of the ops in batchnorm.h (check.h). */
#include "kernels/check.h"

static ls_status check_samples_of(const char *op, const ls_batchnorm_shape *shape)
{
    if (shape->height > 0 && shape->width > 0 && shape->channels > 0) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: samples of %zu x %zu x %zu: none may be 0", op,
                   shape->height, shape->width, shape->channels);
}

/* Statistics by shard need the fold of these samples; shards with samples have a count. */
static ls_status check_statistics(const char *op, const ls_batchnorm_statistics_of *statistics,
                                  size_t channels, const ls_fold *fold, size_t samples)
{
    if (samples > 0 && statistics->row == NULL) return ls_check_missing(op, "statistics.row");
    if (statistics->stride == 0) {
        if (samples == 0 || statistics->n[0] > 0.0f) return LS_OK;
        return ls_fail(LS_ERR_ARGUMENT, "%s: statistics of %g values", op,
                       (double)statistics->n[0]);
    }
    LS_TRY(ls_check_fold(op, fold, 0, 0));
    if (statistics->stride < 2 * channels || fold->sample[fold->leaf_count] != samples) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu samples, the fold has %zu; rows of statistics of "
                       "%zu channels lie %zu apart",
                       op, samples, fold->sample[fold->leaf_count], channels, statistics->stride);
    }
    for (int i = 0; i < fold->leaf_count; i++) {
        const float n = statistics->n[fold->shard[i]];
        if (fold->sample[i] < fold->sample[i + 1] && !(n > 0.0f)) {
            return ls_fail(LS_ERR_ARGUMENT, "%s: statistics of %g values for shard %d", op,
                           (double)n, fold->shard[i]);
        }
    }
    return LS_OK;
}

ls_status ls_batchnorm_statistics(ls_stream *stream, const ls_batchnorm_statistics_args *args)
{
    LS_TRY(check_samples_of("batchnorm_statistics", &args->shape));
    LS_TRY(ls_check_fold("batchnorm_statistics", args->fold, 0, 0));
    LS_CHECK_POINTER("batchnorm_statistics", args->fold->sample[args->fold->leaf_count] > 0, x);
    LS_CHECK_POINTER("batchnorm_statistics", args->fold->leaf_count > 0, row);
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm_statistics(stream, args));
}

static ls_status check_rows(const char *op, size_t channels, int shard_count)
{
    if (channels > 0 && shard_count >= 1 && shard_count <= LS_SHARD_MAX) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: rows of %d shards, %zu channels: want 1 .. %d, and at "
                   "least 1",
                   op, shard_count, channels, LS_SHARD_MAX);
}

ls_status ls_batchnorm_merge(ls_stream *stream, const ls_batchnorm_merge_args *args)
{
    LS_TRY(check_rows("batchnorm_merge", args->channels, args->shard_count));
    LS_CHECK_POINTER("batchnorm_merge", true, row);
    LS_CHECK_POINTER("batchnorm_merge", true, merged);
    LS_CHECK_POINTER("batchnorm_merge", true, moving_mean);
    LS_CHECK_POINTER("batchnorm_merge", true, moving_variance);
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm_merge(stream, args));
}

ls_status ls_batchnorm(ls_stream *stream, const ls_batchnorm_args *args)
{
    const ls_batchnorm_shape *shape = &args->shape;
    LS_TRY(check_samples_of("batchnorm", shape));
    LS_TRY(check_statistics("batchnorm", &args->statistics, shape->channels, args->fold,
                            args->samples));
    LS_CHECK_POINTER("batchnorm", args->samples > 0, gamma);
    LS_CHECK_POINTER("batchnorm", args->samples > 0, beta);
    LS_CHECK_POINTER("batchnorm", args->samples > 0, x);
    LS_CHECK_POINTER("batchnorm", args->samples > 0, y);
    const size_t count = args->samples * shape->height * shape->width * shape->channels;
    LS_TRY(ls_check_in_place("batchnorm", count, args->y, args->x));
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm(stream, args));
}

ls_status ls_batchnorm_gradient_sums(ls_stream *stream, const ls_batchnorm_gradient_sums_args *args)
{
    const ls_fold *fold = args->fold;
    LS_TRY(check_samples_of("batchnorm_gradient_sums", &args->shape));
    LS_TRY(ls_check_fold("batchnorm_gradient_sums", fold, args->shape.channels,
                         args->piece_stride));
    const size_t samples = fold->sample[fold->leaf_count];
    LS_TRY(check_statistics("batchnorm_gradient_sums", &args->statistics, args->shape.channels,
                            fold, samples));
    LS_CHECK_POINTER("batchnorm_gradient_sums", samples > 0, x);
    LS_CHECK_POINTER("batchnorm_gradient_sums", samples > 0, dy);
    LS_CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, row);
    LS_CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, dgamma);
    LS_CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, dbeta);
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm_gradient_sums(stream, args));
}

ls_status ls_batchnorm_merge_sums(ls_stream *stream, const ls_batchnorm_merge_sums_args *args)
{
    LS_TRY(check_rows("batchnorm_merge_sums", args->channels, args->shard_count));
    LS_CHECK_POINTER("batchnorm_merge_sums", true, row);
    LS_CHECK_POINTER("batchnorm_merge_sums", true, merged);
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm_merge_sums(stream, args));
}

ls_status ls_batchnorm_gradient(ls_stream *stream, const ls_batchnorm_gradient_args *args)
{
    const ls_batchnorm_shape *shape = &args->shape;
    const size_t count = args->samples * shape->height * shape->width * shape->channels;
    LS_TRY(check_samples_of("batchnorm_gradient", shape));
    LS_TRY(check_statistics("batchnorm_gradient", &args->statistics, shape->channels, args->fold,
                            args->samples));
    LS_CHECK_POINTER("batchnorm_gradient", args->samples > 0, sums);
    LS_CHECK_POINTER("batchnorm_gradient", args->samples > 0, gamma);
    LS_CHECK_POINTER("batchnorm_gradient", args->samples > 0, x);
    LS_CHECK_POINTER("batchnorm_gradient", args->samples > 0, dy);
    LS_CHECK_POINTER("batchnorm_gradient", args->samples > 0, dx);
    LS_TRY(ls_check_in_place("batchnorm_gradient", count, args->dx, args->dy));
    return ls_enqueued(stream, ls_kernels_of(stream)->batchnorm_gradient(stream, args));
}
