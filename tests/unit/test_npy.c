/* SPDX-License-Identifier: MIT */
/* test_npy.c -- NumPy arrays: shapes and types that are read, and headers that are refused. */
#include <math.h>
#include <stdio.h>

#include "support/data_folder.h"
#include "support/test.h"

#define F4_6x2 "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), }\n"
#define I4_6 "{'descr': '<i4', 'fortran_order': False, 'shape': (6,), }\n"

static const float x_f4[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -11.5f };
static const int32_t y_i4[6] = { 0, 1, 2, 0, 1, 2 };

static void write_sound(void)
{
    data_folder_npy(folder, "x.npy", F4_6x2, x_f4, sizeof x_f4);
    data_folder_npy(folder, "y.npy", I4_6, y_i4, sizeof y_i4);
}

static ls_dataset *open_pair(const char *keys)
{
    const char *path = data_folder_path(folder);
    return must_open("npy:%s/x.npy,%s/y.npy%s", path, path, keys);
}

static void refuse_pair(const char *want)
{
    const char *path = data_folder_path(folder);
    must_refuse(LS_ERR_FORMAT, want, "npy:%s/x.npy,%s/y.npy", path, path);
}

static void test_tables_and_labels_are_read(void **state)
{
    (void)state;
    write_sound();
    ls_dataset *d = open_pair("");
    const ls_dataset_info *info = ls_dataset_describe(d);
    float x[2];
    assert_false(info->is_image);
    assert_int_equal(info->channels, 2);
    assert_int_equal(info->classes, 3);
    assert_int_equal(info->count[LS_PART_TRAIN], 6);
    ls_dataset_read(d, LS_PART_TRAIN, 5, x);
    assert_true(x[0] == 10 && x[1] == -11.5f);
    assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 5), 2);
    ls_dataset_close(d);
}

static void test_bytes_doubles_and_images_are_read(void **state)
{
    (void)state;
    unsigned char pixels[2 * 2 * 3 * 2];
    const int64_t y[2] = { 3, 0 };
    float x[12];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (unsigned char)(i * 10);
    data_folder_npy(folder, "x.npy",
                    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3, 2), }\n", pixels,
                    sizeof pixels);
    data_folder_npy(folder, "y.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }",
                    y, sizeof y);
    ls_dataset *d = open_pair("");
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_true(info->is_image && info->height == 2 && info->width == 3 && info->channels == 2);
    assert_int_equal(info->classes, 4);
    ls_dataset_read(d, LS_PART_TRAIN, 1, x);
    for (size_t i = 0; i < 12; i++) assert_true(x[i] == (float)(pixels[12 + i] / 255.0));
    ls_dataset_close(d);

    const double doubles[6] = { 0.1, 0.2, 0.3, 0.4, 0.5, 1e38 };
    const float targets[4] = { 1, 2, 3, 4 };
    float t[2];
    data_folder_npy(folder, "x.npy", "{'shape': (2,1,3), 'descr': '<f8', 'fortran_order': False}",
                    doubles, sizeof doubles);
    data_folder_npy(folder, "y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
                    targets, sizeof targets);
    d = open_pair("");
    info = ls_dataset_describe(d);
    assert_true(info->is_image && info->height == 1 && info->width == 3 && info->channels == 1);
    assert_int_equal(info->task, LS_TASK_REGRESS);
    assert_int_equal(info->outputs, 2);
    ls_dataset_read(d, LS_PART_TRAIN, 1, x);
    assert_true(x[0] == 0.4f && x[2] == 1e38f); /* floats: not scaled */
    ls_dataset_target(d, LS_PART_TRAIN, 1, t);
    assert_true(t[0] == 3 && t[1] == 4);
    ls_dataset_close(d);
}

static void test_the_test_part_follows_its_key(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    write_sound();
    data_folder_npy(folder, "x2.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
                    x_f4 + 10, 8);
    data_folder_npy(folder, "y2.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }",
                    "\x04", 1);
    ls_dataset *d = must_open("npy:%s/x.npy,%s/y.npy,test=%s/x2.npy,%s/y2.npy,scale=none", path,
                              path, path, path);
    float x[2];
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 1);
    assert_int_equal(ls_dataset_describe(d)->classes, 5);
    ls_dataset_read(d, LS_PART_TEST, 0, x);
    assert_true(x[1] == -11.5f);
    ls_dataset_close(d);
    data_folder_npy(folder, "x2.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }",
                    x_f4, 12);
    must_refuse(LS_ERR_FORMAT, "x2.npy: samples of 1x1x3, expected 1x1x2, as in training",
                "npy:%s/x.npy,%s/y.npy,test=%s/x2.npy,%s/y2.npy", path, path, path, path);
    data_folder_npy(folder, "x2.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2), }",
                    x_f4, 2);
    must_refuse(LS_ERR_FORMAT, "x2.npy: elements of 1 byte, expected the type",
                "npy:%s/x.npy,%s/y.npy,test=%s/x2.npy,%s/y2.npy", path, path, path, path);
    data_folder_npy(folder, "y2.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
                    x_f4, 24);
    must_refuse(LS_ERR_FORMAT, "y2.npy: a record is 1 float, expected a label, a whole number, as "
                "in training",
                "npy:%s/x.npy,%s/y.npy,test=%s/x.npy,%s/y2.npy", path, path, path, path);
    must_refuse(LS_ERR_ARGUMENT, "expected test=X.npy,Y.npy",
                "npy:%s/x.npy,%s/y.npy,test=%s/x2.npy", path, path, path);
}

static void refuse_header(const char *header, const char *want)
{
    data_folder_npy(folder, "x.npy", header, x_f4, sizeof x_f4);
    refuse_pair(want);
}

static void test_headers_are_read_strictly(void **state)
{
    (void)state;
    write_sound();
    refuse_header("{'descr': '>f4', 'fortran_order': False, 'shape': (6, 2), }",
                  "byte 20: elements of type '>f4', expected '<f4'");
    refuse_header("{'descr': '<f2', 'fortran_order': False, 'shape': (6, 2), }", "type '<f2'");
    refuse_header("{'descr': '<u2', 'fortran_order': False, 'shape': (6, 2), }",
                  "save x.astype('<f4'), and labels as y.astype('<i8')");
    refuse_header("{'descr': '<U7', 'fortran_order': False, 'shape': (6, 2), }",
                  "number the classes, numpy.unique(y, return_inverse=True)[1]");
    refuse_header("{'descr': '<i8', 'fortran_order': False, 'shape': (6,), }",
                  "samples are whole numbers of 8 bytes, expected '<f4', '<f8' or '|u1': save");
    refuse_header("{'descr': '|O', 'fortran_order': False, 'shape': (6, 2), }", "type '|O'");
    refuse_header("{'descr': '<f4', 'fortran_order': True, 'shape': (6, 2), }",
                  "byte 44: fortran_order is True, expected False");
    refuse_header("{'descr': '<f4', 'fortran_order': False, }", "once");
    refuse_header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), }",
                  "once");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), 'x': 1}", "once");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "one dimension");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,6,2), }",
                  "at most 4 dimensions");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-6, 2), }",
                  "'-' in the header");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 0), }",
                  "dimension 2 of the header's shape is 0");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2), } x",
                  "expected the end");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2", "the header ends");
    refuse_header("", "the header ends");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }",
                  "48 bytes of data, expected 56");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2), }",
                  "48 bytes of data, expected 40");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 2), }",
                  "byte 61: 4611686018427387905 in the header's shape, a number of 19 digits, "
                  "expected at most 18");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000000000, ",
                  "1000000000000000000000000 in the header's shape, a number of 25 digits");
    refuse_header("{'descr': '<f4', 'fortran_order': False, 'shape': "
                  "(900000000000000000, 900000000000000000), }", "expected more than 2^64");
    data_folder_write(folder, "x.npy", "\x93NUMPY\001\000\xff\x00{'descr'", 18);
    refuse_pair("byte 8: a header of 255 bytes, the file has 8 after it");
    data_folder_write(folder, "x.npy", "\x93NUMPY\002\000\xff\xff\xff\xff", 12);
    refuse_pair("byte 8: a header of 4294967295 bytes, the file has 0 after it");
    data_folder_text(folder, "x.npy", "\x93NUMPX\001 and so on");
    refuse_pair("byte 0: no .npy file");
    data_folder_text(folder, "x.npy", "\x93NUMPY\004 and so on");
    refuse_pair("byte 6: version 4.32");
    data_folder_text(folder, "x.npy", "PK\003\004 and so on");
    refuse_pair("byte 0: a zip archive");
}

/* Warnings of x[2] pictures of this shape. */
static void expect_warning(const char *shape, const char *want)
{
    static const unsigned char pixels[2 * 6 * 6 * 6];
    char header[128];
    size_t h, w, c;
    assert_int_equal(sscanf(shape, "%zu, %zu, %zu", &h, &w, &c), 3);
    snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, %s), }",
             shape);
    data_folder_npy(folder, "x.npy", header, pixels, 2 * h * w * c);
    data_folder_npy(folder, "y.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }",
                    (const int64_t[2]){ 0, 1 }, 16);
    ls_dataset *d = open_pair("");
    if (want) assert_non_null(strstr(ls_dataset_warnings(d), want));
    else assert_string_equal(ls_dataset_warnings(d), "");
    ls_dataset_close(d);
}

static void test_pictures_whose_channels_come_first_are_warned_of(void **state)
{
    (void)state;
    expect_warning("3, 6, 6", "x.npy: pictures of 3 rows, 6 columns and 6 channels; where the "
                              "channels come first, save x.transpose(0, 2, 3, 1).copy()");
    expect_warning("3, 6, 5", "3 rows, 6 columns and 5 channels");
    expect_warning("1, 6, 6", "1 row, 6 columns and 6 channels");
    expect_warning("1, 6, 5", NULL); /* a signal of five channels */
    expect_warning("6, 6, 3", NULL);
    expect_warning("3, 3, 3", NULL);
}

static void test_one_hot_rows_are_told_from_labels_and_targets(void **state)
{
    (void)state;
    static const unsigned char bytes[12] = { 1, 0, 0, 1 };
    float rows[12] = { 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0 };
    write_sound();
    data_folder_npy(folder, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2), }",
                    bytes, sizeof bytes);
    refuse_pair("labels [N] of whole numbers (of one-hot rows, save y.argmax(1))");
    data_folder_npy(folder, "y.npy", F4_6x2, rows, sizeof rows);
    ls_dataset *d = open_pair("");
    assert_non_null(strstr(ls_dataset_warnings(d), "2 targets are one 1 among zeros"));
    ls_dataset_close(d);
    rows[11] = 1;
    data_folder_npy(folder, "y.npy", F4_6x2, rows, sizeof rows);
    d = open_pair("");
    assert_string_equal(ls_dataset_warnings(d), "");
    ls_dataset_close(d);
}

static void test_values_and_labels_are_checked_one_by_one(void **state)
{
    (void)state;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float x[12];
    for (size_t i = 0; i < 3; i++) {
        write_sound();
        memcpy(x, x_f4, sizeof x);
        x[7] = bad[i];
        data_folder_npy(folder, "x.npy", F4_6x2, x, sizeof x);
        refuse_pair("x.npy: record 4, element 2 (byte 98): ");
    }
    ls_dataset *d = open_pair(",bad=skip");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 5);
    assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 3), 1);
    ls_dataset_read(d, LS_PART_TRAIN, 3, x);
    assert_true(x[0] == 8);
    ls_dataset_close(d);

    const double doubles[6] = { 1, 2, 1e39, 4, 5, 6 };
    data_folder_npy(folder, "x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }",
                    doubles, sizeof doubles);
    refuse_pair("record 3, element 1 (byte 83): 1e+39, expected a finite 32-bit number");

    write_sound();
    int32_t y[6];
    memcpy(y, y_i4, sizeof y);
    y[2] = -1;
    data_folder_npy(folder, "y.npy", I4_6, y, sizeof y);
    refuse_pair("y.npy: record 3 (byte 76): label -1, expected 0..65535");
    data_folder_npy(folder, "y.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (5,), }",
                    y, 20);
    refuse_pair("y.npy: 5 records, expected 6");
    data_folder_npy(folder, "y.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }",
                    y, 24);
    refuse_pair("2 numbers per record; expected labels [N] of whole numbers");
    data_folder_npy(folder, "x.npy", I4_6, y, 24);
    data_folder_npy(folder, "y.npy", I4_6, y_i4, sizeof y_i4);
    refuse_pair("samples are whole numbers of 4 bytes");
}

/* Records 0 .. 5: with K = 3 the test samples are 2 and 5, and a bad record is told by its own
 * number, whichever part it is of. */
static void test_each_kth_record_is_test(void **state)
{
    (void)state;
    static const size_t train[4] = { 0, 1, 3, 4 };
    const float w[6] = { 1, 2, 3, 4, 5, 6 };
    float x[12];
    write_sound();
    data_folder_npy(folder, "w.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", w,
                    sizeof w);
    char keys[1200];
    snprintf(keys, sizeof keys, ",weights=%s/w.npy,test=every:3", data_folder_path(folder));
    ls_dataset *d = open_pair(keys);
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_int_equal(info->count[LS_PART_TRAIN], 4);
    assert_int_equal(info->count[LS_PART_TEST], 2);
    for (size_t i = 0; i < 4; i++) {
        ls_dataset_read(d, LS_PART_TRAIN, i, x);
        assert_memory_equal(x, x_f4 + 2 * train[i], 2 * sizeof *x);
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, i), y_i4[train[i]]);
        assert_true(ls_dataset_weight(d, i) == w[train[i]]);
    }
    for (size_t i = 0; i < 2; i++) {
        ls_dataset_read(d, LS_PART_TEST, i, x);
        assert_memory_equal(x, x_f4 + 2 * (3 * i + 2), 2 * sizeof *x);
        assert_int_equal(ls_dataset_label(d, LS_PART_TEST, i), 2);
        assert_int_equal(ls_dataset_place(d, LS_PART_TEST, i), i);
    }
    ls_dataset_close(d);

    d = open_pair(",test=every:2");
    ls_dataset_read(d, LS_PART_TRAIN, 2, x);
    ls_dataset_read(d, LS_PART_TEST, 2, x + 2);
    assert_memory_equal(x, x_f4 + 8, 4 * sizeof *x);
    ls_dataset_close(d);
    d = open_pair(",test=every:7");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 6);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 0);
    ls_dataset_close(d);

    memcpy(x, x_f4, sizeof x);
    x[11] = NAN;
    x[7] = INFINITY;
    data_folder_npy(folder, "x.npy", F4_6x2, x, sizeof x);
    d = open_pair(",test=every:3,bad=skip");
    assert_non_null(strstr(ls_dataset_warnings(d), "x.npy: record 4, element 2 (byte 98): inf"));
    assert_non_null(strstr(ls_dataset_warnings(d), "x.npy: record 6, element 2 (byte 114): nan"));
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 3);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 1);
    ls_dataset_read(d, LS_PART_TRAIN, 2, x);
    assert_true(x[0] == 8 && x[1] == 9);
    ls_dataset_close(d);

    const char *path = data_folder_path(folder);
    static const char *const wrong[] = { "every:1", "every:x", "every:3,every:4" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        must_refuse(LS_ERR_ARGUMENT, "expected test=every:K",
                    "npy:%s/x.npy,%s/y.npy,bad=skip,test=%s", path, path, wrong[i]);
    must_refuse(LS_ERR_FORMAT, "none: no such file",
                "npy:%s/x.npy,%s/y.npy,bad=skip,test=none,z", path, path);
    data_folder_npy(folder, "w.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", w,
                    4 * sizeof *w);
    must_refuse(LS_ERR_FORMAT, "expected a weight for each of 6 records",
                "npy:%s/x.npy,%s/y.npy,bad=skip,test=every:3,weights=%s/w.npy", path, path, path);
}

static void test_samples_alone_have_no_answers_until_some_are_assumed(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    float x[2], y[3] = { 1, 1, 1 };
    write_sound();
    ls_dataset *d = must_open("npy:%s/x.npy,test=every:3", path);
    const ls_dataset_info *info = ls_dataset_describe(d);
    assert_int_equal(info->task, LS_TASK_NONE);
    assert_true(info->count[LS_PART_TRAIN] == 4 && info->count[LS_PART_TEST] == 2);
    assert_true(info->classes == 0 && info->outputs == 0);
    ls_dataset_read(d, LS_PART_TEST, 1, x);
    assert_true(x[0] == 10 && x[1] == -11.5f);
    assert_int_equal(ls_dataset_assume_answers(d, LS_TASK_REGRESS, 3), LS_OK);
    assert_true(info->task == LS_TASK_REGRESS && info->outputs == 3);
    ls_dataset_target(d, LS_PART_TEST, 1, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0);
    ls_dataset_close(d);
    must_refuse(LS_ERR_ARGUMENT, "has answers, and", "npy:%s/x.npy,test=%s/x.npy,%s/y.npy", path,
                path, path);
    must_refuse(LS_ERR_ARGUMENT, "0 names of files or folders, expected 2", "npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_and_labels_are_read),
        cmocka_unit_test(test_bytes_doubles_and_images_are_read),
        cmocka_unit_test(test_the_test_part_follows_its_key),
        cmocka_unit_test(test_headers_are_read_strictly),
        cmocka_unit_test(test_pictures_whose_channels_come_first_are_warned_of),
        cmocka_unit_test(test_one_hot_rows_are_told_from_labels_and_targets),
        cmocka_unit_test(test_values_and_labels_are_checked_one_by_one),
        cmocka_unit_test(test_each_kth_record_is_test),
        cmocka_unit_test(test_samples_alone_have_no_answers_until_some_are_assumed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
