/* SPDX-License-Identifier: MIT */
/* test_resume.c -- a run that stops and continues, elsewhere, is the run that never stopped.
 */
#include "support/test.h"

#include <stdio.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/training.h"

/* Continue t's latest checkpoint on `devices`, stopping after `stop` further steps (0: to the
 * end). */
static void resume(training *t, const char *devices, int stop)
{
    char checkpoint[1200];
    snprintf(checkpoint, sizeof checkpoint, "%s", t->result.checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "devices", devices);
    t->stop_after = (uint64_t)stop;
    training_must_run(t);
}

static void test_momentum_started_on_four_ends_alike_on_any_number(void **state)
{
    (void)state;
    static const char *const devices[] = { "host:1", "host:2", "host:3", "host:8" };
    training *t = training_tiny();
    char weights[65], slots[65], half[1200];
    training_set(t, "optimizer", "momentum");
    training_set(t, "steps", "10");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    memcpy(slots, t->result.optimizer_sha256, sizeof slots);
    training_set(t, "devices", "host:4");
    t->stop_after = 5;
    training_must_run(t);
    memcpy(half, t->result.checkpoint, sizeof half);
    for (int d = 0; d < 4; d++) {
        memcpy(t->result.checkpoint, half, sizeof half);
        resume(t, devices[d], 0);
        assert_int_equal(t->result.steps, 10);
        assert_string_equal(t->result.weights_sha256, weights);
        assert_string_equal(t->result.optimizer_sha256, slots);
    }
    training_destroy(t);
}

static void test_interruptions_repeat_and_skip_nothing(void **state)
{
    (void)state;
    training *t = training_tiny();
    char weights[65], line[256];
    training_set(t, "accumulate", "2");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    t->stop_after = 3;
    training_set(t, "devices", "host:4");
    training_must_run(t);
    resume(t, "host:2", 4); /* to step 7 */
    resume(t, "host:3", 1); /* to step 8 */
    resume(t, "host:1", 0);
    assert_int_equal(t->result.steps, 15);
    assert_string_equal(t->result.weights_sha256, weights);
    /* One history for all parts: a header and three lines, an epoch each. */
    FILE *history = fopen(training_run_file(t, "history.csv"), "r");
    assert_non_null(history);
    int lines = 0;
    while (fgets(line, sizeof line, history)) lines++;
    fclose(history);
    assert_int_equal(lines, 4);
    training_destroy(t);
}

static void test_the_learning_rate_goes_on_where_it_was(void **state)
{
    (void)state;
    enum { STEPS = 100, STOP = 40 };
    training *t = training_tiny();
    double lr[STEPS];
    training_set(t, "epochs", "auto");
    training_set(t, "steps", "100");
    training_set(t, "schedule", "cosine");
    training_set(t, "warmup", "7");
    training_set(t, "optimizer", "sgd");
    training_must_run(t);
    assert_int_equal(t->step_count, STEPS);
    for (int s = 0; s < STEPS; s++) lr[s] = t->step[s].lr;
    assert_true(lr[STEPS - 1] < lr[50] && lr[50] < lr[7] && lr[0] < lr[7]);
    t->stop_after = STOP;
    training_must_run(t);
    resume(t, "host:3", 0);
    assert_int_equal(t->step_count, STEPS - STOP);
    for (int s = STOP; s < STEPS; s++) {
        assert_true(t->step[s - STOP].lr == lr[s]);
        assert_int_equal(t->step[s - STOP].step, s + 1);
    }
    training_destroy(t);
}

static void test_adam_keeps_its_moments_and_its_count(void **state)
{
    (void)state;
    training *t = training_tiny();
    char weights[65], slots[65];
    training_set(t, "steps", "10");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    memcpy(slots, t->result.optimizer_sha256, sizeof slots);
    t->stop_after = 5;
    training_must_run(t);
    resume(t, "host:1", 0);
    assert_string_equal(t->result.weights_sha256, weights);
    assert_string_equal(t->result.optimizer_sha256, slots);
    assert_non_null(strstr(t->resume, "step 5"));
    training_destroy(t);
}

/* Every optimizer with everything that may surround it: the run on one device that never stopped,
 * that on others, and that which stops in the middle of an epoch and goes on elsewhere. */
static void test_every_optimizer_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = { "sgd", "momentum", "nesterov", "adam", "adamw",
                                              "rmsprop" };
    static const char *const clips[] = { "clip-value", "clip-norm", "clip-global-norm" };
    static const char *const schedules[] = { "exponential:4,0.5", "polynomial:12,0.001,0.7",
                                             "table:0=0.02,3=0.05,9=0.001" };
    for (int o = 0; o < 6; o++) {
        training *t = training_tiny();
        training_bits whole;
        training_set(t, "optimizer", optimizers[o]);
        training_set(t, "lr", "0.02");
        training_set(t, clips[o % 3], "0.05");
        training_set(t, "ema", "0.8");
        training_set(t, "weight-decay", "0.1");
        training_set(t, "l2", "0.01");
        training_set(t, "schedule", schedules[o % 3]);
        training_set(t, "warmup", "2");
        training_set(t, "lr-scale", "linear");
        training_set(t, "base-batch", "4");
        training_set(t, "rules", "*/bias=lr:2;dense1/kernel=decay:0.5,l2:0.1");
        training_must_run(t);
        training_remember(t, &whole);
        for (int n = 2; n <= 3; n++) {
            char devices[32];
            snprintf(devices, sizeof devices, "host:%d", n);
            training_set(t, "devices", devices);
            training_must_run(t);
            if (!training_same(t, &whole, devices)) fail_msg("%s", optimizers[o]);
        }
        training_set(t, "devices", "host:2");
        t->stop_after = 1; /* the average has just begun */
        training_must_run(t);
        resume(t, "host:3", 6);
        resume(t, "host:1", 0);
        if (!training_same(t, &whole, "resumed")) fail_msg("%s", optimizers[o]);
        training_destroy(t);
    }
}

/* What a unit file calls after a power cut: the same words, whether there is something to go on
 * with or not. */
static void test_the_command_that_began_a_run_continues_it(void **state)
{
    (void)state;
    training *t = training_tiny();
    char weights[65];
    training_set(t, "schedule", "cosine");
    training_set(t, "warmup", "2");
    training_set(t, "optimizer", "adamw");
    training_set(t, "ema", "0.9");
    training_set(t, "clip-global-norm", "1");
    training_set(t, "lr-scale", "linear");
    training_set(t, "base-batch", "4");
    training_set(t, "rules", "dense1/*=lr:0.5");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    training_set(t, "out", training_path(t, "again"));
    training_set(t, "resume", "auto");
    t->stop_after = 6;
    training_must_run(t);
    t->stop_after = 0;
    training_must_run(t);
    assert_int_equal(t->step_count, 15 - 6);
    assert_string_equal(t->result.weights_sha256, weights);
    training_destroy(t);
}

/* A kill inside the first save leaves the last checkpoint alone: the best epoch's file is made of
 * it. Without the last one nothing is started over what was saved. */
static void test_what_a_run_saved_is_neither_lost_nor_written_over(void **state)
{
    (void)state;
    training *t = training_tiny();
    char best[600], last[600], weights[65];
    snprintf(best, sizeof best, "%s", training_path(t, "run/checkpoints/best.safetensors"));
    snprintf(last, sizeof last, "%s", training_path(t, "run/checkpoints/last.safetensors"));
    training_set(t, "epochs", "2");
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    training_set(t, "out", training_path(t, "run"));
    training_set(t, "resume", "auto");
    training_set(t, "epochs", "1");
    training_must_run(t);
    assert_int_equal(unlink(best), 0);
    training_must_run(t);
    assert_int_equal(t->step_count, 0);
    assert_int_equal(access(best, F_OK), 0);
    assert_int_equal(unlink(last), 0);
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "checkpoints/best.safetensors"));
    training_set(t, "resume", best); /* as the message says */
    training_set(t, "epochs", "2");
    training_must_run(t);
    assert_int_equal(t->step_count, 5);
    assert_string_equal(t->result.weights_sha256, weights);
    training_destroy(t);
}

/* Another run of the folder ends while this one starts: it saves `last` anew. */
static ls_status open_while_another_saves(void *last, int rank, int threads,
                                          atomic_ulong *progress, ls_device **out)
{
    char other[700];
    snprintf(other, sizeof other, "%s.other", (const char *)last);
    const ls_saved_text text = { "by", "another" };
    LS_TRY(ls_checkpoint_save(other, NULL, 0, &text, 1));
    assert_int_equal(rename(other, last), 0);
    const ls_device_choice host = { LS_DEVICE_HOST, rank };
    return ls_device_open(&host, threads, false, progress, out);
}

static void test_what_another_run_saves_meanwhile_is_not_written_over(void **state)
{
    (void)state;
    training *t = training_tiny();
    char last[600];
    ls_checkpoint *kept = NULL;
    training_set(t, "out", training_path(t, "run"));
    training_set(t, "resume", "auto");
    training_set(t, "epochs", "1");
    training_must_run(t);
    snprintf(last, sizeof last, "%s", training_path(t, "run/checkpoints/last.safetensors"));
    t->observer = (ls_observer){ .open_device = open_while_another_saves,
                                 .stuck = training_stuck, .context = last };
    training_set(t, "epochs", "2");
    assert_int_equal(training_run(t), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "saved anew or removed while this run started"));
    assert_int_equal(ls_checkpoint_open(last, &kept), LS_OK);
    assert_string_equal(ls_checkpoint_text(kept, "by"), "another");
    ls_checkpoint_close(kept);
    training_destroy(t);
}

static void test_a_checkpoint_that_cannot_be_looked_at_is_not_absent(void **state)
{
    (void)state;
    training *t = training_tiny();
    char loop[600];
    training_write(t, "x", "");
    snprintf(loop, sizeof loop, "%s", training_path(t, "checkpoints"));
    assert_int_equal(symlink("checkpoints", loop), 0); /* to itself: ELOOP */
    training_set(t, "out", training_path(t, "."));
    training_set(t, "resume", "auto");
    assert_int_equal(training_run(t), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "last.safetensors: cannot be looked at: "));
    training_set(t, "resume", loop);
    assert_int_equal(training_run(t), LS_ERR_IO);
    assert_non_null(strstr(ls_last_error(), "checkpoints: cannot be looked at: "));
    training_destroy(t);
}

static void test_a_longer_run_may_be_asked_for(void **state)
{
    (void)state;
    training *t = training_tiny();
    char weights[65];
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    training_set(t, "epochs", "2");
    training_must_run(t);
    char checkpoint[1200];
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "epochs", "3");
    training_must_run(t);
    assert_string_equal(t->result.weights_sha256, weights);
    training_destroy(t);
}

/* What a unit file starts again and again must not train on. */
static void test_a_run_that_has_reached_its_aim_does_no_more(void **state)
{
    (void)state;
    training *t = training_tiny();
    char checkpoint[1200];
    training_set(t, "until", "val_loss<=1e9");
    training_must_run(t);
    assert_true(t->result.reached_until);
    assert_int_equal(t->result.epochs, 1);
    memcpy(checkpoint, t->result.checkpoint, sizeof checkpoint);
    for (int again = 0; again < 2; again++) {
        training_reset(t);
        training_set(t, "resume", checkpoint);
        training_must_run(t);
        assert_true(t->result.reached_until);
        assert_int_equal(t->step_count, 0);
    }
    training_set(t, "until", "none");
    training_must_run(t);
    assert_int_equal(t->result.epochs, 3);
    training_destroy(t);
}

/* Best and last are what an undisturbed run reports. */
static void test_the_best_epoch_is_not_forgotten(void **state)
{
    (void)state;
    training *t = training_tiny();
    training_set(t, "lr", "0.3");
    training_must_run(t);
    const ls_history_line best = t->result.best;
    t->stop_after = 12;
    training_must_run(t);
    resume(t, "host:2", 0);
    assert_int_equal(t->result.best.epoch, best.epoch);
    assert_true(t->result.best.val_loss == best.val_loss);
    training_destroy(t);
}

/* The folders are named to be mistaken for one another. */
static void test_a_continued_run_writes_into_no_folder_but_its_own(void **state)
{
    (void)state;
    training *t = training_tiny();
    char one[512], ten[512], checkpoint[600];
    snprintf(one, sizeof one, "%s", training_path(t, "checkpoints/run1"));
    snprintf(ten, sizeof ten, "%s", training_path(t, "checkpoints/run10"));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/last.safetensors", ten);
    training_set(t, "out", one);
    training_must_run(t);
    training_set(t, "out", ten);
    training_must_run(t);

    training_reset(t);
    training_set(t, "resume", ten);
    training_set(t, "out", one);
    training_set(t, "epochs", "4");
    assert_int_equal(training_run(t), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "not empty"));

    training_reset(t);
    training_set(t, "resume", ten);
    training_set(t, "epochs", "4");
    training_must_run(t);
    assert_string_equal(t->result.checkpoint, checkpoint);
    snprintf(ten + strlen(ten), 2, "/");
    training_reset(t);
    training_set(t, "resume", checkpoint);
    training_set(t, "out", ten);
    training_set(t, "epochs", "5");
    training_must_run(t);
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_momentum_started_on_four_ends_alike_on_any_number),
        cmocka_unit_test(test_interruptions_repeat_and_skip_nothing),
        cmocka_unit_test(test_the_learning_rate_goes_on_where_it_was),
        cmocka_unit_test(test_adam_keeps_its_moments_and_its_count),
        cmocka_unit_test(test_every_optimizer_goes_on_with_the_same_bits),
        cmocka_unit_test(test_the_command_that_began_a_run_continues_it),
        cmocka_unit_test(test_what_a_run_saved_is_neither_lost_nor_written_over),
        cmocka_unit_test(test_what_another_run_saves_meanwhile_is_not_written_over),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_looked_at_is_not_absent),
        cmocka_unit_test(test_a_longer_run_may_be_asked_for),
        cmocka_unit_test(test_a_run_that_has_reached_its_aim_does_no_more),
        cmocka_unit_test(test_the_best_epoch_is_not_forgotten),
        cmocka_unit_test(test_a_continued_run_writes_into_no_folder_but_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
