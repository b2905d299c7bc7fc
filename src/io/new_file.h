/* SPDX-License-Identifier: MIT */
/* new_file.h -- a file that appears whole or not at all.
 *
 *     open <path>.tmp-<pid>   write ...   fsync   rename to <path>   fsync the folder
 *
 * Until the rename, whatever was at <path> stays untouched: short writes, a full disk and a kill
 * can at most leave the temporary file behind, which ls_new_file_remove_stale finds at the next
 * start. POSIX rename is atomic: a reader sees the old file or the new one. The first fsync comes
 * before the rename, so that after a power cut the name never leads to missing bytes; the second
 * makes the name itself last.
 *
 * Thread rule: one ls_new_file belongs to one thread; a process writes a path from one thread only.
 */
#ifndef LS_IO_NEW_FILE_H
#define LS_IO_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "status.h"

/* The calls that can fail for reasons of the disk; a test passes its own. */
typedef struct {
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
} ls_file_calls;

extern const ls_file_calls ls_file_calls_posix;

typedef struct {
    const ls_file_calls *calls; /* borrowed */
    char *path, *temporary;     /* owned */
    int fd;                     /* of the temporary file; -1 if there is none */
} ls_new_file;

/* Errors of these: IO (path and reason), MEMORY. */
LS_MUST_USE ls_status ls_new_file_open(ls_new_file *file, const char *path,
                                       const ls_file_calls *calls);
LS_MUST_USE ls_status ls_new_file_write(ls_new_file *file, const void *data, size_t bytes);
/* Make what was written the file at `path`. */
LS_MUST_USE ls_status ls_new_file_commit(ls_new_file *file);
/* Removes the temporary file unless it was committed. Accepts all-zero; may be called twice. */
void ls_new_file_close(ls_new_file *file);

/* Remove "<path>.tmp-<digits>" that an earlier process left behind. Returns how many. */
int ls_new_file_remove_stale(const char *path);
/* The same of every path in `folder`. */
int ls_new_file_remove_stale_in(const char *folder);

/* Is `name` such a name, "<base>.tmp-<digits>", with any base if `base` is NULL? Pure. */
bool ls_new_file_is_stale(const char *name, const char *base);

#endif
