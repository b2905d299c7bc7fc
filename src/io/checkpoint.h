/* SPDX-License-Identifier: MIT */
/* checkpoint.h -- one portable file: named tensors and text, in the safetensors container.
 *
 *   8 bytes   length H of the header, little-endian
 *   H bytes   JSON: { "__metadata__": { key: text, ... },
 *                     "weights/conv1/kernel": { "dtype": "F32", "shape": [32,3,3,3],
 *                                               "data_offsets": [begin, end] }, ... }
 *             padded with spaces so that the data starts on a multiple of 64
 *   data      the tensors one after another, in the order of the header: 8-byte elements first,
 *             so that all are aligned, else as given
 *
 * Integrity: metadata holds "crc32c/<tensor>" for each tensor, and "crc32c/header", the CRC-32C of
 * the header with that field's eight digits as '0'. Any flipped bit, cut or added byte is refused,
 * and the message names the section.
 *
 * Saving is atomic: written to <path>.tmp-<pid>, fsynced, renamed, directory fsynced (new_file.h).
 * Until the rename the previous file stays as it was; after it the new one is whole. A failed save
 * removes its temporary file.
 *
 * This file knows nothing of what the tensors mean: train/state.c does.
 */
#ifndef LS_IO_CHECKPOINT_H
#define LS_IO_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "io/new_file.h"
#include "status.h"

typedef enum { LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_I64, LS_DTYPE_U32 } ls_dtype;
enum { LS_TENSOR_DIMS_MAX = 4, LS_TENSOR_NAME_BYTES = 128 };

typedef struct {
    char name[LS_TENSOR_NAME_BYTES]; /* "weights/conv1/kernel" */
    ls_dtype dtype;
    int dims;                        /* 0 .. 4; 0 is one element */
    size_t shape[LS_TENSOR_DIMS_MAX];
    const void *data;                /* host memory, little-endian, dense */
} ls_saved_tensor;

/* "F32"; bytes of an element. Pure. */
const char *ls_dtype_name(ls_dtype dtype);
size_t ls_dtype_bytes(ls_dtype dtype);

/* Elements of a tensor, a product that is known to fit. Pure. */
size_t ls_saved_tensor_count(const ls_saved_tensor *tensor);

typedef struct {
    const char *key;  /* no blanks; not "crc32c/..." */
    const char *text; /* UTF-8 */
} ls_saved_text;

/* Errors: IO (with the reason; the previous file is intact), MEMORY, FORMAT (names that are there
 * twice or contain blanks: the file could not be opened, and nothing is written). */
LS_MUST_USE ls_status ls_checkpoint_save(const char *path, const ls_saved_tensor *tensor,
                                         int tensor_count, const ls_saved_text *text,
                                         int text_count);

/* The same through other calls than the system's: for tests that own the disk. */
LS_MUST_USE ls_status ls_checkpoint_save_through(const ls_file_calls *calls, const char *path,
                                                 const ls_saved_tensor *tensor, int tensor_count,
                                                 const ls_saved_text *text, int text_count);

typedef struct ls_checkpoint ls_checkpoint;

/* Map and check a file. Errors: FORMAT (absent, not a checkpoint, damaged: which section), MEMORY,
 * IO (cannot be read). */
LS_MUST_USE ls_status ls_checkpoint_open(const char *path, ls_checkpoint **out);
void ls_checkpoint_close(ls_checkpoint *checkpoint); /* accepts NULL */

/* Is the file at `path` still the one that was opened? One that was saved since is another. */
bool ls_checkpoint_is_at(const ls_checkpoint *checkpoint, const char *path);

/* Tensors in the order of the file; their data are mapped, aligned to their elements, and valid
 * until close. The others return NULL where there is no such name. */
int ls_checkpoint_tensor_count(const ls_checkpoint *checkpoint);
const ls_saved_tensor *ls_checkpoint_tensor_at(const ls_checkpoint *checkpoint, int i);
const ls_saved_tensor *ls_checkpoint_tensor(const ls_checkpoint *checkpoint, const char *name);
const char *ls_checkpoint_text(const ls_checkpoint *checkpoint, const char *key);

/* SHA-256 (64 hexadecimal digits and NUL) of the group of tensors whose names start with `prefix`
 * ("weights/"), ascending by name; of each: name and NUL, dtype ("F32") and NUL, the number of
 * dimensions and each of them as 8 bytes, the data. "" in out if there are none. Errors: MEMORY. */
LS_MUST_USE ls_status ls_checkpoint_group_sha256(const ls_checkpoint *checkpoint,
                                                 const char *prefix, char out[65]);
/* The same of tensors in memory: equal bits give equal digests. */
LS_MUST_USE ls_status ls_tensors_sha256(const ls_saved_tensor *tensor, int tensor_count,
                                        const char *prefix, char out[65]);

/* Remove "<path>.tmp-*" that an earlier run left behind. Returns how many. */
int ls_checkpoint_remove_stale(const char *path);

#endif
