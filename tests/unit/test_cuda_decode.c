/* SPDX-License-Identifier: MIT */
/* test_cuda_decode.c -- bytes that become numbers on a GPU become the reference's.
 *
 * As test_cuda_products.c: each case on three virtual machines, or on the real GPU that is there.
 */
#include "support/test.h"

#include "kernels/reference/reference.h"
#include "support/fresh_process.h"
#include "support/gpu_arrays.h"
#include "support/gpu_machines.h"
#include "support/naive.h"

static void check_decode(gpu_arrays *g, naive_random *n, size_t pixels, size_t channels)
{
    const size_t count = pixels * channels;
    float *table = naive_values(n, channels * 256, NAIVE_ALL), *want;
    uint8_t *x = malloc(count + 1);
    for (size_t i = 0; i < count; i++) x[i] = (uint8_t)naive_next(n);
    ls_decode_args a = { count, channels, x, table, NULL };
    ls_decode_args d = a;
    d.table = gpu_copy_of(g, table, channels * 256 * sizeof *table);
    d.y = gpu_output(g, count * sizeof *want, &want);
    d.x = gpu_copy_of(g, x, count);
    a.y = want;
    MUST(ls_decode_reference(NULL, &a));
    MUST(ls_decode(&g->stream, &d));
    gpu_same_floats(g, "decode", want, d.y, count);
    gpu_arrays_drop(g);
    free(table);
    free(x);
}

static int case_decode(void)
{
    static const size_t pixels[] = { 0, 1, 2, 3, 4, 5, 341, 1024, 1365, 4097 };
    naive_random n = gpu_random();
    gpu_arrays g;
    gpu_arrays_open(&g);
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++) {
        for (size_t channels = 1; channels <= 5; channels++) {
            check_decode(&g, &n, pixels[i], channels);
        }
    }
    g.shift = sizeof(float);
    check_decode(&g, &n, 700, 3);
    gpu_arrays_close(&g);
    return 0;
}

static int case_bytes_anywhere(void)
{
    gpu_arrays g;
    naive_random n = { .state = 5 };
    gpu_arrays_open(&g);
    enum { BYTES = 4 * 3 * 100 };
    float table[3 * 256], *want;
    uint8_t x[BYTES + 3];
    for (int i = 0; i < 3 * 256; i++) table[i] = naive_unit(&n);
    for (int i = 0; i < BYTES + 3; i++) x[i] = (uint8_t)naive_next(&n);
    const uint8_t *x_dev = gpu_copy_of(&g, x, sizeof x);
    const float *table_dev = gpu_copy_of(&g, table, sizeof table);
    for (size_t first = 0; first < 4; first++) {
        float *y = gpu_output(&g, BYTES * sizeof *want, &want);
        MUST(ls_decode_reference(NULL, &(ls_decode_args){ BYTES, 3, x + first, table, want }));
        MUST(ls_decode(&g.stream, &(ls_decode_args){ BYTES, 3, x_dev + first, table_dev, y }));
        gpu_same_floats(&g, "decode of bytes off alignment", want, y, BYTES);
    }
    gpu_arrays_close(&g);
    return 0;
}

static void test_decoding_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    on_three_machines("decode");
}

static void test_bytes_may_begin_at_any_address(void **state)
{
    (void)state;
    need_gpus(1);
    assert_case("bytes anywhere", "LOCKSTEP_VGPU_SEED=1");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "decode", case_decode }, { "bytes anywhere", case_bytes_anywhere }, { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding_has_the_bits_of_the_reference),
        cmocka_unit_test(test_bytes_may_begin_at_any_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
