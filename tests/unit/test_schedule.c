/* SPDX-License-Identifier: MIT */
/* test_schedule.c -- learning rates against the formulas, and their exact values at the ends. */
#include "support/test.h"

#include <math.h>

#include "train/config.h"

static const double pi = 3.14159265358979323846;

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 4e-15 * fabs(want) + 1e-18)) fail_msg("%.17g, not %.17g", got, want);
}

static void test_a_constant_rate_is_the_rate(void **state)
{
    (void)state;
    const ls_schedule s = { .kind = LS_SCHEDULE_CONSTANT };
    assert_true(ls_schedule_rate(&s, 0.1, 0) == 0.1);
    assert_true(ls_schedule_rate(&s, 0.1, UINT64_MAX) == 0.1);
}

static void test_steps_multiply_by_the_factor_every_so_often(void **state)
{
    (void)state;
    const ls_schedule s = { .kind = LS_SCHEDULE_STEP, .every = 10, .factor = 0.3 };
    double want = 0.1; /* the product from left to right: equal bits, not nearly equal */
    for (uint64_t step = 0; step < 1000; step++) {
        if (step > 0 && step % 10 == 0) want *= 0.3;
        assert_true(ls_schedule_rate(&s, 0.1, step) == want);
    }
}

static void test_very_many_drops_take_no_time(void **state)
{
    (void)state;
    const ls_schedule half = { .kind = LS_SCHEDULE_STEP, .every = 1, .factor = 0.5 };
    const ls_schedule one = { .kind = LS_SCHEDULE_STEP, .every = 1, .factor = 1 };
    assert_true(ls_schedule_rate(&half, 0.1, UINT64_MAX) < 1e-300);
    assert_true(ls_schedule_rate(&one, 0.1, UINT64_MAX) == 0.1);
}

static void test_a_cosine_falls_from_the_rate_to_the_final_fraction(void **state)
{
    (void)state;
    const ls_schedule s = { .kind = LS_SCHEDULE_COSINE, .steps = 1000, .final = 0.1 };
    double last = 1;
    for (uint64_t step = 0; step <= 1000; step++) {
        const double rate = ls_schedule_rate(&s, 0.5, step);
        const double part = (double)step / 1000;
        assert_near(rate, 0.5 * (0.1 + 0.9 * 0.5 * (1 + cos(pi * part))));
        assert_true(rate < last);
        last = rate;
    }
    assert_true(ls_schedule_rate(&s, 0.5, 0) == 0.5);
    assert_near(ls_schedule_rate(&s, 0.5, 500), 0.275);
    assert_near(ls_schedule_rate(&s, 0.5, 1000), 0.05);
    assert_true(ls_schedule_rate(&s, 0.5, 5000) == ls_schedule_rate(&s, 0.5, 1000));
}

static void test_a_cosine_to_zero_never_goes_below_it(void **state)
{
    (void)state;
    const ls_schedule s = { .kind = LS_SCHEDULE_COSINE, .steps = 7 };
    for (uint64_t step = 0; step < 20; step++) assert_true(ls_schedule_rate(&s, 1, step) >= 0);
    assert_true(ls_schedule_rate(&s, 1, 7) < 1e-15);
}

static void test_warm_up_rises_to_the_rate_and_the_schedule_starts_after_it(void **state)
{
    (void)state;
    ls_schedule s = { .kind = LS_SCHEDULE_STEP, .every = 2, .factor = 0.5, .warmup = 4 };
    static const double want[] = { 0.2, 0.4, 0.6000000000000001, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2 };
    for (uint64_t step = 0; step < sizeof want / sizeof want[0]; step++) {
        assert_near(ls_schedule_rate(&s, 0.8, step), want[step]);
    }
    assert_true(ls_schedule_rate(&s, 0.8, 3) == 0.8);
    s = (ls_schedule){ .kind = LS_SCHEDULE_COSINE, .steps = 10, .warmup = 5 };
    assert_true(ls_schedule_rate(&s, 0.8, 5) == 0.8);
    assert_near(ls_schedule_rate(&s, 0.8, 10), 0.4);
}

static void test_a_cosine_without_a_length_lasts_to_the_end_of_the_run(void **state)
{
    (void)state;
    ls_schedule s = { .kind = LS_SCHEDULE_COSINE, .warmup = 20 };
    ls_schedule_fill(&s, 100);
    assert_true(s.steps == 80);
    ls_schedule_fill(&s, 500); /* fixed at start */
    assert_true(s.steps == 80);
    s.steps = 0;
    ls_schedule_fill(&s, 10); /* all of the run is warm-up */
    assert_true(s.steps == 1);
    s = (ls_schedule){ .kind = LS_SCHEDULE_CONSTANT };
    ls_schedule_fill(&s, 100);
    assert_true(s.steps == 0);
}

static void test_an_exponential_falls_by_its_rate_every_so_many_updates(void **state)
{
    (void)state;
    ls_schedule s = { .kind = LS_SCHEDULE_EXPONENTIAL, .steps = 10, .factor = 0.3 };
    double whole = 0.1; /* at multiples: the product from left to right, equal bits */
    for (uint64_t step = 0; step < 200; step++) {
        if (step > 0 && step % 10 == 0) whole *= 0.3;
        s.staircase = false;
        const double rate = ls_schedule_rate(&s, 0.1, step);
        if (step % 10 == 0) assert_true(rate == whole);
        assert_near(rate, 0.1 * pow(0.3, (double)step / 10));
        s.staircase = true;
        assert_true(ls_schedule_rate(&s, 0.1, step) == whole);
    }
    s = (ls_schedule){ .kind = LS_SCHEDULE_EXPONENTIAL, .steps = 4, .factor = 2 }; /* or rises */
    assert_near(ls_schedule_rate(&s, 0.1, 2), 0.1 * sqrt(2));
    assert_true(ls_schedule_rate(&s, 0.1, 8) == 0.4);
    s.factor = 0.5;
    assert_true(ls_schedule_rate(&s, 0.1, UINT64_MAX) < 1e-300);
}

static void test_a_polynomial_falls_to_its_end_and_stays_there(void **state)
{
    (void)state;
    static const double powers[] = { 1, 2, 3, 0.5, 1.7 };
    for (size_t k = 0; k < sizeof powers / sizeof powers[0]; k++) {
        const ls_schedule s = { .kind = LS_SCHEDULE_POLYNOMIAL, .steps = 50, .final = 0.01,
                                .power = powers[k] };
        for (uint64_t step = 0; step <= 50; step++) {
            const double part = (double)step / 50;
            assert_near(ls_schedule_rate(&s, 0.2, step),
                        0.01 + (0.2 - 0.01) * pow(1 - part, powers[k]));
        }
        assert_near(ls_schedule_rate(&s, 0.2, 0), 0.2);
        assert_true(ls_schedule_rate(&s, 0.2, 50) == 0.01);
        assert_true(ls_schedule_rate(&s, 0.2, UINT64_MAX) == 0.01);
    }
}

static void test_a_table_says_the_rate_and_past_its_end_the_last_one(void **state)
{
    (void)state;
    ls_schedule s = { .kind = LS_SCHEDULE_TABLE, .entry_count = 3,
                      .entry = { { 0, 0.1 }, { 4, 0.2 }, { 5, 0 } } };
    static const double want[] = { 0.1, 0.1, 0.1, 0.1, 0.2, 0, 0 };
    for (uint64_t step = 0; step < 7; step++)
        assert_true(ls_schedule_rate(&s, 9, step) == want[step]); /* whatever lr is */
    assert_true(ls_schedule_rate(&s, 9, UINT64_MAX) == 0);
    s.warmup = 2;
    assert_true(ls_schedule_rate(&s, 9, 0) == 0.05 && ls_schedule_rate(&s, 9, 1) == 0.1);
    assert_true(ls_schedule_rate(&s, 9, 5) == 0.1 && ls_schedule_rate(&s, 9, 6) == 0.2);
}

static void test_schedules_are_told_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *option, *words;
    } told[] = {
        { "constant", "constant" },
        { "step:10,0.5", "times 0.5 every 10 updates" },
        { "cosine:10,0.1", "cosine over 10 updates to 0.1 of lr" },
        { "exponential:10,0.9", "times 0.9 over each 10 updates" },
        { "exponential:10,0.9,staircase", "times 0.9 every 10 updates" },
        { "polynomial:10,0.01,2", "polynomial of power 2 over 10 updates to 0.01" },
        { "table:0=0.1,7=0.2", "a table of 2 rates, 0.1 at first and 0.2 from update 8 on" },
    };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        ls_config c;
        char text[128];
        ls_config_init(&c);
        assert_int_equal(ls_config_set(&c, "schedule", told[i].option), LS_OK);
        ls_schedule_describe(&c.schedule, text, sizeof text);
        assert_string_equal(text, told[i].words);
    }
}

/* Hexadecimal floats: the same on every machine and compiler, or this fails. */
static void test_the_bits_of_a_cosine_are_these(void **state)
{
    (void)state;
    const ls_schedule s = { .kind = LS_SCHEDULE_COSINE, .steps = 300, .final = 0.01 };
    assert_true(ls_schedule_rate(&s, 0.001, 1) == 0x1.06230ae700863p-10);
    assert_true(ls_schedule_rate(&s, 0.001, 100) == 0x1.8a86d71f36262p-11);
    assert_true(ls_schedule_rate(&s, 0.001, 299) == 0x1.50747c9b4351bp-17);
}

static void test_the_bits_of_powers_are_these(void **state)
{
    (void)state;
    const ls_schedule e = { .kind = LS_SCHEDULE_EXPONENTIAL, .steps = 30, .factor = 0.96 };
    const ls_schedule p = { .kind = LS_SCHEDULE_POLYNOMIAL, .steps = 300, .power = 0.9 };
    assert_true(ls_schedule_rate(&e, 0.001, 1) == 0x1.05c99bdd45913p-10);
    assert_true(ls_schedule_rate(&e, 0.001, 299) == 0x1.5d09d476a7b35p-11);
    assert_true(ls_schedule_rate(&p, 0.001, 1) == 0x1.055b80f9dae2ep-10);
    assert_true(ls_schedule_rate(&p, 0.001, 299) == 0x1.8bb44c4f8ad62p-18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_constant_rate_is_the_rate),
        cmocka_unit_test(test_steps_multiply_by_the_factor_every_so_often),
        cmocka_unit_test(test_very_many_drops_take_no_time),
        cmocka_unit_test(test_a_cosine_falls_from_the_rate_to_the_final_fraction),
        cmocka_unit_test(test_a_cosine_to_zero_never_goes_below_it),
        cmocka_unit_test(test_warm_up_rises_to_the_rate_and_the_schedule_starts_after_it),
        cmocka_unit_test(test_a_cosine_without_a_length_lasts_to_the_end_of_the_run),
        cmocka_unit_test(test_the_bits_of_a_cosine_are_these),
        cmocka_unit_test(test_an_exponential_falls_by_its_rate_every_so_many_updates),
        cmocka_unit_test(test_a_polynomial_falls_to_its_end_and_stays_there),
        cmocka_unit_test(test_a_table_says_the_rate_and_past_its_end_the_last_one),
        cmocka_unit_test(test_schedules_are_told_in_words),
        cmocka_unit_test(test_the_bits_of_powers_are_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
