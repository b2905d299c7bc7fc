/* SPDX-License-Identifier: MIT */
/* batch_sum.c -- host: the sum of all rows per channel, vectorised over channels.
 *
 * A task is one shard and one block of channels: its slices are chains of vector additions that
 * stay in registers, added by the tree in a small stack. Each shard's sums land in the scratch
 * memory of the calling thread, row i for leaf i; then the fold (fold_rows.h) adds rows up, and
 * writes pieces.
 *
 *     task (i, c)       x rows of shard i, channels c ..   -> sum[i][c ..]
 *     fold              sum[i] += pieces and earlier rows  -> piece, or stays
 */
#include <string.h>

#include "kernels/host/chain_rows.h"
#include "kernels/host/fold_rows.h"
#include "kernels/host/lanes.h"
#include "sizes.h"

enum { WORDS = 4, BLOCK = WORDS * LS_LANES };

/* Floats of which the sums are not worth another thread: 3 us. (Measured for 8192 on two threads:
 * 2.0 us instead of 0.7.) */
enum { ALONE_FLOATS = 1 << 16 };

typedef struct {
    const ls_batch_sum_args *args;
    size_t first, channels; /* this round's channels */
    size_t blocks;          /* blocks of channels in it */
    float *sum;             /* [leaf_count][channels] */
} batch_loop;

/* -- a slice ----------------------------------------------------------------------------------- */

/* Of BLOCK channels: a line of x is used whole while it is there. */
static void chain_block(const float *x, size_t places, size_t stride, float *out)
{
    const ls_vec zero = ls_vec_zero();
    ls_vec sum[WORDS] = { zero, zero, zero, zero };
    for (size_t p = 0; p < places; p++, x += stride) {
        for (int v = 0; v < WORDS; v++) {
            sum[v] = ls_vec_add(sum[v], ls_vec_load(x + v * LS_LANES));
        }
    }
    for (int v = 0; v < WORDS; v++) ls_vec_store(out + v * LS_LANES, ls_vec_add(sum[v], zero));
}

LS_ALWAYS_INLINE void chain_word(const float *x, size_t places, size_t stride, size_t lanes,
                                 float *out)
{
    ls_vec sum = ls_vec_zero();
    for (size_t p = 0; p < places; p++, x += stride) {
        sum = ls_vec_add(sum, ls_vec_load_lanes(x, lanes));
    }
    ls_vec_store_lanes(out, ls_vec_add(sum, ls_vec_zero()), lanes);
}

void LS_HOST(chain_rows)(const float *x, size_t places, size_t stride, size_t n, float *out)
{
    size_t c = 0;
    for (; c + BLOCK <= n; c += BLOCK) chain_block(x + c, places, stride, out + c);
    for (; c + LS_LANES <= n; c += LS_LANES) chain_word(x + c, places, stride, LS_LANES, out + c);
    if (c < n) chain_word(x + c, places, stride, n - c, out + c);
}

/* -- shards ------------------------------------------------------------------------------------ */

/* Task (leaf, block): the sums of a shard, for a block of channels. */
static void shard_sum(void *loop_, size_t task, int thread)
{
    (void)thread;
    const batch_loop *loop = loop_;
    const ls_batch_sum_args *args = loop->args;
    const size_t leaf = task / loop->blocks, c = task % loop->blocks * BLOCK;
    const size_t n = loop->channels - c < BLOCK ? loop->channels - c : BLOCK;
    const size_t slice = ls_slice_rows(args->width), row_floats = args->width * args->channels;
    const size_t first = args->fold->sample[leaf] * args->height;
    const size_t end = args->fold->sample[leaf + 1] * args->height;
    const size_t slices = ls_ceil_div(end - first, slice);
    const float *x = args->x + first * row_floats + loop->first + c;
    float entry[LS_TREE_DEPTH][BLOCK]; /* slices that wait for their sibling */
    int top = -1;
    for (size_t i = 0; i < slices; i++, x += slice * row_floats) {
        const size_t left = end - first - i * slice, rows = left < slice ? left : slice;
        LS_HOST(chain_rows)(x, rows * args->width, args->channels, n, entry[++top]);
        for (int adds = ls_tree_adds_after(i, slices); adds > 0; adds--, top--) {
            ls_add_row(entry[top], entry[top - 1], n);
        }
    }
    float *sum = loop->sum + leaf * loop->channels + c;
    if (slices == 0) memset(sum, 0, n * sizeof *sum);
    else memcpy(sum, entry[0], n * sizeof *sum);
}

ls_status LS_HOST(batch_sum)(ls_stream *stream, const ls_batch_sum_args *args)
{
    if (args->fold->leaf_count == 0) return LS_OK;
    const size_t leaves = (size_t)args->fold->leaf_count;
    const size_t fits = LS_SCRATCH_BYTES / sizeof(float) / leaves; /* channels of a round */
    const size_t rows = args->fold->sample[leaves] * args->height * args->width;
    ls_pool *pool = stream->device->pool;
    if (rows * args->channels <= ALONE_FLOATS) pool = ls_pool_of_thread(pool, 0);
    batch_loop loop = { .args = args, .sum = ls_pool_scratch(pool, 0) };
    for (size_t first = 0; first < args->channels; first += fits) {
        loop.first = first;
        loop.channels = args->channels - first < fits ? args->channels - first : fits;
        loop.blocks = (loop.channels + BLOCK - 1) / BLOCK;
        ls_pool_run(pool, leaves * loop.blocks, shard_sum, &loop);
        ls_fold_rows(args->fold, loop.sum, loop.channels, args->out + first, args->piece_stride);
    }
    return LS_OK;
}
