/* SPDX-License-Identifier: MIT */
/* checkpoint_file.h -- one checkpoint in a folder of its own, to be written, spoilt and opened.
 *
 *     static void test_...(void **state) { assert_int_equal(save_example(), LS_OK); ... }
 *     ... { TEST_WITH_FILE(test_...), ... };
 *
 * The folder is made before each test and removed after it, which fails if more than the file and
 * its temporary ones was left. Main thread only: all functions assert.
 */
#ifndef TEST_SUPPORT_CHECKPOINT_FILE_H
#define TEST_SUPPORT_CHECKPOINT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "io/checkpoint.h"

#define TEST_WITH_FILE(name)                                                                      \
    cmocka_unit_test_setup_teardown(name, make_checkpoint_folder, remove_checkpoint_folder)
int make_checkpoint_folder(void **state);
int remove_checkpoint_folder(void **state);

extern char checkpoint_folder[512], file_path[600]; /* of the running test; the file's */

/* A checkpoint with a tensor of each dtype, narrow before wide so that saving has something to
 * reorder, and two texts. */
enum { EXAMPLE_TENSORS = 5, EXAMPLE_TEXTS = 2 };
extern float example_kernel[6];
extern double example_sums[2];
extern int64_t example_step[1];
extern uint32_t example_words[3];
extern const ls_saved_tensor example_tensors[EXAMPLE_TENSORS];
extern const ls_saved_text example_texts[EXAMPLE_TEXTS];
ls_status save_example(void);

/* The file's bytes: up to the first FILE_BYTES_MAX read; all written; one changed in place. */
enum { FILE_BYTES_MAX = 1 << 17 };
typedef struct {
    unsigned char byte[FILE_BYTES_MAX];
    size_t count;
} file_bytes;
void read_file(file_bytes *file);
size_t data_of_file(const file_bytes *file); /* where the tensors' data begin */
void write_file(const unsigned char *byte, size_t count);
void write_byte(size_t at, unsigned char byte);

bool exists(const char *name);

/* Opens the file, which must succeed; the caller closes it. */
ls_checkpoint *open_file(void);

/* Opening fails with FORMAT, and the message holds `part`. */
void assert_refused(const char *part);

#endif
