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
 * What a .npy file is and how strictly its header is read: npy.h. Every float must be finite, also
 * as a 32-bit one. X stays in the mapped file, which may be larger than the memory (data_file.h).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "io/npy.h"
#include "plural.h"
#include "printable.h"

static ls_status open_array(ls_dataset *dataset, const char *path, ls_npy *out)
{
    const ls_data_file *file = NULL;
    LS_TRY(ls_dataset_file(dataset, path, "a .npy array", &file));
    return ls_npy_open(file, out);
}

/* -- records --------------------------------------------------------------------------------- */

/* Are the numbers of record n of a float array finite? If not, it is a bad record of `part`. */
static ls_status check_record(ls_dataset *dataset, ls_part part, const ls_npy *a, size_t n)
{
    for (size_t k = 0; k < a->per_record; k++) {
        const size_t i = n * a->per_record + k;
        const double value = ls_npy_float(a, i);
        if (isfinite((float)value)) continue;
        LS_TRY(ls_dataset_bad_record(
            dataset, "%s: record %zu, element %zu (byte %zu): %g, expected a finite 32-bit number",
            a->file->path, n + 1, k + 1, ls_npy_place(a, i), ls_printable(value)));
        return ls_dataset_leave_out(dataset, part, n);
    }
    return LS_OK;
}

static ls_status read_label(ls_dataset *dataset, ls_part part, const ls_npy *y, size_t n)
{
    const int64_t label = ls_npy_whole(y, n);
    if (label >= 0 && label < LS_CLASSES_MAX) {
        dataset->part[part].label[n] = (int32_t)label;
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): label %lld, expected 0..%d",
                                 y->file->path, n + 1, ls_npy_place(y, n), (long long)label,
                                 LS_CLASSES_MAX - 1));
    return ls_dataset_leave_out(dataset, part, n);
}

static void read_target(ls_dataset *dataset, ls_part part, const ls_npy *y, size_t n)
{
    float *to = dataset->part[part].target + n * y->per_record;
    for (size_t k = 0; k < y->per_record; k++) {
        to[k] = (float)ls_npy_float(y, n * y->per_record + k);
    }
}

/* -- weights --------------------------------------------------------------------------------- */

static ls_status read_weight(ls_dataset *dataset, const ls_npy *w, size_t n)
{
    const double weight = ls_npy_is_float(w) ? ls_npy_float(w, n) : (double)ls_npy_whole(w, n);
    if (weight >= 0 && isfinite((float)weight)) {
        dataset->part[LS_PART_TRAIN].weight[n] = (float)weight + 0.0f; /* -0 is 0 */
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): weight %g, expected a finite "
                                 "32-bit number, 0 or more", w->file->path, n + 1,
                                 ls_npy_place(w, n), ls_printable(weight)));
    return ls_dataset_leave_out(dataset, LS_PART_TRAIN, n);
}

static ls_status open_weights(ls_dataset *dataset, const char *path)
{
    const size_t count = dataset->part[LS_PART_TRAIN].stored;
    ls_npy w;
    LS_TRY(open_array(dataset, path, &w));
    if (w.dims > 2 || w.per_record != 1 || w.shape[0] != count) {
        return ls_fail(LS_ERR_FORMAT, "%s: %zu record%s of %zu number%s, expected a weight for "
                       "each of %zu training sample%s", path, w.shape[0], LS_PLURAL(w.shape[0]),
                       w.per_record, LS_PLURAL(w.per_record), count, LS_PLURAL(count));
    }
    LS_TRY(ls_dataset_add_weights(dataset));
    for (size_t n = 0; n < count; n++) LS_TRY(read_weight(dataset, &w, n));
    return LS_OK;
}

/* -- opening --------------------------------------------------------------------------------- */

static ls_status check_kinds(const ls_npy *x, const ls_npy *y)
{
    if (x->type == LS_NPY_I4 || x->type == LS_NPY_I8) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: samples are whole numbers of %zu bytes, expected '<f4', '<f8' or "
                       "'|u1': save x.astype('<f4')", x->file->path, x->element_bytes);
    }
    if (y->dims > 2 || (!ls_npy_is_float(y) && y->per_record != 1)) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: %d dimension%s, %zu number%s per record; expected labels [N] of "
                       "whole numbers (of one-hot rows, save y.argmax(1)), or targets [N, K] of "
                       "floats", y->file->path, y->dims, LS_PLURAL(y->dims), y->per_record,
                       LS_PLURAL(y->per_record));
    }
    if (x->shape[0] != y->shape[0]) {
        return ls_fail(LS_ERR_FORMAT, "%s: %zu record%s, expected %zu, as %s has", y->file->path,
                       y->shape[0], LS_PLURAL(y->shape[0]), x->shape[0], x->file->path);
    }
    return LS_OK;
}

/* Pictures as PyTorch has them, [N, C, H, W], are pictures too, of 1 or 3 rows and many channels;
 * hardly anybody means those. A row of a signal of some channels is no square. */
static ls_status warn_of_order(ls_dataset *dataset, const ls_npy *x)
{
    const size_t rows = x->shape[1], columns = x->shape[2], channels = x->shape[3];
    if (x->dims != 4 || channels <= 4 || columns <= 4) return LS_OK;
    if (rows != 3 && (rows != 1 || columns != channels)) return LS_OK;
    return ls_dataset_warn(dataset, "%s: pictures of %zu row%s, %zu columns and %zu channels; "
                           "where the channels come first, save x.transpose(0, 2, 3, 1).copy()",
                           x->file->path, rows, LS_PLURAL(rows), columns, channels);
}

/* What the arrays say of the data set. */
static ls_dataset_info describe(const ls_npy *x, const ls_npy *y)
{
    const bool is_image = x->dims >= 3;
    return (ls_dataset_info){
        .is_image = is_image,
        .height = is_image ? x->shape[1] : 1,
        .width = is_image ? x->shape[2] : 1,
        .channels = x->dims == 4 ? x->shape[3] : x->dims == 2 ? x->shape[1] : 1,
        .task = ls_npy_is_float(y) ? LS_TASK_REGRESS : LS_TASK_CLASSIFY,
        .outputs = ls_npy_is_float(y) ? y->per_record : 0,
    };
}

static ls_store store_of(const ls_npy *x)
{
    return x->type == LS_NPY_U1 ? LS_STORE_U8 : x->type == LS_NPY_F4 ? LS_STORE_F32 : LS_STORE_F64;
}

/* "a label, a whole number", "3 floats": what a record of Y is. */
static const char *target_text(const ls_dataset_info *info, char out[48])
{
    if (info->task == LS_TASK_CLASSIFY) snprintf(out, 48, "a label, a whole number");
    else snprintf(out, 48, "%zu float%s", info->outputs, LS_PLURAL(info->outputs));
    return out;
}

/* Must the test part be like the training part? Yes: shape, type of X, task. */
static ls_status check_alike(const ls_dataset *dataset, const ls_npy *x, const ls_npy *y)
{
    const ls_dataset_info a = dataset->info, b = describe(x, y);
    if (a.is_image != b.is_image || a.height != b.height || a.width != b.width ||
        a.channels != b.channels) {
        return ls_fail(LS_ERR_FORMAT, "%s: samples of %zux%zux%zu, expected %zux%zux%zu, as in "
                       "training", x->file->path, b.height, b.width, b.channels, a.height, a.width,
                       a.channels);
    }
    if (dataset->store != store_of(x)) {
        return ls_fail(LS_ERR_FORMAT, "%s: elements of %zu byte%s, expected the type that X has in "
                       "training", x->file->path, x->element_bytes, LS_PLURAL(x->element_bytes));
    }
    if (a.task != b.task || a.outputs != b.outputs) {
        char found[48], expected[48];
        return ls_fail(LS_ERR_FORMAT, "%s: a record is %s, expected %s, as in training",
                       y->file->path, target_text(&b, found), target_text(&a, expected));
    }
    return LS_OK;
}

static ls_status open_part(ls_dataset *dataset, ls_part part, const char *x_path,
                           const char *y_path)
{
    ls_npy x, y;
    LS_TRY(open_array(dataset, x_path, &x));
    LS_TRY(open_array(dataset, y_path, &y));
    LS_TRY(check_kinds(&x, &y));
    if (part == LS_PART_TRAIN) {
        dataset->info = describe(&x, &y);
        dataset->store = store_of(&x);
        LS_TRY(warn_of_order(dataset, &x));
    } else {
        LS_TRY(check_alike(dataset, &x, &y));
    }
    const size_t count = x.shape[0];
    LS_TRY(ls_dataset_add_run(dataset, part,
                              (ls_run){ .x = x.file->data + x.data_at,
                                        .stride = x.per_record * x.element_bytes,
                                        .count = count }));
    for (size_t n = 0; n < count; n++) {
        if (ls_npy_is_float(&x)) LS_TRY(check_record(dataset, part, &x, n));
        if (ls_npy_is_float(&y)) {
            LS_TRY(check_record(dataset, part, &y, n));
            read_target(dataset, part, &y, n);
        } else {
            LS_TRY(read_label(dataset, part, &y, n));
        }
        if (ls_npy_is_float(&x)) ls_dataset_walked(dataset, part, n);
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
