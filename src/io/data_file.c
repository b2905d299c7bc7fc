/* SPDX-License-Identifier: MIT */
/* data_file.c -- mapping a file of a data set, and what to say of one that cannot be read.
 *
 * lockstep has no decompressor. A packed file is therefore an error that names the command:
 * gunzip -k keeps the packed file. No format of lockstep's begins with any of the signatures below
 * (a CIFAR-10 record begins with 0..9, IDX with 00 00, .npy with 93, a CSV number with a digit,
 * sign or point), so all formats share the check.
 */
#define _DEFAULT_SOURCE /* madvise: POSIX's own has no advice that drops pages from a map */
#include "io/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIGNATURE_BYTES = 4 };

static bool has_suffix(const char *text, const char *suffix)
{
    const size_t chars = strlen(text), suffix_chars = strlen(suffix);
    return chars >= suffix_chars && strcmp(text + chars - suffix_chars, suffix) == 0;
}

static char *joined(const char *path, const char *suffix)
{
    const size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *text = malloc(bytes);
    if (text) snprintf(text, bytes, "%s%s", path, suffix);
    return text;
}

/* Bytes that were read of the file's first SIGNATURE_BYTES, or -1 if it cannot be read. */
static int read_signature(const char *path, unsigned char signature[SIGNATURE_BYTES])
{
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    const size_t bytes = fread(signature, 1, SIGNATURE_BYTES, file);
    fclose(file);
    return (int)bytes;
}

/* `path` is not there: is `path`.gz? */
static ls_status fail_absent(const char *path, const char *expected)
{
    unsigned char start[SIGNATURE_BYTES] = { 0 };
    char *packed = joined(path, ".gz");
    if (!packed) return ls_fail(LS_ERR_MEMORY, "no memory for a path");
    ls_status status = LS_OK;
    const int bytes = read_signature(packed, start);
    if (bytes < 0) {
        char folder[PATH_MAX] = ""; /* a checkpoint's relative path leads from where it was typed */
        const bool is_relative = path[0] != '/' && getcwd(folder, sizeof folder);
        status = ls_fail(LS_ERR_FORMAT, "%s: no such file, expected %s%s%s", path, expected,
                         is_relative ? "; looked for in " : "", is_relative ? folder : "");
    } else if (bytes >= 2 && start[0] == 0x1f && start[1] == 0x8b) {
        status = ls_fail(LS_ERR_FORMAT,
                         "%s is there only compressed, as %s; unpack it with: gunzip -k %s", path,
                         packed, packed);
    } else {
        status = ls_fail(LS_ERR_FORMAT,
                         "%s is not there, only %s, which is not gzip data: byte 0: "
                         "%02x %02x, expected 1f 8b; if it is the plain file, rename it",
                         path, packed, start[0], start[1]);
    }
    free(packed);
    return status;
}

/* What the contents are instead of anything lockstep reads, or NULL. */
static const char *foreign_kind(const unsigned char *data, size_t bytes)
{
    const char *text = (const char *)data;
    if (bytes >= 4 && memcmp(data, "PK\003\004", 4) == 0) {
        return "a zip archive (50 4b 03 04, as .zip, .xlsx and .npz begin; of an .npz, save each "
               "array with numpy.save)";
    }
    if (bytes >= 2 && memcmp(data, "\xff\xfe", 2) == 0) {
        return "UTF-16 text (mark ff fe; convert it with: iconv -f UTF-16 -t UTF-8)";
    }
    if (bytes >= 2 && memcmp(data, "\xfe\xff", 2) == 0) {
        return "UTF-16 text (mark fe ff; convert it with: iconv -f UTF-16 -t UTF-8)";
    }
    if ((bytes >= 5 && strncasecmp(text, "<html", 5) == 0) ||
        (bytes >= 9 && strncasecmp(text, "<!doctype", 9) == 0)) {
        return "an HTML page (a failed download?)";
    }
    return NULL;
}

static ls_status check_contents(const ls_data_file *file, const char *expected)
{
    if (file->bytes == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte 0: the file is empty, expected %s", file->path,
                       expected);
    }
    if (file->bytes >= 2 && file->data[0] == 0x1f && file->data[1] == 0x8b) {
        if (has_suffix(file->path, ".gz")) {
            return ls_fail(LS_ERR_FORMAT,
                           "%s: byte 0: gzip data (1f 8b), expected %s; unpack it with: "
                           "gunzip -k %s",
                           file->path, expected, file->path);
        }
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte 0: gzip data (1f 8b), expected %s; unpack it with: "
                       "mv %s %s.gz && gunzip %s.gz",
                       file->path, expected, file->path, file->path, file->path);
    }
    const char *kind = foreign_kind(file->data, file->bytes);
    if (kind) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte 0: %s, expected %s", file->path, kind, expected);
    }
    return LS_OK;
}

static ls_status map_descriptor(int descriptor, ls_data_file *file)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) {
        return ls_fail(LS_ERR_IO, "%s: %s", file->path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        return ls_fail(LS_ERR_FORMAT, "%s: %s, expected a file", file->path,
                       S_ISDIR(about.st_mode) ? "a folder" : "no regular file");
    }
    file->bytes = (size_t)about.st_size;
    if (file->bytes == 0) return LS_OK;
    void *map = mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (map == MAP_FAILED) {
        file->bytes = 0;
        return ls_fail(errno == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "%s: cannot be mapped: %s",
                       file->path, strerror(errno));
    }
    file->data = map;
    file->descriptor = descriptor;
    return LS_OK;
}

ls_status ls_data_file_open(const char *path, const char *expected, ls_data_file *out)
{
    ls_data_file file = { .path = joined(path, "") };
    if (!file.path) return ls_fail(LS_ERR_MEMORY, "no memory for a path");
    ls_status status = LS_OK;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        const ls_status cause = errno == ENOTDIR ? LS_ERR_FORMAT : LS_ERR_IO;
        status = errno == ENOENT ? fail_absent(path, expected)
                                 : ls_fail(cause, "%s: cannot be opened: %s", path,
                                           strerror(errno));
    } else {
        status = map_descriptor(descriptor, &file);
        if (!file.data) close(descriptor);
    }
    if (status == LS_OK) status = check_contents(&file, expected);
    if (status == LS_OK) {
        *out = file;
        file = (ls_data_file){ .path = NULL };
    }
    ls_data_file_close(&file);
    return status;
}

void ls_data_file_close(ls_data_file *file)
{
    if (file->data) {
        munmap((void *)file->data, file->bytes);
        close(file->descriptor);
    }
    free(file->path);
    *file = (ls_data_file){ .path = NULL };
}

void ls_data_file_expect(const ls_data_file *file, bool in_order)
{
    if (!file->data) return;
    (void)madvise((void *)file->data, file->bytes, in_order ? MADV_SEQUENTIAL : MADV_RANDOM);
    (void)posix_fadvise(file->descriptor, 0, 0,
                        in_order ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
}

static size_t offset_of(const ls_data_file *file, const void *at)
{
    return (size_t)((const unsigned char *)at - file->data);
}

void ls_data_file_want(const ls_data_file *file, const void *at, size_t bytes)
{
    (void)posix_fadvise(file->descriptor, (off_t)offset_of(file, at), (off_t)bytes,
                        POSIX_FADV_WILLNEED);
}

/* Advice is on whole units. A page that is read for the first time brings along those around it
 * that the system has at hand, 16 of 4 KiB, aligned: so a unit is as many. Bytes beside those that
 * were asked for come back from the file when they are read. */
void ls_data_file_forget(const ls_data_file *file, const void *at, size_t bytes)
{
    const size_t unit = (size_t)16 * (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)file->data, last = first + file->bytes;
    uintptr_t begin = (uintptr_t)at / unit * unit;
    uintptr_t end = ((uintptr_t)at + bytes) / unit * unit + unit;
    if (begin < first) begin = first; /* where a map begins, a page does */
    if (end > last) end = last;
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void ls_data_file_read(const ls_data_file *file, const void *at, size_t bytes, void *to)
{
    unsigned char *next = to;
    size_t offset = offset_of(file, at);
    while (bytes > 0) {
        const ssize_t taken = pread(file->descriptor, next, bytes, (off_t)offset);
        if (taken < 0 && errno == EINTR) continue;
        if (taken <= 0) break;
        next += taken;
        offset += (size_t)taken;
        bytes -= (size_t)taken;
    }
    /* What cannot be read from the file is read from its map, and fails as a read there fails. */
    memcpy(next, file->data + offset, bytes);
}

bool ls_data_file_is_there(const char *path)
{
    if (access(path, F_OK) == 0) return true;
    char *packed = joined(path, ".gz");
    const bool there = packed && access(packed, F_OK) == 0;
    free(packed);
    return there;
}
