/* SPDX-License-Identifier: MIT */
/* near_gemm.h -- a product so small that all of it lies in the caches of a core. */
#ifndef LS_KERNELS_HOST_NEAR_GEMM_H
#define LS_KERNELS_HOST_NEAR_GEMM_H

#include "kernels/host/split.h"

/* Floats of A and B, of C, and terms of a chain, at most: A and C in 32 KiB each at most, as of
 * 64x128x64, and a panel as well; nothing is asked for ahead. */
enum { LS_NEAR_OPERANDS = 1 << 14, LS_NEAR_RESULT = 1 << 13, LS_NEAR_DEPTH = 256 };

/* Is a product of M x N chains of K terms so small, and one thread's? */
static inline bool ls_is_near(const ls_pool *pool, size_t M, size_t N, size_t K)
{
    if (K > LS_NEAR_DEPTH || (M + N) * K > LS_NEAR_OPERANDS || M * N > LS_NEAR_RESULT) return false;
    return M * N * K < LS_TASK_WORK_MIN || ls_pool_thread_count(pool) == 1;
}

/* Make the product on this thread, if it is small and of a kind that is made here. False: it is
 * not, and nothing was done. */
bool LS_HOST(near_gemm)(ls_pool *pool, const ls_gemm_args *args);

#endif
