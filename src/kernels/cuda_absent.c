/* SPDX-License-Identifier: MIT */
/* cuda_absent.c -- the table of ops of a build without CUDA: none. */
#include "kernels/cuda/table.h"

ls_status ls_kernels_cuda_table(ls_device *device, const ls_kernels **out)
{
    *out = NULL;
    return ls_fail(LS_ERR_DEVICE, "%s: this binary was built without CUDA", device->name);
}
