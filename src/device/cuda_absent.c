/* SPDX-License-Identifier: MIT */
/* cuda_absent.c -- cuda.h in a build without CUDA: no GPU is usable, and the reason is the build.
 */
#include "device/cuda.h"

static const char reason[] = "this binary was built without CUDA";

int ls_cuda_usable_count(const char **why)
{
    *why = reason;
    return 0;
}

ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out)
{
    (void)progress;
    *out = NULL;
    return ls_fail(LS_ERR_DEVICE, "cuda:%d: no usable GPU: %s", ordinal, reason);
}
