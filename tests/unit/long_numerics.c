/* SPDX-License-Identifier: MIT */
/* long_numerics.c -- exp and log over all of the floats: accuracy, equal bits on every machine.
 *
 * Every 17th float against libm in double, every 7th on all machines: odd strides visit every
 * exponent and every pattern of low bits.
 * Machines are asked through the ops that use the functions: softmax of the rows (0, x), x <= 0,
 * holds exp(x) and log(1 + exp(x)). The header itself is compiled here for the baseline processor.
 */
#include <math.h>
#include <stdio.h>

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
    machines all;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_within_1_1_ulp_over_all_floats),
        cmocka_unit_test(test_log_is_within_0_87_ulp_over_all_floats),
        cmocka_unit_test(test_exp_and_log_are_equal_on_every_machine_over_all_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
