/* SPDX-License-Identifier: MIT */
/* json.h -- JSON as far as lockstep's files need it: a strict reader and a small writer.
 *
 * The reader is a cursor over text in memory. Its caller asks for what must come next, and gets it
 * or a FORMAT error that names the byte; so the reader holds no tree, and a text can be no deeper
 * than its caller expects. Strict [RFC 8259]: valid UTF-8, no NUL in strings, no leading zeros, no
 * trailing commas, nothing after the end.
 *
 *     {"a": [1, 2]}      ls_json_read_open(r, '{');
 *                        while next(r, &more), more: read_key(r, &key), then the value:
 *                            ls_json_read_open(r, '[');
 *                            while next(r, &more), more: ls_json_read_count(r, &x);
 *                        ls_json_read_end(r);
 *
 * The writer puts commas itself, escapes strings, writes bytes that are no UTF-8 as U+FFFD, and
 * never writes NaN or an infinity as a number: they become null. Out of memory is remembered and
 * told at the end.
 *
 * Source: T. Bray (ed.), "The JavaScript Object Notation (JSON) Data Interchange Format", RFC 8259,
 * 2017.  Thread rule: a reader or writer belongs to one thread.
 */
#ifndef LS_IO_JSON_H
#define LS_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { LS_JSON_DEPTH_MAX = 8, LS_NUMBER_BYTES = 32 };

/* `x` with the fewest of 15, 16 or 17 digits that give the same double back: equal texts are equal
 * bits. "nan", "inf" and "-inf" for those. Pure. */
void ls_number_text(double x, char out[LS_NUMBER_BYTES]);

/* Bytes of the UTF-8 character at p ([byte_count], not 0), 0 if it is none: a wrong or missing
 * continuation byte, an overlong form, a surrogate, or a value above 0x10FFFF. Pure. */
size_t ls_utf8_bytes_at(const unsigned char *p, size_t byte_count);

/* -- reading --------------------------------------------------------------------------------- */

typedef struct {
    const char *name;           /* borrowed; of the text, in messages: "last.safetensors: header" */
    const char *text;           /* borrowed; [byte_count], no NUL needed */
    size_t byte_count;
    size_t at;                  /* the next byte */
    size_t base;                /* added to `at` in messages: place of the text in its file */
    int depth;                  /* open objects and arrays */
    char close[LS_JSON_DEPTH_MAX];       /* what ends each of them: } or ] */
    bool has_element[LS_JSON_DEPTH_MAX]; /* it has had an element: a comma must come */
} ls_json_reader;

void ls_json_read_init(ls_json_reader *reader, const char *name, const char *text,
                       size_t byte_count, size_t base);

/* All return FORMAT if something else stands there, with the byte and what was expected. */
LS_MUST_USE ls_status ls_json_read_open(ls_json_reader *reader, char bracket); /* '{' or '[' */
/* Is there another element in the innermost object or array? If not, it is closed. */
LS_MUST_USE ls_status ls_json_read_next(ls_json_reader *reader, bool *more);
/* A string, and a string with the colon after it. Owned by the caller. Errors also: MEMORY. */
LS_MUST_USE ls_status ls_json_read_string(ls_json_reader *reader, char **out);
LS_MUST_USE ls_status ls_json_read_key(ls_json_reader *reader, char **out);
/* A whole number from 0 to 2^64 - 1, digits only. */
LS_MUST_USE ls_status ls_json_read_count(ls_json_reader *reader, uint64_t *out);
/* Nothing but white space is left. */
LS_MUST_USE ls_status ls_json_read_end(ls_json_reader *reader);

/* FORMAT at the reader's place: "<name>: byte 17: expected ..., found 'x'". */
ls_status ls_json_expected(const ls_json_reader *reader, const char *what);

/* -- writing --------------------------------------------------------------------------------- */

typedef struct {
    char *text;                 /* owned; NULL before the first byte */
    size_t byte_count, room;
    bool failed;                /* out of memory: what follows is dropped */
    bool comma;                 /* the next element needs one before it */
} ls_json_writer;               /* start all-zero */

void ls_json_write_open(ls_json_writer *writer, char bracket);
void ls_json_write_close(ls_json_writer *writer, char bracket);
void ls_json_write_key(ls_json_writer *writer, const char *key);
void ls_json_write_string(ls_json_writer *writer, const char *text);
void ls_json_write_count(ls_json_writer *writer, uint64_t x);
void ls_json_write_number(ls_json_writer *writer, double x);
void ls_json_write_flag(ls_json_writer *writer, bool x);
/* A time of at least 0, to the nanosecond: cheaper than the shortest text that gives the number. */
void ls_json_write_seconds(ls_json_writer *writer, double seconds);
void ls_json_write_raw(ls_json_writer *writer, const char *bytes, size_t byte_count);

/* A key and its value. */
void ls_json_member_string(ls_json_writer *writer, const char *key, const char *text);
void ls_json_member_count(ls_json_writer *writer, const char *key, uint64_t x);
void ls_json_member_number(ls_json_writer *writer, const char *key, double x);
void ls_json_member_flag(ls_json_writer *writer, const char *key, bool x);
void ls_json_member_seconds(ls_json_writer *writer, const char *key, double seconds);

/* Start anew in the memory that the text has, which stays the writer's (`text`, freed by whoever
 * keeps it). */
void ls_json_write_again(ls_json_writer *writer);

/* The finished text, ended by NUL and owned by the caller; the writer is all-zero again.
 * Errors: MEMORY (then nothing is owned). */
LS_MUST_USE ls_status ls_json_write_end(ls_json_writer *writer, char **text, size_t *byte_count);

#endif
