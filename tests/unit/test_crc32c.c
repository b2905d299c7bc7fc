/* SPDX-License-Identifier: MIT */
/* test_crc32c.c -- published vectors, a bit-by-bit twin, and what a check must notice. */
#include "support/test.h"

#include "crc32c.h"

/* The definition, one bit at a time. */
static uint32_t crc_by_bits(const unsigned char *p, size_t bytes)
{
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < bytes; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
    }
    return ~c;
}

/* Bytes that look random and are the same on every run. */
static void fill(unsigned char *p, size_t bytes)
{
    uint32_t x = 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (unsigned char)(x >> 24);
    }
}

static void test_published_vectors_come_out(void **state)
{
    (void)state;
    unsigned char x[32];
    assert_int_equal(ls_crc32c(0, "123456789", 9), 0xE3069283u);
    memset(x, 0, sizeof x); /* this and the next three: RFC 3720, B.4 */
    assert_int_equal(ls_crc32c(0, x, sizeof x), 0x8A9136AAu);
    memset(x, 0xFF, sizeof x);
    assert_int_equal(ls_crc32c(0, x, sizeof x), 0x62A8AB43u);
    for (int i = 0; i < 32; i++) x[i] = (unsigned char)i;
    assert_int_equal(ls_crc32c(0, x, sizeof x), 0x46DD794Eu);
    for (int i = 0; i < 32; i++) x[i] = (unsigned char)(31 - i);
    assert_int_equal(ls_crc32c(0, x, sizeof x), 0x113FDB5Cu);
}

static void test_nothing_has_crc_zero(void **state)
{
    (void)state;
    assert_int_equal(ls_crc32c(0, NULL, 0), 0);
    assert_int_equal(ls_crc32c(0x12345678u, NULL, 0), 0x12345678u);
}

static void test_eight_bytes_at_a_time_equal_one_bit_at_a_time(void **state)
{
    (void)state;
    unsigned char x[300];
    fill(x, sizeof x);
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t bytes = 0; bytes + begin <= sizeof x; bytes++) {
            assert_int_equal(ls_crc32c(0, x + begin, bytes), crc_by_bits(x + begin, bytes));
        }
    }
    for (int byte = 0; byte < 256; byte++) { /* every entry of every table */
        for (size_t place = 0; place < 8; place++) {
            unsigned char y[8] = { 0 };
            y[place] = (unsigned char)byte;
            assert_int_equal(ls_crc32c(0, y, 8), crc_by_bits(y, 8));
        }
    }
}

static void test_a_message_in_two_parts_has_the_crc_of_the_whole(void **state)
{
    (void)state;
    unsigned char x[97];
    fill(x, sizeof x);
    const uint32_t whole = ls_crc32c(0, x, sizeof x);
    for (size_t cut = 0; cut <= sizeof x; cut++) {
        const uint32_t first = ls_crc32c(0, x, cut);
        assert_int_equal(ls_crc32c(first, x + cut, sizeof x - cut), whole);
    }
}

static void test_one_flipped_bit_changes_the_crc(void **state)
{
    (void)state;
    unsigned char x[200];
    fill(x, sizeof x);
    const uint32_t before = ls_crc32c(0, x, sizeof x);
    for (size_t bit = 0; bit < 8 * sizeof x; bit++) {
        x[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(ls_crc32c(0, x, sizeof x), before);
        x[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors_come_out),
        cmocka_unit_test(test_nothing_has_crc_zero),
        cmocka_unit_test(test_eight_bytes_at_a_time_equal_one_bit_at_a_time),
        cmocka_unit_test(test_a_message_in_two_parts_has_the_crc_of_the_whole),
        cmocka_unit_test(test_one_flipped_bit_changes_the_crc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
