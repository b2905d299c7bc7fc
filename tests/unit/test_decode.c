/* SPDX-License-Identifier: MIT */
/* test_decode.c -- a byte becomes what its channel's table has, on every machine. */

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* Also that nothing is written beyond the last element; `shift` moves x off its alignment. */
static void check(size_t pixels, size_t channels, size_t shift)
{
    naive_random random = { pixels * 31 + channels };
    const size_t count = pixels * channels;
    float *table = naive_values(&random, channels * 256, NAIVE_ALL);
    float *want = malloc((count + 1) * sizeof *want), *y = malloc((count + 1) * sizeof *y);
    uint8_t *memory = malloc(count + shift + 1), *x = memory + shift;
    for (size_t p = 0; p < pixels; p++) {
        for (size_t c = 0; c < channels; c++) {
            x[p * channels + c] = (uint8_t)naive_next(&random);
            want[p * channels + c] = table[256 * c + x[p * channels + c]];
        }
    }
    want[count] = 77.0f;
    for (int m = 0; m < all.count; m++) {
        for (size_t i = 0; i <= count; i++) y[i] = 77.0f;
        assert_int_equal(ls_decode(&all.machine[m].stream,
                                   &(ls_decode_args){ count, channels, x, table, y }), LS_OK);
        assert_true(naive_same("decode", all.machine[m].name, want, y, count + 1));
    }
    free(table);
    free(want);
    free(y);
    free(memory);
}

static void test_every_length_and_channel_count_gives_what_the_tables_have(void **state)
{
    (void)state;
    static const size_t pixels[] = { 0, 1, 2, 3, 5, 64, 1023, 5461, 5462, 16385, 40000 };
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++) {
        for (size_t channels = 1; channels <= 5; channels++) check(pixels[i], channels, i % 4);
    }
    check(3, 20000, 1); /* more channels than a range has elements */
}

static void test_each_of_256_values_is_looked_up_in_its_own_channel(void **state)
{
    (void)state;
    float table[2 * 256], y[2 * 256];
    uint8_t x[2 * 256];
    for (int i = 0; i < 256; i++) {
        table[i] = (float)i;
        table[256 + i] = -1000.0f - (float)i;
        x[2 * i] = (uint8_t)i;
        x[2 * i + 1] = (uint8_t)(255 - i);
    }
    for (int m = 0; m < all.count; m++) {
        assert_int_equal(ls_decode(&all.machine[m].stream,
                                   &(ls_decode_args){ 512, 2, x, table, y }), LS_OK);
        for (int i = 0; i < 256; i++) {
            assert_true(y[2 * i] == (float)i);
            assert_true(y[2 * i + 1] == -1255.0f + (float)i);
        }
    }
}

/* Every byte, in every place of a word and in what is left of one, divided in double and rounded
 * once more, which is the quotient rounded; a table that only begins so is looked up. */
static void test_quotients_are_what_the_tables_have(void **state)
{
    (void)state;
    enum { CHANNELS = 3, COUNT = CHANNELS * 256 * 17 + 9 };
    float table[CHANNELS * 256], *y = malloc((COUNT + 1) * sizeof *y);
    uint8_t *x = malloc(COUNT);
    for (size_t i = 0; i < COUNT; i++) x[i] = (uint8_t)(i + i / 256);
    for (int divisor = 1; divisor <= 1024; divisor += divisor < 260 ? 1 : 61) {
        for (int i = 0; i < CHANNELS * 256; i++) table[i] = (float)((double)(i % 256) / divisor);
        if (divisor % 3 == 0) table[CHANNELS * 256 - divisor % 256 - 1] += 1.0f;
        for (int m = 0; m < all.count; m++) {
            y[COUNT] = 77.0f;
            assert_int_equal(ls_decode(&all.machine[m].stream,
                                       &(ls_decode_args){ COUNT, CHANNELS, x, table, y }), LS_OK);
            for (size_t i = 0; i < COUNT; i++) {
                assert_true(y[i] == table[i % CHANNELS * 256 + x[i]]);
            }
            assert_true(y[COUNT] == 77.0f);
        }
    }
    free(x);
    free(y);
}

static void test_half_a_pixel_and_no_channel_are_refused(void **state)
{
    (void)state;
    const uint8_t x[4] = { 0 };
    float table[256] = { 0 }, y[4];
    ls_stream *stream = &all.machine[0].stream;
    assert_int_equal(ls_decode(stream, &(ls_decode_args){ 4, 3, x, table, y }), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "decode: 4 elements of 3 channels"));
    assert_int_equal(ls_decode(stream, &(ls_decode_args){ 4, 0, x, table, y }), LS_ERR_ARGUMENT);
    assert_int_equal(ls_decode(stream, &(ls_decode_args){ 4, 1, x, NULL, y }), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "decode: table is NULL"));
    assert_int_equal(ls_decode(stream, &(ls_decode_args){ 0, 3, NULL, NULL, NULL }), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length_and_channel_count_gives_what_the_tables_have),
        cmocka_unit_test(test_each_of_256_values_is_looked_up_in_its_own_channel),
        cmocka_unit_test(test_quotients_are_what_the_tables_have),
        cmocka_unit_test(test_half_a_pixel_and_no_channel_are_refused),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
