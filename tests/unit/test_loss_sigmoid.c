/* SPDX-License-Identifier: MIT */
/* test_loss_sigmoid.c -- sigmoid cross-entropy: right, and the same on every machine. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

typedef struct {
    size_t samples, outputs;
    float *logits, *target, *weight, *loss, *absolute_error, *squared_error, *dlogits, *probability;
    int32_t *label, *place, *predicted;
} sigmoid_case;

static sigmoid_case sigmoid_create(size_t samples, size_t outputs, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t count = samples * outputs;
    sigmoid_case t = { .samples = samples, .outputs = outputs };
    t.logits = naive_values(&random, count, mix);
    t.target = naive_values(&random, count, NAIVE_ZEROS);
    t.weight = naive_values(&random, samples, NAIVE_ZEROS);
    t.loss = malloc(samples * sizeof *t.loss);
    t.absolute_error = malloc(samples * sizeof *t.loss);
    t.squared_error = malloc(samples * sizeof *t.loss);
    t.dlogits = malloc(count * sizeof *t.dlogits);
    t.probability = malloc(count * sizeof *t.probability);
    t.label = malloc(samples * sizeof *t.label);
    t.place = malloc(samples * sizeof *t.place);
    t.predicted = malloc(samples * sizeof *t.predicted);
    const size_t classes = outputs == 1 ? 2 : outputs;
    for (size_t i = 0; i < count; i++) t.logits[i] *= 20.0f;
    for (size_t i = 0; i < samples; i++) t.label[i] = (int32_t)naive_below(&random, classes);
    return t;
}

static void sigmoid_free(sigmoid_case *t)
{
    void *const owned[] = { t->logits, t->target, t->weight, t->loss, t->absolute_error,
                            t->squared_error, t->dlogits, t->probability, t->label, t->place,
                            t->predicted };
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

static ls_sigmoid_loss_args sigmoid_args(const sigmoid_case *t, bool labels, bool weighted,
                                         double smoothing)
{
    return (ls_sigmoid_loss_args){
        .samples = t->samples,
        .outputs = t->outputs,
        .smooth_hot = (float)(1 - smoothing),
        .smooth_all = (float)(smoothing / 2),
        .loss_scale = weighted ? 0.5f : 1.0f,
        .logits = t->logits,
        .label = labels ? t->label : NULL,
        .target = labels ? NULL : t->target,
        .weight = weighted ? t->weight : NULL,
        .loss = t->loss,
        .place = labels ? t->place : NULL,
        .predicted = t->predicted,
        .absolute_error = t->absolute_error,
        .squared_error = t->squared_error,
        .dlogits = t->dlogits,
        .probability = t->probability,
    };
}

static void check_sigmoid_twins(size_t samples, size_t outputs, uint64_t seed, int mix)
{
    sigmoid_case want = sigmoid_create(samples, outputs, seed, mix);
    sigmoid_case t = sigmoid_create(samples, outputs, seed, mix);
    const size_t count = samples * outputs;
    for (int k = 0; k < 6; k++) {
        const double smoothing = k < 2 ? 0.0 : k < 4 ? 0.1 : 1.0;
        const ls_sigmoid_loss_args reference = sigmoid_args(&want, k % 2, k > 0, smoothing);
        assert_int_equal(ls_sigmoid_loss(&all.machine[0].stream, &reference), LS_OK);
        for (int m = 1; m < all.count; m++) {
            const char *name = all.machine[m].name;
            const ls_sigmoid_loss_args args = sigmoid_args(&t, k % 2, k > 0, smoothing);
            assert_int_equal(ls_sigmoid_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want.loss, t.loss, samples));
            assert_true(naive_same("absolute", name, want.absolute_error, t.absolute_error,
                                   samples));
            assert_true(naive_same("squared", name, want.squared_error, t.squared_error, samples));
            assert_true(naive_same("dlogits", name, want.dlogits, t.dlogits, count));
            assert_true(naive_same("probability", name, want.probability, t.probability, count));
            assert_memory_equal(t.predicted, want.predicted, samples * sizeof *t.predicted);
            if (k % 2) assert_memory_equal(t.place, want.place, samples * sizeof *t.place);
        }
    }
    sigmoid_free(&want);
    sigmoid_free(&t);
}

static void test_every_shape_of_sigmoid_gives_the_references_bits(void **state)
{
    (void)state;
    static const size_t outputs[] = { 1,  2,  3,   7,   10,   15,   16,  17,
                                      63, 64, 65, 127, 4095, 4096, 4097, 8200 };
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        check_sigmoid_twins(5, outputs[i], i, NAIVE_SMALL);
        check_sigmoid_twins(4, outputs[i], i, NAIVE_ALL);
    }
    check_sigmoid_twins(0, 10, 1, 0);
    check_sigmoid_twins(1, 1, 1, 0);
    check_sigmoid_twins(9000, 1, 1, NAIVE_HUGE | NAIVE_ZEROS);
}

/* One output's target: given, or made from the label. */
static double sigmoid_target(const sigmoid_case *t, bool labels, size_t n, size_t i)
{
    if (!labels) return (double)t->target[n * t->outputs + i];
    return t->label[n] == (t->outputs == 1 ? 1 : (int32_t)i);
}

static void check_sigmoid_values(size_t outputs, bool labels, double e)
{
    sigmoid_case t = sigmoid_create(50, outputs, outputs, 0);
    const ls_sigmoid_loss_args args = sigmoid_args(&t, labels, true, e);
    assert_int_equal(ls_sigmoid_loss(&all.machine[0].stream, &args), LS_OK);
    for (size_t n = 0; n < 50; n++) {
        double loss = 0.0, square = 0.0, absolute = 0.0;
        const double C = (double)outputs;
        for (size_t i = 0; i < outputs; i++) {
            const double z = (double)t.logits[n * outputs + i], p = 1 / (1 + exp(-z));
            const double y = sigmoid_target(&t, labels, n, i), target = y * (1 - e) + e / 2;
            loss += (z > 0 ? z : 0) - z * target + log1p(exp(-fabs(z)));
            square += (p - y) * (p - y);
            absolute += fabs(p - y);
            assert_true(naive_near("p", p, (double)t.probability[n * outputs + i], 1e-6));
            assert_true(naive_near("dlogits", 0.5 * (double)t.weight[n] / C * (p - target),
                                   (double)t.dlogits[n * outputs + i], 1e-6));
        }
        assert_true(naive_near("loss", loss / C, (double)t.loss[n], 4e-6));
        assert_true(naive_near("square", square / C, (double)t.squared_error[n], 2e-6));
        assert_true(naive_near("absolute", absolute / C, (double)t.absolute_error[n], 2e-6));
    }
    sigmoid_free(&t);
}

static void test_sigmoid_is_right_to_a_few_ulp(void **state)
{
    (void)state;
    for (size_t outputs = 1; outputs < 300; outputs = outputs * 3 + 1) {
        for (int k = 0; k < 6; k++) {
            check_sigmoid_values(outputs, k % 2, k < 2 ? 0.0 : k < 4 ? 0.25 : 1.0);
        }
    }
}

static void test_one_sigmoid_output_predicts_class_1_above_0(void **state)
{
    (void)state;
    const float nan = NAN;
    const float logits[7] = { 2, 2, -2, -2, 0, -0.0f, nan };
    const int32_t label[7] = { 1, 0, 1, 0, 0, 1, 1 };
    const int32_t place_wanted[7] = { 0, 1, 1, 0, 0, 1, 2 };
    const int32_t predicted_wanted[7] = { 1, 1, 0, 0, 0, 0, 0 };
    for (int m = 0; m < all.count; m++) {
        int32_t place[7], predicted[7];
        const ls_sigmoid_loss_args args = { .samples = 7, .outputs = 1, .logits = logits,
                                            .label = label, .place = place,
                                            .predicted = predicted };
        assert_int_equal(ls_sigmoid_loss(&all.machine[m].stream, &args), LS_OK);
        assert_memory_equal(place, place_wanted, sizeof place);
        assert_memory_equal(predicted, predicted_wanted, sizeof predicted);
    }
}

static void test_sigmoid_results_that_nobody_asked_for_are_not_needed(void **state)
{
    (void)state;
    sigmoid_case t = sigmoid_create(9, 3, 1, 0), want = sigmoid_create(9, 3, 1, 0);
    const ls_sigmoid_loss_args full = sigmoid_args(&want, true, true, 0);
    assert_int_equal(ls_sigmoid_loss(&all.machine[0].stream, &full), LS_OK);
    for (int m = 0; m < all.count; m++) {
        for (int out = 0; out < 128; out++) {
            memset(t.loss, 0, 9 * sizeof *t.loss);
            ls_sigmoid_loss_args args = sigmoid_args(&t, true, true, 0);
            if (out & 1) args.loss = NULL;
            if (out & 2) args.place = NULL;
            if (out & 4) args.dlogits = NULL;
            if (out & 8) args.absolute_error = NULL;
            if (out & 16) args.squared_error = NULL;
            if (out & 32) args.probability = NULL;
            if (out & 64) args.predicted = NULL;
            if ((out & 31) == 31) args.label = NULL; /* neither labels nor targets to compare */
            assert_int_equal(ls_sigmoid_loss(&all.machine[m].stream, &args), LS_OK);
            if (args.loss) assert_memory_equal(t.loss, want.loss, 9 * sizeof *t.loss);
        }
    }
    sigmoid_free(&t);
    sigmoid_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_of_sigmoid_gives_the_references_bits),
        cmocka_unit_test(test_sigmoid_is_right_to_a_few_ulp),
        cmocka_unit_test(test_one_sigmoid_output_predicts_class_1_above_0),
        cmocka_unit_test(test_sigmoid_results_that_nobody_asked_for_are_not_needed),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
