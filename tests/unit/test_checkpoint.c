/* SPDX-License-Identifier: MIT */
/* test_checkpoint.c -- what is saved comes back, and has a digest.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "io/checkpoint.h"
#include "sha256.h"
#include "support/checkpoint_file.h"

/* -- round trip ------------------------------------------------------------------------------ */

static void test_what_is_saved_comes_back(void **state)
{
    (void)state;
    assert_int_equal(save_example(), LS_OK);
    ls_checkpoint *c = open_file();
    assert_int_equal(ls_checkpoint_tensor_count(c), EXAMPLE_TENSORS);
    for (int i = 0; i < EXAMPLE_TENSORS; i++) {
        const ls_saved_tensor *t = ls_checkpoint_tensor(c, example_tensors[i].name);
        assert_non_null(t);
        size_t bytes = ls_dtype_bytes(t->dtype);
        assert_int_equal(t->dtype, example_tensors[i].dtype);
        assert_int_equal(t->dims, example_tensors[i].dims);
        for (int d = 0; d < t->dims; d++) {
            assert_int_equal(t->shape[d], example_tensors[i].shape[d]);
            bytes *= t->shape[d];
        }
        assert_int_equal((uintptr_t)t->data % ls_dtype_bytes(t->dtype), 0);
        if (bytes > 0) assert_memory_equal(t->data, example_tensors[i].data, bytes);
    }
    assert_string_equal(ls_checkpoint_text(c, "config"), example_texts[0].text);
    assert_string_equal(ls_checkpoint_text(c, "model"), "");
    assert_null(ls_checkpoint_text(c, "conf"));
    assert_null(ls_checkpoint_tensor(c, "weights"));
    ls_checkpoint_close(c);
}

static void test_wide_elements_come_first_and_else_the_given_order_is_kept(void **state)
{
    (void)state;
    static const int order[EXAMPLE_TENSORS] = { 1, 3, 0, 2, 4 };
    assert_int_equal(save_example(), LS_OK);
    ls_checkpoint *c = open_file();
    for (int i = 0; i < EXAMPLE_TENSORS; i++) {
        assert_string_equal(ls_checkpoint_tensor_at(c, i)->name, example_tensors[order[i]].name);
    }
    ls_checkpoint_close(c);
}

static void test_equal_contents_make_equal_files(void **state)
{
    (void)state;
    static file_bytes first, second;
    assert_int_equal(save_example(), LS_OK);
    read_file(&first);
    assert_int_equal(save_example(), LS_OK);
    read_file(&second);
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.byte, second.byte, first.count);
}

static void test_a_checkpoint_may_hold_nothing(void **state)
{
    (void)state;
    assert_int_equal(ls_checkpoint_save(file_path, NULL, 0, NULL, 0), LS_OK);
    ls_checkpoint *c = open_file();
    char hex[65];
    assert_int_equal(ls_checkpoint_tensor_count(c), 0);
    assert_int_equal(ls_checkpoint_group_sha256(c, "weights/", hex), LS_OK);
    assert_string_equal(hex, "");
    ls_checkpoint_close(c);
}

static void test_data_begin_on_a_multiple_of_64_and_fill_the_file(void **state)
{
    (void)state;
    static file_bytes file;
    assert_int_equal(save_example(), LS_OK);
    read_file(&file);
    const size_t data = data_of_file(&file);
    assert_int_equal(data % 64, 0);
    assert_int_equal(file.count, data + sizeof example_kernel + sizeof example_sums +
                                 sizeof example_step + sizeof example_words);
}

static void test_what_could_not_be_opened_is_not_saved(void **state)
{
    (void)state;
    const ls_saved_tensor twice[] = { example_tensors[0], example_tensors[0] };
    ls_saved_tensor blank = example_tensors[0];
    snprintf(blank.name, sizeof blank.name, "a b");
    const ls_saved_text same[] = { { "k", "1" }, { "k", "2" } }, check = { "crc32c/x", "0" };
    assert_int_equal(ls_checkpoint_save(file_path, twice, 2, NULL, 0), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(file_path, &blank, 1, NULL, 0), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(file_path, example_tensors, 1, same, 2), LS_ERR_FORMAT);
    assert_int_equal(ls_checkpoint_save(file_path, example_tensors, 1, &check, 1), LS_ERR_FORMAT);
    assert_false(exists(file_path));
}

static void test_text_that_is_no_utf8_is_saved_with_a_mark_in_its_place(void **state)
{
    (void)state;
    const ls_saved_text text = { "data", "csv:\xFF.csv" };
    assert_int_equal(ls_checkpoint_save(file_path, NULL, 0, &text, 1), LS_OK);
    ls_checkpoint *c = open_file();
    assert_string_equal(ls_checkpoint_text(c, "data"), "csv:\xEF\xBF\xBD.csv");
    ls_checkpoint_close(c);
}

/* -- digests --------------------------------------------------------------------------------- */

static void test_a_group_has_the_digest_of_its_tensors_by_name(void **state)
{
    (void)state;
    char memory[65], reversed[65], file[65], group[65];
    ls_saved_tensor backwards[EXAMPLE_TENSORS];
    for (int i = 0; i < EXAMPLE_TENSORS; i++) {
        backwards[i] = example_tensors[EXAMPLE_TENSORS - 1 - i];
    }
    assert_int_equal(ls_tensors_sha256(example_tensors, EXAMPLE_TENSORS, "", memory), LS_OK);
    assert_int_equal(ls_tensors_sha256(backwards, EXAMPLE_TENSORS, "", reversed), LS_OK);
    assert_int_equal(ls_tensors_sha256(example_tensors, EXAMPLE_TENSORS, "weights/", group), LS_OK);
    assert_string_equal(memory, reversed);
    assert_string_not_equal(memory, group);
    assert_int_equal(save_example(), LS_OK);
    ls_checkpoint *c = open_file();
    assert_int_equal(ls_checkpoint_group_sha256(c, "", file), LS_OK);
    assert_string_equal(file, memory);
    assert_int_equal(ls_checkpoint_group_sha256(c, "weights/", file), LS_OK);
    assert_string_equal(file, group);
    assert_int_equal(ls_checkpoint_group_sha256(c, "optimizer/", file), LS_OK);
    assert_string_equal(file, "");
    ls_checkpoint_close(c);
}

/* The bytes that checkpoint.h promises: so that anybody can compute the digest. */
static void test_a_digest_covers_name_dtype_shape_and_bytes(void **state)
{
    (void)state;
    char got[65], want[65];
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_update(&sha, "weights/conv1/kernel\0F32\0\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                           "\3\0\0\0\0\0\0\0", 21 + 4 + 24);
    ls_sha256_update(&sha, example_kernel, sizeof example_kernel);
    ls_sha256_final_hex(&sha, want);
    assert_int_equal(ls_tensors_sha256(example_tensors, EXAMPLE_TENSORS, "weights/c", got), LS_OK);
    assert_string_equal(got, want);
    ls_saved_tensor other = example_tensors[0];
    other.shape[0] = 3;
    other.shape[1] = 2;
    assert_int_equal(ls_tensors_sha256(&other, 1, "", got), LS_OK);
    assert_string_not_equal(got, want);
    float minus[6];
    memcpy(minus, example_kernel, sizeof minus);
    minus[1] = 0.0f; /* equal as a number, other bits */
    other = example_tensors[0];
    other.data = minus;
    assert_int_equal(ls_tensors_sha256(&other, 1, "", got), LS_OK);
    assert_string_not_equal(got, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_FILE(test_what_is_saved_comes_back),
        TEST_WITH_FILE(test_wide_elements_come_first_and_else_the_given_order_is_kept),
        TEST_WITH_FILE(test_equal_contents_make_equal_files),
        TEST_WITH_FILE(test_a_checkpoint_may_hold_nothing),
        TEST_WITH_FILE(test_data_begin_on_a_multiple_of_64_and_fill_the_file),
        TEST_WITH_FILE(test_what_could_not_be_opened_is_not_saved),
        TEST_WITH_FILE(test_text_that_is_no_utf8_is_saved_with_a_mark_in_its_place),
        TEST_WITH_FILE(test_a_group_has_the_digest_of_its_tensors_by_name),
        TEST_WITH_FILE(test_a_digest_covers_name_dtype_shape_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
