/* SPDX-License-Identifier: MIT */
/* flat.cuh -- flat sums in double by a block of threads (docs/numerics.md 1.3).
 *
 * Thread l < 64 makes the chain of lane l over a block of 4096 terms and brings it to flat_push,
 * which adds the lanes and gives the sum to the tree over blocks. Thread 0 keeps the tree.
 */
#ifndef LS_KERNELS_CUDA_FLAT_CUH
#define LS_KERNELS_CUDA_FLAT_CUH

#include "kernels/cuda/device.cuh"

static_assert(LS_FLAT_LANES == 2 * WARP, "a thread per lane, in two warps");

/* In shared memory. */
struct flat_sum {
    double upper[WARP]; /* lanes 32 .. 63 */
    ls_tree_f64 blocks;
};

/* All threads. */
LS_INLINE void flat_open(flat_sum &sum)
{
    if (threadIdx.x == 0) sum.blocks.depth = 0, sum.blocks.leaves = 0;
}

/* All threads, the first 64 with their lane's chain over one block. */
LS_INLINE void flat_push(flat_sum &sum, double lane)
{
    if (threadIdx.x / WARP == 1) sum.upper[threadIdx.x - WARP] = lane;
    __syncthreads();
    if (threadIdx.x < WARP) {
        const double block = flat_lanes(lane + sum.upper[threadIdx.x]);
        if (threadIdx.x == 0) ls_tree_push_f64(&sum.blocks, block);
    }
    __syncthreads(); /* the next push writes upper */
}

#endif
