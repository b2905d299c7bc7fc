/* SPDX-License-Identifier: MIT */
/* checkpoint_header.h -- the JSON header of a checkpoint, as text and as entries.
 *
 * Pure, no files: checkpoint.c maps and writes them. The format is in checkpoint.h.
 */
#ifndef LS_IO_CHECKPOINT_HEADER_H
#define LS_IO_CHECKPOINT_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "io/checkpoint.h"
#include "status.h"

typedef struct {
    ls_saved_tensor saved;   /* data NULL */
    size_t begin, end;       /* bytes of the data part */
    uint32_t crc;            /* CRC-32C of those bytes */
} ls_header_tensor;

typedef struct {
    char *key, *text;        /* owned */
} ls_header_text;

typedef struct {
    ls_header_tensor *tensor; /* owned; in the order of the data */
    int tensor_count;
    ls_header_text *text;     /* owned; all metadata, ascending by key */
    int text_count;
    size_t data_bytes;        /* of all tensors */
} ls_header;

/* Read and check all that can be checked without the data: syntax, the header's CRC, known dtypes,
 * sizes, tensors that follow each other without hole or overlap, a CRC for each, no name twice.
 * `path` is for messages. Errors: FORMAT (path, section, cause), MEMORY. */
LS_MUST_USE ls_status ls_header_parse(ls_header *header, const char *path, const char *json,
                                      size_t byte_count);
void ls_header_free(ls_header *header); /* accepts all-zero */

/* The text of a metadata key, or NULL. */
const char *ls_header_find_text(const ls_header *header, const char *key);

/* The header of tensors whose data follow each other in this order, padded so that the data start
 * on a multiple of 64 in a file. Owned by the caller. Errors: MEMORY. */
LS_MUST_USE ls_status ls_header_write(const ls_saved_tensor *const *tensor, int tensor_count,
                                      const ls_saved_text *text, int text_count, char **json,
                                      size_t *byte_count);

#endif
