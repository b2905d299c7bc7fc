/* SPDX-License-Identifier: MIT */
/* data_folder.h -- a temporary folder of data files that a test makes, and specs that name them.
 *
 *     data_folder *folder = data_folder_create();
 *     data_folder_text(folder, "a.csv", "1,2,0\n3,4,1\n");
 *     ls_dataset *d = must_open("csv:%s/a.csv,test=none", data_folder_path(folder));
 *     must_refuse(LS_ERR_FORMAT, "line 1", "csv:%s/b.csv", data_folder_path(folder));
 *     data_folder_destroy(folder);                     removes it and all in it
 */
#ifndef TEST_SUPPORT_DATA_FOLDER_H
#define TEST_SUPPORT_DATA_FOLDER_H

#include <stddef.h>

#include "io/dataset.h"

typedef struct data_folder data_folder;

data_folder *data_folder_create(void);
void data_folder_destroy(data_folder *folder);
const char *data_folder_path(const data_folder *folder);

/* The one of a test, made and removed by its fixtures. */
extern data_folder *folder;
int make_folder(void **state);
int remove_folder(void **state);

/* Write, replace or remove a file; link to one elsewhere. */
void data_folder_write(data_folder *folder, const char *name, const void *data, size_t bytes);
void data_folder_text(data_folder *folder, const char *name, const char *text);
void data_folder_remove(data_folder *folder, const char *name);
void data_folder_link(data_folder *folder, const char *name, const char *path);

/* Seeded random files in the three binary layouts, sound. Records' labels are i mod 10. */
void data_folder_cifar10(data_folder *folder, const char *name, uint64_t seed, size_t records);
void data_folder_idx(data_folder *folder, const char *part, uint64_t seed, size_t records,
                     size_t height, size_t width);
/* `header` is the Python literal; version 1.0. */
void data_folder_npy(data_folder *folder, const char *name, const char *header, const void *data,
                     size_t bytes);

/* Open the data set that the printf format names; an error fails the test with its text. */
ls_dataset *must_open(const char *format, ...) LS_PRINTF(1, 2);

/* The spec must be refused with `code` and a message that contains `want`. */
void must_refuse(ls_status code, const char *want, const char *format, ...) LS_PRINTF(3, 4);

#endif
