/* SPDX-License-Identifier: MIT */
/* test_loss_softmax.c -- softmax cross-entropy: right, and the same on every machine; where a label
 * stands among the scores. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape_of_softmax_gives_the_references_bits),
        cmocka_unit_test(test_huge_infinite_and_nan_logits_keep_the_bits),
        cmocka_unit_test(test_softmax_is_right_to_a_few_ulp),
        cmocka_unit_test(test_places_count_larger_scores_and_equal_ones_before),
        cmocka_unit_test(test_results_that_nobody_asked_for_are_not_needed),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
