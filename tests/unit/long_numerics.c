/* SPDX-License-Identifier: MIT */
/* long_numerics.c -- elementary functions over all of the floats: accuracy, equal bits on every
 * machine.
 *
 * Every 17th float against libm in double, every 7th or so on all machines: odd strides visit
 * every exponent and every pattern of low bits. Functions in double: random arguments against libm
 * in long double.
 * Machines are asked through the ops that use the functions: softmax of the rows (0, x), x <= 0,
 * holds exp(x) and log(1 + exp(x)); the activations hold tanh and, in gelu, erf. The header itself
 * is compiled here for the baseline processor.
 */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* |y - exact| in units of the last place of `exact`. */
static double ulps(float y, double exact)
{
    int exponent;
    (void)frexp(exact, &exponent);
    return fabs((double)y - exact) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* |y - exact| in units of the last place of `exact` as a double. */
static double double_ulps(double y, long double exact)
{
    int exponent;
    (void)frexpl(exact, &exponent);
    const long double last = ldexpl(1.0L, (exponent < -1021 ? -1021 : exponent) - 53);
    return (double)(fabsl((long double)y - exact) / last);
}

static void test_exp_is_within_1_1_ulp_over_all_floats(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 17) {
        const float x = ls_float_of_bits((uint32_t)bits), y = ls_expf(x);
        if (x < -87.0f) {
            assert_int_equal(ls_float_bits(y), 0);
        } else if (x <= 88.7228317f) {
            const double error = ulps(y, exp((double)x));
            worst = error > worst ? error : worst;
        } else if (x == x) {
            assert_true(y == INFINITY);
        } else {
            assert_true(isnan(y));
        }
    }
    print_message("exp: %.4f ulp\n", worst);
    assert_true(worst < 1.1);
}

static void test_log_is_within_0_87_ulp_over_all_floats(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 17) {
        const float x = ls_float_of_bits((uint32_t)bits), y = ls_logf(x);
        if (x > 0.0f && x < INFINITY) {
            const double error = ulps(y, log((double)x));
            worst = error > worst ? error : worst;
        } else if (x == 0.0f) {
            assert_true(y == -INFINITY);
        } else if (x == INFINITY) {
            assert_true(y == INFINITY);
        } else {
            assert_true(isnan(y));
        }
    }
    print_message("log: %.4f ulp\n", worst);
    assert_true(worst < 0.87);
}

/* x <= 0 as far as exp is not 0; 65536 rows at a time. */
static void test_exp_and_log_are_equal_on_every_machine_over_all_floats(void **state)
{
    (void)state;
    enum { ROWS = 65536 };
    machines_open(&all);
    float *logits = calloc(2 * ROWS, sizeof *logits);
    int32_t *label = calloc(ROWS, sizeof *label);
    float *loss[2], *p[2];
    for (int i = 0; i < 2; i++) {
        loss[i] = malloc(ROWS * sizeof *loss[i]);
        p[i] = malloc(2 * ROWS * sizeof *p[i]);
    }
    for (uint64_t first = 0x80000000u; first < 0xc2b00000u; first += 7 * ROWS) {
        for (uint32_t row = 0; row < ROWS; row++) {
            logits[2 * row + 1] = ls_float_of_bits((uint32_t)first + 7 * row);
        }
        for (int m = 0; m < all.count; m += m == 0 ? 1 : 3) { /* the sets with one thread */
            const int i = m > 0;
            const ls_softmax_loss_args args = { .samples = ROWS, .classes = 2, .logits = logits,
                                                .label = label, .loss = loss[i],
                                                .probability = p[i] };
            assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
            if (m == 0) continue;
            assert_true(naive_same("log", all.machine[m].name, loss[0], loss[1], ROWS));
            assert_true(naive_same("exp", all.machine[m].name, p[0], p[1], 2 * ROWS));
        }
    }
    for (int i = 0; i < 2; i++) {
        free(loss[i]);
        free(p[i]);
    }
    free(logits);
    free(label);
    machines_close(&all);
}

/* Both functions are odd to the last bit (test_numerics.c): positive floats are enough. Every one
 * between 1/8, below which they are x and a little, and 16, where they have become 1. */
static double worst_of(float (*function)(float), double (*truth)(double))
{
    double worst = 0.0;
    for (uint32_t bits = 0; bits < 0x7f800000u;
         bits += bits < 0x3e000000u || bits > 0x41800000u ? 257 : 1) {
        const float x = ls_float_of_bits(bits);
        const double error = ulps(function(x), truth((double)x));
        worst = error > worst ? error : worst;
    }
    return worst;
}

static void test_tanh_and_erf_keep_their_bounds_over_all_floats(void **state)
{
    (void)state;
    const double of_tanh = worst_of(ls_tanhf, tanh), of_erf = worst_of(ls_erff, erf);
    print_message("tanh: %.4f ulp\nerf: %.4f ulp\n", of_tanh, of_erf);
    assert_true(of_tanh < 1.07);
    assert_true(of_erf < 1.34);
}

/* Exp and log in double: each argument against libm in long double. */
static void test_double_exp_and_log_keep_their_bounds(void **state)
{
    (void)state;
    naive_random random = { 1 };
    double of_exp = 0.0, of_log = 0.0;
    for (long i = 0; i < 8000000; i++) {
        const double unit = (double)naive_next(&random) * 0x1p-64;
        const double x = i % 2 ? unit * 1454.9 - 745.1332191019411 : (unit - 0.5) * 2.0;
        const double y = ls_double_of_bits((uint64_t)(unit * 0x1p52) * 2047 + 1);
        const double z = i % 2 ? y : unit + 0.5;
        const double error = double_ulps(ls_exp(x), expl((long double)x));
        const double log_error = double_ulps(ls_log(z), logl((long double)z));
        of_exp = error > of_exp ? error : of_exp;
        of_log = log_error > of_log ? log_error : of_log;
    }
    print_message("exp in double: %.4f ulp\nlog in double: %.4f ulp\n", of_exp, of_log);
    assert_true(of_exp < 1.0);
    assert_true(of_log < 0.9);
}

/* Every kind and its gradient, 65536 floats at a time. */
static void test_activations_are_equal_on_every_machine_over_all_floats(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    machines_open(&all);
    float *x = malloc(COUNT * sizeof *x), *dy = malloc(COUNT * sizeof *dy);
    float *out[2] = { malloc(COUNT * sizeof *x), malloc(COUNT * sizeof *x) };
    for (int i = 0; i < COUNT; i++) dy[i] = 1.0f;
    for (uint64_t first = 0; first < (uint64_t)1 << 32; first += 509 * (uint64_t)COUNT) {
        for (uint32_t i = 0; i < COUNT; i++) x[i] = ls_float_of_bits((uint32_t)first + 509 * i);
        for (int kind = LS_ACTIVATION_SIGMOID; kind <= LS_ACTIVATION_SILU; kind++) {
            for (int m = 0; m < all.count; m += m == 0 ? 1 : 3) { /* with one thread */
                ls_stream *stream = &all.machine[m].stream;
                const ls_activate_args args = { .kind = (ls_activation)kind, .count = COUNT,
                                                .x = x, .y = out[m > 0] };
                assert_int_equal(ls_activate(stream, &args), LS_OK);
                if (m > 0) {
                    assert_true(naive_same("value", all.machine[m].name, out[0], out[1], COUNT));
                }
            }
            for (int m = 0; m < all.count; m += m == 0 ? 1 : 3) {
                ls_stream *stream = &all.machine[m].stream;
                const ls_activate_gradient_args args = { .kind = (ls_activation)kind,
                                                         .count = COUNT, .x = x, .y = x,
                                                         .dy = dy, .dx = out[m > 0] };
                assert_int_equal(ls_activate_gradient(stream, &args), LS_OK);
                if (m > 0) {
                    assert_true(
                        naive_same("gradient", all.machine[m].name, out[0], out[1], COUNT));
                }
            }
        }
    }
    free(x);
    free(dy);
    free(out[0]);
    free(out[1]);
    machines_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_within_1_1_ulp_over_all_floats),
        cmocka_unit_test(test_log_is_within_0_87_ulp_over_all_floats),
        cmocka_unit_test(test_tanh_and_erf_keep_their_bounds_over_all_floats),
        cmocka_unit_test(test_double_exp_and_log_keep_their_bounds),
        cmocka_unit_test(test_activations_are_equal_on_every_machine_over_all_floats),
        cmocka_unit_test(test_exp_and_log_are_equal_on_every_machine_over_all_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
