/* SPDX-License-Identifier: MIT */
/* test_activation.c -- activations: what they select, how near the truth they are, equal bits on
 * every machine, in place or not.
 *
 * The truth is libm's, in double. (That the gradients are those of the functions, test_gradients.c
 * shows.)
 */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

enum { KINDS = LS_ACTIVATION_SILU + 1 };
static const char *const names[KINDS] = { "relu", "leaky relu", "sigmoid", "tanh", "gelu", "silu" };

static bool derives_from_y(int kind)
{
    return kind == LS_ACTIVATION_RELU || kind == LS_ACTIVATION_SIGMOID ||
           kind == LS_ACTIVATION_TANH;
}

/* y of x on one machine. */
static void activate(machine *m, int kind, size_t count, const float *x, float *y)
{
    const ls_activate_args args = { .kind = (ls_activation)kind, .slope = 0.3f, .count = count,
                                    .x = x, .y = y };
    assert_int_equal(ls_activate(&m->stream, &args), LS_OK);
}

static void derive(machine *m, int kind, size_t count, const float *x, const float *y,
                   const float *dy, float *dx)
{
    const ls_activate_gradient_args args = {
        .kind = (ls_activation)kind, .slope = 0.3f, .count = count,
        .x = derives_from_y(kind) ? NULL : x, .y = derives_from_y(kind) ? y : NULL,
        .dy = dy, .dx = dx };
    assert_int_equal(ls_activate_gradient(&m->stream, &args), LS_OK);
}

static void test_relu_passes_what_is_not_at_most_zero(void **state)
{
    (void)state;
    const float x[7] = { 1.5f, -1.5f, 0.0f, -0.0f, NAN, INFINITY, -INFINITY };
    const float y[7] = { 1.5f, 0.0f, 0.0f, 0.0f, NAN, INFINITY, 0.0f };
    for (int m = 0; m < all.count; m++) {
        float out[7];
        activate(&all.machine[m], LS_ACTIVATION_RELU, 7, x, out);
        assert_true(naive_same("relu", all.machine[m].name, y, out, 7));
    }
}

static void test_relus_gradient_passes_where_the_output_is_above_zero(void **state)
{
    (void)state;
    const float y[6] = { 1.0f, 0.0f, 1e-45f, NAN, INFINITY, 2.0f };
    const float dy[6] = { -0.0f, NAN, 3.0f, 4.0f, -5.0f, NAN };
    const float dx[6] = { -0.0f, 0.0f, 3.0f, 0.0f, -5.0f, NAN };
    for (int m = 0; m < all.count; m++) {
        float out[6];
        derive(&all.machine[m], LS_ACTIVATION_RELU, 6, NULL, y, dy, out);
        assert_true(naive_same("relu_gradient", all.machine[m].name, dx, out, 6));
    }
}

static void test_leaky_relu_multiplies_what_is_not_above_zero(void **state)
{
    (void)state;
    const float x[7] = { 1.5f, -1.5f, 0.0f, -0.0f, NAN, INFINITY, -INFINITY };
    const float y[7] = { 1.5f, 0.3f * -1.5f, 0.0f, -0.0f, NAN, INFINITY, -INFINITY };
    const float dy[7] = { -2.0f, 2.0f, 3.0f, -4.0f, 5.0f, NAN, -0.0f };
    const float dx[7] = { -2.0f, 0.3f * 2.0f, 0.3f * 3.0f, 0.3f * -4.0f, 0.3f * 5.0f, NAN, -0.0f };
    for (int m = 0; m < all.count; m++) {
        float out[7];
        activate(&all.machine[m], LS_ACTIVATION_LEAKY_RELU, 7, x, out);
        assert_true(naive_same("leaky relu", all.machine[m].name, y, out, 7));
        derive(&all.machine[m], LS_ACTIVATION_LEAKY_RELU, 7, x, NULL, dy, out);
        assert_true(naive_same("its gradient", all.machine[m].name, dx, out, 7));
    }
}

/* The activation in double. */
static double truth_of(int kind, double x)
{
    switch (kind) {
    case LS_ACTIVATION_RELU: return fmax(x, 0.0);
    case LS_ACTIVATION_LEAKY_RELU: return x > 0.0 ? x : (double)0.3f * x;
    case LS_ACTIVATION_SIGMOID: return 1.0 / (1.0 + exp(-x));
    case LS_ACTIVATION_TANH: return tanh(x);
    case LS_ACTIVATION_GELU: return x * 0.5 * erfc(-x / sqrt(2.0));
    default: return x / (1.0 + exp(-x));
    }
}

/* Relative to the result and, for gelu, to x: the sum 1 + erf in P loses half an ulp of 1. */
static void test_values_are_those_of_the_functions(void **state)
{
    (void)state;
    enum { N = 40001 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 0.001f;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int m = 0; m < all.count; m += all.count - 1) {
            activate(&all.machine[m], kind, N, x, y);
            for (int i = 0; i < N; i++) {
                const double exact = truth_of(kind, (double)x[i]);
                const double lost = kind == LS_ACTIVATION_GELU ? fabs((double)x[i]) : 0.0;
                const double error = 3e-7 * fabs(exact) + 1e-7 * lost;
                if (!naive_near(names[kind], exact, (double)y[i], error)) {
                    fail_msg("%s(%a)", names[kind], (double)x[i]);
                }
            }
        }
    }
    free(x);
    free(y);
}

static void test_sigmoid_and_tanh_end_where_floats_do(void **state)
{
    (void)state;
    const float x[8] = { INFINITY, -INFINITY, 100.0f, -100.0f, -87.0f, 0.0f, -0.0f, NAN };
    const float least = ls_expf(-87.0f);
    const float sigmoid[8] = { 1.0f, 0.0f, 1.0f, 0.0f, least, 0.5f, 0.5f, NAN };
    const float tanh_[8] = { 1.0f, -1.0f, 1.0f, -1.0f, -1.0f, 0.0f, -0.0f, NAN };
    for (int m = 0; m < all.count; m++) {
        float out[8];
        activate(&all.machine[m], LS_ACTIVATION_SIGMOID, 8, x, out);
        assert_true(naive_same("sigmoid", all.machine[m].name, sigmoid, out, 8));
        activate(&all.machine[m], LS_ACTIVATION_TANH, 8, x, out);
        assert_true(naive_same("tanh", all.machine[m].name, tanh_, out, 8));
    }
}

static void test_a_nan_passes_every_activation_and_its_gradient(void **state)
{
    (void)state;
    const float x[2] = { NAN, 1.0f }, dy[2] = { 1.0f, NAN };
    for (int m = 0; m < all.count; m++) {
        for (int kind = 0; kind < KINDS; kind++) {
            float y[2], dx[2];
            activate(&all.machine[m], kind, 2, x, y);
            derive(&all.machine[m], kind, 2, x, y, dy, dx);
            assert_true(isnan(y[0]) && !isnan(y[1]) && isnan(dx[1]));
            const bool selects = kind == LS_ACTIVATION_RELU || kind == LS_ACTIVATION_LEAKY_RELU;
            assert_true(selects || isnan(dx[0]));
        }
    }
}

static const size_t counts[] = { 0,  1,  2,  3,    7,     15,    16,    17,
                                 63, 64, 65, 1000, 32767, 32769, 100001 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* Of values in (-1, 1) every fourth is spread over (-64, 64). */
static float *spread_values(naive_random *random, size_t count)
{
    float *x = naive_values(random, count, NAIVE_ALL);
    for (size_t i = 0; i < count; i += 4) x[i] *= 64.0f;
    return x;
}

static void check_length(int kind, size_t n, uint64_t seed)
{
    naive_random random = { seed };
    float *x = spread_values(&random, n), *dy = naive_values(&random, n, NAIVE_ALL);
    float *y = malloc(n * sizeof *y), *dx = malloc(n * sizeof *dx);
    float *want = malloc(n * sizeof *want), *want_dx = malloc(n * sizeof *want_dx);
    activate(&all.machine[0], kind, n, x, want);
    derive(&all.machine[0], kind, n, x, want, dy, want_dx);
    for (int m = 0; m < all.count; m++) {
        machine *at = &all.machine[m];
        activate(at, kind, n, x, y);
        assert_true(naive_same(names[kind], at->name, want, y, n));
        derive(at, kind, n, x, y, dy, dx);
        assert_true(naive_same("its gradient", at->name, want_dx, dx, n));
        if (n > 0) memcpy(y, x, n * sizeof *y);
        activate(at, kind, n, y, y);
        assert_true(naive_same("in place", at->name, want, y, n));
        if (n > 0) memcpy(dx, dy, n * sizeof *dx);
        derive(at, kind, n, x, y, dx, dx);
        assert_true(naive_same("its gradient in place", at->name, want_dx, dx, n));
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(want);
    free(want_dx);
}

static void test_every_length_gives_the_references_bits_in_place_too(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t k = 0; k < COUNTS; k++) check_length(kind, counts[k], 100 * k + (size_t)kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relu_passes_what_is_not_at_most_zero),
        cmocka_unit_test(test_relus_gradient_passes_where_the_output_is_above_zero),
        cmocka_unit_test(test_leaky_relu_multiplies_what_is_not_above_zero),
        cmocka_unit_test(test_values_are_those_of_the_functions),
        cmocka_unit_test(test_sigmoid_and_tanh_end_where_floats_do),
        cmocka_unit_test(test_a_nan_passes_every_activation_and_its_gradient),
        cmocka_unit_test(test_every_length_gives_the_references_bits_in_place_too),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
