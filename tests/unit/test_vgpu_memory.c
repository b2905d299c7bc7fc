/* SPDX-License-Identifier: MIT */
/* test_vgpu_memory.c -- the virtual driver's memory of both kinds, copies and fills.
 *
 * Each test opens a driver of its own (support/virtual_machine.h).
 */
#include "support/fresh_process.h"
#include "support/virtual_machine.h"

#include <stdio.h>

/* -- memory ------------------------------------------------------------------------------------ */

static void test_memory_is_counted_and_runs_out(void **state)
{
    (void)state;
    size_t free_bytes, total_bytes;
    CUdeviceptr more;
    OPEN("DEVICES=2", "MEMORY=1M", "OTHERS=256K");
    const CUdeviceptr p = new_memory(512 << 10);
    OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    assert_int_equal(total_bytes, 1 << 20);
    assert_int_equal(free_bytes, 256 << 10);
    assert_int_equal(cu.cuMemAlloc_v2(&more, (256 << 10) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemAlloc_v2(&more, 0), CUDA_ERROR_INVALID_VALUE);
    make_current(1);
    OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 768 << 10);
    make_current(0);
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 768 << 10);
    close_driver();
}

static void test_an_address_is_aligned_and_never_given_out_again(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    CUdeviceptr before = 0;
    for (int i = 0; i < 20; i++) {
        const CUdeviceptr p = new_memory(1 + (size_t)i * 1000);
        assert_int_equal(p % 512, 0);
        assert_true(p > before);
        before = p;
        OK(cu.cuMemFree_v2(p));
        assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    }
    make_current(1);
    const CUdeviceptr other = new_memory(4);
    assert_true(other - before > (UINT64_C(1) << 35));
    assert_int_equal(cu.cuMemFree_v2(other + 4), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemFree_v2(other));
    OK(cu.cuMemFree_v2(0));
    close_driver();
}

static void test_fresh_memory_is_not_a_number(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUstream s = new_stream();
    const CUdeviceptr p = new_memory(16);
    unsigned *host = new_pinned(4);
    memset(host, 0, 16);
    OK(cu.cuMemcpyDtoHAsync_v2(host, p, 16, s));
    OK(finish(s));
    for (int i = 0; i < 4; i++) assert_int_equal(host[i], 0xffffffffu);
    OK(cu.cuMemFreeHost(host));
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_pinned_memory_is_counted_and_runs_out(void **state)
{
    (void)state;
    void *p, *more;
    OPEN("DEVICES=1", "PINNED=64K");
    OK(cu.cuMemHostAlloc(&p, 40000, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    assert_int_equal(cu.cuMemHostAlloc(&more, 40000, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.cuMemHostAlloc(&more, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemHostAlloc(&more, 4, 64), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemFreeHost((char *)p + 4), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemFreeHost(p));
    assert_int_equal(cu.cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemHostAlloc(&more, 40000, 0));
    OK(cu.cuMemFreeHost(more));
    close_driver();
}

/* -- copies ------------------------------------------------------------------------------------ */

static void test_bytes_go_to_a_device_within_it_and_back(void **state)
{
    (void)state;
    OPEN("DEVICES=1", "JITTER=200");
    const CUstream s = new_stream();
    const CUdeviceptr a = new_memory(4000), b = new_memory(4000);
    unsigned *from = new_pinned(1000), *to = new_pinned(1000);
    for (unsigned i = 0; i < 1000; i++) from[i] = i * 7;
    OK(cu.cuMemcpyHtoDAsync_v2(a, from, 4000, s));
    OK(cu.cuMemcpyDtoDAsync_v2(b + 4, a, 3996, s));
    OK(cu.cuMemsetD8Async(b, 0xab, 3, s));
    OK(cu.cuMemsetD32Async(b + 8, 0x12345678, 2, s));
    OK(cu.cuMemcpyDtoHAsync_v2(to, b, 4000, s));
    OK(finish(s));
    assert_int_equal(to[0], 0xffababab);
    assert_int_equal(to[1], 0);
    assert_int_equal(to[2], 0x12345678);
    assert_int_equal(to[3], 0x12345678);
    for (unsigned i = 4; i < 1000; i++) assert_int_equal(to[i], (i - 1) * 7);
    OK(cu.cuMemFreeHost(from));
    OK(cu.cuMemFreeHost(to));
    OK(cu.cuMemFree_v2(a));
    OK(cu.cuMemFree_v2(b));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_copies_and_fills_outside_of_memory_are_refused(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    const CUstream s = new_stream();
    const CUdeviceptr p = new_memory(64);
    unsigned *host = new_pinned(16);
    assert_int_equal(cu.cuMemcpyHtoDAsync_v2(p, host, 65, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyHtoDAsync_v2(p + 32, host, 33, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyHtoDAsync_v2(p + 64, host, 4, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyHtoDAsync_v2(p - 1, host, 4, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyDtoHAsync_v2(host + 8, p, 40, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyDtoHAsync_v2((void *)(uintptr_t)p, p, 4, s),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)host, host, 4, s),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemcpyDtoDAsync_v2(p, p + 60, 8, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemsetD8Async(p, 0, 65, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemsetD32Async(p + 2, 0, 1, s), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.cuMemsetD32Async(p, 0, SIZE_MAX / 2, s), CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemcpyHtoDAsync_v2(p + 64, host, 0, s)); /* zero bytes: nothing */
    assert_int_equal(cu.cuMemcpyPeerAsync(p, context[1], p, context[0], 4, s),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemFreeHost(host));
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_memory_freed_before_its_copy_runs_is_a_fault(void **state)
{
    (void)state;
    OPEN("DEVICES=2");
    const CUdeviceptr flag = new_memory(4), p = new_memory(64);
    const CUstream s = new_stream(), setter = new_stream();
    const CUmodule m = load();
    const CUfunction spin = function_of(m, "spin");
    OK(cu.cuMemsetD32Async(flag, 0, 1, setter));
    OK(finish(setter));
    /* The copy cannot run before the kernel has ended; the other device's memory may be freed. */
    make_current(1);
    const CUdeviceptr other = new_memory(64);
    make_current(0);
    OK(launch_flag(spin, s, flag));
    OK(cu.cuMemcpyPeerAsync(other, context[1], p, context[0], 64, s));
    make_current(1);
    OK(cu.cuMemFree_v2(other));
    make_current(0);
    OK(launch_flag(function_of(m, "lift"), setter, flag));
    assert_int_equal(finish(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(virtual_driver_traced(&cu, "freed before it ran"));
    abandon_driver();
}

static void test_pageable_memory_is_read_at_the_call_and_written_before_it_returns(void **state)
{
    (void)state;
    unsigned from[4] = { 1, 2, 3, 4 }, to[4] = { 0 };
    OPEN("DEVICES=1", "STRICT=0", "JITTER=20000");
    const CUstream s = new_stream();
    const CUdeviceptr p = new_memory(16);
    for (int i = 0; i < 8; i++) {
        from[0] = (unsigned)i;
        OK(cu.cuMemcpyHtoDAsync_v2(p, from, 16, s));
        from[0] = 99;
        OK(cu.cuMemcpyDtoHAsync_v2(to, p, 16, s));
        assert_int_equal(to[0], i);
        assert_int_equal(to[3], 4);
    }
    OK(cu.cuMemFree_v2(p));
    OK(cu.cuStreamDestroy_v2(s));
    close_driver();
}

static void test_pinned_memory_is_read_when_the_copy_runs(void **state)
{
    (void)state;
    OPEN("DEVICES=1");
    const CUmodule m = load();
    const CUstream s = new_stream(), setter = new_stream();
    const CUdeviceptr flag = new_memory(4), p = new_memory(4);
    unsigned *from = new_pinned(1), *to = new_pinned(1);
    OK(cu.cuMemsetD32Async(flag, 0, 1, setter));
    OK(finish(setter));
    OK(launch_flag(function_of(m, "spin"), s, flag)); /* the copies wait behind it */
    *from = 1;
    OK(cu.cuMemcpyHtoDAsync_v2(p, from, 4, s));
    OK(cu.cuMemcpyDtoHAsync_v2(to, p, 4, s));
    *from = 2;
    OK(launch_flag(function_of(m, "lift"), setter, flag));
    OK(finish(s));
    assert_int_equal(*to, 2);
    close_driver();
}

static void test_a_device_address_is_none_of_the_host(void **state)
{
    (void)state;
    char output[4096];
    const char *const settings[] = { NULL };
    const int code = fresh_run("read a device address", settings, output, sizeof output);
    assert_int_not_equal(code, 0);
    assert_null(strstr(output, "was read"));
}

static int case_read_a_device_address(void)
{
    OPEN("DEVICES=1");
    const volatile char *memory = (const char *)(uintptr_t)new_memory(64);
    virtual_driver_close(&cu);
    printf("%d was read\n", *memory);
    return 0;
}

static void test_pageable_memory_is_reported_in_strict_mode(void **state)
{
    (void)state;
    unsigned from[4] = { 0 };
    OPEN("DEVICES=1");
    const CUstream s = new_stream();
    (void)cu.cuMemcpyHtoDAsync_v2(new_memory(16), from, 16, s);
    assert_int_equal(cu.cuStreamQuery(s), CUDA_ERROR_ASSERT);
    assert_true(virtual_driver_traced(&cu, "pageable memory"));
    abandon_driver();
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "read a device address", case_read_a_device_address }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_counted_and_runs_out),
        cmocka_unit_test(test_an_address_is_aligned_and_never_given_out_again),
        cmocka_unit_test(test_fresh_memory_is_not_a_number),
        cmocka_unit_test(test_pinned_memory_is_counted_and_runs_out),
        cmocka_unit_test(test_bytes_go_to_a_device_within_it_and_back),
        cmocka_unit_test(test_copies_and_fills_outside_of_memory_are_refused),
        cmocka_unit_test(test_memory_freed_before_its_copy_runs_is_a_fault),
        cmocka_unit_test(test_pageable_memory_is_read_at_the_call_and_written_before_it_returns),
        cmocka_unit_test(test_pageable_memory_is_reported_in_strict_mode),
        cmocka_unit_test(test_pinned_memory_is_read_when_the_copy_runs),
        cmocka_unit_test(test_a_device_address_is_none_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
