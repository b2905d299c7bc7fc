/* SPDX-License-Identifier: MIT */
/* json_write.c -- the small writer of json.h; numbers as text.
 *
 * The text grows as it needs to, and always ends in a NUL. The only state beside it is whether the
 * next element needs a comma.
 */
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `digits` digits of x; are they x? */
static bool has_digits(double x, int digits, char out[LS_NUMBER_BYTES])
{
    snprintf(out, LS_NUMBER_BYTES, "%.*g", digits, x);
    const double back = strtod(out, NULL);
    return memcmp(&back, &x, sizeof x) == 0;
}

/* Half of all doubles have 16 digits, half 17; those that people write have 15 or fewer. Cut to 16
 * digits one of these shows no more than 15 characters, or ends with how far it is from them. A
 * power of two may have 15 where its 16 are another number: numbers below it lie half as far apart,
 * and its 16 digits may be below it. */
void ls_number_text(double x, char out[LS_NUMBER_BYTES])
{
    char shorter[LS_NUMBER_BYTES];
    if (!isfinite(x)) {
        snprintf(out, LS_NUMBER_BYTES, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    if (x == floor(x) && fabs(x) < 1e15 && !(x == 0 && signbit(x))) {
        snprintf(out, LS_NUMBER_BYTES, "%" PRId64, (int64_t)x);
        return;
    }
    int exponent;
    const bool is_power = fabs(frexp(x, &exponent)) == 0.5;
    const bool has_16 = has_digits(x, 16, out);
    if (has_16 ? strlen(out) > 15 && has_digits(x, 15, shorter)
               : is_power && has_digits(x, 15, shorter)) {
        memcpy(out, shorter, strlen(shorter) + 1);
    } else if (!has_16) {
        snprintf(out, LS_NUMBER_BYTES, "%.17g", x); /* 17 always suffice for a double */
    }
}

/* Digits of x, at least `least`, up to `end`. Returns where they begin. */
static char *put_digits(uint64_t x, int least, char *end)
{
    for (; x > 0 || least > 0; x /= 10, least--) *--end = (char)('0' + x % 10);
    return end;
}

enum { ROOM_MIN = 1024 }; /* most texts never grow */

void ls_json_write_raw(ls_json_writer *w, const char *bytes, size_t byte_count)
{
    if (w->failed) return;
    if (w->room - w->byte_count < byte_count + 1) { /* + 1: the NUL at the end */
        const size_t want = (w->byte_count + byte_count + 1) * 2;
        const size_t room = want < ROOM_MIN ? ROOM_MIN : want;
        char *grown = realloc(w->text, room);
        if (!grown) {
            w->failed = true;
            return;
        }
        w->text = grown;
        w->room = room;
    }
    memcpy(w->text + w->byte_count, bytes, byte_count);
    w->byte_count += byte_count;
    w->text[w->byte_count] = '\0';
}

static void write_text(ls_json_writer *w, const char *text)
{
    ls_json_write_raw(w, text, strlen(text));
}

/* The comma before an element that is not the first. */
static void begin_element(ls_json_writer *w)
{
    if (w->comma) write_text(w, ",");
    w->comma = true;
}

/* `text` in quotes. Runs of plain characters are written at once. */
static void write_quoted(ls_json_writer *w, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t byte_count = strlen(text);
    size_t begin = 0, i = 0; /* plain characters not yet written: [begin, i) */
    write_text(w, "\"");
    while (i < byte_count) {
        const size_t bytes = ls_utf8_bytes_at(p + i, byte_count - i);
        if (bytes > 0 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\') {
            i += bytes;
            continue;
        }
        ls_json_write_raw(w, text + begin, i - begin);
        char escape[8] = "\\uFFFD";
        if (p[i] == '"' || p[i] == '\\') snprintf(escape, sizeof escape, "\\%c", p[i]);
        else if (p[i] == '\n') snprintf(escape, sizeof escape, "\\n");
        else if (p[i] < 0x20) snprintf(escape, sizeof escape, "\\u%04X", (unsigned)p[i]);
        write_text(w, escape);
        begin = ++i;
    }
    ls_json_write_raw(w, text + begin, i - begin);
    write_text(w, "\"");
}

void ls_json_write_open(ls_json_writer *w, char bracket)
{
    begin_element(w);
    ls_json_write_raw(w, &bracket, 1);
    w->comma = false;
}

void ls_json_write_close(ls_json_writer *w, char bracket)
{
    ls_json_write_raw(w, &bracket, 1);
    w->comma = true;
}

void ls_json_write_key(ls_json_writer *w, const char *key)
{
    begin_element(w);
    write_quoted(w, key);
    write_text(w, ":");
    w->comma = false;
}

void ls_json_write_string(ls_json_writer *w, const char *text)
{
    begin_element(w);
    write_quoted(w, text);
}

void ls_json_write_count(ls_json_writer *w, uint64_t x)
{
    char digits[24], *end = digits + sizeof digits, *begin = put_digits(x, 1, end);
    begin_element(w);
    ls_json_write_raw(w, begin, (size_t)(end - begin));
}

void ls_json_write_number(ls_json_writer *w, double x)
{
    char digits[LS_NUMBER_BYTES] = "null";
    if (isfinite(x)) ls_number_text(x, digits);
    begin_element(w);
    write_text(w, digits);
}

void ls_json_write_seconds(ls_json_writer *w, double seconds)
{
    char digits[48];
    if (!(seconds >= 0 && seconds < 1e9)) {
        ls_json_write_number(w, seconds);
        return;
    }
    const uint64_t ns = (uint64_t)(seconds * 1e9 + 0.5);
    char *end = digits + sizeof digits, *begin = put_digits(ns % 1000000000, 9, end);
    *--begin = '.';
    begin = put_digits(ns / 1000000000, 1, begin);
    while (end[-1] == '0') end--;
    if (end[-1] == '.') end--;
    begin_element(w);
    ls_json_write_raw(w, begin, (size_t)(end - begin));
}

void ls_json_write_flag(ls_json_writer *w, bool x)
{
    begin_element(w);
    write_text(w, x ? "true" : "false");
}

void ls_json_member_string(ls_json_writer *w, const char *key, const char *text)
{
    ls_json_write_key(w, key);
    ls_json_write_string(w, text);
}

void ls_json_member_count(ls_json_writer *w, const char *key, uint64_t x)
{
    ls_json_write_key(w, key);
    ls_json_write_count(w, x);
}

void ls_json_member_number(ls_json_writer *w, const char *key, double x)
{
    ls_json_write_key(w, key);
    ls_json_write_number(w, x);
}

void ls_json_member_flag(ls_json_writer *w, const char *key, bool x)
{
    ls_json_write_key(w, key);
    ls_json_write_flag(w, x);
}

void ls_json_member_seconds(ls_json_writer *w, const char *key, double seconds)
{
    ls_json_write_key(w, key);
    ls_json_write_seconds(w, seconds);
}

void ls_json_write_again(ls_json_writer *w)
{
    w->byte_count = 0;
    w->comma = false;
}

ls_status ls_json_write_end(ls_json_writer *w, char **text, size_t *byte_count)
{
    const ls_json_writer done = *w;
    *w = (ls_json_writer){ 0 };
    *text = NULL;
    if (done.failed || !done.text) {
        free(done.text);
        return ls_fail(LS_ERR_MEMORY, "no memory for more than %zu bytes of a text",
                       done.byte_count);
    }
    *text = done.text;
    if (byte_count) *byte_count = done.byte_count;
    return LS_OK;
}
