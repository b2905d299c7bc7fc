/* SPDX-License-Identifier: MIT */
/* test_idx.c -- IDX files in MNIST's layout: what is read, and that no header is believed before
 * the file's size bears it out. */
#include <stdio.h>

#include "support/data_folder.h"
#include "support/test.h"

static unsigned char images[16 + 100 * 28 * 28 + 64], labels[8 + 100 + 64];

static void put(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> 8 * (3 - i));
}

/* 100 images of 28x28 and their labels. */
static void make_sound(void)
{
    for (size_t i = 0; i < sizeof images; i++) images[i] = (unsigned char)(i * 37);
    put(images, 0x803);
    put(images + 4, 100);
    put(images + 8, 28);
    put(images + 12, 28);
    put(labels, 0x801);
    put(labels + 4, 100);
    for (size_t i = 0; i < 100; i++) labels[8 + i] = (unsigned char)(i * 7 % 10);
}

static void write_both(size_t image_bytes, size_t label_bytes)
{
    data_folder_write(folder, "train-images-idx3-ubyte", images, image_bytes);
    data_folder_write(folder, "train-labels-idx1-ubyte", labels, label_bytes);
}

enum { IMAGE_BYTES = 16 + 100 * 784, LABEL_BYTES = 108 };

static void refuse(size_t image_bytes, size_t label_bytes, const char *want)
{
    write_both(image_bytes, label_bytes);
    must_refuse(LS_ERR_FORMAT, want, "idx:%s", data_folder_path(folder));
    make_sound();
}

static void test_images_and_labels_are_read(void **state)
{
    (void)state;
    make_sound();
    write_both(IMAGE_BYTES, LABEL_BYTES);
    ls_dataset *d = must_open("idx:%s", data_folder_path(folder));
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_true(info->is_image && info->height == 28 && info->width == 28 && info->channels == 1);
    assert_int_equal(info->count[LS_PART_TRAIN], 100);
    assert_int_equal(info->count[LS_PART_TEST], 0);
    assert_non_null(strstr(ls_dataset_warnings(d), "so there is no test part"));
    float x[784];
    for (size_t n = 0; n < 100; n += 33) {
        ls_dataset_read(d, LS_PART_TRAIN, n, x);
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, n), labels[8 + n]);
        for (size_t i = 0; i < 784; i++) {
            assert_true(x[i] == (float)(images[16 + n * 784 + i] / 255.0));
        }
    }
    ls_dataset_close(d);
    d = must_open("idx:%s,scale=none", data_folder_path(folder));
    ls_dataset_read(d, LS_PART_TRAIN, 0, x);
    assert_true(x[5] == (float)images[16 + 5]);
    ls_dataset_close(d);
}

static void test_headers_that_the_size_does_not_bear_out_are_refused(void **state)
{
    (void)state;
    make_sound();
    put(images, 0x802);
    refuse(IMAGE_BYTES, LABEL_BYTES, "train-images-idx3-ubyte: byte 0: magic 0x00000802, expected "
                                     "0x00000803");
    put(images, 0x03080000);
    refuse(IMAGE_BYTES, LABEL_BYTES, "magic 0x03080000, expected 0x00000803: the header is "
                                     "little-endian");
    put(images, 0x504b0304);
    refuse(IMAGE_BYTES, LABEL_BYTES, "byte 0: a zip archive");
    refuse(0, LABEL_BYTES, "byte 0: the file is empty");
    refuse(11, LABEL_BYTES, "byte 11: the file ends, expected a header of 16 bytes");
    put(images + 4, 1000);
    refuse(IMAGE_BYTES, LABEL_BYTES, "byte 4: header says 1000 images of 28x28 (784016 bytes), the "
                                     "file has 78416");
    refuse(78116, LABEL_BYTES, "it ends in record 100 (byte 77632)");
    refuse(IMAGE_BYTES + 5, LABEL_BYTES, "byte 78416: 5 bytes after the last record");
    put(images + 4, 0xffffffff);
    refuse(800, LABEL_BYTES,
           "byte 4: header says 4294967295 images of 28x28 (3367254359296 bytes)");
    for (size_t at = 4; at <= 12; at += 4) put(images + at, 65536);
    refuse(800, LABEL_BYTES, "byte 4: header says 65536 images of 65536x65536");
    for (size_t at = 4; at <= 12; at += 4) put(images + at, 0xffffffff);
    refuse(800, LABEL_BYTES, "more than 2^64 bytes");
    put(images + 4, 0);
    refuse(16, LABEL_BYTES, "byte 4: header says 0 images");
    put(images + 8, 0);
    refuse(IMAGE_BYTES, LABEL_BYTES, "byte 8: images of 0x28");
    put(labels + 4, 200);
    refuse(IMAGE_BYTES, LABEL_BYTES, "train-labels-idx1-ubyte: byte 4: header says 200 labels");
    put(labels + 4, 99);
    refuse(IMAGE_BYTES, LABEL_BYTES - 1,
           "train-labels-idx1-ubyte: byte 4: 99 labels, expected 100");
    put(labels + 4, 101);
    refuse(IMAGE_BYTES, LABEL_BYTES + 1,
           "train-labels-idx1-ubyte: byte 4: 101 labels, expected 100");
    put(labels, 0x803);
    refuse(IMAGE_BYTES, LABEL_BYTES, "train-labels-idx1-ubyte: byte 0: magic 0x00000803");
}

static void test_labels_above_nine_are_bad_records(void **state)
{
    (void)state;
    make_sound();
    labels[8 + 41] = 10;
    refuse(IMAGE_BYTES, LABEL_BYTES, "byte 49 (record 42): label 10, expected 0..9");
    labels[8 + 99] = 255;
    refuse(IMAGE_BYTES, LABEL_BYTES, "byte 107 (record 100): label 255, expected 0..9");
    labels[8 + 41] = 10;
    labels[8 + 99] = 255;
    write_both(IMAGE_BYTES, LABEL_BYTES);
    ls_dataset *d = must_open("idx:%s,bad=skip", data_folder_path(folder));
    float x[784];
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 98);
    assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 41), labels[8 + 42]);
    ls_dataset_read(d, LS_PART_TRAIN, 41, x);
    assert_true(x[0] == (float)(images[16 + 42 * 784] / 255.0));
    ls_dataset_close(d);
    make_sound();
}

static void test_the_test_part_is_whole_or_absent_and_alike(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    make_sound();
    write_both(IMAGE_BYTES, LABEL_BYTES);
    data_folder_idx(folder, "t10k", 1, 7, 28, 28);
    ls_dataset *d = must_open("idx:%s", path);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 7);
    assert_int_equal(ls_dataset_label(d, LS_PART_TEST, 6), 6);
    ls_dataset_close(d);
    data_folder_idx(folder, "t10k", 1, 7, 28, 27);
    must_refuse(LS_ERR_FORMAT, "images of 28x27, expected 28x28", "idx:%s", path);
    data_folder_remove(folder, "t10k-images-idx3-ubyte");
    must_refuse(LS_ERR_FORMAT, "t10k-images-idx3-ubyte: no such file", "idx:%s", path);
    data_folder_remove(folder, "t10k-labels-idx1-ubyte");
}

static void test_a_packed_file_is_answered_with_the_command_that_unpacks_it(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    make_sound();
    write_both(IMAGE_BYTES, LABEL_BYTES);
    data_folder_remove(folder, "train-labels-idx1-ubyte");
    data_folder_write(folder, "train-labels-idx1-ubyte.gz", "\x1f\x8b", 2);
    char command[1024];
    snprintf(command, sizeof command, "gunzip -k %s/train-labels-idx1-ubyte.gz", path);
    must_refuse(LS_ERR_FORMAT, command, "idx:%s", path);
    data_folder_write(folder, "train-labels-idx1-ubyte.gz", labels, LABEL_BYTES);
    must_refuse(LS_ERR_FORMAT, "which is not gzip data: byte 0: 00 00, expected 1f 8b", "idx:%s",
                path);
    data_folder_remove(folder, "train-labels-idx1-ubyte.gz");
    must_refuse(LS_ERR_FORMAT, "train-labels-idx1-ubyte: no such file", "idx:%s", path);
    must_refuse(LS_ERR_FORMAT, "no such file", "idx:%s/absent", path);
    must_refuse(LS_ERR_FORMAT, "Not a directory", "idx:%s/train-images-idx3-ubyte", path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_and_labels_are_read),
        cmocka_unit_test(test_headers_that_the_size_does_not_bear_out_are_refused),
        cmocka_unit_test(test_labels_above_nine_are_bad_records),
        cmocka_unit_test(test_the_test_part_is_whole_or_absent_and_alike),
        cmocka_unit_test(test_a_packed_file_is_answered_with_the_command_that_unpacks_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
