/* SPDX-License-Identifier: MIT */
/* batch_sum.c -- host: the sum of all rows per channel, vectorised over channels.
 *
 * A task is one shard and one block of channels: its slices are chains of vector additions that
 * stay in registers, folded by the tree in a small stack. Each shard's sums land in the scratch
 * memory of the calling thread, row i for leaf i; then the fold (fold_rows.h) adds rows up, and
 * writes pieces.
 *
 *     task (i, c)       x rows of shard i, channels c ..   -> sum[i][c ..]
 *     fold              sum[i] += pieces and earlier rows  -> piece, or stays
 */
#include <string.h>

#include "kernels/host/fold_rows.h"
#include "kernels/host/host.h"
#include LS_SIMD

enum { WORDS = 4, BLOCK = WORDS * LS_LANES };

/* Slices of a shard that wait for their sibling, a block of channels each. */
typedef struct {
    float entry[LS_TREE_DEPTH][BLOCK];
    int depth;
    size_t leaves;
} slice_tree;

typedef struct {
    const ls_batch_sum_args *args;
    size_t first, channels; /* this round's channels */
    size_t blocks;          /* blocks of channels in it */
    float *sum;             /* [leaf_count][channels] */
} batch_loop;

/* out = the chain over `places` rows of x, `stride` apart, for n <= BLOCK channels. */
static void chain(const float *x, size_t places, size_t stride, size_t n, float *out)
{
    const ls_vec zero = ls_vec_zero();
    if (n == BLOCK) {
        ls_vec sum[WORDS] = { zero, zero, zero, zero };
        for (size_t p = 0; p < places; p++, x += stride) {
            for (int v = 0; v < WORDS; v++) {
                sum[v] = ls_vec_add(sum[v], ls_vec_load(x + v * LS_LANES));
            }
        }
        for (int v = 0; v < WORDS; v++) ls_vec_store(out + v * LS_LANES, ls_vec_add(sum[v], zero));
        return;
    }
    for (size_t c = 0; c < n; c += LS_LANES) {
        ls_vec sum = zero;
        if (n - c >= LS_LANES) {
            for (size_t p = 0; p < places; p++) {
                sum = ls_vec_add(sum, ls_vec_load(x + p * stride + c));
            }
        } else {
            for (size_t p = 0; p < places; p++) {
                sum = ls_vec_add(sum, ls_vec_load_part(x + p * stride + c, n - c));
            }
        }
        ls_vec_store(out + c, ls_vec_add(sum, zero)); /* out has room for whole words */
    }
}

/* to = a + b; to may be either. */
static void add(float *to, const float *a, const float *b, size_t n)
{
#pragma GCC ivdep
    for (size_t c = 0; c < n; c++) to[c] = a[c] + b[c];
}

/* As ls_tree_push_f32: the leaf is at entry[depth]. */
static void slice_push(slice_tree *tree, size_t n)
{
    for (size_t i = tree->leaves++; i & 1; i >>= 1) {
        tree->depth--;
        add(tree->entry[tree->depth], tree->entry[tree->depth], tree->entry[tree->depth + 1], n);
    }
    tree->depth++;
}

/* Task (leaf, block): the sums of a shard, for a block of channels. */
static void shard_sum(void *loop_, size_t task, int thread)
{
    (void)thread;
    const batch_loop *loop = loop_;
    const ls_batch_sum_args *args = loop->args;
    const size_t leaf = task / loop->blocks, c = task % loop->blocks * BLOCK;
    const size_t n = loop->channels - c < BLOCK ? loop->channels - c : BLOCK;
    const size_t slice = ls_slice_rows(args->width);
    const size_t end = args->fold->sample[leaf + 1] * args->height;
    slice_tree tree;
    tree.depth = 0;
    tree.leaves = 0;
    for (size_t row = args->fold->sample[leaf] * args->height; row < end; row += slice) {
        const size_t rows = end - row < slice ? end - row : slice;
        const float *x = args->x + row * args->width * args->channels + loop->first + c;
        chain(x, rows * args->width, args->channels, n, tree.entry[tree.depth]);
        slice_push(&tree, n);
    }
    if (tree.depth == 0) memset(tree.entry[tree.depth++], 0, sizeof tree.entry[0]);
    for (; tree.depth > 1; tree.depth--) {
        add(tree.entry[tree.depth - 2], tree.entry[tree.depth - 2], tree.entry[tree.depth - 1], n);
    }
    memcpy(loop->sum + leaf * loop->channels + c, tree.entry[0], n * sizeof(float));
}

ls_status LS_HOST(batch_sum)(ls_stream *stream, const ls_batch_sum_args *args)
{
    if (args->fold->leaf_count == 0) return LS_OK;
    const size_t leaves = (size_t)args->fold->leaf_count;
    const size_t fits = LS_SCRATCH_BYTES / sizeof(float) / leaves; /* channels of a round */
    batch_loop loop = { .args = args, .sum = ls_pool_scratch(stream->device->pool, 0) };
    for (size_t first = 0; first < args->channels; first += fits) {
        loop.first = first;
        loop.channels = args->channels - first < fits ? args->channels - first : fits;
        loop.blocks = (loop.channels + BLOCK - 1) / BLOCK;
        ls_pool_run(stream->device->pool, leaves * loop.blocks, shard_sum, &loop);
        ls_fold_rows(args->fold, loop.sum, loop.channels, args->out + first, args->piece_stride);
    }
    return LS_OK;
}
