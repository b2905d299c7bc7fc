/* SPDX-License-Identifier: MIT */
/* test_vgpu_launch.c -- the virtual driver's modules, launches, faults and peers.
 */
#include "support/virtual_machine.h"

#include <pthread.h>
#include <stdatomic.h>

#include "support/virtual_kernels.h"

/* -- modules and launches ---------------------------------------------------------------------- */

static void test_an_image_is_taken_for_what_it_is(void **state)
{
    (void)state;
    static const unsigned char fatbin[64] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0 };
    static const unsigned char cubin[64] = { 0x7f, 'E', 'L', 'F' };
    CUmodule m;
    char log[256] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof log };
    OPEN("DEVICES=1", "CAPABILITY=75");
    assert_int_equal(cu.cuModuleLoadDataEx(&m, fatbin, 0, NULL, NULL),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cu.cuModuleLoadDataEx(&m, cubin, 0, NULL, NULL),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cu.cuModuleLoadDataEx(&m, "hello world", 0, NULL, NULL),
                     CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(cu.cuModuleLoadDataEx(&m, VIRTUAL_KERNELS("80"), 2, options, values),
                     CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "the PTX is for sm_80, gpu0 is sm_75"));
    assert_int_equal((uintptr_t)values[1], strlen(log));
    values[1] = (void *)(uintptr_t)sizeof log;
    assert_int_equal(
        cu.cuModuleLoadDataEx(&m,
                              ".version 7.0\n.target sm_75\n.address_size 64\n"
                              ".visible .entry bad()\n{\nfrobnicate.u32 %r1;\n}\n",
                              2, options, values),
        CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "frobnicate"));
    values[1] = (void *)(uintptr_t)sizeof log;
    OK(cu.cuModuleLoadDataEx(&m, VIRTUAL_KERNELS("75"), 2, options, values));
    assert_int_equal((uintptr_t)values[1], 0);
    OK(cu.cuModuleUnload(m));
    close_driver();
}

static void test_a_kernel_computes_what_its_parameters_say(void **state)
{
    (void)state;
    enum { N = 300 };
    OPEN("DEVICES=1", "THREADS=2");
    const CUmodule m = load();
    const CUfunction fill = function_of(m, "fill"), copy = function_of(m, "copy");
    const CUstream s = new_stream();
    const CUdeviceptr a = new_memory(N * 4), b = new_memory(N * 4);
    unsigned *host = new_pinned(N), count = N;
    OK(launch_fill(fill, s, a, 1000, N));
    void *parameters[] = { (void *)&b, (void *)&a, &count };
    OK(cu.cuLaunchKernel(copy, 5, 1, 1, 64, 1, 1, 0, s, parameters, NULL));
    count = 0; /* the parameters were read at the call */
    OK(cu.cuMemcpyDtoHAsync_v2(host, b, N * 4, s));
    OK(finish(s));
    for (unsigned i = 0; i < N; i++) assert_int_equal(host[i], 1000 + i);
    assert_true(virtual_driver_traced(&cu, "launch fill grid 5x1x1 block 64x1x1 shared 0"));
    OK(cu.cuMemFreeHost(host));
    OK(cu.cuMemFree_v2(a));
    OK(cu.cuMemFree_v2(b));
    OK(cu.cuStreamDestroy_v2(s));
    OK(cu.cuModuleUnload(m));
    close_driver();
}

static void test_each_context_has_its_own_variables(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    for (int d = 0; d < 2; d++) {
        OK(cu.cuCtxSetCurrent(context[d]));
        const CUmodule m = load();
        const CUfunction table_at = function_of(m, "table_at");
        const CUstream s = new_stream();
        CUdeviceptr p = new_memory(4);
        unsigned *host = new_pinned(1), index = 2;
        void *parameters[] = { &p, &index };
        for (unsigned call = 0; call < 3; call++) { /* 33, plus the calls before */
            OK(cu.cuLaunchKernel(table_at, 1, 1, 1, 1, 1, 1, 0, s, parameters, NULL));
            OK(cu.cuMemcpyDtoHAsync_v2(host, p, 4, s));
            OK(finish(s));
            assert_int_equal(*host, 33 + call);
        }
        OK(cu.cuMemFreeHost(host));
        OK(cu.cuMemFree_v2(p));
        OK(cu.cuStreamDestroy_v2(s));
        OK(cu.cuModuleUnload(m));
    }
    close_driver();
}

static void test_a_launch_keeps_to_the_limits_of_device_and_kernel(void **state)
{
    (void)state;
    OPEN("DEVICES=1", "CAPABILITY=75", "SM=2");
    const CUmodule m = load();
    const CUfunction small = function_of(m, "small"), stop = function_of(m, "stop");
    const CUstream s = new_stream();
    int value;
#define LAUNCH(gx, gy, gz, bx, by, bz, shared) \
    cu.cuLaunchKernel(small, gx, gy, gz, bx, by, bz, shared, s, NULL, NULL)
    OK(LAUNCH(1, 1, 1, 8, 8, 1, 0));
    OK(LAUNCH(100, 1, 1, 1, 1, 1, 0));
    assert_int_equal(LAUNCH(0, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(LAUNCH(1, 65536, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(LAUNCH(1, 1, 65536, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(LAUNCH(1, 1, 1, 65, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(LAUNCH(1, 1, 1, 0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuLaunchKernel(stop, 1, 1, 1, 1025, 1, 1, 0, s, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuLaunchKernel(stop, 1, 1, 1, 1, 1, 65, 0, s, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    /* 48 KiB with the static 1 KiB; more after asking, up to the capability's 64. */
    OK(LAUNCH(1, 1, 1, 1, 1, 1, 47 * 1024));
    assert_int_equal(LAUNCH(1, 1, 1, 1, 1, 1, 47 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuFuncSetAttribute(small, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 63 * 1024));
    OK(LAUNCH(1, 1, 1, 1, 1, 1, 63 * 1024));
    assert_int_equal(cu.cuFuncSetAttribute(
                         small, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 63 * 1024 + 1),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuFuncSetAttribute(small, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, small));
    assert_int_equal(value, 64);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, small));
    assert_int_equal(value, 1024);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, small));
    assert_int_equal(value, 63 * 1024);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, small));
    assert_int_equal(value, 75);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, small));
    assert_int_equal(value, 0);
    assert_int_equal(cu.cuModuleGetFunction(&(CUfunction){ NULL }, m, "absent"),
                     CUDA_ERROR_NOT_FOUND);
    OK(finish(s));
    OK(cu.cuStreamDestroy_v2(s));
    OK(cu.cuModuleUnload(m));
    close_driver();
}

static void test_a_cooperative_grid_must_fit_the_device_at_once(void **state)
{
    (void)state;
    int blocks;
    OPEN("DEVICES=1", "CAPABILITY=80", "SM=2");
    const CUmodule m = load();
    const CUfunction small = function_of(m, "small");
    const CUstream s = new_stream();
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 64, 0));
    assert_int_equal(blocks, 32); /* limited by blocks; 2 KiB of 164 each */
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 64, 30 * 1024));
    assert_int_equal(blocks, 5); /* 32 KiB of 164 each */
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 65, 0));
    assert_int_equal(blocks, 0);
    assert_int_equal(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, small, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuLaunchCooperativeKernel(small, 64, 1, 1, 64, 1, 1, 0, s, NULL));
    assert_int_equal(cu.cuLaunchCooperativeKernel(small, 65, 1, 1, 64, 1, 1, 0, s, NULL),
                     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(finish(s));
    OK(cu.cuStreamDestroy_v2(s));
    OK(cu.cuModuleUnload(m));
    close_driver();
}

typedef enum { ALLOCATE, FREE, LOAD, UNLOAD, ENABLE, BLOCKING_CALLS } blocking_call;

typedef struct {
    blocking_call call;
    CUdeviceptr memory;
    CUmodule module;
    atomic_bool returned;
    CUresult result;
} blocked_call;

static CUresult call_it(blocked_call *b)
{
    CUdeviceptr p;
    CUmodule m;
    switch (b->call) {
    case ALLOCATE: return cu.cuMemAlloc_v2(&p, 64);
    case FREE: return cu.cuMemFree_v2(b->memory);
    case LOAD: return cu.cuModuleLoadDataEx(&m, VIRTUAL_KERNELS("75"), 0, NULL, NULL);
    case UNLOAD: return cu.cuModuleUnload(b->module);
    default: return cu.cuCtxEnablePeerAccess(context[1], 0);
    }
}

static void *call_while_a_kernel_runs(void *argument)
{
    blocked_call *b = argument;
    b->result = cu.cuCtxSetCurrent(context[0]);
    if (b->result == CUDA_SUCCESS) b->result = call_it(b);
    atomic_store(&b->returned, true);
    return NULL;
}

/* Starts a kernel that spins on `flag`, and waits until it runs: it says so in pinned memory. */
static void spin_for_sure(CUmodule m, CUstream s, CUdeviceptr flag, unsigned *started)
{
    CUdeviceptr said = (CUdeviceptr)(uintptr_t)started; /* unified addressing */
    void *parameters[] = { &flag, &said };
    *started = 0;
    OK(cu.cuMemsetD32Async(flag, 0, 1, s));
    OK(finish(s));
    OK(cu.cuLaunchKernel(function_of(m, "say_and_spin"), 1, 1, 1, 1, 1, 1, 0, s, parameters,
                         NULL));
    while (__atomic_load_n(started, __ATOMIC_ACQUIRE) == 0) pause_briefly();
}

static void test_calls_that_change_memory_wait_for_the_kernel_that_runs(void **state)
{
    (void)state;
    for (int call = 0; call < BLOCKING_CALLS; call++) {
        pthread_t thread;
        OPEN("DEVICES=2");
        const CUmodule m = load();
        const CUfunction lift = function_of(m, "lift");
        const CUstream s = new_stream(), setter = new_stream();
        const CUdeviceptr flag = new_memory(4);
        unsigned *started = new_pinned(1);
        blocked_call b = { .call = (blocking_call)call, .memory = new_memory(4),
                           .module = load() };
        spin_for_sure(m, s, flag, started);
        assert_int_equal(pthread_create(&thread, NULL, call_while_a_kernel_runs, &b), 0);
        for (int i = 0; i < 20; i++) {
            pause_briefly();
            if (atomic_load(&b.returned)) fail_msg("call %d does not wait", call);
            OK(cu.cuCtxSetCurrent(context[i % 2])); /* others go on */
        }
        make_current(0);
        OK(launch_flag(lift, setter, flag));
        pthread_join(thread, NULL);
        assert_int_equal(b.result, CUDA_SUCCESS);
        OK(finish(s));
        close_driver();
    }
}

/* -- faults and injected failures -------------------------------------------------------------- */

static void test_a_fault_sticks_to_its_device_and_says_what_happened(void **state)
{
    (void)state;
    const char *text;
    CUdeviceptr p;
    OPEN("DEVICES=2");
    const CUmodule m = load();
    const CUstream s = new_stream();
    OK(launch_fill(function_of(m, "fill"), s, new_memory(64), 1, 17));
    assert_int_equal(finish(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.cuStreamDestroy_v2(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cu.cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_non_null(strstr(text, "illegal memory access"));
    assert_non_null(strstr(text, "fill"));
    make_current(1); /* the other device is well */
    OK(cu.cuMemAlloc_v2(&p, 4));
    abandon_driver();
}

static void test_a_fault_may_end_the_whole_process(void **state)
{
    (void)state;
    CUdeviceptr p;
    OPEN("DEVICES=16", "STICKY=process");
    const CUmodule m = load();
    const CUstream s = new_stream();
    OK(cu.cuLaunchKernel(function_of(m, "stop"), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    for (long i = 0; i < 1L << 30 && cu.cuStreamQuery(s) == CUDA_ERROR_NOT_READY; i++) { }
    /* no pause: at once on the others */
    for (int device = 15; device >= 0; device--) {
        make_current(device);
        assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_LAUNCH_FAILED);
    }
    abandon_driver();
}

static void test_a_kernel_that_never_ends_is_ended_by_the_budget(void **state)
{
    (void)state;
    OPEN("DEVICES=1", "BUDGET=100000");
    const CUmodule m = load();
    const CUstream s = new_stream();
    const CUdeviceptr flag = new_memory(4);
    OK(cu.cuMemsetD32Async(flag, 0, 1, s));
    OK(launch_flag(function_of(m, "spin"), s, flag));
    assert_int_equal(finish(s), CUDA_ERROR_LAUNCH_TIMEOUT);
    abandon_driver();
}

static void test_use_of_freed_memory_and_of_a_peer_without_access_are_faults(void **state)
{
    (void)state;
    static const char *const whys[] = { "freed", "no access" };
    for (int i = 0; i < 2; i++) {
        OPEN("DEVICES=2");
        CUdeviceptr p = new_memory(64);
        if (i == 0) OK(cu.cuMemFree_v2(p));
        if (i == 1) {
            make_current(1);
            p = new_memory(64);
            make_current(0);
        }
        const CUmodule m = load();
        const CUstream s = new_stream();
        OK(launch_fill(function_of(m, "fill"), s, p, 1, 16));
        assert_int_equal(finish(s), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_true(virtual_driver_traced(&cu, whys[i]));
        abandon_driver();
    }
}

static void test_a_read_of_what_nobody_wrote_is_reported(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUmodule m = load();
    const CUstream s = new_stream();
    CUdeviceptr a = new_memory(64), b = new_memory(64);
    unsigned count = 16;
    void *parameters[] = { &b, &a, &count };
    OK(cu.cuMemsetD8Async(a, 0, 63, s)); /* one byte is missing */
    OK(cu.cuLaunchKernel(function_of(m, "copy"), 1, 1, 1, 16, 1, 1, 0, s, parameters, NULL));
    assert_int_equal(finish(s), CUDA_ERROR_ASSERT);
    abandon_driver();
}

static void test_a_copy_carries_what_is_defined_and_what_is_not(void **state)
{
    (void)state;
    for (int defined = 0; defined <= 1; defined++) {
        OPEN("DEVICES=1");
        const CUfunction copy = function_of(load(), "copy");
        const CUstream s = new_stream();
        const CUdeviceptr a = new_memory(64), b = new_memory(64), c = new_memory(64);
        unsigned *host = new_pinned(16);
        if (defined) OK(cu.cuMemcpyHtoDAsync_v2(a, host, 64, s));
        OK(cu.cuMemcpyDtoDAsync_v2(b, a, 64, s));
        OK(launch_copy(copy, s, c, b, 16));
        assert_int_equal(finish(s), defined ? CUDA_SUCCESS : CUDA_ERROR_ASSERT);
        if (defined) close_driver();
        else abandon_driver();
    }
}

static void test_the_nth_use_of_a_call_fails_as_asked(void **state)
{
    (void)state;
    CUdeviceptr p;
    OPEN("DEVICES=1", "FAIL=cuMemAlloc_v2@2=2,cuEventCreate@2+=801,cuStreamQuery@*=46");
    CUevent e;
    const CUstream s = new_stream();
    OK(cu.cuMemAlloc_v2(&p, 4));
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuEventCreate(&e, 0));
    assert_int_equal(cu.cuEventCreate(&e, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuEventCreate(&e, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cu.cuStreamQuery(s), CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_true(virtual_driver_traced(&cu, "injected: cuMemAlloc_v2 use 2 fails with 2"));
    close_driver();
}

static void test_an_injected_fault_sticks_like_a_real_one(void **state)
{
    (void)state;
    CUdeviceptr p;
    OPEN("DEVICES=2", "FAIL=cuMemAlloc_v2@1=719");
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_LAUNCH_FAILED);
    make_current(1);
    OK(cu.cuMemAlloc_v2(&p, 4));
    abandon_driver();
}

/* -- peers ------------------------------------------------------------------------------------- */

static int can_access(int a, int b)
{
    int can = -1, supported = -1;
    OK(cu.cuDeviceCanAccessPeer(&can, a, b));
    if (a == b) return can;
    OK(cu.cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a, b));
    assert_int_equal(can, supported);
    return can;
}

static void test_the_matrix_of_pairs_is_what_was_asked_for(void **state)
{
    (void)state;
    OPEN("DEVICES=4", "P2P=all,!0-1,!2>3");
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            const bool missing = a == b || (a == 0 && b == 1) || (a == 1 && b == 0) ||
                                 (a == 2 && b == 3);
            assert_int_equal(can_access(a, b), !missing);
        }
    assert_int_equal(cu.cuCtxEnablePeerAccess(context[1], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    close_driver();
    OPEN("DEVICES=3", "P2P=none,0-1,1>2");
    assert_int_equal(can_access(0, 1) + can_access(1, 0) + can_access(1, 2), 3);
    assert_int_equal(can_access(2, 1) + can_access(0, 2) + can_access(2, 0), 0);
    int value;
    assert_int_equal(
        cu.cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1, 1),
        CUDA_ERROR_INVALID_DEVICE);
    close_driver();
}

static void test_access_goes_one_way_and_ends(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    const CUmodule m = load();
    const CUstream s = new_stream();
    make_current(1);
    const CUdeviceptr far = new_memory(64);
    assert_int_equal(cu.cuCtxDisablePeerAccess(context[0]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    make_current(0);
    OK(cu.cuCtxEnablePeerAccess(context[1], 0));
    assert_int_equal(cu.cuCtxEnablePeerAccess(context[1], 0),
                     CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_int_equal(cu.cuCtxEnablePeerAccess(context[0], 0), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.cuCtxEnablePeerAccess(context[1], 1), CUDA_ERROR_INVALID_VALUE);
    OK(launch_fill(function_of(m, "fill"), s, far, 1, 16));
    OK(finish(s));
    OK(cu.cuCtxDisablePeerAccess(context[1]));
    OK(launch_fill(function_of(m, "fill"), s, far, 1, 16));
    assert_int_equal(finish(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    abandon_driver();
}

static void test_a_device_has_at_most_eight_partners(void **state)
{
    (void)state;
    OPEN("DEVICES=10");
    for (int d = 1; d <= 8; d++) OK(cu.cuCtxEnablePeerAccess(context[d], 0));
    assert_int_equal(cu.cuCtxEnablePeerAccess(context[9], 0), CUDA_ERROR_TOO_MANY_PEERS);
    OK(cu.cuCtxDisablePeerAccess(context[3]));
    OK(cu.cuCtxEnablePeerAccess(context[9], 0));
    close_driver();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_image_is_taken_for_what_it_is),
        cmocka_unit_test(test_a_kernel_computes_what_its_parameters_say),
        cmocka_unit_test(test_each_context_has_its_own_variables),
        cmocka_unit_test(test_a_launch_keeps_to_the_limits_of_device_and_kernel),
        cmocka_unit_test(test_a_cooperative_grid_must_fit_the_device_at_once),
        cmocka_unit_test(test_calls_that_change_memory_wait_for_the_kernel_that_runs),
        cmocka_unit_test(test_a_fault_sticks_to_its_device_and_says_what_happened),
        cmocka_unit_test(test_a_fault_may_end_the_whole_process),
        cmocka_unit_test(test_a_kernel_that_never_ends_is_ended_by_the_budget),
        cmocka_unit_test(test_use_of_freed_memory_and_of_a_peer_without_access_are_faults),
        cmocka_unit_test(test_a_read_of_what_nobody_wrote_is_reported),
        cmocka_unit_test(test_a_copy_carries_what_is_defined_and_what_is_not),
        cmocka_unit_test(test_the_nth_use_of_a_call_fails_as_asked),
        cmocka_unit_test(test_an_injected_fault_sticks_like_a_real_one),
        cmocka_unit_test(test_the_matrix_of_pairs_is_what_was_asked_for),
        cmocka_unit_test(test_access_goes_one_way_and_ends),
        cmocka_unit_test(test_a_device_has_at_most_eight_partners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
