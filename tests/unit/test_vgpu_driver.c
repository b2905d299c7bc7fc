/* SPDX-License-Identifier: MIT */
/* test_vgpu_driver.c -- the virtual driver's library, devices, contexts, streams and events.
 *
 * Each test opens a driver of its own (support/virtual_machine.h). Modules, launches, faults and
 * peers: test_vgpu_launch.c. Order between streams: test_vgpu_order.c.
 */
#include "support/virtual_machine.h"

#include <dlfcn.h>
#include <pthread.h>

/* -- the library ------------------------------------------------------------------------------- */

static void test_only_the_entry_points_are_exported(void **state)
{
    (void)state;
    static const char *const absent[] = { "cuStreamSynchronize", "cuCtxSynchronize",
                                          "cuGetProcAddress",    "cuGetProcAddress_v2",
                                          "cuMemAlloc",          "cuMemAllocAsync",
                                          "cuMemcpyHtoD_v2",     "cuLaunchHostFunc",
                                          "vgpu_run",            "vgpu_enter" };
    open_library((const char *const[]){ NULL });
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(dlsym(cu.library, absent[i]));
    virtual_driver_close(&cu);
}

static void test_nothing_works_before_initialization_but_version_and_errors(void **state)
{
    (void)state;
    int value;
    const char *text;
    open_library((const char *const[]){ "VERSION=12040", NULL });
    OK(cu.cuDriverGetVersion(&value));
    assert_int_equal(value, 12040);
    assert_int_equal(cu.cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
    OK(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    assert_int_equal(cu.cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
    virtual_driver_close(&cu);
}

static void test_a_machine_may_have_no_device(void **state)
{
    (void)state;
    open_library((const char *const[]){ "DEVICES=0", NULL });
    assert_int_equal(cu.cuInit(0), CUDA_ERROR_NO_DEVICE);
    virtual_driver_close(&cu);
}

static void test_a_setting_that_is_not_understood_is_no_default(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "DEVICES=73",          "DEVICES=two",        "CAPABILITY=81",       "P2P=0-0",
        "P2P=0-7",             "P2P=most",           "FAIL=cuMemAlloc@1=2", "FAIL=cuInit@0=2",
        "FAIL=cuInit@1",       "LINKS=0>1:broken",   "LINKS=0>1",           "STRICT=2",
        "STICKY=always",       "MEMORY=1T",          "JITTER=-1",           "MEMORY=12 ",
        "OTHERS=2G",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *text;
        open_library((const char *const[]){ bad[i], NULL });
        if (cu.cuInit(0) != CUDA_ERROR_SYSTEM_NOT_READY) fail_msg("%s passes", bad[i]);
        assert_int_equal(cu.cuGetErrorString(CUDA_ERROR_UNKNOWN, &text),
                         CUDA_ERROR_SYSTEM_NOT_READY);
        virtual_driver_close(&cu);
    }
    open_library((const char *const[]){ NULL });
    setenv("LOCKSTEP_VGPU_STRIKT", "1", 1);
    assert_int_equal(cu.cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
    unsetenv("LOCKSTEP_VGPU_STRIKT");
    virtual_driver_close(&cu);
}

/* -- devices and contexts ---------------------------------------------------------------------- */

static int attribute(CUdevice_attribute which, int device)
{
    int value = -1;
    OK(cu.cuDeviceGetAttribute(&value, which, device));
    return value;
}

static void test_a_device_calls_itself_what_it_is_told(void **state)
{
    (void)state;
    char name[64];
    OPEN("DEVICES=1", "NAME=Test GPU");
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "Test GPU");
    close_driver();
}

static void test_a_device_says_what_it_is(void **state)
{
    (void)state;
    char name[64], bus[32];
    CUuuid first, second;
    size_t bytes;
    CUdevice device;
    OPEN("DEVICES=3", "CAPABILITY=75,90", "MEMORY=64M", "OTHERS=16M", "SM=7");
    assert_int_equal(device_count, 3);
    OK(cu.cuDeviceGet(&device, 2));
    assert_int_equal(device, 2);
    assert_int_equal(cu.cuDeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    assert_string_equal(name, "Virtual GPU sm_75");
    OK(cu.cuDeviceGetName(name, 8, 0));
    assert_string_equal(name, "Virtual");
    OK(cu.cuDeviceTotalMem_v2(&bytes, 0));
    assert_int_equal(bytes, 64 << 20);
    OK(cu.cuDeviceGetUuid_v2(&first, 0));
    OK(cu.cuDeviceGetUuid_v2(&second, 1));
    assert_memory_not_equal(&first, &second, sizeof first);
    for (int d = 0; d < 3; d++) {
        OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, d));
        OK(cu.cuDeviceGetByPCIBusId(&device, bus));
        assert_int_equal(device, d);
    }
    assert_int_equal(cu.cuDeviceGetByPCIBusId(&device, "0000:01:00.0"), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cu.cuDeviceGetByPCIBusId(&device, "gpu"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), 7);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), 5);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2), 9);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), 7);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0), 65536);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 1),
                     227 * 1024);
    assert_int_equal(cu.cuDeviceGetAttribute(&(int){ 0 }, (CUdevice_attribute)9999, 0),
                     CUDA_ERROR_INVALID_VALUE);
    close_driver();
}

static void test_every_listed_attribute_has_a_value(void **state)
{
    (void)state;
    int value;
    OPEN("DEVICES=1");
#define HAS_VALUE(name, number) OK(cu.cuDeviceGetAttribute(&value, name, 0));
    VGPU_DEVICE_ATTRIBUTES(HAS_VALUE)
    close_driver();
}

static void test_a_thread_needs_a_context_that_is_retained(void **state)
{
    (void)state;
    CUdeviceptr p;
    int least, greatest;
    OPEN("DEVICES=2");
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    OK(cu.cuCtxSetCurrent(NULL));
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    make_current(1);
    OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuCtxSetCurrent(context[1]), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234), CUDA_ERROR_INVALID_CONTEXT);
    OK(cu.cuDevicePrimaryCtxRetain(&context[1], 1));
    close_driver();
}

static void *allocate_elsewhere(void *result)
{
    CUdeviceptr p;
    *(CUresult *)result = cu.cuMemAlloc_v2(&p, 4);
    return NULL;
}

static void test_the_current_context_is_of_its_thread_alone(void **state)
{
    (void)state;
    pthread_t thread;
    CUresult result = CUDA_SUCCESS;
    OPEN("DEVICES=1");
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, CUDA_ERROR_INVALID_CONTEXT);
    close_driver();
}

/* -- streams and events ------------------------------------------------------------------------ */

static void test_events_tell_what_was_recorded_before_the_call(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    const CUmodule m = load();
    const CUfunction spin = function_of(m, "spin");
    const CUstream s = new_stream(), setter = new_stream();
    const CUdeviceptr flag = new_memory(4);
    CUevent e;
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventQuery(e)); /* never recorded: complete, as the driver says */
    OK(cu.cuMemsetD32Async(flag, 0, 1, s));
    OK(finish(s));
    OK(cu.cuEventRecord(e, s));
    OK(launch_flag(spin, s, flag));
    while (cu.cuEventQuery(e) == CUDA_ERROR_NOT_READY) pause_briefly();
    OK(cu.cuEventQuery(e));
    assert_int_equal(cu.cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    OK(cu.cuEventRecord(e, s)); /* behind the kernel */
    assert_int_equal(cu.cuEventQuery(e), CUDA_ERROR_NOT_READY);
    /* A stream of another device waits for it. */
    make_current(1);
    const CUstream waiting = new_stream();
    OK(cu.cuStreamWaitEvent(waiting, e, 0));
    assert_int_equal(cu.cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    make_current(0);
    OK(launch_flag(function_of(m, "lift"), setter, flag));
    OK(finish(s));
    OK(cu.cuEventQuery(e));
    make_current(1);
    OK(finish(waiting));
    assert_true(virtual_driver_traced(&cu, "wait for gpu0 stream"));
    OK(cu.cuStreamDestroy_v2(waiting));
    make_current(0);
    OK(cu.cuEventDestroy_v2(e));
    OK(cu.cuStreamDestroy_v2(s));
    OK(cu.cuStreamDestroy_v2(setter));
    OK(cu.cuMemFree_v2(flag));
    OK(cu.cuModuleUnload(m));
    close_driver();
}

static void test_elapsed_time_needs_two_timed_and_complete_events(void **state)
{
    (void)state;
    CUevent a, b, untimed;
    float ms = -1;
    OPEN("DEVICES=1");
    const CUstream s = new_stream();
    OK(cu.cuEventCreate(&a, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&b, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuEventRecord(a, s));
    OK(cu.cuEventRecord(b, s));
    OK(cu.cuEventRecord(untimed, s));
    OK(finish(s));
    OK(cu.cuEventElapsedTime(&ms, a, b));
    assert_true(ms >= 0);
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventCreate(&a, 64), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuEventDestroy_v2(a));
    OK(cu.cuEventDestroy_v2(b));
    OK(cu.cuEventDestroy_v2(untimed));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_a_stale_or_foreign_handle_is_refused(void **state)
{
    (void)state;
    CUevent e, of_other;
    OPEN("DEVICES=2");
    const CUstream s = new_stream();
    const CUmodule m = load();
    const CUfunction small = function_of(m, "small");
    OK(cu.cuEventCreate(&e, 0));
    make_current(1);
    const CUstream other = new_stream();
    OK(cu.cuEventCreate(&of_other, 0));
    assert_int_equal(cu.cuEventRecord(of_other, s), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventRecord(e, other), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuStreamDestroy_v2(other));
    OK(cu.cuEventDestroy_v2(of_other));
    assert_int_equal(cu.cuStreamDestroy_v2(other), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuStreamQuery(other), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventQuery(of_other), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventQuery((CUevent)(void *)s), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuEventQuery((CUevent)(void *)&e), CUDA_ERROR_INVALID_HANDLE);
    make_current(0);
    assert_int_equal(cu.cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuModuleUnload(m));
    assert_int_equal(cu.cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuEventDestroy_v2(e));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_a_destroyed_stream_still_does_its_work(void **state)
{
    (void)state;
    CUevent e;
    OPEN("DEVICES=1", "JITTER=2000");
    const CUdeviceptr p = new_memory(4);
    unsigned *host = new_pinned(1);
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 20; i++) { /* also: places of ended streams are used again */
        const CUstream s = new_stream();
        OK(cu.cuMemsetD32Async(p, i, 1, s));
        OK(cu.cuMemcpyDtoHAsync_v2(host, p, 4, s));
        OK(cu.cuEventRecord(e, s));
        OK(cu.cuStreamDestroy_v2(s));
        while (cu.cuEventQuery(e) == CUDA_ERROR_NOT_READY) pause_briefly();
        assert_int_equal(*host, i);
    }
    OK(cu.cuEventDestroy_v2(e));
    OK(cu.cuMemFreeHost(host));
    OK(cu.cuMemFree_v2(p));
    close_driver();
}

static void test_the_null_stream_orders_blocking_streams_only(void **state)
{
    (void)state;
    CUstream blocking;
    OPEN("DEVICES=1", "STRICT=0");
    const CUmodule m = load();
    const CUfunction spin = function_of(m, "spin");
    const CUstream free_running = new_stream();
    const CUdeviceptr flag = new_memory(4), p = new_memory(4);
    OK(cu.cuStreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0));
    OK(cu.cuMemsetD32Async(flag, 0, 1, free_running));
    OK(finish(free_running));
    OK(launch_flag(spin, blocking, flag));
    OK(cu.cuMemsetD32Async(p, 5, 1, NULL));
    assert_int_equal(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    /* This does not wait for the NULL stream: */
    OK(launch_flag(function_of(m, "lift"), free_running, flag));
    OK(finish(NULL));
    OK(cu.cuStreamQuery(blocking));
    OK(cu.cuStreamDestroy_v2(blocking));
    OK(cu.cuStreamDestroy_v2(free_running));
    OK(cu.cuMemFree_v2(flag));
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuModuleUnload(m));
    close_driver();
}

static void test_the_null_stream_is_reported_in_strict_mode(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    (void)cu.cuMemsetD32Async(new_memory(4), 5, 1, NULL);
    assert_true(virtual_driver_traced(&cu, "report: gpu0: the NULL stream is used"));
    abandon_driver();
}

static void test_a_wait_for_an_event_never_recorded_is_reported(void **state)
{
    (void)state;
    const char *text;
    CUevent e;
    OPEN("DEVICES=1", "STRICT=0");
    const CUstream lenient = new_stream();
    OK(cu.cuEventCreate(&e, 0));
    OK(cu.cuStreamWaitEvent(lenient, e, 0));
    OK(finish(lenient));
    OK(cu.cuEventDestroy_v2(e));
    OK(cu.cuStreamDestroy_v2(lenient));
    close_driver();
    OPEN("DEVICES=1");
    const CUstream s = new_stream();
    OK(cu.cuEventCreate(&e, 0));
    (void)cu.cuStreamWaitEvent(s, e, 0);
    assert_int_equal(cu.cuStreamQuery(s), CUDA_ERROR_ASSERT);
    OK(cu.cuGetErrorString(CUDA_ERROR_ASSERT, &text));
    assert_non_null(strstr(text, "never recorded"));
    abandon_driver();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_entry_points_are_exported),
        cmocka_unit_test(test_nothing_works_before_initialization_but_version_and_errors),
        cmocka_unit_test(test_a_machine_may_have_no_device),
        cmocka_unit_test(test_a_setting_that_is_not_understood_is_no_default),
        cmocka_unit_test(test_a_device_calls_itself_what_it_is_told),
        cmocka_unit_test(test_a_device_says_what_it_is),
        cmocka_unit_test(test_every_listed_attribute_has_a_value),
        cmocka_unit_test(test_a_thread_needs_a_context_that_is_retained),
        cmocka_unit_test(test_the_current_context_is_of_its_thread_alone),
        cmocka_unit_test(test_events_tell_what_was_recorded_before_the_call),
        cmocka_unit_test(test_elapsed_time_needs_two_timed_and_complete_events),
        cmocka_unit_test(test_a_stale_or_foreign_handle_is_refused),
        cmocka_unit_test(test_a_destroyed_stream_still_does_its_work),
        cmocka_unit_test(test_the_null_stream_orders_blocking_streams_only),
        cmocka_unit_test(test_the_null_stream_is_reported_in_strict_mode),
        cmocka_unit_test(test_a_wait_for_an_event_never_recorded_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
