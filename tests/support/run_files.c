/* SPDX-License-Identifier: MIT */
/* run_files.c -- see run_files.h. */
#include "support/test.h"

#include "support/run_files.h"

#include <stdio.h>
#include <sys/stat.h>

#include "support/command.h"

const ls_history_line epoch1 = {
    .epoch = 1, .step = 45, .lr = 0.001, .loss = 0.5, .val_loss = 0.25, .seconds = 1.5,
    .samples_per_second = 960, .metric_count = 1, .metric_name = { "accuracy" },
    .metric = { 0.9 }, .val_metric = { 0.95 },
};

ls_log_line log_line(uint64_t epoch, uint64_t step)
{
    return (ls_log_line){ .epoch = epoch, .step = step,
                          .step_of_epoch = step - 2 * (epoch - 1), .loss = 0.30000000000000004,
                          .regularizer = 0, .grad_norm = 2, .update_norm = 0.5, .lr = 0.001,
                          .samples = 32, .seconds = 0.75, .input_wait = 0.125, .copy = 0.125,
                          .forward = 0.125, .backward = 0.125, .exchange = 0.125,
                          .exchange_wait = 0.0625, .update = 0.125,
                          .queue = 2, .reader_seconds = 0.5,
                          .read_bytes = 3072 };
}

void make_empty_run(void)
{
    assert_int_equal(mkdir("runs", 0777), 0);
    assert_int_equal(mkdir(RUN, 0777), 0);
}

ls_run_folder *open_run(ls_run_start start, uint64_t epochs, uint64_t steps)
{
    const ls_run_done done = { epochs, steps, steps - 2 * epochs };
    ls_run_folder *folder = NULL;
    if (ls_run_folder_open(RUN, start, done, &folder) != LS_OK) fail_msg("%s", ls_last_error());
    assert_int_equal(ls_run_folder_begin(folder), LS_OK);
    return folder;
}

void assert_run_refused(const char *path, ls_run_start start, ls_status want, const char *part)
{
    ls_run_folder *folder = NULL;
    const ls_status status = ls_run_folder_open(path, start, (ls_run_done){ 0 }, &folder);
    ls_run_folder_close(folder);
    if (status != want || !strstr(ls_last_error(), part)) {
        fail_msg("expected %s with '%s', got %s: %s", ls_status_name(want), part,
                 ls_status_name(status), status ? ls_last_error() : "");
    }
}

void write_steps(ls_run_folder *folder, uint64_t first)
{
    ls_history_line h = epoch1;
    for (uint64_t step = first; step <= 6; step++) {
        const ls_log_line line = log_line((step + 1) / 2, step);
        assert_int_equal(ls_run_folder_log(folder, &line), LS_OK);
        if (step % 2 == 1) continue;
        h.epoch = step / 2;
        h.step = step;
        assert_int_equal(ls_run_folder_history(folder, &h), LS_OK);
    }
}

void write_run(void)
{
    ls_run_folder *folder = open_run(LS_RUN_NEW, 0, 0);
    assert_int_equal(ls_run_folder_write(folder, "config.txt", "lr 1\n"), LS_OK);
    write_steps(folder, 1);
    ls_run_folder_close(folder);
}

const char *text_of(const char *path)
{
    static char text[COMMAND_TEXT_BYTES];
    read_text(path, text);
    return text;
}

int line_count(const char *path)
{
    int count = 0;
    for (const char *p = text_of(path); *p; p++) count += *p == '\n';
    return count;
}
