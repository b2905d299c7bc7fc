/* SPDX-License-Identifier: MIT */
/* test_loss.c -- softmax cross-entropy and squared error: right, and the same on every machine. */
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

/* -- softmax ---------------------------------------------------------------------------------- */

typedef struct {
    size_t samples, classes;
    float *logits, *weight, *loss, *dlogits, *probability;
    int32_t *label, *correct;
} softmax_case;

static softmax_case softmax_create(size_t samples, size_t classes, uint64_t seed, int mix)
{
    naive_random random = { seed };
    softmax_case t = { .samples = samples, .classes = classes };
    t.logits = naive_values(&random, samples * classes, mix);
    t.weight = naive_values(&random, samples, NAIVE_ZEROS);
    t.loss = malloc(samples * sizeof *t.loss);
    t.dlogits = malloc(samples * classes * sizeof *t.dlogits);
    t.probability = malloc(samples * classes * sizeof *t.probability);
    t.label = malloc(samples * sizeof *t.label);
    t.correct = malloc(samples * sizeof *t.correct);
    for (size_t i = 0; i < samples * classes; i++) t.logits[i] *= 20.0f;
    for (size_t i = 0; i < samples; i++) t.label[i] = (int32_t)naive_below(&random, classes);
    return t;
}

static void softmax_free(softmax_case *t)
{
    free(t->logits);
    free(t->weight);
    free(t->loss);
    free(t->dlogits);
    free(t->probability);
    free(t->label);
    free(t->correct);
}

static ls_softmax_loss_args softmax_args(const softmax_case *t, bool weighted)
{
    return (ls_softmax_loss_args){ t->samples, t->classes, t->logits,  t->label,
                                   weighted ? t->weight : NULL,
                                   t->loss,    t->correct, t->dlogits, t->probability };
}

/* All four results of all machines equal those of the reference. */
static void check_softmax_twins(size_t samples, size_t classes, uint64_t seed, int mix)
{
    softmax_case want = softmax_create(samples, classes, seed, mix);
    softmax_case t = softmax_create(samples, classes, seed, mix);
    for (int weighted = 0; weighted < 2; weighted++) {
        const ls_softmax_loss_args reference = softmax_args(&want, weighted);
        assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &reference), LS_OK);
        for (int m = 1; m < all.count; m++) {
            const char *name = all.machine[m].name;
            const ls_softmax_loss_args args = softmax_args(&t, weighted);
            assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want.loss, t.loss, samples));
            assert_true(naive_same("dlogits", name, want.dlogits, t.dlogits, samples * classes));
            assert_true(naive_same("probability", name, want.probability, t.probability,
                                   samples * classes));
            assert_memory_equal(t.correct, want.correct, samples * sizeof *t.correct);
        }
    }
    softmax_free(&want);
    softmax_free(&t);
}

static void test_every_shape_of_softmax_gives_the_references_bits(void **state)
{
    (void)state;
    static const size_t classes[] = { 1,  2,   3,    7,    10,   15,   16,   17,   31,   32,  33,
                                      63, 64,  65,   100,  127,  129,  1000, 4095, 4096, 4097,
                                      5000, 8193, 12345 };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        check_softmax_twins(5, classes[i], i, NAIVE_ZEROS | NAIVE_TINY);
    }
    check_softmax_twins(0, 10, 1, 0);
    check_softmax_twins(1, 10, 1, 0);
    check_softmax_twins(255, 10, 1, 0);
    check_softmax_twins(3000, 10, 1, 0);
    check_softmax_twins(600, 2, 1, 0);
    check_softmax_twins(9000, 1, 1, 0);
}

static void test_huge_infinite_and_nan_logits_keep_the_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        check_softmax_twins(100, 5, seed, NAIVE_HUGE | NAIVE_ZEROS);
        check_softmax_twins(100, 5, seed, 31);
        check_softmax_twins(20, 90, seed, 31);
        check_softmax_twins(2, 5000, seed, NAIVE_HUGE | NAIVE_INFINITE);
    }
}

static void test_softmax_is_right_to_a_few_ulp(void **state)
{
    (void)state;
    for (size_t classes = 1; classes < 300; classes = classes * 3 + 1) {
        softmax_case t = softmax_create(50, classes, classes, 0);
        double derivative[300];
        const ls_softmax_loss_args args = softmax_args(&t, true);
        assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &args), LS_OK);
        for (size_t n = 0; n < 50; n++) {
            const double loss = naive_softmax(t.logits + n * classes, classes,
                                              (size_t)t.label[n], derivative);
            /* x - m rounds at 40, exp turns that into 2^-19 relatively; so does the loss */
            assert_true(naive_near("loss", loss, (double)t.loss[n], 8e-6));
            double total = 0.0;
            for (size_t i = 0; i < classes; i++) {
                assert_true(naive_near("dlogits", (double)t.weight[n] * derivative[i],
                                       (double)t.dlogits[n * classes + i], 1e-6));
                total += (double)t.probability[n * classes + i];
            }
            assert_true(naive_near("probabilities", 1.0, total, 1e-6));
        }
        softmax_free(&t);
    }
}

static void test_the_lowest_of_the_largest_classes_is_the_answer(void **state)
{
    (void)state;
    const float logits[12] = { 1, 3, 3, 2, 0, 0, 0, 0, -0.0f, 0.0f, -1, -1 };
    const int32_t label[3] = { 2, 0, 1 };
    for (int m = 0; m < all.count; m++) {
        int32_t correct[3];
        ls_softmax_loss_args args = { 3, 4, logits, label, NULL, NULL, correct, NULL, NULL };
        assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
        assert_int_equal(correct[0], 0);
        assert_int_equal(correct[1], 1);
        assert_int_equal(correct[2], 0); /* -0 and +0 are equal: class 0 */
    }
}

static void test_results_that_nobody_asked_for_are_not_needed(void **state)
{
    (void)state;
    softmax_case t = softmax_create(9, 10, 1, 0), want = softmax_create(9, 10, 1, 0);
    const ls_softmax_loss_args full = softmax_args(&want, true);
    assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &full), LS_OK);
    for (int m = 0; m < all.count; m++) {
        for (int out = 0; out < 16; out++) {
            memset(t.loss, 0, 9 * sizeof *t.loss);
            ls_softmax_loss_args args = softmax_args(&t, true);
            if (out & 1) args.loss = NULL;
            if (out & 2) args.correct = NULL;
            if (out & 4) args.dlogits = NULL;
            if (out & 8) args.probability = NULL;
            if (out == 7) args.label = NULL; /* probabilities alone: prediction has no labels */
            assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
            if (args.loss) assert_memory_equal(t.loss, want.loss, 9 * sizeof *t.loss);
        }
    }
    softmax_free(&t);
    softmax_free(&want);
}

/* -- squared error ---------------------------------------------------------------------------- */

static void check_squared(size_t samples, size_t outputs, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t count = samples * outputs;
    float *p = naive_values(&random, count, mix), *y = naive_values(&random, count, mix);
    float *weight = naive_values(&random, samples, NAIVE_ZEROS), *d = malloc(count * sizeof *d);
    float *one = malloc(count * sizeof *one), *size = malloc(count * sizeof *size);
    float *loss = malloc(samples * sizeof *loss), *error = malloc(samples * sizeof *error);
    float *dp = malloc(count * sizeof *dp), *want_loss = malloc(samples * sizeof *loss);
    float *want_error = malloc(samples * sizeof *error), *want_dp = malloc(count * sizeof *dp);
    for (int weighted = 0; weighted < 2; weighted++) {
        for (size_t n = 0; n < samples; n++) {
            const float w = weighted ? weight[n] : 1.0f, C = (float)outputs;
            const float factor = w * (2.0f / C);
            for (size_t i = n * outputs; i < (n + 1) * outputs; i++) {
                d[i] = p[i] - y[i];
                one[i] = 1.0f;
                size[i] = fabsf(d[i]);
                want_dp[i] = factor * d[i];
            }
            want_loss[n] = naive_flat_f32(d + n * outputs, d + n * outputs, outputs) / C;
            want_error[n] = naive_flat_f32(size + n * outputs, one + n * outputs, outputs) / C;
        }
        for (int m = 0; m < all.count; m++) {
            const char *name = all.machine[m].name;
            const ls_squared_loss_args args = { samples, outputs, p, y, weighted ? weight : NULL,
                                                loss, error, dp };
            assert_int_equal(ls_squared_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want_loss, loss, samples));
            assert_true(naive_same("absolute_error", name, want_error, error, samples));
            assert_true(naive_same("dprediction", name, want_dp, dp, count));
            const ls_squared_loss_args none = { samples, outputs, p, y, NULL, NULL, NULL, NULL };
            assert_int_equal(ls_squared_loss(&all.machine[m].stream, &none), LS_OK);
        }
    }
    float *const owned[] = { p,  y,         weight,     d,      one, size, loss, error,
                             dp, want_loss, want_error, want_dp };
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

static void test_squared_error_is_a_flat_sum_over_the_outputs(void **state)
{
    (void)state;
    static const size_t outputs[] = { 1, 2, 3, 10, 63, 64, 65, 100, 4095, 4096, 4097, 13000 };
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        check_squared(5, outputs[i], i, NAIVE_ZEROS | NAIVE_TINY);
        check_squared(5, outputs[i], i, 31);
    }
    check_squared(0, 3, 1, 0);
    check_squared(9000, 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_of_softmax_gives_the_references_bits),
        cmocka_unit_test(test_huge_infinite_and_nan_logits_keep_the_bits),
        cmocka_unit_test(test_softmax_is_right_to_a_few_ulp),
        cmocka_unit_test(test_the_lowest_of_the_largest_classes_is_the_answer),
        cmocka_unit_test(test_results_that_nobody_asked_for_are_not_needed),
        cmocka_unit_test(test_squared_error_is_a_flat_sum_over_the_outputs),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
