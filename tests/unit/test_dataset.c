/* SPDX-License-Identifier: MIT */
/* test_dataset.c -- what all formats share: the spec, the identity, warnings and report; and the
 * data set that is built in. For how numbers are scaled see test_dataset_scale.c. */
#include "io/dataset.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "io/dataset_internal.h"
#include "numerics.h"
#include "support/data_folder.h"
#include "support/test.h"

/* -- the spec -------------------------------------------------------------------------------- */

static void test_a_wrong_spec_is_answered_with_the_nearest_known_name(void **state)
{
    (void)state;
    must_refuse(LS_ERR_ARGUMENT, "unknown kind of data 'digts', did you mean 'digits'?", "digts");
    must_refuse(LS_ERR_ARGUMENT, "did you mean 'cifar10'?", "cifar:x");
    must_refuse(LS_ERR_ARGUMENT, "did you mean 'csv:FILE'?", "%s", "some/data.csv");
    must_refuse(LS_ERR_ARGUMENT, "did you mean 'npy:X.npy,Y.npy'?", "%s", "x.npy,y.npy");
    must_refuse(LS_ERR_ARGUMENT, "known: digits, cifar10:DIR, cifar100:DIR, idx:DIR, csv:FILE, "
                "npy:X.npy,Y.npy",
                "%s", "imagenet:x");
    must_refuse(LS_ERR_ARGUMENT, "unknown kind of data ''", "%s", "");
    must_refuse(LS_ERR_ARGUMENT, "unknown key 'sclae', did you mean 'scale'?", "digits,sclae=none");
    must_refuse(LS_ERR_ARGUMENT, "unknown key 'test'; expected digits", "digits,test=none");
    must_refuse(LS_ERR_ARGUMENT, "scale=2, expected scale=255|none|standard|16", "digits,scale=2");
    must_refuse(LS_ERR_ARGUMENT, "'scale=' is given twice", "digits,scale=none,scale=none");
    must_refuse(LS_ERR_ARGUMENT, "nothing after 'scale='", "digits,scale=");
    must_refuse(LS_ERR_ARGUMENT, "nothing after 'csv:'", "csv:");
    must_refuse(LS_ERR_ARGUMENT, "0 names of files or folders, expected 1", "csv,header=no");
    must_refuse(LS_ERR_ARGUMENT, "2 names of files or folders, expected 1 (a path holds no comma)",
                "%s", "idx:a,b");
    must_refuse(LS_ERR_ARGUMENT, "1 name of files or folders, expected 0", "%s", "digits:x");
    must_refuse(LS_ERR_ARGUMENT, "'b' after header=no", "%s", "csv:a,header=no,b");
    must_refuse(LS_ERR_ARGUMENT, "expected KEY=VALUE", "%s", "npy:x,y,test=a,b,c");
    must_refuse(LS_ERR_ARGUMENT, "task=klass, expected task=class|regress", "csv:a,task=klass");
    must_refuse(LS_ERR_ARGUMENT, "outputs=0, expected a whole number 1..65536",
                "csv:a,task=regress,outputs=0");
    must_refuse(LS_ERR_ARGUMENT, "more than 16 items", "%s",
                "csv:a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a");
}

/* What keeps the system from reading a file that is there is no fault of the data: it may go. */
static void test_a_file_that_cannot_be_opened_is_no_data_error(void **state)
{
    (void)state;
    char loop[600];
    snprintf(loop, sizeof loop, "%s/loop.csv", data_folder_path(folder));
    assert_int_equal(symlink("loop.csv", loop), 0); /* to itself: ELOOP */
    must_refuse(LS_ERR_IO, "loop.csv: cannot be opened: ", "csv:%s", loop);
}

static void test_absent_files_and_folders_in_their_place_are_data_errors(void **state)
{
    (void)state;
    const char *path = data_folder_path(folder);
    must_refuse(LS_ERR_FORMAT, "absent.csv: no such file, expected CSV text", "csv:%s/absent.csv",
                path);
    must_refuse(LS_ERR_FORMAT, "absent.csv: no such file, expected CSV text; looked for in /",
                "csv:absent.csv");
    must_refuse(LS_ERR_FORMAT, ": a folder, expected a file", "csv:%s", path);
    must_refuse(LS_ERR_ARGUMENT, "npy:X.npy,Y.npy; a folder of pictures is made into arrays first",
                "%s", path);
    must_refuse(LS_ERR_ARGUMENT, "a folder of pictures is made into arrays", "%s/1.PNG", path);
    data_folder_text(folder, "a.npz", "PK\003\004");
    must_refuse(LS_ERR_ARGUMENT, "did you mean 'npy:X.npy,Y.npy'", "%s/a.npz", path);
    must_refuse(LS_ERR_FORMAT, "a zip archive (50 4b 03 04, as .zip, .xlsx and .npz begin; of an "
                ".npz, save each array", "npy:%s/a.npz,y", path);
    data_folder_text(folder, "a.csv.gz", "\x1f\x8b\x08");
    must_refuse(LS_ERR_FORMAT, "a.csv is there only compressed", "csv:%s/a.csv", path);
    must_refuse(LS_ERR_FORMAT,
                "byte 0: gzip data (1f 8b), expected CSV text; unpack it with: gunzip -k",
                "csv:%s/a.csv.gz", path);
    data_folder_write(folder, "wide.csv", "\xff\xfe" "1\0,\0", 6);
    must_refuse(LS_ERR_FORMAT, "byte 0: UTF-16 text (mark ff fe", "csv:%s/wide.csv", path);
}

/* -- digits ---------------------------------------------------------------------------------- */

static void test_digits_are_all_there(void **state)
{
    (void)state;
    ls_dataset *d = must_open("digits,scale=none");
    const ls_dataset_info *info = ls_dataset_describe(d);
    static const int lines_per_digit[10] = { 178, 182, 177, 183, 181, 182, 181, 179, 174, 180 };
    int count[10] = { 0 };
    double sum = 0;
    assert_true(info->is_image && info->height == 8 && info->width == 8 && info->channels == 1);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->count[LS_PART_TRAIN], 1438);
    assert_int_equal(info->count[LS_PART_TEST], 359);
    for (int part = 0; part < LS_PART_COUNT; part++) {
        for (size_t i = 0; i < info->count[part]; i++) {
            float x[64];
            ls_dataset_read(d, (ls_part)part, i, x);
            for (size_t k = 0; k < 64; k++) sum += x[k];
            count[ls_dataset_label(d, (ls_part)part, i)]++;
        }
    }
    assert_true(sum == 561718);
    assert_memory_equal(count, lines_per_digit, sizeof count);
    assert_string_equal(ls_dataset_warnings(d), "");
    assert_string_equal(ls_dataset_spec(d), "digits,scale=none");
    assert_null(ls_dataset_class_name(d, 9));
    ls_dataset_close(d);
}

static void test_digits_are_divided_by_sixteen_unless_told_otherwise(void **state)
{
    (void)state;
    ls_dataset *plain = must_open("digits"), *none = must_open("digits,scale=none");
    for (size_t i = 0; i < 100; i++) {
        float a[64], b[64];
        ls_dataset_read(plain, LS_PART_TRAIN, i, a);
        ls_dataset_read(none, LS_PART_TRAIN, i, b);
        for (size_t k = 0; k < 64; k++) assert_true(a[k] == b[k] / 16);
    }
    ls_dataset_close(plain);
    ls_dataset_close(none);
}

/* -- identity -------------------------------------------------------------------------------- */

static void test_the_identity_is_of_the_contents(void **state)
{
    (void)state;
    /* SHA-256 computed from digits.csv by a program of its own, as the head of dataset.c says. */
    ls_dataset *d = must_open("digits");
    assert_string_equal(ls_dataset_identity(d),
                        "63056cedc837a64f4eb23cd2dfa57c5aab34fcfe373ea95e10744c0ff461c9ce");
    ls_dataset_close(d);

    static const struct {
        const char *file, *text, *keys;
        bool same;
    } cases[] = {
        { "b.csv", "1,2,0\n3,4,1\n", ",test=none", true },
        { "a.csv", "1.0,2,0\r\n3,4,1", ",test=none,scale=none,task=class", true },
        { "a.csv", "1,2,0\n3,5,1\n", ",test=none", false },
        { "a.csv", "1,2,0\n3,4,0\n", ",test=none", false },
        { "a.csv", "3,4,1\n1,2,0\n", ",test=none", false },
        { "a.csv", "1,2,0\n3,4,1\n", ",test=none,scale=255", false },
        { "a.csv", "1,2,0\n3,4,1\n", ",test=none,scale=standard", false },
        { "a.csv", "1,2,0\n3,4,1\n", ",test=every:2", false },
        { "a.csv", "1,2,0\n3,4,1\n", ",test=none,task=regress", false },
    };
    char identity[65];
    data_folder_text(folder, "a.csv", "1,2,0\n3,4,1\n");
    d = must_open("csv:%s/a.csv,test=none", data_folder_path(folder));
    snprintf(identity, sizeof identity, "%s", ls_dataset_identity(d));
    ls_dataset_close(d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        data_folder_text(folder, cases[i].file, cases[i].text);
        d = must_open("csv:%s/%s%s", data_folder_path(folder), cases[i].file, cases[i].keys);
        if ((strcmp(ls_dataset_identity(d), identity) == 0) != cases[i].same) {
            fail_msg("case %zu: identity %s", i, ls_dataset_identity(d));
        }
        ls_dataset_close(d);
    }
}

/* -- report ---------------------------------------------------------------------------------- */

static void check_report(ls_dataset *dataset, const char *const *wanted)
{
    char *text = NULL;
    assert_int_equal(ls_dataset_report(dataset, &text), LS_OK);
    for (; *wanted; wanted++) {
        if (!strstr(text, *wanted)) fail_msg("\"%s\" is not in:\n%s", *wanted, text);
    }
    free(text);
    ls_dataset_close(dataset);
}

static void test_the_report_names_counts_classes_ranges_and_warnings(void **state)
{
    (void)state;
    check_report(must_open("digits"),
                 (const char *const[]){
                     "digits: images 8x8x1, 10 classes, 1438 train and 359 test samples\n",
                     "identity  63056ced", "scale     16: each value is divided by 16\n",
                     "values    train 0 .. 16, mean 4.89291, std 6.02308\n",
                     "          test  0 .. 16, mean 4.84915, std 5.9914\n",
                     "class       train      test\n", "\n9             138        42\n", NULL });
    data_folder_text(folder, "t.csv", "1,-2,5\n3,4,5\n5,0.5,5\n");
    check_report(must_open("csv:%s/t.csv,test=none", data_folder_path(folder)),
                 (const char *const[]){
                     "2 numbers per sample, 6 classes, 3 train and 0 test samples\n",
                     "field 1   train 1 .. 5, mean 3, std 1.63299\n",
                     "field 2   train -2 .. 4, mean", "warning: train: all 3 labels are 5\n",
                     NULL });
    check_report(must_open("csv:%s/t.csv,test=none,task=regress", data_folder_path(folder)),
                 (const char *const[]){ "2 numbers per sample, 1 target, 3 train",
                                        "target 1   5 .. 5, mean 5\n", NULL });
}

/* -- real data, where it is ------------------------------------------------------------------- */

/* Sum of all stored numbers of a part, by reading samples. */
static double sum_of(const ls_dataset *d, ls_part part)
{
    const ls_dataset_info *info = ls_dataset_describe(d);
    const size_t elements = info->height * info->width * info->channels;
    float *x = malloc(elements * sizeof *x);
    double sum = 0;
    assert_non_null(x);
    for (size_t i = 0; i < info->count[part]; i++) {
        ls_dataset_read(d, part, i, x);
        for (size_t k = 0; k < elements; k++) sum += x[k];
    }
    free(x);
    return sum;
}

static void check_labels(const ls_dataset *d, ls_part part, const int32_t want[10])
{
    for (size_t i = 0; i < 10; i++) assert_int_equal(ls_dataset_label(d, part, i), want[i]);
}

static void test_real_data_has_the_sums_and_labels_that_its_notes_state(void **state)
{
    (void)state;
    const char *base = getenv("LOCKSTEP_TEST_DATA");
    if (!base || !*base) {
        print_message("left out: real data sets (LOCKSTEP_TEST_DATA is not set)\n");
        return;
    }
    ls_dataset *d = must_open("cifar10:%s/cifar10-subset,scale=none", base);
    check_labels(d, LS_PART_TRAIN, (const int32_t[]){ 9, 9, 0, 5, 4, 5, 4, 4, 3, 6 });
    check_labels(d, LS_PART_TEST, (const int32_t[]){ 3, 4, 8, 7, 3, 3, 5, 7, 1, 1 });
    assert_true(sum_of(d, LS_PART_TRAIN) == 3713933224.0);
    assert_true(sum_of(d, LS_PART_TEST) == 751686415.0);
    assert_string_equal(ls_dataset_class_name(d, 9), "truck");
    float x[3072];
    ls_dataset_read(d, LS_PART_TRAIN, 0, x);
    assert_true(x[0] == 104 && x[1] == 85 && x[2] == 91 && x[3069] == 97 && x[3071] == 105);
    ls_dataset_close(d);

    d = must_open("idx:%s/mnist-subset,scale=none", base);
    check_labels(d, LS_PART_TRAIN, (const int32_t[]){ 5, 0, 4, 1, 9, 2, 1, 3, 1, 4 });
    check_labels(d, LS_PART_TEST, (const int32_t[]){ 7, 1, 0, 5, 9, 0, 3, 2, 1, 5 });
    assert_true(sum_of(d, LS_PART_TRAIN) == 262146600.0);
    assert_true(sum_of(d, LS_PART_TEST) == 53135815.0);
    ls_dataset_close(d);

    must_refuse(LS_ERR_FORMAT, "gunzip -k", "idx:%s/fashion-mnist-subset", base);
    d = must_open("csv:%s/tabular/letter.csv", base);
    assert_int_equal(ls_dataset_describe(d)->classes, 26);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TEST], 4000);
    ls_dataset_close(d);
    d = must_open("csv:%s/tabular/linnerud.csv,task=regress,outputs=3", base);
    assert_int_equal(ls_dataset_describe(d)->channels, 3);
    assert_int_equal(ls_dataset_describe(d)->count[LS_PART_TRAIN], 16);
    ls_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_spec_is_answered_with_the_nearest_known_name),
        cmocka_unit_test(test_a_file_that_cannot_be_opened_is_no_data_error),
        cmocka_unit_test(test_absent_files_and_folders_in_their_place_are_data_errors),
        cmocka_unit_test(test_digits_are_all_there),
        cmocka_unit_test(test_digits_are_divided_by_sixteen_unless_told_otherwise),
        cmocka_unit_test(test_the_identity_is_of_the_contents),
        cmocka_unit_test(test_the_report_names_counts_classes_ranges_and_warnings),
        cmocka_unit_test(test_real_data_has_the_sums_and_labels_that_its_notes_state),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
