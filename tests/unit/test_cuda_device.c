/* SPDX-License-Identifier: MIT */
/* test_cuda_device.c -- the CUDA backend as device.h promises it, on whatever driver there is.
 *
 * Every case is a process of its own (fresh_process.h). Cases that need a machine made for them
 * -- a broken link, a call that fails, an old driver -- run on the virtual driver only; the others
 * on a real one as well. LS_REQUIRE_GPU=N in the environment makes fewer than N GPUs a failure;
 * without it and without a GPU the cases that need one are skipped.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "device/cuda_module.h"
#include "device/device.h"
#include "device/probe.h"
#include "device/topology.h"
#include "support/fresh_process.h"
#include "support/test.h"

enum { BYTES = 4096 };

static const char *const KERNELS[] = { "ls_probe_copy" };

/* -- a GPU with what most cases need ----------------------------------------------------------- */

typedef struct {
    ls_device *device;
    ls_stream stream;
    unsigned char *memory; /* [BYTES] */
    unsigned char *host;   /* [BYTES] pinned */
} gpu;

static ls_status open_gpu(gpu *g, int ordinal, atomic_ulong *progress)
{
    void *memory = NULL, *host = NULL;
    memset(g, 0, sizeof *g);
    LS_TRY(ls_device_open_cuda(ordinal, progress, &g->device));
    LS_TRY(ls_stream_init(&g->stream, g->device));
    LS_TRY(ls_device_alloc(g->device, BYTES, &memory));
    g->memory = memory;
    LS_TRY(ls_pinned_alloc(g->device, BYTES, &host));
    g->host = host;
    return LS_OK;
}

static void close_gpu(gpu *g)
{
    if (g->device == NULL) return;
    ls_pinned_release(g->device, g->host);
    ls_device_release(g->device, g->memory);
    ls_stream_free(&g->stream);
    ls_device_close(g->device);
}

static ls_status drain(gpu *g)
{
    return ls_stream_drain(&g->stream, NULL, "a test");
}

/* Put `first`, first + 1, ... into the GPU's memory. */
static ls_status store(gpu *g, unsigned first)
{
    for (unsigned i = 0; i < BYTES; i++) g->host[i] = (unsigned char)(first + i * 7 + i / 256);
    LS_TRY(ls_copy_to_device(&g->stream, g->memory, g->host, BYTES));
    return drain(g);
}

/* Does the GPU's memory hold what store(first) put there? */
static bool holds(gpu *g, unsigned first)
{
    memset(g->host, 0, BYTES);
    if (ls_copy_to_host(&g->stream, g->host, g->memory, BYTES) != LS_OK || drain(g) != LS_OK)
        return false;
    for (unsigned i = 0; i < BYTES; i++)
        if (g->host[i] != (unsigned char)(first + i * 7 + i / 256)) return false;
    return true;
}

static ls_status launch_copy(ls_stream *stream, void *to, const void *from, size_t bytes)
{
    const ls_probe_params params = { .from = from, .to = to, .bytes = bytes };
    const ls_cuda_launch_args launch = { .kernel = KERNELS[0], .grid = { 2, 1, 1 },
                                         .block = LS_PROBE_THREADS, .params = &params,
                                         .param_bytes = sizeof params };
    return ls_cuda_launch(stream, &launch);
}

static ls_status load_copy(gpu *g)
{
    return ls_cuda_context_load(g->device->implementation, ls_embedded_cuda_probe, KERNELS, 1);
}

/* -- the driver -------------------------------------------------------------------------------- */

static int case_count(void)
{
    const char *why = "";
    const int count = ls_cuda_usable_count(&why);
    (void)printf("%d %s", count, why);
    return 0;
}

/* What ls_cuda_usable_count finds under these settings. */
static int count_gpus(const char *const *settings, char *why, size_t why_bytes)
{
    char output[1024];
    int count = 0, at = 0;
    assert_int_equal(fresh_run("count", settings, output, sizeof output), 0);
    assert_int_equal(sscanf(output, "%d %n", &count, &at), 1);
    (void)snprintf(why, why_bytes, "%s", output + at);
    return count;
}

static void check_unusable(const char *const *settings, const char *reason)
{
    char why[1024];
    const int count = count_gpus(settings, why, sizeof why);
    if (count == 0 && strstr(why, reason) != NULL) return;
    print_error("expected 0 GPUs and '%s', found %d and '%s'\n", reason, count, why);
    fail();
}

static void need_gpus(int count)
{
    const char *required = getenv("LS_REQUIRE_GPU");
    const char *const none[] = { NULL };
    char why[1024];
    const int there = count_gpus(none, why, sizeof why);
    if (there >= count) return;
    print_message("%d GPUs needed, %d there: %s\n", count, there, why);
    if (required != NULL && atoi(required) >= count) fail();
    skip();
}

static void need_virtual_driver(void)
{
    if (!driver_is_virtual()) skip();
}

static void test_every_entry_point_is_one_that_the_toolkit_exports(void **state)
{
    (void)state;
    void *stub = dlopen(LS_CUDA_STUB, RTLD_NOW | RTLD_LOCAL);
    if (stub == NULL) skip();
    for (int i = 0; i < LS_CUDA_ENTRY_COUNT; i++) {
        if (dlsym(stub, ls_cuda_entry_name[i]) != NULL) continue;
        print_error("the toolkit's libcuda.so has no %s\n", ls_cuda_entry_name[i]);
        fail();
    }
    (void)dlclose(stub);
}

static void test_every_gpu_counts_also_those_that_no_run_can_use(void **state)
{
    (void)state;
    need_virtual_driver();
    char why[300];
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=70", NULL };
    assert_int_equal(count_gpus(settings, why, sizeof why), 70);
}

static void test_a_machine_without_a_driver_is_told_in_words(void **state)
{
    (void)state;
    need_virtual_driver();
    check_unusable((const char *const[]){ "LD_LIBRARY_PATH=", NULL }, "no NVIDIA driver");
    ls_cuda_driver driver;
    char why[300];
    assert_false(ls_cuda_driver_load("libno-such-driver.so.1", &driver, why, sizeof why));
    assert_non_null(strstr(why, "libno-such-driver.so.1"));
}

static void test_a_library_that_is_no_driver_is_refused_by_the_symbol_it_lacks(void **state)
{
    (void)state;
    ls_cuda_driver driver;
    char why[300];
    assert_false(ls_cuda_driver_load("libm.so.6", &driver, why, sizeof why));
    assert_string_equal(why, "the NVIDIA driver lacks cuDriverGetVersion");
}

static void test_a_driver_that_is_too_old_is_told_with_both_versions(void **state)
{
    (void)state;
    need_virtual_driver();
    char want[200];
    (void)snprintf(want, sizeof want, "it supports CUDA 11.4; this binary was built with CUDA "
                   "%d.%d and needs a driver for CUDA %d.0 or later", CUDA_VERSION / 1000,
                   CUDA_VERSION % 1000 / 10, CUDA_VERSION / 1000);
    check_unusable((const char *const[]){ "LOCKSTEP_VGPU_VERSION=11040", NULL }, want);
}

static void test_a_driver_without_gpus_and_one_that_fails_say_so(void **state)
{
    (void)state;
    need_virtual_driver();
    check_unusable((const char *const[]){ "LOCKSTEP_VGPU_DEVICES=0", NULL },
                   "CUDA_ERROR_NO_DEVICE");
    check_unusable((const char *const[]){ "LOCKSTEP_VGPU_FAIL=cuInit@1=999", NULL },
                   "cuInit failed: CUDA_ERROR_UNKNOWN, 999");
    check_unusable((const char *const[]){ "LOCKSTEP_VGPU_FAIL=cuDriverGetVersion@1=3", NULL },
                   "cuDriverGetVersion failed with error 3");
}

/* -- a device ---------------------------------------------------------------------------------- */

static int case_memory(void)
{
    gpu g;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK(g.device->kind == LS_DEVICE_CUDA && g.device->ordinal == 0);
    CHECK(strncmp(g.device->name, "cuda:0 ", 7) == 0 && strlen(g.device->name) > 7);
    CHECK((uintptr_t)g.memory % 128 == 0 && (uintptr_t)ls_cuda_workspace(&g.stream) % 256 == 0);
    CHECK(ls_cuda_multiprocessor_count(g.device) > 0);
    CHECK(atomic_load(&g.device->allocated_bytes) == BYTES);
    void *nothing = NULL;
    CHECK_OK(ls_device_alloc(g.device, 0, &nothing));
    CHECK(nothing != NULL);
    ls_device_release(g.device, nothing);
    size_t used = 0;
    CHECK_OK(ls_cuda_used_bytes(g.device, &used));
    CHECK(used >= BYTES);
    void *huge = NULL;
    CHECK_FAILS(ls_device_alloc(g.device, (size_t)1 << 50, &huge), LS_ERR_MEMORY,
                "cuda:0: cuMemAlloc_v2 failed while allocating 1125899906842624 bytes, with 4096 "
                "in use here: CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(huge == NULL && atomic_load(&g.device->allocated_bytes) == BYTES);
    close_gpu(&g);
    return 0;
}

static int case_copies(void)
{
    gpu g;
    atomic_ulong progress = 0;
    CHECK_OK(open_gpu(&g, 0, &progress));
    CHECK_OK(store(&g, 3));
    CHECK(atomic_load(&progress) > 0);
    CHECK(holds(&g, 3));
    /* the second half over the first, then words, bytes and an odd place by fills */
    CHECK_OK(ls_copy_within(&g.stream, g.memory, g.memory + BYTES / 2, BYTES / 2));
    CHECK_OK(ls_fill(&g.stream, g.memory + 16, 0xAB, 32));
    CHECK_OK(ls_fill(&g.stream, g.memory + 101, 0xCD, 3));
    CHECK_OK(ls_copy_to_host(&g.stream, g.host, g.memory, BYTES));
    CHECK_OK(drain(&g));
    for (unsigned i = 0; i < BYTES / 2; i++) {
        const unsigned j = i + BYTES / 2;
        const unsigned char want = i >= 16 && i < 48 ? 0xAB : i >= 101 && i < 104
            ? 0xCD : (unsigned char)(3 + j * 7 + j / 256);
        CHECK(g.host[i] == want);
    }
    CHECK_OK(ls_copy_within(&g.stream, g.memory, NULL, 0));
    CHECK_OK(ls_fill(&g.stream, NULL, 1, 0));
    close_gpu(&g);
    return 0;
}

static int case_refused_copies(void)
{
    gpu g;
    static unsigned char pageable[BYTES];
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.memory, pageable, BYTES), LS_ERR_DEVICE,
                "copying to the device 4096 bytes: the host memory is not pinned");
    CHECK_FAILS(ls_copy_to_host(&g.stream, pageable, g.memory, 1), LS_ERR_DEVICE, "not pinned");
    CHECK_FAILS(ls_copy_to_host(&g.stream, g.host + 1, g.memory, BYTES), LS_ERR_DEVICE,
                "not pinned"); /* its last byte lies outside */
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.memory + 1, g.host, BYTES), LS_ERR_DEVICE,
                "is memory of no open GPU");
    CHECK_FAILS(ls_copy_to_device(&g.stream, g.host + 8, g.host, 8), LS_ERR_DEVICE,
                "is memory of no open GPU");
    CHECK_FAILS(ls_fill(&g.stream, g.memory + BYTES - 1, 0, 2), LS_ERR_DEVICE, "filling 2 bytes");
    CHECK_FAILS(ls_copy_peer(&g.stream, pageable, g.memory, 8), LS_ERR_DEVICE,
                "is memory of no open GPU");
    void *freed = NULL;
    CHECK_OK(ls_device_alloc(g.device, 64, &freed));
    ls_device_release(g.device, freed);
    CHECK_FAILS(ls_fill(&g.stream, freed, 0, 64), LS_ERR_DEVICE, "is memory of no open GPU");
    close_gpu(&g);
    return 0;
}

static int case_events(void)
{
    gpu g;
    ls_stream other = { 0 };
    ls_event event;
    bool complete = false;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_OK(ls_stream_init(&other, g.device));
    CHECK_OK(ls_event_init(&event, g.device));
    CHECK_FAILS(ls_stream_wait(&other, &event), LS_ERR_DEVICE, "never recorded");
    CHECK_OK(ls_event_poll(&event, &complete));
    CHECK(complete);
    /* What follows a wait follows what preceded the record, 50 times over. */
    for (unsigned i = 0; i < 50; i++) {
        CHECK_OK(ls_fill(&g.stream, g.memory, (unsigned char)i, BYTES));
        CHECK_OK(ls_event_record(&event, &g.stream));
        CHECK_OK(ls_stream_wait(&other, &event));
        CHECK_OK(ls_copy_to_host(&other, g.host, g.memory, BYTES));
        CHECK_OK(ls_stream_drain(&other, NULL, "a test"));
        CHECK(g.host[0] == i && g.host[BYTES - 1] == i);
    }
    CHECK_OK(ls_event_poll(&event, &complete));
    CHECK(complete);
    ls_event_free(&event);
    ls_event_free(&event); /* twice does no harm */
    ls_stream_free(&other);
    close_gpu(&g);
    return 0;
}

/* A copy that never ends: not ready is no error, and a wait for it ends at its deadline. */
static int case_not_ready(void)
{
    gpu a, b;
    ls_event event;
    bool idle = true, complete = true;
    ls_group *group = NULL;
    CHECK_OK(open_gpu(&a, 0, NULL));
    CHECK_OK(open_gpu(&b, 1, NULL));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(store(&a, 1));
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
    CHECK_OK(open_gpu(&a, 0, NULL));
    CHECK_OK(open_gpu(&b, 0, NULL));
    CHECK(a.device->implementation == b.device->implementation);
    CHECK_OK(load_copy(&a));
    CHECK_OK(load_copy(&b));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(store(&a, 9));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, BYTES));
    CHECK_OK(drain(&a));
    close_gpu(&a);
    CHECK(holds(&b, 9));
    close_gpu(&b);
    CHECK_OK(open_gpu(&a, 0, NULL)); /* and again from the start */
    CHECK_OK(store(&a, 1));
    CHECK(holds(&a, 1));
    close_gpu(&a);
    return 0;
}

static int case_facts(void)
{
    ls_cuda_facts facts;
    CHECK_OK(ls_cuda_facts_read(0, &facts));
    CHECK(facts.name[0] != '\0' && facts.capability >= 70 && facts.multiprocessor_count > 0);
    CHECK(facts.memory_bytes > 0 && facts.pcie.numa_node >= -1);
    CHECK_FAILS(ls_cuda_facts_read(1000, &facts), LS_ERR_DEVICE,
                "cuda:1000: cuDeviceGet failed while looking for GPU 1000: "
                "CUDA_ERROR_INVALID_DEVICE, 101");
    ls_device *device = NULL;
    CHECK_FAILS(ls_device_open_cuda(63, NULL, &device), LS_ERR_DEVICE, "cuda:63: cuDeviceGet");
    CHECK_FAILS(ls_device_open_cuda(64, NULL, &device), LS_ERR_DEVICE, "GPUs 0 to 63");
    CHECK(device == NULL);
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
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_OK(ls_device_alloc(g.device, 512, &other)); /* which is not pinned */
    CHECK_FAILS(ls_pinned_alloc(g.device, 1 << 20, &more), LS_ERR_MEMORY,
                "cuda:0: cuMemHostAlloc failed while allocating 1048576 bytes of pinned host "
                "memory, with 4096 pinned by this program (ulimit -l: 65536 bytes; a smaller "
                "--bucket or --global-batch needs less): CUDA_ERROR_OUT_OF_MEMORY, 2");
    CHECK(more == NULL);
    CHECK_OK(ls_pinned_alloc(g.device, 1 << 18, &more));
    ls_pinned_release(g.device, more);
    ls_device_release(g.device, other);
    close_gpu(&g);
    return 0;
}

static int case_peak(void)
{
    ls_cuda_facts facts;
    CHECK_OK(ls_cuda_facts_read(0, &facts));
    (void)printf("%.0f %s", facts.peak * 1e-9, facts.is_virtual ? "virtual" : "real");
    return 0;
}

/* The virtual GPU's clock is 1 GHz. */
static void test_a_gpus_peak_is_its_units_times_its_clock(void **state)
{
    (void)state;
    need_virtual_driver();
    static const struct {
        const char *capability, *want;
    } row[] = { { "LOCKSTEP_VGPU_CAPABILITY=75", "640 virtual" },
                { "LOCKSTEP_VGPU_CAPABILITY=80", "640 virtual" },
                { "LOCKSTEP_VGPU_CAPABILITY=86", "1280 virtual" },
                { "LOCKSTEP_VGPU_CAPABILITY=90", "1280 virtual" } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char output[256];
        const char *const settings[] = { row[i].capability, "LOCKSTEP_VGPU_SM=5", NULL };
        assert_int_equal(fresh_run("peak", settings, output, sizeof output), 0);
        assert_string_equal(output, row[i].want);
    }
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

static void test_a_gpu_tells_its_facts_without_being_opened(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("facts", NULL);
}

/* -- kernels ----------------------------------------------------------------------------------- */

static int case_launches(void)
{
    gpu g;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_FAILS(launch_copy(&g.stream, g.memory, g.memory, 1), LS_ERR_DEVICE,
                "cuda:0: kernel ls_probe_copy was not loaded");
    static const char *const wrong[] = { "ls_no_such_kernel" };
    CHECK_FAILS(ls_cuda_context_load(g.device->implementation, ls_embedded_cuda_probe, wrong, 1),
                LS_ERR_DEVICE, "cuda:0: no module has a kernel ls_no_such_kernel");
    CHECK_OK(load_copy(&g));
    CHECK_OK(store(&g, 5));
    CHECK_OK(launch_copy(&g.stream, (unsigned char *)ls_cuda_workspace(&g.stream), g.memory,
                         BYTES));
    CHECK_OK(ls_fill(&g.stream, g.memory, 0, BYTES));
    CHECK_OK(launch_copy(&g.stream, g.memory, ls_cuda_workspace(&g.stream), BYTES));
    CHECK_OK(drain(&g));
    CHECK(holds(&g, 5));
    const ls_probe_params params = { .from = g.memory, .to = g.memory, .bytes = 0 };
    const ls_cuda_launch_args high = { .kernel = KERNELS[0], .grid = { 1, 70000, 1 },
                                       .block = LS_PROBE_THREADS, .params = &params,
                                       .param_bytes = sizeof params };
    CHECK_FAILS(ls_cuda_launch(&g.stream, &high), LS_ERR_DEVICE,
                "cuLaunchKernel failed while launching ls_probe_copy, 1 x 70000 x 1 blocks of 128 "
                "threads");
    close_gpu(&g);
    return 0;
}

/* A kernel's fault is reported by a later call, and by every one after it. */
static int case_fault(void)
{
    gpu g;
    bool idle = false;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_OK(load_copy(&g));
    CHECK_OK(launch_copy(&g.stream, g.memory, (const void *)(uintptr_t)4096, 64));
    ls_status status = LS_OK;
    while (status == LS_OK && !idle) status = ls_stream_poll(&g.stream, &idle);
    CHECK(status == LS_ERR_DEVICE);
    CHECK(strstr(ls_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS, 700") != NULL);
    /* the driver's words are told to their end, however long they are */
    CHECK(strstr(ls_last_error(), "kernel ls_probe_copy, block (0,0,0)") != NULL);
    CHECK(strstr(ls_last_error(), "0x1000 is not allocated; the cause may be a kernel or copy that "
                                  "was enqueued earlier") != NULL);
    CHECK_FAILS(ls_fill(&g.stream, g.memory, 0, 4), LS_ERR_DEVICE, "cuda:0: ");
    close_gpu(&g);
    return 0;
}

/* The image that a GPU gets, by what the loader asked for: `image` is broken but for one part. */
static int case_broken_images(void)
{
    const char *why = "";
    ls_cuda_context *context = NULL;
    CUmodule module = NULL;
    const ls_cuda_driver *driver = ls_cuda_driver_open(&why);
    CHECK(driver != NULL);
    CHECK_OK(ls_cuda_context_retain(0, &context));
    CHECK_OK(ls_cuda_context_enter(context));
    static const char nonsense[] = ".version 9.0\n.target sm_75\nthis is no PTX\n";
    ls_cuda_image image = ls_embedded_cuda_probe[0];
    image.ptx[0].text = nonsense;
    image.ptx[1].text = nonsense;
    CHECK_FAILS(ls_cuda_image_load(driver, "cuda:0", 80, &image, &module), LS_ERR_DEVICE,
                "compiling the kernels of probe from the PTX for 8.0; the log: ");
    CHECK_FAILS(ls_cuda_image_load(driver, "cuda:0", 75, &image, &module), LS_ERR_DEVICE,
                "compiling the kernels of probe from the PTX for 7.5; the log: ");
    CHECK(strchr(ls_last_error(), '\n') == NULL);
    CHECK_FAILS(ls_cuda_image_load(driver, "cuda:0", 70, &image, &module), LS_ERR_DEVICE,
                "has compute capability 7.0; this binary's kernels need 7.5 or later");
    image.ptx[0].text = ls_embedded_cuda_probe[0].ptx[0].text; /* the lower one is sound */
    CHECK_OK(ls_cuda_image_load(driver, "cuda:0", 79, &image, &module));
    CHECK(driver->module_unload(module) == CUDA_SUCCESS);
    CHECK_FAILS(ls_cuda_image_load(driver, "cuda:0", 80, &image, &module), LS_ERR_DEVICE, "8.0");
    ls_cuda_context_release(context);
    return 0;
}

/* cuModuleLoadDataEx is made to fail once, with the result that the case is named after. */
static int case_second_try(void)
{
    gpu g;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_OK(load_copy(&g));
    close_gpu(&g);
    return 0;
}

static int case_no_second_try(void)
{
    gpu g;
    CHECK_OK(open_gpu(&g, 0, NULL));
    CHECK_FAILS(load_copy(&g), LS_ERR_MEMORY,
                "cuModuleLoadDataEx failed while loading the kernels of probe");
    close_gpu(&g);
    return 0;
}

static void test_kernels_are_found_before_they_are_launched(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("launches", NULL);
}

static void test_a_gpu_of_any_capability_runs_the_code_that_fits_it(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("launches", "LOCKSTEP_VGPU_CAPABILITY=75");
    assert_case("launches", "LOCKSTEP_VGPU_CAPABILITY=80");
    assert_case("launches", "LOCKSTEP_VGPU_CAPABILITY=120");
}

static void test_a_kernels_fault_is_reported_as_earlier_work(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("fault", NULL);
}

static void test_ptx_that_does_not_compile_is_reported_with_the_log(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("broken images", NULL);
}

static void test_the_ptx_is_tried_where_there_is_no_code_for_a_gpu_and_not_otherwise(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("second try", "LOCKSTEP_VGPU_FAIL=cuModuleLoadDataEx@1=200");
    assert_case("second try", "LOCKSTEP_VGPU_FAIL=cuModuleLoadDataEx@1=209");
    assert_case("second try", "LOCKSTEP_VGPU_FAIL=cuModuleLoadDataEx@1=218");
    assert_case("second try", "LOCKSTEP_VGPU_FAIL=cuModuleLoadDataEx@1=222");
    assert_case("no second try", "LOCKSTEP_VGPU_FAIL=cuModuleLoadDataEx@1=2");
}

/* -- pairs ------------------------------------------------------------------------------------- */

/* Pair kinds, reasons and ring of all GPUs, as text: "0>1 PEER; 1>0 STAGED why; ring 0 1". */
static int case_pairs(void)
{
    ls_device_list list;
    ls_device *device[LS_WORLD_MAX] = { NULL };
    static ls_topology topology;
    const char *devices = getenv("TEST_DEVICES");
    CHECK_OK(ls_device_list_parse(devices != NULL ? devices : "cuda", LS_P2P_AUTO, &list));
    for (int r = 0; r < list.count; r++)
        CHECK_OK(ls_device_open(&list.device[r], 1, false, NULL, &device[r]));
    CHECK_OK(ls_topology_init(&topology, device, list.count, LS_P2P_AUTO));
    for (int i = 0; i < list.count * list.count; i++) {
        if (topology.pair[i] == LS_PAIR_LOCAL) continue;
        (void)printf("%d>%d %s%s%s; ", i / list.count, i % list.count,
                     ls_pair_kind_name(topology.pair[i]), topology.reason[i] ? " " : "",
                     topology.reason[i] ? topology.reason[i] : "");
    }
    (void)printf("ring");
    for (int i = 0; i < list.count; i++) (void)printf(" %d", topology.ring[i]);
    for (int r = 0; r < list.count; r++) ls_device_close(device[r]);
    return 0;
}

static void check_pairs(const char *const *settings, const char *want)
{
    char output[16384];
    const int code = fresh_run("pairs", settings, output, sizeof output);
    if (code == 0 && strcmp(output, want) == 0) return;
    print_error("with %s\nexpected: %s\nfound (%d): %s\n", settings[0], want, code, output);
    fail();
}

#define WITH(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_a_pair_that_the_probe_proves_is_peer(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2"), "0>1 PEER; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=1", "TEST_DEVICES=cuda:0*2"), "ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=3", "TEST_DEVICES=cuda:2,0*2"),
                "0>1 PEER; 0>2 PEER; 1>0 PEER; 2>0 PEER; ring 0 1 2");
}

static void test_a_pair_that_the_driver_denies_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "LOCKSTEP_VGPU_P2P=none"),
                "0>1 STAGED cuDeviceCanAccessPeer says no; "
                "1>0 STAGED cuDeviceCanAccessPeer says no; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "LOCKSTEP_VGPU_P2P=!1>0"),
                "0>1 PEER; 1>0 STAGED cuDeviceCanAccessPeer says no; ring 0 1");
}

static void test_the_ring_goes_round_a_missing_link(void **state)
{
    (void)state;
    need_virtual_driver();
    char output[2048];
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=4", "LOCKSTEP_VGPU_P2P=!0-1", NULL };
    assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
    assert_non_null(strstr(output, "0>1 STAGED cuDeviceCanAccessPeer says no; 0>2 PEER;"));
    assert_non_null(strstr(output, "ring 0 2 1 3"));
}

static void test_a_link_that_drops_zeroes_or_changes_bytes_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    static const struct {
        const char *fault, *verdict;
    } row[] = {
        { "LOCKSTEP_VGPU_LINKS=0>1:drop", "0>1 STAGED a copy: 12352 of 16384 bytes arrived wrong" },
        { "LOCKSTEP_VGPU_LINKS=0>1:zero", "0>1 STAGED a copy: 12" }, /* but for zeros in it */
        { "LOCKSTEP_VGPU_LINKS=0>1:flip", "0>1 STAGED a copy: 3 of 16384" }, /* one a span */
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char output[2048];
        const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=3", row[i].fault, NULL };
        assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
        assert_non_null(strstr(output, row[i].verdict));
        assert_non_null(strstr(output, "0>2 PEER; "));
        assert_non_null(strstr(output, "2>1 PEER; "));
    }
}

static void test_a_link_that_hangs_is_staged_and_the_others_are_still_probed(void **state)
{
    (void)state;
    need_virtual_driver();
    char output[2048];
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=3", "LOCKSTEP_VGPU_LINKS=0>1:hang",
                                     NULL };
    assert_int_equal(fresh_run("pairs", settings, output, sizeof output), 0);
    assert_non_null(strstr(output, "0>1 STAGED not finished after 5 s; 0>2 PEER; "));
    assert_non_null(strstr(output, "2>0 PEER; 2>1 PEER; ring "));
}

/* Another child in the probe's place: it says what TEST_PROBE tells, and then dies, or not. Runs
 * before the backend's own constructor, which would make this process the probe. */
__attribute__((constructor(101))) static void be_another_child(void)
{
    const char *script = getenv("TEST_PROBE"), *request = getenv("LOCKSTEP_LINK_PROBE");
    if (script == NULL || request == NULL) return;
    FILE *out = fdopen(atoi(request), "w");
    const int first = atoi(strchr(request, ' '));
    if (out == NULL) _Exit(9);
    (void)fprintf(out, "gpus 0 1\n");
    for (int pair = first; pair < 2; pair++) {
        (void)fprintf(out, "try %d\n", pair);
        (void)fflush(out);
        if (pair == 0 && strcmp(script, "dies") == 0) (void)raise(SIGKILL);
        if (pair == 0 && strcmp(script, "ends") == 0) _Exit(3);
        if (pair == 0 && strcmp(script, "raves") == 0) (void)fprintf(out, "yes 17 0 0 0\n");
        (void)fprintf(out, "yes %d 0 0 0\n", pair);
    }
    (void)fprintf(out, "end\n");
    (void)fflush(out);
    _Exit(0);
}

static void test_a_probe_that_dies_ends_or_raves_refuses_the_pair_it_was_at(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=dies"),
                "0>1 STAGED the probe died of signal 9; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=ends"),
                "0>1 STAGED the probe ended early; 1>0 PEER; ring 0 1");
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=2", "TEST_PROBE=raves"),
                "0>1 STAGED the probe hung; 1>0 PEER; ring 0 1");
}

static void test_a_gpu_keeps_as_many_partners_as_it_may_have(void **state)
{
    (void)state;
    need_virtual_driver();
    check_pairs(WITH("LOCKSTEP_VGPU_DEVICES=4", "LOCKSTEP_VGPU_PARTNERS=2"),
                "0>1 PEER; 0>2 STAGED one of them has as many partners as it can; 0>3 PEER; "
                "1>0 PEER; 1>2 PEER; 1>3 STAGED one of them has as many partners as it can; "
                "2>0 STAGED one of them has as many partners as it can; 2>1 PEER; 2>3 PEER; "
                "3>0 PEER; 3>1 STAGED one of them has as many partners as it can; 3>2 PEER; "
                "ring 0 1 2 3");
}

static int case_unprobed(void)
{
    gpu a, b;
    static ls_topology topology;
    CHECK_OK(open_gpu(&a, 0, NULL));
    CHECK_OK(open_gpu(&b, 1, NULL));
    ls_device *const both[] = { a.device, b.device };
    CHECK_OK(ls_topology_init(&topology, both, 2, LS_P2P_AUTO));
    CHECK(topology.pair[1] == LS_PAIR_STAGED);
    CHECK(strcmp(topology.reason[1], "it was not probed") == 0);
    CHECK_FAILS(ls_topology_init(&topology, both, 2, LS_P2P_ON), LS_ERR_DEVICE,
                "directly: it was not probed");
    CHECK_OK(ls_topology_init(&topology, both, 2, LS_P2P_OFF));
    CHECK(strcmp(topology.reason[1], "--p2p off") == 0);
    close_gpu(&b);
    close_gpu(&a);
    return 0;
}

/* Copies and kernels between GPUs: only once access is enabled, and again after a reopening. */
static int case_peer_access(void)
{
    gpu a, b;
    ls_event event;
    CHECK_OK(open_gpu(&a, 0, NULL));
    CHECK_OK(open_gpu(&b, 1, NULL));
    CHECK_OK(load_copy(&a));
    CHECK_OK(store(&a, 11));
    CHECK_FAILS(ls_copy_peer(&a.stream, b.memory, a.memory, BYTES), LS_ERR_DEVICE,
                "cuda:0: copying 4096 bytes to cuda:1: access is not enabled");
    CHECK_FAILS(ls_copy_within(&a.stream, b.memory, a.memory, BYTES), LS_ERR_DEVICE,
                "is memory of cuda:1");
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_event_init(&event, a.device));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, BYTES));
    CHECK_OK(ls_event_record(&event, &a.stream));
    CHECK_OK(ls_stream_wait(&b.stream, &event));
    CHECK(holds(&b, 11));
    CHECK_FAILS(ls_event_record(&event, &b.stream), LS_ERR_DEVICE, "cannot be recorded");
    CHECK_OK(store(&b, 12));
    CHECK_OK(launch_copy(&a.stream, a.memory, b.memory, BYTES)); /* a reads b */
    CHECK_OK(drain(&a));
    CHECK(holds(&a, 12));
    CHECK_OK(store(&a, 13));
    CHECK_OK(launch_copy(&a.stream, b.memory, a.memory, BYTES)); /* a writes b */
    CHECK_OK(drain(&a));
    CHECK(holds(&b, 13));
    close_gpu(&b);
    CHECK_OK(open_gpu(&b, 1, NULL));
    CHECK_FAILS(ls_copy_peer(&a.stream, b.memory, a.memory, BYTES), LS_ERR_DEVICE,
                "access is not enabled");
    CHECK_OK(ls_device_reach(a.device, b.device));
    CHECK_OK(ls_copy_peer(&a.stream, b.memory, a.memory, BYTES));
    CHECK_OK(drain(&a));
    CHECK(holds(&b, 13));
    ls_event_free(&event);
    close_gpu(&b);
    close_gpu(&a);
    return 0;
}

static void test_pairs_that_were_not_probed_are_staged(void **state)
{
    (void)state;
    need_gpus(2);
    assert_case("unprobed", NULL);
}

static void test_a_gpu_reaches_another_once_access_is_enabled(void **state)
{
    (void)state;
    need_virtual_driver();
    assert_case("peer access", NULL);
}

/* -- the program -- */

/* What `$LOCKSTEP arguments` prints on both outputs, after "NAME=value ..." settings. */
static void run_program(const char *settings, const char *arguments, char *output, size_t bytes)
{
    char command[512];
    const char *program = getenv("LOCKSTEP");
    if (program == NULL) skip();
    (void)snprintf(command, sizeof command, "%s %s %s 2>&1", settings, program, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t used = fread(output, 1, bytes - 1, pipe);
    output[used] = '\0';
    char rest[512];
    while (fread(rest, 1, sizeof rest, pipe) > 0) continue;
    (void)pclose(pipe);
}

static void test_help_version_and_host_lists_leave_the_driver_alone(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("LD_DEBUG=files", "--version", output, sizeof output);
    assert_null(strstr(output, "libcuda"));
    run_program("LD_DEBUG=files", "train --help", output, sizeof output);
    assert_null(strstr(output, "libcuda"));
    run_program("LD_DEBUG=files", "show ring 3", output, sizeof output);
    assert_null(strstr(output, "libcuda"));
    run_program("LD_DEBUG=files", "devices", output, sizeof output);
    assert_non_null(strstr(output, "libcuda.so.1")); /* or the tests above see nothing */
}

/* Row `row` and column `column` (0: the host) of the table that begins with `title`; -1: none. */
static double figure_at(const char *output, const char *title, const char *row, int column)
{
    const char *at = strstr(output, title);
    if (at != NULL) at = strstr(at, row);
    if (at == NULL) return -1;
    at += strlen(row);
    for (; column > 0; column--) {
        while (*at == ' ') at++;
        at += strcspn(at, " \n");
    }
    char *end = NULL;
    const double figure = strtod(at, &end);
    return end != at && (*end == ' ' || *end == '\n') ? figure : -1;
}

static void test_devices_measures_links_and_finds_a_slow_one(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("LOCKSTEP_VGPU_NAME='Test GPU' LOCKSTEP_VGPU_LINKS=0\\>1:slow=3000", "devices",
                output, sizeof output);
    const double us = figure_at(output, "us, a copy", "0 cuda:0 Test GPU", 2);
    const double gb_per_s = figure_at(output, "GB/s, copies", "0 cuda:0 Test GPU", 2);
    bool holds = us >= 3000 && gb_per_s > 0 && gb_per_s < 11.3; /* 32 MiB in 3 ms: 11.2 */
    static const struct {
        const char *row;
        int column;
    } cell[] = { { "\n      host ", 1 }, { "\n      host ", 2 }, { "0 cuda:0 Test GPU", 0 },
                 { "1 cuda:1 Test GPU", 0 }, { "1 cuda:1 Test GPU", 1 } };
    for (size_t i = 0; i < sizeof cell / sizeof cell[0]; i++) {
        holds = holds && figure_at(output, "GB/s, copies", cell[i].row, cell[i].column) > 0;
        holds = holds && figure_at(output, "us, a copy", cell[i].row, cell[i].column) > 0;
    }
    if (holds) return;
    (void)fprintf(stderr, "%s\n", output);
    fail();
}

static void test_one_gpu_has_a_way_to_the_host(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    static const char *const list[] = { "devices --devices cuda:1", "devices --devices cuda:1*2" };
    for (int i = 0; i < 2; i++) {
        run_program("LOCKSTEP_VGPU_NAME='Test GPU'", list[i], output, sizeof output);
        assert_true(figure_at(output, "GB/s, copies", "0 cuda:1 Test GPU", 0) > 0);
        assert_true(figure_at(output, "us, a copy", "\n      host ", 1) > 0);
    }
}

static void test_what_cannot_be_measured_is_called_so(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("", "devices", output, sizeof output);
    assert_non_null(strstr(output, "GB/s, us: unmeasured (a virtual GPU's times say nothing)\n"));
    run_program("LOCKSTEP_VGPU_NAME=Test", "devices --p2p off", output, sizeof output);
    assert_non_null(strstr(output, "GB/s, us: unmeasured\n"));
    /* too little memory for a large copy, on GPU or host: the pair is proven all the same */
    run_program("LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_MEMORY=24M", "devices", output,
                sizeof output);
    assert_non_null(strstr(output, "0 -> 1 -> 0"));
    assert_non_null(strstr(output, "GB/s, us: unmeasured\n"));
    assert_null(strstr(output, "is staged"));
    run_program("LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_PINNED=24M", "devices", output,
                sizeof output);
    assert_non_null(strstr(output, "GB/s, us: unmeasured\n"));
    assert_null(strstr(output, "is staged"));
}

/* The probe's own bytes arrive over this link; the larger copies that follow do not. */
static void test_a_link_that_fails_while_it_is_measured_is_staged(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_LINKS=0\\>1:hang@40", "devices", output,
                sizeof output);
    assert_non_null(strstr(output, "0 -> 1 is staged: not finished after 5 s\n"));
    assert_null(strstr(output, "1 -> 0 is staged"));
    run_program("LOCKSTEP_VGPU_NAME=Test LOCKSTEP_VGPU_FAIL=cuEventElapsedTime@1=999", "devices",
                output, sizeof output);
    assert_non_null(strstr(output, "0 -> 1 is staged: cuda:0: cuEventElapsedTime failed while "
                                   "asking how long copies took"));
}

static void test_devices_says_how_much_memory_others_use(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("LOCKSTEP_VGPU_OTHERS=384M", "devices", output, sizeof output);
    assert_non_null(strstr(output, "in use      cuda:0 384.0 MiB, by others"));
}

static void test_only_the_gpus_that_were_chosen_are_opened(void **state)
{
    (void)state;
    need_virtual_driver();
    static char output[1 << 16];
    run_program("LOCKSTEP_VGPU_TRACE=- LOCKSTEP_VGPU_DEVICES=4", "devices --devices cuda:1,3",
                output, sizeof output);
    assert_non_null(strstr(output, "gpu1: context made"));
    assert_non_null(strstr(output, "gpu3: context made"));
    assert_null(strstr(output, "gpu0: context"));
    assert_null(strstr(output, "gpu2: context"));
    assert_non_null(strstr(output, "cuda:2")); /* its facts are told all the same */
}

/* -- failures ---------------------------------------------------------------------------------- */

static ls_status tour_pair(gpu *a, gpu *b, ls_event *event)
{
    bool complete = false;
    size_t used = 0;
    LS_TRY(open_gpu(a, 0, NULL));
    LS_TRY(open_gpu(b, 1, NULL));
    LS_TRY(load_copy(a));
    LS_TRY(load_copy(b));
    LS_TRY(ls_device_reach(a->device, b->device));
    LS_TRY(ls_event_init(event, a->device));
    for (int i = 0; i < 2; i++) {
        LS_TRY(store(a, 1));
        LS_TRY(ls_fill(&b->stream, b->memory, 1, BYTES));
        LS_TRY(ls_fill(&b->stream, b->memory, 1, 3));
        LS_TRY(ls_copy_within(&a->stream, a->memory, a->memory + 512, 512));
        LS_TRY(drain(b));
        LS_TRY(ls_copy_peer(&a->stream, b->memory, a->memory, BYTES));
        LS_TRY(launch_copy(&a->stream, b->memory + 16, a->memory, 512));
        LS_TRY(ls_event_record(event, &a->stream));
        LS_TRY(ls_stream_wait(&b->stream, event));
        LS_TRY(ls_copy_to_host(&b->stream, b->host, b->memory, BYTES));
        LS_TRY(drain(b));
        LS_TRY(ls_event_poll(event, &complete));
    }
    return ls_cuda_used_bytes(a->device, &used);
}

static void wait_until_idle(gpu *g)
{
    bool idle = g->stream.device == NULL;
    while (!idle && ls_stream_poll(&g->stream, &idle) == LS_OK) continue;
}

/* A bit of everything; prints what failed. Whatever fails, all is released. */
static int case_tour(void)
{
    gpu a = { .device = NULL }, b = { .device = NULL };
    ls_event event = { .device = NULL };
    ls_cuda_facts facts;
    ls_status status = ls_cuda_facts_read(0, &facts);
    if (status == LS_OK) status = tour_pair(&a, &b, &event);
    if (status != LS_OK)
        (void)printf("%s: %s", ls_status_name(status), ls_last_error());
    wait_until_idle(&a);
    wait_until_idle(&b);
    ls_event_free(&event);
    close_gpu(&b);
    close_gpu(&a);
    return 0;
}

/* What a failed release leaves behind, the virtual driver reports at the end of the process. */
static bool is_release(const char *call)
{
    return strstr(call, "Free") || strstr(call, "Destroy") || strstr(call, "Release") ||
           strstr(call, "Unload");
}

/* `call` fails at its use `use`: the tour ends well and leaves nothing, naming the call or not
 * caring. Returns whether it was named. */
static bool check_failure(const char *call, int use)
{
    char setting[128], output[2048];
    (void)snprintf(setting, sizeof setting, "LOCKSTEP_VGPU_FAIL=%s@%d=%d", call, use,
                   strcmp(call, "cuMemAlloc_v2") == 0 ? 2 : 999);
    const int code = fresh_run("tour", WITH(setting), output, sizeof output);
    const bool whole = output[0] == '\0'; /* not used so often, or a release, or asked again */
    const bool named = (strncmp(output, "DEVICE: ", 8) == 0 ||
                        strncmp(output, "MEMORY: ", 8) == 0) && strstr(output, call) != NULL;
    const bool left = strstr(output, "left behind") != NULL;
    if (code != 0 || !(left ? is_release(call) : whole || named)) {
        print_error("%s: code %d: %s\n", setting, code, output);
        fail();
    }
    return named;
}

static void test_a_failure_of_any_call_ends_in_an_error_that_names_it(void **state)
{
    (void)state;
    need_virtual_driver();
    int named = 0;
    assert_case("tour", NULL);
    for (int i = 0; i < LS_CUDA_ENTRY_COUNT; i++) {
        named += check_failure(ls_cuda_entry_name[i], 1);
        named += check_failure(ls_cuda_entry_name[i], 2);
        named += check_failure(ls_cuda_entry_name[i], 4);
    }
    assert_true(named >= 45); /* or the tour does not go where it should */
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "count", case_count },
        { "memory", case_memory },
        { "no pinned memory", case_no_pinned_memory },
        { "peak", case_peak },
        { "copies", case_copies },
        { "refused copies", case_refused_copies },
        { "events", case_events },
        { "not ready", case_not_ready },
        { "shared gpu", case_shared_gpu },
        { "facts", case_facts },
        { "launches", case_launches },
        { "fault", case_fault },
        { "broken images", case_broken_images },
        { "second try", case_second_try },
        { "no second try", case_no_second_try },
        { "pairs", case_pairs },
        { "unprobed", case_unprobed },
        { "peer access", case_peer_access },
        { "tour", case_tour },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_entry_point_is_one_that_the_toolkit_exports),
        cmocka_unit_test(test_every_gpu_counts_also_those_that_no_run_can_use),
        cmocka_unit_test(test_a_machine_without_a_driver_is_told_in_words),
        cmocka_unit_test(test_a_library_that_is_no_driver_is_refused_by_the_symbol_it_lacks),
        cmocka_unit_test(test_a_driver_that_is_too_old_is_told_with_both_versions),
        cmocka_unit_test(test_a_driver_without_gpus_and_one_that_fails_say_so),
        cmocka_unit_test(test_memory_is_aligned_counted_and_refused_in_words),
        cmocka_unit_test(test_memory_that_cannot_be_pinned_is_told_with_limit_and_remedy),
        cmocka_unit_test(test_a_gpus_peak_is_its_units_times_its_clock),
        cmocka_unit_test(test_copies_and_fills_move_what_they_are_told),
        cmocka_unit_test(test_copies_outside_an_allocation_or_of_pageable_memory_are_refused),
        cmocka_unit_test(test_work_after_a_wait_follows_work_before_the_record),
        cmocka_unit_test(test_work_that_is_not_ready_is_no_error_and_waits_for_it_end),
        cmocka_unit_test(test_replicas_on_one_gpu_share_its_context),
        cmocka_unit_test(test_a_gpu_tells_its_facts_without_being_opened),
        cmocka_unit_test(test_kernels_are_found_before_they_are_launched),
        cmocka_unit_test(test_a_gpu_of_any_capability_runs_the_code_that_fits_it),
        cmocka_unit_test(test_a_kernels_fault_is_reported_as_earlier_work),
        cmocka_unit_test(test_ptx_that_does_not_compile_is_reported_with_the_log),
        cmocka_unit_test(test_the_ptx_is_tried_where_there_is_no_code_for_a_gpu_and_not_otherwise),
        cmocka_unit_test(test_a_pair_that_the_probe_proves_is_peer),
        cmocka_unit_test(test_a_pair_that_the_driver_denies_is_staged),
        cmocka_unit_test(test_the_ring_goes_round_a_missing_link),
        cmocka_unit_test(test_a_link_that_drops_zeroes_or_changes_bytes_is_staged),
        cmocka_unit_test(test_a_link_that_hangs_is_staged_and_the_others_are_still_probed),
        cmocka_unit_test(test_a_probe_that_dies_ends_or_raves_refuses_the_pair_it_was_at),
        cmocka_unit_test(test_a_gpu_keeps_as_many_partners_as_it_may_have),
        cmocka_unit_test(test_pairs_that_were_not_probed_are_staged),
        cmocka_unit_test(test_a_gpu_reaches_another_once_access_is_enabled),
        cmocka_unit_test(test_help_version_and_host_lists_leave_the_driver_alone),
        cmocka_unit_test(test_devices_measures_links_and_finds_a_slow_one),
        cmocka_unit_test(test_one_gpu_has_a_way_to_the_host),
        cmocka_unit_test(test_what_cannot_be_measured_is_called_so),
        cmocka_unit_test(test_a_link_that_fails_while_it_is_measured_is_staged),
        cmocka_unit_test(test_devices_says_how_much_memory_others_use),
        cmocka_unit_test(test_only_the_gpus_that_were_chosen_are_opened),
        cmocka_unit_test(test_a_failure_of_any_call_ends_in_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
