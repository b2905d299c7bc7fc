/* SPDX-License-Identifier: MIT */
/* test_vgpu_links.c -- what a broken link of the virtual GPU does to copies and kernels.
 *
 * Each test opens a driver of its own (support/virtual_machine.h).
 */
#include "support/virtual_machine.h"

#include <stdio.h>

enum { WORDS = 64 };

/* What arrives on device 1 of 1000, 1001, ...; it was 0 before. `kernel`: written by a kernel of
 * device 0, else copied. */
static void send(unsigned *arrived, bool kernel, CUdeviceptr slot, CUstream s, CUfunction fill,
                 CUdeviceptr data)
{
    unsigned *host = new_pinned(WORDS);
    OK(cu.cuMemsetD32Async(data, 0, WORDS, s));
    OK(cu.cuMemcpyHtoDAsync_v2(slot, host, 4, s)); /* any copy that is not over the link */
    OK(finish(s));
    make_current(1);
    const CUstream own = new_stream();
    OK(cu.cuMemsetD32Async(slot, 0, WORDS, own));
    OK(finish(own));
    make_current(0);
    if (kernel) {
        OK(launch_fill(fill, s, slot, 1000, WORDS));
    } else {
        OK(launch_fill(fill, s, data, 1000, WORDS));
        OK(cu.cuMemcpyPeerAsync(slot, context[1], data, context[0], WORDS * 4, s));
    }
    OK(finish(s));
    make_current(1);
    OK(cu.cuMemcpyDtoHAsync_v2(host, slot, WORDS * 4, own));
    OK(finish(own));
    memcpy(arrived, host, WORDS * 4);
    OK(cu.cuStreamDestroy_v2(own));
    make_current(0);
    OK(cu.cuMemFreeHost(host));
}

/* Bits that differ from what was sent. */
static int wrong_bits(const unsigned *arrived)
{
    int count = 0;
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned x = arrived[i] ^ (1000 + i); x != 0; x &= x - 1) count++;
    return count;
}

static bool all_zero(const unsigned *arrived)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (arrived[i] != 0) return false;
    return true;
}

static void send_thrice(const char *links, bool access, bool kernel, unsigned arrived[3][WORDS])
{
    char text[64];
    snprintf(text, sizeof text, "LINKS=%s", links);
    OPEN("DEVICES=2", text);
    if (access) OK(cu.cuCtxEnablePeerAccess(context[1], 0));
    const CUmodule m = load();
    const CUfunction fill = function_of(m, "fill");
    const CUstream s = new_stream();
    const CUdeviceptr data = new_memory(WORDS * 4);
    make_current(1);
    const CUdeviceptr slot = new_memory(WORDS * 4);
    make_current(0);
    for (int i = 0; i < 3; i++) send(arrived[i], kernel, slot, s, fill, data);
    close_driver();
}

static void test_a_broken_link_spoils_copies_and_kernels_from_the_nth_use_on(void **state)
{
    (void)state;
    unsigned arrived[3][WORDS];
    for (int kernel = 0; kernel <= 1; kernel++) {
        send_thrice("0>1:drop@2", true, kernel, arrived);
        assert_int_equal(wrong_bits(arrived[0]), 0);
        assert_true(all_zero(arrived[1]) && all_zero(arrived[2]));
        send_thrice("0>1:zero", true, kernel, arrived);
        assert_true(all_zero(arrived[0]) && all_zero(arrived[1]));
        send_thrice("0>1:flip@2", true, kernel, arrived);
        assert_int_equal(wrong_bits(arrived[0]), 0);
        assert_int_equal(wrong_bits(arrived[1]), 1);
        assert_int_equal(wrong_bits(arrived[2]), 1);
        send_thrice("0>1:slow=2000", true, kernel, arrived);
        assert_int_equal(wrong_bits(arrived[0]), 0);
        if (kernel) continue; /* the other way is not what it writes */
        send_thrice("1>0:drop", true, false, arrived);
        assert_int_equal(wrong_bits(arrived[0]) + wrong_bits(arrived[2]), 0);
    }
}

static void test_a_staged_copy_does_not_take_the_broken_link(void **state)
{
    (void)state;
    unsigned arrived[3][WORDS];
    send_thrice("0>1:zero", false, false, arrived);
    assert_int_equal(wrong_bits(arrived[0]) + wrong_bits(arrived[2]), 0);
}

static void test_what_a_kernel_reads_over_a_broken_link_is_wrong(void **state)
{
    (void)state;
    static const char *const links[] = { "LINKS=1>0:zero", "LINKS=1>0:flip" };
    for (int i = 0; i < 2; i++) {
        OPEN("DEVICES=2", links[i]);
        OK(cu.cuCtxEnablePeerAccess(context[1], 0));
        const CUmodule m = load();
        const CUstream s = new_stream();
        const CUdeviceptr to = new_memory(WORDS * 4);
        unsigned *host = new_pinned(WORDS);
        make_current(1);
        const CUstream other = new_stream();
        const CUdeviceptr from = new_memory(WORDS * 4);
        OK(launch_fill(function_of(load(), "fill"), other, from, 1000, WORDS));
        OK(finish(other));
        make_current(0);
        OK(launch_copy(function_of(m, "copy"), s, to, from, WORDS));
        OK(cu.cuMemcpyDtoHAsync_v2(host, to, WORDS * 4, s));
        OK(finish(s));
        if (i == 0) assert_true(all_zero(host));
        else assert_int_equal(wrong_bits(host), 2); /* one in each 128 bytes */
        close_driver();
    }
}

static void test_a_copy_that_never_ends_keeps_its_stream_busy(void **state)
{
    (void)state;
    OPEN("DEVICES=2", "LINKS=0>1:hang@2", "STRICT=0");
    OK(cu.cuCtxEnablePeerAccess(context[1], 0));
    const CUstream s = new_stream(), other = new_stream();
    const CUdeviceptr data = new_memory(64);
    make_current(1);
    const CUdeviceptr slot = new_memory(64);
    make_current(0);
    OK(cu.cuMemcpyPeerAsync(slot, context[1], data, context[0], 64, s));
    OK(finish(s));
    OK(cu.cuMemcpyPeerAsync(slot, context[1], data, context[0], 64, s));
    for (int i = 0; i < 100; i++) {
        pause_briefly();
        assert_int_equal(cu.cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    }
    OK(cu.cuMemsetD8Async(data, 0, 64, other)); /* others go on */
    OK(finish(other));
    abandon_driver();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_link_spoils_copies_and_kernels_from_the_nth_use_on),
        cmocka_unit_test(test_a_staged_copy_does_not_take_the_broken_link),
        cmocka_unit_test(test_what_a_kernel_reads_over_a_broken_link_is_wrong),
        cmocka_unit_test(test_a_copy_that_never_ends_keeps_its_stream_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
