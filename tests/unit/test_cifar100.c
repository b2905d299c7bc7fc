/* SPDX-License-Identifier: MIT */
/* test_cifar100.c -- CIFAR-100's binary release: either of a record's two labels, both checked, and
 * the names of either. What it shares with CIFAR-10 is test_cifar10.c's. */
#include <stdio.h>

#include "support/data_folder.h"
#include "support/test.h"

enum { RECORD = 3074 };

/* `count` records: coarse label n mod 20, fine n mod 100, pixel bytes a function of n and place. */
static unsigned char *make_records(size_t count)
{
    unsigned char *data = malloc(count * RECORD + 1);
    assert_non_null(data);
    for (size_t n = 0; n < count; n++) {
        unsigned char *record = data + n * RECORD;
        record[0] = (unsigned char)(n % 20);
        record[1] = (unsigned char)(n % 100);
        for (size_t i = 0; i < 3072; i++) record[2 + i] = (unsigned char)(n * 31 + i * 7);
    }
    return data;
}

static void test_the_fine_label_is_the_answer_unless_coarse_is_asked_for(void **state)
{
    (void)state;
    unsigned char *data = make_records(150);
    data_folder_write(folder, "train.bin", data, 120 * RECORD);
    data_folder_write(folder, "test.bin", data + 120 * RECORD, 30 * RECORD);
    static const char *const specs[] = { "", ",label=fine", ",label=coarse" };
    static const size_t classes[] = { 100, 100, 20 };
    for (int k = 0; k < 3; k++) {
        ls_dataset *d = must_open("cifar100:%s%s", data_folder_path(folder), specs[k]);
        const ls_dataset_info *info = ls_dataset_describe(d);
        assert_int_equal(info->classes, classes[k]);
        assert_true(info->height == 32 && info->width == 32 && info->channels == 3);
        assert_int_equal(info->count[LS_PART_TRAIN], 120);
        assert_int_equal(info->count[LS_PART_TEST], 30);
        for (size_t n = 0; n < 150; n++) {
            unsigned char x[3072];
            const ls_part part = n < 120 ? LS_PART_TRAIN : LS_PART_TEST;
            const size_t index = n < 120 ? n : n - 120;
            assert_int_equal(ls_dataset_label(d, part, index), n % classes[k]);
            ls_dataset_read_raw(d, part, index, x);
            for (size_t i = 0; i < 3072; i++) { /* pixel i / 3 of plane i mod 3 */
                assert_int_equal(x[i], (unsigned char)(n * 31 + (i % 3 * 1024 + i / 3) * 7));
            }
        }
        ls_dataset_close(d);
    }
    free(data);
}

static void test_both_labels_are_checked_whichever_is_used(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    unsigned char *data = make_records(20);
    data[6 * RECORD] = 20;
    data_folder_write(folder, "train.bin", data, 20 * RECORD);
    must_refuse(LS_ERR_FORMAT, "train.bin: record 7 (byte 18444): coarse label 20, expected 0..19",
                "cifar100:%s", path);
    data[6 * RECORD] = 6;
    data[6 * RECORD + 1] = 100;
    data_folder_write(folder, "train.bin", data, 20 * RECORD);
    must_refuse(LS_ERR_FORMAT, "record 7 (byte 18445): fine label 100, expected 0..99",
                "cifar100:%s,label=coarse", path);
    ls_dataset *d = must_open("cifar100:%s,label=coarse,bad=skip", path);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 19);
    assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 6), 7);
    assert_non_null(strstr(ls_dataset_warnings(d), "skipped: "));
    ls_dataset_close(d);
    free(data);
}

static void test_files_of_another_size_or_name_are_refused(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    unsigned char *data = make_records(20);
    data_folder_write(folder, "train.bin", data, 20 * RECORD - 20);
    must_refuse(LS_ERR_FORMAT, "record 20 (byte 58406): 3054 bytes, expected whole records of 3074 "
                               "bytes; this many bytes are whole records of CIFAR-10",
                "cifar100:%s", path);
    data_folder_write(folder, "train.bin", data, 20 * RECORD + 1);
    must_refuse(LS_ERR_FORMAT, "record 21 (byte 61480): 1 byte, expected", "cifar100:%s", path);
    data_folder_remove(folder, "train.bin");
    must_refuse(LS_ERR_FORMAT, "no file train.bin, expected the binary release of CIFAR-100",
                "cifar100:%s", path);
    data_folder_write(folder, "train.bin.gz", "\x1f\x8b\x08\x00", 4);
    must_refuse(LS_ERR_FORMAT, "train.bin is there only compressed", "cifar100:%s", path);
    data_folder_remove(folder, "train.bin.gz");
    must_refuse(LS_ERR_ARGUMENT, "label=super, expected label=fine|coarse",
                "cifar100:%s,label=super", path);
    free(data);
}

static void test_names_are_those_of_the_label_that_is_used(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    unsigned char *data = make_records(20);
    char fine[2000] = "", coarse[600] = "";
    for (int i = 0; i < 100; i++) snprintf(fine + strlen(fine), 20, "fine %d\n", i);
    for (int i = 0; i < 20; i++) snprintf(coarse + strlen(coarse), 24, "coarse %d\n", i);
    data_folder_write(folder, "train.bin", data, 20 * RECORD);
    data_folder_text(folder, "fine_label_names.txt", fine);
    data_folder_text(folder, "coarse_label_names.txt", coarse);
    ls_dataset *d = must_open("cifar100:%s", path);
    assert_string_equal(ls_dataset_class_name(d, 99), "fine 99");
    ls_dataset_close(d);
    d = must_open("cifar100:%s,label=coarse", path);
    assert_string_equal(ls_dataset_class_name(d, 19), "coarse 19");
    ls_dataset_close(d);
    data_folder_text(folder, "fine_label_names.txt", coarse);
    must_refuse(LS_ERR_FORMAT, "line 20 is the last class name, expected 100 names", "cifar100:%s",
                path);
    data_folder_remove(folder, "fine_label_names.txt");
    d = must_open("cifar100:%s", path);
    assert_null(ls_dataset_class_name(d, 0));
    ls_dataset_close(d);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fine_label_is_the_answer_unless_coarse_is_asked_for),
        cmocka_unit_test(test_both_labels_are_checked_whichever_is_used),
        cmocka_unit_test(test_files_of_another_size_or_name_are_refused),
        cmocka_unit_test(test_names_are_those_of_the_label_that_is_used),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
