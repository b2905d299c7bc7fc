/* SPDX-License-Identifier: MIT */
/* test_sample_cache.c -- what is kept is found as it was, what does not fit is not, and threads
 * that keep the same samples at once find one whole copy. */
#include "io/sample_cache.h"

#include <pthread.h>

#include "support/test.h"

enum { COUNT = 40, BYTES = 24 };

static void make_sample(size_t index, unsigned char x[BYTES])
{
    for (size_t i = 0; i < BYTES; i++) x[i] = (unsigned char)(index * 31 + i);
}

static bool holds(const ls_sample_cache *cache, size_t index)
{
    unsigned char want[BYTES];
    make_sample(index, want);
    const void *found = ls_sample_cache_find(cache, index);
    if (found && memcmp(found, want, BYTES) != 0) fail_msg("sample %zu is another", index);
    return found != NULL;
}

static void keep(ls_sample_cache *cache, size_t index)
{
    unsigned char x[BYTES];
    make_sample(index, x);
    ls_sample_cache_keep(cache, index, x);
}

static void test_only_what_was_kept_and_fits_is_found(void **state)
{
    (void)state;
    for (size_t fit = 0; fit <= COUNT + 1; fit++) {
        ls_sample_cache *cache = NULL;
        const size_t there = fit < COUNT ? fit : COUNT;
        assert_int_equal(ls_sample_cache_create(COUNT, BYTES, fit * BYTES + BYTES - 1, &cache),
                         LS_OK);
        for (size_t n = 0; n < COUNT; n++) assert_false(holds(cache, n));
        for (size_t n = 0; n < COUNT; n += 2) keep(cache, n);
        for (size_t n = 0; n < COUNT; n++) {
            assert_int_equal(holds(cache, n), n < there && n % 2 == 0);
        }
        ls_sample_cache_destroy(cache);
    }
}

static void test_the_first_copy_stays(void **state)
{
    (void)state;
    const unsigned char other[BYTES] = { 0 };
    ls_sample_cache *cache = NULL;
    assert_int_equal(ls_sample_cache_create(COUNT, BYTES, COUNT * BYTES, &cache), LS_OK);
    keep(cache, 7);
    const void *first = ls_sample_cache_find(cache, 7);
    ls_sample_cache_keep(cache, 7, other);
    assert_ptr_equal(ls_sample_cache_find(cache, 7), first);
    assert_true(holds(cache, 7));
    ls_sample_cache_destroy(cache);
}

static void test_without_a_cache_nothing_is_found_or_kept(void **state)
{
    (void)state;
    keep(NULL, 3);
    assert_null(ls_sample_cache_find(NULL, 3));
    ls_sample_cache_destroy(NULL);
}

/* Rounds in which every thread reads all samples: kept ones must be whole. Threads assert nothing;
 * they count. */
typedef struct {
    ls_sample_cache *cache;
    size_t first, found, wrong;
} visitor;

static void *visit(void *argument)
{
    visitor *v = argument;
    for (size_t round = 0; round < 200; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            const size_t index = (v->first + i) % COUNT;
            unsigned char x[BYTES];
            make_sample(index, x);
            const void *kept = ls_sample_cache_find(v->cache, index);
            if (kept) v->wrong += memcmp(kept, x, BYTES) != 0;
            else ls_sample_cache_keep(v->cache, index, x);
            v->found += kept != NULL;
        }
    }
    return NULL;
}

static void test_threads_that_meet_find_whole_samples(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    visitor v[THREADS];
    pthread_t thread[THREADS];
    ls_sample_cache *cache = NULL;
    assert_int_equal(ls_sample_cache_create(COUNT, BYTES, COUNT * BYTES, &cache), LS_OK);
    for (size_t t = 0; t < THREADS; t++) {
        v[t] = (visitor){ .cache = cache, .first = t / 2 * 11 };
        assert_int_equal(pthread_create(&thread[t], NULL, visit, &v[t]), 0);
    }
    for (size_t t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(thread[t], NULL), 0);
        assert_int_equal(v[t].wrong, 0);
        assert_true(v[t].found > 0);
    }
    for (size_t n = 0; n < COUNT; n++) assert_true(holds(cache, n));
    ls_sample_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_was_kept_and_fits_is_found),
        cmocka_unit_test(test_the_first_copy_stays),
        cmocka_unit_test(test_without_a_cache_nothing_is_found_or_kept),
        cmocka_unit_test(test_threads_that_meet_find_whole_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
