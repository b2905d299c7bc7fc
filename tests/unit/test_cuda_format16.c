/* SPDX-License-Identifier: MIT */
/* test_cuda_format16.c -- 16-bit storage on a GPU has the reference's bits.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "numerics.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
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
    naive_random n = gpu_random();
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
    on_three_machines("storage");
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
