/* SPDX-License-Identifier: MIT */
/* test_status.c -- the record of a failure: what it keeps, whose it is, what it lets through. */
#include "support/test.h"

#include <stdio.h>

#include "status.h"
#include "support/ranks.h"

static ls_status fail_with(const char *text) { return ls_fail(LS_ERR_IO, "%s", text); }

static void test_a_failure_keeps_code_text_and_place(void **state)
{
    (void)state;
    const int line = __LINE__ + 1;
    const ls_status status = ls_fail(LS_ERR_FORMAT, "record %d: label %d", 7, 12);
    char place[300];
    (void)snprintf(place, sizeof place, "%s:%d", __FILE__, line);
    assert_int_equal(status, LS_ERR_FORMAT);
    assert_string_equal(ls_last_error(), "record 7: label 12");
    assert_string_equal(ls_last_error_place(), place);
}

static void test_a_text_may_quote_the_record_it_replaces(void **state)
{
    (void)state;
    assert_int_equal(fail_with("short write"), LS_ERR_IO);
    assert_int_equal(ls_fail(LS_ERR_IO, "saving: %s", ls_last_error()), LS_ERR_IO);
    assert_string_equal(ls_last_error(), "saving: short write");
    assert_int_equal(ls_fail_again(LS_ERR_IO, ls_last_error() + 8, ls_last_error_place()),
                     LS_ERR_IO);
    assert_string_equal(ls_last_error(), "short write");
}

static void test_a_text_that_is_too_long_says_that_it_was_cut(void **state)
{
    (void)state;
    char text[LS_MESSAGE_BYTES + 1];
    memset(text, 'x', sizeof text);
    text[LS_MESSAGE_BYTES - 1] = '\0';
    (void)fail_with(text);
    assert_string_equal(ls_last_error(), text); /* just fits */
    text[LS_MESSAGE_BYTES - 1] = 'x';
    text[LS_MESSAGE_BYTES] = '\0';
    (void)fail_with(text);
    assert_int_equal(strlen(ls_last_error()), LS_MESSAGE_BYTES - 1);
    assert_string_equal(ls_last_error() + LS_MESSAGE_BYTES - 5, "x...");
    (void)ls_fail_again(LS_ERR_IO, text, "a place");
    assert_string_equal(ls_last_error() + LS_MESSAGE_BYTES - 5, "x...");
}

static void test_words_may_be_put_before_a_record(void **state)
{
    (void)state;
    char text[LS_MESSAGE_BYTES], want[LS_MESSAGE_BYTES];
    memset(text, 'x', sizeof text);
    text[LS_MESSAGE_BYTES - 1 - 8] = '\0';
    (void)fail_with(text);
    char *place = strdup(ls_last_error_place());
    assert_non_null(place);
    assert_int_equal(ls_fail_before(LS_ERR_IO, "step 7: "), LS_ERR_IO);
    snprintf(want, sizeof want, "step 7: %.*s", LS_MESSAGE_BYTES - 1 - 8, text);
    assert_string_equal(ls_last_error(), want); /* just fits */
    assert_string_equal(ls_last_error_place(), place);
    (void)ls_fail_before(LS_ERR_IO, "again, ");
    assert_memory_equal(ls_last_error(), "again, step 7: xxx", 18);
    assert_int_equal(strlen(ls_last_error()), LS_MESSAGE_BYTES - 1);
    assert_string_equal(ls_last_error() + LS_MESSAGE_BYTES - 5, "x...");
    free(place);
}

static void test_a_text_cannot_steer_a_terminal(void **state)
{
    (void)state;
    (void)fail_with("name \x1b[2J\rx\x07\x7f, tab\t, line\n, \xc3\xa9");
    assert_string_equal(ls_last_error(), "name ?[2J?x??, tab\t, line\n, \xc3\xa9");
}

static ls_status one_of_three(int rank, void *arg)
{
    const char **seen = arg;
    if (ls_last_error()[0] != '\0') return ls_fail(LS_ERR_VERIFY, "a new thread has a record");
    if (rank != 1) return LS_OK;
    (void)fail_with("only mine");
    *seen = ls_last_error();
    return strcmp(ls_last_error(), "only mine") == 0 ? LS_OK : LS_ERR_VERIFY;
}

static void test_a_record_belongs_to_its_thread(void **state)
{
    (void)state;
    (void)fail_with("of the main thread");
    const char *seen = NULL;
    assert_int_equal(run_ranks(3, one_of_three, &seen, NULL), LS_OK);
    assert_non_null(seen);
    assert_ptr_not_equal(seen, ls_last_error());
    assert_string_equal(ls_last_error(), "of the main thread");
}

static ls_status count_then_fail(int *calls, ls_status with)
{
    LS_TRY(with);
    (*calls)++;
    return LS_OK;
}

static void test_try_returns_at_the_first_failure_only(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(count_then_fail(&calls, LS_OK), LS_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(count_then_fail(&calls, LS_ERR_TIMEOUT), LS_ERR_TIMEOUT);
    assert_int_equal(calls, 1);
}

static void test_every_code_has_an_exit_code_and_a_name_of_its_own(void **state)
{
    (void)state;
    static const struct {
        ls_status code;
        int exit_code;
        const char *name;
    } row[] = {
        { LS_OK, 0, "OK" },
        { LS_ERR_ARGUMENT, 2, "ARGUMENT" },
        { LS_ERR_FORMAT, 3, "FORMAT" },
        { LS_ERR_VERIFY, 4, "VERIFY" },
        { LS_ERR_DEVICE, 5, "DEVICE" },
        { LS_ERR_TIMEOUT, 5, "TIMEOUT" },
        { LS_ERR_DIVERGED, 5, "DIVERGED" },
        { LS_ERR_MEMORY, 1, "MEMORY" },
        { LS_ERR_IO, 1, "IO" },
        { LS_ERR_NONFINITE, 1, "NONFINITE" },
        { LS_ERR_ABORTED, 1, "ABORTED" },
    };
    assert_int_equal(sizeof row / sizeof row[0], LS_ERR_ABORTED + 1);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(row[i].code, i);
        assert_int_equal(ls_exit_code(row[i].code), row[i].exit_code);
        assert_string_equal(ls_status_name(row[i].code), row[i].name);
    }
}

static void test_a_record_that_was_kept_survives_later_failures(void **state)
{
    (void)state;
    ls_record cause;
    assert_int_equal(ls_fail_again(LS_ERR_DEVICE, "the cause", "a.c:1"), LS_ERR_DEVICE);
    ls_record_keep(&cause);
    assert_int_equal(ls_fail_again(LS_ERR_IO, "while cleaning up", "b.c:2"), LS_ERR_IO);
    ls_record_restore(&cause);
    assert_string_equal(ls_last_error(), "the cause");
    assert_string_equal(ls_last_error_place(), "a.c:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_keeps_code_text_and_place),
        cmocka_unit_test(test_a_text_may_quote_the_record_it_replaces),
        cmocka_unit_test(test_a_text_that_is_too_long_says_that_it_was_cut),
        cmocka_unit_test(test_words_may_be_put_before_a_record),
        cmocka_unit_test(test_a_text_cannot_steer_a_terminal),
        cmocka_unit_test(test_a_record_belongs_to_its_thread),
        cmocka_unit_test(test_try_returns_at_the_first_failure_only),
        cmocka_unit_test(test_every_code_has_an_exit_code_and_a_name_of_its_own),
        cmocka_unit_test(test_a_record_that_was_kept_survives_later_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
