/* SPDX-License-Identifier: MIT */
/* test_semantics.c -- sum, then divide: the numbers that people got wrong elsewhere.
 *
 * LIN1: prediction w x, squared error, w = 1, targets 0, SGD with lr 0.01.
 *   x = 1 2 3 4:    loss 7.5, gradient 15, w -> 0.85
 *   x = 1 2 3 4 5:  loss 11,  gradient 22, w -> 0.78
 * whatever the number of replicas and of accumulation passes. A mean of means over 3 + 2 samples
 * would say 12.583, dropping or padding the fifth sample 10 or 20.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "io/checkpoint.h"
#include "support/training.h"

/* One step of LIN1 on `lines`. */
static training *lin1_create(const char *lines)
{
    training *t = training_linear(lines);
    training_set(t, "lr", "0.01");
    training_set(t, "global-batch", "8");
    training_set(t, "steps", "1");
    return t;
}

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("found %.9g, expected %.9g", found, expected);
}

static const char *const devices[] = { "host:1", "host:2", "host:3", "host:4", "host:8" };
enum { DEVICES = sizeof devices / sizeof devices[0] };

static void check_lin1(const char *lines, double loss, double gradient, double weight)
{
    training *t = lin1_create(lines);
    float first = 0;
    for (int d = 0; d < DEVICES; d++) {
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        assert_near(t->step[0].loss, loss, 1e-12);
        assert_near(t->step[0].grad_norm, gradient, 1e-6);
        assert_near((double)training_linear_weight(t), weight, 1e-7);
        if (d == 0) first = training_linear_weight(t);
        assert_true(training_linear_weight(t) == first);
    }
    training_destroy(t);
}

static void test_loss_and_gradient_do_not_depend_on_the_number_of_replicas(void **state)
{
    (void)state;
    check_lin1("1,0\n2,0\n3,0\n4,0\n", 7.5, 15, 0.85);
}

static void test_a_short_batch_weighs_every_sample_alike(void **state)
{
    (void)state;
    check_lin1("1,0\n2,0\n3,0\n4,0\n5,0\n", 11, 22, 0.78);
}

/* Weights 1 1 0 1: the sum 1 + 4 + 16 over four samples, or over a weight of 3; a mean of two local
 * weighted means would say 9.25. */
static void test_a_mean_divides_by_samples_and_a_weighted_mean_by_weights(void **state)
{
    (void)state;
    static const char *const reductions[] = { "mean", "weighted-mean" };
    const double loss[] = { 5.25, 7 };
    training *t = lin1_create("1,0,1\n2,0,1\n3,0,0\n4,0,1\n");
    char data[600];
    snprintf(data, sizeof data, "csv:%s,task=regress,label=2,weights=last,test=none",
             training_path(t, "data.csv"));
    training_set(t, "data", data);
    for (int k = 0; k < 2; k++) {
        float first = 0;
        training_set(t, "reduction", reductions[k]);
        for (int d = 0; d < DEVICES; d++) {
            training_set(t, "devices", devices[d]);
            training_must_run(t);
            assert_near(t->step[0].loss, loss[k], 1e-12);
            assert_near(t->step[0].grad_norm, 2 * loss[k], 1e-6);
            assert_near((double)training_linear_weight(t), 1 - 0.02 * loss[k], 1e-7);
            if (d == 0) first = training_linear_weight(t);
            assert_true(training_linear_weight(t) == first);
        }
    }
    training_destroy(t);
}

static void test_regularisation_counts_once(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n");
    training_set(t, "global-batch", "12");
    training_set(t, "l1", "0.01");
    training_set(t, "l2", "0.01");
    for (int d = 0; d < DEVICES; d++) {
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        assert_near(t->step[0].loss, 1.02, 1e-12);
        assert_near(t->step[0].regularizer, 0.02, 1e-12);
        assert_near(t->step[0].grad_norm, 2.03, 1e-6);
        assert_near((double)training_linear_weight(t), 0.9797, 1e-7);
    }
    training_destroy(t);
}

static void test_accumulation_is_the_big_batch(void **state)
{
    (void)state;
    static const char *const passes[] = { "1", "2", "4", "8" };
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n5,0\n");
    training_must_run(t);
    const float whole = training_linear_weight(t);
    for (int d = 0; d < 2; d++)
        for (int a = 0; a < 4; a++) {
            training_set(t, "devices", devices[d]);
            training_set(t, "accumulate", passes[a]);
            training_must_run(t);
            assert_near(t->step[0].loss, 11, 1e-12);
            assert_true(training_linear_weight(t) == whole);
        }
    training_destroy(t);
}

static void test_no_window_is_dropped_and_counts_are_counted(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n5,0\n");
    training_set(t, "devices", "host:2");
    training_set(t, "global-batch", "2");
    training_set(t, "epochs", "1");
    training_set(t, "steps", "none");
    training_must_run(t);
    assert_int_equal(t->step_count, 3);
    assert_int_equal(t->step[0].samples, 2);
    assert_int_equal(t->step[2].samples, 1);
    assert_int_equal(t->result.samples, 5);
    training_destroy(t);
}

/* Losses 2 3 | 4 5 on two replicas: 3.5, not one replica's 2.5 and not 3.5 / 2. */
static void test_the_reported_loss_is_everybodys(void **state)
{
    (void)state;
    training *t = lin1_create("1.41421356,0\n1.73205081,0\n2,0\n2.23606798,0\n");
    training_set(t, "shuffle", "no");
    training_set(t, "devices", "host:2");
    training_must_run(t);
    assert_near(t->step[0].loss, 3.5, 1e-6);
    assert_int_equal(t->step[0].samples, 4);
    training_destroy(t);
}

static void test_reduction_sum_divides_by_nothing(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n");
    training_set(t, "reduction", "sum");
    training_set(t, "devices", "host:3");
    training_must_run(t);
    assert_near(t->step[0].loss, 30, 1e-12);
    assert_near(t->step[0].grad_norm, 60, 1e-6);
    training_set(t, "reduction", "weighted-mean"); /* all weights are 1 */
    training_must_run(t);
    assert_near(t->step[0].loss, 7.5, 1e-12);
    training_destroy(t);
}

static void test_a_step_can_be_explained(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n5,0\n");
    training_set(t, "devices", "host:3");
    training_set(t, "explain-step", "1");
    training_must_run(t);
    assert_non_null(strstr(t->explanation, "samples 5, loss sum 55"));
    assert_non_null(strstr(t->explanation, "gradient sum 110 (folded again here: 110)"));
    assert_non_null(strstr(t->explanation, "D = 5"));
    assert_near((double)training_linear_weight(t), 0.78, 1e-7); /* and is not disturbed by it */
    training_destroy(t);
}

/* -- learning rates and clipping --------------------------------------------------------------- */

/* The line of log.jsonl for `step`, from the run's folder. */
static void log_line(const training *t, int step, char line[1024])
{
    FILE *file = fopen(training_run_file(t, "log.jsonl"), "r");
    assert_non_null(file);
    for (int s = 0; s < step; s++) assert_non_null(fgets(line, 1024, file));
    fclose(file);
}

/* w is multiplied by 1 - 15 lr: 1 -> -0.5 -> 1 -> -5, and past the table's end its last rate. */
static void test_a_table_of_rates_is_what_happens(void **state)
{
    (void)state;
    static const char *const some[] = { "host:1", "host:4" };
    static const double lr[] = { 0.1, 0.2, 0.4, 0.4 };
    static const double weight[] = { -0.5, 1, -5, 25 };
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n");
    training_set(t, "schedule", "table:0.1,0.2,0.4");
    for (int d = 0; d < 2; d++)
        for (int steps = 1; steps <= 4; steps++) {
            char text[32], line[1024];
            snprintf(text, sizeof text, "%d", steps);
            training_set(t, "steps", text);
            training_set(t, "devices", some[d]);
            training_must_run(t);
            assert_true(t->step[steps - 1].lr == lr[steps - 1]);
            assert_near((double)training_linear_weight(t), weight[steps - 1], 1e-4);
            log_line(t, steps, line);
            snprintf(text, sizeof text, "\"lr\":%g,", lr[steps - 1]);
            if (!strstr(line, text)) fail_msg("no %s in %s", text, line);
        }
    training_destroy(t);
}

/* Sums (3, 0) of one sample and (0, 4) of another: together of length 5, brought to length 1. Each
 * clipped on its own replica would give (1, 1). */
static void test_clipping_acts_on_the_reduced_gradient(void **state)
{
    (void)state;
    static const char *const clips[] = { "clip-global-norm", "clip-norm" };
    const float zero[2] = { 0, 0 };
    for (int c = 0; c < 2; c++)
        for (int d = 0; d < DEVICES; d++) {
            training *t = lin1_create("1,0,-1.5\n0,1,-2\n");
            training_write(t, "linear.model", "input 2\ndense 1 bias=no\nloss mse\n");
            training_set(t, "init", training_weights(t, "w0", "dense1/kernel", 1, 2, zero));
            training_set(t, "reduction", "sum");
            training_set(t, "lr", "1");
            training_set(t, clips[c], "1");
            training_set(t, "devices", devices[d]);
            training_set(t, "explain-step", "1");
            training_must_run(t);
            float w[2];
            training_tensor(t, "weights/dense1/kernel", w, 2);
            assert_near((double)w[0], -0.6, 1e-7);
            assert_near((double)w[1], -0.8, 1e-7);
            assert_near(t->step[0].grad_norm, 5, 1e-12);
            assert_near(t->step[0].update_norm, 1, 1e-6);
            assert_non_null(strstr(t->explanation, "gradient norm 5, clip factor 0.200000003 ("));
            training_destroy(t);
        }
}

/* The gradient 15 becomes 2; the decay is 0.01 * 0.5 of the weight, before the step. */
static void test_values_are_cut_and_weights_decay(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n");
    training_set(t, "clip-value", "2");
    training_set(t, "weight-decay", "0.5");
    training_set(t, "devices", "host:2");
    training_set(t, "explain-step", "1");
    training_must_run(t);
    assert_near((double)training_linear_weight(t), 1 * (1 - 0.01 * 0.5) - 0.01 * 2, 1e-7);
    assert_near(t->step[0].grad_norm, 15, 1e-6);
    assert_non_null(strstr(t->explanation, "elements cut to 2"));
    assert_non_null(strstr(t->explanation, "decoupled decay 0.00499999989"));
    training_set(t, "rules", "*=decay:0,lr:0.5");
    training_must_run(t);
    assert_near((double)training_linear_weight(t), 1 - 0.005 * 2, 1e-7);
    assert_near(t->step[0].lr, 0.01, 0); /* the log tells the run's rate */
    training_destroy(t);
}

static void test_linear_scaling_goes_by_the_batch_and_not_by_replicas(void **state)
{
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n");
        training_set(t, "lr", "0.005");
        training_set(t, "lr-scale", "linear");
        training_set(t, "base-batch", "4"); /* the global batch is 8 */
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        assert_true(t->step[0].lr == 0.01);
        assert_near((double)training_linear_weight(t), 0.85, 1e-7);
        training_destroy(t);
    }
}

/* -- frozen parameters ------------------------------------------------------------------------- */

static void test_a_frozen_layer_keeps_its_bytes_on_every_replica(void **state)
{
    (void)state;
    float first[32], now[32];
    for (int d = 0; d < DEVICES; d++) {
        training *t = training_tiny();
        training_set(t, "epochs", "1");
        training_set(t, "l2", "0.01");
        training_set(t, "optimizer", "adamw");
        training_set(t, "ema", "0.5");
        training_set(t, "clip-global-norm", "0.5");
        training_set(t, "rules", "dense1/*=freeze;dense2/bias=lr:0.5");
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        training_tensor(t, "weights/dense1/kernel", now, 32);
        if (d == 0) memcpy(first, now, sizeof first);
        assert_memory_equal(now, first, sizeof now);
        training_tensor(t, "optimizer/ema/dense1/kernel", now, 32);
        assert_memory_equal(now, first, sizeof now); /* its average is itself */
        training_tensor(t, "optimizer/m/dense1/kernel", now, 32);
        for (int i = 0; i < 32; i++) assert_true(now[i] == 0);
        training_tensor(t, "optimizer/m/dense2/kernel", now, 24);
        assert_true(now[0] != 0);
        training_destroy(t);
    }
    ls_model model;
    float arena[128];
    assert_int_equal(ls_model_init(&model, "tiny", TRAINING_TINY_MODEL, NULL), LS_OK);
    assert_true(model.arena_floats <= 128);
    ls_model_init_weights(&model, 1, arena);
    assert_memory_equal(first, arena + model.parameter[0].begin, sizeof first);
    ls_model_free(&model);
}

/* As in Keras: what is not trained adds nothing to the regulariser's loss, nor to the norm. */
static void test_a_frozen_layer_is_not_regularised(void **state)
{
    (void)state;
    training *t = lin1_create("1,0\n2,0\n3,0\n4,0\n");
    const float one = 1;
    training_write(t, "linear.model", "input 1\na = dense 1 bias=no\nb = dense 1 bias=no\n"
                                      "loss mse\n");
    ls_saved_tensor saved[2] = {
        { .name = "weights/a/kernel", .dtype = LS_DTYPE_F32, .dims = 2, .shape = { 1, 1 },
          .data = &one },
        { .name = "weights/b/kernel", .dtype = LS_DTYPE_F32, .dims = 2, .shape = { 1, 1 },
          .data = &one } };
    assert_int_equal(ls_checkpoint_save(training_path(t, "ab"), saved, 2, NULL, 0), LS_OK);
    training_set(t, "init", training_path(t, "ab"));
    training_set(t, "l2", "0.25");
    training_set(t, "devices", "host:2");
    training_must_run(t);
    assert_near(t->step[0].regularizer, 0.5, 1e-12);
    assert_near(t->step[0].grad_norm, 15.5 * sqrt(2), 1e-5);
    training_set(t, "rules", "a/*=freeze");
    training_must_run(t);
    assert_near(t->step[0].regularizer, 0.25, 1e-12);
    assert_near(t->step[0].grad_norm, 15.5, 1e-6);
    training_set(t, "rules", "a/*=l2:0;b/*=l2:0.5,l1:0.125");
    training_must_run(t);
    assert_near(t->step[0].regularizer, 0.625, 1e-12);
    training_destroy(t);
}

/* -- uneven data ------------------------------------------------------------------------------- */

/* A batch may leave replicas without any sample; nothing becomes NaN, nothing hangs. */
static void test_every_size_of_data_trains_alike_on_one_and_on_four_replicas(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 17; n++) {
        training *t = training_tiny();
        char one[65], data[600], *lines = training_table(7, n, 4, 3);
        training_write(t, "data.csv", lines);
        free(lines);
        snprintf(data, sizeof data, "csv:%s,test=none", training_path(t, "data.csv"));
        training_set(t, "data", data);
        training_set(t, "epochs", "1");
        training_must_run(t);
        memcpy(one, t->result.weights_sha256, sizeof one);
        training_set(t, "devices", "host:4");
        training_must_run(t);
        assert_string_equal(t->result.weights_sha256, one);
        for (int s = 0; s < t->step_count; s++) assert_true(isfinite(t->step[s].loss));
        training_destroy(t);
    }
}

static void test_uneven_data_ends_its_epochs(void **state)
{
    (void)state;
    training *t = training_tiny(); /* 37 to train on, 9 to test on */
    training_set(t, "devices", "host:3");
    training_set(t, "epochs", "2");
    training_must_run(t);
    assert_int_equal(t->step_count, 10);
    assert_int_equal(t->result.samples, 74);
    assert_int_equal(t->epoch_count, 2);
    assert_true(isfinite(t->epoch[1].val_loss));
    training_destroy(t);
}

static void test_a_remainder_may_be_dropped(void **state)
{
    (void)state;
    training *t = training_tiny();
    training_set(t, "epochs", "1");
    training_set(t, "drop-remainder", "yes");
    training_must_run(t);
    assert_int_equal(t->step_count, 4);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_and_gradient_do_not_depend_on_the_number_of_replicas),
        cmocka_unit_test(test_a_short_batch_weighs_every_sample_alike),
        cmocka_unit_test(test_a_mean_divides_by_samples_and_a_weighted_mean_by_weights),
        cmocka_unit_test(test_regularisation_counts_once),
        cmocka_unit_test(test_accumulation_is_the_big_batch),
        cmocka_unit_test(test_no_window_is_dropped_and_counts_are_counted),
        cmocka_unit_test(test_the_reported_loss_is_everybodys),
        cmocka_unit_test(test_reduction_sum_divides_by_nothing),
        cmocka_unit_test(test_a_step_can_be_explained),
        cmocka_unit_test(test_a_table_of_rates_is_what_happens),
        cmocka_unit_test(test_clipping_acts_on_the_reduced_gradient),
        cmocka_unit_test(test_values_are_cut_and_weights_decay),
        cmocka_unit_test(test_linear_scaling_goes_by_the_batch_and_not_by_replicas),
        cmocka_unit_test(test_a_frozen_layer_keeps_its_bytes_on_every_replica),
        cmocka_unit_test(test_a_frozen_layer_is_not_regularised),
        cmocka_unit_test(test_every_size_of_data_trains_alike_on_one_and_on_four_replicas),
        cmocka_unit_test(test_uneven_data_ends_its_epochs),
        cmocka_unit_test(test_a_remainder_may_be_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
