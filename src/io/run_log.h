/* SPDX-License-Identifier: MIT */
/* run_log.h -- history.csv, an epoch a line, and log.jsonl, a step a line.
 *
 * Each line is given to the system whole as it is written, so that a kill loses none; a last line
 * that was torn is cut off before the next one, and so are lines of what a checkpoint does not
 * count. Which folder they lie in, and who else may write there, is run_folder.c's.
 *
 * Thread rule: used by one thread.
 */
#ifndef LS_IO_RUN_LOG_H
#define LS_IO_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/json.h"
#include "status.h"

enum {
    LS_METRIC_MAX = 5, /* of a run: there are five of classes, three of numbers */
    LS_METRIC_NAME_BYTES = 16
};

/* One line of history.csv; NaN where there is no value (written empty). epoch is 1-based. */
typedef struct {
    uint64_t epoch, step;
    double lr, loss, val_loss, seconds, samples_per_second;
    int metric_count;          /* 0 .. LS_METRIC_MAX */
    char metric_name[LS_METRIC_MAX][LS_METRIC_NAME_BYTES]; /* "accuracy", "top5" */
    double metric[LS_METRIC_MAX], val_metric[LS_METRIC_MAX];
    double input_share;        /* no column: of the steps' time, in which a replica had no input */
} ls_history_line;

/* One line of log.jsonl; NaN and infinities are written as null. The seconds from input_wait to
 * update sum to `seconds`. */
typedef struct {
    uint64_t epoch, step; /* epoch 1-based; step = applied updates after this one */
    uint64_t step_of_epoch; /* 1-based, with those that made no update */
    double loss, regularizer, grad_norm, update_norm, lr;
    uint64_t samples;
    double seconds, input_wait, copy, forward, backward, exchange, update;
    double exchange_wait;  /* of the exchange: in which this rank waited for others */
    double loss_scale;
    bool skipped;
    int queue;             /* batches that were ready when the step asked for one; 0: it waited */
    double reader_seconds; /* in which readers were at work meanwhile, all added up */
    uint64_t read_bytes;   /* of samples, by the readers, meanwhile; written per second */
} ls_log_line;

/* What a checkpoint counts; all 0: nothing. */
typedef struct {
    uint64_t epochs;         /* whole ones */
    uint64_t steps;          /* that made an update */
    uint64_t steps_of_epoch; /* of the epoch after the whole ones, with those that made none */
} ls_run_done;

typedef struct {
    int history, steps;    /* owned: open for appending; -1 if not */
    off_t history_kept, steps_kept; /* bytes of the lines that stay */
    ls_json_writer line;   /* its text owned: of log.jsonl, made anew each step */
    bool history_is_empty; /* the names of its columns are not written yet */
} ls_run_log;

/* How one begins. */
#define LS_RUN_LOG_CLOSED ((ls_run_log){ .history = -1, .steps = -1 })

/* Open the file at `path`, made if it is absent, and find the lines of what is done. Errors: IO,
 * MEMORY. */
LS_MUST_USE ls_status ls_run_log_open_epochs(ls_run_log *log, const char *path, ls_run_done done);
LS_MUST_USE ls_status ls_run_log_open_steps(ls_run_log *log, const char *path, ls_run_done done);

/* Both are open, and a line is to come: cut off all others. `folder` is theirs, for the message.
 * Errors: IO. */
LS_MUST_USE ls_status ls_run_log_cut(ls_run_log *log, const char *folder);

/* Is there nothing at `path`, or nothing but what a run writes before its first checkpoint: the
 * line of epoch 1, a step's lines, and perhaps a torn one? Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_run_log_is_first_epoch(const char *path, bool *is_first);
LS_MUST_USE ls_status ls_run_log_is_first_steps(const char *path, bool *is_first);

void ls_run_log_close(ls_run_log *log); /* accepts one that is closed */

/* Append a line. The first of history.csv writes the names of the columns before it.
 * Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_run_log_epoch(ls_run_log *log, const ls_history_line *line);
LS_MUST_USE ls_status ls_run_log_step(ls_run_log *log, const ls_log_line *line);

#endif
