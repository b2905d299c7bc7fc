/* SPDX-License-Identifier: MIT */
/* test_bucket.c -- where the gradient arena is cut. */
#include "support/test.h"

#include "collectives/bucket.h"

static void test_no_tensors_give_no_buckets(void **state)
{
    (void)state;
    ls_bucket bucket[1];
    assert_int_equal(ls_bucket_plan(NULL, 0, 1024, bucket), 0);
}

static void test_the_example_is_cut_as_it_says(void **state)
{
    (void)state;
    static const size_t end[] = { 64, 160, 192, 224 };
    ls_bucket bucket[4];
    assert_int_equal(ls_bucket_plan(end, 4, 400, bucket), 2);
    assert_int_equal(bucket[0].begin, 0);
    assert_int_equal(bucket[0].count, 160);
    assert_int_equal(bucket[0].last_tensor, 1);
    assert_int_equal(bucket[1].begin, 160);
    assert_int_equal(bucket[1].count, 64);
    assert_int_equal(bucket[1].last_tensor, 3);
}

static void test_a_bucket_larger_than_the_arena_takes_all(void **state)
{
    (void)state;
    static const size_t end[] = { 64, 160, 192 };
    ls_bucket bucket[3];
    assert_int_equal(ls_bucket_plan(end, 3, (size_t)4 << 20, bucket), 1);
    assert_int_equal(bucket[0].count, 192);
    assert_int_equal(bucket[0].last_tensor, 2);
}

static void test_a_small_size_gives_every_tensor_its_bucket(void **state)
{
    (void)state;
    static const size_t end[] = { 64, 160, 192 };
    ls_bucket bucket[3];
    for (size_t bytes = 0; bytes <= 128; bytes += 64) {
        assert_int_equal(ls_bucket_plan(end, 3, bytes, bucket), 3);
        for (int i = 0; i < 3; i++) assert_int_equal(bucket[i].last_tensor, i);
    }
}

static void test_buckets_cover_the_arena_and_all_but_the_last_are_full(void **state)
{
    (void)state;
    enum { TENSORS = 40 };
    for (unsigned seed = 1; seed <= 200; seed++) {
        size_t end[TENSORS], at = 0;
        unsigned x = seed;
        for (int t = 0; t < TENSORS; t++) {
            x = x * 1664525u + 1013904223u;
            end[t] = at += (size_t)(1 + (x >> 20)) * 32;
        }
        const size_t bucket_bytes = (size_t)seed * 4096;
        ls_bucket bucket[TENSORS];
        const int count = ls_bucket_plan(end, TENSORS, bucket_bytes, bucket);
        size_t begin = 0;
        for (int i = 0; i < count; i++) {
            assert_int_equal(bucket[i].begin, begin);
            begin += bucket[i].count;
            assert_int_equal(begin, end[bucket[i].last_tensor]);
            if (i + 1 == count) continue;
            assert_true(bucket[i].count * sizeof(float) >= bucket_bytes);
            /* Without its last tensor it would not have been full. */
            const int last = bucket[i].last_tensor;
            const size_t before = last > 0 ? end[last - 1] : 0;
            assert_true(before <= bucket[i].begin ||
                        (before - bucket[i].begin) * sizeof(float) < bucket_bytes);
        }
        assert_int_equal(begin, at);
        assert_int_equal(bucket[count - 1].last_tensor, TENSORS - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_tensors_give_no_buckets),
        cmocka_unit_test(test_the_example_is_cut_as_it_says),
        cmocka_unit_test(test_a_bucket_larger_than_the_arena_takes_all),
        cmocka_unit_test(test_a_small_size_gives_every_tensor_its_bucket),
        cmocka_unit_test(test_buckets_cover_the_arena_and_all_but_the_last_are_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
