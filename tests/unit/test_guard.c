/* SPDX-License-Identifier: MIT */
/* test_guard.c -- steps whose numbers are not finite: stopped, skipped, undone; the loss scale of
 * class f16.
 *
 * The model is prediction w x with squared error, so every number can be worked out. Sample order
 * is that of the file (no shuffling), two samples a step, one for each of two replicas.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "support/training.h"
#include "train/guard.h"

/* LIN1 on `lines`, two samples a step. */
static training *create(const char *lines)
{
    training *t = training_linear(lines);
    training_set(t, "lr", "0.001");
    training_set(t, "global-batch", "2");
    training_set(t, "shards", "2");
    training_set(t, "shuffle", "no");
    training_set(t, "epochs", "1");
    return t;
}

static const char *const devices[] = { "host:1", "host:2" };

/* Step 3's second sample, that of the second of two replicas, has an error of 1000: its gradient in
 * class f16, 2 * 1000 * 2^15, is no 16-bit number. */
static const char overflows[] = "1,1\n1,1\n1,1\n1,1.25\n1,1\n1,1001\n1,1\n1,0.75\n";

static void test_a_gradient_too_large_for_16_bits_is_skipped_and_the_scale_halves(void **state)
{
    (void)state;
    training *t = create(overflows);
    training_set(t, "precision", "f16");
    for (int d = 0; d < 2; d++) {
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        assert_int_equal(t->step_count, 4);
        assert_int_equal(t->result.steps, 3); /* updates: the schedule did not move */
        for (int s = 0; s < 4; s++) assert_true(t->step[s].skipped == (s == 2));
        assert_int_equal(t->step[2].step, 2);
        assert_true(t->step[2].loss_scale == 32768 && t->step[3].loss_scale == 16384);
        assert_true(t->step[2].update_norm == 0);
        assert_true(isfinite(t->epoch[0].loss)); /* what was skipped does not enter it */
    }
    training_destroy(t);
}

static void test_after_2000_clean_steps_the_scale_doubles_once(void **state)
{
    (void)state;
    training *t = create("0,0\n0,0\n0,0\n0,0\n");
    training_set(t, "precision", "f16");
    training_set(t, "epochs", "1001"); /* two steps each */
    training_set(t, "check-every", "0");
    training_must_run(t);
    assert_int_equal(t->step_count, 2002);
    assert_true(t->step[1999].loss_scale == 32768);
    assert_true(t->step[2000].loss_scale == 65536 && t->step[2001].loss_scale == 65536);
    training_destroy(t);
}

/* Two gradients of 40000: neither their sum nor the divided one is a 16-bit matter. */
static void test_sums_of_gradients_do_not_overflow_in_class_f16(void **state)
{
    (void)state;
    training *t = create("200,100\n200,100\n");
    training_set(t, "precision", "f16");
    training_set(t, "lr", "1e-5");
    training_set(t, "steps", "1");
    training_set(t, "epochs", "40");
    for (int d = 0; d < 2; d++) {
        training_set(t, "devices", devices[d]);
        training_must_run(t);
        const ls_log_line *last = &t->step[t->step_count - 1];
        assert_true(last->loss_scale * 200 <= 65504 && last->loss_scale * 400 > 65504);
        assert_true(last->grad_norm == 40000);
        assert_true(training_linear_weight(t) == fmaf(-1e-5f, 40000, 1));
    }
    training_destroy(t);
}

static void test_after_100_failures_in_a_row_the_run_ends(void **state)
{
    (void)state;
    training *t = create("60000,0\n60000,0\n"); /* the input squared is never finite in f16 */
    training_set(t, "precision", "f16");
    training_set(t, "epochs", "1000");
    training_set(t, "devices", "host:2");
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_int_equal(t->step_count, LS_GUARD_PATIENCE);
    assert_non_null(strstr(ls_last_error(), "step 1:"));
    training_destroy(t);
}

/* A batch that weighs nothing, then one that is never finite, and so on. */
static void test_a_step_without_weight_between_failures_does_not_hide_them(void **state)
{
    (void)state;
    training *t = create("1,1,0\n1,1,0\n1,1e30,1\n1,1,1\n");
    char data[600];
    snprintf(data, sizeof data, "csv:%s,task=regress,label=2,weights=3,test=none",
             training_path(t, "data.csv"));
    training_set(t, "data", data);
    training_set(t, "reduction", "weighted-mean");
    training_set(t, "nonfinite", "skip");
    training_set(t, "epochs", "1000");
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_int_equal(t->step_count, 2 * LS_GUARD_PATIENCE + 1);
    training_destroy(t);
}

/* Step 2's loss overflows fp32. */
static const char infinite[] = "1,1\n1,1\n1,1e30\n1,1\n1,0\n1,0\n";

static void test_by_default_a_run_stops_at_the_step_that_is_not_finite(void **state)
{
    (void)state;
    training *t = create(infinite);
    training_set(t, "devices", "host:2");
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_int_equal(t->step_count, 1);
    assert_non_null(strstr(ls_last_error(), "step 2: "));
    training_destroy(t);
}

/* Twelve samples are a step. Run it on 1 to 3 replicas, in 1 to 4 passes, of as many shards and of
 * so few that some passes are empty: the message is the same. */
static void expect_one_message(training *t, const char *want)
{
    static const char *const worlds[] = { "host:1", "host:2", "host:3" };
    static const char *const passes[] = { "1", "2", "4" };
    static const char *const shards[] = { "12", "5" };
    training_set(t, "global-batch", "12");
    for (int i = 0; i < 18; i++) {
        training_set(t, "devices", worlds[i % 3]);
        training_set(t, "accumulate", passes[i / 3 % 3]);
        training_set(t, "shards", shards[i / 9]);
        if (training_run(t) != LS_ERR_NONFINITE || !strstr(ls_last_error(), want))
            fail_msg("%s, --accumulate %s --shards %s: \"%s\"", worlds[i % 3], passes[i / 3 % 3],
                     shards[i / 9], ls_last_error());
    }
}

/* Records 6 and 7 are one too large for the layer each, and so are 10 and 12; with two passes
 * record 7 is in the first, with four none is in the last but 12. */
static void test_the_record_that_is_not_finite_is_named_alike_for_any_number(void **state)
{
    (void)state;
    const float steep = 1e5f;
    training *t = create("0,0\n0,0\n0,0\n0,0\n0,0\n1e38,0\n"
                         "1e38,0\n0,0\n0,0\n1e38,0\n0,0\n1e38,0\n");
    training_set(t, "init", training_weights(t, "steep", "dense1/kernel", 1, 1, &steep));
    static const char want[] = "the output of layer dense1 is the first that is not finite, of "
                               "record 6 of the training part";
    expect_one_message(t, want);
    training_set(t, "explain-step", "1"); /* which runs shards again itself */
    expect_one_message(t, want);
    training_destroy(t);
}

/* Record 2 is too large for the multiplication, record 11 for the layer before it; both spoil
 * their pass's records for the last. */
static void test_the_first_layer_is_named_before_the_first_record(void **state)
{
    (void)state;
    training *t = create("0,0\n1e20,0\n0,0\n0,0\n0,0\n0,0\n0,0\n0,0\n0,0\n0,0\n1e38,0\n0,0\n");
    training_write(t, "square.model", "input 1\na = dense 1 bias=no init=constant:100000\n"
                                      "b = relu\nmultiply from a b\nbatchnorm\nloss mse\n");
    training_set(t, "model", training_path(t, "square.model"));
    t->config.init[0] = '\0';
    expect_one_message(t, "the output of layer a is the first that is not finite, of record 11 of "
                          "the training part");
    training_destroy(t);
}

/* Only the square of 1e30 is no number any more. */
static void test_a_loss_that_overflows_by_itself_names_its_record(void **state)
{
    (void)state;
    training *t = create("1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1e30\n1,1\n1,1e30\n1,1\n1,1\n1,1\n");
    expect_one_message(t, "the loss is inf, while weights and layer outputs are finite: that of "
                          "record 7 of the training part overflowed");
    training_destroy(t);
}

static void test_a_skipped_step_changes_nothing_but_the_place_in_the_data(void **state)
{
    (void)state;
    static const char *const policy[] = { "skip", "rollback" };
    training *t = create(infinite);
    training_bits bits;
    for (int d = 0; d < 2; d++)
        for (int p = 0; p < 2; p++) {
            training_set(t, "devices", devices[d]);
            training_set(t, "nonfinite", policy[p]);
            training_must_run(t);
            assert_int_equal(t->step_count, 3);
            assert_int_equal(t->result.steps, 2);
            assert_true(t->step[1].skipped && !t->step[2].skipped);
            /* Step 1 had no gradient. */
            assert_true(training_linear_weight(t) == fmaf(-0.001f, 2, 1));
            if (d == 0 && p == 0) training_remember(t, &bits);
            assert_true(training_same(t, &bits, policy[p]));
        }
    training_destroy(t);
}

/* Step 2's batch has a variance of 1e40, which makes it infinite, and the loss no less finite. */
static void test_statistics_that_would_not_be_finite_are_a_step_that_is_not(void **state)
{
    (void)state;
    training *t = create("1,1\n3,1\n1,1\n2e20,1\n1,1\n3,1\n");
    training_write(t, "norm.model", "input 1\nbatchnorm\ndense 1 bias=no\nloss mse\n");
    training_set(t, "model", training_path(t, "norm.model"));
    t->config.init[0] = '\0';
    for (int d = 0; d < 2; d++) {
        training_set(t, "devices", devices[d]);
        training_set(t, "nonfinite", "stop");
        assert_int_equal(training_run(t), LS_ERR_NONFINITE);
        assert_int_equal(t->step_count, 1);
        assert_non_null(strstr(ls_last_error(), "step 2: statistics/batchnorm1/variance would not "
                                                "be finite, element 0"));
        training_set(t, "nonfinite", "skip");
        training_must_run(t);
        assert_true(t->step[1].skipped && isfinite(t->step[1].loss) && !t->step[2].skipped);
    }
    training_destroy(t);
}

/* Step 2's gradient is 2e19: a float, its square is none, and neither would Adam's v be, ever
 * after. */
static void test_a_gradient_too_long_to_be_squared_is_a_step_that_is_not_finite(void **state)
{
    (void)state;
    static const char *const squaring[] = { "adam", "adamw", "rmsprop" };
    training *t = create("1,1\n1,1\n1,1\n20,1e18\n1,1\n1,1\n");
    for (int o = 0; o < 3; o++) {
        training_set(t, "optimizer", squaring[o]);
        training_set(t, "nonfinite", "stop");
        assert_int_equal(training_run(t), LS_ERR_NONFINITE);
        assert_int_equal(t->step_count, 1);
        assert_non_null(strstr(ls_last_error(), "step 2: the gradient of dense1/kernel is 2e+19 "
                                                "long, too much for "));
        training_set(t, "nonfinite", "rollback");
        training_must_run(t);
        assert_true(t->step[1].skipped && !t->step[2].skipped);
    }
    training_set(t, "clip-norm", "1");
    training_must_run(t);
    assert_false(t->step[1].skipped);
    training_reset(t);
    training_destroy(t);
}

/* Step 2's loss is 1e38, its gradient 2e39: found in the update's own pass, or before it where the
 * update asks for a length. Either way the file of step 1 is as that step left it. */
static void test_a_run_that_stops_leaves_the_checkpoint_of_the_step_before(void **state)
{
    (void)state;
    static const char *const most[] = { "off", "1000" };
    training *t = create("1,0\n1,0\n1,1\n1e20,9e19\n");
    training_set(t, "save-every", "1");
    for (int i = 0; i < 4; i++) {
        char out[32];
        snprintf(out, sizeof out, "stopped-%d", i);
        training_set(t, "out", training_path(t, out));
        training_set(t, "devices", devices[i % 2]);
        training_set(t, "clip-norm", most[i / 2]);
        assert_int_equal(training_run(t), LS_ERR_NONFINITE);
        assert_non_null(strstr(ls_last_error(), "step 2: the gradient of dense1/kernel is not "
                                                "finite, element 0"));
        snprintf(t->result.checkpoint, sizeof t->result.checkpoint,
                 "%s/checkpoints/last.safetensors", t->config.out);
        assert_true(training_linear_weight(t) == fmaf(-0.001f, 2, 1));
    }
    training_destroy(t);
}

/* Under `skip` the gradient is finished before the update, under `stop` in the same pass. */
static void test_what_follows_a_failure_changes_no_bit_of_a_run_without_one(void **state)
{
    (void)state;
    training *t = training_tiny();
    training_bits stop;
    training_set(t, "epochs", "2");
    training_set(t, "l2", "0.01");
    training_set(t, "ema", "0.9");
    training_must_run(t);
    training_remember(t, &stop);
    training_set(t, "nonfinite", "skip");
    training_set(t, "devices", "host:2");
    training_must_run(t);
    assert_true(training_same(t, &stop, "skip"));
    training_destroy(t);
}

/* Step 1's gradient is 1e34, 1e6 of it more than a float holds: too late to skip. */
static void test_an_update_that_is_not_finite_is_taken_back_or_ends_the_run(void **state)
{
    (void)state;
    training *t = create("1e17,0\n0,0\n0,0\n0,0\n");
    training_set(t, "lr", "1e6");
    training_set(t, "nonfinite", "skip");
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_non_null(strstr(ls_last_error(), "--nonfinite rollback"));
    for (int d = 0; d < 2; d++) {
        training_set(t, "devices", devices[d]);
        training_set(t, "nonfinite", "rollback");
        training_must_run(t);
        assert_true(t->step[0].skipped && !t->step[1].skipped);
        assert_true(training_linear_weight(t) == 1);
    }
    training_destroy(t);
}

static void test_a_resumed_run_goes_on_with_its_loss_scale(void **state)
{
    (void)state;
    training *t = create(overflows);
    training_bits whole;
    training_set(t, "precision", "f16");
    training_must_run(t);
    training_remember(t, &whole);
    t->stop_after = 2; /* the last update before the failed step; stops after that step */
    training_must_run(t);
    t->stop_after = 0;
    char checkpoint[1200];
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "devices", "host:2");
    training_must_run(t);
    assert_true(t->step[t->step_count - 1].loss_scale == 16384);
    assert_true(training_same(t, &whole, "resumed"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_a_gradient_too_large_for_16_bits_is_skipped_and_the_scale_halves),
        cmocka_unit_test(test_after_2000_clean_steps_the_scale_doubles_once),
        cmocka_unit_test(test_sums_of_gradients_do_not_overflow_in_class_f16),
        cmocka_unit_test(test_after_100_failures_in_a_row_the_run_ends),
        cmocka_unit_test(test_a_step_without_weight_between_failures_does_not_hide_them),
        cmocka_unit_test(test_by_default_a_run_stops_at_the_step_that_is_not_finite),
        cmocka_unit_test(test_the_record_that_is_not_finite_is_named_alike_for_any_number),
        cmocka_unit_test(test_the_first_layer_is_named_before_the_first_record),
        cmocka_unit_test(test_a_loss_that_overflows_by_itself_names_its_record),
        cmocka_unit_test(test_a_skipped_step_changes_nothing_but_the_place_in_the_data),
        cmocka_unit_test(test_statistics_that_would_not_be_finite_are_a_step_that_is_not),
        cmocka_unit_test(test_a_gradient_too_long_to_be_squared_is_a_step_that_is_not_finite),
        cmocka_unit_test(test_a_run_that_stops_leaves_the_checkpoint_of_the_step_before),
        cmocka_unit_test(test_what_follows_a_failure_changes_no_bit_of_a_run_without_one),
        cmocka_unit_test(test_an_update_that_is_not_finite_is_taken_back_or_ends_the_run),
        cmocka_unit_test(test_a_resumed_run_goes_on_with_its_loss_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
