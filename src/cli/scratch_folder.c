/* SPDX-License-Identifier: MIT */
/* scratch_folder.c -- see scratch_folder.h. */
#include "cli/scratch_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    bool empty = folder != NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) empty = empty && is_self_or_parent(entry->d_name);
    if (folder) closedir(folder);
    return empty;
}

ls_status ls_scratch_folder_make(const char *wanted, char *out, size_t bytes)
{
    const char *parent = getenv("TMPDIR");
    const int n = wanted[0] ? snprintf(out, bytes, "%s", wanted)
                            : snprintf(out, bytes, "%s/lockstep-XXXXXX",
                                       parent && parent[0] ? parent : "/tmp");
    if (n < 0 || (size_t)n >= bytes) {
        return ls_fail(LS_ERR_ARGUMENT, "a folder name of %d bytes is too long, at most %zu", n,
                       bytes - 1);
    }
    if (!wanted[0]) {
        if (mkdtemp(out)) return LS_OK;
        return ls_fail(LS_ERR_IO, "no temporary folder %s: %s", out, strerror(errno));
    }
    if (mkdir(out, 0777) == 0 || (errno == EEXIST && is_empty(out))) return LS_OK;
    if (errno == EEXIST)
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: is there and not empty: give another", out);
    return ls_fail(LS_ERR_IO, "--out %s: %s", out, strerror(errno));
}

void ls_scratch_folder_remove(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
        unlink(path);
        return;
    }
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (is_self_or_parent(entry->d_name)) continue;
        char inner[4096];
        const int n = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (n > 0 && (size_t)n < sizeof inner) ls_scratch_folder_remove(inner);
    }
    if (folder) closedir(folder);
    rmdir(path);
}
