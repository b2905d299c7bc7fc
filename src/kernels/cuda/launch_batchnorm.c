/* SPDX-License-Identifier: MIT */
/* launch_batchnorm.c -- batch normalisation on a GPU.
 *
 * Statistics are four launches: sums of slices (those of a bias gradient), rows of means, sums of
 * squares, rows of M2. The gradient's sums are sums of slices, rows, and two folds to pieces. Where
 * the workspace does not hold the slices' sums of all channels, as many channels at a time as it
 * does. A merge is planned here (row_merge.h) and followed by the kernel.
 *
 * Limits, beyond which an op is refused: those of launch_batch.c, and 2^31 places.
 */
#include <string.h>

#include "kernels/cuda/launch.h"

enum { WORKSPACE_FLOATS = LS_CUDA_WORKSPACE_BYTES / sizeof(float) };

static ls_status places_fit(const char *op, const ls_batchnorm_shape *shape, size_t samples)
{
    LS_TRY(ls_cuda_fits(op, "places", samples * shape->height * shape->width));
    LS_TRY(ls_cuda_fits(op, "places of a sample", shape->height * shape->width));
    return ls_cuda_fits(op, "channels", shape->channels);
}

/* -- sums over the samples of a shard ---------------------------------------------------------- */

/* Slices of the fold's leaves, and how many channels' sums of all of them the workspace holds,
 * `sums` sums to a channel. */
static ls_status cut(const char *op, const ls_batchnorm_shape *shape, const ls_fold *fold,
                     size_t sums, ls_cuda_groups *groups, size_t *room)
{
    LS_TRY(ls_cuda_fold_fits(op, fold));
    LS_TRY(places_fit(op, shape, fold->sample[fold->leaf_count]));
    *groups = ls_cuda_groups_of(fold, shape->height, shape->width);
    const size_t floats = ls_cuda_cut_into_groups(groups, 0) * sums;
    if (floats > WORKSPACE_FLOATS) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu slices: on a GPU at most %zu", op, floats / sums,
                       WORKSPACE_FLOATS / sums);
    }
    *room = floats > 0 ? WORKSPACE_FLOATS / floats : shape->channels;
    return LS_OK;
}

static ls_status enqueue_sums(ls_stream *stream, const char *kernel, const void *params,
                              size_t param_bytes, const ls_cuda_groups *groups, size_t channels)
{
    const size_t slices = groups->first[groups->fold.leaf_count];
    return ls_cuda_enqueue(stream, kernel, ls_ceil_div(slices, LS_CUDA_THREADS / 32),
                           ls_ceil_div(channels, 32), LS_CUDA_THREADS, params, param_bytes);
}

static ls_status enqueue_rows(ls_stream *stream, ls_cuda_batchnorm_rows p)
{
    return LS_CUDA_ENQUEUE(stream, "ls_batchnorm_rows", ls_ceil_div(p.count, LS_CUDA_FOLD_THREADS),
                           (size_t)p.groups.fold.leaf_count, LS_CUDA_FOLD_THREADS, p);
}

/* Channels first .. first + count - 1. */
static ls_status make_statistics(ls_stream *stream, const ls_batchnorm_statistics_args *a,
                                 const ls_cuda_groups *groups, size_t first, size_t count)
{
    const size_t C = a->shape.channels;
    const ls_cuda_batch_sum values = {
        .groups = *groups,
        .width = (uint32_t)a->shape.width,
        .channels = (uint32_t)C,
        .first_channel = (uint32_t)first,
        .channel_count = (uint32_t)count,
        .x = a->x,
        .partial = ls_cuda_workspace(stream),
    };
    const ls_cuda_batchnorm_sums squares = {
        .groups = *groups,
        .width = values.width,
        .channels = values.channels,
        .first_channel = values.first_channel,
        .channel_count = values.channel_count,
        .x = a->x,
        .row = a->row,
        .row_stride = 2 * C,
        .partial = values.partial,
    };
    ls_cuda_batchnorm_rows rows = {
        .groups = *groups,
        .width = values.width,
        .count = values.channel_count,
        .divides = true,
        .partial = values.partial,
        .row = a->row + first,
        .row_stride = 2 * C,
    };
    LS_TRY(enqueue_sums(stream, "ls_batch_sum", &values, sizeof values, groups, count));
    LS_TRY(enqueue_rows(stream, rows));
    LS_TRY(enqueue_sums(stream, "ls_batchnorm_squares", &squares, sizeof squares, groups, count));
    rows.divides = false;
    rows.row += C;
    return enqueue_rows(stream, rows);
}

ls_status ls_batchnorm_statistics_cuda(ls_stream *stream, const ls_batchnorm_statistics_args *a)
{
    const size_t C = a->shape.channels;
    ls_cuda_groups groups;
    size_t room = 0;
    if (a->fold->leaf_count == 0) return LS_OK;
    LS_TRY(cut("batchnorm_statistics", &a->shape, a->fold, 1, &groups, &room));
    for (size_t c = 0; c < C; c += room) {
        LS_TRY(make_statistics(stream, a, &groups, c, C - c < room ? C - c : room));
    }
    return LS_OK;
}

/* Channels first .. first + count - 1. */
static ls_status make_gradient_sums(ls_stream *stream, const ls_batchnorm_gradient_sums_args *a,
                                    const ls_cuda_groups *groups, size_t first, size_t count)
{
    const size_t C = a->shape.channels, slices = groups->first[groups->fold.leaf_count];
    ls_cuda_batchnorm_sums sums = {
        .groups = *groups,
        .width = (uint32_t)a->shape.width,
        .channels = (uint32_t)C,
        .first_channel = (uint32_t)first,
        .channel_count = (uint32_t)count,
        .x = a->x,
        .dy = a->dy,
        .row = a->statistics.row,
        .row_stride = a->statistics.stride,
        .epsilon = a->epsilon,
        .partial = ls_cuda_workspace(stream),
    };
    memcpy(sums.n, a->statistics.n, sizeof sums.n);
    ls_cuda_batchnorm_rows rows = {
        .groups = *groups,
        .width = sums.width,
        .count = sums.channel_count,
        .partial = sums.partial,
        .row = a->row + first,
        .row_stride = 2 * C,
    };
    ls_cuda_batch_fold fold = {
        .groups = *groups,
        .count = sums.channel_count,
        .partial = sums.partial,
        .out = a->dbeta + first,
        .piece_stride = a->piece_stride,
    };
    LS_TRY(enqueue_sums(stream, "ls_batchnorm_gradient_slices", &sums, sizeof sums, groups, count));
    for (int i = 0; i < 2; i++) { /* S1, then S2 */
        LS_TRY(enqueue_rows(stream, rows));
        LS_TRY(LS_CUDA_ENQUEUE(stream, "ls_batch_fold", ls_ceil_div(count, LS_CUDA_FOLD_THREADS), 1,
                               LS_CUDA_FOLD_THREADS, fold));
        rows.partial = fold.partial = sums.partial + slices * count;
        rows.row += C;
        fold.out = a->dgamma + first;
    }
    return LS_OK;
}

ls_status ls_batchnorm_gradient_sums_cuda(ls_stream *stream,
                                          const ls_batchnorm_gradient_sums_args *a)
{
    const size_t C = a->shape.channels;
    ls_cuda_groups groups;
    size_t room = 0;
    if (a->fold->leaf_count == 0) return LS_OK;
    LS_TRY(cut("batchnorm_gradient_sums", &a->shape, a->fold, 2, &groups, &room));
    for (size_t c = 0; c < C; c += room) {
        LS_TRY(make_gradient_sums(stream, a, &groups, c, C - c < room ? C - c : room));
    }
    return LS_OK;
}

/* -- merges ------------------------------------------------------------------------------------ */

ls_status ls_batchnorm_merge_cuda(ls_stream *stream, const ls_batchnorm_merge_args *a)
{
    LS_TRY(ls_cuda_fits("batchnorm_merge", "floats of a row", 2 * a->channels));
    ls_cuda_batchnorm_merge p = {
        .channels = (uint32_t)a->channels,
        .by_shard = a->by_shard,
        .one_minus_momentum = a->one_minus_momentum,
        .row = a->row,
        .merged = a->merged,
        .moving_mean = a->moving_mean,
        .moving_variance = a->moving_variance,
    };
    ls_row_merge_init(&p.plan, a->shard_count, a->n);
    return LS_CUDA_ENQUEUE(stream, "ls_batchnorm_merge",
                           ls_ceil_div(a->channels, LS_CUDA_FOLD_THREADS), 1, LS_CUDA_FOLD_THREADS,
                           p);
}

ls_status ls_batchnorm_merge_sums_cuda(ls_stream *stream, const ls_batchnorm_merge_sums_args *a)
{
    LS_TRY(ls_cuda_fits("batchnorm_merge_sums", "floats of a row", 2 * a->channels));
    ls_cuda_batchnorm_merge p = {
        .channels = (uint32_t)a->channels,
        .row = a->row,
        .merged = a->merged,
    };
    ls_row_merge_init(&p.plan, a->shard_count, a->n);
    return LS_CUDA_ENQUEUE(stream, "ls_batchnorm_merge_sums",
                           ls_ceil_div(2 * a->channels, LS_CUDA_FOLD_THREADS), 1,
                           LS_CUDA_FOLD_THREADS, p);
}

/* -- element by element ------------------------------------------------------------------------ */

/* Cut the samples into chunks, deal channels to threads, and launch. `p` comes with its addresses,
 * and says whether they let quads be moved. */
static ls_status enqueue_elements(ls_stream *stream, const char *kernel,
                                  const ls_batchnorm_shape *shape, size_t samples,
                                  const ls_fold *fold,
                                  const ls_batchnorm_statistics_of *statistics,
                                  ls_cuda_batchnorm_elements *p)
{
    const ls_fold whole = { .leaf_count = 1, .sample = { 0, samples } };
    const size_t units = p->vector ? shape->channels / 4 : shape->channels;
    LS_TRY(places_fit(kernel, shape, samples));
    p->channels = (uint32_t)shape->channels;
    p->abreast = units < LS_CUDA_THREADS ? (uint32_t)(LS_CUDA_THREADS / units) : 1;
    p->row = statistics->row;
    p->row_stride = statistics->stride;
    memcpy(p->n, statistics->n, sizeof p->n);
    p->chunks = ls_cuda_groups_of(statistics->stride == 0 ? &whole : fold,
                                  shape->height * shape->width, 1);
    p->chunks.slice_rows = LS_BATCHNORM_PLACES * p->abreast;
    const size_t chunks = ls_cuda_cut_into_groups(&p->chunks, 0);
    return LS_CUDA_ENQUEUE(stream, kernel, chunks, ls_ceil_div(units, LS_CUDA_THREADS),
                           LS_CUDA_THREADS, *p);
}

ls_status ls_batchnorm_cuda(ls_stream *stream, const ls_batchnorm_args *a)
{
    ls_cuda_batchnorm_elements p = {
        .vector = ls_cuda_moves_quads(a->x, a->shape.channels)
                  && ls_cuda_moves_quads(a->y, a->shape.channels),
        .relu = a->relu,
        .epsilon = a->epsilon,
        .gamma = a->gamma,
        .beta = a->beta,
        .x = a->x,
        .to = a->y,
    };
    return enqueue_elements(stream, "ls_batchnorm", &a->shape, a->samples, a->fold, &a->statistics,
                            &p);
}

ls_status ls_batchnorm_gradient_cuda(ls_stream *stream, const ls_batchnorm_gradient_args *a)
{
    ls_cuda_batchnorm_elements p = {
        .vector = ls_cuda_moves_quads(a->x, a->shape.channels)
                  && ls_cuda_moves_quads(a->dy, a->shape.channels)
                  && ls_cuda_moves_quads(a->dx, a->shape.channels),
        .sums = a->sums,
        .epsilon = a->epsilon,
        .gamma = a->gamma,
        .x = a->x,
        .dy = a->dy,
        .to = a->dx,
    };
    return enqueue_elements(stream, "ls_batchnorm_gradient", &a->shape, a->samples, a->fold,
                            &a->statistics, &p);
}
