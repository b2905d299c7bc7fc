/* SPDX-License-Identifier: MIT */
/* cuda_absent.c -- cuda.h in a build without CUDA: no GPU is usable, and the reason is the build.
 *
 * Only the first functions can be reached: whatever takes a device needs one that was opened.
 */
#include "device/cuda.h"

static const char reason[] = "this binary was built without CUDA";

static ls_status refuse(int ordinal)
{
    return ls_fail(LS_ERR_DEVICE, "cuda:%d: no usable GPU: %s", ordinal, reason);
}

int ls_cuda_usable_count(const char **why)
{
    *why = reason;
    return 0;
}

int ls_cuda_driver_version(void)
{
    return 0;
}

ls_status ls_cuda_facts_read(int ordinal, ls_cuda_facts *out)
{
    *out = (ls_cuda_facts){ .capability = 0 };
    return refuse(ordinal);
}

ls_status ls_cuda_used_bytes(ls_device *device, size_t *out)
{
    *out = 0;
    return refuse(device->ordinal);
}

void ls_cuda_probe(const int *ordinal, int count)
{
    (void)ordinal;
    (void)count;
}

bool ls_cuda_pair_is_proven(int from, int to, const char **why_not)
{
    (void)from;
    (void)to;
    *why_not = reason;
    return false;
}

int ls_cuda_pair_rank(int from, int to)
{
    (void)from;
    (void)to;
    return 0;
}

bool ls_cuda_speed_of(int from, int to, ls_cuda_speed *out)
{
    (void)from;
    (void)to;
    *out = (ls_cuda_speed){ 0 };
    return false;
}

int ls_cuda_partner_max(int ordinal)
{
    (void)ordinal;
    return 0;
}

ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out)
{
    (void)progress;
    *out = NULL;
    return refuse(ordinal);
}
