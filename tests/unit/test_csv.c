/* SPDX-License-Identifier: MIT */
/* test_csv.c -- CSV texts: which numbers are numbers, which lines are records, which fields are
 * labels; and what is said of the others. */
#include "io/csv.h"

#include <math.h>

#include "support/data_folder.h"
#include "support/test.h"

/* Open data.csv with this text; `keys` follow the file's name. */
static ls_dataset *open_text(const char *text, const char *keys)
{
    data_folder_text(folder, "data.csv", text);
    return must_open("csv:%s/data.csv%s", data_folder_path(folder), keys);
}

static void refuse_text(const char *text, const char *keys, const char *want)
{
    data_folder_text(folder, "data.csv", text);
    must_refuse(LS_ERR_FORMAT, want, "csv:%s/data.csv%s", data_folder_path(folder), keys);
}

static float value_at(const ls_dataset *dataset, ls_part part, size_t index, size_t field)
{
    float x[16];
    assert_true(ls_dataset_describe(dataset)->channels <= 16);
    ls_dataset_read(dataset, part, index, x);
    return x[field];
}

/* -- numbers --------------------------------------------------------------------------------- */

static ls_csv_verdict verdict_of(const char *text, float *value)
{
    const ls_csv_span field = { .text = text, .chars = strlen(text), .number = 1 };
    *value = 0;
    return ls_csv_number(&field, value, NULL);
}

static void test_a_number_is_rounded_once(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float value;
    } cases[] = {
        { "0", 0 }, { "-0", -0.0f }, { "17", 17 }, { "+1.5", 1.5f }, { ".5", .5f }, { "5.", 5 },
        { "-1.5e3", -1500 }, { "1E+2", 100 }, { " 1 ", 1 }, { "\t2", 2 }, { "1e-999", 0 },
        { "3.4028235e38", 0x1.fffffep127f }, { "1e-45", 0x1p-149f },
        /* Between two floats, a hair below the middle: by way of a double it would go up. */
        { "1.00000017881393432617187499", 0x1.000002p0f },
        { "1.00000017881393432617187501", 0x1.000004p0f },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float value;
        if (verdict_of(cases[i].text, &value) != LS_CSV_NUMBER || value != cases[i].value ||
            signbit(value) != signbit(cases[i].value)) {
            fail_msg("%s came out as %a", cases[i].text, (double)value);
        }
    }
}

static void test_what_is_no_number_is_called_so(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ls_csv_verdict verdict;
    } cases[] = {
        { "", LS_CSV_EMPTY }, { "  \t", LS_CSV_EMPTY }, { "nan", LS_CSV_NO_NUMBER },
        { "inf", LS_CSV_NO_NUMBER }, { "-INFINITY", LS_CSV_NO_NUMBER },
        { "0x10", LS_CSV_NO_NUMBER },
        { "12abc", LS_CSV_NO_NUMBER }, { "NA", LS_CSV_NO_NUMBER }, { ".", LS_CSV_NO_NUMBER },
        { "+", LS_CSV_NO_NUMBER }, { "1e", LS_CSV_NO_NUMBER }, { "1e+", LS_CSV_NO_NUMBER },
        { "1.2.3", LS_CSV_NO_NUMBER }, { "1 2", LS_CSV_NO_NUMBER }, { "--1", LS_CSV_NO_NUMBER },
        { "\"1\"", LS_CSV_NO_NUMBER }, { "1;2", LS_CSV_NO_NUMBER }, { "1_000", LS_CSV_NO_NUMBER },
        { "e5", LS_CSV_NO_NUMBER }, { "1e39", LS_CSV_TOO_LARGE }, { "-1e999", LS_CSV_TOO_LARGE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float value;
        if (verdict_of(cases[i].text, &value) != cases[i].verdict) fail_msg("%s", cases[i].text);
    }
    float value;
    const ls_csv_span nul = { .text = "1\0002", .chars = 3 };
    assert_int_equal(ls_csv_number(&nul, &value, NULL), LS_CSV_NO_NUMBER);
    char digits[LS_CSV_NUMBER_CHARS + 2];
    memset(digits, '0', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    assert_int_equal(verdict_of(digits, &value), LS_CSV_TOO_LONG);
    digits[sizeof digits - 2] = '\0';
    assert_int_equal(verdict_of(digits, &value), LS_CSV_NUMBER);
}

/* -- lines ----------------------------------------------------------------------------------- */

static void test_line_ends_and_marks_change_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1,2,0\n3,4,1\n", "1,2,0\r\n3,4,1\r\n", "1,2,0\r\n3,4,1\n", "1,2,0\n3,4,1",
        "\xef\xbb\xbf" "1,2,0\n3,4,1\n", " 1, 2, 0\n3 ,4,\t1\n", "1.0,2e0,0\n3,+4,1.0\n",
    };
    char identity[65] = "";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ls_dataset *d = open_text(texts[i], ",test=none");
        assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 2);
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 1), 1);
        assert_true(value_at(d, LS_PART_TRAIN, 1, 1) == 4);
        if (i == 0) strcpy(identity, ls_dataset_identity(d));
        assert_string_equal(ls_dataset_identity(d), identity);
        ls_dataset_close(d);
    }
}

static void test_bad_lines_are_named_with_their_place(void **state)
{
    (void)state;
    refuse_text("1,2,0\n3,1\n", "", "data.csv: line 2 (byte 6): 2 fields, expected 3");
    refuse_text("1,2,0\n3,4,5,1\n", "", "line 2 (byte 6): 4 fields, expected 3");
    refuse_text("1,2,0\n\n3,4,1\n", "", "line 2 (byte 6): empty line");
    refuse_text("1,2,0\n3,4,1\n\n", "", "line 3 (byte 12): empty line");
    refuse_text("\n\n", "", "line 1 (byte 0): empty line");
    refuse_text("1,2,0\n3,,1\n", "", "line 2, field 2 (byte 8): empty field");
    refuse_text("1,2,0\n3,nan,1\n", "", "line 2, field 2 (byte 8): 'nan'");
    refuse_text("1,2,0\n3,1e39,1\n", "", "'1e39' overflows a 32-bit float");
    refuse_text("1,2,0\n3,0x1,1\n", "", "'0x1'");
    refuse_text("1,2,0\r3,4,1\r", "", "line 1 (byte 5): a carriage return");
    refuse_text("1;2;0\n3;4;1\n", "", "line 1 (byte 0): 1 field, expected at least 2, separated by "
                                      "commas; found semicolons");
    refuse_text("1,2,0\n3,4;5,1\n", "", "not ';'");
    refuse_text("a,b,c\n3,4,1\n", "", "line 1, field 1 (byte 0): 'a', expected a number; if line 1 "
                                      "is a header: header=yes");
    refuse_text("1,2,0\n\"3\",4,1\n", "", "quotes are not read");
    refuse_text("\"3\",4,1\n1,2,0\n", "", "quotes are not read"); /* no header, to look at it */
    refuse_text("1e39,4,1\n1,2,0\n", "", "'1e39' overflows a 32-bit float");
    refuse_text("\"a\",b,c\n1,2,0\n", "", "if line 1 is a header: header=yes");
    refuse_text(",b,c\n1,2,0\n", "", "if line 1 is a header: header=yes");
    refuse_text("1,2,0\n3,\x1b[31m,1\n", "", "'\\x1b[31m'");
    refuse_text("1,2,0\n3,4,cat\n", "", "line 2, field 3 (byte 10): 'cat', expected a class as a "
                                        "whole number from 0; names are not read");
    refuse_text("1,2,0\n3,cat,1\n", "", "'cat', expected a number such as");
    refuse_text("1,2,0\n3,4,cat\n", ",task=regress", "'cat', expected a number such as");
    refuse_text("1,2,-1\n", "", "line 1, field 3 (byte 4): label '-1', expected a whole number");
    refuse_text("1,2,1.5\n", "", "label '1.5'");
    refuse_text("1,2,4294967299\n", "", "label '4294967299'");
    refuse_text("1,2,65536\n", "", "label '65536', expected a whole number 0..65535");
    data_folder_write(folder, "data.csv", "1,2,0\n3,4\0,1\n", 13);
    must_refuse(LS_ERR_FORMAT, "line 2, field 2 (byte 8): '4\\x00'", "csv:%s/data.csv",
                data_folder_path(folder));
}

static void test_a_field_or_line_of_any_length_is_read_or_refused_whole(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    char *text = malloc(LONG + 64);
    assert_non_null(text);
    strcpy(text, "1,2,0\n");
    memset(text + 6, '9', LONG);
    strcpy(text + 6 + LONG, ",2,1\n");
    refuse_text(text, "", "line 2, field 1 (byte 6): 200000 characters, expected at most 128");
    for (size_t i = 0; i < LONG; i += 2) memcpy(text + 6 + i, "7,", 2);
    strcpy(text + 6 + LONG, "1\n");
    refuse_text(text, "", "line 2 (byte 6): 100001 fields, expected 3");
    ls_dataset *d = open_text(text + 6, ",test=none");
    assert_int_equal(ls_dataset_describe(d)->channels, 100000);
    ls_dataset_close(d);
    free(text);
}

static void test_a_wide_first_line_does_not_size_memory_for_short_ones(void **state)
{
    (void)state;
    enum { FIELDS = 50000, LINES = 50000 }; /* their product would be 10 GB of floats */
    char *text = malloc(2 * FIELDS + 2 * LINES + 1);
    assert_non_null(text);
    for (size_t i = 0; i < FIELDS; i++) memcpy(text + 2 * i, i + 1 < FIELDS ? "1," : "1\n", 2);
    for (size_t i = 0; i < LINES; i++) memcpy(text + 2 * (FIELDS + i), "1\n", 2);
    text[2 * FIELDS + 2 * LINES] = '\0';
    refuse_text(text, "", "line 2 (byte 100000): 1 field, expected 50000");
    ls_dataset *d = open_text(text, ",bad=skip");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 1);
    ls_dataset_close(d);
    free(text);
}

/* -- keys ------------------------------------------------------------------------------------ */

static void test_the_label_may_be_first_last_or_any_field(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int label;
        float x0, x1;
    } cases[] = {
        { ",test=none", 9, 7, 8 },
        { ",test=none,label=last", 9, 7, 8 },
        { ",test=none,label=first", 7, 8, 9 },
        { ",test=none,label=2", 8, 7, 9 },
        { ",test=none,label=3", 9, 7, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_dataset *d = open_text("7,8,9\n", cases[i].keys);
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, 0), cases[i].label);
        assert_true(value_at(d, LS_PART_TRAIN, 0, 0) == cases[i].x0);
        assert_true(value_at(d, LS_PART_TRAIN, 0, 1) == cases[i].x1);
        ls_dataset_close(d);
    }
    must_refuse(LS_ERR_ARGUMENT, "label=4 is beyond the last field",
                "csv:%s/data.csv,label=4", data_folder_path(folder));
    must_refuse(LS_ERR_ARGUMENT, "label=0, expected last", "csv:%s/data.csv,label=0",
                data_folder_path(folder));
}

static void test_regression_takes_neighbouring_targets(void **state)
{
    (void)state;
    ls_dataset *d = open_text("1,2,3.5,-4\n5,6,7,8\n", ",test=none,task=regress,outputs=2");
    const ls_dataset_info *info = ls_dataset_describe(d);
    float y[2];
    assert_int_equal(info->task, LS_TASK_REGRESS);
    assert_int_equal(info->channels, 2);
    assert_int_equal(info->outputs, 2);
    ls_dataset_target(d, LS_PART_TRAIN, 0, y);
    assert_true(y[0] == 3.5f && y[1] == -4);
    assert_true(value_at(d, LS_PART_TRAIN, 1, 1) == 6);
    ls_dataset_close(d);

    d = open_text("1,2,3.5,-4\n", ",test=none,task=regress,label=2,outputs=2");
    ls_dataset_target(d, LS_PART_TRAIN, 0, y);
    assert_true(y[0] == 2 && y[1] == 3.5f);
    assert_true(value_at(d, LS_PART_TRAIN, 0, 1) == -4);
    ls_dataset_close(d);

    must_refuse(LS_ERR_ARGUMENT, "outputs=2 goes with task=regress", "csv:%s/data.csv,outputs=2",
                data_folder_path(folder));
    must_refuse(LS_ERR_FORMAT, "4 fields, expected at least 5",
                "csv:%s/data.csv,task=regress,outputs=4", data_folder_path(folder));
}

static void test_every_kth_record_is_test(void **state)
{
    (void)state;
    static const char text[] = "1,0\n2,0\n3,1\n4,1\n5,0\n6,1\n7,1\n";
    ls_dataset *d = open_text(text, "");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 6);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 1);
    assert_true(value_at(d, LS_PART_TEST, 0, 0) == 5);
    assert_true(value_at(d, LS_PART_TRAIN, 4, 0) == 6);
    ls_dataset_close(d);

    d = open_text(text, ",test=every:3");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 2);
    assert_true(value_at(d, LS_PART_TEST, 1, 0) == 6);
    assert_true(value_at(d, LS_PART_TRAIN, 2, 0) == 4);
    ls_dataset_close(d);
    must_refuse(LS_ERR_ARGUMENT, "test=every:1, expected", "csv:%s/data.csv,test=every:1",
                data_folder_path(folder));
}

static void test_the_test_part_may_be_a_file_of_its_own(void **state)
{
    (void)state;
    data_folder_text(folder, "test.csv", "9,8,3\n");
    data_folder_text(folder, "narrow.csv", "9,3\n");
    data_folder_text(folder, "data.csv", "1,2,0\n3,4,1\n");
    const char *path = data_folder_path(folder);
    ls_dataset *d = must_open("csv:%s/data.csv,test=%s/test.csv", path, path);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 2);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 1);
    assert_int_equal(ls_dataset_describe(d)->classes, 4); /* over both parts */
    assert_int_equal(ls_dataset_label(d, LS_PART_TEST, 0), 3);
    ls_dataset_close(d);
    must_refuse(LS_ERR_FORMAT, "narrow.csv: line 1 (byte 0): 2 fields, expected 3",
                "csv:%s/data.csv,test=%s/narrow.csv", path, path);
    must_refuse(LS_ERR_FORMAT, "absent.csv: no such file", "csv:%s/data.csv,test=%s/absent.csv",
                path, path);
}

static void test_a_header_is_skipped_when_told_and_never_read_as_zeros(void **state)
{
    (void)state;
    ls_dataset *d = open_text("a,b,c\n1,2,0\n3,4,1\n", ",header=yes,test=none");
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 2);
    assert_string_equal(ls_dataset_warnings(d), "");
    ls_dataset_close(d);
    d = open_text("1,2,0\n3,4,1\n5,6,0\n", ",header=yes,test=none");
    assert_non_null(strstr(ls_dataset_warnings(d), "skipped as header, but it is all numbers"));
    ls_dataset_close(d);
    refuse_text("a,b,c\n", ",header=yes", "no record");
}

static void test_bad_records_can_be_skipped_and_move_no_other(void **state)
{
    (void)state;
    static const char text[] = "1,0\nx,0\n3,1\n4,-1\n5,0\n6\n\n8,1\n9,1\n10,1\n";
    refuse_text(text, "", "line 6 (byte 21): 1 field, expected 2");
    ls_dataset *d = open_text(text, ",bad=skip");
    /* Records 5 and 10 are test; 2, 4, 6, 7 are bad. */
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 4);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 2);
    static const float kept[4] = { 1, 3, 8, 9 };
    static const int label[4] = { 0, 1, 1, 1 };
    for (size_t i = 0; i < 4; i++) {
        assert_true(value_at(d, LS_PART_TRAIN, i, 0) == kept[i]);
        assert_int_equal(ls_dataset_label(d, LS_PART_TRAIN, i), label[i]);
    }
    assert_true(value_at(d, LS_PART_TEST, 0, 0) == 5);
    assert_true(value_at(d, LS_PART_TEST, 1, 0) == 10);
    const char *warnings = ls_dataset_warnings(d);
    assert_non_null(strstr(warnings, "line 2, field 1"));
    assert_non_null(strstr(warnings, "line 4, field 2"));
    assert_non_null(strstr(warnings, "line 6 (byte"));
    assert_non_null(strstr(warnings, "line 7 (byte"));
    assert_non_null(strstr(warnings, "skipped 4 bad records in all"));
    ls_dataset_close(d);
    refuse_text("1,-1\n2,-1\n", ",bad=skip", "no training sample (2 bad records skipped)");
}

static void test_classes_without_samples_are_a_warning(void **state)
{
    (void)state;
    ls_dataset *d = open_text("1,250\n2,17\n3,30\n", ",test=none");
    assert_int_equal(ls_dataset_describe(d)->classes, 251);
    assert_non_null(strstr(ls_dataset_warnings(d), "248 of 251 classes have no sample: the first "
                                                   "is 0 ("));
    assert_non_null(strstr(ls_dataset_warnings(d), "task=regress"));
    ls_dataset_close(d);
    d = open_text("1,0\n2,3\n3,1\n", ",test=none");
    assert_non_null(strstr(ls_dataset_warnings(d), "1 of 4 classes has no sample: 2 ("));
    ls_dataset_close(d);
    d = open_text("1,3\n2,3\n3,3\n", ",test=none");
    assert_non_null(strstr(ls_dataset_warnings(d), "all 3 labels are 3"));
    ls_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_is_rounded_once),
        cmocka_unit_test(test_what_is_no_number_is_called_so),
        cmocka_unit_test(test_line_ends_and_marks_change_no_number),
        cmocka_unit_test(test_bad_lines_are_named_with_their_place),
        cmocka_unit_test(test_a_field_or_line_of_any_length_is_read_or_refused_whole),
        cmocka_unit_test(test_a_wide_first_line_does_not_size_memory_for_short_ones),
        cmocka_unit_test(test_the_label_may_be_first_last_or_any_field),
        cmocka_unit_test(test_regression_takes_neighbouring_targets),
        cmocka_unit_test(test_every_kth_record_is_test),
        cmocka_unit_test(test_the_test_part_may_be_a_file_of_its_own),
        cmocka_unit_test(test_a_header_is_skipped_when_told_and_never_read_as_zeros),
        cmocka_unit_test(test_bad_records_can_be_skipped_and_move_no_other),
        cmocka_unit_test(test_classes_without_samples_are_a_warning),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
