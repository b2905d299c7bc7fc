/* SPDX-License-Identifier: MIT */
/* batch_sum.c -- reference: the sum of all rows of a tensor, per channel, folded into pieces.
 *
 * The definition of the bits (docs/numerics.md 2.2). Samples, rows and columns in order; slices of
 * ls_slice_rows(width) whole rows, counted through a shard from its start; one chain of additions
 * per slice, + 0 last; slices meet in the tree, shards as the fold says (fold.h).
 */
#include "kernels/reference/reference.h"

#include <limits.h>

/* The chain over rows [begin, end) of `width` columns: channel c of each. */
static float slice_sum(const ls_batch_sum_args *args, size_t begin, size_t end, size_t c)
{
    float sum = 0.0f;
    for (size_t place = begin * args->width; place < end * args->width; place++) {
        sum += args->x[place * args->channels + c];
    }
    return sum + 0.0f;
}

static float shard_sum(const ls_batch_sum_args *args, int leaf, size_t c)
{
    const size_t rows = ls_slice_rows(args->width);
    const size_t end = args->fold->sample[leaf + 1] * args->height;
    ls_tree_f32 slices = { .depth = 0 };
    for (size_t row = args->fold->sample[leaf] * args->height; row < end; row += rows) {
        ls_tree_push_f32(&slices, slice_sum(args, row, row + rows < end ? row + rows : end, c));
    }
    return ls_tree_root_f32(&slices);
}

ls_status ls_batch_sum_reference(ls_stream *stream, const ls_batch_sum_args *args)
{
    (void)stream;
    const ls_fold *fold = args->fold;
    for (size_t c = 0; c < args->channels; c++) {
        float temporary[UCHAR_MAX + 1]; /* slots piece_count .. slot_count-1 */
        for (int i = 0; i < fold->leaf_count; i++) {
            float t = shard_sum(args, i, c);
            for (int m = 0; m < fold->merge_count[i]; m++) {
                const int slot = fold->merge[i][m];
                t = (slot < fold->piece_count ? args->out[(size_t)slot * args->piece_stride + c]
                                              : temporary[slot]) + t;
            }
            const int slot = fold->store[i];
            if (slot < fold->piece_count) {
                args->out[(size_t)slot * args->piece_stride + c] = t;
            } else {
                temporary[slot] = t;
            }
        }
    }
    return LS_OK;
}
