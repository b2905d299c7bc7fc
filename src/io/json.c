/* SPDX-License-Identifier: MIT */
/* json.c -- the strict reader of json.h; what is UTF-8.
 *
 * The reader keeps, per open bracket, what closes it and whether an element has been seen; that is
 * all the state the grammar needs when the caller supplies the rest. Not here: what the text means;
 * the writer (json_write.c).
 */
#include "io/json.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ls_utf8_bytes_at(const unsigned char *p, size_t byte_count)
{
    if (p[0] < 0x80) return 1;
    const size_t bytes = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (bytes == 0 || bytes > byte_count) return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0;
    }
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0; /* fits two bytes */
    if (p[0] == 0xED && p[1] > 0x9F) return 0; /* D800 .. DFFF */
    if (p[0] == 0xF0 && p[1] < 0x90) return 0; /* fits three bytes */
    if (p[0] == 0xF4 && p[1] > 0x8F) return 0;
    return bytes;
}

/* Write `code`, a Unicode scalar value, as UTF-8. Returns the bytes written, 1 .. 4. */
static size_t utf8_write(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = bytes - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[bytes] | code);
    return bytes;
}

/* -- reading --------------------------------------------------------------------------------- */

void ls_json_read_init(ls_json_reader *reader, const char *name, const char *text,
                       size_t byte_count, size_t base)
{
    *reader = (ls_json_reader){
        .name = name, .text = text, .byte_count = byte_count, .base = base
    };
}

ls_status ls_json_expected(const ls_json_reader *r, const char *what)
{
    char found[32] = "the end";
    if (r->at < r->byte_count) {
        const unsigned char c = (unsigned char)r->text[r->at];
        snprintf(found, sizeof found, c > 0x20 && c < 0x7F ? "'%c'" : "byte 0x%02X", c);
    }
    return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: expected %s, found %s", r->name, r->base + r->at,
                   what, found);
}

static void skip_space(ls_json_reader *r)
{
    while (r->at < r->byte_count && strchr(" \t\r\n", r->text[r->at]) && r->text[r->at]) r->at++;
}

/* Does `c` stand at the cursor? */
static bool is_at(const ls_json_reader *r, char c)
{
    return r->at < r->byte_count && r->text[r->at] == c;
}

ls_status ls_json_read_open(ls_json_reader *r, char bracket)
{
    skip_space(r);
    if (!is_at(r, bracket)) return ls_json_expected(r, bracket == '{' ? "'{'" : "'['");
    if (r->depth == LS_JSON_DEPTH_MAX) return ls_json_expected(r, "no deeper brackets");
    r->at++;
    r->close[r->depth] = bracket == '{' ? '}' : ']';
    r->has_element[r->depth] = false;
    r->depth++;
    return LS_OK;
}

ls_status ls_json_read_next(ls_json_reader *r, bool *more)
{
    assert(r->depth > 0);
    const int top = r->depth - 1;
    skip_space(r);
    *more = !is_at(r, r->close[top]);
    if (!*more) {
        r->at++;
        r->depth--;
        return LS_OK;
    }
    if (r->has_element[top]) {
        if (!is_at(r, ',')) {
            return ls_json_expected(r, r->close[top] == '}' ? "',' or '}'" : "',' or ']'");
        }
        r->at++;
    }
    r->has_element[top] = true;
    return LS_OK;
}

/* Four hexadecimal digits at the cursor, which moves past them. */
static ls_status read_hex4(ls_json_reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *d = r->at < r->byte_count && r->text[r->at]
                            ? strchr(digits, r->text[r->at]) : NULL;
        if (!d) return ls_json_expected(r, "a hexadecimal digit");
        const uint32_t value = (uint32_t)(d - digits);
        *out = *out * 16 + (value < 16 ? value : value - 6);
    }
    return LS_OK;
}

/* The character of \uXXXX; the cursor stands after the u. A surrogate must be one of a pair. */
static ls_status read_unicode(ls_json_reader *r, uint32_t *code)
{
    LS_TRY(read_hex4(r, code));
    if (*code == 0) return ls_json_expected(r, "no NUL in a string before this");
    if (*code < 0xD800 || *code > 0xDFFF) return LS_OK;
    uint32_t low = 0;
    if (*code <= 0xDBFF && r->at + 1 < r->byte_count && memcmp(r->text + r->at, "\\u", 2) == 0) {
        r->at += 2;
        LS_TRY(read_hex4(r, &low));
    }
    if (low < 0xDC00 || low > 0xDFFF) return ls_json_expected(r, "a surrogate pair before this");
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return LS_OK;
}

/* One character of a string, as UTF-8 into out; the cursor stands on it and moves past it. */
static ls_status read_character(ls_json_reader *r, char *out, size_t *bytes)
{
    if (!is_at(r, '\\')) {
        const unsigned char *p = (const unsigned char *)r->text + r->at;
        const size_t left = r->byte_count - r->at;
        *bytes = left > 0 && *p >= 0x20 ? ls_utf8_bytes_at(p, left) : 0;
        if (*bytes == 0) return ls_json_expected(r, "a character of a string in UTF-8");
        memcpy(out, p, *bytes);
        r->at += *bytes;
        return LS_OK;
    }
    r->at++;
    static const char letter[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->byte_count ? r->text[r->at] : '\0';
    const char *place = c ? strchr(letter, c) : NULL;
    if (place) {
        out[0] = meaning[place - letter];
        *bytes = 1;
        r->at++;
        return LS_OK;
    }
    if (c != 'u') return ls_json_expected(r, "one of \"\\/bfnrtu after \\");
    r->at++;
    uint32_t code;
    LS_TRY(read_unicode(r, &code));
    *bytes = utf8_write(code, out);
    return LS_OK;
}

/* Bytes from the cursor to the closing quote, at most: room that the decoded string needs, as no
 * escape is shorter than what it stands for. */
static size_t string_room(const ls_json_reader *r)
{
    size_t i = r->at;
    while (i < r->byte_count && r->text[i] != '"') i += r->text[i] == '\\' ? 2 : 1;
    return i - r->at;
}

ls_status ls_json_read_string(ls_json_reader *r, char **out)
{
    *out = NULL;
    skip_space(r);
    if (!is_at(r, '"')) return ls_json_expected(r, "a string");
    r->at++;
    char *text = malloc(string_room(r) + 5); /* a last character of 4 bytes, and NUL */
    if (!text) return ls_fail(LS_ERR_MEMORY, "%s: no memory for a string", r->name);
    size_t count = 0;
    while (!is_at(r, '"')) {
        size_t bytes;
        const ls_status status = read_character(r, text + count, &bytes);
        if (status != LS_OK) {
            free(text);
            return status;
        }
        count += bytes;
    }
    r->at++;
    text[count] = '\0';
    *out = text;
    return LS_OK;
}

ls_status ls_json_read_key(ls_json_reader *r, char **out)
{
    LS_TRY(ls_json_read_string(r, out));
    skip_space(r);
    if (!is_at(r, ':')) {
        free(*out);
        *out = NULL;
        return ls_json_expected(r, "':'");
    }
    r->at++;
    return LS_OK;
}

ls_status ls_json_read_count(ls_json_reader *r, uint64_t *out)
{
    skip_space(r);
    const size_t begin = r->at;
    uint64_t x = 0;
    for (; r->at < r->byte_count && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        const uint64_t digit = (uint64_t)(r->text[r->at] - '0');
        if (r->at == begin + 1 && x == 0) return ls_json_expected(r, "no digit after a leading 0");
        if (x > (UINT64_MAX - digit) / 10) return ls_json_expected(r, "a number below 2^64");
        x = x * 10 + digit;
    }
    if (r->at == begin) return ls_json_expected(r, "a whole number");
    *out = x;
    return LS_OK;
}

ls_status ls_json_read_end(ls_json_reader *r)
{
    assert(r->depth == 0);
    skip_space(r);
    return r->at == r->byte_count ? LS_OK : ls_json_expected(r, "nothing more");
}
