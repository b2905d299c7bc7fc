/* SPDX-License-Identifier: MIT */
/* cuda_driver.h -- the NVIDIA driver as a table of functions, and what becomes of its errors.
 *
 * Internal to the CUDA backend. The toolkit's headers give types only; nothing of it is linked.
 *
 * Thread rule: the table is constant once it is there; a driver function may be called from any
 * thread, after ls_cuda_context_enter where it works on a context.
 */
#ifndef LS_DEVICE_CUDA_DRIVER_H
#define LS_DEVICE_CUDA_DRIVER_H

#include <cudaTypedefs.h>

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

/* X(slot, exported name, type). The names are literals because cuda.h renames many functions by
 * macros (cuMemAlloc is cuMemAlloc_v2), and the library exports older ones under the bare name. */
#define LS_CUDA_ENTRY_POINTS(X)                                                                   \
    X(init, "cuInit", PFN_cuInit_v2000)                                                           \
    X(driver_version, "cuDriverGetVersion", PFN_cuDriverGetVersion_v2020)                         \
    X(device_count, "cuDeviceGetCount", PFN_cuDeviceGetCount_v2000)                               \
    X(device_at, "cuDeviceGet", PFN_cuDeviceGet_v2000)                                            \
    X(device_name, "cuDeviceGetName", PFN_cuDeviceGetName_v2000)                                  \
    X(device_attribute, "cuDeviceGetAttribute", PFN_cuDeviceGetAttribute_v2000)                   \
    X(device_total_mem, "cuDeviceTotalMem_v2", PFN_cuDeviceTotalMem_v3020)                        \
    X(device_uuid, "cuDeviceGetUuid_v2", PFN_cuDeviceGetUuid_v11040)                              \
    X(device_pci_bus_id, "cuDeviceGetPCIBusId", PFN_cuDeviceGetPCIBusId_v4010)                    \
    X(device_by_pci_bus_id, "cuDeviceGetByPCIBusId", PFN_cuDeviceGetByPCIBusId_v4010)             \
    X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", PFN_cuDevicePrimaryCtxRetain_v7000)         \
    X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2",                                        \
      PFN_cuDevicePrimaryCtxRelease_v11000)                                                       \
    X(ctx_set_current, "cuCtxSetCurrent", PFN_cuCtxSetCurrent_v4000)                              \
    X(ctx_stream_priority_range, "cuCtxGetStreamPriorityRange",                                   \
      PFN_cuCtxGetStreamPriorityRange_v5050)                                                      \
    X(device_can_access_peer, "cuDeviceCanAccessPeer", PFN_cuDeviceCanAccessPeer_v4000)           \
    X(device_p2p_attribute, "cuDeviceGetP2PAttribute", PFN_cuDeviceGetP2PAttribute_v8000)         \
    X(ctx_enable_peer_access, "cuCtxEnablePeerAccess", PFN_cuCtxEnablePeerAccess_v4000)           \
    X(ctx_disable_peer_access, "cuCtxDisablePeerAccess", PFN_cuCtxDisablePeerAccess_v4000)        \
    X(mem_alloc, "cuMemAlloc_v2", PFN_cuMemAlloc_v3020)                                           \
    X(mem_free, "cuMemFree_v2", PFN_cuMemFree_v3020)                                              \
    X(mem_info, "cuMemGetInfo_v2", PFN_cuMemGetInfo_v3020)                                        \
    X(mem_host_alloc, "cuMemHostAlloc", PFN_cuMemHostAlloc_v2020)                                 \
    X(mem_free_host, "cuMemFreeHost", PFN_cuMemFreeHost_v2000)                                    \
    X(memcpy_h_to_d, "cuMemcpyHtoDAsync_v2", PFN_cuMemcpyHtoDAsync_v3020)                         \
    X(memcpy_d_to_h, "cuMemcpyDtoHAsync_v2", PFN_cuMemcpyDtoHAsync_v3020)                         \
    X(memcpy_d_to_d, "cuMemcpyDtoDAsync_v2", PFN_cuMemcpyDtoDAsync_v3020)                         \
    X(memcpy_peer, "cuMemcpyPeerAsync", PFN_cuMemcpyPeerAsync_v4000)                              \
    X(memset_d8, "cuMemsetD8Async", PFN_cuMemsetD8Async_v3020)                                    \
    X(memset_d32, "cuMemsetD32Async", PFN_cuMemsetD32Async_v3020)                                 \
    X(stream_create, "cuStreamCreateWithPriority", PFN_cuStreamCreateWithPriority_v5050)          \
    X(stream_destroy, "cuStreamDestroy_v2", PFN_cuStreamDestroy_v4000)                            \
    X(stream_query, "cuStreamQuery", PFN_cuStreamQuery_v2000)                                     \
    X(stream_wait_event, "cuStreamWaitEvent", PFN_cuStreamWaitEvent_v3020)                        \
    X(event_create, "cuEventCreate", PFN_cuEventCreate_v2000)                                     \
    X(event_destroy, "cuEventDestroy_v2", PFN_cuEventDestroy_v4000)                               \
    X(event_record, "cuEventRecord", PFN_cuEventRecord_v2000)                                     \
    X(event_query, "cuEventQuery", PFN_cuEventQuery_v2000)                                        \
    X(event_elapsed_time, "cuEventElapsedTime", PFN_cuEventElapsedTime_v2000)                     \
    X(module_load, "cuModuleLoadDataEx", PFN_cuModuleLoadDataEx_v2010)                            \
    X(module_unload, "cuModuleUnload", PFN_cuModuleUnload_v2000)                                  \
    X(module_function, "cuModuleGetFunction", PFN_cuModuleGetFunction_v2000)                      \
    X(func_attribute, "cuFuncGetAttribute", PFN_cuFuncGetAttribute_v2020)                         \
    X(func_set_attribute, "cuFuncSetAttribute", PFN_cuFuncSetAttribute_v9000)                     \
    X(launch, "cuLaunchKernel", PFN_cuLaunchKernel_v4000)                                         \
    X(launch_cooperative, "cuLaunchCooperativeKernel", PFN_cuLaunchCooperativeKernel_v9000)       \
    X(resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                             \
      PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050)                                      \
    X(error_name, "cuGetErrorName", PFN_cuGetErrorName_v6000)                                     \
    X(error_string, "cuGetErrorString", PFN_cuGetErrorString_v6000)

typedef struct {
#define LS_CUDA_SLOT(slot, name, type) type slot;
    LS_CUDA_ENTRY_POINTS(LS_CUDA_SLOT)
#undef LS_CUDA_SLOT
} ls_cuda_driver;

/* Entry points in the order of the table, for names in messages. */
enum {
#define LS_CUDA_INDEX(slot, name, type) LS_CUDA_ENTRY_##slot,
    LS_CUDA_ENTRY_POINTS(LS_CUDA_INDEX)
#undef LS_CUDA_INDEX
    LS_CUDA_ENTRY_COUNT
};
extern const char *const ls_cuda_entry_name[LS_CUDA_ENTRY_COUNT];

/* -- loading ----------------------------------------------------------------------------------- */

/* This process's driver, loaded, new enough and initialised by the first call; NULL, with `*why`
 * for the life of the program, if there is none that can be used. */
const ls_cuda_driver *ls_cuda_driver_open(const char **why);

/* Is there a driver that is new enough? Loads it but does not initialise it. */
bool ls_cuda_driver_is_there(void);

/* Its first half, for a library of any name: not yet initialised. On failure `why` says why, with
 * both version numbers where the driver is too old. The library stays loaded. */
bool ls_cuda_driver_load(const char *library, ls_cuda_driver *out, char *why, size_t why_bytes);

/* -- errors ------------------------------------------------------------------------------------ */

/* LS_OK if the call succeeded. Otherwise a failure that names call, device and what was being done
 * (the format and what follows): MEMORY if the driver ran out of it, else DEVICE. */
#define LS_CUDA(driver, device, slot, arguments, ...)                                             \
    ls_cuda_check_at(__FILE__, __LINE__, (driver), (driver)->slot arguments,                      \
                     LS_CUDA_ENTRY_##slot, (device), __VA_ARGS__)
LS_MUST_USE ls_status ls_cuda_check_at(const char *file, int line, const ls_cuda_driver *driver,
                                       CUresult result, int entry, const char *device,
                                       const char *format, ...) LS_PRINTF(7, 8);

/* "CUDA_ERROR_NO_DEVICE, 100: no CUDA-capable device is detected". Returns `text`, with at most
 * LS_CUDA_MEANING_BYTES of the driver's words: the virtual driver's tell kernel, thread and line
 * (tests/vgpu/README.md), a real one's are short. */
enum { LS_CUDA_MEANING_BYTES = 600, LS_CUDA_RESULT_BYTES = LS_CUDA_MEANING_BYTES + 100 };
const char *ls_cuda_result_text(const ls_cuda_driver *driver, CUresult result,
                                char text[LS_CUDA_RESULT_BYTES]);

#endif
