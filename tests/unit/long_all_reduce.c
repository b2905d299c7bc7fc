/* SPDX-License-Identifier: MIT */
/* long_all_reduce.c -- every algorithm, shard count, world size, pair kind and buffer size: the
 * bits of the canonical tree. `ninja check-long` runs it; test_all_reduce.c has the small part.
 */
#include "support/test.h"

#include "support/ranks.h"
#include "support/reduction.h"

static const int SHARDS[] = { 1, 2, 3, 5, 7, 8, 12, 16, 24 };

typedef struct {
    reduction r;
    const size_t *count;
    size_t counts;
} sweep;

/* All counts at both offsets on one comm; each count is expected for by rank 0. */
static ls_status sweep_rank(int rank, void *arg)
{
    sweep *s = arg;
    for (size_t i = 0; i < 2 * s->counts; i++) {
        LS_TRY(ls_barrier_wait(s->r.group, rank, "the next count"));
        if (rank == 0) {
            s->r.count = s->count[i / 2];
            s->r.offset = i % 2 * 32;
            s->r.bucket++;
            s->r.seed++;
            reduction_expect(&s->r);
        }
        LS_TRY(ls_barrier_wait(s->r.group, rank, "the count"));
        LS_TRY(reduction_rank_run(&s->r, rank));
    }
    return LS_OK;
}

static void assert_sweep(const reduction_settings *settings, const size_t *count, size_t counts)
{
    sweep s = { .count = count, .counts = counts };
    ls_status status = reduction_open(&s.r, settings);
    if (status == LS_OK) status = run_ranks_in(s.r.group, sweep_rank, &s, NULL);
    if (status != LS_OK) {
        fail_msg("V %d, N %d, algorithm %d, order %d, pairs %d, in place %d, slice %zu: %s",
                 settings->shard_count, settings->world_size, (int)settings->algorithm,
                 (int)settings->order, (int)settings->pairs, settings->in_place,
                 settings->slice_floats, ls_last_error());
    }
    reduction_close(&s.r);
}

static void sweep_sizes(reduction_settings settings)
{
    const size_t n = (size_t)settings.world_size;
    const size_t count[] = { 0, 1, 31, 32, 33, n - 1, n, n + 1, 127, 128, 129, 1000 };
    settings.count_max = 1000;
    for (int in_place = 0; in_place < 2; in_place++) {
        settings.in_place = in_place;
        assert_sweep(&settings, count, sizeof count / sizeof count[0]);
    }
}

static void sweep_world_sizes(reduction_settings settings)
{
    for (size_t v = 0; v < sizeof SHARDS / sizeof SHARDS[0]; v++) {
        settings.shard_count = SHARDS[v];
        for (int n = 1; n <= 8 && n <= SHARDS[v]; n++) {
            settings.world_size = n;
            sweep_sizes(settings);
        }
    }
}

static void sweep_pairs(reduction_settings settings)
{
    for (int pairs = PAIRS_PEER; pairs <= PAIRS_LOCAL; pairs++) {
        settings.pairs = (pair_pattern)pairs;
        settings.turn_ring = pairs == PAIRS_MIXED;
        settings.slice_floats = pairs == PAIRS_PEER ? 0 : 64;
        sweep_world_sizes(settings);
    }
}

static void test_the_ring_gives_the_tree_for_every_size(void **state)
{
    (void)state;
    sweep_pairs((reduction_settings){ .algorithm = LS_ALGORITHM_RING });
}

static void test_the_tree_gives_the_tree_for_every_size(void **state)
{
    (void)state;
    sweep_pairs((reduction_settings){ .algorithm = LS_ALGORITHM_TREE });
}

static void test_the_root_gives_the_tree_for_every_size(void **state)
{
    (void)state;
    sweep_pairs((reduction_settings){ .algorithm = LS_ALGORITHM_ROOT });
}

static void test_the_fast_ring_adds_along_the_ring_for_every_size(void **state)
{
    (void)state;
    sweep_pairs((reduction_settings){ .algorithm = LS_ALGORITHM_RING, .order = LS_ORDER_FAST });
}

static void test_a_million_odd_elements_are_all_right(void **state)
{
    (void)state;
    static const size_t count[] = { (1u << 20) + 3 };
    for (int n = 1; n <= 8; n++) {
        for (int algorithm = LS_ALGORITHM_RING; algorithm <= LS_ALGORITHM_ROOT; algorithm++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                                  .algorithm = (ls_algorithm)algorithm,
                                                  .pairs = n % 2 ? PAIRS_PEER : PAIRS_MIXED,
                                                  .in_place = n % 3 == 0, .count_max = count[0] };
            assert_sweep(&settings, count, 1);
        }
    }
}

static void test_many_ranks_with_many_shards_give_the_tree(void **state)
{
    (void)state;
    static const size_t count[] = { 0, 1, 500, 5000 };
    static const int ranks[] = { 9, 11, 13, 16, 17, 24, 31, 32 };
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        for (int algorithm = LS_ALGORITHM_RING; algorithm <= LS_ALGORITHM_ROOT; algorithm++) {
            const reduction_settings settings = { .world_size = ranks[i],
                                                  .shard_count = i % 2 ? 64 : 32 + (int)i,
                                                  .algorithm = (ls_algorithm)algorithm,
                                                  .pairs = PAIRS_MIXED, .count_max = 5000 };
            assert_sweep(&settings, count, sizeof count / sizeof count[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_gives_the_tree_for_every_size),
        cmocka_unit_test(test_the_tree_gives_the_tree_for_every_size),
        cmocka_unit_test(test_the_root_gives_the_tree_for_every_size),
        cmocka_unit_test(test_the_fast_ring_adds_along_the_ring_for_every_size),
        cmocka_unit_test(test_a_million_odd_elements_are_all_right),
        cmocka_unit_test(test_many_ranks_with_many_shards_give_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
