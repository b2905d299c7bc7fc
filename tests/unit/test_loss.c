/* SPDX-License-Identifier: MIT */
/* test_loss.c -- softmax and sigmoid cross-entropy, squared and absolute error: right, and the same
 * on every machine. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* -- softmax ---------------------------------------------------------------------------------- */

typedef struct {
    size_t samples, classes;
    float *logits, *weight, *loss, *dlogits, *probability;
    int32_t *label, *place, *predicted;
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
    t.place = malloc(samples * sizeof *t.place);
    t.predicted = malloc(samples * sizeof *t.predicted);
    for (size_t i = 0; i < samples * classes; i++) {
        t.logits[i] *= 20.0f;
        if (i % 7 == 3) t.logits[i] = t.logits[i - 2]; /* ties */
    }
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
    free(t->place);
    free(t->predicted);
}

static ls_softmax_loss_args softmax_args(const softmax_case *t, bool weighted, double smoothing)
{
    return (ls_softmax_loss_args){
        .samples = t->samples,
        .classes = t->classes,
        .smooth_hot = (float)(1 - smoothing),
        .smooth_all = (float)(smoothing / (double)t->classes),
        .loss_scale = weighted ? 32768.0f : 1.0f,
        .logits = t->logits,
        .label = t->label,
        .weight = weighted ? t->weight : NULL,
        .loss = t->loss,
        .place = t->place,
        .predicted = t->predicted,
        .dlogits = t->dlogits,
        .probability = t->probability,
    };
}

/* All results of all machines equal those of the reference. */
static void check_softmax_twins(size_t samples, size_t classes, uint64_t seed, int mix)
{
    static const double smoothing[] = { 0.0, 0.0, 0.1, 1.0 };
    softmax_case want = softmax_create(samples, classes, seed, mix);
    softmax_case t = softmax_create(samples, classes, seed, mix);
    for (int k = 0; k < 4; k++) {
        const ls_softmax_loss_args reference = softmax_args(&want, k > 0, smoothing[k]);
        assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &reference), LS_OK);
        for (int m = 1; m < all.count; m++) {
            const char *name = all.machine[m].name;
            const ls_softmax_loss_args args = softmax_args(&t, k > 0, smoothing[k]);
            assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want.loss, t.loss, samples));
            assert_true(naive_same("dlogits", name, want.dlogits, t.dlogits, samples * classes));
            assert_true(naive_same("probability", name, want.probability, t.probability,
                                   samples * classes));
            assert_memory_equal(t.place, want.place, samples * sizeof *t.place);
            assert_memory_equal(t.predicted, want.predicted, samples * sizeof *t.predicted);
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
        check_softmax_twins(5, classes[i], i, NAIVE_SMALL);
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
        check_softmax_twins(100, 5, seed, NAIVE_ALL);
        check_softmax_twins(20, 90, seed, NAIVE_ALL);
        check_softmax_twins(2, 5000, seed, NAIVE_HUGE | NAIVE_INFINITE);
    }
}

/* Loss and its derivatives with smoothed targets, in double. */
static double smooth_softmax(const float *x, size_t classes, size_t label, double e,
                             double *derivative)
{
    double m = (double)x[0], s = 0.0, loss = 0.0;
    for (size_t i = 1; i < classes; i++) m = (double)x[i] > m ? (double)x[i] : m;
    for (size_t i = 0; i < classes; i++) s += exp((double)x[i] - m);
    for (size_t i = 0; i < classes; i++) {
        const double target = e / (double)classes + (i == label ? 1 - e : 0);
        loss += target * (log(s) + m - (double)x[i]);
        derivative[i] = exp((double)x[i] - m) / s - target;
    }
    return loss;
}

static void check_softmax_values(size_t classes, double smoothing)
{
    softmax_case t = softmax_create(50, classes, classes, 0);
    double derivative[300];
    const ls_softmax_loss_args args = softmax_args(&t, true, smoothing);
    assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &args), LS_OK);
    for (size_t n = 0; n < 50; n++) {
        const double loss = smooth_softmax(t.logits + n * classes, classes, (size_t)t.label[n],
                                           smoothing, derivative);
        /* x - m rounds at 40, exp turns that into 2^-19 relatively; so does the loss */
        assert_true(naive_near("loss", loss, (double)t.loss[n], 8e-6));
        double total = 0.0;
        for (size_t i = 0; i < classes; i++) {
            assert_true(naive_near("dlogits", 32768 * (double)t.weight[n] * derivative[i],
                                   (double)t.dlogits[n * classes + i], 32768 * 1e-6));
            total += (double)t.probability[n * classes + i];
        }
        assert_true(naive_near("probabilities", 1.0, total, 1e-6));
    }
    softmax_free(&t);
}

static void test_softmax_is_right_to_a_few_ulp(void **state)
{
    (void)state;
    for (size_t classes = 1; classes < 300; classes = classes * 3 + 1) {
        check_softmax_values(classes, 0.0);
        check_softmax_values(classes, 0.25);
        check_softmax_values(classes, 1.0);
    }
}

static void test_places_count_larger_scores_and_equal_ones_before(void **state)
{
    (void)state;
    const float nan = NAN;
    const float logits[5][4] = { { 1, 3, 3, 2 }, { 0, 0, 0, 0 }, { -0.0f, 0.0f, -1, -1 },
                                 { -INFINITY, 5, -INFINITY, 7 }, { 1, nan, 2, nan } };
    const int32_t label[5] = { 2, 0, 1, 2, 3 };
    const int32_t place_wanted[5] = { 1, 0, 1, 3, 4 }; /* -0 and +0 are equal */
    const int32_t predicted_wanted[5] = { 1, 0, 0, 3, 3 };
    for (int m = 0; m < all.count; m++) {
        int32_t place[5], predicted[5];
        const ls_softmax_loss_args args = { .samples = 5, .classes = 4, .logits = logits[0],
                                            .label = label, .place = place,
                                            .predicted = predicted };
        assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
        assert_memory_equal(place, place_wanted, sizeof place);
        assert_memory_equal(predicted, predicted_wanted, sizeof predicted);
        const ls_sigmoid_loss_args same = { .samples = 5, .outputs = 4, .logits = logits[0],
                                            .label = label, .place = place,
                                            .predicted = predicted };
        memset(place, 0xff, sizeof place);
        memset(predicted, 0xff, sizeof predicted);
        assert_int_equal(ls_sigmoid_loss(&all.machine[m].stream, &same), LS_OK);
        assert_memory_equal(place, place_wanted, sizeof place);
        assert_memory_equal(predicted, predicted_wanted, sizeof predicted);
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

static void test_results_that_nobody_asked_for_are_not_needed(void **state)
{
    (void)state;
    softmax_case t = softmax_create(9, 10, 1, 0), want = softmax_create(9, 10, 1, 0);
    const ls_softmax_loss_args full = softmax_args(&want, true, 0);
    assert_int_equal(ls_softmax_loss(&all.machine[0].stream, &full), LS_OK);
    for (int m = 0; m < all.count; m++) {
        for (int out = 0; out < 32; out++) {
            memset(t.loss, 0, 9 * sizeof *t.loss);
            ls_softmax_loss_args args = softmax_args(&t, true, 0);
            if (out & 1) args.loss = NULL;
            if (out & 2) args.place = NULL;
            if (out & 4) args.dlogits = NULL;
            if (out & 8) args.probability = NULL;
            if (out & 16) args.predicted = NULL;
            if (out == 7) args.label = NULL; /* probabilities alone: prediction has no labels */
            assert_int_equal(ls_softmax_loss(&all.machine[m].stream, &args), LS_OK);
            if (args.loss) assert_memory_equal(t.loss, want.loss, 9 * sizeof *t.loss);
        }
    }
    softmax_free(&t);
    softmax_free(&want);
}

/* -- sigmoid ---------------------------------------------------------------------------------- */

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

/* -- errors ----------------------------------------------------------------------------------- */

/* What a case of regression goes in with, and what has to come out. */
typedef struct {
    size_t samples, outputs;
    float *p, *y, *weight;
    float *loss, *absolute, *squared, *dp;
} regression_case;

/* Each row's errors by the naive flat sums; `sign` in place of the difference where absolute. */
static void regression_expect(const regression_case *t, bool is_absolute, float scale,
                              const regression_case *want)
{
    const size_t C = t->outputs;
    float *d = malloc(C * sizeof *d), *size = malloc(C * sizeof *d), *one = malloc(C * sizeof *d);
    for (size_t n = 0; n < t->samples; n++) {
        const float w = (want->weight ? want->weight[n] : 1.0f) * scale;
        const float factor = is_absolute ? w / (float)C : w * (2.0f / (float)C);
        for (size_t i = 0; i < C; i++) {
            d[i] = t->p[n * C + i] - t->y[n * C + i];
            one[i] = 1.0f;
            size[i] = fabsf(d[i]);
            float slope = d[i];
            if (is_absolute && d[i] > 0) slope = 1.0f;
            if (is_absolute && d[i] < 0) slope = -1.0f;
            want->dp[n * C + i] = factor * slope;
        }
        want->squared[n] = naive_flat_f32(d, d, C) / (float)C;
        want->absolute[n] = naive_flat_f32(size, one, C) / (float)C;
        want->loss[n] = is_absolute ? want->absolute[n] : want->squared[n];
    }
    free(d);
    free(size);
    free(one);
}

static void check_regression(size_t samples, size_t outputs, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t count = samples * outputs;
    regression_case t = { .samples = samples, .outputs = outputs }, want;
    t.p = naive_values(&random, count, mix);
    t.y = naive_values(&random, count, mix);
    t.weight = naive_values(&random, samples, NAIVE_ZEROS);
    for (size_t i = 0; i < count; i += 5) t.y[i] = t.p[i]; /* no difference: slope 0 */
    float *rows = malloc(6 * (samples + 1) * sizeof *rows);
    float *slopes = malloc(2 * (count + 1) * sizeof *slopes);
    t.loss = rows, t.absolute = t.loss + samples, t.squared = t.absolute + samples;
    t.dp = slopes;
    want = t;
    want.loss = t.squared + samples, want.absolute = want.loss + samples;
    want.squared = want.absolute + samples;
    want.dp = slopes + count;
    for (int k = 0; k < 4; k++) {
        const float scale = k / 2 ? 1024.0f : 1.0f;
        want.weight = k / 2 ? t.weight : NULL;
        regression_expect(&t, k % 2, scale, &want);
        for (int m = 0; m < all.count; m++) {
            const char *name = all.machine[m].name;
            ls_regression_loss_args args = {
                .kind = k % 2 ? LS_REGRESSION_ABSOLUTE : LS_REGRESSION_SQUARED,
                .samples = samples, .outputs = outputs, .loss_scale = scale, .prediction = t.p,
                .target = t.y, .weight = want.weight, .loss = t.loss,
                .absolute_error = t.absolute, .squared_error = t.squared, .dprediction = t.dp };
            assert_int_equal(ls_regression_loss(&all.machine[m].stream, &args), LS_OK);
            assert_true(naive_same("loss", name, want.loss, t.loss, samples));
            assert_true(naive_same("absolute", name, want.absolute, t.absolute, samples));
            assert_true(naive_same("squared", name, want.squared, t.squared, samples));
            assert_true(naive_same("dprediction", name, want.dp, t.dp, count));
            args.loss = args.absolute_error = args.squared_error = args.dprediction = NULL;
            assert_int_equal(ls_regression_loss(&all.machine[m].stream, &args), LS_OK);
        }
    }
    free(t.p);
    free(t.y);
    free(t.weight);
    free(rows);
    free(slopes);
}

static void test_errors_are_flat_sums_over_the_outputs(void **state)
{
    (void)state;
    static const size_t outputs[] = { 1, 2, 3, 10, 63, 64, 65, 100, 4095, 4096, 4097, 13000 };
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        check_regression(5, outputs[i], i, NAIVE_SMALL);
        check_regression(5, outputs[i], i, NAIVE_ALL);
    }
    check_regression(0, 3, 1, 0);
    check_regression(9000, 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_of_softmax_gives_the_references_bits),
        cmocka_unit_test(test_huge_infinite_and_nan_logits_keep_the_bits),
        cmocka_unit_test(test_softmax_is_right_to_a_few_ulp),
        cmocka_unit_test(test_places_count_larger_scores_and_equal_ones_before),
        cmocka_unit_test(test_one_sigmoid_output_predicts_class_1_above_0),
        cmocka_unit_test(test_results_that_nobody_asked_for_are_not_needed),
        cmocka_unit_test(test_every_shape_of_sigmoid_gives_the_references_bits),
        cmocka_unit_test(test_sigmoid_is_right_to_a_few_ulp),
        cmocka_unit_test(test_sigmoid_results_that_nobody_asked_for_are_not_needed),
        cmocka_unit_test(test_errors_are_flat_sums_over_the_outputs),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
