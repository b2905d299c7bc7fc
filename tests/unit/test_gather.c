/* SPDX-License-Identifier: MIT */
/* test_gather.c -- every row and every broadcast element arrives at every rank.
 */
#include "support/test.h"

#include "support/reduction.h"

static void assert_bodies(const reduction_settings *settings, size_t count, reduction_body *body)
{
    reduction r;
    if (reduction_run_body(&r, settings, count, body) != LS_OK) {
        fail_msg("N %d, pairs %d, %zu: %s", settings->world_size, (int)settings->pairs, count,
                 ls_last_error());
    }
    reduction_close(&r);
}

static void test_a_gather_brings_every_row_to_every_rank(void **state)
{
    (void)state;
    for (int n = 1; n <= 6; n++) {
        for (int pairs = PAIRS_PEER; pairs <= PAIRS_LOCAL; pairs++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 7,
                                                  .pairs = (pair_pattern)pairs,
                                                  .algorithm = n % 2 ? LS_ALGORITHM_TREE
                                                                     : LS_ALGORITHM_RING,
                                                  .turn_ring = pairs % 2, .count_max = 64 };
            assert_bodies(&settings, 0, reduction_gather_check);
        }
    }
}

static void test_a_broadcast_brings_rank_0s_buffer_to_every_rank(void **state)
{
    (void)state;
    static const size_t count[] = { 0, 1, 64, 65, 5000 };
    for (int n = 1; n <= 5; n++) {
        for (int pairs = PAIRS_PEER; pairs <= PAIRS_LOCAL; pairs++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                                  .pairs = (pair_pattern)pairs,
                                                  .algorithm = n % 2 ? LS_ALGORITHM_ROOT
                                                                     : LS_ALGORITHM_RING,
                                                  .turn_ring = pairs % 2, .slice_floats = 64,
                                                  .count_max = 5000 };
            assert_bodies(&settings, count[(n + pairs) % 5], reduction_broadcast_check);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gather_brings_every_row_to_every_rank),
        cmocka_unit_test(test_a_broadcast_brings_rank_0s_buffer_to_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
