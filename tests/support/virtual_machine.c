/* SPDX-License-Identifier: MIT */
/* virtual_machine.c -- the virtual driver in the hands of a test (virtual_machine.h).
 */
#include "support/virtual_machine.h"

#include <time.h>

#include "support/virtual_kernels.h"

virtual_driver cu;
CUcontext context[VIRTUAL_CONTEXTS];
int device_count;

void open_library(const char *const *settings)
{
    const char *problem = virtual_driver_open(&cu, settings);
    if (problem != NULL) fail_msg("%s", problem);
}

void open_driver(const char *const *settings)
{
    open_library(settings);
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGetCount(&device_count));
    assert_true(device_count <= VIRTUAL_CONTEXTS);
    for (int d = 0; d < device_count; d++) OK(cu.cuDevicePrimaryCtxRetain(&context[d], d));
    OK(cu.cuCtxSetCurrent(context[0]));
}

void close_driver(void)
{
    for (int d = 0; d < device_count; d++) OK(cu.cuDevicePrimaryCtxRelease_v2(d));
    virtual_driver_close(&cu);
}

void abandon_driver(void) { virtual_driver_close(&cu); }

void make_current(int device) { OK(cu.cuCtxSetCurrent(context[device])); }

CUstream new_stream(void)
{
    CUstream s = NULL;
    OK(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    return s;
}

void pause_briefly(void)
{
    const struct timespec t = { .tv_nsec = 50000 };
    nanosleep(&t, NULL);
}

CUresult finish(CUstream s)
{
    CUresult result;
    while ((result = cu.cuStreamQuery(s)) == CUDA_ERROR_NOT_READY) pause_briefly();
    return result;
}

CUevent new_event(void)
{
    CUevent e = NULL;
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

CUdeviceptr new_memory(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cu.cuMemAlloc_v2(&p, bytes));
    return p;
}

unsigned *new_pinned(size_t count)
{
    void *p = NULL;
    OK(cu.cuMemHostAlloc(&p, count * sizeof(unsigned), CU_MEMHOSTALLOC_PORTABLE));
    return p;
}

CUmodule load(void)
{
    CUmodule m = NULL;
    OK(cu.cuModuleLoadDataEx(&m, VIRTUAL_KERNELS("75"), 0, NULL, NULL));
    return m;
}

CUfunction function_of(CUmodule m, const char *name)
{
    CUfunction f = NULL;
    OK(cu.cuModuleGetFunction(&f, m, name));
    return f;
}

CUresult launch_fill(CUfunction f, CUstream s, CUdeviceptr to, unsigned value, unsigned count)
{
    void *parameters[] = { &to, &value, &count };
    return cu.cuLaunchKernel(f, (count + 63) / 64, 1, 1, 64, 1, 1, 0, s, parameters, NULL);
}

CUresult launch_copy(CUfunction f, CUstream s, CUdeviceptr to, CUdeviceptr from, unsigned count)
{
    void *parameters[] = { &to, &from, &count };
    return cu.cuLaunchKernel(f, (count + 63) / 64, 1, 1, 64, 1, 1, 0, s, parameters, NULL);
}

CUresult launch_flag(CUfunction f, CUstream s, CUdeviceptr flag)
{
    void *parameters[] = { &flag };
    return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, parameters, NULL);
}
