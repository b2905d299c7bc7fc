/* SPDX-License-Identifier: MIT */
/* test_all_reduce.c -- all-reduces on host devices give the tree's bits, however often.
 *
 * The large sweep is long_all_reduce.c.
 */
#include "support/test.h"

#include <string.h>

#include "collectives/comm.h"
#include "support/ranks.h"
#include "support/reduction.h"

static void assert_run(const reduction_settings *settings, size_t count, size_t offset)
{
    reduction r;
    ls_status status = reduction_open(&r, settings);
    if (status == LS_OK) {
        r.count = count;
        r.offset = offset;
        r.seed = count * 31 + (uint64_t)settings->world_size;
        status = reduction_run_once(&r);
    }
    if (status != LS_OK) {
        fail_msg("V %d, N %d, algorithm %d, order %d, pairs %d, %zu floats: %s",
                 settings->shard_count, settings->world_size, (int)settings->algorithm,
                 (int)settings->order, (int)settings->pairs, count, ls_last_error());
    }
    reduction_close(&r);
}

/* -- the bits --------------------------------------------------------------------------------- */

static void test_every_algorithm_and_pair_kind_gives_the_tree(void **state)
{
    (void)state;
    static const int shards[] = { 1, 3, 8 };
    for (size_t v = 0; v < 3; v++) {
        for (int n = 1; n <= shards[v] && n <= 5; n++) {
            for (int a = LS_ALGORITHM_AUTO; a <= LS_ALGORITHM_ROOT; a++) {
                for (int pairs = PAIRS_PEER; pairs <= PAIRS_LOCAL; pairs++) {
                    const reduction_settings settings = { .world_size = n,
                                                          .shard_count = shards[v],
                                                          .algorithm = (ls_algorithm)a,
                                                          .pairs = (pair_pattern)pairs,
                                                          .turn_ring = pairs % 2,
                                                          .in_place = n % 2,
                                                          .slice_floats = 64, .count_max = 999 };
                    assert_run(&settings, 999, 32);
                }
            }
        }
    }
}

/* Out of place also asserts that the pieces are unchanged. */
static void test_odd_sizes_come_out_right_in_and_out_of_place(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        const size_t m = (size_t)n, count[] = { 0, 1, m - 1, m, m + 1, 127, 128, 129 };
        for (size_t i = 0; i < 4 * sizeof count / sizeof count[0]; i++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                                  .algorithm = LS_ALGORITHM_RING,
                                                  .in_place = i % 2, .count_max = 129 };
            assert_run(&settings, count[i / 4], i % 4 / 2);
        }
    }
}

static void test_slices_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t slices[] = { 32, 96, 1024, 0 };
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        for (int a = LS_ALGORITHM_RING; a <= LS_ALGORITHM_ROOT; a++) {
            const reduction_settings settings = { .world_size = 3, .shard_count = 8,
                                                  .algorithm = (ls_algorithm)a,
                                                  .pairs = PAIRS_MIXED,
                                                  .slice_floats = slices[i], .count_max = 10000 };
            assert_run(&settings, 10000, 0);
        }
    }
}

static void test_the_fast_order_is_the_rings_own(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        for (int turn = 0; turn < 2; turn++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 7,
                                                  .order = LS_ORDER_FAST, .turn_ring = turn,
                                                  .pairs = PAIRS_MIXED, .slice_floats = 96,
                                                  .count_max = 1000 };
            assert_run(&settings, 1000, 0);
        }
    }
}

/* 1e8, 1, -1e8, 1: 1 from left to right, 0 as (a+b)+(c+d), 2 as (a+c)+(b+d). */
static ls_status sum_of_four(int rank, void *arg)
{
    static const float shard[4] = { 1e8f, 1.0f, -1e8f, 1.0f };
    reduction *r = arg;
    reduction_rank *mine = &r->rank[rank];
    mine->piece[0] = mine->result = mine->memory[0];
    mine->piece[0][0] = shard[rank];
    LS_TRY(reduction_submit(r, rank, 0, 1, 1));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    if (mine->result[0] == r->want[0]) return LS_OK;
    return ls_fail(LS_ERR_VERIFY, "%g instead of %g", (double)mine->result[0],
                   (double)r->want[0]);
}

static void test_the_order_of_addition_shows_in_the_sum(void **state)
{
    (void)state;
    static const float want[2] = { 0.0f, 1.0f }; /* the tree; the ring from rank 0 */
    for (int order = LS_ORDER_EXACT; order <= LS_ORDER_FAST; order++) {
        const reduction_settings settings = { .world_size = 4, .shard_count = 4,
                                              .order = (ls_order)order, .count_max = 1 };
        reduction r;
        assert_int_equal(reduction_open(&r, &settings), LS_OK);
        r.want[0] = want[order];
        /* One element lies in the last chunk, which starts its way at rank 0. */
        if (run_ranks_in(r.group, sum_of_four, &r, NULL) != LS_OK) fail_msg("%s", ls_last_error());
        reduction_close(&r);
    }
}

/* -- many calls ------------------------------------------------------------------------------- */

/* 40 calls between two checks, in slices of 32: more contributions than the ledger holds. */
static ls_status reduce_often(reduction *r, int rank, reduction_rank *mine)
{
    for (int call = 0; call < 40; call++) {
        for (int p = 0; p < mine->piece_count; p++) {
            mine->piece[p] = mine->memory[p];
            for (size_t i = 0; i < r->count; i++) mine->piece[p][i] = (float)(rank + call);
        }
        mine->result = mine->memory[mine->piece_count];
        LS_TRY(reduction_submit(r, rank, call, r->count, mine->piece_count));
        LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    }
    return ls_comm_verify(r->comm, rank);
}

static void test_a_step_may_have_more_contributions_than_the_ledger(void **state)
{
    (void)state;
    const reduction_settings settings = { .world_size = 3, .shard_count = 8, .slice_floats = 32,
                                          .pairs = PAIRS_MIXED, .count_max = 20000,
                                          .calls_max = 40 };
    reduction r;
    if (reduction_run_body(&r, &settings, 20000, reduce_often) != LS_OK) {
        fail_msg("%s", ls_last_error());
    }
    reduction_close(&r);
}

static void test_a_full_ledger_is_compared_before_it_starts_again(void **state)
{
    (void)state;
    fault f = { .kind = FAULT_FLIP, .n = 2, .flip_bit = 77,
                .directions = 1u << LS_COPY_PEER }; /* rank 1's second copy to rank 2 */
    const reduction_settings settings = { .world_size = 3, .shard_count = 8, .slice_floats = 32,
                                          .count_max = 20000, .calls_max = 40, .fault = &f,
                                          .fault_rank = 1 };
    reduction r;
    assert_int_equal(reduction_run_body(&r, &settings, 20000, reduce_often), LS_ERR_DIVERGED);
    assert_non_null(strstr(ls_last_error(), "bucket 0, ring step 0 (shards "));
    assert_non_null(strstr(ls_last_error(), "link 1 -> 2"));
    reduction_close(&r);
}

static void test_more_calls_than_announced_are_refused(void **state)
{
    (void)state;
    const reduction_settings settings = { .world_size = 2, .shard_count = 2, .count_max = 100,
                                          .calls_max = 39 };
    reduction r;
    assert_int_equal(reduction_run_body(&r, &settings, 100, reduce_often), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "at most 39"));
    reduction_close(&r);
}

/* -- settings --------------------------------------------------------------------------------- */

static void assert_not_created(const reduction_settings *settings, const char *text)
{
    reduction r;
    assert_int_equal(reduction_open(&r, settings), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), text));
}

static void test_settings_that_cannot_work_are_refused(void **state)
{
    (void)state;
    assert_not_created(&(reduction_settings){ .world_size = 4, .shard_count = 3 }, "--shards 4");
    assert_not_created(&(reduction_settings){ .world_size = 2, .shard_count = 8,
                                              .slice_floats = 33 }, "multiple of 32");
    assert_not_created(&(reduction_settings){ .world_size = 2, .shard_count = 8,
                                              .order = LS_ORDER_FAST,
                                              .algorithm = LS_ALGORITHM_TREE }, "--order fast");
}

static void assert_choice(reduction_settings settings, ls_algorithm algorithm, const char *reason)
{
    reduction r;
    settings.shard_count = 8;
    assert_int_equal(reduction_open(&r, &settings), LS_OK);
    assert_int_equal(ls_comm_algorithm(r.comm), algorithm);
    assert_string_equal(ls_comm_reason(r.comm), reason);
    reduction_close(&r);
}

static void test_the_choice_of_algorithm_says_why(void **state)
{
    (void)state;
    assert_choice((reduction_settings){ .world_size = 1 }, LS_ALGORITHM_RING,
                  "ring: one rank, nothing to exchange");
    assert_choice((reduction_settings){ .world_size = 4 }, LS_ALGORITHM_RING,
                  "ring: host devices");
    assert_choice((reduction_settings){ .world_size = 2, .order = LS_ORDER_FAST },
                  LS_ALGORITHM_RING, "ring: order fast");
    assert_choice((reduction_settings){ .world_size = 3, .algorithm = LS_ALGORITHM_ROOT },
                  LS_ALGORITHM_ROOT, "root: asked for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm_and_pair_kind_gives_the_tree),
        cmocka_unit_test(test_odd_sizes_come_out_right_in_and_out_of_place),
        cmocka_unit_test(test_slices_of_any_size_give_the_same_bits),
        cmocka_unit_test(test_the_fast_order_is_the_rings_own),
        cmocka_unit_test(test_the_order_of_addition_shows_in_the_sum),
        cmocka_unit_test(test_a_step_may_have_more_contributions_than_the_ledger),
        cmocka_unit_test(test_a_full_ledger_is_compared_before_it_starts_again),
        cmocka_unit_test(test_more_calls_than_announced_are_refused),
        cmocka_unit_test(test_settings_that_cannot_work_are_refused),
        cmocka_unit_test(test_the_choice_of_algorithm_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
