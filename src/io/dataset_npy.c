/* SPDX-License-Identifier: MIT */
/* dataset_npy.c -- samples and answers as two NumPy arrays.
 *
 *     npy:X.npy,Y.npy[,weights=W.npy][,test=X.npy,Y.npy][,scale=...][,bad=stop|skip]
 *
 * X: little-endian f4 or f8, or u1, in C order.   [N] or [N, C]   tables of 1 or C numbers
 *                                                 [N, H, W] or [N, H, W, C]   images
 * Y: i4, i8 or u1, [N] or [N, 1]: labels, whole numbers 0 .. 65535; the number of classes is the
 *    largest of both parts and 1.   f4 or f8, [N] or [N, K]: targets (regression).
 * W: any of these types, [N] or [N, 1]: weights of the training samples, 0 or more.
 *
 * A .npy file [R. Kern, "A simple file format for NumPy arrays", NumPy Enhancement Proposal 1,
 * 2007]:
 *
 *     byte 0   93 'N' 'U' 'M' 'P' 'Y'
 *          6   version: 1 0, 2 0 or 3 0
 *          8   length H of the header: 2 bytes little-endian (version 1), else 4
 *     10 / 12  the header, H bytes, a Python literal:
 *              {'descr': '<f4', 'fortran_order': False, 'shape': (100, 28, 28), }
 *              padded with spaces, ended by a line feed; then the data to the end of the file
 *
 * The header is read strictly: these three keys, each once, in any order. The data's size must be
 * what the header says, to the byte. Every float must be finite, also as a 32-bit one. X stays in
 * the mapped file, which may be larger than the memory (data_file.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"

enum { DIMS_MAX = 4 };
typedef enum { TYPE_U1, TYPE_I4, TYPE_I8, TYPE_F4, TYPE_F8 } element_type;

static const struct {
    const char *descr;
    element_type type;
    size_t bytes;
} known_types[] = {
    { "|u1", TYPE_U1, 1 }, { "<u1", TYPE_U1, 1 }, { "<i4", TYPE_I4, 4 },
    { "<i8", TYPE_I8, 8 }, { "<f4", TYPE_F4, 4 }, { "<f8", TYPE_F8, 8 },
};

typedef struct {
    const ls_data_file *file;  /* borrowed */
    element_type type;
    size_t element_bytes;
    int dims;
    size_t shape[DIMS_MAX];
    size_t per_record;         /* elements of one record: the product of shape[1..] */
    size_t data_at;            /* byte where the data begins */
} array;

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
    return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: byte %02x in the header, expected %s",
                   c->file->path, c->at, c->file->data[c->at], expected);
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

static ls_status read_descr(cursor *c, array *out)
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
    return ls_fail(LS_ERR_FORMAT,
                   "%s: byte %zu: elements of type %.*s, expected '<f4', '<f8', '|u1', '<i4' or "
                   "'<i8' (little-endian)",
                   c->file->path, begin, (int)chars, (const char *)text);
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
        value = value * 10 + (size_t)(c->file->data[c->at++] - '0');
        if (c->at - begin > DIGITS_MAX) return fail_header(c, "at most 18 digits");
    }
    if (c->at == begin) return fail_header(c, "a number of the shape");
    *out = value;
    return LS_OK;
}

static ls_status read_shape(cursor *c, array *out)
{
    LS_TRY(expect(c, "("));
    while (!accept(c, ")")) {
        if (out->dims == DIMS_MAX) return fail_header(c, "at most 4 dimensions");
        LS_TRY(read_extent(c, &out->shape[out->dims++]));
        if (!accept(c, ",")) {
            LS_TRY(expect(c, ")"));
            break;
        }
    }
    return out->dims > 0 ? LS_OK : fail_header(c, "at least one dimension");
}

static ls_status read_dictionary(cursor *c, array *out)
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
                       "%s: byte 8: a header of %zu bytes, the file has %zu after it", file->path,
                       bytes, file->bytes - c->at);
    }
    c->end = c->at + bytes;
    return LS_OK;
}

/* Is the data as long as the shape says? */
static ls_status check_size(array *a)
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
                   "%s: byte %zu: %zu bytes of data, expected %s by the header's shape",
                   a->file->path, a->data_at, found, expected);
}

static ls_status open_array(ls_dataset *dataset, const char *path, array *out)
{
    cursor c = { .at = 0 };
    *out = (array){ .dims = 0 };
    LS_TRY(ls_dataset_file(dataset, path, "a .npy array", &out->file));
    LS_TRY(find_header(out->file, &c));
    LS_TRY(read_dictionary(&c, out));
    out->data_at = c.end;
    return check_size(out);
}

/* -- elements -------------------------------------------------------------------------------- */

static bool is_float(const array *a) { return a->type == TYPE_F4 || a->type == TYPE_F8; }

static size_t element_at(const array *a, size_t i) { return a->data_at + i * a->element_bytes; }

static double read_float(const array *a, size_t i)
{
    const unsigned char *from = a->file->data + element_at(a, i);
    if (a->type == TYPE_F4) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    double value;
    memcpy(&value, from, sizeof value);
    return value;
}

static int64_t read_whole(const array *a, size_t i)
{
    const unsigned char *from = a->file->data + element_at(a, i);
    if (a->type == TYPE_U1) return *from;
    if (a->type == TYPE_I4) {
        int32_t value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    int64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Are the numbers of record n of a float array finite? If not, it is a bad record of `part`. */
static ls_status check_record(ls_dataset *dataset, ls_part part, const array *a, size_t n)
{
    for (size_t k = 0; k < a->per_record; k++) {
        const size_t i = n * a->per_record + k;
        const double value = read_float(a, i);
        if (isfinite((float)value)) continue;
        LS_TRY(ls_dataset_bad_record(
            dataset, "%s: record %zu, element %zu (byte %zu): %g, expected a finite 32-bit number",
            a->file->path, n + 1, k + 1, element_at(a, i), value));
        return ls_dataset_leave_out(dataset, part, n);
    }
    return LS_OK;
}

static ls_status read_label(ls_dataset *dataset, ls_part part, const array *y, size_t n)
{
    const int64_t label = read_whole(y, n);
    if (label >= 0 && label < LS_CLASSES_MAX) {
        dataset->part[part].label[n] = (int32_t)label;
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): label %lld, expected 0..%d",
                                 y->file->path, n + 1, element_at(y, n), (long long)label,
                                 LS_CLASSES_MAX - 1));
    return ls_dataset_leave_out(dataset, part, n);
}

static void read_target(ls_dataset *dataset, ls_part part, const array *y, size_t n)
{
    float *to = dataset->part[part].target + n * y->per_record;
    for (size_t k = 0; k < y->per_record; k++) to[k] = (float)read_float(y, n * y->per_record + k);
}

/* -- weights --------------------------------------------------------------------------------- */

static ls_status read_weight(ls_dataset *dataset, const array *w, size_t n)
{
    const double weight = is_float(w) ? read_float(w, n) : (double)read_whole(w, n);
    if (weight >= 0 && isfinite((float)weight)) {
        dataset->part[LS_PART_TRAIN].weight[n] = (float)weight + 0.0f; /* -0 is 0 */
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): weight %g, expected a finite "
                                 "32-bit number, 0 or more", w->file->path, n + 1,
                                 element_at(w, n), weight));
    return ls_dataset_leave_out(dataset, LS_PART_TRAIN, n);
}

static ls_status open_weights(ls_dataset *dataset, const char *path)
{
    const size_t count = dataset->part[LS_PART_TRAIN].stored;
    array w;
    LS_TRY(open_array(dataset, path, &w));
    if (w.dims > 2 || w.per_record != 1 || w.shape[0] != count) {
        return ls_fail(LS_ERR_FORMAT, "%s: %zu records of %zu numbers, expected a weight for each "
                       "of the %zu training samples", path, w.shape[0], w.per_record, count);
    }
    LS_TRY(ls_dataset_add_weights(dataset));
    for (size_t n = 0; n < count; n++) LS_TRY(read_weight(dataset, &w, n));
    return LS_OK;
}

/* -- opening --------------------------------------------------------------------------------- */

static ls_status check_kinds(const array *x, const array *y)
{
    if (x->type == TYPE_I4 || x->type == TYPE_I8) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: samples are whole numbers of %zu bytes, expected '<f4', '<f8' or '|u1'",
                       x->file->path, x->element_bytes);
    }
    if (y->dims > 2 || (!is_float(y) && y->per_record != 1)) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: %d dimensions, %zu numbers per record; expected labels [N] or "
                       "targets [N, K]", y->file->path, y->dims, y->per_record);
    }
    if (x->shape[0] != y->shape[0]) {
        return ls_fail(LS_ERR_FORMAT, "%s: %zu records, expected %zu, as %s has", y->file->path,
                       y->shape[0], x->shape[0], x->file->path);
    }
    return LS_OK;
}

/* What the arrays say of the data set. */
static ls_dataset_info describe(const array *x, const array *y)
{
    const bool is_image = x->dims >= 3;
    return (ls_dataset_info){
        .is_image = is_image,
        .height = is_image ? x->shape[1] : 1,
        .width = is_image ? x->shape[2] : 1,
        .channels = x->dims == 4 ? x->shape[3] : x->dims == 2 ? x->shape[1] : 1,
        .task = is_float(y) ? LS_TASK_REGRESS : LS_TASK_CLASSIFY,
        .outputs = is_float(y) ? y->per_record : 0,
    };
}

static ls_store store_of(const array *x)
{
    return x->type == TYPE_U1 ? LS_STORE_U8 : x->type == TYPE_F4 ? LS_STORE_F32 : LS_STORE_F64;
}

/* Must the test part be like the training part? Yes: shape, type of X, task. */
static ls_status check_alike(const ls_dataset *dataset, const array *x, const array *y)
{
    const ls_dataset_info a = dataset->info, b = describe(x, y);
    if (a.is_image == b.is_image && a.height == b.height && a.width == b.width &&
        a.channels == b.channels && dataset->store == store_of(x) && a.task == b.task &&
        a.outputs == b.outputs) {
        return LS_OK;
    }
    return ls_fail(LS_ERR_FORMAT,
                   "%s: samples of %zux%zux%zu, %zu targets; expected %zux%zux%zu, %zu targets "
                   "and the same types, as in training",
                   x->file->path, b.height, b.width, b.channels, b.outputs, a.height, a.width,
                   a.channels, a.outputs);
}

static ls_status open_part(ls_dataset *dataset, ls_part part, const char *x_path,
                           const char *y_path)
{
    array x, y;
    LS_TRY(open_array(dataset, x_path, &x));
    LS_TRY(open_array(dataset, y_path, &y));
    LS_TRY(check_kinds(&x, &y));
    if (part == LS_PART_TRAIN) {
        dataset->info = describe(&x, &y);
        dataset->store = store_of(&x);
    } else {
        LS_TRY(check_alike(dataset, &x, &y));
    }
    const size_t count = x.shape[0];
    LS_TRY(ls_dataset_add_run(dataset, part,
                              (ls_run){ .x = x.file->data + x.data_at,
                                        .stride = x.per_record * x.element_bytes,
                                        .count = count }));
    for (size_t n = 0; n < count; n++) {
        if (is_float(&x)) LS_TRY(check_record(dataset, part, &x, n));
        if (is_float(&y)) {
            LS_TRY(check_record(dataset, part, &y, n));
            read_target(dataset, part, &y, n);
        } else {
            LS_TRY(read_label(dataset, part, &y, n));
        }
        if (is_float(&x)) ls_dataset_walked(dataset, part, n);
    }
    return LS_OK;
}

static ls_status open_npy(ls_dataset *dataset)
{
    const ls_spec *spec = &dataset->spec;
    const ls_spec_item *test = ls_spec_find(spec, "test");
    const ls_spec_item *weights = ls_spec_find(spec, "weights");
    if (test && !test->second && strcmp(test->value, "none") != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "data spec npy: test=%s, expected test=X.npy,Y.npy",
                       test->value);
    }
    LS_TRY(open_part(dataset, LS_PART_TRAIN, ls_spec_file(spec, 0), ls_spec_file(spec, 1)));
    if (weights) LS_TRY(open_weights(dataset, weights->value));
    if (!test || !test->second) return LS_OK;
    return open_part(dataset, LS_PART_TEST, test->value, test->second);
}

static const char *const npy_keys[] = { "weights", "test", "scale", "bad", NULL };

const ls_dataset_format ls_dataset_npy = {
    .kind = "npy",
    .usage = "npy:X.npy,Y.npy[,weights=W.npy][,test=X.npy,Y.npy][,scale=255|none|standard]"
             "[,bad=stop|skip]",
    .keys = npy_keys,
    .files = 2,
    .open = open_npy,
};
