/* SPDX-License-Identifier: MIT */
/* cuda_abi_check.c -- cuda_abi.h says what the toolkit's headers say. Compiled, never run, and
 * only where a toolkit is: a wrong number or parameter list does not compile.
 */
#include <assert.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#define VGPU_ABI_LISTS_ONLY
#include "cuda_abi.h"

#define CHECK(name, value) static_assert((int)(name) == (value), #name);
#define CHECK_RESULT(name, value, text) CHECK(name, value)
VGPU_RESULTS(CHECK_RESULT)
VGPU_DEVICE_ATTRIBUTES(CHECK)
VGPU_PEER_ATTRIBUTES(CHECK)
VGPU_FUNCTION_ATTRIBUTES(CHECK)
VGPU_JIT_OPTIONS(CHECK)
VGPU_FLAGS(CHECK)

#define CHECK_TYPE(name, type, parameters) \
    static_assert(_Generic((type)0, CUresult(*) parameters: 1, default: 0), #name);
VGPU_ENTRY_POINTS(CHECK_TYPE)

static_assert(_Generic((CUdevice)0, int: 1, default: 0), "CUdevice");
static_assert(_Generic((CUdeviceptr)0, unsigned long long: 1, default: 0), "CUdeviceptr");
static_assert(sizeof(CUuuid) == 16, "CUuuid");
