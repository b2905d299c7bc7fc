/* SPDX-License-Identifier: MIT */
/* test_cuda_conformance.c -- the PTX conformance suite through the driver, virtual or real.
 *
 * The suite says what each instruction must give, from the text of the PTX ISA; the interpreter of
 * the virtual GPU is held to it by test_vgpu_ptx. Here the driver compiles and runs the same cases.
 * On a real GPU this is what shows that "equal bits on the virtual GPU" means something. Without a
 * GPU it is skipped, unless LS_REQUIRE_GPU is set.
 */
#include "support/test.h"

#include <stdio.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "support/conformance.h"
#include "thread.h"

enum { STAGING_BYTES = 1 << 20, LIMIT_SECONDS = 20 };

static struct {
    ls_cuda_context *context;
    CUstream stream;
    unsigned char *staging; /* pinned; input, and output behind it */
} gpu;

static bool refuse(char *error, size_t error_bytes, const char *call, CUresult result)
{
    char text[LS_CUDA_RESULT_BYTES];
    (void)snprintf(error, error_bytes, "%s: %s", call,
                   ls_cuda_result_text(gpu.context->driver, result, text));
    return false;
}

#define TRY(call)                                                                                 \
    do {                                                                                          \
        const CUresult result_ = (call);                                                          \
        if (result_ != CUDA_SUCCESS) return refuse(error, error_bytes, #call, result_);           \
    } while (0)

static bool wait_idle(char *error, size_t error_bytes)
{
    const double end = ls_clock() + LIMIT_SECONDS;
    CUresult result;
    while ((result = gpu.context->driver->stream_query(gpu.stream)) == CUDA_ERROR_NOT_READY)
        if (ls_clock() > end) break;
    return result == CUDA_SUCCESS || refuse(error, error_bytes, "the kernel's end", result);
}

static bool run_kernel(CUfunction function, const vgpu_conformance_case *test, char *error,
                       size_t error_bytes)
{
    const ls_cuda_driver *d = gpu.context->driver;
    unsigned char *in_host = gpu.staging, *out_host = gpu.staging + STAGING_BYTES / 2;
    CUdeviceptr in = 0, out = 0;
    if (test->in_bytes > STAGING_BYTES / 2 || test->out_bytes > STAGING_BYTES / 2) {
        (void)snprintf(error, error_bytes, "more than the staging memory");
        return false;
    }
    TRY(d->mem_alloc(&in, test->in_bytes > 0 ? test->in_bytes : 1));
    TRY(d->mem_alloc(&out, test->out_bytes));
    if (test->in_bytes > 0) {
        memcpy(in_host, test->in, test->in_bytes);
        TRY(d->memcpy_h_to_d(in, in_host, test->in_bytes, gpu.stream));
    }
    TRY(d->memset_d8(out, 0, test->out_bytes, gpu.stream));
    void *arguments[] = { &in, &out };
    TRY(d->launch(function, test->grid[0], test->grid[1], test->grid[2], test->block[0],
                  test->block[1], test->block[2], (unsigned)test->dynamic_shared_bytes, gpu.stream,
                  arguments, NULL));
    TRY(d->memcpy_d_to_h(out_host, out, test->out_bytes, gpu.stream));
    if (!wait_idle(error, error_bytes)) return false;
    memcpy(test->out, out_host, test->out_bytes);
    TRY(d->mem_free(out));
    TRY(d->mem_free(in));
    return true;
}

static bool run_case(void *context, const vgpu_conformance_case *test, char *error,
                     size_t error_bytes)
{
    (void)context;
    const ls_cuda_driver *d = gpu.context->driver;
    CUmodule module;
    CUfunction function;
    TRY(d->module_load(&module, test->ptx, 0, NULL, NULL));
    TRY(d->module_function(&function, module, "test"));
    const bool done = run_kernel(function, test, error, error_bytes);
    if (done) TRY(d->module_unload(module));
    return done;
}

/* Owned by the caller. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s: cannot be opened; run from the root of the tree", path);
    char *text = calloc(STAGING_BYTES, 1);
    assert_non_null(text);
    assert_true(fread(text, 1, STAGING_BYTES, file) < STAGING_BYTES);
    (void)fclose(file);
    return text;
}

static int open_gpu(void **state)
{
    (void)state;
    const char *why = "";
    if (ls_cuda_usable_count(&why) == 0) {
        print_message("left out, no usable GPU: %s\n", why);
        return 0;
    }
    assert_int_equal(ls_cuda_context_retain(0, &gpu.context), LS_OK);
    assert_int_equal(ls_cuda_context_enter(gpu.context), LS_OK);
    const ls_cuda_driver *d = gpu.context->driver;
    void *staging = NULL;
    assert_int_equal(d->mem_host_alloc(&staging, STAGING_BYTES, CU_MEMHOSTALLOC_PORTABLE), 0);
    gpu.staging = staging;
    return d->stream_create(&gpu.stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS ? 0 : -1;
}

static int close_gpu(void **state)
{
    (void)state;
    if (gpu.context == NULL) return 0;
    (void)gpu.context->driver->stream_destroy(gpu.stream);
    (void)gpu.context->driver->mem_free_host(gpu.staging);
    ls_cuda_context_release(gpu.context);
    return 0;
}

/* The suite has cases for 8.0. */
static void need_a_gpu(void)
{
    const char *required = getenv("LS_REQUIRE_GPU");
    if (gpu.context != NULL && gpu.context->capability >= 80) return;
    if (gpu.context != NULL) print_message("left out, needs compute capability 8.0\n");
    else if (required != NULL && atoi(required) > 0) fail();
    skip();
}

static void test_each_arithmetic_instruction_gives_what_the_isa_says(void **state)
{
    (void)state;
    need_a_gpu();
    vgpu_conformance_result result;
    char *text = read_text("tests/vgpu/conformance/arithmetic.txt");
    assert_true(vgpu_conformance_arithmetic(text, run_case, NULL, &result));
    if (result.failures > 0) fail_msg("%zu instructions; first: %s", result.failures, result.first);
    assert_true(result.instructions > 400 && result.values > 5000);
    free(text);
}

static void test_memory_branches_and_collectives_give_what_the_isa_says(void **state)
{
    (void)state;
    need_a_gpu();
    vgpu_conformance_result result;
    char *text = read_text("tests/vgpu/conformance/programs.txt");
    assert_true(vgpu_conformance_programs(text, run_case, NULL, &result));
    if (result.failures > 0) fail_msg("%zu cases; first: %s", result.failures, result.first);
    assert_true(result.instructions > 300);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arithmetic_instruction_gives_what_the_isa_says),
        cmocka_unit_test(test_memory_branches_and_collectives_give_what_the_isa_says),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
