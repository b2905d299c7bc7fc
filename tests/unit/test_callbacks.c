/* SPDX-License-Identifier: MIT */
/* test_callbacks.c -- the end of an epoch: best, early stopping, slower learning; over restarts.
 *
 * Sequences of values are those that a run would bring; what follows from them is worked out by the
 * rules of Keras 3's EarlyStopping and ReduceLROnPlateau.
 */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "support/training.h"
#include "train/callbacks.h"
#include "train/state.h"

static ls_config config_of(const char *options)
{
    ls_config config;
    char text[400], *rest;
    ls_config_init(&config);
    snprintf(text, sizeof text, "%s", options);
    for (char *o = strtok_r(text, " ", &rest); o; o = strtok_r(NULL, " ", &rest)) {
        char *option = o, *value = strchr(o, '=');
        *value++ = '\0';
        if (ls_config_set(&config, option, value) != LS_OK) fail_msg("%s", ls_last_error());
    }
    return config;
}

static ls_callback_verdict epoch(ls_callback_state *s, const ls_config *c, double value)
{
    return ls_callbacks_epoch(s, c, "val_loss", value, true, 0.1);
}

static void test_the_best_is_the_first_of_equals_and_never_a_nan(void **state)
{
    (void)state;
    const ls_config c = config_of("");
    ls_callback_state s = ls_callbacks_first();
    static const struct {
        double value;
        bool best;
    } seen[] = { { (double)NAN, false }, { 0.5, true }, { 0.5, false }, { 0.3, true },
                 { (double)NAN, false }, { 0.4, false }, { -1, true }, { -INFINITY, true } };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        assert_true(epoch(&s, &c, seen[i].value).best == seen[i].best);
    s = ls_callbacks_first();
    assert_true(ls_callbacks_epoch(&s, &c, "val_accuracy", 0.5, true, 0.1).best);
    assert_true(ls_callbacks_epoch(&s, &c, "val_accuracy", 0.6, true, 0.1).best);
    assert_false(ls_callbacks_epoch(&s, &c, "val_accuracy", 0.55, true, 0.1).best);
    s = ls_callbacks_first();
    assert_true(ls_callbacks_epoch(&s, &c, "mae", 2, true, 0.1).best);
    assert_true(ls_callbacks_epoch(&s, &c, "mae", 1, true, 0.1).best);
}

static void test_patience_counts_whole_epochs_in_a_row_that_were_not_better_by_more_than_delta(
    void **state)
{
    (void)state;
    const ls_config c = config_of("early-stop=2 min-delta=0.1");
    ls_callback_state s = ls_callbacks_first();
    static const struct {
        double value;
        uint64_t wait;
    } seen[] = { { 1, 0 }, { 0.95, 1 }, { 0.85, 0 }, { 0.8, 1 }, { (double)NAN, 2 } };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        assert_false(ls_callbacks_stops(&s, &c));
        epoch(&s, &c, seen[i].value);
        assert_int_equal(s.stop_wait, seen[i].wait);
    }
    assert_true(ls_callbacks_stops(&s, &c));
    assert_true(s.best == 0.8 && s.stop_best == 0.85); /* two bests: the file's, the stopper's */
    s.stop_wait = 0;
    ls_callbacks_epoch(&s, &c, "val_loss", 5, false, 0.1); /* a part of an epoch does not wait */
    assert_int_equal(s.stop_wait, 0);
}

static void test_a_plateau_slows_down_then_cools(void **state)
{
    (void)state;
    const ls_config c = config_of("plateau=2 plateau-factor=0.5 plateau-delta=0 "
                                  "plateau-cooldown=2");
    ls_callback_state s = ls_callbacks_first();
    static const struct {
        double value, factor;
        uint64_t wait, cooldown;
    } seen[] = { { 1, 1, 0, 0 },      { 1, 1, 1, 0 },        { 1, 0.5, 0, 2 }, { 1, 0.5, 0, 1 },
                 { 1, 0.5, 1, 0 },    { 1, 0.25, 0, 2 },     { 0.5, 0.25, 0, 1 },
                 { 0.5, 0.25, 1, 0 }, { 0.5, 0.125, 0, 2 } };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        epoch(&s, &c, seen[i].value);
        assert_true(s.rate_factor == seen[i].factor);
        assert_int_equal(s.plateau_wait, seen[i].wait);
        assert_int_equal(s.plateau_cooldown, seen[i].cooldown);
    }
    assert_true(ls_callbacks_rate(&s, &c, 0.8) == 0.1);
}

static void test_a_plateau_does_not_go_below_its_least_rate_but_a_schedule_may(void **state)
{
    (void)state;
    const ls_config c = config_of("plateau=1 plateau-factor=0.1 plateau-min=0.03");
    ls_callback_state s = ls_callbacks_first();
    epoch(&s, &c, 1);
    assert_true(epoch(&s, &c, 1).slower);
    assert_true(ls_callbacks_rate(&s, &c, 0.1) == 0.03);
    assert_false(epoch(&s, &c, 1).slower); /* it is there */
    assert_true(ls_callbacks_rate(&s, &c, 0.02) == 0.02);
}

/* -- whole runs -------------------------------------------------------------------------------- */

static training *create(void)
{
    training *t = training_create();
    char *table = training_table(5, 60, 6, 3), data[600];
    training_write(t, "table.csv", table);
    training_write(t, "net.model", "input 6\ndense 8 relu\ndense 3\nloss softmax-crossentropy\n");
    snprintf(data, sizeof data, "csv:%s", training_path(t, "table.csv"));
    training_set(t, "model", training_path(t, "net.model"));
    training_set(t, "data", data);
    training_set(t, "global-batch", "16");
    training_set(t, "lr", "0.3");
    training_set(t, "epochs", "40");
    free(table);
    return t;
}

static void test_what_was_counted_is_not_forgotten_by_a_restart(void **state)
{
    (void)state;
    training *t = create();
    training_bits whole;
    training_set(t, "early-stop", "6");
    training_set(t, "plateau", "2");
    training_set(t, "plateau-factor", "0.5");
    training_must_run(t);
    assert_true(t->result.stopped_early && t->result.epochs < 40);
    const uint64_t epochs = t->result.epochs;
    const double best = t->result.best.val_loss;
    const ls_history_line last = t->result.last;
    training_remember(t, &whole);
    assert_true(t->step[t->step_count - 1].lr < 0.3); /* it did slow down */
    char folder[600];
    snprintf(folder, sizeof folder, "%s", training_path(t, "stages"));
    training_set(t, "out", folder);
    training_set(t, "resume", "auto");
    int stage = 0;
    do {
        stage++;
        t->stop_after = (uint64_t)stage * 5; /* in and between epochs of three steps */
        training_set(t, "devices", stage % 2 ? "host:1" : "host:3");
        training_must_run(t);
    } while (!t->result.stopped_early && stage < 60);
    assert_true(t->result.stopped_early && stage > 2);
    assert_int_equal(t->result.epochs, epochs);
    assert_true(t->result.best.val_loss == best && t->result.last.lr == last.lr);
    assert_string_equal(t->result.weights_sha256, whole.weights);
    training_destroy(t);
}

/* What the checkpoint at `path` remembers. */
static ls_progress progress_at(const char *path)
{
    ls_checkpoint *checkpoint = NULL;
    ls_saved_run saved;
    if (ls_checkpoint_open(path, &checkpoint) != LS_OK
        || ls_saved_run_init(&saved, checkpoint, path) != LS_OK)
        fail_msg("%s", ls_last_error());
    const ls_progress progress = saved.progress;
    ls_saved_run_free(&saved);
    ls_checkpoint_close(checkpoint);
    return progress;
}

/* w is multiplied by 1 - 2 lr an epoch, and val_loss is its square: 0.5, 0.3, 0.4, 0.4, 0.4, with a
 * restart before each. */
static void test_a_restart_between_any_two_epochs_forgets_neither_best_nor_waits(void **state)
{
    (void)state;
    static const struct {
        double val_loss;
        uint64_t best_epoch, stop_wait, plateau_wait, cooldown;
    } after[] = { { 0.5, 1, 0, 0, 0 }, { 0.3, 2, 0, 0, 0 }, { 0.4, 2, 1, 1, 0 },
                  { 0.4, 2, 2, 0, 3 }, { 0.4, 2, 3, 0, 2 } };
    training *t = training_linear("1,0\n");
    char data[700], folder[600], last[700], best[700];
    training_write(t, "test.csv", "1,0\n");
    snprintf(data, sizeof data, "csv:%s,task=regress,test=%s", training_path(t, "data.csv"),
             training_path(t, "test.csv"));
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    snprintf(last, sizeof last, "%s/checkpoints/last.safetensors", folder);
    snprintf(best, sizeof best, "%s/checkpoints/best.safetensors", folder);
    training_set(t, "data", data);
    training_set(t, "schedule", "table:0.14644661,0.11270167,1.07735027,1e-9");
    training_set(t, "early-stop", "5");
    training_set(t, "plateau", "2");
    training_set(t, "plateau-cooldown", "3");
    training_set(t, "out", folder);
    training_set(t, "resume", "auto");
    for (uint64_t e = 0; e < sizeof after / sizeof after[0]; e++) {
        char epochs[24];
        snprintf(epochs, sizeof epochs, "%" PRIu64, e + 1);
        training_set(t, "epochs", epochs);
        training_must_run(t);
        assert_int_equal(t->step_count, 1);
        assert_true(fabs(t->result.last.val_loss - after[e].val_loss) < 1e-6);
        const ls_progress now = progress_at(last);
        assert_int_equal(now.best.epoch, after[e].best_epoch);
        assert_int_equal(now.callbacks.stop_wait, after[e].stop_wait);
        assert_int_equal(now.callbacks.plateau_wait, after[e].plateau_wait);
        assert_int_equal(now.callbacks.plateau_cooldown, after[e].cooldown);
        assert_int_equal(progress_at(best).last.epoch, after[e].best_epoch);
    }
    training_destroy(t);
}

static void test_a_run_that_stopped_early_has_nothing_left_to_do_until_it_may_be_more_patient(
    void **state)
{
    (void)state;
    training *t = create();
    char folder[600];
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    training_set(t, "early-stop", "3");
    training_set(t, "out", folder);
    training_set(t, "resume", "auto");
    training_must_run(t);
    const uint64_t steps = t->result.steps;
    assert_true(t->result.stopped_early);
    training_must_run(t);
    assert_int_equal(t->step_count, 0);
    assert_int_equal(t->result.steps, steps);
    training_set(t, "early-stop", "4");
    training_must_run(t);
    assert_true(t->result.steps > steps);
    training_destroy(t);
}

static void test_the_result_is_the_best_epochs_whether_or_not_it_stopped_early(void **state)
{
    (void)state;
    static const char *const stop[] = { "off", "2" };
    training *t = create();
    training_set(t, "restore-best", "yes");
    for (int i = 0; i < 2; i++) {
        training_set(t, "early-stop", stop[i]);
        training_must_run(t);
        assert_true(t->result.restored_best && t->result.best.epoch < t->result.epochs);
        assert_non_null(strstr(t->result.checkpoint, "/best.safetensors"));
        ls_evaluation evaluation;
        ls_evaluation_request request = { .checkpoint = t->result.checkpoint,
                                          .data = t->config.data, .devices = "host:2",
                                          .timeout_s = 30, .stuck = training_stuck };
        if (ls_evaluate(&request, &evaluation) != LS_OK) fail_msg("%s", ls_last_error());
        assert_true(evaluation.loss == t->result.best.val_loss);
        ls_evaluation_free(&evaluation);
    }
    training_destroy(t);
}

/* The checkpoint at `step` of the run in `folder` goes on in a folder of its own. */
static void go_on_elsewhere(training *t, const char *folder, int step)
{
    char from[700], name[40];
    snprintf(from, sizeof from, "%s/checkpoints/step-%d.safetensors", folder, step);
    snprintf(name, sizeof name, "from-%d", step);
    training_reset(t);
    training_set(t, "resume", from);
    training_set(t, "out", training_path(t, name));
    training_must_run(t);
}

static void test_the_best_epochs_file_goes_along_to_another_folder(void **state)
{
    (void)state;
    training *t = create();
    training_bits whole;
    char folder[600];
    struct stat info;
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    training_set(t, "restore-best", "yes");
    training_set(t, "save-every", "3"); /* an epoch */
    training_set(t, "out", folder);
    training_must_run(t);
    training_remember(t, &whole);
    const ls_history_line best = t->result.best;
    const uint64_t steps = t->result.steps;
    assert_true(best.step + 3 < steps);
    for (uint64_t step = best.step - 3; step < steps; step += 3) { /* before, at and after it */
        if (step == 0) continue;
        go_on_elsewhere(t, folder, (int)step);
        assert_true(t->result.restored_best && t->result.best.epoch == best.epoch);
        assert_string_equal(t->result.weights_sha256, whole.weights);
        assert_true(stat(t->result.checkpoint, &info) == 0);
    }
    training_destroy(t);
}

/* The folder's best file is that of an epoch which this run, being shorter, never comes to. */
static void test_a_best_file_of_another_epoch_is_not_the_result(void **state)
{
    (void)state;
    training *t = create();
    char folder[600], from[700];
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    training_set(t, "restore-best", "yes");
    training_set(t, "save-every", "3");
    training_set(t, "lr", "0.01");
    training_set(t, "out", folder);
    training_must_run(t);
    assert_true(t->result.best.step > 3);
    snprintf(from, sizeof from, "%s/checkpoints/step-3.safetensors", folder);
    training_reset(t);
    training_set(t, "resume", from);
    training_set(t, "epochs", "1"); /* nothing is left to do */
    training_must_run(t);
    assert_int_equal(t->result.best.step, 3);
    assert_false(t->result.restored_best);
    assert_non_null(strstr(t->result.checkpoint, "/last.safetensors"));
    training_destroy(t);
}

/* Files that no run writes, among those that one does, count for nothing and stay. */
static void test_the_newest_numbered_checkpoints_are_kept(void **state)
{
    (void)state;
    static const char *const foreign[] = {
        "run/checkpoints/step-0001.safetensors", "run/checkpoints/step-7.safetensors.old",
        "run/checkpoints/step-18446744073709551616.safetensors",
    };
    training *t = create();
    char folder[600], path[800];
    struct stat info;
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    assert_int_equal(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    training_set(t, "out", folder);
    training_set(t, "epochs", "5"); /* 15 steps */
    training_set(t, "save-every", "2");
    training_set(t, "keep", "3");
    training_set(t, "resume", "auto");
    training_write(t, "run/config.txt", "");
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        training_write(t, foreign[i], "");
    snprintf(path, sizeof path, "%s/checkpoints/step-1.safetensors", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    training_must_run(t);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_int_equal(stat(training_path(t, foreign[i]), &info), 0);
    for (int step = 2; step <= 14; step += 2) {
        snprintf(path, sizeof path, "%s/checkpoints/step-%d.safetensors", folder, step);
        assert_true((stat(path, &info) == 0) == (step >= 10));
    }
    training_destroy(t);
}

static void test_a_column_that_is_not_there_is_an_error_before_the_first_step(void **state)
{
    (void)state;
    training *t = create();
    training_set(t, "monitor", "val_mse");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "--monitor val_mse: this run has no such column"));
    assert_int_equal(t->step_count, 0);
    assert_int_equal(ls_config_set(&t->config, "monitor", "val_los"), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "did you mean val_loss?"));
    training_destroy(t);
}

static void test_a_run_whose_time_is_up_saves_and_can_go_on(void **state)
{
    (void)state;
    training *t = create();
    char folder[600];
    training_bits whole;
    training_set(t, "epochs", "3");
    training_must_run(t);
    training_remember(t, &whole);
    snprintf(folder, sizeof folder, "%s", training_path(t, "run"));
    training_set(t, "out", folder);
    training_set(t, "resume", "auto");
    training_set(t, "time-limit", "0.001"); /* over before the first step is */
    training_must_run(t);
    assert_true(t->result.out_of_time && !t->result.stopped_by_signal);
    assert_int_equal(t->result.steps, 1);
    training_set(t, "time-limit", "none");
    training_must_run(t);
    assert_true(training_same(t, &whole, "after the time was up"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_is_the_first_of_equals_and_never_a_nan),
        cmocka_unit_test(
            test_patience_counts_whole_epochs_in_a_row_that_were_not_better_by_more_than_delta),
        cmocka_unit_test(test_a_plateau_slows_down_then_cools),
        cmocka_unit_test(test_a_plateau_does_not_go_below_its_least_rate_but_a_schedule_may),
        cmocka_unit_test(test_what_was_counted_is_not_forgotten_by_a_restart),
        cmocka_unit_test(
            test_a_restart_between_any_two_epochs_forgets_neither_best_nor_waits),
        cmocka_unit_test(
            test_a_run_that_stopped_early_has_nothing_left_to_do_until_it_may_be_more_patient),
        cmocka_unit_test(test_the_result_is_the_best_epochs_whether_or_not_it_stopped_early),
        cmocka_unit_test(test_the_best_epochs_file_goes_along_to_another_folder),
        cmocka_unit_test(test_a_best_file_of_another_epoch_is_not_the_result),
        cmocka_unit_test(test_the_newest_numbered_checkpoints_are_kept),
        cmocka_unit_test(test_a_column_that_is_not_there_is_an_error_before_the_first_step),
        cmocka_unit_test(test_a_run_whose_time_is_up_saves_and_can_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
