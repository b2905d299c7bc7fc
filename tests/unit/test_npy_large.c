/* SPDX-License-Identifier: MIT */
/* test_npy_large.c -- a .npy file many times larger than what the process may have of memory is
 * opened, read and trained on, and does not pile up in it.
 *
 * The file is sparse: half a gigabyte of zeros that take no disk, with a few samples written. The
 * cases run in processes of their own, whose data segment is limited (maps of files do not count
 * there, what is allocated does); what is resident, maps included, is asked of the system. Files of
 * floats, of doubles and of CIFAR-10's planes go the same way.
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/data_folder.h"
#include "support/fresh_process.h"
#include "support/training.h"

enum { SIDE = 224, SAMPLE = SIDE * SIDE * 3, SAMPLES = 3600, HEADER = 128 };
#define MIB ((size_t)1 << 20)
#define RESIDENT_BYTES (64 * MIB)

/* Sample n is zeros, but for every 97th, whose bytes are n mod 251. */
static void write_pictures(const char *path)
{
    static unsigned char sample[SAMPLE];
    char header[HEADER];
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int chars = snprintf(header + 10, 100, "{'descr': '|u1', 'fortran_order': False, "
                               "'shape': (%d, %d, %d, 3), }", SAMPLES, SIDE, SIDE);
    header[10 + chars] = ' ';
    header[HEADER - 1] = '\n';
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    for (int n = 0; n < SAMPLES; n += 97) {
        memset(sample, n % 251, sizeof sample);
        assert_int_equal(fseek(file, HEADER + (long)n * SAMPLE, SEEK_SET), 0);
        assert_int_equal(fwrite(sample, 1, sizeof sample, file), sizeof sample);
    }
    assert_int_equal(ftruncate(fileno(file), HEADER + (off_t)SAMPLES * SAMPLE), 0);
    assert_int_equal(fclose(file), 0);
}

static int make_files(void **state)
{
    (void)state;
    char path[1024];
    unsigned char label[SAMPLES];
    folder = data_folder_create();
    for (int n = 0; n < SAMPLES; n++) label[n] = (unsigned char)(n % 7);
    data_folder_npy(folder, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3600,)}",
                    label, sizeof label);
    data_folder_text(folder, "far.model", "input auto\nmaxpool 16x16\nflatten\ndense auto\n"
                                          "loss softmax-crossentropy\n");
    snprintf(path, sizeof path, "%s/x.npy", data_folder_path(folder));
    write_pictures(path);
    snprintf(path, sizeof path, "npy:%s/x.npy,%s/y.npy", data_folder_path(folder),
             data_folder_path(folder));
    assert_int_equal(setenv("LARGE_SPEC", path, 1), 0);
    snprintf(path, sizeof path, "%s/far.model", data_folder_path(folder));
    assert_int_equal(setenv("LARGE_MODEL", path, 1), 0);
    assert_int_equal(setenv("LARGE_FOLDER", data_folder_path(folder), 1), 0);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    data_folder_destroy(folder);
    return 0;
}

/* -- inside the limit -------------------------------------------------------------------------- */

static void limit_memory(size_t bytes)
{
    const struct rlimit limit = { bytes, bytes };
    if (setrlimit(RLIMIT_DATA, &limit) != 0) abort();
}

/* Bytes of this process that are in memory, maps of files included; or the most there ever were. */
static size_t resident_bytes(const char *field)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) abort();
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, field, strlen(field)) == 0) kib = strtoul(line + strlen(field), NULL, 10);
    }
    fclose(file);
    return kib * 1024;
}

/* The same file, of which each seventh picture is test: samples of both parts are those of the
 * file. */
static int case_split(void)
{
    enum { EVERY = 7, TESTS = SAMPLES / EVERY };
    char spec[2100];
    limit_memory(32 * MIB);
    ls_dataset *d = NULL;
    snprintf(spec, sizeof spec, "%s,test=every:%d", getenv("LARGE_SPEC"), EVERY);
    CHECK_OK(ls_dataset_open(spec, &d));
    CHECK(ls_dataset_describe(d)->count[LS_PART_TEST] == TESTS);
    CHECK(ls_dataset_describe(d)->count[LS_PART_TRAIN] == SAMPLES - TESTS);
    unsigned char *x = malloc(SAMPLE);
    CHECK(x != NULL);
    for (size_t n = 0; n < SAMPLES; n++) {
        const bool test = n % EVERY == EVERY - 1;
        const ls_part part = test ? LS_PART_TEST : LS_PART_TRAIN;
        const size_t i = test ? n / EVERY : n - n / EVERY;
        if (n % 97 > 1) continue;
        ls_dataset_want(d, part, i);
        ls_dataset_read_raw(d, part, i, x);
        const unsigned char want = n % 97 == 0 ? (unsigned char)(n % 251) : 0;
        CHECK(x[0] == want && x[SAMPLE / 2] == want && x[SAMPLE - 1] == want);
        CHECK(ls_dataset_label(d, part, i) == (int32_t)(n % 7));
    }
    CHECK(resident_bytes("VmHWM:") < RESIDENT_BYTES); /* opening included */
    free(x);
    ls_dataset_close(d);
    return 0;
}

static int case_read(void)
{
    limit_memory(32 * MIB);
    CHECK(malloc((size_t)SAMPLES * SAMPLE) == NULL); /* it would not fit */
    ls_dataset *d = NULL;
    CHECK_OK(ls_dataset_open(getenv("LARGE_SPEC"), &d));
    CHECK(ls_dataset_describe(d)->count[LS_PART_TRAIN] == SAMPLES);
    CHECK(ls_dataset_describe(d)->element == LS_ELEMENT_U8);
    unsigned char *x = malloc(SAMPLE);
    CHECK(x != NULL);
    for (size_t i = 0; i < SAMPLES; i++) {
        const size_t n = i * 1777 % SAMPLES; /* each once, far apart */
        ls_dataset_read_raw(d, LS_PART_TRAIN, n, x);
        const unsigned char want = n % 97 == 0 ? (unsigned char)(n % 251) : 0;
        CHECK(x[0] == want && x[SAMPLE / 2] == want && x[SAMPLE - 1] == want);
        if (i % 100 == 0) CHECK(resident_bytes("VmRSS:") < RESIDENT_BYTES);
    }
    CHECK(resident_bytes("VmHWM:") < RESIDENT_BYTES); /* opening included */
    free(x);
    ls_dataset_close(d);
    return 0;
}

enum { PLANES = 3072, NUMBERS = 4097 }; /* more doubles than are decoded in one piece */

/* Write at byte `at` of a sparse file; a file of `bytes` bytes. */
static void write_at(FILE *file, size_t at, const void *x, size_t bytes)
{
    if (fseek(file, (long)at, SEEK_SET) != 0 || fwrite(x, 1, bytes, file) != bytes) abort();
}

static void end_file(FILE *file, size_t bytes)
{
    if (fflush(file) != 0 || ftruncate(fileno(file), (off_t)bytes) != 0) abort();
    if (fclose(file) != 0) abort();
}

/* A file that has its header and nothing else yet. */
static FILE *begin_file(const char *name, const char *type, const char *shape)
{
    char path[1024], header[HEADER + 1];
    snprintf(path, sizeof path, "%s/%s", getenv("LARGE_FOLDER"), name);
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    snprintf(header, sizeof header, "%-*s", HEADER, "");
    const int chars = snprintf(header + 10, 110, "{'descr': '%s', 'fortran_order': False, "
                               "'shape': (%s), }", type, shape);
    header[10 + chars] = ' ';
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    header[HEADER - 1] = '\n';
    write_at(file, 0, header, HEADER);
    return file;
}

/* `samples` rows of NUMBERS floats (bytes 4) or doubles (8): zeros, but for the last row. */
static void write_numbers(const char *name, size_t samples, size_t bytes)
{
    char type[16], shape[64];
    snprintf(type, sizeof type, "<f%zu", bytes);
    snprintf(shape, sizeof shape, "%zu, %d", samples, NUMBERS);
    FILE *file = begin_file(name, type, shape);
    for (int i = 0; i < NUMBERS; i++) {
        const double wide = 0.1 * i;
        const float narrow = (float)wide;
        write_at(file, HEADER + (samples - 1) * NUMBERS * bytes + (size_t)i * bytes,
                 bytes == 8 ? (const void *)&wide : (const void *)&narrow, bytes);
    }
    end_file(file, HEADER + samples * NUMBERS * bytes);
}

/* The last row counts in tenths, and is divided by 255 when it is fed; all others are zeros. */
static int read_numbers(const char *name, size_t samples)
{
    static float x[NUMBERS];
    char spec[2100];
    ls_dataset *d = NULL;
    snprintf(spec, sizeof spec, "npy:%s/%s,%s/%s-y.npy,scale=255", getenv("LARGE_FOLDER"), name,
             getenv("LARGE_FOLDER"), name);
    CHECK_OK(ls_dataset_open(spec, &d));
    CHECK(ls_dataset_describe(d)->count[LS_PART_TRAIN] == samples);
    ls_dataset_want(d, LS_PART_TRAIN, samples - 1);
    ls_dataset_read_raw(d, LS_PART_TRAIN, samples - 1, x);
    for (int i = 0; i < NUMBERS; i++) {
        CHECK(x[i] == (float)((double)(float)(0.1 * i) / 255));
    }
    for (size_t n = 0; n < samples - 1; n += 101) {
        ls_dataset_read_stored(d, LS_PART_TRAIN, n, x);
        CHECK(x[0] == 0 && x[NUMBERS - 1] == 0);
    }
    CHECK(resident_bytes("VmHWM:") < RESIDENT_BYTES);
    ls_dataset_close(d);
    return 0;
}

static void write_labels(const char *name, size_t samples)
{
    char labels[64], shape[64];
    snprintf(labels, sizeof labels, "%s-y.npy", name);
    snprintf(shape, sizeof shape, "%zu,", samples);
    FILE *file = begin_file(labels, "|u1", shape);
    end_file(file, HEADER + samples);
}

static int case_floats(void)
{
    enum { COUNT = 18000 }; /* 295 MB */
    write_numbers("f4.npy", COUNT, sizeof(float));
    write_labels("f4.npy", COUNT);
    return read_numbers("f4.npy", COUNT);
}

static int case_doubles(void)
{
    enum { COUNT = 9000 };
    write_numbers("f8.npy", COUNT, sizeof(double));
    write_labels("f8.npy", COUNT);
    return read_numbers("f8.npy", COUNT);
}

static int case_planes(void)
{
    enum { COUNT = 96000, RECORD = 1 + PLANES };
    unsigned char record[RECORD], x[PLANES];
    char path[1024];
    ls_dataset *d = NULL;
    snprintf(path, sizeof path, "%s/data_batch_1.bin", getenv("LARGE_FOLDER"));
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    record[0] = 7;
    for (int i = 0; i < PLANES; i++) record[1 + i] = (unsigned char)(i * i >> 4);
    write_at(file, (size_t)(COUNT - 1) * RECORD, record, RECORD);
    end_file(file, (size_t)COUNT * RECORD);
    snprintf(path, sizeof path, "cifar10:%s", getenv("LARGE_FOLDER"));
    CHECK_OK(ls_dataset_open(path, &d));
    ls_dataset_read_raw(d, LS_PART_TRAIN, COUNT - 1, x);
    for (int i = 0; i < PLANES; i++) CHECK(x[i] == record[1 + i % 3 * 1024 + i / 3]);
    CHECK(ls_dataset_label(d, LS_PART_TRAIN, COUNT - 1) == 7);
    CHECK(resident_bytes("VmHWM:") < RESIDENT_BYTES);
    ls_dataset_close(d);
    return 0;
}

static int case_train(void)
{
    limit_memory(256 * MIB); /* a replica has room for 64 pictures, as floats */
    training *t = training_create();
    training_set(t, "model", getenv("LARGE_MODEL"));
    training_set(t, "data", getenv("LARGE_SPEC"));
    training_set(t, "global-batch", "8");
    training_set(t, "devices", "host:1");
    training_set(t, "threads", "1");
    training_set(t, "augment", "crop:8,flip");
    training_set(t, "steps", "4");
    CHECK_OK(training_run(t));
    CHECK(t->step_count == 4);
    CHECK(resident_bytes("VmHWM:") < 256 * MIB + RESIDENT_BYTES);
    training_destroy(t);
    return 0;
}

/* -- from outside ------------------------------------------------------------------------------ */

static void test_a_file_larger_than_the_memory_is_read_in_passing(void **state)
{
    (void)state;
    assert_case("read", "MALLOC_ARENA_MAX=1");
    assert_case("split", "MALLOC_ARENA_MAX=1");
}

static void test_a_training_on_it_needs_room_for_its_batches_alone(void **state)
{
    (void)state;
    assert_case("train", "MALLOC_ARENA_MAX=1");
}

static void test_floats_doubles_and_planes_are_read_in_passing_too(void **state)
{
    (void)state;
    assert_case("floats", "MALLOC_ARENA_MAX=1");
    assert_case("doubles", "MALLOC_ARENA_MAX=1");
    assert_case("planes", "MALLOC_ARENA_MAX=1");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "read", case_read },       { "train", case_train },   { "floats", case_floats },
        { "doubles", case_doubles }, { "planes", case_planes }, { "split", case_split },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_larger_than_the_memory_is_read_in_passing),
        cmocka_unit_test(test_floats_doubles_and_planes_are_read_in_passing_too),
        cmocka_unit_test(test_a_training_on_it_needs_room_for_its_batches_alone),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
