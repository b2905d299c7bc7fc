/* SPDX-License-Identifier: MIT */
/* test_numerics.c -- the shared arithmetic against its definitions and against libm in double. */
#include <math.h>

#include "numerics.h"
#include "support/naive.h"
#include "support/test.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* A float of random bits: every exponent, denormals, infinities and NaN. */
static float any_float(naive_random *random)
{
    const uint32_t bits = (uint32_t)naive_next(random);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_shards_are_contiguous_and_cover_every_sample_once(void **state)
{
    (void)state;
    for (int shards = 1; shards <= LS_SHARD_MAX; shards++) {
        for (size_t samples = 0; samples < 200; samples++) {
            assert_int_equal(ls_shard_begin(0, samples, shards), 0);
            assert_int_equal(ls_shard_begin(shards, samples, shards), samples);
            for (int s = 0; s < shards; s++) {
                const size_t begin = ls_shard_begin(s, samples, shards);
                assert_true(begin <= ls_shard_begin(s + 1, samples, shards));
                assert_int_equal(begin, (size_t)((double)s * (double)samples / shards));
            }
        }
        for (int world = 1; world <= shards; world++) {
            assert_int_equal(ls_rank_shard_begin(world, shards, world), shards);
            for (int r = 0; r < world; r++) { /* N <= V: nobody is without a shard */
                assert_true(ls_rank_shard_begin(r, shards, world) <
                            ls_rank_shard_begin(r + 1, shards, world));
            }
        }
    }
}

static void test_the_tree_splits_at_the_largest_power_of_two_below_the_count(void **state)
{
    (void)state;
    for (size_t count = 2; count < 5000; count++) {
        const size_t split = ls_tree_split(count);
        assert_int_equal(split & (split - 1), 0);
        assert_true(split < count && 2 * split >= count);
    }
}

/* Leaves that differ in size by far, so that every other order of additions shows. */
static void test_a_stack_folds_leaves_as_the_recursion_does(void **state)
{
    (void)state;
    naive_random random = { 1 };
    for (size_t count = 0; count < 300; count++) {
        double leaf[300];
        float leaf_f32[300], sum_f32 = 0.0f, stack[LS_TREE_DEPTH];
        ls_tree_f64 tree = { .depth = 0 };
        ls_tree_f32 tree_f32 = { .depth = 0 };
        int depth = 0;
        for (size_t i = 0; i < count; i++) {
            leaf[i] = ldexp((double)naive_unit(&random), (int)naive_below(&random, 60));
            leaf_f32[i] = (float)leaf[i];
            ls_tree_push_f64(&tree, leaf[i]);
            ls_tree_push_f32(&tree_f32, leaf_f32[i]);
            stack[depth++] = leaf_f32[i];
            for (int add = ls_tree_adds_after(i, count); add > 0; add--, depth--) {
                stack[depth - 2] = stack[depth - 2] + stack[depth - 1];
            }
        }
        if (count > 0) {
            assert_int_equal(depth, 1);
            sum_f32 = stack[0];
        }
        const float expected = naive_tree_f32(leaf_f32, count);
        assert_true(ls_tree_root_f64(&tree) == naive_tree_f64(leaf, count));
        assert_int_equal(bits_of(ls_tree_root_f32(&tree_f32)), bits_of(expected));
        assert_int_equal(bits_of(sum_f32), bits_of(expected));
    }
}

static void test_flat_sums_are_blocks_of_lanes_in_the_tree(void **state)
{
    (void)state;
    static const size_t counts[] = { 0,    1,    2,    63,   64,   65,    127,   4095,
                                     4096, 4097, 8191, 8192, 8193, 12289, 20000, 36865 };
    naive_random random = { 2 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        float *x = naive_values(&random, counts[i], NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE);
        float *y = naive_values(&random, counts[i], NAIVE_ZEROS);
        ls_flat_f64 sum;
        ls_flat_f32 sum_f32;
        ls_flat_init_f64(&sum);
        ls_flat_init_f32(&sum_f32);
        for (size_t k = 0; k < counts[i]; k++) {
            ls_flat_add_f64(&sum, (double)x[k] * (double)y[k]);
            ls_flat_add_f32(&sum_f32, x[k], y[k]);
        }
        assert_true(ls_flat_end_f64(&sum) == naive_flat_f64(x, y, counts[i]));
        assert_int_equal(bits_of(ls_flat_end_f32(&sum_f32)),
                         bits_of(naive_flat_f32(x, y, counts[i])));
        free(x);
        free(y);
    }
}

/* glibc's fmaf is exact; what is tested is everything that rounding to odd must get right. */
static void test_soft_fused_multiply_add_rounds_once(void **state)
{
    (void)state;
    naive_random random = { 3 };
    for (int i = 0; i < 1000000; i++) {
        float a = any_float(&random), b = any_float(&random), c = any_float(&random);
        if (i % 16 == 0) { /* half an ulp of c, but for 2^-46 of it: lost in double, not a tie */
            a = ldexpf(naive_next(&random) & 1 ? 1.0f + 0x1p-23f : -1.0f - 0x1p-23f, i % 50);
            b = 1.0f - 0x1p-23f;
            c = ldexpf((float)(0x800000 + (naive_next(&random) & 0x7fffff)), i % 50 + 1);
            if (naive_next(&random) & 1) c = -c;
        }
        if (i % 4 == 1) c = -(a * b);                         /* cancels all but the rounding */
        if (i % 4 == 2) c = nextafterf(a * b, c) * -0x1p23f;  /* ties and near ties */
        if (i % 4 == 3) {                                     /* denormal results */
            a = ldexpf(a - truncf(a), -70);
            b = ldexpf(naive_unit(&random), -70);
            c = ldexpf(naive_unit(&random), -126);
        }
        const float expected = fmaf(a, b, c);
        const float soft = ls_soft_fmaf(a, b, c), fused = ls_fmaf(a, b, c);
        if (!naive_same("soft fma", "ls_soft_fmaf", &expected, &soft, 1) ||
            !naive_same("fma", "ls_fmaf", &expected, &fused, 1)) {
            fail_msg("fma(%a, %a, %a)", (double)a, (double)b, (double)c);
        }
    }
}

static void test_a_digest_sees_every_bit_and_no_order(void **state)
{
    (void)state;
    naive_random random = { 4 };
    float *x = naive_values(&random, 100, NAIVE_SMALL);
    uint64_t up = 0, down = 0;
    for (size_t i = 0; i < 100; i++) up += ls_digest_term(i, x[i]);
    for (size_t i = 100; i-- > 0;) down += ls_digest_term(i, x[i]);
    assert_true(up == down);
    for (size_t i = 0; i < 100; i++) {
        for (int bit = 0; bit < 31; bit++) {
            const float flipped = ls_float_of_bits(bits_of(x[i]) ^ 1u << bit);
            assert_true(up - ls_digest_term(i, x[i]) + ls_digest_term(i, flipped) != up);
        }
    }
    assert_int_equal(ls_digest_word(NAN), ls_digest_word(-NAN));
    assert_int_equal(ls_digest_word(ls_float_of_bits(0x7f800001u)), 0x7fc00000u);
    assert_true(ls_digest_word(0.0f) != ls_digest_word(-0.0f));
    free(x);
}

/* What a dead link delivers in place of a buffer and its digest: one byte, again and again. */
static void test_a_buffer_of_one_byte_has_another_digest_than_that_byte(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        float x;
        uint64_t delivered, digest = LS_DIGEST_START, start;
        memset(&x, byte, sizeof x);
        memset(&delivered, byte, sizeof delivered);
        memset(&start, LS_DIGEST_BYTE, sizeof start);
        assert_true(digest == start);
        for (size_t i = 0; i < 5000; i++) {
            digest += ls_digest_term(i, x);
            assert_true(digest != delivered);
        }
    }
}

static void test_slots_below_2_to_the_minus_100_become_plus_zero(void **state)
{
    (void)state;
    const float limit = ldexpf(1.0f, -100), below = nextafterf(limit, 0.0f);
    assert_int_equal(bits_of(ls_slot_flush(limit)), bits_of(limit));
    assert_int_equal(bits_of(ls_slot_flush(-limit)), bits_of(-limit));
    assert_int_equal(bits_of(ls_slot_flush(below)), 0);
    assert_int_equal(bits_of(ls_slot_flush(-below)), 0);
    assert_int_equal(bits_of(ls_slot_flush(-0.0f)), 0);
    assert_int_equal(bits_of(ls_slot_flush(1e-45f)), 0);
    assert_int_equal(bits_of(ls_slot_flush(INFINITY)), bits_of(INFINITY));
    assert_true(isnan(ls_slot_flush(NAN)));
}

/* |y - exact| in units of the last place of `exact`. */
static double ulps(float y, double exact)
{
    int exponent;
    (void)frexp(exact, &exponent);
    return fabs((double)y - exact) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void test_exp_is_within_1_1_ulp_and_ends_where_it_says(void **state)
{
    (void)state;
    for (double x = -87.0; x <= 88.7228317; x += 0.000173) {
        const float argument = (float)x;
        if (argument < -87.0f) continue;
        assert_true(ulps(ls_expf(argument), exp((double)argument)) < 1.1);
    }
    assert_true(ls_expf(0.0f) == 1.0f && ls_expf(-0.0f) == 1.0f);
    assert_true(ls_expf(-87.0f) > 0.0f);
    assert_int_equal(bits_of(ls_expf(nextafterf(-87.0f, -INFINITY))), 0);
    assert_int_equal(bits_of(ls_expf(-1e30f)), 0);
    assert_int_equal(bits_of(ls_expf(-INFINITY)), 0);
    assert_true(ls_expf(nextafterf(88.7228317f, 89.0f)) == INFINITY);
    assert_true(ls_expf(1e30f) == INFINITY && ls_expf(INFINITY) == INFINITY);
    assert_true(isnan(ls_expf(NAN)));
}

static void test_log_is_within_0_87_ulp_from_denormals_up(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits < 0x7f800000u; bits += 2039) {
        const float x = ls_float_of_bits(bits);
        assert_true(ulps(ls_logf(x), log((double)x)) < 0.87);
    }
    assert_int_equal(bits_of(ls_logf(1.0f)), 0);
    assert_true(ls_logf(0.0f) == -INFINITY && ls_logf(-0.0f) == -INFINITY);
    assert_true(ls_logf(INFINITY) == INFINITY);
    assert_true(isnan(ls_logf(-1.0f)) && isnan(ls_logf(-INFINITY)) && isnan(ls_logf(NAN)));
}

static void test_cos_is_right_to_double_precision_over_half_a_period(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    for (int i = 0; i <= 1000000; i++) {
        const double x = pi * i / 1000000;
        assert_true(fabs(ls_cos(x) - cos(x)) < 3e-16);
    }
    assert_true(ls_cos(0.0) == 1.0 && ls_cos(pi) == -1.0);
}

/* An odd function, at +-x of every kind: below `bound` ulp of `truth`. */
static void check_odd(float (*function)(float), double (*truth)(double), double bound)
{
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += bits < 0x3c000000u ? 20011 : 211) {
        const float x = ls_float_of_bits(bits), y = function(x);
        if (ulps(y, truth((double)x)) >= bound) fail_msg("%a becomes %a", (double)x, (double)y);
        assert_int_equal(bits_of(function(-x)), bits_of(-y));
    }
    const float tiny[4] = { 0.0f, 1e-45f, 1e-40f, 0x1p-126f };
    for (int i = 0; i < 4; i++) assert_int_equal(bits_of(function(-tiny[i])) >> 31, 1);
    assert_true(function(INFINITY) == 1.0f && function(-INFINITY) == -1.0f);
    assert_true(function(3e38f) == 1.0f && function(-3e38f) == -1.0f);
    assert_true(isnan(function(NAN)) && isnan(function(-NAN)));
}

static void test_tanh_is_within_1_07_ulp_and_odd(void **state)
{
    (void)state;
    check_odd(ls_tanhf, tanh, 1.07);
    assert_int_equal(bits_of(ls_tanhf(1e-45f)), 1);
    assert_true(ls_tanhf(9.1f) == 1.0f && ls_tanhf(8.9f) < 1.0f);
}

static void test_erf_is_within_1_34_ulp_and_odd(void **state)
{
    (void)state;
    check_odd(ls_erff, erf, 1.34);
    assert_int_equal(bits_of(ls_erff(1e-45f)), 1);
    assert_true(ls_erff(3.92f) == 1.0f && ls_erff(3.8f) < 1.0f);
}

/* |y - exact| in units of the last place of `exact` as a double. */
static double double_ulps(double y, long double exact)
{
    int exponent;
    (void)frexpl(exact, &exponent);
    const long double last = ldexpl(1.0L, (exponent < -1021 ? -1021 : exponent) - 53);
    return (double)(fabsl((long double)y - exact) / last);
}

static void test_double_exp_is_within_1_ulp_and_ends_where_it_says(void **state)
{
    (void)state;
    const double largest = 709.782712893383973, least = -745.1332191019411;
    for (double x = least; x <= largest; x += 0.00317) {
        assert_true(double_ulps(ls_exp(x), expl((long double)x)) < 1.0);
    }
    for (double x = 1.0; x > 1e-20; x *= 0.9993) {
        assert_true(double_ulps(ls_exp(x), expl((long double)x)) < 1.0);
        assert_true(double_ulps(ls_exp(-x), expl(-(long double)x)) < 1.0);
    }
    assert_true(ls_exp(0.0) == 1.0 && ls_exp(-0.0) == 1.0 && ls_exp(5e-324) == 1.0);
    assert_true(ls_exp(largest) < INFINITY && ls_exp(nextafter(largest, 1e3)) == INFINITY);
    assert_true(ls_exp(1e300) == INFINITY && ls_exp(INFINITY) == INFINITY);
    assert_true(ls_exp(least) == 5e-324);
    assert_true(ls_double_bits(ls_exp(nextafter(least, -1e3))) == 0);
    assert_true(ls_double_bits(ls_exp(-1e300)) == 0 && ls_double_bits(ls_exp(-INFINITY)) == 0);
    assert_true(isnan(ls_exp(NAN)));
}

static void test_double_log_is_within_0_9_ulp_from_denormals_up(void **state)
{
    (void)state;
    for (uint64_t bits = 1; bits < 0x7ff0000000000000u; bits += 0x7ff0000000000000u / 499979) {
        const double x = ls_double_of_bits(bits);
        assert_true(double_ulps(ls_log(x), logl((long double)x)) < 0.9);
    }
    for (double x = 0.5; x < 2.0; x += 0.00000717) {
        assert_true(double_ulps(ls_log(x), logl((long double)x)) < 0.9);
    }
    assert_true(ls_double_bits(ls_log(1.0)) == 0);
    assert_true(double_ulps(ls_log(5e-324), logl((long double)5e-324)) < 0.9);
    assert_true(ls_log(0.0) == -INFINITY && ls_log(-0.0) == -INFINITY);
    assert_true(ls_log(INFINITY) == INFINITY);
    assert_true(isnan(ls_log(-1.0)) && isnan(ls_log(-INFINITY)) && isnan(ls_log(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_are_contiguous_and_cover_every_sample_once),
        cmocka_unit_test(test_the_tree_splits_at_the_largest_power_of_two_below_the_count),
        cmocka_unit_test(test_a_stack_folds_leaves_as_the_recursion_does),
        cmocka_unit_test(test_flat_sums_are_blocks_of_lanes_in_the_tree),
        cmocka_unit_test(test_soft_fused_multiply_add_rounds_once),
        cmocka_unit_test(test_a_digest_sees_every_bit_and_no_order),
        cmocka_unit_test(test_a_buffer_of_one_byte_has_another_digest_than_that_byte),
        cmocka_unit_test(test_slots_below_2_to_the_minus_100_become_plus_zero),
        cmocka_unit_test(test_exp_is_within_1_1_ulp_and_ends_where_it_says),
        cmocka_unit_test(test_log_is_within_0_87_ulp_from_denormals_up),
        cmocka_unit_test(test_tanh_is_within_1_07_ulp_and_odd),
        cmocka_unit_test(test_erf_is_within_1_34_ulp_and_odd),
        cmocka_unit_test(test_double_exp_is_within_1_ulp_and_ends_where_it_says),
        cmocka_unit_test(test_double_log_is_within_0_9_ulp_from_denormals_up),
        cmocka_unit_test(test_cos_is_right_to_double_precision_over_half_a_period),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
