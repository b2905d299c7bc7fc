/* SPDX-License-Identifier: MIT */
/* table.h -- the ops of a GPU as one table.
 *
 * A build links launch.c, or cuda_absent.c of the folder above, which has none.
 */
#ifndef LS_KERNELS_CUDA_TABLE_H
#define LS_KERNELS_CUDA_TABLE_H

#include "kernels/kernels.h"

/* Find the kernels for `device`, a GPU, and give its table.
 * Errors: DEVICE (a kernel is missing; a build without CUDA), MEMORY. */
LS_MUST_USE ls_status ls_kernels_cuda_table(ls_device *device, const ls_kernels **out);

#endif
