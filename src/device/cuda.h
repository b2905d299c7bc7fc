/* SPDX-License-Identifier: MIT */
/* cuda.h -- the GPUs of this machine: how many are usable, why none is, and how to open one.
 *
 * A build links one of two implementations: the driver's, or cuda_absent.c, which has none. No
 * code asks which.
 */
#ifndef LS_DEVICE_CUDA_H
#define LS_DEVICE_CUDA_H

#include <stdatomic.h>

#include "device/device.h"
#include "status.h"

/* GPUs that can be opened, with ordinals 0 .. count-1. If there is none, `*why` says why, in words
 * that fit behind "no usable GPU: "; it stays valid for the life of the program. */
int ls_cuda_usable_count(const char **why);

/* Open GPU `ordinal`. `progress` may be NULL. Errors: DEVICE, MEMORY. */
LS_MUST_USE ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out);

#endif
