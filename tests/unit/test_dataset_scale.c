/* SPDX-License-Identifier: MIT */
/* test_dataset_scale.c -- from stored numbers to those that a network is fed: how samples travel,
 * and the statistics by which they are scaled.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "io/dataset_internal.h"
#include "numerics.h"
#include "support/data_folder.h"

/* -- how samples travel ---------------------------------------------------------------------- */

/* Raw samples of all of `part` are bytes that the table makes into what is fed; `kind` says where
 * they come from. */
static void check_bytes(ls_dataset *d, const char *kind)
{
    const ls_dataset_info *info = ls_dataset_describe(d);
    const size_t C = info->channels, elements = info->height * info->width * C;
    const float *table = ls_dataset_table(d);
    float *x = malloc(elements * sizeof *x);
    uint8_t *bytes = malloc(elements);
    assert_int_equal(info->element, LS_ELEMENT_U8);
    assert_int_equal(ls_dataset_raw_bytes(info), elements);
    assert_non_null(table);
    for (size_t n = 0; n < info->count[LS_PART_TRAIN]; n++) {
        ls_dataset_read(d, LS_PART_TRAIN, n, x);
        ls_dataset_read_raw(d, LS_PART_TRAIN, n, bytes);
        for (size_t i = 0; i < elements; i++) {
            if (x[i] != table[i % C * 256 + bytes[i]]) fail_msg("%s: sample %zu, %zu", kind, n, i);
        }
    }
    free(x);
    free(bytes);
    ls_dataset_close(d);
}

static void test_images_of_bytes_travel_as_bytes_and_a_table(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    unsigned char pixels[3 * 4 * 5 * 2];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (unsigned char)(i * 37);
    data_folder_npy(folder, "bytes.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 5, 2)}", pixels,
                    sizeof pixels);
    data_folder_npy(folder, "labels.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "\0\1\2", 3);
    data_folder_cifar10(folder, "data_batch_1.bin", 1, 10);
    data_folder_idx(folder, "train", 1, 10, 5, 3);
    check_bytes(must_open("npy:%s/bytes.npy,%s/labels.npy,scale=standard", path, path), "npy");
    check_bytes(must_open("npy:%s/bytes.npy,%s/labels.npy,scale=none", path, path), "npy");
    check_bytes(must_open("cifar10:%s,scale=standard", path), "planes");
    check_bytes(must_open("idx:%s", path), "idx");
}

static void test_all_other_data_travel_as_scaled_floats(void **state)
{
    (void)state;
    ls_dataset *d = must_open("digits,scale=standard");
    float x[64], raw[64];
    assert_int_equal(ls_dataset_describe(d)->element, LS_ELEMENT_F32);
    assert_int_equal(ls_dataset_raw_bytes(ls_dataset_describe(d)), sizeof raw);
    assert_null(ls_dataset_table(d));
    for (size_t n = 0; n < 50; n++) {
        ls_dataset_read(d, LS_PART_TEST, n, x);
        ls_dataset_read_raw(d, LS_PART_TEST, n, raw);
        assert_memory_equal(x, raw, sizeof x);
    }
    ls_dataset_close(d);

    /* A row of bytes is no image: it has a mean of its own for each field. */
    data_folder_npy(folder, "rows.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", "abcdef", 6);
    data_folder_npy(folder, "rows_labels.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "\0\1", 2);
    d = must_open("npy:%s/rows.npy,%s/rows_labels.npy", data_folder_path(folder),
                  data_folder_path(folder));
    assert_int_equal(ls_dataset_describe(d)->element, LS_ELEMENT_F32);
    ls_dataset_read_raw(d, LS_PART_TRAIN, 1, raw);
    assert_true(raw[0] == 'd' && raw[2] == 'f');
    assert_null(ls_dataset_table(d));
    ls_dataset_close(d);
}

/* -- statistics ------------------------------------------------------------------------------ */

/* The flat sum of docs/numerics.md 1.3, straight from its words: lanes by division, tree by
 * recursion. */
static double block_sum(const double *v, size_t count)
{
    double lane[64] = { 0 };
    for (size_t l = 0; l < 64; l++) {
        for (size_t i = l; i < count; i += 64) lane[l] = lane[l] + v[i];
    }
    for (size_t width = 32; width >= 1; width /= 2) {
        for (size_t l = 0; l < width; l++) lane[l] = lane[l] + lane[l + width];
    }
    return lane[0];
}

static double tree_sum(const double *v, size_t count)
{
    const size_t blocks = (count + 4095) / 4096;
    if (blocks <= 1) return block_sum(v, count);
    const size_t left = ls_tree_split(blocks) * 4096;
    return tree_sum(v, left) + tree_sum(v + left, count - left);
}

static void test_statistics_are_flat_sums_of_two_passes(void **state)
{
    (void)state;
    static const size_t counts[] = { 3, 64, 65, 4095, 4096, 4097, 8192, 3 * 4096, 5 * 4096 + 77 };
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const size_t count = counts[c];
        float *x = malloc(count * sizeof *x);
        double *v = malloc(count * sizeof *v);
        char header[128];
        assert_true(x && v);
        for (size_t i = 0; i < count; i++) { /* so far apart that every sum rounds */
            x[i] = ldexpf((float)(i * 2654435761u % 1000003u), (int)(i * 7 % 61) - 30);
        }
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu,)}",
                 count);
        data_folder_npy(folder, "x.npy", header, x, count * sizeof *x);
        snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': (%zu,)}",
                 count);
        unsigned char *y = calloc(count, 1);
        assert_non_null(y);
        data_folder_npy(folder, "y.npy", header, y, count);
        ls_dataset *d = must_open("npy:%s/x.npy,%s/y.npy,scale=standard", data_folder_path(folder),
                                  data_folder_path(folder));

        for (size_t i = 0; i < count; i++) v[i] = x[i];
        const double mean = tree_sum(v, count) / (double)count;
        for (size_t i = 0; i < count; i++) v[i] = (x[i] - mean) * (x[i] - mean);
        const double std = sqrt(tree_sum(v, count) / (double)count);
        for (size_t i = 0; i < count; i++) {
            float fed;
            ls_dataset_read(d, LS_PART_TRAIN, i, &fed);
            if (fed != (float)((x[i] - mean) / std)) fail_msg("count %zu, sample %zu", count, i);
        }
        ls_range range;
        ls_dataset_range(d, LS_PART_TRAIN, 0, 1, 1, &range);
        assert_true(range.mean == mean && range.std == std);
        ls_dataset_close(d);
        free(x);
        free(v);
        free(y);
    }
}

static void test_standard_scale_uses_the_training_part_and_spares_constant_fields(void **state)
{
    (void)state;
    data_folder_text(folder, "t.csv", "1,0.1,0\n3,0.1,1\n5,0.1,0\n7,0.1,1\n100,0.7,0\n");
    ls_dataset *d = must_open("csv:%s/t.csv,scale=standard", data_folder_path(folder));
    float x[2];
    ls_dataset_read(d, LS_PART_TRAIN, 0, x); /* mean 4, variance 5 */
    assert_true(x[0] == (float)(-3 / sqrt(5)));
    assert_true(x[1] == 0);
    ls_dataset_read(d, LS_PART_TEST, 0, x);
    assert_true(x[0] == (float)(96 / sqrt(5)));
    assert_true(x[1] == (float)((double)0.7f - (double)0.1f));
    ls_dataset_close(d);
}

/* Rows of `fields` numbers, stored as `kind`: u1, f4 or f8; each field of another size. */
static void check_fields(const char *kind, size_t fields)
{
    enum { COUNT = 9, FIELDS_MAX = 100 };
    static unsigned char stored[COUNT * FIELDS_MAX * sizeof(double)];
    const unsigned char label[COUNT] = { 0, 1, 0, 1, 0, 1, 0, 1, 0 };
    const size_t bytes = (size_t)(kind[1] - '0');
    double v[COUNT * FIELDS_MAX];
    char header[128];
    for (size_t i = 0; i < COUNT * fields; i++) {
        const unsigned char byte = (unsigned char)(i * 37 + i * i);
        const double wide = ldexp(byte, (int)(i % fields)) / 3 - 7;
        const float narrow = (float)wide;
        v[i] = bytes == 1 ? byte : (double)narrow; /* doubles become floats when they are read */
        memcpy(stored + i * bytes, bytes == 1 ? (const void *)&byte : bytes == 4
               ? (const void *)&narrow : (const void *)&wide, bytes);
    }
    snprintf(header, sizeof header, "{'descr': '%s%s', 'fortran_order': False, "
             "'shape': (9, %zu)}", bytes == 1 ? "|" : "<", kind, fields);
    data_folder_npy(folder, "x.npy", header, stored, COUNT * fields * bytes);
    data_folder_npy(folder, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (9,)}",
                    label, sizeof label);
    ls_dataset *d = must_open("npy:%s/x.npy,%s/y.npy,scale=standard", data_folder_path(folder),
                              data_folder_path(folder));
    assert_int_equal(ls_dataset_stored_bytes(d), fields * bytes);
    const double unit = bytes == 1 ? 255 : 1;
    for (size_t c = 0; c < fields; c++) {
        ls_range range;
        ls_dataset_range(d, LS_PART_TRAIN, c, 1, unit, &range);
        for (size_t n = 0; n < COUNT; n++) {
            float x[FIELDS_MAX], raw[FIELDS_MAX];
            const double number = v[n * fields + c];
            ls_dataset_read(d, LS_PART_TRAIN, n, x);
            ls_dataset_read_raw(d, LS_PART_TRAIN, n, raw);
            if (x[c] != (float)((number / unit - range.mean) / (range.std > 0 ? range.std : 1)))
                fail_msg("%s, %zu fields, sample %zu, field %zu", kind, fields, n, c);
            assert_memory_equal(x, raw, fields * sizeof *x);
            ls_dataset_read_stored(d, LS_PART_TRAIN, n, raw);
            assert_true(raw[c] == (float)number);
        }
    }
    ls_dataset_close(d);
}

static void test_each_of_any_number_of_fields_is_scaled_by_its_own_statistics(void **state)
{
    (void)state;
    static const size_t fields[] = { 1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 47, 48, 49, 96, 97, 100 };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        check_fields("u1", fields[i]);
        check_fields("f4", fields[i]);
        check_fields("f8", fields[i]);
    }
}

static void test_bytes_are_standardised_by_a_table_per_channel(void **state)
{
    (void)state;
    data_folder_cifar10(folder, "data_batch_1.bin", 3, 40);
    ls_dataset *none = must_open("cifar10:%s,scale=none", data_folder_path(folder));
    ls_dataset *d = must_open("cifar10:%s,scale=standard", data_folder_path(folder));
    static double v[40 * 1024];
    static float raw[40][3072];
    for (size_t n = 0; n < 40; n++) ls_dataset_read(none, LS_PART_TRAIN, n, raw[n]);
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < 40 * 1024; i++) v[i] = raw[i / 1024][i % 1024 * 3 + c] / 255.0;
        const double mean = tree_sum(v, 40 * 1024) / (40 * 1024);
        for (size_t i = 0; i < 40 * 1024; i++) v[i] = (v[i] - mean) * (v[i] - mean);
        const double std = sqrt(tree_sum(v, 40 * 1024) / (40 * 1024));
        for (size_t n = 0; n < 40; n += 13) {
            float x[3072];
            ls_dataset_read(d, LS_PART_TRAIN, n, x);
            for (size_t i = c; i < 3072; i += 3) {
                assert_true(x[i] == (float)((raw[n][i] / 255.0 - mean) / std));
            }
        }
    }
    ls_dataset_close(none);
    ls_dataset_close(d);
    data_folder_remove(folder, "data_batch_1.bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_of_bytes_travel_as_bytes_and_a_table),
        cmocka_unit_test(test_all_other_data_travel_as_scaled_floats),
        cmocka_unit_test(test_statistics_are_flat_sums_of_two_passes),
        cmocka_unit_test(test_standard_scale_uses_the_training_part_and_spares_constant_fields),
        cmocka_unit_test(test_each_of_any_number_of_fields_is_scaled_by_its_own_statistics),
        cmocka_unit_test(test_bytes_are_standardised_by_a_table_per_channel),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
