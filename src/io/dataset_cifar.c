/* SPDX-License-Identifier: MIT */
/* dataset_cifar.c -- the binary releases of CIFAR-10 and CIFAR-100.
 *
 *     cifar10:DIR[,scale=255|none|standard][,bad=stop|skip]
 *     cifar100:DIR[,label=fine|coarse][,scale=255|none|standard][,bad=stop|skip]
 *
 *                  training part            test part        names of classes
 *     cifar10      data_batch_1.bin         test_batch.bin   batches.meta.txt
 *                  .. data_batch_5.bin
 *     cifar100     train.bin                test.bin         fine_label_names.txt,
 *                                                            coarse_label_names.txt
 *
 * Of the training files those that are there, in order, are the training part; at least one. The
 * test file may be absent (then there is no test part), and the names may (then classes have none).
 * A .bin file is a run of records without a header:
 *
 *     cifar10      label 0..9                       | 1024 red | 1024 green | 1024 blue
 *     cifar100     coarse 0..19 | fine 0..99        | 1024 red | 1024 green | 1024 blue
 *
 * each plane row by row, so the number of records is the size divided by 3073 or 3074, and nothing
 * may be left over. Of cifar100's two labels both are checked and one is used. Samples stay in the
 * mapped files; reading makes [32, 32, 3] of the planes.
 *
 * A file of names has a line for each class; empty lines may follow. LF or CRLF. A name has 1 to
 * 255 bytes, none of them a control character.
 *
 * [A. Krizhevsky, "Learning multiple layers of features from tiny images", technical report,
 *  University of Toronto, 2009.]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "plural.h"

enum { SIDE = 32, CHANNELS = 3, PIXELS = SIDE * SIDE * CHANNELS, LABELS_MAX = 2, FILES_MAX = 5 };

/* What tells the two releases apart. */
typedef struct {
    const char *title;                 /* "CIFAR-10" */
    const char *records;               /* what a file holds, for messages */
    const char *other;                 /* the other release */
    size_t other_record;               /* bytes of its records */
    const char *train[FILES_MAX + 1];  /* ended by NULL */
    const char *test;
    size_t labels;                     /* bytes before the pixels, each a label */
    struct {
        const char *name;              /* "fine ": before "label" in messages */
        size_t classes;
        const char *names;             /* the file of their names */
    } label[LABELS_MAX];
} release;

static const release cifar10 = {
    .title = "CIFAR-10",
    .records = "CIFAR-10 records",
    .other = "CIFAR-100",
    .other_record = 2 + PIXELS,
    .train = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
               "data_batch_5.bin" },
    .test = "test_batch.bin",
    .labels = 1,
    .label = { { "", 10, "batches.meta.txt" } },
};

static const release cifar100 = {
    .title = "CIFAR-100",
    .records = "CIFAR-100 records",
    .other = "CIFAR-10",
    .other_record = 1 + PIXELS,
    .train = { "train.bin" },
    .test = "test.bin",
    .labels = 2,
    .label = { { "coarse ", 20, "coarse_label_names.txt" },
               { "fine ", 100, "fine_label_names.txt" } },
};

/* -- records --------------------------------------------------------------------------------- */

static size_t record_bytes(const release *r) { return r->labels + PIXELS; }

static ls_status check_size(const release *r, const ls_data_file *file)
{
    const size_t record = record_bytes(r);
    const size_t records = file->bytes / record, rest = file->bytes % record;
    if (rest == 0) return LS_OK;
    char hint[128] = "";
    if (file->bytes % r->other_record == 0) {
        snprintf(hint, sizeof hint, "; this many bytes are whole records of %s", r->other);
    }
    if (rest == 1 && file->data[file->bytes - 1] == '\n') {
        snprintf(hint, sizeof hint, "; the last byte is a line feed, as an editor adds it");
    }
    return ls_fail(LS_ERR_FORMAT,
                   "%s: record %zu (byte %zu): %zu byte%s, expected whole records of %zu bytes%s",
                   file->path, records + 1, records * record, rest, LS_PLURAL(rest), record, hint);
}

/* Are the labels of record i of the file in range? If not, *good is false, the record bad. */
static ls_status check_labels(ls_dataset *dataset, const release *r, const ls_data_file *file,
                              size_t i, bool *good)
{
    const size_t at = i * record_bytes(r);
    *good = true;
    for (size_t k = 0; k < r->labels; k++) {
        const unsigned char label = file->data[at + k];
        if (label < r->label[k].classes) continue;
        *good = false;
        return ls_dataset_bad_record(dataset,
                                     "%s: record %zu (byte %zu): %slabel %d, expected 0..%zu",
                                     file->path, i + 1, at + k, r->label[k].name, label,
                                     r->label[k].classes - 1);
    }
    return LS_OK;
}

/* Copy and check the labels of the `count` samples that were added last; the one at byte `used` of
 * a record is the sample's. */
static ls_status read_labels(ls_dataset *dataset, const release *r, size_t used, ls_part part,
                             const ls_data_file *file, size_t count)
{
    ls_part_data *data = &dataset->part[part];
    const size_t first = data->stored - count;
    bool all_equal = true;
    for (size_t i = 0; i < count; i++) {
        const unsigned char label = file->data[i * record_bytes(r) + used];
        bool good;
        all_equal = all_equal && label == file->data[used];
        data->label[first + i] = label;
        LS_TRY(check_labels(dataset, r, file, i, &good));
        if (!good) LS_TRY(ls_dataset_leave_out(dataset, part, first + i));
        ls_dataset_walked(dataset, part, first + i);
    }
    if (!all_equal || count == 1) return LS_OK;
    return ls_dataset_warn(dataset, "%s: all %zu labels are %d", file->path, count,
                           file->data[used]);
}

static ls_status add_batch(ls_dataset *dataset, const release *r, size_t used, const char *folder,
                           const char *name, ls_part part)
{
    const ls_data_file *file = NULL;
    const size_t record = record_bytes(r);
    LS_TRY(ls_dataset_file_in(dataset, folder, name, r->records, &file));
    LS_TRY(check_size(r, file));
    const size_t count = file->bytes / record;
    LS_TRY(ls_dataset_add_run(
        dataset, part, (ls_run){ .x = file->data + r->labels, .stride = record, .count = count }));
    return read_labels(dataset, r, used, part, file, count);
}

/* -- class names ----------------------------------------------------------------------------- */

static ls_status read_name(ls_dataset *dataset, const ls_data_file *file, size_t line,
                           const char *text, size_t chars)
{
    const size_t classes = dataset->info.classes;
    if (line > classes) {
        return ls_fail(LS_ERR_FORMAT, "%s: line %zu: one more class name, expected %zu",
                       file->path, line, classes);
    }
    if (chars >= LS_CLASS_NAME_BYTES) {
        return ls_fail(LS_ERR_FORMAT, "%s: line %zu: a class name of %zu bytes, at most %d",
                       file->path, line, chars, LS_CLASS_NAME_BYTES - 1);
    }
    for (size_t i = 0; i < chars; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != 0x7f) continue;
        return ls_fail(LS_ERR_FORMAT, "%s: line %zu: byte %02x in a class name, expected text",
                       file->path, line, c);
    }
    memcpy(dataset->class_name[line - 1], text, chars);
    return LS_OK;
}

static ls_status read_names(ls_dataset *dataset, const char *folder, const char *name)
{
    const size_t classes = dataset->info.classes;
    const ls_data_file *file = NULL;
    LS_TRY(ls_dataset_file_in(dataset, folder, name, "class names", &file));
    dataset->class_name = calloc(classes, sizeof *dataset->class_name);
    if (!dataset->class_name) return ls_fail(LS_ERR_MEMORY, "no memory for class names");

    const char *text = (const char *)file->data;
    size_t names = 0, line = 0;
    for (size_t at = 0; at < file->bytes;) {
        const char *end = memchr(text + at, '\n', file->bytes - at);
        const size_t with_cr = end ? (size_t)(end - (text + at)) : file->bytes - at;
        const size_t chars =
            with_cr > 0 && text[at + with_cr - 1] == '\r' ? with_cr - 1 : with_cr;
        line++;
        if (chars > 0) {
            if (names + 1 < line) {
                return ls_fail(LS_ERR_FORMAT, "%s: line %zu: an empty line, expected a class name",
                               file->path, names + 1);
            }
            LS_TRY(read_name(dataset, file, line, text + at, chars));
            names = line;
        }
        at += with_cr + 1;
    }
    if (names == classes) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: line %zu is the last class name, expected %zu names",
                   file->path, names, classes);
}

/* -- opening --------------------------------------------------------------------------------- */

static ls_status add_training_batches(ls_dataset *dataset, const release *r, size_t used,
                                      const char *folder)
{
    int found = 0, last = -1, missing = -1; /* missing: the first that a later one is without */
    for (int i = 0; r->train[i]; i++) {
        if (!ls_dataset_has_file(folder, r->train[i])) continue;
        LS_TRY(add_batch(dataset, r, used, folder, r->train[i], LS_PART_TRAIN));
        if (i > last + 1 && missing < 0) missing = last + 1;
        last = i;
        found++;
    }
    if (found == 0) {
        int count = 1;
        while (r->train[count]) count++;
        return ls_fail(LS_ERR_FORMAT, "%s: no file %s%s%s, expected the binary release of %s",
                       folder, r->train[0], count > 1 ? " .. " : "",
                       count > 1 ? r->train[count - 1] : "", r->title);
    }
    if (missing < 0) return LS_OK;
    return ls_dataset_warn(dataset, "%s: %s is not there, a later one is", folder,
                           r->train[missing]);
}

/* `used`: which of a record's labels is the sample's. */
static ls_status open_release(ls_dataset *dataset, const release *r, size_t used)
{
    const char *folder = ls_spec_file(&dataset->spec, 0);
    dataset->store = LS_STORE_U8_PLANES;
    dataset->info = (ls_dataset_info){
        .is_image = true,
        .height = SIDE,
        .width = SIDE,
        .channels = CHANNELS,
        .task = LS_TASK_CLASSIFY,
        .classes = r->label[used].classes,
    };
    LS_TRY(add_training_batches(dataset, r, used, folder));
    if (ls_dataset_has_file(folder, r->test)) {
        LS_TRY(add_batch(dataset, r, used, folder, r->test, LS_PART_TEST));
    } else {
        LS_TRY(ls_dataset_warn(dataset, "%s: no %s, so there is no test part", folder, r->test));
    }
    if (!ls_dataset_has_file(folder, r->label[used].names)) return LS_OK;
    return read_names(dataset, folder, r->label[used].names);
}

static ls_status open_cifar10(ls_dataset *dataset) { return open_release(dataset, &cifar10, 0); }

static ls_status open_cifar100(ls_dataset *dataset)
{
    static const char *const choices[] = { "fine", "coarse", NULL };
    int choice = 0;
    LS_TRY(ls_spec_choice(&dataset->spec, "label", choices, &choice));
    return open_release(dataset, &cifar100, choice == 0 ? 1 : 0);
}

static const char *const cifar10_keys[] = { "scale", "bad", NULL };
static const char *const cifar100_keys[] = { "label", "scale", "bad", NULL };

const ls_dataset_format ls_dataset_cifar10 = {
    .kind = "cifar10",
    .usage = "cifar10:DIR[,scale=255|none|standard][,bad=stop|skip]",
    .keys = cifar10_keys,
    .files = 1,
    .open = open_cifar10,
};

const ls_dataset_format ls_dataset_cifar100 = {
    .kind = "cifar100",
    .usage = "cifar100:DIR[,label=fine|coarse][,scale=255|none|standard][,bad=stop|skip]",
    .keys = cifar100_keys,
    .files = 1,
    .open = open_cifar100,
};
