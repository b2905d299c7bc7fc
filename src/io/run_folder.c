/* SPDX-License-Identifier: MIT */
/* run_folder.c -- a run's folder: made, locked, proved writable; which checkpoints stay in it.
 *
 * The lock is flock's on the folder itself, so it goes with the process that holds it, however that
 * ends. What is proved before step 0 is that a file can be made and written where the run will make
 * them: a full disk or a folder of another user is told then, and not after an epoch.
 */
#include "io/run_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/new_file.h"

enum { NAME_BYTES = 64 };

struct ls_run_folder {
    char *path;            /* owned */
    char *place;           /* owned; room for the path of any file in the folder */
    size_t place_bytes;
    int lock;              /* the folder, open and locked; -1 if not */
    ls_run_log log;        /* owned */
};

/* "<folder>/<name>", in folder->place. */
static const char *place_of(ls_run_folder *folder, const char *name)
{
    assert(strlen(name) < NAME_BYTES);
    snprintf(folder->place, folder->place_bytes, "%s/%s", folder->path, name);
    return folder->place;
}

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

/* The folder's next entry, NULL behind the last. A folder that cannot be read to its end is an
 * error: what is not seen would be written over. */
static ls_status read_entry(DIR *folder, const char *path, struct dirent **entry)
{
    errno = 0;
    *entry = readdir(folder);
    if (*entry || errno == 0) return LS_OK;
    return ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
}

/* What is in a folder: nothing, something, or something of a run. */
typedef enum { CONTENT_NONE, CONTENT_OTHER, CONTENT_RUN } content;

/* *found begins as NONE. What proving the folder writable leaves behind in a kill is nothing. */
static ls_status content_of(const char *path, content *found)
{
    static const char *const ours[] = { "config.txt", "environment.json", "history.csv",
                                        "log.jsonl", "checkpoints", NULL };
    DIR *open_folder = opendir(path);
    if (!open_folder) return ls_fail(LS_ERR_IO, "--out %s: %s", path, strerror(errno));
    ls_status status;
    struct dirent *entry;
    while ((status = read_entry(open_folder, path, &entry)) == LS_OK && entry) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (ls_new_file_is_stale(name, "config.txt")) continue;
        if (*found == CONTENT_NONE) *found = CONTENT_OTHER;
        for (int i = 0; ours[i]; i++) {
            if (strcmp(name, ours[i]) == 0) *found = CONTENT_RUN;
        }
    }
    closedir(open_folder);
    return status;
}

/* A checkpoint that a new run would write over, or count among its own. Of last.safetensors who
 * starts anew has found none: if it is there, another run of this folder has saved it since. */
static ls_status check_nothing_saved(ls_run_folder *folder)
{
    char saved[256] = ""; /* the first by name */
    if (access(ls_run_folder_checkpoint(folder, "last"), F_OK) == 0) {
        return ls_fail(LS_ERR_IO, "--out %s: checkpoints/last.safetensors was saved while this run "
                       "started, by another of the same folder: give the command again",
                       folder->path);
    }
    const char *path = place_of(folder, "checkpoints");
    DIR *checkpoints = opendir(path);
    if (!checkpoints) {
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty, and has no "
                       "checkpoints/ as every run's has: put that back, or give another --out",
                       folder->path);
    }
    ls_status status;
    struct dirent *entry;
    while ((status = read_entry(checkpoints, path, &entry)) == LS_OK && entry) {
        const char *name = entry->d_name;
        uint64_t step;
        if (strcmp(name, "best.safetensors") != 0 && !step_of(checkpoints, name, &step)) continue;
        if (!saved[0] || strcmp(name, saved) < 0) snprintf(saved, sizeof saved, "%s", name);
    }
    closedir(checkpoints);
    LS_TRY(status);
    if (!saved[0]) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--out %s: --resume auto finds no checkpoints/last.safetensors "
                   "to continue from, but a new run would overwrite checkpoints/%s: continue from "
                   "that with --resume %s/checkpoints/%s, or give another --out", folder->path,
                   saved, folder->path, saved);
}

/* A run that has no checkpoint has at most begun its first epoch's line. */
static ls_status check_no_history(ls_run_folder *folder)
{
    static const char *const name[] = { "history.csv", "log.jsonl" };
    for (int i = 0; i < 2; i++) {
        const char *path = place_of(folder, name[i]);
        bool is_first;
        LS_TRY(i == 0 ? ls_run_log_is_first_epoch(path, &is_first)
                      : ls_run_log_is_first_steps(path, &is_first));
        if (is_first) continue;
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: there is no checkpoint in it, but %s holds more "
                       "than a run writes before its first one, and a new run would cut it: put "
                       "checkpoints/last.safetensors back, or give another --out", folder->path,
                       name[i]);
    }
    return LS_OK;
}

/* May a run be written here? */
static ls_status check_content(ls_run_folder *folder, ls_run_start start)
{
    const char *path = folder->path;
    content found = CONTENT_NONE;
    LS_TRY(content_of(path, &found));
    if (found == CONTENT_OTHER) {
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty, and not a run's: give "
                                        "another --out", path);
    }
    if (found == CONTENT_NONE || start == LS_RUN_CONTINUE) return LS_OK;
    if (start == LS_RUN_AGAIN) {
        LS_TRY(check_nothing_saved(folder));
        return check_no_history(folder);
    }
    if (access(ls_run_folder_checkpoint(folder, "last"), F_OK) != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty: its run has no "
                                        "checkpoint yet; start it anew there with --resume auto, "
                                        "or give another --out", path);
    }
    return ls_fail(LS_ERR_ARGUMENT, "--out %s: the folder is not empty: continue its run with "
                                    "--resume %s, or give another --out", path, path);
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

static ls_status prepare_folder(ls_run_folder *folder, ls_run_start start)
{
    LS_TRY(make_folders(folder->path));
    LS_TRY(lock_folder(folder));
    LS_TRY(check_content(folder, start));
    LS_TRY(prove_writable(place_of(folder, "config.txt")));
    ls_new_file_remove_stale_in(folder->path);
    LS_TRY(make_folders(place_of(folder, "checkpoints")));
    ls_new_file_remove_stale_in(folder->place);
    return prove_writable(ls_run_folder_checkpoint(folder, "last"));
}

/* -- checkpoints ------------------------------------------------------------------------------ */

/* How many step-N there are, and the smallest N. */
static ls_status count_steps(ls_run_folder *folder, uint64_t *count, uint64_t *least)
{
    const char *path = place_of(folder, "checkpoints");
    DIR *open_folder = opendir(path);
    if (!open_folder) return ls_fail(LS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    *count = 0;
    *least = UINT64_MAX;
    ls_status status;
    struct dirent *entry;
    while ((status = read_entry(open_folder, path, &entry)) == LS_OK && entry) {
        uint64_t step;
        if (!step_of(open_folder, entry->d_name, &step)) continue;
        ++*count;
        if (step < *least) *least = step;
    }
    closedir(open_folder);
    return status;
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

/* -- opening and closing --------------------------------------------------------------------- */

ls_status ls_run_folder_open(const char *path, ls_run_start start, ls_run_done done,
                             ls_run_folder **out)
{
    *out = NULL;
    if (path[0] == '\0') return ls_fail(LS_ERR_ARGUMENT, "--out: found '', expected a folder");
    ls_run_folder *folder = calloc(1, sizeof *folder);
    if (!folder) return ls_fail(LS_ERR_MEMORY, "--out %s: no memory to open it", path);
    folder->lock = -1;
    folder->log = LS_RUN_LOG_CLOSED;
    folder->path = strdup(path);
    folder->place_bytes = strlen(path) + NAME_BYTES + sizeof "/checkpoints/.safetensors";
    folder->place = malloc(folder->place_bytes);
    ls_status status = LS_OK;
    if (!folder->path || !folder->place) {
        status = ls_fail(LS_ERR_MEMORY, "--out %s: no memory to open it", path);
    }
    if (status == LS_OK) status = prepare_folder(folder, start);
    if (status == LS_OK) {
        status = ls_run_log_open_epochs(&folder->log, place_of(folder, "history.csv"), done);
    }
    if (status == LS_OK) {
        status = ls_run_log_open_steps(&folder->log, place_of(folder, "log.jsonl"), done);
    }
    if (status == LS_OK) *out = folder;
    else ls_run_folder_close(folder);
    return status;
}

void ls_run_folder_close(ls_run_folder *folder)
{
    if (!folder) return;
    ls_run_log_close(&folder->log);
    if (folder->lock >= 0) close(folder->lock);
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

ls_status ls_run_folder_begin(ls_run_folder *folder)
{
    return ls_run_log_cut(&folder->log, folder->path);
}

ls_status ls_run_folder_history(ls_run_folder *folder, const ls_history_line *line)
{
    return ls_run_log_epoch(&folder->log, line);
}

ls_status ls_run_folder_log(ls_run_folder *folder, const ls_log_line *line)
{
    return ls_run_log_step(&folder->log, line);
}
