/* SPDX-License-Identifier: MIT */
/* test_run_log.c -- what the lines of the two logs are, and which of log.jsonl a run that continues
 * keeps. For those of history.csv see test_run_folder.c and test_run_folder_again.c.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "io/run_log.h"
#include "support/command.h"

/* Both, in the test's folder, cut after what is done. */
static ls_run_log open_logs(ls_run_done done)
{
    ls_run_log log = LS_RUN_LOG_CLOSED;
    assert_int_equal(ls_run_log_open_epochs(&log, "history.csv", done), LS_OK);
    assert_int_equal(ls_run_log_open_steps(&log, "log.jsonl", done), LS_OK);
    assert_int_equal(ls_run_log_cut(&log, "."), LS_OK);
    return log;
}

/* -- lines ------------------------------------------------------------------------------------- */

static void test_two_metrics_and_values_that_are_missing(void **state)
{
    (void)state;
    char text[COMMAND_TEXT_BYTES];
    ls_run_log log = open_logs((ls_run_done){ 0 });
    const double nan = (double)NAN;
    const ls_history_line h = {
        .epoch = 2, .step = 9, .lr = 1e-7, .loss = 1.0 / 3, .val_loss = nan, .seconds = 0.1,
        .samples_per_second = 1e6, .metric_count = 2, .metric_name = { "mse", "mae" },
        .metric = { 2, nan }, .val_metric = { nan, nan },
    };
    assert_int_equal(ls_run_log_epoch(&log, &h), LS_OK);
    read_text("history.csv", text);
    assert_string_equal(text,
                        "epoch,step,lr,loss,mse,mae,val_loss,val_mse,val_mae,seconds,"
                        "samples_per_second\n2,9,1e-07,0.3333333333333333,2,,,,,0.1,1000000\n");
    ls_run_log_close(&log);
}

static void test_a_step_is_a_line_of_json_with_all_digits(void **state)
{
    (void)state;
    char text[COMMAND_TEXT_BYTES];
    ls_run_log log = open_logs((ls_run_done){ 0 });
    ls_log_line line = { .epoch = 1, .step = 7, .step_of_epoch = 8, .loss = 0.30000000000000004,
                         .grad_norm = 2, .update_norm = 0.5, .lr = 0.001, .samples = 32,
                         .seconds = 0.75, .input_wait = 0.125, .copy = 0.125, .forward = 0.125,
                         .backward = 0.125, .exchange = 0.125, .exchange_wait = 0.0625,
                         .update = 0.125, .queue = 2, .reader_seconds = 0.5, .read_bytes = 3072 };
    assert_int_equal(ls_run_log_step(&log, &line), LS_OK);
    line.loss = (double)NAN;
    line.grad_norm = (double)INFINITY;
    line.skipped = true;
    assert_int_equal(ls_run_log_step(&log, &line), LS_OK);
    read_text("log.jsonl", text);
    assert_string_equal(text,
        "{\"epoch\":1,\"step\":7,\"step_of_epoch\":8,\"loss\":0.30000000000000004,"
        "\"regularizer\":0,\"grad_norm\":2,\"update_norm\":0.5,\"lr\":0.001,"
        "\"samples\":32,\"seconds\":0.75,\"input_wait\":0.125,\"copy\":0.125,\"forward\":0.125,"
        "\"backward\":0.125,\"exchange\":0.125,\"update\":0.125,"
        "\"exchange_wait\":0.0625,\"loss_scale\":0,\"skipped\":false,\"queue\":2,"
        "\"reader_seconds\":0.5,\"bytes_per_second\":4096}\n"
        "{\"epoch\":1,\"step\":7,\"step_of_epoch\":8,\"loss\":null,"
        "\"regularizer\":0,\"grad_norm\":null,\"update_norm\":0.5,\"lr\":0.001,"
        "\"samples\":32,\"seconds\":0.75,\"input_wait\":0.125,\"copy\":0.125,\"forward\":0.125,"
        "\"backward\":0.125,\"exchange\":0.125,\"update\":0.125,"
        "\"exchange_wait\":0.0625,\"loss_scale\":0,\"skipped\":true,\"queue\":2,"
        "\"reader_seconds\":0.5,\"bytes_per_second\":4096}\n");
    ls_run_log_close(&log);
}

/* -- the cut ----------------------------------------------------------------------------------- */

enum { EPOCH_STEPS = 3, LINES = 9 };

/* Updates after each step: one that made none has the number of the last that did. */
static const uint64_t updates[LINES] = { 0, 1, 1, 1, 2, 2, 2, 2, 3 };

/* Of what counts the first `steps` of those steps. */
static ls_run_done done_after(uint64_t steps)
{
    return (ls_run_done){ steps / EPOCH_STEPS, steps > 0 ? updates[steps - 1] : 0,
                          steps % EPOCH_STEPS };
}

/* A log of the steps from number `first`, counted from 0. */
static void write_log(uint64_t first)
{
    ls_run_log log = open_logs((ls_run_done){ 0 });
    for (uint64_t i = first; i < LINES; i++) {
        const ls_log_line line = { .epoch = i / EPOCH_STEPS + 1, .step = updates[i],
                                   .step_of_epoch = i % EPOCH_STEPS + 1 };
        assert_int_equal(ls_run_log_step(&log, &line), LS_OK);
    }
    ls_run_log_close(&log);
}

/* How many lines stay in log.jsonl of a run that continues after `steps` steps. */
static int lines_kept(uint64_t steps)
{
    static char text[COMMAND_TEXT_BYTES];
    int count = 0;
    ls_run_log log = open_logs(done_after(steps));
    ls_run_log_close(&log);
    read_text("log.jsonl", text);
    for (const char *c = text; *c; c++) count += *c == '\n';
    return count;
}

/* The log of a run that was continued into another folder lacks what was before. */
static void test_steps_without_an_update_are_cut_wherever_the_log_begins(void **state)
{
    (void)state;
    for (uint64_t first = 0; first < LINES; first++) {
        for (uint64_t saved = first; saved <= LINES; saved++) {
            write_log(first);
            assert_int_equal(lines_kept(saved), saved - first);
        }
    }
}

/* Lines that do not tell their place in the epoch are counted: all of it is there. */
static void test_lines_of_an_earlier_version_are_cut_by_their_count(void **state)
{
    (void)state;
    for (uint64_t saved = 0; saved <= LINES; saved++) {
        FILE *file = fopen("log.jsonl", "wb");
        assert_non_null(file);
        for (int i = 0; i < LINES; i++)
            fprintf(file, "{\"epoch\":%d,\"step\":%d,\"loss\":0.5}\n", i / EPOCH_STEPS + 1,
                    (int)updates[i]);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(lines_kept(saved), saved);
    }
}

static void test_a_log_that_cannot_be_cut_is_named_with_its_folder(void **state)
{
    (void)state;
    ls_run_log log = LS_RUN_LOG_CLOSED;
    assert_int_equal(ls_run_log_cut(&log, "runs/a"), LS_ERR_IO); /* not open */
    assert_memory_equal(ls_last_error(), "runs/a/history.csv: cannot be cut to 0 bytes: ", 46);
}

/* Reading the process's own memory at 0 fails, and is not taken for the end of the log. (A kernel
 * that lets nobody open that for writing is refused a step earlier.) */
static void test_a_log_that_cannot_be_read_is_not_cut(void **state)
{
    (void)state;
    ls_run_log log = LS_RUN_LOG_CLOSED;
    assert_int_equal(symlink("/proc/self/mem", "log.jsonl"), 0);
    assert_int_equal(ls_run_log_open_steps(&log, "log.jsonl", (ls_run_done){ 0 }), LS_ERR_IO);
    assert_memory_equal(ls_last_error(), "log.jsonl: cannot be ", 21);
    ls_run_log_close(&log);
    bool is_first;
    assert_int_equal(ls_run_log_is_first_steps("log.jsonl", &is_first), LS_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_two_metrics_and_values_that_are_missing),
        TEST_IN_FOLDER(test_a_step_is_a_line_of_json_with_all_digits),
        TEST_IN_FOLDER(test_steps_without_an_update_are_cut_wherever_the_log_begins),
        TEST_IN_FOLDER(test_lines_of_an_earlier_version_are_cut_by_their_count),
        TEST_IN_FOLDER(test_a_log_that_cannot_be_cut_is_named_with_its_folder),
        TEST_IN_FOLDER(test_a_log_that_cannot_be_read_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
