/* SPDX-License-Identifier: MIT */
/* data_folder.c -- makes and removes temporary data files; opens and refuses specs. */
#include "support/data_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "philox.h"
#include "support/test.h"

enum { PATH_BYTES = 512, SPEC_BYTES = 2048 };

struct data_folder {
    char path[PATH_BYTES];
};

data_folder *data_folder_create(void)
{
    const char *base = getenv("TMPDIR");
    data_folder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "%s/lockstep-data-XXXXXX",
             base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(f->path));
    return f;
}

const char *data_folder_path(const data_folder *f) { return f->path; }

static const char *path_of(const data_folder *f, const char *name, char out[PATH_BYTES])
{
    const int chars = snprintf(out, PATH_BYTES, "%.200s/%.200s", f->path, name);
    assert_true(chars > 0 && chars < PATH_BYTES);
    return out;
}

void data_folder_destroy(data_folder *f)
{
    DIR *entries = opendir(f->path);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        data_folder_remove(f, entry->d_name);
    }
    closedir(entries);
    assert_int_equal(rmdir(f->path), 0);
    free(f);
}

void data_folder_write(data_folder *f, const char *name, const void *data, size_t bytes)
{
    char path[PATH_BYTES];
    FILE *file = fopen(path_of(f, name, path), "wb");
    assert_non_null(file);
    if (bytes > 0) assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

void data_folder_text(data_folder *f, const char *name, const char *text)
{
    data_folder_write(f, name, text, strlen(text));
}

void data_folder_remove(data_folder *f, const char *name)
{
    char path[PATH_BYTES];
    assert_int_equal(unlink(path_of(f, name, path)), 0);
}

void data_folder_link(data_folder *f, const char *name, const char *path)
{
    char link[PATH_BYTES];
    assert_int_equal(symlink(path, path_of(f, name, link)), 0);
}

/* Random bytes, the same for the same seed. */
static void fill_bytes(uint64_t seed, unsigned char *data, size_t bytes)
{
    uint32_t word[4];
    for (size_t i = 0; i < bytes; i++) {
        if (i % 16 == 0) ls_random_words(seed, LS_RANDOM_INIT, 0, 0, 0, (uint32_t)(i / 16), word);
        data[i] = (unsigned char)(word[i / 4 % 4] >> 8 * (i % 4));
    }
}

void data_folder_cifar10(data_folder *f, const char *name, uint64_t seed, size_t records)
{
    unsigned char *data = malloc(records * 3073);
    assert_non_null(data);
    fill_bytes(seed, data, records * 3073);
    for (size_t i = 0; i < records; i++) data[i * 3073] = (unsigned char)(i % 10);
    data_folder_write(f, name, data, records * 3073);
    free(data);
}

static void put_big_endian(unsigned char *to, size_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> 8 * (3 - i));
}

void data_folder_idx(data_folder *f, const char *part, uint64_t seed, size_t records,
                     size_t height, size_t width)
{
    const size_t bytes = 16 + records * height * width;
    unsigned char *data = malloc(bytes);
    char name[64];
    assert_non_null(data);
    fill_bytes(seed, data, bytes);
    put_big_endian(data, 0x803);
    put_big_endian(data + 4, records);
    put_big_endian(data + 8, height);
    put_big_endian(data + 12, width);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    data_folder_write(f, name, data, bytes);

    put_big_endian(data, 0x801);
    for (size_t i = 0; i < records; i++) data[8 + i] = (unsigned char)(i % 10);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    data_folder_write(f, name, data, 8 + records);
    free(data);
}

void data_folder_npy(data_folder *f, const char *name, const char *header, const void *data,
                     size_t bytes)
{
    const size_t chars = strlen(header);
    unsigned char *file = malloc(10 + chars + bytes);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY\001\000", 8);
    file[8] = (unsigned char)chars;
    file[9] = (unsigned char)(chars >> 8);
    memcpy(file + 10, header, chars);
    if (bytes > 0) memcpy(file + 10 + chars, data, bytes);
    data_folder_write(f, name, file, 10 + chars + bytes);
    free(file);
}

/* Opens the formatted spec, which is left in spec. */
static ls_status open_spec(const char *format, va_list values, char spec[SPEC_BYTES],
                           ls_dataset **dataset)
{
    *dataset = NULL;
    vsnprintf(spec, SPEC_BYTES, format, values);
    return ls_dataset_open(spec, dataset);
}

ls_dataset *must_open(const char *format, ...)
{
    char spec[SPEC_BYTES];
    ls_dataset *dataset;
    va_list values;
    va_start(values, format);
    const ls_status status = open_spec(format, values, spec, &dataset);
    va_end(values);
    if (status != LS_OK) fail_msg("%s: %s", spec, ls_last_error());
    return dataset;
}

void must_refuse(ls_status code, const char *want, const char *format, ...)
{
    char spec[SPEC_BYTES];
    ls_dataset *dataset;
    va_list values;
    va_start(values, format);
    const ls_status status = open_spec(format, values, spec, &dataset);
    va_end(values);
    ls_dataset_close(dataset);
    if (status != code) {
        fail_msg("%s: %s, expected %s", spec, ls_status_name(status), ls_status_name(code));
    }
    if (!strstr(ls_last_error(), want)) {
        fail_msg("%s: the message is \"%s\", expected \"%s\" in it", spec, ls_last_error(), want);
    }
}

data_folder *folder;

int make_folder(void **state)
{
    (void)state;
    folder = data_folder_create();
    return 0;
}

int remove_folder(void **state)
{
    (void)state;
    data_folder_destroy(folder);
    return 0;
}
