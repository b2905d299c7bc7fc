/* SPDX-License-Identifier: MIT */
/* near_gemm.h -- a product so small that all of it lies in the caches of a core. */
#ifndef LS_KERNELS_HOST_NEAR_GEMM_H
#define LS_KERNELS_HOST_NEAR_GEMM_H

#include "kernels/host/host.h"

/* Make the product on this thread, if it is small and of a kind that is made here. False: it is
 * not, and nothing was done. */
bool LS_HOST(near_gemm)(ls_pool *pool, const ls_gemm_args *args);

#endif
