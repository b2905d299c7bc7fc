/* SPDX-License-Identifier: MIT */
/* test_dropout.c -- what is kept depends on the element's address alone. */

#include "philox.h"
#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

/* The known answers that Salmon, Moraes, Dror and Shaw publish with Random123. */
static void test_philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const uint32_t known[3][10] = {
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
          0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
          0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        ls_philox(known[i], known[i] + 4, out);
        assert_memory_equal(out, known[i] + 6, sizeof out);
    }
}

/* Counter and key spelled out, as docs/numerics.md 7 does. */
static bool is_kept(const ls_dropout_args *args, size_t n, size_t e)
{
    if (args->channels > 0) e %= args->channels;
    const uint32_t counter[4] = { (uint32_t)(e / 4), args->index[n], args->epoch,
                                  3u << 16 | args->layer };
    const uint32_t key[2] = { (uint32_t)(args->seed & 0xffffffffu), (uint32_t)(args->seed >> 32) };
    uint32_t word[4];
    ls_philox(counter, key, word);
    return word[e % 4] >= args->threshold;
}

static void check(ls_dropout_args args, uint64_t seed, int mix)
{
    naive_random random = { seed };
    const size_t count = args.samples * args.elements;
    float *x = naive_values(&random, count, mix), *y = malloc(count * sizeof *y);
    float *want = malloc(count * sizeof *want);
    uint32_t *index = malloc(args.samples * sizeof *index);
    for (size_t n = 0; n < args.samples; n++) index[n] = (uint32_t)naive_next(&random);
    args.index = index;
    for (size_t i = 0; i < count; i++) {
        want[i] = is_kept(&args, i / args.elements, i % args.elements) ? x[i] * args.scale : 0.0f;
    }
    for (int m = 0; m < all.count; m++) {
        args.x = x;
        args.y = y;
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("dropout", all.machine[m].name, want, y, count));
        if (count > 0) memcpy(y, x, count * sizeof *y);
        args.x = y;
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("dropout in place", all.machine[m].name, want, y, count));
    }
    free(x);
    free(y);
    free(want);
    free(index);
}

static void test_an_element_is_kept_by_its_philox_word(void **state)
{
    (void)state;
    static const size_t elements[] = { 1, 2, 3, 4, 5, 255, 256, 257, 1000, 9000 };
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        const ls_dropout_args args = { .samples = 7, .elements = elements[i],
                                       .seed = 0x0123456789abcdefu + i, .epoch = 3,
                                       .layer = 0xffff, .threshold = 0x40000000u,
                                       .scale = 1.0f / 0.75f };
        check(args, i, NAIVE_ALL);
    }
    check((ls_dropout_args){ .samples = 0, .elements = 9, .scale = 1.0f }, 1, 0);
    check((ls_dropout_args){ .samples = 3, .elements = 0, .scale = 1.0f }, 1, 0);
}

static void test_a_channel_is_kept_by_the_word_of_its_number(void **state)
{
    (void)state;
    static const size_t channels[] = { 1, 2, 3, 4, 5, 7, 8, 255, 256, 257, 1000 };
    static const size_t places[] = { 0, 1, 2, 25 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
            const ls_dropout_args args = { .samples = 3, .elements = channels[i] * places[k],
                                           .channels = channels[i], .seed = i + 17, .epoch = 2,
                                           .layer = 9, .threshold = 0x80000000u, .scale = 2.0f };
            check(args, i, NAIVE_ALL);
        }
    }
}

/* 5 samples of 3 x 4 places of 6 channels. A batch cut in two, as two ranks have it, is dropped as
 * the whole. */
static void test_whole_channels_go_at_every_place_whoever_has_the_sample(void **state)
{
    (void)state;
    enum { N = 5, PLACES = 12, C = 6, E = PLACES * C };
    float x[N * E], y[N * E], part[N * E];
    const uint32_t index[N] = { 7, 1000, 3, 12, 70000 };
    for (size_t i = 0; i < N * E; i++) x[i] = 1.0f + (float)i;
    ls_dropout_args args = { .samples = N, .elements = E, .channels = C, .index = index,
                             .seed = 4, .epoch = 1, .layer = 2, .threshold = 0x80000000u,
                             .scale = 2.0f, .x = x, .y = y };
    for (int m = 0; m < all.count; m++) {
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        int kept = 0;
        for (size_t i = 0; i < N * E; i++) {
            const bool first = y[i / E * E + i % C] != 0.0f; /* what the first place shows */
            assert_true(y[i] == (first ? 2.0f * x[i] : 0.0f));
            kept += first;
        }
        assert_in_range(kept, 1, N * E - 1);
        for (size_t cut = 0; cut <= N; cut++) {
            ls_dropout_args half = args;
            half.y = part;
            half.samples = cut;
            assert_int_equal(ls_dropout(&all.machine[m].stream, &half), LS_OK);
            half.samples = N - cut;
            half.index += cut;
            half.x += cut * E;
            half.y += cut * E;
            assert_int_equal(ls_dropout(&all.machine[m].stream, &half), LS_OK);
            assert_memory_equal(y, part, sizeof y);
        }
    }
}

static void test_a_word_equal_to_the_threshold_is_kept(void **state)
{
    (void)state;
    const float x[1] = { 2.0f };
    const uint32_t index[1] = { 77 };
    uint32_t word[4];
    ls_random_words(9, LS_RANDOM_DROPOUT, 2, 1, index[0], 0, word);
    for (int m = 0; m < all.count; m++) {
        float y[1];
        ls_dropout_args args = { .samples = 1, .elements = 1, .index = index, .seed = 9,
                                 .epoch = 1, .layer = 2, .threshold = word[0], .scale = 1.5f,
                                 .x = x, .y = y };
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        assert_true(y[0] == 3.0f);
        args.threshold++;
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        assert_true(y[0] == 0.0f);
    }
}

static void test_rate_zero_keeps_everything(void **state)
{
    (void)state;
    naive_random random = { 5 };
    float *x = naive_values(&random, 600, NAIVE_ZEROS), y[600];
    const uint32_t index[2] = { 1, 2 };
    for (int m = 0; m < all.count; m++) {
        const ls_dropout_args args = { .samples = 2, .elements = 300, .index = index, .seed = 1,
                                       .scale = 1.0f, .x = x, .y = y };
        assert_int_equal(ls_dropout(&all.machine[m].stream, &args), LS_OK);
        assert_true(naive_same("dropout", all.machine[m].name, x, y, 600));
    }
    free(x);
}

/* 40,000 draws at rate 0.3: 12,000 dropped, standard deviation 92. */
static void test_the_dropped_share_is_the_rate(void **state)
{
    (void)state;
    enum { N = 40, E = 1000 };
    float *x = malloc(N * E * sizeof *x), *y = malloc(N * E * sizeof *y);
    uint32_t index[N];
    for (uint32_t n = 0; n < N; n++) index[n] = n;
    for (size_t i = 0; i < N * E; i++) x[i] = 1.0f;
    const ls_dropout_args args = { .samples = N, .elements = E, .index = index, .seed = 42,
                                   .threshold = (uint32_t)(0.3 * 4294967296.0), .scale = 2.0f,
                                   .x = x, .y = y };
    assert_int_equal(ls_dropout(&all.machine[1].stream, &args), LS_OK);
    int dropped = 0;
    for (size_t i = 0; i < N * E; i++) dropped += y[i] == 0.0f;
    assert_in_range(dropped, 12000 - 5 * 92, 12000 + 5 * 92);
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_known_answers),
        cmocka_unit_test(test_an_element_is_kept_by_its_philox_word),
        cmocka_unit_test(test_a_channel_is_kept_by_the_word_of_its_number),
        cmocka_unit_test(test_whole_channels_go_at_every_place_whoever_has_the_sample),
        cmocka_unit_test(test_a_word_equal_to_the_threshold_is_kept),
        cmocka_unit_test(test_rate_zero_keeps_everything),
        cmocka_unit_test(test_the_dropped_share_is_the_rate),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
