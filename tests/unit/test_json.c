/* SPDX-License-Identifier: MIT */
/* test_json.c -- what the strict reader takes and refuses, where, and what the writer writes. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "io/json.h"
#include "support/naive.h"

static ls_json_reader reader_of(const char *text)
{
    ls_json_reader r;
    ls_json_read_init(&r, "text", text, strlen(text), 0);
    return r;
}

/* Read `text` as a string; the caller frees. */
static char *string_of(const char *text)
{
    ls_json_reader r = reader_of(text);
    char *out = NULL;
    if (ls_json_read_string(&r, &out) == LS_OK && ls_json_read_end(&r) != LS_OK) {
        free(out);
        out = NULL;
    }
    return out;
}

static void assert_string_is(const char *text, const char *want)
{
    char *got = string_of(text);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

/* `text` is no string, and the message names byte `at`. */
static void assert_no_string(const char *text, size_t at)
{
    char place[32];
    snprintf(place, sizeof place, "text: byte %zu: ", at);
    assert_null(string_of(text));
    if (!strstr(ls_last_error(), place)) fail_msg("'%s': %s", text, ls_last_error());
}

static void test_strings_come_out_decoded(void **state)
{
    (void)state;
    assert_string_is("\"\"", "");
    assert_string_is(" \"abc\" ", "abc");
    assert_string_is("\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"", "a\"b\\c/d\b\f\n\r\t");
    assert_string_is("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"",
                     "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    assert_string_is("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
                     "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

static void test_malformed_strings_are_refused_at_their_byte(void **state)
{
    (void)state;
    assert_no_string("abc", 0);
    assert_no_string("\"abc", 4);
    assert_no_string("\"ab\\", 4);
    assert_no_string("\"a\\x\"", 3);
    assert_no_string("\"a\nb\"", 2);
    assert_no_string("\"\\u12G4\"", 5);
    assert_no_string("\"\\u12", 5);
    assert_no_string("\"\\u0000\"", 7);        /* NUL would end a C string early */
    assert_no_string("\"\\uD800\"", 7);        /* half of a pair */
    assert_no_string("\"\\uD800\\u0041\"", 13);
    assert_no_string("\"\\uDC00\"", 7);
    assert_no_string("\"abc\" x", 6);
}

static void test_bytes_that_are_no_utf8_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80", "\xC1\x81", "\xC3", "\xC3\x41", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "\"a%s\"", bad[i]);
        assert_no_string(text, 2);
    }
}

static void test_counts_are_digits_without_leading_zeros_up_to_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = { { "0", 0 }, { "7", 7 }, { "120", 120 },
                 { "18446744073709551615", UINT64_MAX } };
    static const char *const bad[] = { "", "-1", "+1", "01", "00", "18446744073709551616",
                                       "99999999999999999999", "x", "1.5", "1e3" };
    uint64_t x;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ls_json_reader r = reader_of(good[i].text);
        assert_int_equal(ls_json_read_count(&r, &x), LS_OK);
        assert_int_equal(ls_json_read_end(&r), LS_OK);
        assert_true(x == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ls_json_reader r = reader_of(bad[i]);
        const bool is_read = ls_json_read_count(&r, &x) == LS_OK && ls_json_read_end(&r) == LS_OK;
        if (is_read) fail_msg("'%s' was read as %llu", bad[i], (unsigned long long)x);
    }
}

/* Sum of the numbers in {"key": [numbers], ...}. */
static ls_status sum_of(const char *text, uint64_t *sum)
{
    ls_json_reader r = reader_of(text);
    bool more, inner;
    *sum = 0;
    LS_TRY(ls_json_read_open(&r, '{'));
    for (;;) {
        LS_TRY(ls_json_read_next(&r, &more));
        if (!more) return ls_json_read_end(&r);
        char *key;
        LS_TRY(ls_json_read_key(&r, &key));
        free(key);
        LS_TRY(ls_json_read_open(&r, '['));
        for (;;) {
            uint64_t x;
            LS_TRY(ls_json_read_next(&r, &inner));
            if (!inner) break;
            LS_TRY(ls_json_read_count(&r, &x));
            *sum += x;
        }
    }
}

static void test_brackets_commas_and_colons_must_be_right(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t sum;
    } good[] = { { "{}", 0 }, { " { } ", 0 }, { "{\"a\":[]}", 0 }, { "{\"a\":[1,2],\"b\":[3]}", 6 },
                 { "{ \"a\" : [ 1 , 2 ] ,\n\"b\" :[3]\t}\r\n", 6 } };
    static const char *const bad[] = {
        "", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":[1}", "{\"a\":[1]", "{\"a\":[1,]}",
        "{\"a\":[,1]}", "{\"a\":[1 2]}", "{\"a\":[1],}",
        "{,\"a\":[1]}", "{\"a\":[1]\"b\":[2]}", "{a:[1]}", "[1]",
        "{\"a\":[1]}}", "{\"a\":[1]} x", "{\"a\":[[1]]}", "{\"a\":[1]]", "{\"a\",[1]}",
    };
    uint64_t sum;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(sum_of(good[i].text, &sum), LS_OK);
        assert_true(sum == good[i].sum);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (sum_of(bad[i], &sum) == LS_OK) fail_msg("'%s' was accepted", bad[i]);
    }
}

static void test_a_text_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const char *text = "{\"a\\u00e9\":[1,2],\"b\":[3]}";
    uint64_t sum;
    for (size_t count = 0; count < strlen(text); count++) {
        char *cut = strndup(text, count); /* exactly as long as it is: an overrun is seen */
        assert_int_not_equal(sum_of(cut, &sum), LS_OK);
        free(cut);
    }
}

static void test_brackets_deeper_than_the_limit_are_refused(void **state)
{
    (void)state;
    ls_json_reader r = reader_of("[[[[[[[[[[[[");
    for (int i = 0; i < LS_JSON_DEPTH_MAX; i++) {
        assert_int_equal(ls_json_read_open(&r, '['), LS_OK);
    }
    assert_int_equal(ls_json_read_open(&r, '['), LS_ERR_FORMAT);
}

static void test_numbers_come_back_with_the_same_bits(void **state)
{
    (void)state;
    static const double x[] = { 0.0, -0.0, 0.1, 1.0 / 3, 1e-7, 5e-324, 1.7976931348623157e308,
                                0.30000000000000004, 123456789012345678.0, -2.5, 0.001 };
    uint64_t random = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
    char text[LS_NUMBER_BYTES];
    for (int i = 0; i < 20000; i++) {
        double y, back;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(&y, &random, sizeof y);
        if (i < (int)(sizeof x / sizeof x[0])) y = x[i];
        if (!isfinite(y)) continue;
        ls_number_text(y, text);
        back = strtod(text, NULL);
        if (memcmp(&back, &y, sizeof y) != 0) fail_msg("%a became %s", y, text);
    }
    ls_number_text(0.1, text);
    assert_string_equal(text, "0.1");
    ls_number_text(0.1 + 0.2 - 0.3, text);
    assert_string_equal(text, "5.551115123125783e-17");
    ls_number_text(0.30000000000000004, text);
    assert_string_equal(text, "0.30000000000000004");
    ls_number_text(-INFINITY, text);
    assert_string_equal(text, "-inf");
}

/* Numbers that people write have few digits; some have 16 when cut to 16. */
static void test_a_number_of_15_digits_is_written_with_no_more(void **state)
{
    (void)state;
    naive_random random = { 7 };
    char want[LS_NUMBER_BYTES], text[LS_NUMBER_BYTES];
    int cut_longer = 0;
    for (int i = 0; i < 20000; i++) {
        const uint64_t digits = (naive_next(&random) >> 8) % 1000000000000000 | 1;
        snprintf(text, sizeof text, "%" PRIu64 "e-%d", digits, i % 30);
        const double x = strtod(text, NULL);
        snprintf(want, sizeof want, "%.15g", x);
        snprintf(text, sizeof text, "%.16g", x);
        cut_longer += strlen(text) > strlen(want);
        ls_number_text(x, text);
        assert_string_equal(text, want);
    }
    assert_true(cut_longer > 100);
    ls_number_text(0x1p956, text); /* 6.090821257124999e+287 is another number */
    assert_string_equal(text, "6.090821257125e+287");
    ls_number_text(-0x1p149, text);
    snprintf(want, sizeof want, "%.15g", -0x1p149);
    assert_string_equal(text, want);
}

static void test_the_writer_puts_commas_and_escapes(void **state)
{
    (void)state;
    ls_json_writer w = { 0 };
    char *text;
    size_t byte_count;
    ls_json_write_open(&w, '{');
    ls_json_write_key(&w, "a\"b");
    ls_json_write_string(&w, "x\\y\n\x01\xC3\xA9\xFFz");
    ls_json_write_key(&w, "list");
    ls_json_write_open(&w, '[');
    ls_json_write_count(&w, UINT64_MAX);
    ls_json_write_count(&w, 0);
    ls_json_write_number(&w, 0.5);
    ls_json_write_flag(&w, true);
    ls_json_write_open(&w, '[');
    ls_json_write_close(&w, ']');
    ls_json_write_open(&w, '{');
    ls_json_write_close(&w, '}');
    ls_json_write_close(&w, ']');
    ls_json_write_key(&w, "end");
    ls_json_write_flag(&w, false);
    ls_json_write_close(&w, '}');
    assert_int_equal(ls_json_write_end(&w, &text, &byte_count), LS_OK);
    assert_string_equal(text, "{\"a\\\"b\":\"x\\\\y\\n\\u0001\xC3\xA9\\uFFFDz\","
                              "\"list\":[18446744073709551615,0,0.5,true,[],{}],\"end\":false}");
    assert_int_equal(byte_count, strlen(text));
    free(text);
}

static void test_nan_and_infinities_are_never_written_as_numbers(void **state)
{
    (void)state;
    ls_json_writer w = { 0 };
    char *text;
    ls_json_write_open(&w, '[');
    ls_json_write_number(&w, (double)NAN);
    ls_json_write_number(&w, (double)INFINITY);
    ls_json_write_number(&w, (double)-INFINITY);
    ls_json_write_close(&w, ']');
    assert_int_equal(ls_json_write_end(&w, &text, NULL), LS_OK);
    assert_string_equal(text, "[null,null,null]");
    free(text);
}

static void test_times_are_written_to_the_nanosecond(void **state)
{
    (void)state;
    const struct {
        double seconds;
        const char *text;
    } times[] = { { 0, "0" }, { 1, "1" }, { 0.5, "0.5" }, { 0.0041307889991, "0.004130789" },
                  { 1e-9, "0.000000001" }, { 4e-10, "0" }, { 12345.25, "12345.25" },
                  { 100, "100" }, { 1e9, "1000000000" }, { (double)NAN, "null" } };
    ls_json_writer w = { 0 };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        ls_json_write_again(&w);
        ls_json_write_seconds(&w, times[i].seconds);
        assert_false(w.failed);
        assert_string_equal(w.text, times[i].text);
    }
    free(w.text);
}

static void test_a_writer_that_starts_again_keeps_its_memory(void **state)
{
    (void)state;
    ls_json_writer w = { 0 };
    ls_json_write_open(&w, '[');
    ls_json_write_count(&w, 1);
    ls_json_write_close(&w, ']');
    const char *before = w.text;
    ls_json_write_again(&w);
    ls_json_write_open(&w, '{');
    ls_json_write_close(&w, '}');
    assert_ptr_equal(w.text, before);
    assert_string_equal(w.text, "{}");
    free(w.text);
}

static void test_any_text_survives_being_written_and_read(void **state)
{
    (void)state;
    char all[0x7F + 1];
    for (int i = 1; i <= 0x7F; i++) all[i - 1] = (char)i;
    all[0x7F] = '\0';
    ls_json_writer w = { 0 };
    char *text;
    ls_json_write_string(&w, all);
    assert_int_equal(ls_json_write_end(&w, &text, NULL), LS_OK);
    assert_string_is(text, all);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_come_out_decoded),
        cmocka_unit_test(test_malformed_strings_are_refused_at_their_byte),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_refused),
        cmocka_unit_test(test_counts_are_digits_without_leading_zeros_up_to_64_bits),
        cmocka_unit_test(test_brackets_commas_and_colons_must_be_right),
        cmocka_unit_test(test_a_text_cut_anywhere_is_refused),
        cmocka_unit_test(test_brackets_deeper_than_the_limit_are_refused),
        cmocka_unit_test(test_numbers_come_back_with_the_same_bits),
        cmocka_unit_test(test_a_number_of_15_digits_is_written_with_no_more),
        cmocka_unit_test(test_the_writer_puts_commas_and_escapes),
        cmocka_unit_test(test_nan_and_infinities_are_never_written_as_numbers),
        cmocka_unit_test(test_times_are_written_to_the_nanosecond),
        cmocka_unit_test(test_a_writer_that_starts_again_keeps_its_memory),
        cmocka_unit_test(test_any_text_survives_being_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
