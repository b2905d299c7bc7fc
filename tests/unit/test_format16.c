/* SPDX-License-Identifier: MIT */
/* test_format16.c -- storage in 16 bits: every value of both formats, every boundary between two,
 * and the same bits on every machine. */
#include <math.h>

#include "format16.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* What a format's 16 bits mean, from its definition. */
static double value_of(ls_format16 format, uint32_t h)
{
    const int fraction_bits = format == LS_FORMAT_BF16 ? 7 : 10;
    const int bias = format == LS_FORMAT_BF16 ? 127 : 15;
    const uint32_t exponent = (h & 0x7fff) >> fraction_bits;
    const uint32_t fraction = h & ((1u << fraction_bits) - 1);
    const double one = (double)(1u << fraction_bits);
    const double magnitude = exponent == 0 ? ldexp(fraction / one, 1 - bias)
                                           : ldexp(1 + fraction / one, (int)exponent - bias);
    return h & 0x8000 ? -magnitude : magnitude;
}

static uint32_t infinity_of(ls_format16 format)
{
    return format == LS_FORMAT_BF16 ? 0x7f80 : 0x7c00;
}

static float widen_one(ls_format16 format, uint16_t h)
{
    return format == LS_FORMAT_BF16 ? ls_float_of_bf16(h) : ls_float_of_f16(h);
}

static uint16_t narrow_one(ls_format16 format, float x)
{
    return format == LS_FORMAT_BF16 ? ls_bf16_of_float(x) : ls_f16_of_float(x);
}

static void test_every_finite_value_widens_to_what_it_means_and_comes_back(void **state)
{
    (void)state;
    for (ls_format16 format = LS_FORMAT_BF16; format <= LS_FORMAT_F16; format++) {
        for (uint32_t h = 0; h < 0x10000; h++) {
            if ((h & 0x7fff) >= infinity_of(format)) continue;
            const float x = widen_one(format, (uint16_t)h);
            assert_true((double)x == value_of(format, h));
            assert_int_equal(narrow_one(format, x), h); /* the sign of zero too */
        }
    }
}

/* Between two neighbours: below the middle down, above it up, in the middle to the even one. */
static void test_rounding_is_to_the_nearest_and_ties_go_to_even(void **state)
{
    (void)state;
    for (ls_format16 format = LS_FORMAT_BF16; format <= LS_FORMAT_F16; format++) {
        const uint32_t last = infinity_of(format) - 1;
        for (uint32_t h = 0; h < last; h++) {
            const double low = value_of(format, h), high = value_of(format, h + 1);
            const float middle = (float)((low + high) / 2);
            if ((double)middle != (low + high) / 2) continue; /* no float: bf16's denormals */
            assert_int_equal(narrow_one(format, middle), h + (h & 1));
            assert_int_equal(narrow_one(format, nextafterf(middle, 0)), h);
            assert_int_equal(narrow_one(format, nextafterf(middle, INFINITY)), h + 1);
            assert_int_equal(narrow_one(format, -middle), (h + (h & 1)) | 0x8000);
        }
    }
}

static void test_what_is_too_large_becomes_infinite_and_a_nan_stays_one(void **state)
{
    (void)state;
    assert_int_equal(narrow_one(LS_FORMAT_F16, 65519.996f), 0x7bff);
    assert_int_equal(narrow_one(LS_FORMAT_F16, 65520.0f), 0x7c00);
    assert_int_equal(narrow_one(LS_FORMAT_F16, -1e9f), 0xfc00);
    assert_int_equal(narrow_one(LS_FORMAT_BF16, 3.4e38f), 0x7f80);
    for (ls_format16 format = LS_FORMAT_BF16; format <= LS_FORMAT_F16; format++) {
        const uint32_t inf = infinity_of(format);
        assert_int_equal(narrow_one(format, INFINITY), inf);
        assert_int_equal(narrow_one(format, -INFINITY), inf | 0x8000);
        assert_true(isinf(widen_one(format, (uint16_t)inf)));
        const uint16_t quiet = format == LS_FORMAT_BF16 ? 0x7fc0 : 0x7e00;
        assert_int_equal(narrow_one(format, NAN), quiet);
        assert_int_equal(narrow_one(format, ls_float_of_bits(0xff800001u)), quiet);
        assert_true(isnan(widen_one(format, quiet)));
        assert_true(isnan(widen_one(format, (uint16_t)(inf + 1))));
    }
}

static void check_length(ls_format16 format, size_t count)
{
    naive_random random = { count * 7 + (size_t)format };
    float *x = malloc((count + 1) * sizeof *x), *back = malloc((count + 1) * sizeof *back);
    float *want = malloc((count + 1) * sizeof *want);
    uint16_t *h = malloc((count + 1) * sizeof *h);
    for (size_t i = 0; i < count; i++) {
        x[i] = ls_float_of_bits((uint32_t)naive_next(&random)); /* any bits at all */
        want[i] = widen_one(format, narrow_one(format, x[i]));
    }
    want[count] = 77.0f;
    for (int m = 0; m < all.count; m++) {
        ls_stream *stream = &all.machine[m].stream;
        h[count] = 0x1234;
        back[count] = 77.0f;
        assert_int_equal(ls_narrow(stream, &(ls_narrow_args){ format, count, x, h }), LS_OK);
        assert_int_equal(ls_widen(stream, &(ls_widen_args){ format, count, h, back }), LS_OK);
        assert_int_equal(h[count], 0x1234);
        assert_true(naive_same("widen", all.machine[m].name, want, back, count + 1));
    }
    free(x);
    free(back);
    free(want);
    free(h);
}

static void test_every_machine_rounds_alike_at_every_length(void **state)
{
    (void)state;
    static const size_t counts[] = { 0, 1, 2, 7, 8, 15, 16, 17, 33, 32767, 32768, 70001 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_length(LS_FORMAT_BF16, counts[i]);
        check_length(LS_FORMAT_F16, counts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_finite_value_widens_to_what_it_means_and_comes_back),
        cmocka_unit_test(test_rounding_is_to_the_nearest_and_ties_go_to_even),
        cmocka_unit_test(test_what_is_too_large_becomes_infinite_and_a_nan_stays_one),
        cmocka_unit_test(test_every_machine_rounds_alike_at_every_length),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
