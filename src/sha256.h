/* SPDX-License-Identifier: MIT */
/* sha256.h -- SHA-256 of a stream of bytes: the name of a set of weights, of a data set.
 *
 *   ls_sha256 sha;
 *   ls_sha256_init(&sha);
 *   ls_sha256_update(&sha, data, bytes);   any number of times
 *   ls_sha256_final_hex(&sha, text);
 *
 * Thread rule: a state belongs to one thread at a time; nothing is shared.
 */
#ifndef LS_SHA256_H
#define LS_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "cpu_bytes.h"

typedef struct ls_sha256 {
    ls_sha256_mix_fn *mix;   /* what init chose for this CPU */
    uint32_t state[8];
    uint64_t byte_count;     /* taken so far */
    unsigned char block[64]; /* the last byte_count % 64 of them, not yet mixed in */
} ls_sha256;

void ls_sha256_init(ls_sha256 *sha);

/* Append `bytes` bytes; `data` may be NULL if bytes is 0. */
void ls_sha256_update(ls_sha256 *sha, const void *data, size_t bytes);

/* 64 lower-case hexadecimal digits and NUL. The state is used up: init before the next use. */
void ls_sha256_final_hex(ls_sha256 *sha, char out[65]);

#endif
