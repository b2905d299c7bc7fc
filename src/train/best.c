/* SPDX-License-Identifier: MIT */
/* best.c -- the file of the best epoch, in a run that continues.
 *
 * A checkpoint says which epoch was the best so far, but the weights of that epoch are in
 * best.safetensors beside it. A run that goes on in another folder takes that file along. It is
 * the right one only if it ends with the very line that the run calls its best: the folder may
 * have gone on to a better epoch after the checkpoint that continues. Where there is none and the
 * checkpoint that continues was saved at the end of the best epoch, that one has the same weights.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/new_file.h"
#include "train/run.h"

static bool is_same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool is_same_line(const ls_history_line *a, const ls_history_line *b)
{
    return a->epoch == b->epoch && a->step == b->step && is_same_number(a->loss, b->loss)
           && is_same_number(a->val_loss, b->val_loss);
}

/* Of a file that is not the best epoch's: what is wrong with it. */
static void note_lost(ls_run *run, const char *path, uint64_t epoch)
{
    ls_checkpoint *checkpoint = NULL;
    const ls_status status = ls_checkpoint_open(path, &checkpoint);
    ls_checkpoint_close(checkpoint);
    FILE *file = status == LS_OK ? NULL : fopen(path, "rb");
    if (file) {
        fclose(file);
        snprintf(run->best_lost, sizeof run->best_lost, "%.600s: damaged, and the best so far was "
                 "in it, epoch %" PRIu64 "; the next epoch that is better replaces it",
                 ls_last_error(), epoch);
        return;
    }
    snprintf(run->best_lost, sizeof run->best_lost, "there is no best.safetensors of epoch %" PRIu64
             ", the best so far, beside %.600s: there will be none until an epoch is better", epoch,
             run->resume_path);
}

ls_status ls_best_is_at(const char *path, const ls_history_line *best, bool *is_at)
{
    ls_checkpoint *checkpoint = NULL;
    ls_saved_run saved = { .text = { NULL } };
    *is_at = false;
    if (best->epoch == 0) return LS_OK;
    ls_status status = ls_checkpoint_open(path, &checkpoint);
    if (status == LS_OK) status = ls_saved_run_init(&saved, checkpoint, path);
    if (status == LS_OK) *is_at = is_same_line(&saved.progress.last, best);
    ls_saved_run_free(&saved);
    ls_checkpoint_close(checkpoint);
    return status == LS_ERR_FORMAT ? LS_OK : status; /* FORMAT: absent, or damaged */
}

static ls_status copy_bytes(FILE *in, const char *from, ls_new_file *out)
{
    char block[65536];
    size_t bytes;
    while ((bytes = fread(block, 1, sizeof block, in)) > 0)
        LS_TRY(ls_new_file_write(out, block, bytes));
    if (ferror(in)) return ls_fail(LS_ERR_IO, "%s: cannot be read", from);
    return ls_new_file_commit(out);
}

static ls_status copy_file(const char *from, const char *to)
{
    ls_new_file out = { .fd = -1 };
    FILE *in = fopen(from, "rb");
    if (!in) return ls_fail(LS_ERR_IO, "%s: cannot be opened", from);
    ls_status status = ls_new_file_open(&out, to, &ls_file_calls_posix);
    if (status == LS_OK) status = copy_bytes(in, from, &out);
    ls_new_file_close(&out);
    fclose(in);
    return status;
}

ls_status ls_best_carry(ls_run *run, const ls_progress *start, bool same_folder)
{
    char beside[sizeof run->resume_path + sizeof "best.safetensors"];
    const char *slash = strrchr(run->resume_path, '/');
    if (start->best.epoch == 0) return LS_OK;
    snprintf(beside, sizeof beside, "%.*sbest.safetensors",
             slash ? (int)(slash - run->resume_path) + 1 : 0, run->resume_path);
    bool is_beside;
    LS_TRY(ls_best_is_at(beside, &start->best, &is_beside));
    const bool is_itself = start->best.step == start->step
                           && is_same_line(&start->last, &start->best)
                           && (!same_folder || access(beside, F_OK) != 0);
    if (!is_beside && !is_itself) {
        note_lost(run, beside, start->best.epoch);
        return LS_OK;
    }
    if (is_beside && same_folder) return LS_OK;
    return copy_file(is_beside ? beside : run->resume_path,
                     ls_run_folder_checkpoint(run->folder, "best"));
}
