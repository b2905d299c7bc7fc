/* SPDX-License-Identifier: MIT */
/* test_rendezvous.c -- ranks that call different collectives are refused, naming both sides.
 */
#include "support/test.h"

#include <string.h>

#include "collectives/comm.h"
#include "support/reduction.h"

static ls_status reduce_bucket(reduction *r, int rank, reduction_rank *mine, int bucket,
                               size_t count, int piece_count)
{
    for (int p = 0; p < mine->piece_count; p++) mine->piece[p] = mine->memory[p];
    mine->result = mine->memory[0];
    memset(mine->result, 0, r->count * sizeof(float));
    const ls_status status = reduction_submit(r, rank, bucket, count, piece_count);
    for (size_t i = 0; i < r->count; i++) {
        if (mine->result[i] != 0) return ls_fail(LS_ERR_VERIFY, "rank %d: data moved", rank);
    }
    return status;
}

static ls_status other_bucket(reduction *r, int rank, reduction_rank *mine)
{
    const int bucket = rank == 1 ? 2 : 1;
    return reduce_bucket(r, rank, mine, bucket, r->count, mine->piece_count);
}

static ls_status other_count(reduction *r, int rank, reduction_rank *mine)
{
    return reduce_bucket(r, rank, mine, 1, rank == 1 ? 64 : r->count, mine->piece_count);
}

static ls_status other_nodes(reduction *r, int rank, reduction_rank *mine)
{
    if (rank == 1) mine->node[0].begin += 1;
    return reduce_bucket(r, rank, mine, 1, r->count, mine->piece_count);
}

static ls_status other_call(reduction *r, int rank, reduction_rank *mine)
{
    if (rank != 1) return reduce_bucket(r, rank, mine, 1, r->count, mine->piece_count);
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    return ls_gather(r->comm, rank, mine->memory[0], 40, &mine->ready, &mine->done);
}

static ls_status no_call(reduction *r, int rank, reduction_rank *mine)
{
    if (rank != 1) return reduce_bucket(r, rank, mine, 1, r->count, mine->piece_count);
    while (!ls_group_is_aborted(r->group)) continue;
    return LS_ERR_ABORTED;
}

static void assert_refused(reduction_body *body, ls_status want, const char *first,
                           const char *second)
{
    for (int n = 2; n <= 4; n++) {
        const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                              .pairs = PAIRS_MIXED, .count_max = 4096,
                                              .timeout_s = want == LS_ERR_TIMEOUT ? 0.2 : 60 };
        reduction r;
        assert_int_equal(reduction_run_body(&r, &settings, 4096, body), want);
        if (strstr(ls_last_error(), first) == NULL || strstr(ls_last_error(), second) == NULL) {
            fail_msg("\"%s\" has no \"%s\" or no \"%s\"", ls_last_error(), first, second);
        }
        reduction_close(&r);
    }
}

static void test_another_bucket_is_refused_naming_both_sides(void **state)
{
    (void)state;
    assert_refused(other_bucket, LS_ERR_DIVERGED, "rank 1 submits bucket 2 (4096 floats)",
                   "rank 0 submits bucket 1 (4096 floats)");
}

static void test_another_count_is_refused_naming_both_sides(void **state)
{
    (void)state;
    assert_refused(other_count, LS_ERR_DIVERGED, "rank 1 submits bucket 1 (64 floats)",
                   "rank 0 submits bucket 1 (4096 floats)");
}

static void test_pieces_of_other_shards_are_refused(void **state)
{
    (void)state;
    assert_refused(other_nodes, LS_ERR_DIVERGED, "rank 1: piece 0 of bucket 1", "no data moved");
}

static void test_another_call_is_refused_naming_both_sides(void **state)
{
    (void)state;
    assert_refused(other_call, LS_ERR_DIVERGED, "rank 1 submits a gather (rows of 40 bytes)",
                   "rank 0 submits bucket 1");
}

static void test_a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    assert_refused(no_call, LS_ERR_TIMEOUT, "rank 1 did not come", "bucket 1 (4096 floats)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_bucket_is_refused_naming_both_sides),
        cmocka_unit_test(test_another_count_is_refused_naming_both_sides),
        cmocka_unit_test(test_pieces_of_other_shards_are_refused),
        cmocka_unit_test(test_another_call_is_refused_naming_both_sides),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
