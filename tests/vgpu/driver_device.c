/* SPDX-License-Identifier: MIT */
/* driver_device.c -- devices and their limits, primary contexts, peer access.
 *
 * A device has one context, the primary one. Its handle is a number, so that a context that is not
 * retained is found out and never followed. Each thread has its own current context.
 *
 * Access is one-way: a context enables that of another, at most config.partners of them, and may
 * then reach its memory from kernels; the other has gained nothing by it.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_BASE = 0x5000, CONTEXT_STEP = 0x100, PCI_DOMAIN = 0xfade };

/* Ordinal + 1 of the calling thread's context. No _Thread_local: the leak checker of gcc 12 stops
 * at thread-local variables of a library that was opened late. */
static pthread_key_t current_key;
static pthread_once_t current_once = PTHREAD_ONCE_INIT;

static void make_current_key(void)
{
    if (pthread_key_create(&current_key, NULL) != 0) abort();
}

/* CUDA C++ Programming Guide, "Technical specifications per compute capability". */
static const vgpu_limits limits[] = {
    { 70, 96, 96, 2048, 32, 0 },       { 75, 64, 64, 1024, 16, 0 },
    { 80, 163, 164, 2048, 32, 1024 },  { 86, 99, 100, 1536, 16, 1024 },
    { 89, 99, 100, 1536, 24, 1024 },   { 90, 227, 228, 2048, 32, 1024 },
    { 100, 227, 228, 2048, 32, 1024 }, { 120, 99, 100, 1536, 24, 1024 },
};

const vgpu_limits *vgpu_limits_of(const vgpu_device *device)
{
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].capability == vgpu.config.capability[device->ordinal]) return &limits[i];
    abort(); /* driver_config.c lets no other capability pass */
}

static bool is_device(CUdevice device) { return device >= 0 && device < vgpu.config.devices; }

/* -- devices ----------------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count)
{
    VGPU_BEGIN(vgpu_enter);
    if (count == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    *count = vgpu.config.devices;
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    VGPU_BEGIN(vgpu_enter);
    if (device == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(ordinal)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (name == NULL || bytes <= 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    if (vgpu.config.name[0] != '\0') snprintf(name, (size_t)bytes, "%s", vgpu.config.name);
    else snprintf(name, (size_t)bytes, "Virtual GPU sm_%d", vgpu.config.capability[device]);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (bytes == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    *bytes = vgpu.config.memory_bytes;
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (uuid == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    memcpy(uuid->bytes, "lockstep vgpu   ", sizeof uuid->bytes);
    uuid->bytes[15] = (char)device;
    return vgpu_leave(CUDA_SUCCESS);
}

/* domain:bus:device.function; no machine has this domain, so nothing is found in its sysfs. */
static void write_pci_bus_id(char *text, size_t bytes, CUdevice device)
{
    snprintf(text, bytes, "%04X:%02X:00.0", PCI_DOMAIN, 1 + device);
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (text == NULL || bytes <= 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    write_pci_bus_id(text, (size_t)bytes, device);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    VGPU_BEGIN(vgpu_enter);
    if (device == NULL || text == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned domain, bus, slot, function = 0;
    const int found = sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function);
    if (found < 3) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (domain != PCI_DOMAIN || bus < 1 || bus > (unsigned)vgpu.config.devices || slot != 0 ||
        function != 0)
        return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = (CUdevice)bus - 1;
    return vgpu_leave(CUDA_SUCCESS);
}

/* False: no such attribute here. */
static bool attribute_of(const vgpu_device *device, CUdevice_attribute attribute, int *value)
{
    const vgpu_limits *l = vgpu_limits_of(device);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: *value = 1024; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: *value = 65535; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; return true;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; return true; /* kHz */
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 256; return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 4 << 20; return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = vgpu.config.multiprocessors;
        return true;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: *value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: *value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = PCI_DOMAIN; return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 1 + device->ordinal; return true;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = l->threads_per_multiprocessor;
        return true;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; return true;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = l->capability / 10; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = l->capability % 10; return true;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: *value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = l->shared_per_multiprocessor * 1024;
        return true;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD: *value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = l->shared_per_block * 1024;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *value = l->blocks_per_multiprocessor;
        return true;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *value = l->shared_reserved;
        return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: *value = -1; return true;
    }
    return false;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (value == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    const bool known = attribute_of(&vgpu.devices[device], attribute, value);
    return vgpu_leave(known ? CUDA_SUCCESS
                            : vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "device attribute %d",
                                          (int)attribute));
}

/* -- contexts ---------------------------------------------------------------------------------- */

static CUcontext context_of(int ordinal)
{
    return (CUcontext)((uintptr_t)CONTEXT_BASE + (uintptr_t)ordinal * CONTEXT_STEP);
}

vgpu_device *vgpu_device_of(CUcontext context)
{
    for (int d = 0; d < vgpu.config.devices; d++)
        if (context == context_of(d) && vgpu.devices[d].retained > 0) return &vgpu.devices[d];
    return NULL;
}

vgpu_device *vgpu_current(void)
{
    pthread_once(&current_once, make_current_key);
    const uintptr_t number = (uintptr_t)pthread_getspecific(current_key);
    if (number == 0 || vgpu.devices[number - 1].retained == 0) return NULL;
    return &vgpu.devices[number - 1];
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (context == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    const CUresult fault = vgpu_fault_of(&vgpu.devices[device]);
    if (fault != CUDA_SUCCESS) return vgpu_leave(fault);
    if (vgpu.devices[device].retained++ == 0) vgpu_trace("gpu%d: context made", device);
    *context = context_of(device);
    return vgpu_leave(CUDA_SUCCESS);
}

/* The last reference is gone: so is all that the context held. */
static void end_context(vgpu_device *device)
{
    vgpu_event_close_all(device);
    vgpu_stream_close_all(device);
    vgpu_module_close_all(device);
    vgpu_memory_free_all(device->ordinal);
    for (int other = 0; other < vgpu.config.devices; other++) {
        vgpu_set_access(device->ordinal, other, false);
        vgpu_set_access(other, device->ordinal, false);
    }
    vgpu_trace("gpu%d: context gone", device->ordinal);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    VGPU_BEGIN(vgpu_enter);
    if (!is_device(device)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    vgpu_device *d = &vgpu.devices[device];
    if (d->retained == 0) return vgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--d->retained == 0) end_context(d);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    VGPU_BEGIN(vgpu_enter);
    const vgpu_device *device = vgpu_device_of(context);
    if (context != NULL && device == NULL) return vgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    pthread_once(&current_once, make_current_key);
    const uintptr_t number = device == NULL ? 0 : (uintptr_t)device->ordinal + 1;
    const int set = pthread_setspecific(current_key, (void *)number);
    return vgpu_leave(set == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    VGPU_BEGIN(vgpu_enter_context);
    if (least != NULL) *least = 0;
    if (greatest != NULL) *greatest = -5;
    return vgpu_leave(CUDA_SUCCESS);
}

/* -- peers ------------------------------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    VGPU_BEGIN(vgpu_enter);
    if (can == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(device) || !is_device(peer)) return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    *can = vgpu.config.access[device][peer]; /* never to itself */
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to)
{
    VGPU_BEGIN(vgpu_enter);
    if (value == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device(from) || !is_device(to) || from == to)
        return vgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = 0; break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = vgpu.config.access[from][to]; break;
    default: return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_device *own = vgpu_current();
    vgpu_device *other = vgpu_device_of(peer);
    if (flags != 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (other == NULL || other == own) return vgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    vgpu_wait_for_kernels(own);
    vgpu_wait_for_kernels(other);
    if (!vgpu.config.access[own->ordinal][other->ordinal])
        return vgpu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (own->has_access[other->ordinal])
        return vgpu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    int partners = 0;
    for (int d = 0; d < vgpu.config.devices; d++) partners += own->has_access[d];
    if (partners >= vgpu.config.partners) return vgpu_leave(CUDA_ERROR_TOO_MANY_PEERS);
    vgpu_set_access(own->ordinal, other->ordinal, true);
    vgpu_trace("gpu%d: may reach the memory of gpu%d", own->ordinal, other->ordinal);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_device *own = vgpu_current();
    vgpu_device *other = vgpu_device_of(peer);
    if (other == NULL) return vgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!own->has_access[other->ordinal])
        return vgpu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    vgpu_wait_for_kernels(own);
    vgpu_set_access(own->ordinal, other->ordinal, false);
    return vgpu_leave(CUDA_SUCCESS);
}
