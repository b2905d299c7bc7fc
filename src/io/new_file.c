/* SPDX-License-Identifier: MIT */
/* new_file.c -- temporary file, fsync, rename, fsync of the folder.
 *
 * The order of the four steps is the whole algorithm; new_file.h says why it is this one.
 */
#include "io/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tag[] = ".tmp-"; /* between the path and the process id */

const ls_file_calls ls_file_calls_posix = { .write = write, .fsync = fsync, .rename = rename };

/* The folder part of a path: what is before the last slash, "." if there is none. Owned by the
 * caller; NULL without memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

ls_status ls_new_file_open(ls_new_file *file, const char *path, const ls_file_calls *calls)
{
    const size_t room = strlen(path) + sizeof tag + 20;
    *file = (ls_new_file){ .calls = calls, .fd = -1 };
    file->path = strdup(path);
    file->temporary = malloc(room);
    if (!file->path || !file->temporary) {
        ls_new_file_close(file);
        return ls_fail(LS_ERR_MEMORY, "%s: no memory to write it", path);
    }
    snprintf(file->temporary, room, "%s%s%ld", path, tag, (long)getpid());
    /* A file of this name is from a dead process with our number. Without it, O_EXCL makes sure
     * that nobody's link is followed. */
    unlink(file->temporary);
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0) return LS_OK;
    const int cause = errno;
    ls_new_file_close(file);
    return ls_fail(LS_ERR_IO, "%s: cannot be written: %s", path, strerror(cause));
}

ls_status ls_new_file_write(ls_new_file *file, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t taken = file->calls->write(file->fd, p, bytes);
        if (taken < 0 && errno == EINTR) continue;
        if (taken <= 0) {
            return ls_fail(LS_ERR_IO, "%s: writing failed: %s", file->path,
                           taken < 0 ? strerror(errno) : "the disk takes no more bytes");
        }
        p += taken; /* a short write: go on behind it */
        bytes -= (size_t)taken;
    }
    return LS_OK;
}

/* Make the folder's entry for `path` last. */
static ls_status sync_folder(const ls_new_file *file)
{
    char *folder = folder_of(file->path);
    if (!folder) return ls_fail(LS_ERR_MEMORY, "%s: no memory to sync its folder", file->path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    const int failed = fd < 0 ? -1 : file->calls->fsync(fd);
    const int cause = errno;
    if (fd >= 0) close(fd);
    /* EACCES: a folder that may be written but not read; EINVAL: a file system without syncing. */
    if (!failed || cause == (fd < 0 ? EACCES : EINVAL)) return LS_OK;
    return ls_fail(LS_ERR_IO, "%s: written, but its folder cannot be synced: %s", file->path,
                   strerror(cause));
}

ls_status ls_new_file_commit(ls_new_file *file)
{
    if (file->calls->fsync(file->fd) != 0) {
        return ls_fail(LS_ERR_IO, "%s: cannot be synced: %s", file->path, strerror(errno));
    }
    const int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0) { /* network file systems tell a full disk here */
        const int cause = errno;
        unlink(file->temporary);
        return ls_fail(LS_ERR_IO, "%s: cannot be closed: %s", file->path, strerror(cause));
    }
    if (file->calls->rename(file->temporary, file->path) != 0) {
        const int cause = errno;
        unlink(file->temporary);
        return ls_fail(LS_ERR_IO, "%s: cannot be renamed from %s: %s", file->path,
                       file->temporary, strerror(cause));
    }
    return sync_folder(file);
}

void ls_new_file_close(ls_new_file *file)
{
    if (file->fd >= 0 && file->temporary) {
        close(file->fd);
        unlink(file->temporary);
    }
    free(file->path);
    free(file->temporary);
    *file = (ls_new_file){ .fd = -1 };
}

bool ls_new_file_is_stale(const char *name, const char *base)
{
    if (base && strncmp(name, base, strlen(base)) != 0) return false;
    const char *place = base ? name + strlen(base) : strstr(name, tag);
    if (!place || strncmp(place, tag, strlen(tag)) != 0) return false;
    const char *digits = place + strlen(tag);
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

static int remove_stale(const char *folder, const char *base)
{
    int count = 0;
    DIR *open_folder = opendir(folder);
    if (!open_folder) return 0;
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;) {
        if (!ls_new_file_is_stale(entry->d_name, base)) continue;
        if (unlinkat(dirfd(open_folder), entry->d_name, 0) == 0) count++;
    }
    closedir(open_folder);
    return count;
}

int ls_new_file_remove_stale(const char *path)
{
    char *folder = folder_of(path);
    if (!folder) return 0;
    const char *slash = strrchr(path, '/');
    const int count = remove_stale(folder, slash ? slash + 1 : path);
    free(folder);
    return count;
}

int ls_new_file_remove_stale_in(const char *folder) { return remove_stale(folder, NULL); }
