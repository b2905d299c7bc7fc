/* SPDX-License-Identifier: MIT */
/* csv.h -- lines, fields and numbers of a CSV text, strictly.
 *
 * Numbers only, separated by commas, a record a line. A line ends in LF or CRLF; the last one
 * may have no end. A UTF-8 mark before the first line is passed over. There is no quoting.
 *
 * A number is [spaces] [+-] digits [. digits] [e [+-] digits] [spaces], with a digit before or
 * after the point; the point is always '.'. No nan, inf, hexadecimal, thousands separator, no
 * tail. It has at most LS_CSV_NUMBER_CHARS characters and must not overflow the 32-bit float that
 * it becomes by one correct rounding.
 *
 * Pure: nothing here allocates or fails; texts are borrowed and need no NUL at their end.
 */
#ifndef LS_IO_CSV_H
#define LS_IO_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum { LS_CSV_NUMBER_CHARS = 128 };

typedef struct {
    const char *text;  /* borrowed: the line or field */
    size_t chars;      /* without line end or comma */
    size_t offset;     /* bytes from the start of the file */
    size_t number;     /* from 1: of the line in the file, or of the field in the line */
} ls_csv_span;

typedef struct {
    const char *text;  /* borrowed: all of the file */
    size_t bytes;
    size_t at;         /* the next line begins here */
    size_t lines;      /* read so far */
} ls_csv;

/* Start before the first line. */
ls_csv ls_csv_begin(const char *text, size_t bytes);

/* The next line; false after the last. */
bool ls_csv_next_line(ls_csv *csv, ls_csv_span *line);

/* Fields of a line: its commas and one more. */
size_t ls_csv_field_count(const ls_csv_span *line);

/* The field after *field in `line`; start with *field all zero. False after the last. */
bool ls_csv_next_field(const ls_csv_span *line, ls_csv_span *field);

typedef enum {
    LS_CSV_NUMBER,
    LS_CSV_EMPTY,      /* no character, or spaces only */
    LS_CSV_TOO_LONG,   /* more than LS_CSV_NUMBER_CHARS characters */
    LS_CSV_NO_NUMBER,  /* the grammar above does not allow it */
    LS_CSV_TOO_LARGE   /* infinite as a 32-bit float */
} ls_csv_verdict;

/* The number in `field`: *value by correct rounding to float, *exact (may be NULL) to double. */
ls_csv_verdict ls_csv_number(const ls_csv_span *field, float *value, double *exact);

/* `field` as text for a message: in quotes, cut after 40 characters, others than printable ASCII as
 * \xNN. Returns out. */
enum { LS_CSV_SHOWN_BYTES = 200 };
const char *ls_csv_shown(const ls_csv_span *field, char out[LS_CSV_SHOWN_BYTES]);

#endif
