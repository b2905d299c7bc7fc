/* SPDX-License-Identifier: MIT */
/* batch_sum.cu -- sums over the rows of a batch: slices of bias gradients, and the tree and fold of
 * whatever was summed by groups.
 *
 *     x [places, channels]            partial [groups, elements]           pieces [elements]
 *       slice 0 ---- a chain ---->      group 0  \
 *       slice 1 ---- a chain ---->      group 1   > tree of a leaf  \
 *       ...                             ...      /                   > fold
 *                                       group G  - tree of a leaf   /
 *
 * ls_batch_sum makes the partials of a bias gradient: a warp has 32 neighbouring channels of one
 * slice, a lane one chain. ls_batch_fold and ls_weight_gradient_fold turn partials into pieces, a
 * thread per element. What waits there for its sibling, in the tree of a leaf's groups and in the
 * fold, waits in a column of shared memory of the thread's own.
 */
#include "kernels/cuda/groups.cuh"
#include "kernels/cuda/tiles.h"

/* -- slices of a bias gradient ---------------------------------------------------------------- */

/* Sum of rows first .. last-1, `width` places each, of a channel; from +0, + 0 last. */
LS_INLINE float slice_sum(const ls_cuda_batch_sum &p, uint32_t first, uint32_t last,
                          uint32_t channel)
{
    const float *at = p.x + (size_t)first * p.width * p.channels + channel;
    uint32_t left = (last - first) * p.width;
    float sum = 0.0f;
    for (; left >= 8; left -= 8, at += 8 * (size_t)p.channels) {
        float x[8]; /* all on their way before the first is added */
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = at[i * (size_t)p.channels];
#pragma unroll
        for (int i = 0; i < 8; i++) sum += x[i];
    }
    for (; left > 0; left--, at += p.channels) sum += *at;
    return sum + 0.0f;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_batch_sum(const __grid_constant__ ls_cuda_batch_sum p)
{
    const ls_cuda_groups &g = p.groups;
    const uint32_t group = blockIdx.x * (LS_CUDA_THREADS / WARP) + threadIdx.x / WARP;
    const uint32_t c = blockIdx.y * WARP + threadIdx.x % WARP;
    if (group >= g.first[g.fold.leaf_count] || c >= p.channel_count) return;
    const uint32_t leaf = leaf_of_group(g, group);
    const uint32_t first = leaf_row(g, leaf) + (group - g.first[leaf]) * g.slice_rows;
    const uint32_t end = leaf_row(g, leaf + 1);
    const uint32_t last = end - first < g.slice_rows ? end : first + g.slice_rows;
    p.partial[(size_t)group * p.channel_count + c] =
        slice_sum(p, first, last, p.first_channel + c);
}

/* -- the fold --------------------------------------------------------------------------------- */

/* Fold element `element`; `out` is its place in piece 0. */
LS_INLINE void fold_element(const ls_cuda_batch_fold &p, uint32_t element, float *out)
{
    __shared__ waiting_column waiting[WAITING];
    const ls_fold &fold = p.groups.fold;
    waiting_column *stack = waiting + (fold.slot_count - fold.piece_count);
    for (int leaf = 0; leaf < fold.leaf_count; leaf++) {
        float sum = leaf_sum(p.partial + element, p.count, p.groups.first[leaf],
                             p.groups.first[leaf + 1], stack);
        for (int m = 0; m < fold.merge_count[leaf]; m++) {
            const int slot = fold.merge[leaf][m];
            sum = (slot < fold.piece_count ? out[slot * p.piece_stride]
                                           : waiting[slot - fold.piece_count][threadIdx.x]) + sum;
        }
        const int slot = fold.store[leaf];
        if (slot < fold.piece_count) {
            out[slot * p.piece_stride] = sum;
        } else {
            waiting[slot - fold.piece_count][threadIdx.x] = sum;
        }
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_FOLD_THREADS)
    ls_batch_fold(const __grid_constant__ ls_cuda_batch_fold p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e < p.count) fold_element(p, e, p.out + e);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_FOLD_THREADS)
    ls_weight_gradient_fold(const __grid_constant__ ls_cuda_batch_fold p)
{
    enum { TILE_FLOATS = LS_DW_TILE * LS_DW_TILE };
    const uint32_t e = (uint32_t)thread_index();
    const uint32_t tile = p.first_tile + e / TILE_FLOATS, within = e % TILE_FLOATS;
    const uint32_t row = tile / p.tiles_n * LS_DW_TILE + within / LS_DW_TILE;
    const uint32_t column = tile % p.tiles_n * LS_DW_TILE + within % LS_DW_TILE;
    if (e < p.count && row < p.filters && column < p.columns) {
        fold_element(p, e, p.out + (size_t)row * p.columns + column);
    }
}
