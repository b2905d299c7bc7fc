/* SPDX-License-Identifier: MIT */
/* folder.c -- which folder a run writes into, and what it says there of itself.
 *
 * A run that continues goes on in its own folder, unless --out names another, which then must be as
 * empty as a new run's. How a run folder is laid out is io/run_folder.h's matter.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "plural.h"
#include "train/run.h"

/* runs/<model>-<time>; the model's name without folders and suffix. */
static void choose_folder(ls_config *config)
{
    const char *slash = strrchr(config->model, '/');
    char name[64], stamp[32];
    snprintf(name, sizeof name, "%.63s", slash ? slash + 1 : config->model);
    char *suffix = strstr(name, ".model");
    if (suffix) *suffix = '\0';
    const time_t now = time(NULL);
    struct tm utc;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", gmtime_r(&now, &utc));
    snprintf(config->out, sizeof config->out, "runs/%s-%s", name, stamp);
}

/* Make what choose_folder chose, with -2, -3 ... behind it if another run began in that second.
 * What else is in the way, opening it will say. */
static void make_chosen_folder(ls_config *config)
{
    enum { TRIES = 1000 };
    const size_t length = strlen(config->out);
    (void)mkdir("runs", 0777);
    for (int n = 2; mkdir(config->out, 0777) != 0 && errno == EEXIST && n < TRIES; n++)
        snprintf(config->out + length, sizeof config->out - length, "-%d", n);
}

/* The run folder that a checkpoint lies in: what is before "/checkpoints/NAME"; "" if it lies
 * elsewhere. */
static void run_folder_of(const char *checkpoint, char out[LS_TEXT_BYTES])
{
    static const char tail[] = "/checkpoints";
    const char *slash = strrchr(checkpoint, '/');
    const size_t n = slash ? (size_t)(slash - checkpoint) : 0, t = strlen(tail);
    out[0] = '\0';
    if (n <= t || n - t >= LS_TEXT_BYTES || memcmp(checkpoint + n - t, tail, t) != 0) return;
    memcpy(out, checkpoint, n - t);
    out[n - t] = '\0';
}

/* Equal but for slashes at the end. */
static bool is_same_folder(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n > 1 && a[n - 1] == '/') n--;
    while (m > 1 && b[m - 1] == '/') m--;
    return n == m && memcmp(a, b, n) == 0;
}

/* The folder is ours from now on, but the checkpoint was read before: another run of this folder
 * may have gone on and ended meanwhile, and what it saved is not to be written over. */
static ls_status check_still_last(const ls_run *run, const ls_checkpoint *resumed)
{
    if (ls_checkpoint_is_at(resumed, run->resume_path)) return LS_OK;
    return ls_fail(LS_ERR_IO, "%s: saved anew or removed while this run started, by another of the "
                   "same folder, expected the file that was read: give the command again",
                   run->resume_path);
}

ls_status ls_folder_open(ls_run *run, const ls_progress *start, const ls_checkpoint *resumed)
{
    ls_config *config = &run->config;
    char own[LS_TEXT_BYTES] = "";
    if (resumed) run_folder_of(run->resume_path, own);
    if (!config->out[0]) memcpy(config->out, own, sizeof own);
    const bool choose = !config->out[0];
    if (choose) choose_folder(config);
    const bool same = own[0] && is_same_folder(own, config->out);
    if (run->nothing_to_do && !same)
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: there is nothing to write there: %s has "
                       "done %" PRIu64 " epoch%s, %" PRIu64 " step%s, all that is asked for",
                       config->out, run->resume_path, start->epoch, LS_PLURAL(start->epoch),
                       start->step, LS_PLURAL(start->step));
    if (choose) make_chosen_folder(config);
    const bool automatic = strcmp(config->resume, "auto") == 0;
    const ls_run_start how = same ? LS_RUN_CONTINUE : automatic ? LS_RUN_AGAIN : LS_RUN_NEW;
    ls_run_done done = { 0 };
    if (resumed) {
        done = (ls_run_done){ .epochs = start->epoch, .steps = start->step,
                              .steps_of_epoch = start->step_of_epoch };
    }
    LS_TRY(ls_run_folder_open(config->out, how, done, &run->folder));
    if (same) LS_TRY(check_still_last(run, resumed));
    ls_checkpoint_remove_stale(ls_run_folder_checkpoint(run->folder, "last"));
    return resumed ? ls_best_carry(run, start, same) : LS_OK;
}

ls_status ls_folder_describe(const ls_run *run)
{
    char *text = NULL;
    if (run->nothing_to_do) return LS_OK;
    LS_TRY(ls_config_write(&run->config, &text));
    ls_status status = ls_run_folder_write(run->folder, "config.txt", text);
    free(text);
    LS_TRY(status);
    LS_TRY(ls_environment_text(run, &text));
    status = ls_run_folder_write(run->folder, "environment.json", text);
    free(text);
    return status;
}
