/* SPDX-License-Identifier: MIT */
/* run_log.c -- the two logs of a run: opened, cut before the first line, then a line at a time.
 *
 * Both are append-only, and their lines ascend by epoch (history.csv) and step (log.jsonl). So what
 * must go after an interruption is a tail: from the first line that is torn, not ours, or later
 * than the checkpoint. Opening finds where it begins, and ls_run_log_cut takes it away. Losses and
 * rates are written with all the digits of a double: equal texts in two runs' logs are equal bits.
 */
#include "io/run_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

/* -- which lines are kept --------------------------------------------------------------------- */

/* Which lines of a file are kept: of what is done. */
typedef struct {
    ls_run_done done;
    uint64_t of_epoch; /* lines of steps of the epoch after the whole ones, so far, that do not
                          say which of it they are: of a version that did not write that */
} log_cut;

/* Is the line one of ours, and kept? Lines are asked for in the file's order. Errors: MEMORY. */
typedef ls_status keeps_line_fn(log_cut *cut, const char *line, size_t byte_count, bool *keeps);

/* "3,120,...": epoch 3. The names of the columns are always kept. */
static ls_status keeps_epoch(log_cut *cut, const char *line, size_t byte_count, bool *keeps)
{
    uint64_t epoch;
    *keeps = strncmp(line, "epoch,", 6) == 0;
    if (*keeps) return LS_OK;
    const size_t digits = strspn(line, "0123456789");
    ls_json_reader r;
    ls_json_read_init(&r, "history.csv", line, digits, 0);
    *keeps = strlen(line) == byte_count && line[digits] == ',' &&
             ls_json_read_count(&r, &epoch) == LS_OK && epoch <= cut->done.epochs;
    return LS_OK;
}

/* The next member of the object, a count called `name`. */
static ls_status read_count(ls_json_reader *r, const char *name, uint64_t *x)
{
    bool more;
    char *key = NULL;
    LS_TRY(ls_json_read_next(r, &more));
    if (!more) return ls_json_expected(r, name);
    LS_TRY(ls_json_read_key(r, &key));
    const bool is_called = strcmp(key, name) == 0;
    free(key);
    return is_called ? ls_json_read_count(r, x) : ls_json_expected(r, name);
}

/* {"epoch":1,"step":120,"step_of_epoch":121,...}; 0 for the third if it is not there. */
static ls_status read_step(const char *line, size_t byte_count, uint64_t *epoch, uint64_t *step,
                           uint64_t *step_of_epoch)
{
    ls_json_reader r;
    ls_json_read_init(&r, "log.jsonl", line, byte_count, 0);
    LS_TRY(ls_json_read_open(&r, '{'));
    LS_TRY(read_count(&r, "epoch", epoch));
    LS_TRY(read_count(&r, "step", step));
    const ls_status status = read_count(&r, "step_of_epoch", step_of_epoch);
    if (status == LS_OK) return LS_OK;
    *step_of_epoch = 0;
    return status == LS_ERR_FORMAT ? LS_OK : status;
}

/* Steps that made no update have the number of the last one that did, so that the number does not
 * tell on which side of the checkpoint they are: within its epoch their place does. */
static ls_status keeps_step(log_cut *cut, const char *line, size_t byte_count, bool *keeps)
{
    uint64_t epoch, step, place;
    const ls_status status = read_step(line, byte_count, &epoch, &step, &place);
    *keeps = status == LS_OK && strlen(line) == byte_count && step <= cut->done.steps;
    if (status != LS_OK) return status == LS_ERR_FORMAT ? LS_OK : status;
    if (!*keeps || epoch <= cut->done.epochs) return LS_OK;
    if (place == 0) place = ++cut->of_epoch;
    *keeps = epoch == cut->done.epochs + 1 && place <= cut->done.steps_of_epoch;
    return LS_OK;
}

/* Bytes of the lines up to the first that is not kept: whole, ours and of what is done. A file that
 * cannot be read to its end is an error: what is behind would be taken for a tail and cut off. */
static ls_status kept_bytes(FILE *file, const char *path, keeps_line_fn *keeps, ls_run_done done,
                            off_t *kept)
{
    log_cut cut = { .done = done };
    ls_status status = LS_OK;
    char *line = NULL;
    size_t room = 0;
    ssize_t count;
    *kept = 0;
    while ((count = getline(&line, &room, file)) > 0) {
        bool is_kept = false;
        if (line[count - 1] == '\n') status = keeps(&cut, line, (size_t)count, &is_kept);
        if (!is_kept) break;
        *kept += count;
    }
    if (count < 0 && !feof(file))
        status = ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    free(line);
    return status;
}

/* Open a log for appending. Returns the descriptor in *out, and in *kept how much of it stays. */
static ls_status open_log(const char *path, keeps_line_fn *keeps, ls_run_done done, int *out,
                          off_t *kept)
{
    *out = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    FILE *file = *out >= 0 ? fopen(path, "r") : NULL;
    if (!file) return ls_fail(LS_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    const ls_status status = kept_bytes(file, path, keeps, done, kept);
    fclose(file);
    return status;
}

static ls_status cut_log(int fd, const char *folder, const char *name, off_t kept)
{
    if (ftruncate(fd, kept) == 0) return LS_OK;
    return ls_fail(LS_ERR_IO, "%s/%s: cannot be cut to %lld bytes: %s", folder, name,
                   (long long)kept, strerror(errno));
}

ls_status ls_run_log_cut(ls_run_log *log, const char *folder)
{
    LS_TRY(cut_log(log->history, folder, "history.csv", log->history_kept));
    return cut_log(log->steps, folder, "log.jsonl", log->steps_kept);
}

/* *all: cutting the log would take no whole line. */
static ls_status keeps_all(const char *path, keeps_line_fn *keeps, ls_run_done done, bool *all)
{
    FILE *file = fopen(path, "r");
    *all = !file && errno == ENOENT;
    if (*all) return LS_OK;
    if (!file) return ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    off_t kept;
    ls_status status = kept_bytes(file, path, keeps, done, &kept);
    if (status == LS_OK) {
        const bool found = fseeko(file, kept, SEEK_SET) == 0;
        const ssize_t count = found ? getline(&line, &room, file) : -1;
        const bool torn = count > 0 && line[count - 1] != '\n';
        if (count < 0 && !feof(file))
            status = ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
        *all = torn || count < 0;
    }
    free(line);
    fclose(file);
    return status;
}

ls_status ls_run_log_is_first_epoch(const char *path, bool *is_first)
{
    return keeps_all(path, keeps_epoch, (ls_run_done){ .epochs = 1 }, is_first);
}

ls_status ls_run_log_is_first_steps(const char *path, bool *is_first)
{
    return keeps_all(path, keeps_step, (ls_run_done){ .epochs = UINT64_MAX, .steps = UINT64_MAX },
                     is_first);
}

/* -- opening and closing --------------------------------------------------------------------- */

ls_status ls_run_log_open_epochs(ls_run_log *log, const char *path, ls_run_done done)
{
    LS_TRY(open_log(path, keeps_epoch, done, &log->history, &log->history_kept));
    log->history_is_empty = log->history_kept == 0;
    return LS_OK;
}

ls_status ls_run_log_open_steps(ls_run_log *log, const char *path, ls_run_done done)
{
    return open_log(path, keeps_step, done, &log->steps, &log->steps_kept);
}

void ls_run_log_close(ls_run_log *log)
{
    if (log->history >= 0) close(log->history);
    if (log->steps >= 0) close(log->steps);
    free(log->line.text);
    *log = LS_RUN_LOG_CLOSED;
}

/* -- lines ----------------------------------------------------------------------------------- */

static ls_status append(int fd, const char *name, const char *text, size_t byte_count)
{
    while (byte_count > 0) {
        const ssize_t taken = write(fd, text, byte_count);
        if (taken < 0 && errno == EINTR) continue;
        if (taken <= 0) {
            return ls_fail(LS_ERR_IO, "%s: a line cannot be written: %s", name,
                           taken < 0 ? strerror(errno) : "the disk takes no more bytes");
        }
        text += taken;
        byte_count -= (size_t)taken;
    }
    return LS_OK;
}

/* A line under construction. Numbers and names are short: a line of LS_METRIC_MAX metrics has 17
 * columns, each number of at most 26 bytes. */
typedef struct {
    char text[1024];
    size_t byte_count;
} csv_line;

static void add_text(csv_line *line, const char *text)
{
    const char *comma = line->byte_count > 0 ? "," : "";
    const size_t room = sizeof line->text - line->byte_count;
    const int count = snprintf(line->text + line->byte_count, room, "%s%.64s", comma, text);
    line->byte_count += (size_t)count;
    assert(line->byte_count < sizeof line->text);
}

static void add_count(csv_line *line, uint64_t x)
{
    char text[LS_NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, x);
    add_text(line, text);
}

/* NaN is an empty field. */
static void add_number(csv_line *line, double x)
{
    char text[LS_NUMBER_BYTES] = "";
    if (!isnan(x)) ls_number_text(x, text);
    add_text(line, text);
}

static void add_name(csv_line *line, const char *prefix, const char *name)
{
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    add_text(line, text);
}

static ls_status append_csv(ls_run_log *log, csv_line *line)
{
    line->text[line->byte_count] = '\n'; /* in place of the NUL */
    return append(log->history, "history.csv", line->text, line->byte_count + 1);
}

static ls_status write_column_names(ls_run_log *log, const ls_history_line *h)
{
    csv_line line = { .byte_count = 0 };
    add_text(&line, "epoch");
    add_text(&line, "step");
    add_text(&line, "lr");
    add_text(&line, "loss");
    for (int m = 0; m < h->metric_count; m++) add_name(&line, "", h->metric_name[m]);
    add_text(&line, "val_loss");
    for (int m = 0; m < h->metric_count; m++) add_name(&line, "val_", h->metric_name[m]);
    add_text(&line, "seconds");
    add_text(&line, "samples_per_second");
    LS_TRY(append_csv(log, &line));
    log->history_is_empty = false;
    return LS_OK;
}

ls_status ls_run_log_epoch(ls_run_log *log, const ls_history_line *h)
{
    if (log->history_is_empty) LS_TRY(write_column_names(log, h));
    csv_line line = { .byte_count = 0 };
    add_count(&line, h->epoch);
    add_count(&line, h->step);
    add_number(&line, h->lr);
    add_number(&line, h->loss);
    for (int m = 0; m < h->metric_count; m++) add_number(&line, h->metric[m]);
    add_number(&line, h->val_loss);
    for (int m = 0; m < h->metric_count; m++) add_number(&line, h->val_metric[m]);
    add_number(&line, h->seconds);
    add_number(&line, h->samples_per_second);
    return append_csv(log, &line);
}

ls_status ls_run_log_step(ls_run_log *log, const ls_log_line *l)
{
    const struct {
        const char *name;
        double x;
    } before[] = { { "loss", l->loss }, { "regularizer", l->regularizer },
                   { "grad_norm", l->grad_norm }, { "update_norm", l->update_norm },
                   { "lr", l->lr } },
      after[] = { { "seconds", l->seconds }, { "input_wait", l->input_wait },
                  { "copy", l->copy }, { "forward", l->forward }, { "backward", l->backward },
                  { "exchange", l->exchange }, { "update", l->update },
                  { "exchange_wait", l->exchange_wait } };
    ls_json_writer *w = &log->line;
    ls_json_write_again(w);
    ls_json_write_open(w, '{');
    ls_json_member_count(w, "epoch", l->epoch);
    ls_json_member_count(w, "step", l->step);
    ls_json_member_count(w, "step_of_epoch", l->step_of_epoch);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        ls_json_member_number(w, before[i].name, before[i].x);
    }
    ls_json_member_count(w, "samples", l->samples);
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        ls_json_member_seconds(w, after[i].name, after[i].x);
    }
    ls_json_member_number(w, "loss_scale", l->loss_scale);
    ls_json_member_flag(w, "skipped", l->skipped);
    ls_json_member_count(w, "queue", (uint64_t)l->queue);
    ls_json_member_seconds(w, "reader_seconds", l->reader_seconds);
    ls_json_member_count(w, "bytes_per_second",
                         l->seconds > 0 ? (uint64_t)((double)l->read_bytes / l->seconds) : 0);
    ls_json_write_close(w, '}');
    ls_json_write_raw(w, "\n", 1);
    if (w->failed) return ls_fail(LS_ERR_MEMORY, "log.jsonl: no memory for a line");
    return append(log->steps, "log.jsonl", w->text, w->byte_count);
}
