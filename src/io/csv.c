/* SPDX-License-Identifier: MIT */
/* csv.c -- cutting a CSV text into lines and fields, and reading one number.
 *
 * A number's characters are first checked against the grammar of csv.h; only then strtof and
 * strtod see them, which by themselves would take "nan", "0x10", "12abc" and stop at a NUL. Both
 * round correctly, and each rounds the decimal digits itself: rounding to double first and then to
 * float would round twice. The program never calls setlocale, so the point is '.'.
 */
#include "io/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_csv ls_csv_begin(const char *text, size_t bytes)
{
    const bool has_mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    return (ls_csv){ .text = text, .bytes = bytes, .at = has_mark ? 3 : 0 };
}

bool ls_csv_next_line(ls_csv *csv, ls_csv_span *line)
{
    if (csv->at >= csv->bytes) return false;
    const char *begin = csv->text + csv->at;
    const size_t left = csv->bytes - csv->at;
    const char *end = memchr(begin, '\n', left);
    const size_t chars = end ? (size_t)(end - begin) : left;
    const bool crlf = end && chars > 0 && begin[chars - 1] == '\r';
    *line = (ls_csv_span){
        .text = begin,
        .chars = crlf ? chars - 1 : chars,
        .offset = csv->at,
        .number = ++csv->lines,
    };
    csv->at += chars + (end ? 1 : 0);
    return true;
}

size_t ls_csv_field_count(const ls_csv_span *line)
{
    size_t fields = 1;
    const char *end = line->text + line->chars;
    for (const char *at = line->text; (at = memchr(at, ',', (size_t)(end - at))) != NULL; at++) {
        fields++;
    }
    return fields;
}

bool ls_csv_next_field(const ls_csv_span *line, ls_csv_span *field)
{
    const char *end = line->text + line->chars;
    const char *begin = line->text;
    if (field->text) {
        begin = field->text + field->chars;
        if (begin == end) return false;
        begin++; /* past the comma that ended it */
    }
    const char *comma = memchr(begin, ',', (size_t)(end - begin));
    *field = (ls_csv_span){
        .text = begin,
        .chars = (size_t)((comma ? comma : end) - begin),
        .offset = line->offset + (size_t)(begin - line->text),
        .number = field->number + 1,
    };
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *skip_digits(const char *at)
{
    while (is_digit(*at)) at++;
    return at;
}

/* Is all of `text` (ended by NUL) a number by the grammar, spaces taken off? */
static bool is_number(const char *text)
{
    if (*text == '+' || *text == '-') text++;
    const char *whole_end = skip_digits(text);
    size_t digits = (size_t)(whole_end - text);
    text = whole_end;
    if (*text == '.') {
        const char *fraction_end = skip_digits(text + 1);
        digits += (size_t)(fraction_end - text - 1);
        text = fraction_end;
    }
    if (digits == 0) return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        if (*text == '+' || *text == '-') text++;
        if (!is_digit(*text)) return false;
        text = skip_digits(text);
    }
    return *text == '\0';
}

static bool is_space(char c) { return c == ' ' || c == '\t'; }

ls_csv_verdict ls_csv_number(const ls_csv_span *field, float *value, double *exact)
{
    const char *begin = field->text;
    size_t chars = field->chars;
    while (chars > 0 && is_space(*begin)) begin++, chars--;
    while (chars > 0 && is_space(begin[chars - 1])) chars--;
    if (chars == 0) return LS_CSV_EMPTY;
    if (chars > LS_CSV_NUMBER_CHARS) return LS_CSV_TOO_LONG;

    char copy[LS_CSV_NUMBER_CHARS + 1];
    memcpy(copy, begin, chars);
    copy[chars] = '\0';
    if (strlen(copy) != chars || !is_number(copy)) return LS_CSV_NO_NUMBER;
    *value = strtof(copy, NULL);
    if (exact) *exact = strtod(copy, NULL);
    return isinf(*value) ? LS_CSV_TOO_LARGE : LS_CSV_NUMBER;
}

const char *ls_csv_shown(const ls_csv_span *field, char out[LS_CSV_SHOWN_BYTES])
{
    enum { SHOWN_CHARS = 40 };
    size_t at = 0;
    out[at++] = '\'';
    for (size_t i = 0; i < field->chars && i < SHOWN_CHARS; i++) {
        const unsigned char c = (unsigned char)field->text[i];
        const bool printable = c >= 0x20 && c < 0x7f;
        at += (size_t)snprintf(out + at, LS_CSV_SHOWN_BYTES - at, printable ? "%c" : "\\x%02x", c);
    }
    snprintf(out + at, LS_CSV_SHOWN_BYTES - at, "%s'", field->chars > SHOWN_CHARS ? "..." : "");
    return out;
}
