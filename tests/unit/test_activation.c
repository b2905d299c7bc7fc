/* SPDX-License-Identifier: MIT */
/* test_activation.c -- relu and its gradient are selects, on every machine, in place or not. */
#include <math.h>
#include <stdio.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static machines all;

static int open_machines(void **state)
{
    (void)state;
    machines_open(&all);
    return 0;
}

static int close_machines(void **state)
{
    (void)state;
    machines_close(&all);
    return 0;
}

static const size_t counts[] = { 0,  1,  2,  3,    7,     15,    16,    17,
                                 63, 64, 65, 1000, 32767, 32769, 100001 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

static void test_relu_passes_what_is_not_at_most_zero(void **state)
{
    (void)state;
    const float x[7] = { 1.5f, -1.5f, 0.0f, -0.0f, NAN, INFINITY, -INFINITY };
    const float y[7] = { 1.5f, 0.0f, 0.0f, 0.0f, NAN, INFINITY, 0.0f };
    for (int m = 0; m < all.count; m++) {
        float out[7];
        assert_int_equal(ls_relu(&all.machine[m].stream, &(ls_relu_args){ 7, x, out }), LS_OK);
        assert_true(naive_same("relu", all.machine[m].name, y, out, 7));
    }
}

static void test_the_gradient_passes_where_the_output_is_above_zero(void **state)
{
    (void)state;
    const float y[6] = { 1.0f, 0.0f, 1e-45f, NAN, INFINITY, 2.0f };
    const float dy[6] = { -0.0f, NAN, 3.0f, 4.0f, -5.0f, NAN };
    const float dx[6] = { -0.0f, 0.0f, 3.0f, 0.0f, -5.0f, NAN };
    for (int m = 0; m < all.count; m++) {
        float out[6];
        const ls_relu_gradient_args args = { 6, y, dy, out };
        assert_int_equal(ls_relu_gradient(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("relu_gradient", all.machine[m].name, dx, out, 6));
    }
}

static void test_every_length_gives_the_references_bits_in_place_too(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNTS; k++) {
        const size_t n = counts[k];
        naive_random random = { k };
        float *x = naive_values(&random, n, 31), *dy = naive_values(&random, n, 31);
        float *y = malloc(n * sizeof *y), *dx = malloc(n * sizeof *dx);
        float *want = malloc(n * sizeof *want), *want_dx = malloc(n * sizeof *want_dx);
        for (size_t i = 0; i < n; i++) {
            want[i] = x[i] > 0.0f || isnan(x[i]) ? x[i] : 0.0f;
            want_dx[i] = want[i] > 0.0f ? dy[i] : 0.0f;
        }
        for (int m = 0; m < all.count; m++) {
            ls_stream *stream = &all.machine[m].stream;
            assert_int_equal(ls_relu(stream, &(ls_relu_args){ n, x, y }), LS_OK);
            assert_true(naive_same("relu", all.machine[m].name, want, y, n));
            assert_int_equal(ls_relu_gradient(stream, &(ls_relu_gradient_args){ n, y, dy, dx }),
                             LS_OK);
            assert_true(naive_same("relu_gradient", all.machine[m].name, want_dx, dx, n));
            if (n > 0) memcpy(y, x, n * sizeof *y);
            assert_int_equal(ls_relu(stream, &(ls_relu_args){ n, y, y }), LS_OK);
            assert_true(naive_same("relu in place", all.machine[m].name, want, y, n));
            if (n > 0) memcpy(dx, dy, n * sizeof *dx);
            assert_int_equal(ls_relu_gradient(stream, &(ls_relu_gradient_args){ n, y, dx, dx }),
                             LS_OK);
            assert_true(naive_same("gradient in place", all.machine[m].name, want_dx, dx, n));
        }
        free(x);
        free(dy);
        free(y);
        free(dx);
        free(want);
        free(want_dx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relu_passes_what_is_not_at_most_zero),
        cmocka_unit_test(test_the_gradient_passes_where_the_output_is_above_zero),
        cmocka_unit_test(test_every_length_gives_the_references_bits_in_place_too),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
