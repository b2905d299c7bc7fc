/* SPDX-License-Identifier: MIT */
/* test_broken_data.c -- no damaged file crashes the readers, and none is taken for a sound one.
 *
 * Two kinds of damage. Files made here are cut at every byte and have every header byte changed: a
 * cut binary file is always refused; anything else is refused or read, but never out of bounds (the
 * sanitizer presets watch). And, where LOCKSTEP_TEST_DATA names a folder with
 * broken/expect.tsv, each file of that table must come out as the table says:
 *
 *     file  format  bytes  verdict (accept, reject, choice)  records  where  what
 *
 * with `where` found in the message, and an accepted file holding `records` samples.
 *
 * Two decisions of lockstep enter. It unpacks nothing, so every .gz row is refused, the sound
 * one too, with the command that unpacks it (or the remark that it is no gzip data). And where the
 * table leaves a choice, choices[] below says which way lockstep went, as the heads of
 * src/io/dataset_*.c do.
 */
#include <stdio.h>

#include "io/data_file.h"
#include "support/data_folder.h"
#include "support/test.h"

/* Begin with an empty one. */
static void clear_folder(void)
{
    data_folder_destroy(folder);
    folder = data_folder_create();
}

/* -- damage made here ------------------------------------------------------------------------- */

static char spec[2048]; /* of the data set whose file is being damaged */

static ls_status open_and_read(void)
{
    ls_dataset *d = NULL;
    LS_TRY(ls_dataset_open(spec, &d));
    const ls_dataset_info *info = ls_dataset_describe(d);
    float *x = malloc(info->height * info->width * info->channels * sizeof *x);
    assert_non_null(x);
    for (int part = 0; part < LS_PART_COUNT; part++) {
        for (size_t i = 0; i < info->count[part]; i++) {
            ls_dataset_read(d, (ls_part)part, i, x);
            if (info->task == LS_TASK_CLASSIFY) {
                const int32_t label = ls_dataset_label(d, (ls_part)part, i);
                assert_true(label >= 0 && (size_t)label < info->classes);
            }
        }
    }
    free(x);
    ls_dataset_close(d);
    return LS_OK;
}

/* Must name the file and be of class FORMAT. */
static void check_refusal(ls_status status, const char *name, size_t at)
{
    if (status != LS_ERR_FORMAT || !strstr(ls_last_error(), name)) {
        fail_msg("%s damaged at %zu: %s: %s", name, at, ls_status_name(status), ls_last_error());
    }
}

typedef struct {
    unsigned char *data; /* owned */
    size_t bytes;
} contents;

static contents load(const char *name)
{
    char path[1024];
    ls_data_file file = { .path = NULL };
    snprintf(path, sizeof path, "%s/%s", data_folder_path(folder), name);
    assert_int_equal(ls_data_file_open(path, "a file", &file), LS_OK);
    contents c = { .data = malloc(file.bytes), .bytes = file.bytes };
    assert_non_null(c.data);
    memcpy(c.data, file.data, file.bytes);
    ls_data_file_close(&file);
    return c;
}

/* Cut `name` before every byte: all refused. */
static void cut_everywhere(const char *name)
{
    contents c = load(name);
    for (size_t bytes = 0; bytes < c.bytes; bytes++) {
        data_folder_write(folder, name, c.data, bytes);
        check_refusal(open_and_read(), name, bytes);
    }
    data_folder_write(folder, name, c.data, c.bytes);
    assert_int_equal(open_and_read(), LS_OK);
    free(c.data);
}

/* Change each of the first `bytes` bytes to a few other values; all refused if `strict`. */
static void change_each(const char *name, size_t bytes, bool strict)
{
    static const unsigned char masks[] = { 0x01, 0x80, 0xff, 0x20 };
    contents c = load(name);
    for (size_t at = 0; at < bytes && at < c.bytes; at++) {
        for (size_t m = 0; m < sizeof masks; m++) {
            c.data[at] ^= masks[m];
            data_folder_write(folder, name, c.data, c.bytes);
            const ls_status status = open_and_read();
            if (strict || status != LS_OK) check_refusal(status, name, at);
            c.data[at] ^= masks[m];
        }
    }
    data_folder_write(folder, name, c.data, c.bytes);
    free(c.data);
}

static void test_damaged_idx_files_are_refused(void **state)
{
    (void)state;
    clear_folder();
    data_folder_idx(folder, "train", 11, 12, 5, 4);
    snprintf(spec, sizeof spec, "idx:%s", data_folder_path(folder));
    cut_everywhere("train-images-idx3-ubyte");
    cut_everywhere("train-labels-idx1-ubyte");
    change_each("train-images-idx3-ubyte", 16, true);
    change_each("train-labels-idx1-ubyte", 8, true);
    change_each("train-labels-idx1-ubyte", 100, false);
}

static void test_damaged_npy_files_are_refused(void **state)
{
    (void)state;
    clear_folder();
    static const float x[6] = { 1, 2, 3, 4, 5, 6 };
    data_folder_npy(folder, "x.npy",
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", x, sizeof x);
    data_folder_npy(folder, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n",
                    "\0\1\1", 3);
    snprintf(spec, sizeof spec, "npy:%s/x.npy,%s/y.npy", data_folder_path(folder),
             data_folder_path(folder));
    cut_everywhere("x.npy");
    cut_everywhere("y.npy");
    change_each("x.npy", 10, false);
    change_each("y.npy", 1000, false);
    change_each("x.npy", 1000, false);
}

static void test_damaged_cifar10_files_are_refused(void **state)
{
    (void)state;
    clear_folder();
    data_folder_cifar10(folder, "data_batch_1.bin", 4, 2);
    snprintf(spec, sizeof spec, "cifar10:%s", data_folder_path(folder));
    contents c = load("data_batch_1.bin");
    for (size_t bytes = 0; bytes < c.bytes; bytes += 61) { /* 3073 = 7 * 439: never a multiple */
        data_folder_write(folder, "data_batch_1.bin", c.data, bytes);
        check_refusal(open_and_read(), "data_batch_1.bin", bytes);
    }
    free(c.data);
    data_folder_cifar10(folder, "data_batch_1.bin", 4, 2);
    change_each("data_batch_1.bin", 2, false);
}

static void test_damaged_csv_texts_never_crash(void **state)
{
    (void)state;
    clear_folder();
    static const char text[] = "1,2.5,-3e1,0\r\n4,5,6,1\n7,8,9,2\n-0.5,+1,.5,1";
    snprintf(spec, sizeof spec, "csv:%s/d.csv", data_folder_path(folder));
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        data_folder_write(folder, "d.csv", text, bytes);
        const ls_status status = open_and_read();
        if (status != LS_OK) check_refusal(status, "d.csv", bytes);
    }
    data_folder_text(folder, "d.csv", text);
    change_each("d.csv", sizeof text, false);
}

/* -- the table of files elsewhere ------------------------------------------------------------- */

static const struct {
    const char *file;
    bool accepted;
} choices[] = {
    { "meta-long-name.txt", false },      /* at most 255 bytes */
    { "idx-label-10", false },            /* idx has ten classes */
    { "idx-label-255", false },
    { "idx-gz-garbage-after.gz", false }, /* nothing is unpacked */
    { "idx-gz-plain.gz", false },
    { "csv-label-10.csv", true },         /* csv counts its classes: eleven */
    { "csv-header.csv", false },          /* header=yes is asked for, and then it is read */
    { "csv-bom-header-crlf.csv", false },
    { "csv-cr-only.csv", false },
    { "csv-blank-lines.csv", false },
    { "csv-hex.csv", false },
};

typedef struct {
    char path[600];                        /* broken/ */
    char file[64], format[16], verdict[16], where[128];
    size_t records;
    int accepted, rejected;                /* rows seen */
} broken_row;

static bool is_accepted(const broken_row *row)
{
    if (strcmp(row->format, "idx3.gz") == 0) return false;
    if (strcmp(row->verdict, "choice") != 0) return strcmp(row->verdict, "accept") == 0;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (strcmp(choices[i].file, row->file) == 0) return choices[i].accepted;
    }
    fail_msg("%s: a choice that this test does not know", row->file);
    return false;
}

static void link_broken(const char *name, const broken_row *row, const char *file)
{
    char target[700];
    snprintf(target, sizeof target, "%s/%s", row->path, file);
    data_folder_link(folder, name, target);
}

/* 99 images for the file of 99 labels. */
static void write_99_images(const broken_row *row)
{
    char path[700];
    ls_data_file file = { .path = NULL };
    snprintf(path, sizeof path, "%s/idx-ok-images", row->path);
    assert_int_equal(ls_data_file_open(path, "images", &file), LS_OK);
    contents c = { .data = malloc(file.bytes), .bytes = file.bytes - 784 };
    assert_non_null(c.data);
    memcpy(c.data, file.data, c.bytes);
    c.data[7] = 99;
    data_folder_write(folder, "train-images-idx3-ubyte", c.data, c.bytes);
    free(c.data);
    ls_data_file_close(&file);
}

/* Lay the row's file where its format looks for it; the spec that opens it. */
static void lay_out(const broken_row *row)
{
    const char *path = data_folder_path(folder);
    if (strcmp(row->format, "csv") == 0) {
        snprintf(spec, sizeof spec, "csv:%s/%s,test=none", row->path, row->file);
    } else if (strcmp(row->format, "cifar") == 0) {
        link_broken("data_batch_1.bin", row, row->file);
        snprintf(spec, sizeof spec, "cifar10:%s", path);
    } else if (strcmp(row->format, "meta") == 0) {
        link_broken("data_batch_1.bin", row, "cifar-ok.bin");
        link_broken("batches.meta.txt", row, row->file);
        snprintf(spec, sizeof spec, "cifar10:%s", path);
    } else {
        const bool labels = strcmp(row->format, "idx1") == 0;
        const bool packed = strcmp(row->format, "idx3.gz") == 0;
        if (strcmp(row->file, "idx-labels-99") == 0) {
            write_99_images(row);
        } else {
            link_broken(packed ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", row,
                        labels ? "idx-ok-images" : row->file);
        }
        link_broken("train-labels-idx1-ubyte", row, labels ? row->file : "idx-ok-labels");
        snprintf(spec, sizeof spec, "idx:%s", path);
    }
}

/* Each "word number" of `where` -- "byte 18438 (record 7)", "line 11, field 21" -- must be in the
 * message, the number whole. A description without a number asks for nothing. */
static void check_where(const broken_row *row, const char *message)
{
    static const char *const words[] = { "byte", "record", "line", "field" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = strstr(row->where, words[i]);
        size_t number = 0;
        int chars = 0;
        char format[32], want[64];
        snprintf(format, sizeof format, "%s %%zu%%n", words[i]);
        if (!at || sscanf(at, format, &number, &chars) != 1) continue;
        snprintf(want, sizeof want, "%s %zu", words[i], number);
        const char *found = strstr(message, want);
        while (found && found[strlen(want)] >= '0' && found[strlen(want)] <= '9') {
            found = strstr(found + 1, want);
        }
        if (!found) fail_msg("%s: \"%s\" is not in: %s", row->file, want, message);
    }
}

static void check_row(broken_row *row)
{
    lay_out(row);
    ls_dataset *d = NULL;
    const ls_status status = ls_dataset_open(spec, &d);
    const bool packed = strcmp(row->format, "idx3.gz") == 0;
    if (is_accepted(row)) {
        if (status != LS_OK) fail_msg("%s is sound, but: %s", row->file, ls_last_error());
        const size_t count = strcmp(row->format, "meta") == 0
                                 ? ls_dataset_describe(d)->classes
                                 : ls_dataset_describe(d)->count[LS_PART_TRAIN];
        if (count != row->records) {
            fail_msg("%s: %zu records, not %zu", row->file, count, row->records);
        }
        row->accepted++;
    } else {
        if (status != LS_ERR_FORMAT) fail_msg("%s: %s", row->file, ls_status_name(status));
        const bool plain = strcmp(row->file, "idx-gz-plain.gz") == 0;
        const char *unpack = plain ? "not gzip data" : "gunzip -k";
        if (packed) {
            if (!strstr(ls_last_error(), unpack)) fail_msg("%s: %s", row->file, ls_last_error());
        } else {
            check_where(row, ls_last_error());
        }
        row->rejected++;
    }
    ls_dataset_close(d);
    clear_folder();
}

/* broken/ of LOCKSTEP_TEST_DATA; false, after one plain line, if there is none. */
static bool find_broken(broken_row *row)
{
    const char *base = getenv("LOCKSTEP_TEST_DATA");
    if (!base || !*base) {
        print_message("left out: the table of broken files (LOCKSTEP_TEST_DATA is not set)\n");
        return false;
    }
    snprintf(row->path, sizeof row->path, "%.500s/broken", base);
    return true;
}

static void test_every_broken_file_comes_out_as_its_table_says(void **state)
{
    (void)state;
    broken_row row = { .accepted = 0 };
    char path[700], line[1024];
    if (!find_broken(&row)) return;
    clear_folder();
    snprintf(path, sizeof path, "%s/expect.tsv", row.path);
    FILE *table = fopen(path, "r");
    if (!table) fail_msg("%s: cannot be read", path);
    assert_non_null(fgets(line, sizeof line, table)); /* the header */
    while (fgets(line, sizeof line, table)) {
        char records[16];
        assert_int_equal(sscanf(line, "%63[^\t]\t%15[^\t]\t%*[^\t]\t%15[^\t]\t%15[^\t]\t%127[^\t]",
                                row.file, row.format, row.verdict, records, row.where), 5);
        row.records = (size_t)strtoul(records, NULL, 10);
        check_row(&row);
    }
    fclose(table);
    assert_true(row.accepted + row.rejected >= 63);
    assert_true(row.accepted >= 12);
}

static void test_pairs_and_variants_of_the_table(void **state)
{
    (void)state;
    broken_row row = { .accepted = 0 };
    if (!find_broken(&row)) return;
    clear_folder();
    link_broken("train-images-idx3-ubyte", &row, "idx-ok-images");
    link_broken("train-labels-idx1-ubyte", &row, "idx-labels-99");
    must_refuse(LS_ERR_FORMAT, "99 labels, expected 100", "idx:%s", data_folder_path(folder));
    clear_folder();

    static const char *const same[] = {
        "csv-crlf.csv",
        "csv-mixed-ends.csv",
        "csv-no-final-newline.csv",
        "csv-header.csv,header=yes",
        "csv-bom-header-crlf.csv,header=yes",
    };
    ls_dataset *ok = must_open("csv:%s/csv-ok.csv,test=none", row.path);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        ls_dataset *d = must_open("csv:%s/%s,test=none", row.path, same[i]);
        assert_string_equal(ls_dataset_identity(d), ls_dataset_identity(ok));
        ls_dataset_close(d);
    }
    ls_dataset_close(ok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_idx_files_are_refused),
        cmocka_unit_test(test_damaged_npy_files_are_refused),
        cmocka_unit_test(test_damaged_cifar10_files_are_refused),
        cmocka_unit_test(test_damaged_csv_texts_never_crash),
        cmocka_unit_test(test_every_broken_file_comes_out_as_its_table_says),
        cmocka_unit_test(test_pairs_and_variants_of_the_table),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
