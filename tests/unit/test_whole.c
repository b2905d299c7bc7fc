/* SPDX-License-Identifier: MIT */
/* test_whole.c -- digest, finite test and merge of whole buffers. */
#include <math.h>

#include "support/machines.h"
#include "support/naive.h"
#include "support/test.h"

static const size_t counts[] = { 0,    1,    2,    3,     15,    16,    17,     63,    64, 65,
                                 1023, 1024, 1025, 65535, 65536, 65537, 140001, 200000 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* The digest from its definition. */
static uint64_t digest_of(const float *x, size_t count)
{
    uint64_t sum = 0xa5a5a5a5a5a5a5a5u;
    for (size_t i = 0; i < count; i++) {
        uint32_t word = 0x7fc00000u;
        if (!isnan(x[i])) memcpy(&word, &x[i], sizeof word);
        sum += (2 * (uint64_t)i + 1) * word;
    }
    return sum;
}

static void test_a_digest_is_the_same_on_every_machine(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNTS; k++) {
        naive_random random = { k };
        float *x = naive_values(&random, counts[k], NAIVE_ALL);
        for (int m = 0; m < all.count; m++) {
            uint64_t out = 1;
            const ls_digest_args args = { counts[k], x, &out };
            assert_int_equal(ls_digest(&all.machine[m].stream, &args), LS_OK);
            assert_true(out == digest_of(x, counts[k]));
        }
        free(x);
    }
}

static void test_the_first_that_is_not_finite_is_found_wherever_it_is(void **state)
{
    (void)state;
    enum { N = 140001 };
    naive_random random = { 1 };
    float *x = naive_values(&random, N, NAIVE_ZEROS | NAIVE_TINY | NAIVE_HUGE);
    static const size_t places[] = { 0, 1, 15, 16, 1023, 65535, 65536, 131071, 131072, N - 1 };
    const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int m = 0; m < all.count; m++) {
        uint64_t out = 0;
        const ls_nonfinite_args args = { N, x, &out };
        assert_int_equal(ls_nonfinite(&all.machine[m].stream, &args), LS_OK);
        assert_true(out == LS_ALL_FINITE);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            const float first = x[places[i]], last = x[N - 1];
            x[N - 1] = NAN; /* a later one must not win */
            x[places[i]] = bad[i % 3];
            assert_int_equal(ls_nonfinite(&all.machine[m].stream, &args), LS_OK);
            assert_true(out == places[i]);
            x[N - 1] = last;
            x[places[i]] = first;
        }
    }
    free(x);
}

/* A random program over `sources`: any number of additions that leaves an entry each time. */
static void random_program(naive_random *random, ls_merge_args *args)
{
    int depth = 0;
    for (int s = 0; s < args->source_count; s++) {
        depth++;
        args->adds[s] = (unsigned char)(s + 1 == args->source_count
                                            ? (size_t)depth - 1
                                            : naive_below(random, (size_t)depth));
        depth -= args->adds[s];
    }
}

/* One element by the program, on a stack. */
static float folded(const ls_merge_args *args, float *const *source, size_t i)
{
    float stack[LS_MERGE_MAX];
    int top = -1;
    for (int s = 0; s < args->source_count; s++) {
        stack[++top] = source[s][i];
        for (int add = args->adds[s]; add > 0; add--) {
            const float right = stack[top--];
            stack[top] += right;
        }
    }
    return stack[top];
}

static void check_merge(size_t count, int sources, int outs, uint64_t seed, bool digests)
{
    naive_random random = { seed };
    ls_merge_args args = { .count = count, .source_count = sources, .out_count = outs };
    float *source[LS_MERGE_MAX], *work[LS_MERGE_MAX], *want = malloc(count * sizeof *want);
    uint64_t source_digest[LS_MERGE_MAX], out_digest;
    random_program(&random, &args);
    for (int s = 0; s < sources; s++) {
        source[s] = naive_values(&random, count, NAIVE_ALL);
        work[s] = malloc(count * sizeof **work);
        args.source[s] = work[s];
    }
    for (size_t i = 0; i < count; i++) want[i] = folded(&args, source, i);
    for (int o = 0; o < outs; o++) { /* the first go to sources, as an all-reduce in place does */
        args.out[o] = o < sources && o < 2 ? work[sources - 1 - o] : malloc(count * sizeof(float));
    }
    if (digests) {
        args.source_digest = source_digest;
        args.out_digest = &out_digest;
    }
    for (int m = 0; m < all.count; m++) {
        for (int s = 0; s < sources && count > 0; s++) {
            memcpy(work[s], source[s], count * sizeof(float));
        }
        assert_int_equal(ls_merge(&all.machine[m].stream, &args), LS_OK);
        for (int o = 0; o < outs; o++) {
            assert_true(naive_same("merge", all.machine[m].name, want, args.out[o], count));
        }
        for (int s = 0; digests && s < sources; s++) {
            assert_true(source_digest[s] == digest_of(source[s], count));
        }
        if (digests) assert_true(out_digest == digest_of(want, count));
    }
    for (int o = 0; o < outs; o++) {
        if (!(o < sources && o < 2)) free(args.out[o]);
    }
    for (int s = 0; s < sources; s++) {
        free(source[s]);
        free(work[s]);
    }
    free(want);
}

static void test_a_merge_follows_its_program_element_by_element(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNTS; k++) {
        check_merge(counts[k], 1, 1, k, true);
        check_merge(counts[k], 2, 1 + (int)k % 3, k, false);
        check_merge(counts[k], 2, 1 + (int)k % 3, k, true);
        check_merge(counts[k], 3, 4, k, true);
    }
    for (uint64_t seed = 0; seed < 60; seed++) {
        check_merge(1500, 1 + (int)seed, 1 + (int)seed % 5, seed, seed % 2 == 0);
    }
    check_merge(70, LS_MERGE_MAX, LS_MERGE_MAX, 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_digest_is_the_same_on_every_machine),
        cmocka_unit_test(test_the_first_that_is_not_finite_is_found_wherever_it_is),
        cmocka_unit_test(test_a_merge_follows_its_program_element_by_element),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
