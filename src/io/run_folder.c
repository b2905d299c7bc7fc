/* SPDX-License-Identifier: MIT */
/* run_folder.c -- a run's folder: made, proved writable, its two logs cut and appended to.
 *
 * The logs are append-only, and their lines ascend by epoch (history.csv) and step (log.jsonl). So
 * what must go after an interruption is a tail: from the first line that is torn, not ours, or
 * later than the checkpoint. Losses and rates are written with all the digits of a double: equal
 * texts in two runs' logs are equal bits.
 */
#include "io/run_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/json.h"
#include "io/new_file.h"

enum { NAME_BYTES = 64 };

struct ls_run_folder {
    char *path;            /* owned */
    char *place;           /* owned; room for the path of any file in the folder */
    size_t place_bytes;
    int lock;              /* the folder, open and locked; -1 if not */
    int history, log;      /* open for appending; -1 if not */
    ls_json_writer line;   /* its text owned: of log.jsonl, made anew each step */
    bool history_is_empty; /* the names of its columns are not written yet */
};

/* "<folder>/<name>", in folder->place. */
static const char *place_of(ls_run_folder *folder, const char *name)
{
    assert(strlen(name) < NAME_BYTES);
    snprintf(folder->place, folder->place_bytes, "%s/%s", folder->path, name);
    return folder->place;
}

const char *ls_run_folder_path(const ls_run_folder *folder) { return folder->path; }

const char *ls_run_folder_checkpoint(ls_run_folder *folder, const char *name)
{
    assert(strlen(name) < NAME_BYTES);
    snprintf(folder->place, folder->place_bytes, "%s/checkpoints/%s.safetensors", folder->path,
             name);
    return folder->place;
}

/* -- the folder ------------------------------------------------------------------------------ */

/* Make `path` and the folders above it that are missing. */
static ls_status make_folders(const char *path)
{
    char *part = strdup(path);
    if (!part) return ls_fail(LS_ERR_MEMORY, "%s: no memory to make it", path);
    ls_status status = LS_OK;
    for (char *slash = part; slash && status == LS_OK;) {
        slash = strchr(slash + 1, '/'); /* + 1: the root is there */
        if (slash) *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            status = ls_fail(LS_ERR_IO, "--out %s: folder %s cannot be made: %s", path, part,
                             strerror(errno));
        }
        if (slash) *slash = '/';
    }
    free(part);
    return status;
}

/* What is in a folder: nothing, something, or something of a run. */
typedef enum { CONTENT_NONE, CONTENT_OTHER, CONTENT_RUN } content;

static content content_of(DIR *open_folder)
{
    static const char *const ours[] = { "config.txt", "environment.json", "history.csv",
                                        "log.jsonl", "checkpoints", NULL };
    content found = CONTENT_NONE;
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (found == CONTENT_NONE) found = CONTENT_OTHER;
        for (int i = 0; ours[i]; i++) {
            if (strcmp(name, ours[i]) == 0) found = CONTENT_RUN;
        }
    }
    return found;
}

/* May a run be written here? */
static ls_status check_content(const char *path, bool resume)
{
    DIR *open_folder = opendir(path);
    if (!open_folder) return ls_fail(LS_ERR_IO, "--out %s: %s", path, strerror(errno));
    const content found = content_of(open_folder);
    closedir(open_folder);
    if (found != CONTENT_NONE && !resume) {
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty: continue its run with "
                                        "--resume %s, or give another --out", path, path);
    }
    if (found == CONTENT_OTHER) {
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty, and not a run's: give "
                                        "another --out", path);
    }
    return LS_OK;
}

/* Keep other processes out. A file system without locks is no reason to stop. */
static ls_status lock_folder(ls_run_folder *folder)
{
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock >= 0 && flock(folder->lock, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) {
        return ls_fail(LS_ERR_IO, "--out %s: another process is writing this run", folder->path);
    }
    return LS_OK;
}

/* Can files be made in the folder of `path`? */
static ls_status prove_writable(const char *path)
{
    ls_new_file probe;
    LS_TRY(ls_new_file_open(&probe, path, &ls_file_calls_posix));
    const ls_status status = ls_new_file_write(&probe, "?", 1);
    ls_new_file_close(&probe);
    return status;
}

static ls_status prepare_folder(ls_run_folder *folder, bool resume)
{
    LS_TRY(make_folders(folder->path));
    LS_TRY(lock_folder(folder));
    LS_TRY(check_content(folder->path, resume));
    LS_TRY(prove_writable(place_of(folder, "config.txt")));
    ls_new_file_remove_stale_in(folder->path);
    LS_TRY(make_folders(place_of(folder, "checkpoints")));
    ls_new_file_remove_stale_in(folder->place);
    return prove_writable(ls_run_folder_checkpoint(folder, "last"));
}

/* -- checkpoints ------------------------------------------------------------------------------ */

/* The number in "step-120.safetensors", a file in `folder`; false if `name` is none that a run
 * writes: "step-0120", a folder, a link. */
static bool step_of(DIR *folder, const char *name, uint64_t *step)
{
    char own[NAME_BYTES];
    struct stat info;
    if (strncmp(name, "step-", 5) != 0) return false;
    *step = strtoull(name + 5, NULL, 10);
    snprintf(own, sizeof own, "step-%" PRIu64 ".safetensors", *step);
    return strcmp(name, own) == 0
           && fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) == 0
           && S_ISREG(info.st_mode);
}

/* How many step-N there are, and the smallest N. */
static ls_status count_steps(ls_run_folder *folder, uint64_t *count, uint64_t *least)
{
    const char *path = place_of(folder, "checkpoints");
    DIR *open_folder = opendir(path);
    if (!open_folder) return ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    *count = 0;
    *least = UINT64_MAX;
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        uint64_t step;
        if (!step_of(open_folder, entry->d_name, &step)) continue;
        ++*count;
        if (step < *least) *least = step;
    }
    closedir(open_folder);
    return LS_OK;
}

ls_status ls_run_folder_keep(ls_run_folder *folder, uint64_t keep)
{
    if (keep == 0) return LS_OK;
    for (;;) {
        uint64_t count = 0, least = 0;
        char name[40];
        LS_TRY(count_steps(folder, &count, &least));
        if (count <= keep) return LS_OK;
        snprintf(name, sizeof name, "step-%" PRIu64, least);
        const char *path = ls_run_folder_checkpoint(folder, name);
        if (unlink(path) != 0)
            return ls_fail(LS_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    }
}

/* -- the two logs ---------------------------------------------------------------------------- */

/* The number by which a line is kept or cut; false if the line is none of ours. */
typedef bool line_number_fn(const char *line, size_t byte_count, uint64_t *number);

/* Epoch of "3,120,...". The names of the columns are line 0. */
static bool history_number(const char *line, size_t byte_count, uint64_t *number)
{
    *number = 0;
    if (strncmp(line, "epoch,", 6) == 0) return true;
    const size_t digits = strspn(line, "0123456789");
    ls_json_reader r;
    ls_json_read_init(&r, "history.csv", line, digits, 0);
    return strlen(line) == byte_count && line[digits] == ',' &&
           ls_json_read_count(&r, number) == LS_OK;
}

/* Step of {"epoch":1,"step":120,...}. */
static bool log_number(const char *line, size_t byte_count, uint64_t *number)
{
    ls_json_reader r;
    uint64_t epoch;
    bool more;
    ls_json_read_init(&r, "log.jsonl", line, byte_count, 0);
    char *first = NULL, *second = NULL;
    const bool is_ours =
        ls_json_read_open(&r, '{') == LS_OK && ls_json_read_next(&r, &more) == LS_OK && more &&
        ls_json_read_key(&r, &first) == LS_OK && strcmp(first, "epoch") == 0 &&
        ls_json_read_count(&r, &epoch) == LS_OK && ls_json_read_next(&r, &more) == LS_OK &&
        more && ls_json_read_key(&r, &second) == LS_OK && strcmp(second, "step") == 0 &&
        ls_json_read_count(&r, number) == LS_OK;
    free(first);
    free(second);
    return is_ours && strlen(line) == byte_count;
}

/* Bytes of the lines up to number `last`: whole, ours and not later. */
static off_t kept_bytes(FILE *file, line_number_fn *number_of, uint64_t last)
{
    char *line = NULL;
    size_t room = 0;
    off_t kept = 0;
    for (ssize_t count; (count = getline(&line, &room, file)) > 0; kept += count) {
        uint64_t number;
        if (line[count - 1] != '\n') break;
        if (!number_of(line, (size_t)count, &number) || number > last) break;
    }
    free(line);
    return kept;
}

/* Open a log for appending, cut after `last`. Returns the descriptor in *out. */
static ls_status open_log(const char *path, line_number_fn *number_of, uint64_t last, int *out,
                          bool *is_empty)
{
    *out = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    FILE *file = *out >= 0 ? fopen(path, "r") : NULL;
    if (!file) return ls_fail(LS_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    const off_t kept = kept_bytes(file, number_of, last);
    fclose(file);
    *is_empty = kept == 0;
    if (ftruncate(*out, kept) == 0) return LS_OK;
    return ls_fail(LS_ERR_IO, "%s: cannot be cut to %lld bytes: %s", path, (long long)kept,
                   strerror(errno));
}

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

/* -- opening and closing --------------------------------------------------------------------- */

ls_status ls_run_folder_open(const char *path, bool resume, uint64_t epochs_done,
                             uint64_t steps_done, ls_run_folder **out)
{
    *out = NULL;
    if (path[0] == '\0') return ls_fail(LS_ERR_ARGUMENT, "--out: found '', expected a folder");
    ls_run_folder *folder = calloc(1, sizeof *folder);
    if (!folder) return ls_fail(LS_ERR_MEMORY, "--out %s: no memory to open it", path);
    folder->lock = folder->history = folder->log = -1;
    folder->path = strdup(path);
    folder->place_bytes = strlen(path) + NAME_BYTES + sizeof "/checkpoints/.safetensors";
    folder->place = malloc(folder->place_bytes);
    ls_status status = LS_OK;
    bool log_is_empty;
    if (!folder->path || !folder->place) {
        status = ls_fail(LS_ERR_MEMORY, "--out %s: no memory to open it", path);
    }
    if (status == LS_OK) status = prepare_folder(folder, resume);
    if (status == LS_OK) {
        status = open_log(place_of(folder, "history.csv"), history_number, epochs_done,
                          &folder->history, &folder->history_is_empty);
    }
    if (status == LS_OK) {
        status = open_log(place_of(folder, "log.jsonl"), log_number, steps_done, &folder->log,
                          &log_is_empty);
    }
    if (status == LS_OK) *out = folder;
    else ls_run_folder_close(folder);
    return status;
}

void ls_run_folder_close(ls_run_folder *folder)
{
    if (!folder) return;
    if (folder->history >= 0) close(folder->history);
    if (folder->log >= 0) close(folder->log);
    if (folder->lock >= 0) close(folder->lock);
    free(folder->line.text);
    free(folder->place);
    free(folder->path);
    free(folder);
}

/* -- writing --------------------------------------------------------------------------------- */

ls_status ls_run_folder_write(ls_run_folder *folder, const char *name, const char *text)
{
    ls_new_file file;
    LS_TRY(ls_new_file_open(&file, place_of(folder, name), &ls_file_calls_posix));
    ls_status status = ls_new_file_write(&file, text, strlen(text));
    if (status == LS_OK) status = ls_new_file_commit(&file);
    ls_new_file_close(&file);
    return status;
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

static ls_status append_csv(ls_run_folder *folder, csv_line *line)
{
    line->text[line->byte_count] = '\n'; /* in place of the NUL */
    return append(folder->history, "history.csv", line->text, line->byte_count + 1);
}

static ls_status write_column_names(ls_run_folder *folder, const ls_history_line *h)
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
    LS_TRY(append_csv(folder, &line));
    folder->history_is_empty = false;
    return LS_OK;
}

ls_status ls_run_folder_history(ls_run_folder *folder, const ls_history_line *h)
{
    if (folder->history_is_empty) LS_TRY(write_column_names(folder, h));
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
    return append_csv(folder, &line);
}

ls_status ls_run_folder_log(ls_run_folder *folder, const ls_log_line *l)
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
    ls_json_writer *w = &folder->line;
    ls_json_write_again(w);
    ls_json_write_open(w, '{');
    ls_json_member_count(w, "epoch", l->epoch);
    ls_json_member_count(w, "step", l->step);
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
    return append(folder->log, "log.jsonl", w->text, w->byte_count);
}
