/* SPDX-License-Identifier: MIT */
/* table.h -- the ops of a GPU as one table.
 *
 * A build links launch.c, or cuda_absent.c of the folder above, which has none.
 */
#ifndef LS_KERNELS_CUDA_TABLE_H
#define LS_KERNELS_CUDA_TABLE_H

#include "kernels/kernels.h"

/* NULL in a build without CUDA. */
const ls_kernels *ls_kernels_cuda_table(void);

#endif
