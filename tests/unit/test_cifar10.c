/* SPDX-License-Identifier: MIT */
/* test_cifar10.c -- CIFAR-10's binary release: planes become pixels, labels and sizes are
 * checked, and every fault is named with its record and byte. */
#include <stdio.h>

#include "support/data_folder.h"
#include "support/test.h"

enum { RECORD = 3073 };

/* `count` records: pixel (y, x, c) of record n is a function of all four; labels n mod 10. */
static unsigned char pixel(size_t n, size_t y, size_t x, size_t c)
{
    return (unsigned char)(n * 31 + y * 7 + x * 3 + c * 101);
}

static unsigned char *make_records(size_t count)
{
    unsigned char *data = malloc(count * RECORD + 16);
    assert_non_null(data);
    for (size_t n = 0; n < count; n++) {
        unsigned char *record = data + n * RECORD;
        record[0] = (unsigned char)(n % 10);
        for (size_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < 1024; i++) {
                record[1 + 1024 * c + i] = pixel(n, i / 32, i % 32, c);
            }
        }
    }
    return data;
}

static void test_planes_become_pixels_divided_by_255(void **state)
{
    (void)state;
    unsigned char *data = make_records(5);
    data_folder_write(folder, "data_batch_1.bin", data, 2 * RECORD);
    data_folder_write(folder, "data_batch_2.bin", data + 2 * RECORD, RECORD);
    data_folder_write(folder, "test_batch.bin", data + 3 * RECORD, 2 * RECORD);
    ls_dataset *d = must_open("cifar10:%s", data_folder_path(folder));
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_true(info->is_image && info->height == 32 && info->width == 32 && info->channels == 3);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->count[LS_PART_TRAIN], 3);
    assert_int_equal(info->count[LS_PART_TEST], 2);
    for (size_t n = 0; n < 5; n++) {
        const ls_part part = n < 3 ? LS_PART_TRAIN : LS_PART_TEST;
        const size_t index = n < 3 ? n : n - 3;
        float x[3072];
        ls_dataset_read(d, part, index, x);
        assert_int_equal(ls_dataset_label(d, part, index), n);
        for (size_t i = 0; i < 3072; i++) {
            const float want = (float)(pixel(n, i / 96, i / 3 % 32, i % 3) / 255.0);
            if (x[i] != want) fail_msg("record %zu, number %zu", n, i);
        }
    }
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_1.bin");
    data_folder_remove(folder, "data_batch_2.bin");
    data_folder_remove(folder, "test_batch.bin");
    free(data);
}

/* data_batch_1.bin alone, of these bytes, must be refused. */
static void refuse(const void *data, size_t bytes, const char *want)
{
    data_folder_write(folder, "data_batch_1.bin", data, bytes);
    must_refuse(LS_ERR_FORMAT, want, "cifar10:%s", data_folder_path(folder));
    data_folder_remove(folder, "data_batch_1.bin");
}

static void test_faults_are_named_with_record_and_byte(void **state)
{
    (void)state;
    unsigned char *data = make_records(21);
    static const unsigned char bad[] = { 10, 255, 128 };
    for (size_t i = 0; i < sizeof bad; i++) {
        char want[128];
        data[6 * RECORD] = bad[i];
        snprintf(want, sizeof want,
                 "data_batch_1.bin: record 7 (byte 18438): label %d, expected 0..9", bad[i]);
        refuse(data, 20 * RECORD, want);
    }
    data[6 * RECORD] = 6;
    refuse(data, 0, "data_batch_1.bin: byte 0: the file is empty, expected CIFAR-10 records");
    data[20 * RECORD] = '\n';
    refuse(data, 20 * RECORD + 1, "record 21 (byte 61460): 1 byte, expected whole records of 3073 "
                                  "bytes; the last byte is a line feed");
    refuse(data, 20 * RECORD + 20, "record 21 (byte 61460): 20 bytes, expected whole records of "
                                   "3073 bytes; this many bytes are whole records of CIFAR-100");
    refuse(data, 20 * RECORD - 1, "record 20 (byte 58387): 3072 bytes");
    refuse("\x1f\x8b\x08", 3, "byte 0: gzip data (1f 8b), expected CIFAR-10 records; unpack it");
    refuse("<!DOCTYPE html>", 15, "byte 0: an HTML page");
    free(data);
}

static void test_absent_and_packed_files_are_answered_with_what_to_do(void **state)
{
    (void)state;
    must_refuse(LS_ERR_FORMAT, "no file data_batch_1.bin .. data_batch_5.bin", "cifar10:%s",
                data_folder_path(folder));
    data_folder_write(folder, "data_batch_3.bin.gz", "\x1f\x8b\x08\x00", 4);
    must_refuse(LS_ERR_FORMAT, "data_batch_3.bin is there only compressed", "cifar10:%s",
                data_folder_path(folder));
    char command[1024];
    snprintf(command, sizeof command, "gunzip -k %s/data_batch_3.bin.gz", data_folder_path(folder));
    must_refuse(LS_ERR_FORMAT, command, "cifar10:%s", data_folder_path(folder));
    data_folder_cifar10(folder, "data_batch_3.bin", 1, 10);
    ls_dataset *d = must_open("cifar10:%s/", data_folder_path(folder)); /* the plain one is read */
    assert_non_null(strstr(ls_dataset_warnings(d), "data_batch_1.bin is not there"));
    assert_non_null(strstr(ls_dataset_warnings(d), "no test_batch.bin"));
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_3.bin.gz");
    data_folder_remove(folder, "data_batch_3.bin");
}

static void test_constant_pixels_and_one_class_are_legal(void **state)
{
    (void)state;
    unsigned char *data = malloc(20 * RECORD);
    assert_non_null(data);
    memset(data, 77, 20 * RECORD); /* the mean of 77/255 comes out rounded; std is 0 all the same */
    for (size_t n = 0; n < 20; n++) data[n * RECORD] = 3;
    data_folder_write(folder, "data_batch_1.bin", data, 20 * RECORD);
    ls_dataset *d = must_open("cifar10:%s,scale=standard", data_folder_path(folder));
    float x[3072];
    ls_dataset_read(d, LS_PART_TRAIN, 19, x);
    for (size_t i = 0; i < 3072; i++) assert_true(x[i] == 0); /* std 0 counts as 1 */
    assert_non_null(strstr(ls_dataset_warnings(d), "all 20 labels are 3"));
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_1.bin");
    free(data);
}

static void test_bad_records_can_be_skipped(void **state)
{
    (void)state;
    unsigned char *data = make_records(10);
    data[0] = 200;
    data[4 * RECORD] = 10;
    data_folder_write(folder, "data_batch_1.bin", data, 10 * RECORD);
    ls_dataset *d = must_open("cifar10:%s,bad=skip", data_folder_path(folder));
    static const int kept[8] = { 1, 2, 3, 5, 6, 7, 8, 9 };
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 8);
    for (size_t i = 0; i < 8; i++) {
        float x[3072];
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, i), kept[i]);
        ls_dataset_read(d, LS_PART_TRAIN, i, x);
        assert_true(x[0] == (float)(pixel((size_t)kept[i], 0, 0, 0) / 255.0));
    }
    assert_non_null(strstr(ls_dataset_warnings(d), "record 1 (byte 0): label 200"));
    assert_non_null(strstr(ls_dataset_warnings(d), "record 5 (byte 12292): label 10"));
    assert_non_null(strstr(ls_dataset_warnings(d), "skipped 2 bad records"));
    ls_dataset_close(d);

    /* What is left is a file without them: the same identity. */
    char identity[65];
    d = must_open("cifar10:%s,bad=skip", data_folder_path(folder));
    strcpy(identity, ls_dataset_identity(d));
    ls_dataset_close(d);
    memmove(data + 4 * RECORD, data + 5 * RECORD, 5 * RECORD);
    data_folder_write(folder, "data_batch_1.bin", data + RECORD, 8 * RECORD);
    d = must_open("cifar10:%s", data_folder_path(folder));
    assert_string_equal(ls_dataset_identity(d), identity);
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_1.bin");
    free(data);
}

#define NAMES "a\nb\nc\nd\ne\nf\ng\nh\ni\n"

static void test_class_names_are_read_and_checked(void **state)
{
    (void)state;
    data_folder_cifar10(folder, "data_batch_1.bin", 1, 10);
    const char *path = data_folder_path(folder);
    static const char *const sound[] = {
        NAMES "ship\n", NAMES "ship", NAMES "ship\n\n\n",
        "a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni\r\nship\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        data_folder_text(folder, "batches.meta.txt", sound[i]);
        ls_dataset *d = must_open("cifar10:%s", path);
        assert_string_equal(ls_dataset_class_name(d, 0), "a");
        assert_string_equal(ls_dataset_class_name(d, 9), "ship");
        ls_dataset_close(d);
    }
    data_folder_text(folder, "batches.meta.txt", NAMES);
    must_refuse(LS_ERR_FORMAT, "line 9 is the last class name, expected 10", "cifar10:%s", path);
    data_folder_text(folder, "batches.meta.txt", NAMES "j\nk\n");
    must_refuse(LS_ERR_FORMAT, "line 11: one more class name", "cifar10:%s", path);
    data_folder_text(folder, "batches.meta.txt", "a\nb\n\nc\n");
    must_refuse(LS_ERR_FORMAT, "line 3: an empty line", "cifar10:%s", path);
    data_folder_text(folder, "batches.meta.txt", "a\nb\x1b[31m\n");
    must_refuse(LS_ERR_FORMAT, "line 2: byte 1b in a class name", "cifar10:%s", path);

    char text[600] = "a\nb\n"; /* a third name of 255 bytes, then of 256 */
    memset(text + 4, 'x', 255);
    strcpy(text + 4 + 255, "\nd\ne\nf\ng\nh\ni\nj\n");
    data_folder_text(folder, "batches.meta.txt", text);
    ls_dataset *d = must_open("cifar10:%s", path);
    assert_int_equal(strlen(ls_dataset_class_name(d, 2)), 255);
    ls_dataset_close(d);
    memset(text + 4, 'x', 256);
    strcpy(text + 4 + 256, "\nd\ne\nf\ng\nh\ni\nj\n");
    data_folder_text(folder, "batches.meta.txt", text);
    must_refuse(LS_ERR_FORMAT, "line 3: a class name of 256 bytes, at most 255", "cifar10:%s",
                path);

    data_folder_remove(folder, "batches.meta.txt");
    d = must_open("cifar10:%s", path);
    assert_null(ls_dataset_class_name(d, 0));
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_1.bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planes_become_pixels_divided_by_255),
        cmocka_unit_test(test_faults_are_named_with_record_and_byte),
        cmocka_unit_test(test_absent_and_packed_files_are_answered_with_what_to_do),
        cmocka_unit_test(test_constant_pixels_and_one_class_are_legal),
        cmocka_unit_test(test_bad_records_can_be_skipped),
        cmocka_unit_test(test_class_names_are_read_and_checked),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
