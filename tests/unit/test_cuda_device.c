/* SPDX-License-Identifier: MIT */
/* test_cuda_device.c -- memory, copies, streams and events of a GPU, as device.h promises them.
 *
 * Every case is a process of its own (fresh_process.h), on whatever driver there is; cases that
 * need a machine made for them run on the virtual one only.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>

#include "device/cuda.h"
#include "device/device.h"
#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/one_gpu.h"
#include "support/test.h"

static int case_memory(void)
{
    gpu g;
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK(g.device->kind == LS_DEVICE_CUDA && g.device->ordinal == 0);
    CHECK(strncmp(g.device->name, "cuda:0 ", 7) == 0 && strlen(g.device->name) > 7);
    CHECK((uintptr_t)g.memory % 128 == 0 && (uintptr_t)ls_cuda_workspace(&g.stream) % 256 == 0);
    CHECK(ls_cuda_multiprocessor_count(g.device) > 0);
    CHECK(atomic_load(&g.device->allocated_bytes) == GPU_BYTES);
    void *nothing = NULL;
    CHECK_OK(ls_device_alloc(g.device, 0, &nothing));
    CHECK(nothing != NULL);
    ls_device_release(g.device, nothing);
    size_t used = 0;
    CHECK_OK(ls_cuda_used_bytes(g.device, &used));
    CHECK(used >= GPU_BYTES);
    void *huge = NULL;
    CHECK_FAILS(ls_device_alloc(g.device, (size_t)1 << 50, &huge), LS_ERR_MEMORY,
                "cuda:0: cuMemAlloc_v2 failed while allocating 1125899906842624 bytes, with 4096 "
                "in use here: CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(huge == NULL && atomic_load(&g.device->allocated_bytes) == GPU_BYTES);
    gpu_close(&g);
    return 0;
}

static int case_copies(void)
{
    gpu g;
    atomic_ulong progress = 0;
    CHECK_OK(gpu_open(&g, 0, &progress));
    CHECK_OK(gpu_store(&g, 3));
    CHECK(atomic_load(&progress) > 0);
    CHECK(gpu_holds(&g, 3));
    /* the second half over the first, then words, bytes and an odd place by fills */
    CHECK_OK(ls_copy_within(&g.stream, g.memory, g.memory + GPU_BYTES / 2, GPU_BYTES / 2));
    CHECK_OK(ls_fill(&g.stream, g.memory + 16, 0xAB, 32));
    CHECK_OK(ls_fill(&g.stream, g.memory + 101, 0xCD, 3));
    CHECK_OK(ls_copy_to_host(&g.stream, g.host, g.memory, GPU_BYTES));
    CHECK_OK(gpu_drain(&g));
    for (unsigned i = 0; i < GPU_BYTES / 2; i++) {
        const unsigned j = i + GPU_BYTES / 2;
        const unsigned char want = i >= 16 && i < 48 ? 0xAB : i >= 101 && i < 104
            ? 0xCD : (unsigned char)(3 + j * 7 + j / 256);
        CHECK(g.host[i] == want);
    }
    CHECK_OK(ls_copy_within(&g.stream, g.memory, NULL, 0));
    CHECK_OK(ls_fill(&g.stream, NULL, 1, 0));
    gpu_close(&g);
    return 0;
}

static int case_refused_copies(void)
{
    gpu g;
    static unsigned char pageable[GPU_BYTES];
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.memory, pageable, GPU_BYTES), LS_ERR_DEVICE,
                "copying to the device 4096 bytes: the host memory is not pinned");
    CHECK_FAILS(ls_copy_to_host(&g.stream, pageable, g.memory, 1), LS_ERR_DEVICE, "not pinned");
    CHECK_FAILS(ls_copy_to_host(&g.stream, g.host + 1, g.memory, GPU_BYTES), LS_ERR_DEVICE,
                "not pinned"); /* its last byte lies outside */
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.memory + 1, g.host, GPU_BYTES), LS_ERR_DEVICE,
                "is memory of no open GPU");
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.host + 8, g.host, 8), LS_ERR_DEVICE,
                "is memory of no open GPU");
    CHECK_FAILS(ls_fill(&g.stream, g.memory + GPU_BYTES - 1, 0, 2), LS_ERR_DEVICE,
                "filling 2 bytes");
    CHECK_FAILS(ls_copy_peer(&g.stream, pageable, g.memory, 8), LS_ERR_DEVICE,
                "is memory of no open GPU");
    void *freed = NULL;
    CHECK_OK(ls_device_alloc(g.device, 64, &freed));
    ls_device_release(g.device, freed);
    CHECK_FAILS(ls_fill(&g.stream, freed, 0, 64), LS_ERR_DEVICE, "is memory of no open GPU");
    gpu_close(&g);
    return 0;
}

static int case_events(void)
{
    gpu g;
    ls_stream other = { 0 };
    ls_event event;
    bool complete = false;
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_OK(ls_stream_init(&other, g.device));
    CHECK_OK(ls_event_init(&event, g.device));
    CHECK_FAILS(ls_stream_wait(&other, &event), LS_ERR_DEVICE, "never recorded");
    CHECK_OK(ls_event_poll(&event, &complete));
    CHECK(complete);
    /* What follows a wait follows what preceded the record, 50 times over. */
    for (unsigned i = 0; i < 50; i++) {
        CHECK_OK(ls_fill(&g.stream, g.memory, (unsigned char)i, GPU_BYTES));
        CHECK_OK(ls_event_record(&event, &g.stream));
        CHECK_OK(ls_stream_wait(&other, &event));
        CHECK_OK(ls_copy_to_host(&other, g.host, g.memory, GPU_BYTES));
        CHECK_OK(ls_stream_drain(&other, NULL, "a test"));
        CHECK(g.host[0] == i && g.host[GPU_BYTES - 1] == i);
    }
    CHECK_OK(ls_event_poll(&event, &complete));
    CHECK(complete);
    ls_event_free(&event);
    ls_event_free(&event); /* twice does no harm */
    ls_stream_free(&other);
    gpu_close(&g);
    return 0;
}

/* A copy that never ends: not ready is no error, and a wait for it ends at its deadline. */
static int case_not_ready(void)
{
    gpu a, b;
    ls_event event;
    bool idle = true, complete = true;
    ls_group *group = NULL;
    CHECK_OK(gpu_open(&a, 0, NULL));
    CHECK_OK(gpu_open(&b, 1, NULL));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(gpu_store(&a, 1));
    CHECK_OK(ls_event_init(&event, a.device));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, 64));
    CHECK_OK(ls_event_record(&event, &a.stream));
    CHECK_OK(ls_stream_poll(&a.stream, &idle));
    CHECK(!idle);
    CHECK_OK(ls_event_poll(&event, &complete));
    CHECK(!complete);
    CHECK_OK(ls_group_create(1, 0.05, &group));
    CHECK_FAILS(ls_stream_drain(&a.stream, group, "a copy"), LS_ERR_TIMEOUT,
                "a copy: cuda:0 ");
    _Exit(0); /* releasing would wait for the copy */
}

/* Two replicas on one GPU have one context, and keep it as long as one of them is open. */
static int case_shared_gpu(void)
{
    gpu a, b;
    CHECK_OK(gpu_open(&a, 0, NULL));
    CHECK_OK(gpu_open(&b, 0, NULL));
    CHECK(a.device->implementation == b.device->implementation);
    CHECK_OK(gpu_load_copy(&a));
    CHECK_OK(gpu_load_copy(&b));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(gpu_store(&a, 9));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, GPU_BYTES));
    CHECK_OK(gpu_drain(&a));
    gpu_close(&a);
    CHECK(gpu_holds(&b, 9));
    gpu_close(&b);
    CHECK_OK(gpu_open(&a, 0, NULL)); /* and again from the start */
    CHECK_OK(gpu_store(&a, 1));
    CHECK(gpu_holds(&a, 1));
    gpu_close(&a);
    return 0;
}

/* Host memory that cannot be pinned: what was asked, what is pinned, what the system allows, and
 * what makes it less. */
static int case_no_pinned_memory(void)
{
    gpu g;
    void *more = NULL, *other = NULL;
    const struct rlimit limit = { .rlim_cur = 65536, .rlim_max = 65536 };
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_OK(ls_device_alloc(g.device, 512, &other)); /* which is not pinned */
    CHECK_FAILS(ls_pinned_alloc(g.device, 1 << 20, &more), LS_ERR_MEMORY,
                "cuda:0: cuMemHostAlloc failed while allocating 1048576 bytes of pinned host "
                "memory, with 4096 pinned by this program (ulimit -l: 65536 bytes; a smaller "
                "--bucket or --global-batch needs less): CUDA_ERROR_OUT_OF_MEMORY, 2");
    CHECK(more == NULL);
    CHECK_OK(ls_pinned_alloc(g.device, 1 << 18, &more));
    ls_pinned_release(g.device, more);
    ls_device_release(g.device, other);
    gpu_close(&g);
    return 0;
}

static void test_memory_that_cannot_be_pinned_is_told_with_limit_and_remedy(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("no pinned memory", "LOCKSTEP_VGPU_PINNED=1M");
}

static void test_memory_is_aligned_counted_and_refused_in_words(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("memory", NULL);
}

static void test_copies_and_fills_move_what_they_are_told(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("copies", NULL);
}

static void test_copies_outside_an_allocation_or_of_pageable_memory_are_refused(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("refused copies", NULL);
}

static void test_work_after_a_wait_follows_work_before_the_record(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("events", "LOCKSTEP_VGPU_SEED=1", "LOCKSTEP_VGPU_JITTER=200");
    assert_case("events", "LOCKSTEP_VGPU_SEED=2", "LOCKSTEP_VGPU_JITTER=200");
}

static void test_work_that_is_not_ready_is_no_error_and_waits_for_it_end(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("not ready", "LOCKSTEP_VGPU_LINKS=0>1:hang");
}

static void test_replicas_on_one_gpu_share_its_context(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("shared gpu", NULL);
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "memory", case_memory },
        { "no pinned memory", case_no_pinned_memory },
        { "copies", case_copies },
        { "refused copies", case_refused_copies },
        { "events", case_events },
        { "not ready", case_not_ready },
        { "shared gpu", case_shared_gpu },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_aligned_counted_and_refused_in_words),
        cmocka_unit_test(test_memory_that_cannot_be_pinned_is_told_with_limit_and_remedy),
        cmocka_unit_test(test_copies_and_fills_move_what_they_are_told),
        cmocka_unit_test(test_copies_outside_an_allocation_or_of_pageable_memory_are_refused),
        cmocka_unit_test(test_work_after_a_wait_follows_work_before_the_record),
        cmocka_unit_test(test_work_that_is_not_ready_is_no_error_and_waits_for_it_end),
        cmocka_unit_test(test_replicas_on_one_gpu_share_its_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
