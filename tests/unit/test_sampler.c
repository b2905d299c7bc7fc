/* SPDX-License-Identifier: MIT */
/* test_sampler.c -- the order of an epoch against numbers from an independent program, and the
 * arithmetic of steps.
 *
 * The golden orders were computed by twenty lines of Python that follow docs/numerics.md 7: Philox
 * on integers without bound, element by element, u = e[2i] + 2^32 e[2i+1], j = u (i+1) >> 64.
 */
#include "io/sampler.h"
#include "support/test.h"

static void test_the_order_is_the_one_that_numerics_defines(void **state)
{
    (void)state;
    static const uint32_t first[12] = { 4, 11, 1, 10, 3, 2, 5, 0, 6, 8, 9, 7 };
    static const uint32_t second[12] = { 0, 5, 7, 6, 2, 11, 4, 1, 9, 3, 8, 10 };
    static const uint32_t third[13] = { 12, 9, 8, 10, 7, 0, 5, 6, 3, 4, 11, 1, 2 };
    uint32_t order[13];
    ls_sampler_order(1, 0, true, 12, order);
    assert_memory_equal(order, first, sizeof first);
    ls_sampler_order(1, 1, true, 12, order);
    assert_memory_equal(order, second, sizeof second);
    ls_sampler_order(0x123456789abcdef0u, 7, true, 13, order);
    assert_memory_equal(order, third, sizeof third);
}

static void test_a_long_order_is_the_one_that_numerics_defines(void **state)
{
    (void)state;
    enum { COUNT = 1438 };
    uint32_t order[COUNT];
    uint64_t sum = 0; /* of place times sample */
    ls_sampler_order(42, 3, true, COUNT, order);
    for (uint64_t i = 0; i < COUNT; i++) sum += i * order[i];
    assert_int_equal(order[0], 602);
    assert_int_equal(order[COUNT - 1], 268);
    assert_int_equal(sum, 742656000);
}

static void test_every_sample_comes_exactly_once(void **state)
{
    (void)state;
    static const size_t counts[] = { 0, 1, 2, 3, 64, 1797 };
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (uint32_t epoch = 0; epoch < 5; epoch++) {
            uint32_t order[1797];
            bool seen[1797] = { false };
            ls_sampler_order(9, epoch, true, counts[c], order);
            for (size_t i = 0; i < counts[c]; i++) {
                assert_true(order[i] < counts[c]);
                assert_false(seen[order[i]]);
                seen[order[i]] = true;
            }
        }
    }
}

static void test_without_shuffle_the_order_is_the_identity(void **state)
{
    (void)state;
    uint32_t order[100];
    ls_sampler_order(1, 0, false, 100, order);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(order[i], i);
}

static void test_steps_cover_the_samples_and_the_last_may_be_short(void **state)
{
    (void)state;
    for (size_t count = 1; count < 60; count++) {
        for (size_t batch = 1; batch < 70; batch++) {
            const size_t steps = ls_sampler_step_count(count, batch, false);
            size_t sum = 0;
            for (size_t s = 0; s < steps; s++) {
                const size_t samples = ls_sampler_step_samples(count, batch, s);
                assert_true(samples >= 1 && samples <= batch);
                assert_true(samples == batch || s + 1 == steps);
                sum += samples;
            }
            assert_int_equal(sum, count);
            const size_t whole = ls_sampler_step_count(count, batch, true);
            assert_int_equal(whole, count / batch);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_is_the_one_that_numerics_defines),
        cmocka_unit_test(test_a_long_order_is_the_one_that_numerics_defines),
        cmocka_unit_test(test_every_sample_comes_exactly_once),
        cmocka_unit_test(test_without_shuffle_the_order_is_the_identity),
        cmocka_unit_test(test_steps_cover_the_samples_and_the_last_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
