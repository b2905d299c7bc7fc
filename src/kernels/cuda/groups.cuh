/* SPDX-License-Identifier: MIT */
/* groups.cuh -- how a batch sum is cut: leaves of the fold, slices of a leaf, groups of slices.
 *
 * A leaf's output rows are counted from its first sample on; slice i of a leaf is its
 * rows from i * slice_rows on, slice_rows of them or what is left. A group is 2^log2 slices from a
 * multiple of that on, hence a node of the tree over the leaf's slices; groups meet in a tree as
 * slices do.
 */
#ifndef LS_KERNELS_CUDA_GROUPS_CUH
#define LS_KERNELS_CUDA_GROUPS_CUH

#include "kernels/cuda/device.cuh"

/* First output row of a leaf, counted over all samples; leaf_count: the end of the last. */
LS_INLINE uint32_t leaf_row(const ls_cuda_groups &g, uint32_t leaf)
{
    return (uint32_t)g.fold.sample[leaf] * g.rows;
}

LS_INLINE uint32_t slice_count(const ls_cuda_groups &g, uint32_t leaf)
{
    return (leaf_row(g, leaf + 1) - leaf_row(g, leaf) + g.slice_rows - 1) / g.slice_rows;
}

/* The leaf that group `group` belongs to. */
LS_INLINE uint32_t leaf_of_group(const ls_cuda_groups &g, uint32_t group)
{
    uint32_t leaf = 0;
    while (g.first[leaf + 1] <= group) leaf++;
    return leaf;
}

/* Sums that wait: the fold's temporaries (at most 6 for LS_SHARD_MAX leaves, fold.c), then the
 * stack of a leaf's groups, of which there are at most 2^20. */
enum { WAITING = 28 };

typedef float waiting_column[LS_CUDA_FOLD_THREADS];

/* The tree over groups first .. end-1; partials lie `step` apart. */
LS_INLINE float leaf_sum(const float *partial, size_t step, uint32_t first, uint32_t end,
                         waiting_column *stack)
{
    float sum = 0.0f;
    int depth = 0;
    for (uint32_t group = first; group < end; group++) {
        sum = partial[group * step];
        int adds = ls_tree_adds_after(group - first, end - first);
        for (; adds > 0; adds--) sum = stack[--depth][threadIdx.x] + sum;
        stack[depth++][threadIdx.x] = sum;
    }
    return sum;
}

#endif
