/* SPDX-License-Identifier: MIT */
/* state_text.c -- the texts of a checkpoint: a run's place in time, and what it was told.
 *
 * The keys of __metadata__ are state.h's. Several numbers under one key are separated by blanks;
 * doubles are written with 17 digits, which come back as the same bits. What a file says is not
 * trusted: counts are whole, ranges are checked, and configuration and model are read as a user's
 * would be.
 */
#include "train/state_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"
#include "train/state_scale.h"

enum { LINE_BYTES = 1024, COUNT_DIGITS = 15 };

static const char format_name[] = "lockstep checkpoint 1";

/* -- lines of history.csv, as numbers ---------------------------------------------------------- */

/* A line's numbers: the seven of every line, then its metrics, then those of the test part: two of
 * each at least, as a line without names does not say how many there are. */
enum { LINE_FIXED = 7, LINE_NUMBERS_MAX = LINE_FIXED + 2 * LS_METRIC_MAX };

static void write_line(const ls_history_line *line, char out[LINE_BYTES])
{
    const int metrics = line->metric_count > 2 ? line->metric_count : 2;
    int used = snprintf(out, LINE_BYTES, "%" PRIu64 " %" PRIu64 " %.17g %.17g %.17g %.17g %.17g",
                        line->epoch, line->step, line->lr, ls_printable(line->loss),
                        ls_printable(line->val_loss), ls_printable(line->seconds),
                        ls_printable(line->samples_per_second));
    for (int m = 0; m < 2 * metrics; m++)
        used += snprintf(out + used, (size_t)(LINE_BYTES - used), " %.17g",
                         ls_printable(m < metrics ? line->metric[m]
                                                  : line->val_metric[m - metrics]));
}

/* Numbers separated by spaces, all of the text. Returns how many; -1: it is something else. */
static int read_numbers(const char *text, double *out, int count_max)
{
    int count = 0;
    while (*text) {
        char *end;
        if (count == count_max) return -1;
        out[count++] = strtod(text, &end);
        if (end == text) return -1;
        text = end;
    }
    return count;
}

/* A count that was written as a double; beyond 2^53 they are no counts. */
static bool is_count(double x) { return x >= 0 && x <= 0x1p53 && x == floor(x); }

static bool read_line(const char *text, ls_history_line *line)
{
    double x[LINE_NUMBERS_MAX];
    const int count = read_numbers(text, x, LINE_NUMBERS_MAX);
    const int metrics = (count - LINE_FIXED) / 2;
    if (metrics < 2 || count != LINE_FIXED + 2 * metrics || !is_count(x[0]) || !is_count(x[1]))
        return false;
    *line = (ls_history_line){
        .epoch = (uint64_t)x[0], .step = (uint64_t)x[1], .lr = x[2], .loss = x[3],
        .val_loss = x[4], .seconds = x[5], .samples_per_second = x[6],
    };
    for (int m = 0; m < metrics; m++) {
        line->metric[m] = x[LINE_FIXED + m];
        line->val_metric[m] = x[LINE_FIXED + metrics + m];
    }
    return true;
}

/* -- saving ------------------------------------------------------------------------------------ */

static const char *const saved_key[LS_SAVED_COUNT] = {
    [LS_SAVED_MODEL] = "model", [LS_SAVED_MODEL_NAME] = "model_name", [LS_SAVED_DATA] = "data",
    [LS_SAVED_IDENTITY] = "data_identity", [LS_SAVED_CLASS] = "class", [LS_SAVED_WORLD] = "world",
};

static void write_callbacks(const ls_callback_state *c, char *out, size_t bytes)
{
    snprintf(out, bytes, "%.17g %.17g %" PRIu64 " %.17g %" PRIu64 " %" PRIu64 " %.17g", c->best,
             c->stop_best, c->stop_wait, c->plateau_best, c->plateau_wait, c->plateau_cooldown,
             c->rate_factor);
}

static ls_status save_with_config(const char *path, const ls_run_state *state,
                                  const ls_saved_tensor *tensor, int count, const char *config)
{
    const ls_progress *p = state->progress;
    char step[24], epoch[24], step_of_epoch[24], sums[160], guard[96], callbacks[160];
    char best[LINE_BYTES], last[LINE_BYTES], scale[LS_SCALE_TEXT_BYTES];
    snprintf(step, sizeof step, "%" PRIu64, p->step);
    snprintf(epoch, sizeof epoch, "%" PRIu64, p->epoch);
    snprintf(step_of_epoch, sizeof step_of_epoch, "%" PRIu64, p->step_of_epoch);
    snprintf(sums, sizeof sums, "%.17g %.17g %.17g %" PRId64 " %" PRId64 " %" PRId64,
             p->sums.loss, p->sums.error, p->sums.square, p->sums.samples, p->sums.correct,
             p->sums.top);
    snprintf(guard, sizeof guard, "%.17g %" PRIu64 " %" PRIu64 " %" PRIu64, p->guard.loss_scale,
             p->guard.clean_steps, p->guard.failed_in_row, p->guard.failed);
    write_callbacks(&p->callbacks, callbacks, sizeof callbacks);
    write_line(&p->best, best);
    write_line(&p->last, last);
    ls_state_scale_text(&state->scale, scale);
    const ls_saved_text text[] = {
        { "format", format_name },
        { saved_key[LS_SAVED_CLASS], state->numerics_class },
        { "step", step }, { "epoch", epoch }, { "step_of_epoch", step_of_epoch },
        { "epoch_sums", sums }, { "guard", guard },
        { "callbacks", callbacks }, { "best", best }, { "last", last },
        { saved_key[LS_SAVED_WORLD], state->world },
        { saved_key[LS_SAVED_DATA], state->data },
        { saved_key[LS_SAVED_IDENTITY], state->data_identity },
        { "scale", scale },
        { saved_key[LS_SAVED_MODEL_NAME], state->model->name },
        { saved_key[LS_SAVED_MODEL], state->model->text },
        { "config", config },
    };
    return ls_checkpoint_save(path, tensor, count, text, (int)(sizeof text / sizeof text[0]));
}

ls_status ls_state_text_save(const char *path, const ls_run_state *state,
                             const ls_saved_tensor *tensor, int count)
{
    char *config = NULL;
    ls_status status = ls_config_write(state->config, &config);
    if (status == LS_OK) status = save_with_config(path, state, tensor, count, config);
    free(config);
    return status;
}

/* -- loading ----------------------------------------------------------------------------------- */

/* *out = the text under `key`, which belongs to the checkpoint. */
static ls_status find_text(const ls_checkpoint *checkpoint, const char *path, const char *key,
                           const char **out)
{
    *out = ls_checkpoint_text(checkpoint, key);
    if (*out) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: no `%s` in its metadata: it holds weights, not a run. "
                   "--resume needs a checkpoint that `lockstep train` wrote; --init starts a new "
                   "run from its weights", path, key);
}

static ls_status read_count(const ls_checkpoint *checkpoint, const char *path, const char *key,
                            uint64_t *out)
{
    const char *text;
    LS_TRY(find_text(checkpoint, path, key, &text));
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > COUNT_DIGITS || text[digits])
        return ls_fail(LS_ERR_FORMAT, "%s: %s is \"%.60s\", expected a whole number of at most %d "
                       "digits", path, key, text, COUNT_DIGITS);
    *out = strtoull(text, NULL, 10);
    return LS_OK;
}

static ls_status read_guard(ls_guard_state *g, const ls_checkpoint *checkpoint, const char *path)
{
    const char *text;
    double x[4];
    LS_TRY(find_text(checkpoint, path, "guard", &text));
    if (read_numbers(text, x, 4) != 4 || !is_count(x[1]) || !is_count(x[2]) || !is_count(x[3]) ||
        !(x[0] >= LS_LOSS_SCALE_LEAST && x[0] <= LS_LOSS_SCALE_MOST))
        return ls_fail(LS_ERR_FORMAT, "%s: guard \"%.100s\": expected a loss scale of 1 to 2^24 "
                       "and three counts", path, text);
    *g = (ls_guard_state){ .loss_scale = x[0], .clean_steps = (uint64_t)x[1],
                           .failed_in_row = (uint64_t)x[2], .failed = (uint64_t)x[3] };
    return LS_OK;
}

static ls_status read_callbacks(ls_callback_state *c, const ls_checkpoint *checkpoint,
                                const char *path)
{
    const char *text;
    double x[7];
    LS_TRY(find_text(checkpoint, path, "callbacks", &text));
    if (read_numbers(text, x, 7) != 7 || !is_count(x[2]) || !is_count(x[4]) || !is_count(x[5]) ||
        !(x[6] >= 0 && x[6] <= 1))
        return ls_fail(LS_ERR_FORMAT, "%s: callbacks \"%.120s\": expected 7 numbers, three counts "
                       "and a factor of at most 1 among them", path, text);
    *c = (ls_callback_state){ .best = x[0], .stop_best = x[1], .stop_wait = (uint64_t)x[2],
                              .plateau_best = x[3], .plateau_wait = (uint64_t)x[4],
                              .plateau_cooldown = (uint64_t)x[5], .rate_factor = x[6] };
    return LS_OK;
}

static ls_status read_progress(ls_progress *p, const ls_checkpoint *checkpoint, const char *path)
{
    LS_TRY(read_count(checkpoint, path, "step", &p->step));
    LS_TRY(read_count(checkpoint, path, "epoch", &p->epoch));
    LS_TRY(read_count(checkpoint, path, "step_of_epoch", &p->step_of_epoch));
    const char *sums, *best, *last;
    double x[6];
    LS_TRY(find_text(checkpoint, path, "epoch_sums", &sums));
    LS_TRY(find_text(checkpoint, path, "best", &best));
    LS_TRY(find_text(checkpoint, path, "last", &last));
    if (read_numbers(sums, x, 6) != 6 || !is_count(x[3]) || !is_count(x[4]) || !is_count(x[5]) ||
        !read_line(best, &p->best) || !read_line(last, &p->last))
        return ls_fail(LS_ERR_FORMAT, "%s: epoch_sums \"%.200s\", best \"%.200s\", last "
                       "\"%.200s\": expected 6 numbers, and 11 or more of each of the others, the "
                       "counts among them whole", path, sums, best, last);
    p->sums = (ls_epoch_sums){ .loss = x[0], .error = x[1], .square = x[2],
                               .samples = (int64_t)x[3], .correct = (int64_t)x[4],
                               .top = (int64_t)x[5] };
    LS_TRY(read_guard(&p->guard, checkpoint, path));
    return read_callbacks(&p->callbacks, checkpoint, path);
}

static ls_status check_format(const ls_checkpoint *checkpoint, const char *path)
{
    const char *format;
    LS_TRY(find_text(checkpoint, path, "format", &format));
    if (strcmp(format, format_name) == 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: its format is \"%.60s\", expected \"%s\"", path, format,
                   format_name);
}

/* What came of reading or checking the text `what`: a user's mistake is damage in a checkpoint. */
static ls_status as_format(ls_status status, const char *path, const char *what)
{
    if (status != LS_ERR_ARGUMENT) return status;
    return ls_fail(LS_ERR_FORMAT, "%s: its %s: %s", path, what, ls_last_error());
}

/* The stored model needs no data to be read: its sizes are written out. */
static ls_status check_model(const ls_saved_run *saved, const char *path)
{
    ls_model model;
    LS_TRY(as_format(ls_model_init(&model, "line", saved->text[LS_SAVED_MODEL], NULL), path,
                     "model"));
    ls_model_free(&model);
    return LS_OK;
}

ls_status ls_saved_run_init(ls_saved_run *saved, const ls_checkpoint *checkpoint,
                            const char *path)
{
    const char *config, *text;
    LS_TRY(check_format(checkpoint, path));
    LS_TRY(read_progress(&saved->progress, checkpoint, path));
    LS_TRY(ls_state_scale_load(checkpoint, path, &saved->scale, &saved->has_scale));
    LS_TRY(find_text(checkpoint, path, "config", &config));
    ls_config_init(&saved->config);
    LS_TRY(as_format(ls_config_parse(&saved->config, "line", config), path, "configuration"));
    LS_TRY(as_format(ls_config_check(&saved->config), path, "configuration"));
    for (int i = 0; i < LS_SAVED_COUNT; i++) {
        LS_TRY(find_text(checkpoint, path, saved_key[i], &text));
        saved->text[i] = strdup(text);
        if (!saved->text[i]) return ls_fail(LS_ERR_MEMORY, "no memory for %s", saved_key[i]);
    }
    return check_model(saved, path);
}

void ls_saved_run_free(ls_saved_run *saved)
{
    for (int i = 0; i < LS_SAVED_COUNT; i++) free(saved->text[i]);
    *saved = (ls_saved_run){ 0 };
}
