/* SPDX-License-Identifier: MIT */
/* npy.c -- the header of a .npy file, read by a cursor; its elements; a header written. See npy.h.
 */
#include "io/npy.h"

#include <stdio.h>
#include <string.h>

#include "plural.h"

static const struct {
    const char *descr;
    ls_npy_type type;
    size_t bytes;
} known_types[] = {
    { "|u1", LS_NPY_U1, 1 }, { "<u1", LS_NPY_U1, 1 }, { "<i4", LS_NPY_I4, 4 },
    { "<i8", LS_NPY_I8, 8 }, { "<f4", LS_NPY_F4, 4 }, { "<f8", LS_NPY_F8, 8 },
};

/* -- the header ------------------------------------------------------------------------------ */

/* A place in the header's text; `at` never passes `end`. */
typedef struct {
    const ls_data_file *file;
    size_t at, end;
} cursor;

static ls_status fail_header(const cursor *c, const char *expected)
{
    if (c->at == c->end) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: the header ends, expected %s", c->file->path,
                       c->at, expected);
    }
    const unsigned char found = c->file->data[c->at];
    if (found > ' ' && found < 0x7f)
        return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: '%c' in the header, expected %s",
                       c->file->path, c->at, found, expected);
    return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: byte %02x in the header, expected %s",
                   c->file->path, c->at, found, expected);
}

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (c->file->data[c->at] == ' ' || c->file->data[c->at] == '\n')) c->at++;
}

/* Pass over `text` if it comes next. */
static bool accept(cursor *c, const char *text)
{
    skip_spaces(c);
    const size_t chars = strlen(text);
    if (c->end - c->at < chars || memcmp(c->file->data + c->at, text, chars) != 0) return false;
    c->at += chars;
    return true;
}

static ls_status expect(cursor *c, const char *text)
{
    return accept(c, text) ? LS_OK : fail_header(c, text);
}

static ls_status read_descr(cursor *c, ls_npy *out)
{
    skip_spaces(c);
    const size_t begin = c->at;
    for (size_t i = 0; i < sizeof known_types / sizeof known_types[0]; i++) {
        char quoted[8];
        snprintf(quoted, sizeof quoted, "'%s'", known_types[i].descr);
        if (!accept(c, quoted)) continue;
        out->type = known_types[i].type;
        out->element_bytes = known_types[i].bytes;
        return LS_OK;
    }
    const unsigned char *text = c->file->data + begin;
    size_t chars = 0;
    while (begin + chars < c->end && chars < 12 && text[chars] >= 0x20 && text[chars] < 0x7f &&
           text[chars] != ',') {
        chars++;
    }
    const bool is_text = chars > 2 && memchr("US", text[2], 2); /* "'<U7'", "'|S3'" */
    return ls_fail(LS_ERR_FORMAT,
                   "%s: byte %zu: elements of type %.*s, expected '<f4', '<f8', '|u1', '<i4' or "
                   "'<i8' (little-endian): %s",
                   c->file->path, begin, (int)chars, (const char *)text,
                   is_text ? "number the classes, numpy.unique(y, return_inverse=True)[1]"
                           : "save x.astype('<f4'), and labels as y.astype('<i8')");
}

static ls_status read_order(cursor *c)
{
    if (accept(c, "False")) return LS_OK;
    if (!accept(c, "True")) return fail_header(c, "False");
    return ls_fail(LS_ERR_FORMAT,
                   "%s: byte %zu: fortran_order is True, expected False: save "
                   "numpy.ascontiguousarray(x)",
                   c->file->path, c->at - 4);
}

static ls_status read_extent(cursor *c, size_t *out)
{
    enum { DIGITS_MAX = 18 };
    skip_spaces(c);
    const size_t begin = c->at;
    size_t value = 0;
    while (c->at < c->end && c->file->data[c->at] >= '0' && c->file->data[c->at] <= '9') {
        if (c->at - begin < DIGITS_MAX) value = value * 10 + (size_t)(c->file->data[c->at] - '0');
        c->at++;
    }
    if (c->at - begin > DIGITS_MAX) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: %.*s in the header's shape, a number of %zu "
                       "digits, expected at most %d", c->file->path, begin,
                       (int)(c->at - begin < 40 ? c->at - begin : 40),
                       (const char *)c->file->data + begin, c->at - begin, DIGITS_MAX);
    }
    if (c->at == begin) return fail_header(c, "a number of the shape");
    *out = value;
    return LS_OK;
}

static ls_status read_shape(cursor *c, ls_npy *out)
{
    LS_TRY(expect(c, "("));
    while (!accept(c, ")")) {
        if (out->dims == LS_NPY_DIMS_MAX) return fail_header(c, "at most 4 dimensions");
        LS_TRY(read_extent(c, &out->shape[out->dims++]));
        if (!accept(c, ",")) {
            LS_TRY(expect(c, ")"));
            break;
        }
    }
    return out->dims > 0 ? LS_OK : fail_header(c, "at least one dimension");
}

static ls_status read_dictionary(cursor *c, ls_npy *out)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    LS_TRY(expect(c, "{"));
    while (!accept(c, "}")) {
        int key = 0;
        if (accept(c, "'descr'")) {
            key = DESCR;
        } else if (accept(c, "'fortran_order'")) {
            key = ORDER;
        } else if (accept(c, "'shape'")) {
            key = SHAPE;
        }
        if (key == 0 || seen & key) {
            return fail_header(c, "each of 'descr', 'fortran_order', 'shape' once");
        }
        seen |= key;
        LS_TRY(expect(c, ":"));
        if (key == DESCR) LS_TRY(read_descr(c, out));
        if (key == ORDER) LS_TRY(read_order(c));
        if (key == SHAPE) LS_TRY(read_shape(c, out));
        if (!accept(c, ",")) {
            LS_TRY(expect(c, "}"));
            break;
        }
    }
    if (seen != (DESCR | ORDER | SHAPE)) {
        return fail_header(c, "each of 'descr', 'fortran_order', 'shape' once");
    }
    skip_spaces(c);
    return c->at == c->end ? LS_OK : fail_header(c, "the end");
}

/* Where the header's text lies: *c. */
static ls_status find_header(const ls_data_file *file, cursor *c)
{
    const unsigned char *data = file->data;
    if (file->bytes < 12 || memcmp(data, "\x93NUMPY", 6) != 0) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte 0: no .npy file: expected it to begin with 93 NUMPY", file->path);
    }
    if (data[6] < 1 || data[6] > 3 || data[7] != 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte 6: version %d.%d, expected 1.0, 2.0 or 3.0",
                       file->path, data[6], data[7]);
    }
    size_t bytes = (size_t)data[8] | (size_t)data[9] << 8;
    if (data[6] > 1) bytes |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    c->file = file;
    c->at = data[6] > 1 ? 12 : 10;
    if (bytes > file->bytes - c->at) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte 8: a header of %zu byte%s, the file has %zu after it", file->path,
                       bytes, LS_PLURAL(bytes), file->bytes - c->at);
    }
    c->end = c->at + bytes;
    return LS_OK;
}

/* Is the data as long as the shape says? */
static ls_status check_size(ls_npy *a)
{
    size_t bytes = a->element_bytes;
    bool overflow = false;
    a->per_record = 1;
    for (int i = 0; i < a->dims; i++) {
        if (a->shape[i] == 0) {
            return ls_fail(LS_ERR_FORMAT,
                           "%s: dimension %d of the header's shape is 0, expected 1 or more",
                           a->file->path, i + 1);
        }
        overflow = overflow || __builtin_mul_overflow(bytes, a->shape[i], &bytes);
        if (i > 0 && !overflow) a->per_record *= a->shape[i];
    }
    const size_t found = a->file->bytes - a->data_at;
    if (!overflow && bytes == found) return LS_OK;
    char expected[32] = "more than 2^64";
    if (!overflow) snprintf(expected, sizeof expected, "%zu", bytes);
    return ls_fail(LS_ERR_FORMAT,
                   "%s: byte %zu: %zu byte%s of data, expected %s by the header's shape",
                   a->file->path, a->data_at, found, LS_PLURAL(found), expected);
}

ls_status ls_npy_open(const ls_data_file *file, ls_npy *out)
{
    cursor c = { .at = 0 };
    *out = (ls_npy){ .file = file };
    LS_TRY(find_header(file, &c));
    LS_TRY(read_dictionary(&c, out));
    out->data_at = c.end;
    return check_size(out);
}

/* -- elements -------------------------------------------------------------------------------- */

bool ls_npy_is_float(const ls_npy *a) { return a->type == LS_NPY_F4 || a->type == LS_NPY_F8; }

size_t ls_npy_place(const ls_npy *a, size_t i) { return a->data_at + i * a->element_bytes; }

double ls_npy_float(const ls_npy *a, size_t i)
{
    const unsigned char *from = a->file->data + ls_npy_place(a, i);
    if (a->type == LS_NPY_F4) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    double value;
    memcpy(&value, from, sizeof value);
    return value;
}

int64_t ls_npy_whole(const ls_npy *a, size_t i)
{
    const unsigned char *from = a->file->data + ls_npy_place(a, i);
    if (a->type == LS_NPY_U1) return *from;
    if (a->type == LS_NPY_I4) {
        int32_t value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    int64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* -- writing --------------------------------------------------------------------------------- */

size_t ls_npy_header(size_t rows, size_t columns, unsigned char out[LS_NPY_HEADER_BYTES])
{
    enum { PREFIX_BYTES = 10, ALIGNMENT = 64 };
    char text[LS_NPY_HEADER_BYTES - PREFIX_BYTES];
    const int n = snprintf(text, sizeof text,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows,
                           columns);
    const size_t used = PREFIX_BYTES + (size_t)n + 1; /* with the newline that ends it */
    const size_t bytes = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(out, ' ', bytes);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (unsigned char)((bytes - PREFIX_BYTES) & 0xff);
    out[9] = (unsigned char)((bytes - PREFIX_BYTES) >> 8);
    memcpy(out + PREFIX_BYTES, text, (size_t)n);
    out[bytes - 1] = '\n';
    return bytes;
}
