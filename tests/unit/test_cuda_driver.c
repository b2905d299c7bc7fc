/* SPDX-License-Identifier: MIT */
/* test_cuda_driver.c -- the driver that is found, the GPUs that it has, and calls of it that fail.
 *
 * Every case is a process of its own (fresh_process.h), most of them on a virtual driver that was
 * told to be old, empty or broken.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda.h"
#include "device/cuda_driver.h"
#include "device/device.h"
#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/one_gpu.h"
#include "support/test.h"

/* -- the driver and its GPUs -- */

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

static void test_a_gpu_tells_its_facts_without_being_opened(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("facts", NULL);
}

/* -- calls that fail -- */

static ls_status tour_pair(gpu *a, gpu *b, ls_event *event)
{
    bool complete = false;
    size_t used = 0;
    LS_TRY(gpu_open(a, 0, NULL));
    LS_TRY(gpu_open(b, 1, NULL));
    LS_TRY(gpu_load_copy(a));
    LS_TRY(gpu_load_copy(b));
    LS_TRY(ls_device_reach(a->device, b->device));
    LS_TRY(ls_event_init(event, a->device));
    for (int i = 0; i < 2; i++) {
        LS_TRY(gpu_store(a, 1));
        LS_TRY(ls_fill(&b->stream, b->memory, 1, GPU_BYTES));
        LS_TRY(ls_fill(&b->stream, b->memory, 1, 3));
        LS_TRY(ls_copy_within(&a->stream, a->memory, a->memory + 512, 512));
        LS_TRY(gpu_drain(b));
        LS_TRY(ls_copy_peer(&a->stream, b->memory, a->memory, GPU_BYTES));
        LS_TRY(gpu_launch_copy(&a->stream, b->memory + 16, a->memory, 512));
        LS_TRY(ls_event_record(event, &a->stream));
        LS_TRY(ls_stream_wait(&b->stream, event));
        LS_TRY(ls_copy_to_host(&b->stream, b->host, b->memory, GPU_BYTES));
        LS_TRY(gpu_drain(b));
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
    gpu_close(&b);
    gpu_close(&a);
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

/* After these a context is of no use, and the call that tells is seldom the cause. */
static void test_a_result_that_comes_late_is_told_as_such(void **state)
{
    (void)state;
    need_virtual_driver();
    static const struct {
        int result;
        bool late;
    } row[] = { { 1, false }, { 2, false }, { 226, true }, { 700, true }, { 719, true } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char setting[64], output[2048];
        (void)snprintf(setting, sizeof setting, "LOCKSTEP_VGPU_FAIL=cuMemcpyPeerAsync@1=%d",
                       row[i].result);
        assert_int_equal(fresh_run("tour", WITH(setting), output, sizeof output), 0);
        assert_non_null(strstr(output, "cuMemcpyPeerAsync failed"));
        if ((strstr(output, "enqueued earlier") != NULL) == row[i].late) continue;
        fail_msg("%d: %s", row[i].result, output);
    }
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "count", case_count },
        { "peak", case_peak },
        { "facts", case_facts },
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
        cmocka_unit_test(test_a_gpus_peak_is_its_units_times_its_clock),
        cmocka_unit_test(test_a_gpu_tells_its_facts_without_being_opened),
        cmocka_unit_test(test_a_failure_of_any_call_ends_in_an_error_that_names_it),
        cmocka_unit_test(test_a_result_that_comes_late_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
