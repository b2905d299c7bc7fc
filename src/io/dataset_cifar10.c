/* SPDX-License-Identifier: MIT */
/* dataset_cifar10.c -- the binary release of CIFAR-10.
 *
 *     cifar10:DIR[,scale=255|none|standard][,bad=stop|skip]
 *
 * DIR holds data_batch_1.bin .. data_batch_5.bin (those that are there, in order, are the training
 * part; at least one), test_batch.bin (may be absent: then there is no test part) and
 * batches.meta.txt (may be absent: then classes have no names). A .bin file is a run of records of
 * 3073 bytes without a header:
 *
 *     label 0..9 | 1024 red | 1024 green | 1024 blue        each plane row by row
 *
 * so the number of records is the size divided by 3073, and nothing may be left over. Samples stay
 * in the mapped files; reading makes [32, 32, 3] of the planes.
 *
 * batches.meta.txt has ten lines, a name each; empty lines may follow. LF or CRLF. A name has 1 to
 * 255 bytes, none of them a control character.
 *
 * [A. Krizhevsky, "Learning multiple layers of features from tiny images", technical report,
 *  University of Toronto, 2009.]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"

enum {
    SIDE = 32,
    CHANNELS = 3,
    PIXELS = SIDE * SIDE * CHANNELS,
    RECORD = 1 + PIXELS,
    CLASSES = 10,
    BATCH_FILES = 5
};

/* -- records --------------------------------------------------------------------------------- */

static ls_status check_size(const ls_data_file *file)
{
    const size_t records = file->bytes / RECORD, rest = file->bytes % RECORD;
    if (rest == 0) return LS_OK;
    const char *hint = "";
    if (file->bytes % (RECORD + 1) == 0) hint = "; this many bytes are whole records of CIFAR-100";
    if (rest == 1 && file->data[file->bytes - 1] == '\n') {
        hint = "; the last byte is a line feed, as an editor adds it";
    }
    return ls_fail(LS_ERR_FORMAT,
                   "%s: record %zu (byte %zu): %zu byte%s, expected whole records of %d bytes%s",
                   file->path, records + 1, records * RECORD, rest, rest == 1 ? "" : "s",
                   (int)RECORD, hint);
}

/* Copy and check the labels of the `count` samples that were added last. */
static ls_status read_labels(ls_dataset *dataset, ls_part part, const ls_data_file *file,
                             size_t count)
{
    ls_part_data *data = &dataset->part[part];
    const size_t first = data->stored - count;
    bool all_equal = true;
    for (size_t i = 0; i < count; i++) {
        const unsigned char label = file->data[i * RECORD];
        all_equal = all_equal && label == file->data[0];
        data->label[first + i] = label;
        if (label < CLASSES) continue;
        LS_TRY(ls_dataset_bad_record(dataset, "%s: record %zu (byte %zu): label %d, expected 0..%d",
                                     file->path, i + 1, i * RECORD, label, CLASSES - 1));
        LS_TRY(ls_dataset_leave_out(dataset, part, first + i));
    }
    if (!all_equal || count == 1) return LS_OK;
    return ls_dataset_warn(dataset, "%s: all %zu labels are %d", file->path, count, file->data[0]);
}

static ls_status add_batch(ls_dataset *dataset, const char *folder, const char *name, ls_part part)
{
    const ls_data_file *file = NULL;
    LS_TRY(ls_dataset_file_in(dataset, folder, name, "CIFAR-10 records", &file));
    LS_TRY(check_size(file));
    const size_t count = file->bytes / RECORD;
    LS_TRY(ls_dataset_add_run(dataset, part,
                              (ls_run){ .x = file->data + 1, .stride = RECORD, .count = count }));
    return read_labels(dataset, part, file, count);
}

/* -- class names ----------------------------------------------------------------------------- */

static ls_status read_name(ls_dataset *dataset, const ls_data_file *file, size_t line,
                           const char *text, size_t chars)
{
    if (line > CLASSES) {
        return ls_fail(LS_ERR_FORMAT, "%s: line %zu: one more class name, expected %d", file->path,
                       line, (int)CLASSES);
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

static ls_status read_names(ls_dataset *dataset, const char *folder)
{
    const ls_data_file *file = NULL;
    LS_TRY(ls_dataset_file_in(dataset, folder, "batches.meta.txt", "class names", &file));
    dataset->class_name = calloc(CLASSES, sizeof *dataset->class_name);
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
    if (names == CLASSES) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: line %zu is the last class name, expected %d names",
                   file->path, names, (int)CLASSES);
}

/* -- opening --------------------------------------------------------------------------------- */

static ls_status add_training_batches(ls_dataset *dataset, const char *folder)
{
    int last = 0, missing = 0;
    for (int i = 1; i <= BATCH_FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        if (!ls_dataset_has_file(folder, name)) continue;
        LS_TRY(add_batch(dataset, folder, name, LS_PART_TRAIN));
        if (i > last + 1 && missing == 0) missing = last + 1;
        last = i;
    }
    if (last == 0) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: no file data_batch_1.bin .. data_batch_5.bin, expected the binary "
                       "release of CIFAR-10",
                       folder);
    }
    if (missing == 0) return LS_OK;
    return ls_dataset_warn(dataset, "%s: data_batch_%d.bin is not there, a later one is", folder,
                           missing);
}

static ls_status open_cifar10(ls_dataset *dataset)
{
    const char *folder = ls_spec_file(&dataset->spec, 0);
    dataset->store = LS_STORE_U8_PLANES;
    dataset->info = (ls_dataset_info){
        .is_image = true,
        .height = SIDE,
        .width = SIDE,
        .channels = CHANNELS,
        .task = LS_TASK_CLASSIFY,
        .classes = CLASSES,
    };
    LS_TRY(add_training_batches(dataset, folder));
    if (ls_dataset_has_file(folder, "test_batch.bin")) {
        LS_TRY(add_batch(dataset, folder, "test_batch.bin", LS_PART_TEST));
    } else {
        LS_TRY(ls_dataset_warn(dataset, "%s: no test_batch.bin, so there is no test part", folder));
    }
    if (!ls_dataset_has_file(folder, "batches.meta.txt")) return LS_OK;
    return read_names(dataset, folder);
}

static const char *const cifar10_keys[] = { "scale", "bad", NULL };

const ls_dataset_format ls_dataset_cifar10 = {
    .kind = "cifar10",
    .usage = "cifar10:DIR[,scale=255|none|standard][,bad=stop|skip]",
    .keys = cifar10_keys,
    .files = 1,
    .open = open_cifar10,
};
