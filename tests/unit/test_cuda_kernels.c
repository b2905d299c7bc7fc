/* SPDX-License-Identifier: MIT */
/* test_cuda_kernels.c -- how a kernel gets to a GPU: which code is loaded, launched, reported.
 *
 * Every case is a process of its own (fresh_process.h); those that need a machine made for them
 * run on the virtual driver only. The kernel is the link probe's.
 */
#include <stdint.h>
#include <string.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "device/cuda_module.h"
#include "device/probe.h"
#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/one_gpu.h"
#include "support/test.h"

static int case_launches(void)
{
    gpu g;
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_FAILS(gpu_launch_copy(&g.stream, g.memory, g.memory, 1), LS_ERR_DEVICE,
                "cuda:0: kernel ls_probe_copy was not loaded");
    static const char *const wrong[] = { "ls_no_such_kernel" };
    CHECK_FAILS(ls_cuda_context_load(g.device->implementation, ls_embedded_cuda_probe, wrong, 1),
                LS_ERR_DEVICE, "cuda:0: no module has a kernel ls_no_such_kernel");
    CHECK_OK(gpu_load_copy(&g));
    CHECK_OK(gpu_store(&g, 5));
    CHECK_OK(gpu_launch_copy(&g.stream, (unsigned char *)ls_cuda_workspace(&g.stream), g.memory,
                         GPU_BYTES));
    CHECK_OK(ls_fill(&g.stream, g.memory, 0, GPU_BYTES));
    CHECK_OK(gpu_launch_copy(&g.stream, g.memory, ls_cuda_workspace(&g.stream), GPU_BYTES));
    CHECK_OK(gpu_drain(&g));
    CHECK(gpu_holds(&g, 5));
    const ls_probe_params params = { .from = g.memory, .to = g.memory, .bytes = 0 };
    const ls_cuda_launch_args high = { .kernel = GPU_COPY_KERNEL, .grid = { 1, 70000, 1 },
                                       .block = LS_PROBE_THREADS, .params = &params,
                                       .param_bytes = sizeof params };
    CHECK_FAILS(ls_cuda_launch(&g.stream, &high), LS_ERR_DEVICE,
                "cuLaunchKernel failed while launching ls_probe_copy, 1 x 70000 x 1 blocks of 128 "
                "threads");
    gpu_close(&g);
    return 0;
}

/* A kernel's fault is reported by a later call, and by every one after it. */
static int case_fault(void)
{
    gpu g;
    bool idle = false;
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_OK(gpu_load_copy(&g));
    CHECK_OK(gpu_launch_copy(&g.stream, g.memory, (const void *)(uintptr_t)4096, 64));
    ls_status status = LS_OK;
    while (status == LS_OK && !idle) status = ls_stream_poll(&g.stream, &idle);
    CHECK(status == LS_ERR_DEVICE);
    CHECK(strstr(ls_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS, 700") != NULL);
    /* the driver's words are told to their end, however long they are */
    CHECK(strstr(ls_last_error(), "kernel ls_probe_copy, block (0,0,0)") != NULL);
    CHECK(strstr(ls_last_error(), "0x1000 is not allocated; the cause may be a kernel or copy that "
                                  "was enqueued earlier") != NULL);
    CHECK_FAILS(ls_fill(&g.stream, g.memory, 0, 4), LS_ERR_DEVICE, "cuda:0: ");
    gpu_close(&g);
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
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_OK(gpu_load_copy(&g));
    gpu_close(&g);
    return 0;
}

static int case_no_second_try(void)
{
    gpu g;
    CHECK_OK(gpu_open(&g, 0, NULL));
    CHECK_FAILS(gpu_load_copy(&g), LS_ERR_MEMORY,
                "cuModuleLoadDataEx failed while loading the kernels of probe");
    gpu_close(&g);
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

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "launches", case_launches },
        { "fault", case_fault },
        { "broken images", case_broken_images },
        { "second try", case_second_try },
        { "no second try", case_no_second_try },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_found_before_they_are_launched),
        cmocka_unit_test(test_a_gpu_of_any_capability_runs_the_code_that_fits_it),
        cmocka_unit_test(test_a_kernels_fault_is_reported_as_earlier_work),
        cmocka_unit_test(test_ptx_that_does_not_compile_is_reported_with_the_log),
        cmocka_unit_test(test_the_ptx_is_tried_where_there_is_no_code_for_a_gpu_and_not_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
