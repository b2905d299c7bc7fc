/* SPDX-License-Identifier: MIT */
/* checkpoint_file.c -- see checkpoint_file.h. */
#include "support/test.h"

#include "support/checkpoint_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

char checkpoint_folder[512], file_path[600];

int make_checkpoint_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(checkpoint_folder, sizeof checkpoint_folder, "%s/lockstep-test-XXXXXX",
             tmp ? tmp : "/tmp");
    if (!mkdtemp(checkpoint_folder)) return -1;
    snprintf(file_path, sizeof file_path, "%s/last.safetensors", checkpoint_folder);
    return 0;
}

int remove_checkpoint_folder(void **state)
{
    (void)state;
    unlink(file_path);
    ls_checkpoint_remove_stale(file_path);
    return rmdir(checkpoint_folder); /* fails if a test left something behind */
}

void read_file(file_bytes *file)
{
    FILE *f = fopen(file_path, "rb");
    assert_non_null(f);
    file->count = fread(file->byte, 1, sizeof file->byte, f);
    fclose(f);
}

size_t data_of_file(const file_bytes *file)
{
    uint64_t length; /* of the header, which follows it */
    memcpy(&length, file->byte, sizeof length);
    return sizeof length + (size_t)length;
}

void write_file(const unsigned char *byte, size_t count)
{
    FILE *f = fopen(file_path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(byte, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* In place: to write it whole again thousands of times would take long. */
void write_byte(size_t at, unsigned char byte)
{
    const int fd = open(file_path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

bool exists(const char *name) { return access(name, F_OK) == 0; }

float example_kernel[6] = { 1.5f, -0.0f, 3e-41f, 4, 5, 6 };
double example_sums[2] = { 0.1, -1e300 };
int64_t example_step[1] = { -7 };
uint32_t example_words[3] = { 1, 0xFFFFFFFFu, 3 };

const ls_saved_tensor example_tensors[EXAMPLE_TENSORS] = {
    { "weights/conv1/kernel", LS_DTYPE_F32, 2, { 2, 3 }, example_kernel },
    { "state/sums", LS_DTYPE_F64, 1, { 2 }, example_sums },
    { "state/words", LS_DTYPE_U32, 1, { 3 }, example_words },
    { "state/step", LS_DTYPE_I64, 0, { 0 }, example_step },
    { "weights/none", LS_DTYPE_F32, 2, { 0, 5 }, NULL },
};

const ls_saved_text example_texts[EXAMPLE_TEXTS] = {
    { "config", "lr 0.1\n# \"quoted\" \\ \xC3\xA9\n" },
    { "model", "" },
};

ls_status save_example(void)
{
    return ls_checkpoint_save(file_path, example_tensors, EXAMPLE_TENSORS, example_texts,
                              EXAMPLE_TEXTS);
}

ls_checkpoint *open_file(void)
{
    ls_checkpoint *c = NULL;
    if (ls_checkpoint_open(file_path, &c) != LS_OK) fail_msg("%s", ls_last_error());
    return c;
}

void assert_refused(const char *part)
{
    ls_checkpoint *c = NULL;
    const ls_status status = ls_checkpoint_open(file_path, &c);
    ls_checkpoint_close(c);
    if (status != LS_ERR_FORMAT || !strstr(ls_last_error(), part)) {
        fail_msg("expected FORMAT with '%s', got %s: %s", part, ls_status_name(status),
                 status ? ls_last_error() : "");
    }
}
