/* SPDX-License-Identifier: MIT */
/* test_cuda_format16.c -- 16-bit storage on a GPU has the reference's bits.
 *
 * As test_cuda_elements.c: each case on three virtual machines, or on the real GPU that is there.
 */
#include "support/test.h"

#include <stdio.h>

#include "device/cuda.h"
#include "kernels/reference/reference.h"
#include "numerics.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/naive.h"

/* Narrowed on the GPU and widened there, against both on the host. */
static void check(gpu_arrays *g, naive_random *n, ls_format16 format, size_t count)
{
    float *x = malloc((count + 1) * sizeof *x), *want;
    uint16_t *h = malloc((count + 1) * sizeof *h), *unused;
    for (size_t i = 0; i < count; i++) x[i] = ls_float_of_bits((uint32_t)naive_next(n));
    const float *x_dev = gpu_copy_of(g, x, count * sizeof *x);
    uint16_t *h_dev = gpu_output(g, count * sizeof *h, &unused);
    float *y_dev = gpu_output(g, count * sizeof *want, &want);
    MUST(ls_narrow_reference(NULL, &(ls_narrow_args){ format, count, x, h }));
    MUST(ls_widen_reference(NULL, &(ls_widen_args){ format, count, h, want }));
    MUST(ls_narrow(&g->stream, &(ls_narrow_args){ format, count, x_dev, h_dev }));
    MUST(ls_widen(&g->stream, &(ls_widen_args){ format, count, h_dev, y_dev }));
    gpu_same_floats(g, "16-bit storage", want, y_dev, count);
    gpu_arrays_drop(g);
    free(x);
    free(h);
}

static int case_storage(void)
{
    static const size_t counts[] = { 0, 1, 2, 3, 4, 5, 1023, 1024, 4099 };
    const char *seed = getenv("LOCKSTEP_VGPU_SEED");
    naive_random n = { .state = seed == NULL ? 1 : strtoull(seed, NULL, 10) };
    gpu_arrays g;
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check(&g, &n, LS_FORMAT_BF16, counts[i]);
        check(&g, &n, LS_FORMAT_F16, counts[i]);
    }
    g.shift = sizeof(float);
    check(&g, &n, LS_FORMAT_BF16, 700);
    check(&g, &n, LS_FORMAT_F16, 701);
    gpu_arrays_close(&g);
    return 0;
}

static void test_storage_in_16_bits_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    static const char *why; /* for gcc: what fails jumps out of here */
    if (ls_cuda_usable_count(&why) == 0) {
        if (getenv("LS_REQUIRE_GPU") != NULL) fail_msg("no usable GPU: %s", why);
        skip();
    }
    if (!driver_is_virtual()) {
        assert_case("storage", "LOCKSTEP_VGPU_SEED=");
        return;
    }
    assert_case("storage", "LOCKSTEP_VGPU_SEED=1", "LOCKSTEP_VGPU_CAPABILITY=80");
    assert_case("storage", "LOCKSTEP_VGPU_SEED=2", "LOCKSTEP_VGPU_CAPABILITY=75");
    assert_case("storage", "LOCKSTEP_VGPU_SEED=3", "LOCKSTEP_VGPU_CAPABILITY=120");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = { { "storage", case_storage }, { NULL, NULL } };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage_in_16_bits_has_the_bits_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
