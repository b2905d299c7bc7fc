/* SPDX-License-Identifier: MIT */
/* cuda_abi.h -- what a program and libcuda.so.1 agree on: types, numbers, entry points.
 *
 * Written down here so that the virtual driver and its tests build where no CUDA toolkit is.
 * Everything is a list: the driver and the tests expand the lists into declarations, and
 * cuda_abi_check.c holds them against the toolkit's own headers. Only what lockstep calls is
 * listed; the virtual driver exports exactly the entry points of VGPU_ENTRY_POINTS.
 */
#ifndef VGPU_CUDA_ABI_H
#define VGPU_CUDA_ABI_H

#include <stddef.h>

#define VGPU_RESULTS(X)                                                                         \
    X(CUDA_SUCCESS, 0, "no error")                                                              \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                          \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                             \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                    \
    X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                      \
    X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                             \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "device is busy or unavailable")                       \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                          \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                 \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                          \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for this device")        \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                 \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported here")             \
    X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                              \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, "uncorrectable NVLink error detected")              \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")             \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX is of an unsupported version")          \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported")            \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                      \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                            \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")              \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")       \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")            \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")              \
    X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                                   \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, "peer mapping resources exhausted")                       \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error")                             \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")            \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                 \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "operation not supported on this address space")   \
    X(CUDA_ERROR_INVALID_PC, 718, "invalid program counter")                                    \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                              \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")    \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                 \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                 \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                           \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

#define VGPU_DEVICE_ATTRIBUTES(X)                          \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)        \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2)              \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3)              \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4)              \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)               \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)               \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7)               \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)  \
    X(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 9)        \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                   \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12)     \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                  \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)        \
    X(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 17)         \
    X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                  \
    X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)         \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)          \
    X(CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 32)                 \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                  \
    X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)               \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)           \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)     \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)               \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39) \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)          \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)          \
    X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)               \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)    \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)    \
    X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78) \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81) \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82) \
    X(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 84)             \
    X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)          \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106) \
    X(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 111) \
    X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134)

#define VGPU_PEER_ATTRIBUTES(X)                            \
    X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)         \
    X(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)         \
    X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)  \
    X(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 4)

#define VGPU_FUNCTION_ATTRIBUTES(X)                        \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)          \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)              \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)               \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)               \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                       \
    X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                    \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                 \
    X(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7)                  \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)  \
    X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)

#define VGPU_JIT_OPTIONS(X)                                \
    X(CU_JIT_MAX_REGISTERS, 0)                             \
    X(CU_JIT_WALL_TIME, 2)                                 \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                           \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                          \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)               \
    X(CU_JIT_OPTIMIZATION_LEVEL, 7)                        \
    X(CU_JIT_GENERATE_LINE_INFO, 13)                       \
    X(CU_JIT_LOG_VERBOSE, 12)

/* Flags that are plain numbers in a call. */
#define VGPU_FLAGS(X)                                      \
    X(CU_STREAM_DEFAULT, 0)                                \
    X(CU_STREAM_NON_BLOCKING, 1)                           \
    X(CU_EVENT_DEFAULT, 0)                                 \
    X(CU_EVENT_BLOCKING_SYNC, 1)                           \
    X(CU_EVENT_DISABLE_TIMING, 2)                          \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                         \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                        \
    X(CU_MEMHOSTALLOC_WRITECOMBINED, 4)

/* X(symbol as dlsym knows it, its type in the toolkit's cudaTypedefs.h, parameters) */
#define VGPU_ENTRY_POINTS(X)                                                                     \
    X(cuInit, PFN_cuInit_v2000, (unsigned flags))                                                \
    X(cuDriverGetVersion, PFN_cuDriverGetVersion_v2020, (int *version))                          \
    X(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000, (int *count))                                \
    X(cuDeviceGet, PFN_cuDeviceGet_v2000, (CUdevice *device, int ordinal))                       \
    X(cuDeviceGetName, PFN_cuDeviceGetName_v2000, (char *name, int bytes, CUdevice device))      \
    X(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000,                                      \
      (int *value, CUdevice_attribute attribute, CUdevice device))                               \
    X(cuDeviceTotalMem_v2, PFN_cuDeviceTotalMem_v3020, (size_t *bytes, CUdevice device))         \
    X(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040, (CUuuid *uuid, CUdevice device))           \
    X(cuDeviceGetPCIBusId, PFN_cuDeviceGetPCIBusId_v4010,                                        \
      (char *text, int bytes, CUdevice device))                                                  \
    X(cuDeviceGetByPCIBusId, PFN_cuDeviceGetByPCIBusId_v4010,                                    \
      (CUdevice *device, const char *text))                                                      \
    X(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000,                              \
      (CUcontext *context, CUdevice device))                                                     \
    X(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000, (CUdevice device))     \
    X(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000, (CUcontext context))                           \
    X(cuCtxGetStreamPriorityRange, PFN_cuCtxGetStreamPriorityRange_v5050,                        \
      (int *least, int *greatest))                                                               \
    X(cuDeviceCanAccessPeer, PFN_cuDeviceCanAccessPeer_v4000,                                    \
      (int *can, CUdevice device, CUdevice peer))                                                \
    X(cuDeviceGetP2PAttribute, PFN_cuDeviceGetP2PAttribute_v8000,                                \
      (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to))                 \
    X(cuCtxEnablePeerAccess, PFN_cuCtxEnablePeerAccess_v4000,                                    \
      (CUcontext peer, unsigned flags))                                                          \
    X(cuCtxDisablePeerAccess, PFN_cuCtxDisablePeerAccess_v4000, (CUcontext peer))                \
    X(cuMemAlloc_v2, PFN_cuMemAlloc_v3020, (CUdeviceptr *address, size_t bytes))                 \
    X(cuMemFree_v2, PFN_cuMemFree_v3020, (CUdeviceptr address))                                  \
    X(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020, (size_t *free_bytes, size_t *total_bytes))        \
    X(cuMemHostAlloc, PFN_cuMemHostAlloc_v2020, (void **memory, size_t bytes, unsigned flags))   \
    X(cuMemFreeHost, PFN_cuMemFreeHost_v2000, (void *memory))                                    \
    X(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020,                                         \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020,                                         \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                               \
    X(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020,                                         \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                         \
    X(cuMemcpyPeerAsync, PFN_cuMemcpyPeerAsync_v4000,                                            \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,           \
       size_t bytes, CUstream stream))                                                           \
    X(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020,                                                \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                      \
    X(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020,                                              \
      (CUdeviceptr to, unsigned value, size_t count, CUstream stream))                           \
    X(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050,                          \
      (CUstream *stream, unsigned flags, int priority))                                          \
    X(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000, (CUstream stream))                          \
    X(cuStreamQuery, PFN_cuStreamQuery_v2000, (CUstream stream))                                 \
    X(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020,                                            \
      (CUstream stream, CUevent event, unsigned flags))                                          \
    X(cuEventCreate, PFN_cuEventCreate_v2000, (CUevent *event, unsigned flags))                  \
    X(cuEventDestroy_v2, PFN_cuEventDestroy_v4000, (CUevent event))                              \
    X(cuEventRecord, PFN_cuEventRecord_v2000, (CUevent event, CUstream stream))                  \
    X(cuEventQuery, PFN_cuEventQuery_v2000, (CUevent event))                                     \
    X(cuEventElapsedTime, PFN_cuEventElapsedTime_v2000,                                          \
      (float *milliseconds, CUevent start, CUevent end))                                         \
    X(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010,                                          \
      (CUmodule *module, const void *image, unsigned count, CUjit_option *options,               \
       void **values))                                                                           \
    X(cuModuleUnload, PFN_cuModuleUnload_v2000, (CUmodule module))                               \
    X(cuModuleGetFunction, PFN_cuModuleGetFunction_v2000,                                        \
      (CUfunction *function, CUmodule module, const char *name))                                 \
    X(cuFuncGetAttribute, PFN_cuFuncGetAttribute_v2020,                                          \
      (int *value, CUfunction_attribute attribute, CUfunction function))                         \
    X(cuFuncSetAttribute, PFN_cuFuncSetAttribute_v9000,                                          \
      (CUfunction function, CUfunction_attribute attribute, int value))                          \
    X(cuLaunchKernel, PFN_cuLaunchKernel_v4000,                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                   \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,              \
       CUstream stream, void **parameters, void **extra))                                        \
    X(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000,                            \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                   \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,              \
       CUstream stream, void **parameters))                                                      \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                               \
      PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050,                                     \
      (int *blocks, CUfunction function, int block_threads, size_t dynamic_shared_bytes))        \
    X(cuGetErrorName, PFN_cuGetErrorName_v6000, (CUresult error, const char **name))             \
    X(cuGetErrorString, PFN_cuGetErrorString_v6000, (CUresult error, const char **text))

#ifndef VGPU_ABI_LISTS_ONLY /* cuda_abi_check.c takes the types from the toolkit */

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

#define VGPU_ENUMERATOR(name, value) name = value,
#define VGPU_RESULT_ENUMERATOR(name, value, text) name = value,
typedef enum { VGPU_RESULTS(VGPU_RESULT_ENUMERATOR) } CUresult;
typedef enum { VGPU_DEVICE_ATTRIBUTES(VGPU_ENUMERATOR) } CUdevice_attribute;
typedef enum { VGPU_PEER_ATTRIBUTES(VGPU_ENUMERATOR) } CUdevice_P2PAttribute;
typedef enum { VGPU_FUNCTION_ATTRIBUTES(VGPU_ENUMERATOR) } CUfunction_attribute;
typedef enum { VGPU_JIT_OPTIONS(VGPU_ENUMERATOR) } CUjit_option;
enum { VGPU_FLAGS(VGPU_ENUMERATOR) };

#define VGPU_PROTOTYPE(name, type, parameters) \
    __attribute__((visibility("default"))) CUresult name parameters;
VGPU_ENTRY_POINTS(VGPU_PROTOTYPE)

#endif
#endif
