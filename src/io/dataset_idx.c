/* SPDX-License-Identifier: MIT */
/* dataset_idx.c -- images and labels as IDX files, in MNIST's layout.
 *
 *     idx:DIR[,scale=255|none|standard][,bad=stop|skip]
 *
 * DIR holds train-images-idx3-ubyte, train-labels-idx1-ubyte and, together or not at all,
 * t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte. Numbers are big-endian:
 *
 *     byte    images                 labels
 *      0      magic 00 00 08 03      magic 00 00 08 01      (08: bytes; 03, 01: dimensions)
 *      4      images                 labels
 *      8      rows                   labels, a byte each, 0..9
 *     12      columns
 *     16      pixels, a byte each, row by row
 *
 * The file's size must be what the header says, to the byte; the product is taken with an overflow
 * check and compared with the size before anything is allocated. There are ten classes, as in
 * MNIST: a label above 9 is a bad record. Samples stay in the mapped file.
 */
#include <stdio.h>

#include "io/dataset_internal.h"
#include "plural.h"

enum { IMAGES_MAGIC = 0x803, LABELS_MAGIC = 0x801, IMAGES_HEADER = 16, LABELS_HEADER = 8 };
enum { CLASSES = 10 };

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static ls_status check_magic(const ls_data_file *file, uint32_t expected, size_t header_bytes)
{
    if (file->bytes >= 4) {
        const uint32_t found = big_endian(file->data);
        const bool reversed = found == ((expected & 0xff) << 24 | (expected >> 8 & 0xff) << 16);
        if (found != expected) {
            return ls_fail(LS_ERR_FORMAT, "%s: byte 0: magic 0x%08x, expected 0x%08x%s", file->path,
                           found, expected,
                           reversed ? ": the header is little-endian, IDX is big-endian" : "");
        }
    }
    if (file->bytes >= header_bytes) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: byte %zu: the file ends, expected a header of %zu bytes",
                   file->path, file->bytes, header_bytes);
}

/* Is the file as long as `count` records of `record` bytes behind the header make it? `what`:
 * "images of 28x28". */
static ls_status check_size(const ls_data_file *file, size_t header_bytes, size_t count,
                            size_t record, const char *what)
{
    if (count == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte 4: header says 0 %s, expected at least 1",
                       file->path, what);
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, record, &bytes) ||
        __builtin_add_overflow(bytes, header_bytes, &bytes)) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte 4: header says %zu %s, more than 2^64 bytes; the file has %zu",
                       file->path, count, what, file->bytes);
    }
    if (file->bytes == bytes) return LS_OK;
    if (file->bytes > bytes) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte %zu: %zu byte%s after the last record: header (byte 4) says %zu "
                       "%s, %zu bytes; the file has %zu",
                       file->path, bytes, file->bytes - bytes, LS_PLURAL(file->bytes - bytes),
                       count, what, bytes, file->bytes);
    }
    const size_t whole = (file->bytes - header_bytes) / record;
    return ls_fail(LS_ERR_FORMAT,
                   "%s: byte 4: header says %zu %s (%zu bytes), the file has %zu: it ends in "
                   "record %zu (byte %zu)",
                   file->path, count, what, bytes, file->bytes, whole + 1,
                   header_bytes + whole * record);
}

static ls_status open_images(ls_dataset *dataset, const char *name, ls_run *run, size_t *height,
                             size_t *width)
{
    const ls_data_file *file = NULL;
    const char *folder = ls_spec_file(&dataset->spec, 0);
    LS_TRY(ls_dataset_file_in(dataset, folder, name, "an IDX file of images", &file));
    LS_TRY(check_magic(file, IMAGES_MAGIC, IMAGES_HEADER));
    const size_t count = big_endian(file->data + 4);
    *height = big_endian(file->data + 8);
    *width = big_endian(file->data + 12);
    if (*height == 0 || *width == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte %d: images of %zux%zu, expected at least 1x1",
                       file->path, *height == 0 ? 8 : 12, *height, *width);
    }
    char what[64];
    snprintf(what, sizeof what, "images of %zux%zu", *height, *width);
    LS_TRY(check_size(file, IMAGES_HEADER, count, *height * *width, what));
    *run = (ls_run){ .x = file->data + IMAGES_HEADER, .stride = *height * *width, .count = count };
    return LS_OK;
}

static ls_status open_labels(ls_dataset *dataset, const char *name, const ls_data_file **out)
{
    const char *folder = ls_spec_file(&dataset->spec, 0);
    LS_TRY(ls_dataset_file_in(dataset, folder, name, "an IDX file of labels", out));
    LS_TRY(check_magic(*out, LABELS_MAGIC, LABELS_HEADER));
    return check_size(*out, LABELS_HEADER, big_endian((*out)->data + 4), 1, "labels");
}

static ls_status read_labels(ls_dataset *dataset, ls_part part, const ls_data_file *file)
{
    ls_part_data *data = &dataset->part[part];
    for (size_t i = 0; i < data->stored; i++) {
        const unsigned char label = file->data[LABELS_HEADER + i];
        data->label[i] = label;
        if (label < CLASSES) continue;
        LS_TRY(ls_dataset_bad_record(dataset, "%s: byte %zu (record %zu): label %d, expected 0..%d",
                                     file->path, LABELS_HEADER + i, i + 1, label, CLASSES - 1));
        LS_TRY(ls_dataset_leave_out(dataset, part, i));
    }
    return LS_OK;
}

static ls_status open_part(ls_dataset *dataset, ls_part part, const char *images_name,
                           const char *labels_name)
{
    ls_dataset_info *info = &dataset->info;
    ls_run run;
    size_t height = 0, width = 0;
    const ls_data_file *labels = NULL;
    LS_TRY(open_images(dataset, images_name, &run, &height, &width));
    LS_TRY(open_labels(dataset, labels_name, &labels));
    const size_t label_count = labels->bytes - LABELS_HEADER;
    if (label_count != run.count) {
        return ls_fail(LS_ERR_FORMAT, "%s: byte 4: %zu label%s, expected %zu, as %s has images",
                       labels->path, label_count, LS_PLURAL(label_count), run.count, images_name);
    }
    if (part == LS_PART_TRAIN) {
        info->height = height;
        info->width = width;
    } else if (height != info->height || width != info->width) {
        return ls_fail(LS_ERR_FORMAT,
                       "%s: byte 8: images of %zux%zu, expected %zux%zu, as in training",
                       images_name, height, width, info->height, info->width);
    }
    LS_TRY(ls_dataset_add_run(dataset, part, run));
    return read_labels(dataset, part, labels);
}

static ls_status open_idx(ls_dataset *dataset)
{
    static const char test_images[] = "t10k-images-idx3-ubyte";
    static const char test_labels[] = "t10k-labels-idx1-ubyte";
    const char *folder = ls_spec_file(&dataset->spec, 0);
    dataset->store = LS_STORE_U8;
    dataset->info.is_image = true;
    dataset->info.channels = 1;
    dataset->info.task = LS_TASK_CLASSIFY;
    dataset->info.classes = CLASSES;
    LS_TRY(open_part(dataset, LS_PART_TRAIN, "train-images-idx3-ubyte", "train-labels-idx1-ubyte"));
    if (ls_dataset_has_file(folder, test_images) || ls_dataset_has_file(folder, test_labels)) {
        return open_part(dataset, LS_PART_TEST, test_images, test_labels);
    }
    return ls_dataset_warn(dataset, "%s: no %s, so there is no test part", folder, test_images);
}

static const char *const idx_keys[] = { "scale", "bad", NULL };

const ls_dataset_format ls_dataset_idx = {
    .kind = "idx",
    .usage = "idx:DIR[,scale=255|none|standard][,bad=stop|skip]",
    .keys = idx_keys,
    .files = 1,
    .open = open_idx,
};
