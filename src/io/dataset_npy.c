/* SPDX-License-Identifier: MIT */
/* dataset_npy.c -- samples and answers as two NumPy arrays.
 *
 *     npy:X.npy[,Y.npy][,weights=W.npy][,test=X.npy,Y.npy|every:K|none][,scale=...][,bad=stop|skip]
 *
 * X: little-endian f4 or f8, or u1, in C order.   [N] or [N, C]   tables of 1 or C numbers
 *                                                 [N, H, W] or [N, H, W, C]   images
 * Y: without it the samples have no answers.
 *    i4, i8 or u1, [N] or [N, 1]: labels, whole numbers 0 .. 65535; the number of classes is the
 *    largest of both parts and 1.   f4 or f8, [N] or [N, K]: targets (regression).
 * W: any of these types, [N] or [N, 1]: weights of the training samples, 0 or more.
 *
 * test=every:K: each K-th record of X and Y is a test sample, as in csv. W has one for each record
 * all the same; those of test samples are not looked at.
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

/* A sample of a part, and the record of the arrays that it is; both from 0. */
typedef struct {
    ls_part part;
    size_t index, record;
} sample;

/* With `every` > 0 each every-th record is test, else all are of `part`. */
static sample sample_at(ls_part part, size_t every, size_t index)
{
    const size_t record = every == 0              ? index
                          : part == LS_PART_TEST ? index * every + every - 1
                                                 : index + index / (every - 1);
    return (sample){ .part = part, .index = index, .record = record };
}

/* Samples of `part` among so many records. */
static size_t samples_of(ls_part part, size_t every, size_t records)
{
    if (every == 0) return records;
    return part == LS_PART_TEST ? records / every : records - records / every;
}

/* Are the numbers of its record of a float array finite? If not, it is a bad record. */
static ls_status check_record(ls_dataset *dataset, sample at, const ls_npy *a)
{
    for (size_t k = 0; k < a->per_record; k++) {
        const size_t i = at.record * a->per_record + k;
        const double value = ls_npy_float(a, i);
        if (isfinite((float)value)) continue;
        LS_TRY(ls_dataset_bad_record(
            dataset, "%s: record %zu, element %zu (byte %zu): %g, expected a finite 32-bit number",
            a->file->path, at.record + 1, k + 1, ls_npy_place(a, i), ls_printable(value)));
        return ls_dataset_leave_out(dataset, at.part, at.index);
    }
    return LS_OK;
}

static ls_status read_label(ls_dataset *dataset, sample at, const ls_npy *y)
{
    const int64_t label = ls_npy_whole(y, at.record);
    if (label >= 0 && label < LS_CLASSES_MAX) {
        dataset->part[at.part].label[at.index] = (int32_t)label;
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): label %lld, expected 0..%d",
                                 y->file->path, at.record + 1, ls_npy_place(y, at.record),
                                 (long long)label, LS_CLASSES_MAX - 1));
    return ls_dataset_leave_out(dataset, at.part, at.index);
}

static void read_target(ls_dataset *dataset, sample at, const ls_npy *y)
{
    float *to = dataset->part[at.part].target + at.index * y->per_record;
    for (size_t k = 0; k < y->per_record; k++) {
        to[k] = (float)ls_npy_float(y, at.record * y->per_record + k);
    }
}

/* -- weights --------------------------------------------------------------------------------- */

static ls_status read_weight(ls_dataset *dataset, sample at, const ls_npy *w)
{
    const size_t n = at.record;
    const double weight = ls_npy_is_float(w) ? ls_npy_float(w, n) : (double)ls_npy_whole(w, n);
    if (weight >= 0 && isfinite((float)weight)) {
        dataset->part[LS_PART_TRAIN].weight[at.index] = (float)weight + 0.0f; /* -0 is 0 */
        return LS_OK;
    }
    LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): weight %g, expected a finite "
                                 "32-bit number, 0 or more", w->file->path, n + 1,
                                 ls_npy_place(w, n), ls_printable(weight)));
    return ls_dataset_leave_out(dataset, LS_PART_TRAIN, at.index);
}

/* Of so many records of X, of which each every-th is test. */
static ls_status open_weights(ls_dataset *dataset, const char *path, size_t records, size_t every)
{
    const size_t count = samples_of(LS_PART_TRAIN, every, records);
    ls_npy w;
    LS_TRY(open_array(dataset, path, &w));
    if (w.dims > 2 || w.per_record != 1 || w.shape[0] != records) {
        return ls_fail(LS_ERR_FORMAT, "%s: %zu record%s of %zu number%s, expected a weight for "
                       "each of %zu %s%s", path, w.shape[0], LS_PLURAL(w.shape[0]), w.per_record,
                       LS_PLURAL(w.per_record), records, every > 0 ? "record" : "training sample",
                       LS_PLURAL(records));
    }
    LS_TRY(ls_dataset_add_weights(dataset));
    for (size_t i = 0; i < count; i++)
        LS_TRY(read_weight(dataset, sample_at(LS_PART_TRAIN, every, i), &w));
    return LS_OK;
}

/* -- opening --------------------------------------------------------------------------------- */

static ls_status check_samples(const ls_npy *x)
{
    if (x->type != LS_NPY_I4 && x->type != LS_NPY_I8) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: samples are whole numbers of %zu bytes, expected '<f4', "
                   "'<f8' or '|u1': save x.astype('<f4')", x->file->path, x->element_bytes);
}

static ls_status check_answers(const ls_npy *x, const ls_npy *y)
{
    if (y->dims > 2 || (!ls_npy_is_float(y) && y->per_record != 1)) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: %d dimension%s, %zu number%s per record; expected labels [N] of "
                       "whole numbers (of one-hot rows, save y.argmax(1)), or targets [N, K] of "
                       "floats (of several labels a sample, y.astype('<f4'))",
                       y->file->path, y->dims, LS_PLURAL(y->dims), y->per_record,
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

static ls_task task_of(const ls_npy *y)
{
    return !y ? LS_TASK_NONE : ls_npy_is_float(y) ? LS_TASK_REGRESS : LS_TASK_CLASSIFY;
}

/* What the arrays say of the data set. y: NULL where there is none. */
static ls_dataset_info describe(const ls_npy *x, const ls_npy *y)
{
    const ls_task task = task_of(y);
    const bool is_image = x->dims >= 3;
    return (ls_dataset_info){
        .is_image = is_image,
        .height = is_image ? x->shape[1] : 1,
        .width = is_image ? x->shape[2] : 1,
        .channels = x->dims == 4 ? x->shape[3] : x->dims == 2 ? x->shape[1] : 1,
        .task = task,
        .outputs = task == LS_TASK_REGRESS ? y->per_record : 0,
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

/* The samples of `part`: as sample_at says, in one run. */
static ls_status add_run(ls_dataset *dataset, ls_part part, size_t every, const ls_npy *x)
{
    const size_t record_bytes = x->per_record * x->element_bytes;
    const bool strides = every > 0 && part == LS_PART_TEST;
    return ls_dataset_add_run(dataset, part, (ls_run){
        .x = x->file->data + x->data_at + sample_at(part, every, 0).record * record_bytes,
        .stride = strides ? every * record_bytes : record_bytes,
        .gap = every > 0 && !strides ? every - 1 : 0,
        .count = samples_of(part, every, x->shape[0]) });
}

/* Check a sample, and take its answer. */
static ls_status take_sample(ls_dataset *dataset, sample at, const ls_npy *x, const ls_npy *y)
{
    if (ls_npy_is_float(x)) LS_TRY(check_record(dataset, at, x));
    if (!y) return LS_OK;
    if (!ls_npy_is_float(y)) return read_label(dataset, at, y);
    LS_TRY(check_record(dataset, at, y));
    read_target(dataset, at, y);
    return LS_OK;
}

static ls_status take_part(ls_dataset *dataset, ls_part part, size_t every, const ls_npy *x,
                           const ls_npy *y)
{
    const size_t records = x->shape[0], count = samples_of(part, every, records);
    if (every > 0 && count == 0)
        return ls_dataset_warn_of_no_test(dataset, x->file->path, records, 0, every);
    LS_TRY(add_run(dataset, part, every, x));
    for (size_t i = 0; i < count; i++) {
        LS_TRY(take_sample(dataset, sample_at(part, every, i), x, y));
        if (ls_npy_is_float(x)) ls_dataset_walked(dataset, part, i);
    }
    return LS_OK;
}

/* y_path, y: NULL where there are no answers. */
static ls_status open_arrays(ls_dataset *dataset, const char *x_path, const char *y_path,
                             ls_npy *x, ls_npy *y)
{
    LS_TRY(open_array(dataset, x_path, x));
    LS_TRY(check_samples(x));
    if (!y) return LS_OK;
    LS_TRY(open_array(dataset, y_path, y));
    return check_answers(x, y);
}

static ls_status open_training(ls_dataset *dataset, size_t every)
{
    const ls_spec *spec = &dataset->spec;
    const ls_spec_item *weights = ls_spec_find(spec, "weights");
    const char *y_path = ls_spec_files(spec) > 1 ? ls_spec_file(spec, 1) : NULL;
    ls_npy x, answers, *y = y_path ? &answers : NULL;
    LS_TRY(open_arrays(dataset, ls_spec_file(spec, 0), y_path, &x, y));
    dataset->info = describe(&x, y);
    dataset->store = store_of(&x);
    LS_TRY(warn_of_order(dataset, &x));
    LS_TRY(take_part(dataset, LS_PART_TRAIN, every, &x, y));
    if (weights) LS_TRY(open_weights(dataset, weights->value, x.shape[0], every));
    return every > 0 ? take_part(dataset, LS_PART_TEST, every, &x, y) : LS_OK;
}

static ls_status open_test(ls_dataset *dataset, const ls_spec_item *test)
{
    ls_npy x, y;
    if (dataset->info.task == LS_TASK_NONE)
        return ls_fail(LS_ERR_ARGUMENT, "data spec npy: test=%s,%s has answers, and %s stands "
                       "alone, without", test->value, test->second,
                       ls_spec_file(&dataset->spec, 0));
    LS_TRY(open_arrays(dataset, test->value, test->second, &x, &y));
    LS_TRY(check_alike(dataset, &x, &y));
    return take_part(dataset, LS_PART_TEST, 0, &x, &y);
}

static ls_status open_npy(ls_dataset *dataset)
{
    const ls_spec_item *test = ls_spec_find(&dataset->spec, "test");
    size_t every = 0;
    if (test) LS_TRY(ls_spec_every(&dataset->spec, test, &every));
    const bool none = !test || (!test->second && strcmp(test->value, "none") == 0);
    if (!none && every == 0 && !test->second) {
        return ls_fail(LS_ERR_ARGUMENT, "data spec npy: test=%s, expected test=X.npy,Y.npy, "
                       "test=every:K or test=none", test->value);
    }
    LS_TRY(open_training(dataset, every));
    return none || every > 0 ? LS_OK : open_test(dataset, test);
}

static const char *const npy_keys[] = { "weights", "test", "scale", "bad", NULL };

const ls_dataset_format ls_dataset_npy = {
    .kind = "npy",
    .usage = "npy:X.npy,Y.npy[,weights=W.npy][,test=X.npy,Y.npy|every:K|none]"
             "[,scale=255|none|standard][,bad=stop|skip], or to predict X.npy alone",
    .keys = npy_keys,
    .files = 2,
    .files_least = 1,
    .open = open_npy,
};
