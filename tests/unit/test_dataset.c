/* SPDX-License-Identifier: MIT */
/* test_dataset.c -- what all formats share: the spec, the scale and its statistics, the identity,
 * warnings and report; and the data set that is built in. */
#include "io/dataset.h"

#include <math.h>
#include <stdio.h>

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
        cmocka_unit_test(test_absent_files_and_folders_in_their_place_are_data_errors),
        cmocka_unit_test(test_digits_are_all_there),
        cmocka_unit_test(test_digits_are_divided_by_sixteen_unless_told_otherwise),
        cmocka_unit_test(test_images_of_bytes_travel_as_bytes_and_a_table),
        cmocka_unit_test(test_all_other_data_travel_as_scaled_floats),
        cmocka_unit_test(test_statistics_are_flat_sums_of_two_passes),
        cmocka_unit_test(test_standard_scale_uses_the_training_part_and_spares_constant_fields),
        cmocka_unit_test(test_each_of_any_number_of_fields_is_scaled_by_its_own_statistics),
        cmocka_unit_test(test_bytes_are_standardised_by_a_table_per_channel),
        cmocka_unit_test(test_the_identity_is_of_the_contents),
        cmocka_unit_test(test_the_report_names_counts_classes_ranges_and_warnings),
        cmocka_unit_test(test_real_data_has_the_sums_and_labels_that_its_notes_state),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
