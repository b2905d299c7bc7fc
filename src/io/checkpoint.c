/* SPDX-License-Identifier: MIT */
/* checkpoint.c -- the checkpoint file: written whole, mapped and checked; digests of its tensors.
 *
 * The header's text is checkpoint_header.c's matter, appearing whole or not at all new_file.c's.
 *
 * A save reads back the header that it made before anything touches the disk: what the loader would
 * refuse is never written. A load checks, in this order: the length field, the header's CRC, the
 * header, the file's length, each tensor's CRC. So every byte of the file is covered by some check.
 */
#include "io/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"
#include "io/checkpoint_header.h"
#include "plural.h"
#include "sha256.h"

enum { LENGTH_BYTES = sizeof(uint64_t), DATA_ALIGNMENT = 64 };

/* Longer headers are refused before anything is allocated for them. */
#define HEADER_BYTES_MAX ((size_t)16 << 20)

struct ls_checkpoint {
    unsigned char *file;     /* mapped */
    size_t file_bytes;
    dev_t device;            /* with the inode: which file it is, while it is mapped */
    ino_t inode;
    ls_header header;
    ls_saved_tensor *tensor; /* owned; [header.tensor_count], data in the map */
};

/* -- saving ---------------------------------------------------------------------------------- */

static size_t tensor_bytes(const ls_saved_tensor *tensor)
{
    return ls_saved_tensor_count(tensor) * ls_dtype_bytes(tensor->dtype);
}

/* The order of the file: wide elements first. */
static void order_by_alignment(const ls_saved_tensor *tensor, int tensor_count,
                               const ls_saved_tensor **ordered)
{
    int count = 0;
    for (size_t bytes = 8; bytes >= 4; bytes /= 2) {
        for (int i = 0; i < tensor_count; i++) {
            if (ls_dtype_bytes(tensor[i].dtype) == bytes) ordered[count++] = &tensor[i];
        }
    }
}

static ls_status write_file(const ls_file_calls *calls, const char *path, const char *json,
                            size_t json_bytes, const ls_saved_tensor *const *tensor,
                            int tensor_count)
{
    const uint64_t length = json_bytes; /* little-endian, as every machine that lockstep runs on */
    ls_new_file file;
    LS_TRY(ls_new_file_open(&file, path, calls));
    ls_status status = ls_new_file_write(&file, &length, sizeof length);
    if (status == LS_OK) status = ls_new_file_write(&file, json, json_bytes);
    for (int i = 0; i < tensor_count && status == LS_OK; i++) {
        status = ls_new_file_write(&file, tensor[i]->data, tensor_bytes(tensor[i]));
    }
    if (status == LS_OK) status = ls_new_file_commit(&file);
    ls_new_file_close(&file);
    return status;
}

ls_status ls_checkpoint_save_through(const ls_file_calls *calls, const char *path,
                                     const ls_saved_tensor *tensor, int tensor_count,
                                     const ls_saved_text *text, int text_count)
{
    char *json = NULL;
    size_t json_bytes = 0;
    ls_header read_back = { 0 };
    const ls_saved_tensor **ordered = malloc(((size_t)tensor_count + 1) * sizeof *ordered);
    if (!ordered) return ls_fail(LS_ERR_MEMORY, "%s: no memory to save it", path);
    order_by_alignment(tensor, tensor_count, ordered);
    ls_status status = ls_header_write(ordered, tensor_count, text, text_count, &json,
                                       &json_bytes);
    if (status == LS_OK) status = ls_header_parse(&read_back, path, json, json_bytes);
    if (status == LS_OK) {
        status = write_file(calls, path, json, json_bytes, ordered, tensor_count);
    }
    ls_header_free(&read_back);
    free(json);
    free(ordered);
    return status;
}

ls_status ls_checkpoint_save(const char *path, const ls_saved_tensor *tensor, int tensor_count,
                             const ls_saved_text *text, int text_count)
{
    return ls_checkpoint_save_through(&ls_file_calls_posix, path, tensor, tensor_count, text,
                                      text_count);
}

int ls_checkpoint_remove_stale(const char *path) { return ls_new_file_remove_stale(path); }

/* -- opening --------------------------------------------------------------------------------- */

/* Map the whole file. */
static ls_status map_file(ls_checkpoint *c, const char *path)
{
    /* NONBLOCK: opening somebody's pipe must not wait for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ls_fail(LS_ERR_FORMAT, "%s: no such file, expected a checkpoint: a .safetensors "
                       "file, or a run's folder", path);
    if (fd < 0)
        return ls_fail(LS_ERR_IO, "%s: checkpoint cannot be opened: %s", path, strerror(errno));
    struct stat stat;
    ls_status status = LS_OK;
    if (fstat(fd, &stat) != 0) {
        status = ls_fail(LS_ERR_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(stat.st_mode)) {
        status = ls_fail(LS_ERR_FORMAT, "%s: no checkpoint: not a regular file", path);
    } else if (stat.st_size < LENGTH_BYTES) {
        status = ls_fail(LS_ERR_FORMAT, "%s: no checkpoint: %lld bytes, too short for the header's "
                                        "length", path, (long long)stat.st_size);
    } else {
        c->file_bytes = (size_t)stat.st_size;
        c->device = stat.st_dev;
        c->inode = stat.st_ino;
        void *map = mmap(NULL, c->file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) c->file = map;
        else status = ls_fail(LS_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    }
    close(fd);
    return status;
}

/* The header, and that the file is as long as it says. `begin`: where the data begin. */
static ls_status read_header(ls_checkpoint *c, const char *path, size_t *begin)
{
    uint64_t length;
    memcpy(&length, c->file, sizeof length);
    const size_t rest = c->file_bytes - LENGTH_BYTES;
    if (length > HEADER_BYTES_MAX || length > rest) {
        return ls_fail(LS_ERR_FORMAT, "%s: header: byte 0: a length of %" PRIu64 " bytes, where "
                                      "%zu follow and %zu are the most: cut off, or no checkpoint",
                       path, length, rest, HEADER_BYTES_MAX);
    }
    const char *json = (const char *)c->file + LENGTH_BYTES;
    LS_TRY(ls_header_parse(&c->header, path, json, (size_t)length));
    if ((LENGTH_BYTES + length) % DATA_ALIGNMENT != 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: header: byte 0: a length of %" PRIu64 " bytes does not "
                                      "put the data on a multiple of %d", path, length,
                       DATA_ALIGNMENT);
    }
    const size_t data_bytes = rest - (size_t)length;
    if (data_bytes != c->header.data_bytes) {
        return ls_fail(LS_ERR_FORMAT, "%s: data: %zu byte%s, but the tensors have %zu: %s", path,
                       data_bytes, LS_PLURAL(data_bytes), c->header.data_bytes,
                       data_bytes < c->header.data_bytes ? "cut off" : "trailing bytes");
    }
    *begin = LENGTH_BYTES + (size_t)length;
    return LS_OK;
}

/* Point the tensors into the map and check their CRCs. */
static ls_status read_tensors(ls_checkpoint *c, const char *path, size_t begin)
{
    const int count = c->header.tensor_count;
    c->tensor = malloc(((size_t)count + 1) * sizeof *c->tensor);
    if (!c->tensor) return ls_fail(LS_ERR_MEMORY, "%s: no memory to open it", path);
    for (int i = 0; i < count; i++) {
        const ls_header_tensor *t = &c->header.tensor[i];
        c->tensor[i] = t->saved;
        c->tensor[i].data = c->file + begin + t->begin;
        const uint32_t crc = ls_crc32c(0, c->tensor[i].data, t->end - t->begin);
        if (crc != t->crc) {
            return ls_fail(LS_ERR_FORMAT, "%s: tensor %s: damaged, somewhere in bytes %zu to %zu "
                                          "of the file: its CRC-32C is %08" PRIx32
                                          ", but the header says %08" PRIx32,
                           path, t->saved.name, begin + t->begin, begin + t->end, crc, t->crc);
        }
    }
    return LS_OK;
}

ls_status ls_checkpoint_open(const char *path, ls_checkpoint **out)
{
    *out = NULL;
    ls_checkpoint *c = calloc(1, sizeof *c);
    if (!c) return ls_fail(LS_ERR_MEMORY, "%s: no memory to open it", path);
    size_t begin = 0;
    ls_status status = map_file(c, path);
    if (status == LS_OK) status = read_header(c, path, &begin);
    if (status == LS_OK) status = read_tensors(c, path, begin);
    if (status == LS_OK) *out = c;
    else ls_checkpoint_close(c);
    return status;
}

void ls_checkpoint_close(ls_checkpoint *c)
{
    if (!c) return;
    free(c->tensor);
    ls_header_free(&c->header);
    if (c->file) munmap(c->file, c->file_bytes);
    free(c);
}

bool ls_checkpoint_is_at(const ls_checkpoint *c, const char *path)
{
    struct stat now;
    return stat(path, &now) == 0 && now.st_dev == c->device && now.st_ino == c->inode;
}

int ls_checkpoint_tensor_count(const ls_checkpoint *c) { return c->header.tensor_count; }

const ls_saved_tensor *ls_checkpoint_tensor_at(const ls_checkpoint *c, int i)
{
    return &c->tensor[i];
}

const ls_saved_tensor *ls_checkpoint_tensor(const ls_checkpoint *c, const char *name)
{
    for (int i = 0; i < c->header.tensor_count; i++) {
        if (strcmp(c->tensor[i].name, name) == 0) return &c->tensor[i];
    }
    return NULL;
}

const char *ls_checkpoint_text(const ls_checkpoint *c, const char *key)
{
    return ls_header_find_text(&c->header, key);
}

/* -- digests --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const ls_saved_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* No two different tensors give the same bytes: names end, and the shape gives the length. */
static void hash_tensor(ls_sha256 *sha, const ls_saved_tensor *tensor)
{
    const char *dtype = ls_dtype_name(tensor->dtype);
    const uint64_t dims = (uint64_t)tensor->dims;
    ls_sha256_update(sha, tensor->name, strlen(tensor->name) + 1);
    ls_sha256_update(sha, dtype, strlen(dtype) + 1);
    ls_sha256_update(sha, &dims, sizeof dims);
    for (int d = 0; d < tensor->dims; d++) {
        const uint64_t extent = tensor->shape[d];
        ls_sha256_update(sha, &extent, sizeof extent);
    }
    ls_sha256_update(sha, tensor->data, tensor_bytes(tensor));
}

ls_status ls_tensors_sha256(const ls_saved_tensor *tensor, int tensor_count, const char *prefix,
                            char out[65])
{
    const ls_saved_tensor **member = malloc(((size_t)tensor_count + 1) * sizeof *member);
    if (!member) return ls_fail(LS_ERR_MEMORY, "no memory to list %d tensors", tensor_count);
    size_t count = 0;
    for (int i = 0; i < tensor_count; i++) {
        if (strncmp(tensor[i].name, prefix, strlen(prefix)) == 0) member[count++] = &tensor[i];
    }
    qsort(member, count, sizeof *member, by_name);
    ls_sha256 sha;
    ls_sha256_init(&sha);
    for (size_t i = 0; i < count; i++) hash_tensor(&sha, member[i]);
    out[0] = '\0';
    if (count > 0) ls_sha256_final_hex(&sha, out);
    free(member);
    return LS_OK;
}

ls_status ls_checkpoint_group_sha256(const ls_checkpoint *c, const char *prefix, char out[65])
{
    return ls_tensors_sha256(c->tensor, c->header.tensor_count, prefix, out);
}
