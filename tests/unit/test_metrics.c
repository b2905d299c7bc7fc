/* SPDX-License-Identifier: MIT */
/* test_metrics.c -- losses and metrics beside Keras' numbers, and the list that --metrics makes. */
#include "train/metrics.h"

#include <math.h>

#include "kernels/reference/reference.h"
#include "support/test.h"
#include "train/scores.h"

/* -- the case of tests/golden/make_metrics.py -------------------------------------------------- */

enum { SAMPLES = 24, CLASSES = 4, NUMBERS = SAMPLES * CLASSES };

static float fraction(int i, int seed)
{
    return (float)((i * 37 + seed * 61) % 101 - 50) / 16;
}

static float score[NUMBERS], target[NUMBERS], weight[SAMPLES];
static int32_t label[SAMPLES], binary_label[SAMPLES];

static int make_case(void **state)
{
    (void)state;
    for (int i = 0; i < NUMBERS; i++) {
        score[i] = fraction(i, 1);
        target[i] = fraction(i, 2);
    }
    for (int i = 0; i < SAMPLES; i++) {
        weight[i] = (float)(i % 5) / 2;
        label[i] = (i * i + i / 3) % CLASSES;
        binary_label[i] = (i * i + i / 3) % 2;
    }
    return 0;
}

static void assert_near(const char *what, double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance)) {
        fail_msg("%s: found %.9g, expected %.9g", what, found, expected);
    }
}

/* -- losses ------------------------------------------------------------------------------------ */

typedef struct {
    const char *name;
    double smoothing, loss;
    double gradient[NUMBERS];
} golden_loss;

static const golden_loss losses[] = {
#define GOLDEN_LOSSES
#include "golden/metrics.inc"
#undef GOLDEN_LOSSES
};

static void run_softmax(const golden_loss *g, float *loss, float *gradient)
{
    const ls_softmax_loss_args args = {
        .samples = SAMPLES, .classes = CLASSES, .smooth_hot = (float)(1 - g->smoothing),
        .smooth_all = (float)(g->smoothing / CLASSES), .loss_scale = 1.0f, .logits = score,
        .label = label, .weight = weight, .loss = loss, .dlogits = gradient };
    assert_int_equal(ls_softmax_loss_reference(NULL, &args), LS_OK);
}

static void run_sigmoid(const golden_loss *g, bool binary, float *loss, float *gradient)
{
    const ls_sigmoid_loss_args args = {
        .samples = SAMPLES, .outputs = binary ? 1 : CLASSES,
        .smooth_hot = (float)(1 - g->smoothing), .smooth_all = (float)(g->smoothing / 2),
        .loss_scale = 1.0f, .logits = score, .label = binary ? binary_label : label,
        .weight = weight, .loss = loss, .dlogits = gradient };
    assert_int_equal(ls_sigmoid_loss_reference(NULL, &args), LS_OK);
}

static void run_regression(ls_regression kind, float *loss, float *gradient)
{
    const ls_regression_loss_args args = {
        .kind = kind, .samples = SAMPLES, .outputs = CLASSES, .loss_scale = 1.0f,
        .prediction = score, .target = target, .weight = weight, .loss = loss,
        .dprediction = gradient };
    assert_int_equal(ls_regression_loss_reference(NULL, &args), LS_OK);
}

static void run(const golden_loss *g, bool binary, float *loss, float *gradient)
{
    if (strcmp(g->name, "softmax") == 0) {
        run_softmax(g, loss, gradient);
    } else if (strcmp(g->name, "mse") == 0) {
        run_regression(LS_REGRESSION_SQUARED, loss, gradient);
    } else if (strcmp(g->name, "mae") == 0) {
        run_regression(LS_REGRESSION_ABSOLUTE, loss, gradient);
    } else {
        run_sigmoid(g, binary, loss, gradient);
    }
}

static void test_losses_and_gradients_are_those_of_keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        const golden_loss *g = &losses[i];
        float loss[SAMPLES], gradient[NUMBERS];
        const bool binary = strcmp(g->name, "binary") == 0;
        run(g, binary, loss, gradient);
        double sum = 0;
        for (int n = 0; n < SAMPLES; n++) sum += (double)weight[n] * (double)loss[n];
        assert_near(g->name, sum / SAMPLES, g->loss, 1e-5);
        const int count = binary ? SAMPLES : NUMBERS;
        for (int k = 0; k < count; k++) {
            assert_near(g->name, (double)gradient[k] / SAMPLES, g->gradient[k], 1e-6);
        }
    }
}

/* -- metrics ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double value;
} metrics[] = {
#include "golden/metrics.inc"
};

static double golden(const char *name)
{
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        if (strcmp(metrics[i].name, name) == 0) return metrics[i].value;
    }
    fail_msg("no golden %s", name);
    return 0;
}

/* Samples with a place below k. */
static double top(const int32_t *place, int k)
{
    int count = 0;
    for (int n = 0; n < SAMPLES; n++) count += place[n] < k;
    return (double)count / SAMPLES;
}

static void test_metrics_of_classes_are_those_of_keras(void **state)
{
    (void)state;
    int32_t place[SAMPLES], predicted[SAMPLES];
    const ls_softmax_loss_args softmax = { .samples = SAMPLES, .classes = CLASSES,
                                           .logits = score, .label = label, .place = place,
                                           .predicted = predicted };
    ls_class_scores scores;
    assert_int_equal(ls_softmax_loss_reference(NULL, &softmax), LS_OK);
    assert_int_equal(ls_class_scores_of(label, predicted, SAMPLES, CLASSES, false, &scores),
                     LS_OK);
    assert_near("accuracy", top(place, 1), golden("accuracy"), 1e-6);
    assert_near("top2", top(place, 2), golden("top2"), 1e-6);
    assert_near("top3", top(place, 3), golden("top3"), 1e-6);
    assert_near("f1", scores.f1, golden("f1"), 1e-6);
    const ls_sigmoid_loss_args sigmoid = { .samples = SAMPLES, .outputs = 1, .logits = score,
                                           .label = binary_label, .place = place,
                                           .predicted = predicted };
    assert_int_equal(ls_sigmoid_loss_reference(NULL, &sigmoid), LS_OK);
    assert_int_equal(ls_class_scores_of(binary_label, predicted, SAMPLES, 2, true, &scores),
                     LS_OK);
    assert_near("accuracy", top(place, 1), golden("binary accuracy"), 1e-6);
    assert_near("precision", scores.precision, golden("binary precision"), 1e-6);
    assert_near("recall", scores.recall, golden("binary recall"), 1e-6);
    assert_near("f1", scores.f1, golden("binary f1"), 1e-6);
}

static void test_metrics_of_numbers_are_those_of_keras(void **state)
{
    (void)state;
    float absolute[SAMPLES], squared[SAMPLES];
    const ls_regression_loss_args args = { .samples = SAMPLES, .outputs = CLASSES,
                                           .prediction = score, .target = target,
                                           .absolute_error = absolute,
                                           .squared_error = squared };
    assert_int_equal(ls_regression_loss_reference(NULL, &args), LS_OK);
    double mse = 0, mae = 0;
    for (int n = 0; n < SAMPLES; n++) {
        mse += (double)squared[n] / SAMPLES;
        mae += (double)absolute[n] / SAMPLES;
    }
    assert_near("mse", mse, golden("mse"), 1e-5);
    assert_near("mae", mae, golden("mae"), 1e-5);
    assert_near("r2", ls_r_squared(score, target, SAMPLES, CLASSES), golden("r2"), 1e-5);
}

/* Labels 0 0 1 1 1 3, predictions 0 1 1 1 2 1. Class 0: 1 hit of 2, predicted once; class 1: 2 of
 * 3, predicted 4 times; class 2 predicted once, never right; class 3 never predicted; class 4 does
 * not occur and does not count. */
static void test_scores_are_means_over_the_classes_that_occur(void **state)
{
    (void)state;
    static const int32_t truth[6] = { 0, 0, 1, 1, 1, 3 }, guess[6] = { 0, 1, 1, 1, 2, 1 };
    ls_class_scores s;
    assert_int_equal(ls_class_scores_of(truth, guess, 6, 5, false, &s), LS_OK);
    assert_near("precision", s.precision, (1.0 + 2.0 / 4 + 0 + 0) / 4, 1e-15);
    assert_near("recall", s.recall, (1.0 / 2 + 2.0 / 3 + 0 + 0) / 4, 1e-15);
    assert_near("f1", s.f1, (2.0 / 3 + 4.0 / 7 + 0 + 0) / 4, 1e-15);
    assert_int_equal(ls_class_scores_of(truth, guess, 2, 2, true, &s), LS_OK);
    assert_true(s.precision == 0 && s.recall == 0 && s.f1 == 0); /* class 1: predicted, not there */
    assert_int_equal(ls_class_scores_of(truth, guess, 1, 2, true, &s), LS_OK);
    assert_true(s.precision == 0 && s.recall == 0 && s.f1 == 0); /* neither */
}

static void test_r_squared_of_equal_targets_is_one_or_zero(void **state)
{
    (void)state;
    static const float equal[3] = { 0.1f, 0.1f, 0.1f }, other[3] = { 0.1f, 0.2f, 0.1f };
    static const float y[4] = { 1, 2, 3, 4 }, mean[4] = { 2.5f, 2.5f, 2.5f, 2.5f };
    assert_true(ls_r_squared(equal, equal, 3, 1) == 1);
    assert_true(ls_r_squared(other, equal, 3, 1) == 0);
    assert_true(ls_r_squared(y, y, 4, 1) == 1);
    assert_true(ls_r_squared(mean, y, 4, 1) == 0);
}

static void test_over_no_sample_every_metric_is_nan(void **state)
{
    (void)state;
    const ls_dataset_info classes = { .task = LS_TASK_CLASSIFY, .classes = 3 };
    const ls_dataset_info numbers = { .task = LS_TASK_REGRESS, .outputs = 1 };
    const ls_epoch_sums none = { .samples = 0 };
    double value[LS_METRIC_MAX];
    ls_metric_list list;
    ls_class_scores s;
    assert_int_equal(ls_metric_list_init(&list, "accuracy,top2,precision,recall,f1", &classes, 3,
                                         LS_LOSS_SOFTMAX_CROSSENTROPY), LS_OK);
    ls_metric_values(&list, &none, value);
    for (int m = 0; m < 5; m++) assert_true(isnan(value[m]));
    assert_int_equal(ls_metric_list_init(&list, "mse,mae,r2", &numbers, 1, LS_LOSS_MSE), LS_OK);
    ls_metric_values(&list, &none, value);
    for (int m = 0; m < 3; m++) assert_true(isnan(value[m]));
    assert_int_equal(ls_class_scores_of(NULL, NULL, 0, 3, false, &s), LS_OK);
    assert_true(isnan(s.precision) && isnan(s.recall) && isnan(s.f1));
    assert_true(isnan(ls_r_squared(NULL, NULL, 0, 2)));
}

/* -- the list ---------------------------------------------------------------------------------- */

static void test_the_list_keeps_the_order_and_knows_its_k(void **state)
{
    (void)state;
    const ls_dataset_info classes = { .task = LS_TASK_CLASSIFY, .classes = 10 };
    const ls_dataset_info two = { .task = LS_TASK_CLASSIFY, .classes = 2 };
    const ls_epoch_sums sums = { .samples = 8, .correct = 2, .top = 6 };
    double value[LS_METRIC_MAX];
    ls_metric_list list;
    assert_int_equal(ls_metric_list_init(&list, "f1,top5,accuracy", &classes, 10,
                                         LS_LOSS_SIGMOID_CROSSENTROPY), LS_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.top_k, 5);
    assert_false(list.binary);
    assert_string_equal(list.name[1], "top5");
    ls_metric_values(&list, &sums, value);
    assert_true(isnan(value[0]) && value[1] == 0.75 && value[2] == 0.25);
    assert_true(ls_history_has("top5", &list, true) && ls_history_has("val_f1", &list, true));
    assert_false(ls_history_has("f1", &list, true)); /* the training part has none */
    assert_false(ls_history_has("val_top5", &list, false));
    assert_false(ls_history_has("top4", &list, true));
    assert_int_equal(ls_metric_list_init(&list, "auto", &two, 1, LS_LOSS_SIGMOID_CROSSENTROPY),
                     LS_OK);
    assert_true(list.binary && list.count == 1 && list.top_k == 0);
}

static void test_a_list_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "acuracy", "did you mean accuracy?" }, { "", "found ''" }, { "accuracy,", "found ''" },
        { "mse", "it measures numbers, the data have classes" }, { "top11", "10 classes" },
        { "top0", "found 'top0'" }, { "top", "found 'top'" }, { "top5x", "found 'top5x'" },
        { "f1,f1", "expected each metric once" }, { "top2,top3", "one topK" },
    };
    const ls_dataset_info classes = { .task = LS_TASK_CLASSIFY, .classes = 10 };
    const ls_dataset_info numbers = { .task = LS_TASK_REGRESS, .outputs = 1 };
    ls_metric_list list;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ls_metric_list_init(&list, cases[i].text, &classes, 10,
                                             LS_LOSS_SOFTMAX_CROSSENTROPY), LS_ERR_ARGUMENT);
        if (!strstr(ls_last_error(), cases[i].want)) {
            fail_msg("'%s': %s", cases[i].text, ls_last_error());
        }
    }
    assert_int_equal(ls_metric_list_init(&list, "top5", &numbers, 1, LS_LOSS_MSE),
                     LS_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_and_gradients_are_those_of_keras),
        cmocka_unit_test(test_metrics_of_classes_are_those_of_keras),
        cmocka_unit_test(test_metrics_of_numbers_are_those_of_keras),
        cmocka_unit_test(test_scores_are_means_over_the_classes_that_occur),
        cmocka_unit_test(test_r_squared_of_equal_targets_is_one_or_zero),
        cmocka_unit_test(test_over_no_sample_every_metric_is_nan),
        cmocka_unit_test(test_the_list_keeps_the_order_and_knows_its_k),
        cmocka_unit_test(test_a_list_that_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, make_case, NULL);
}
