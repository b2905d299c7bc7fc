/* SPDX-License-Identifier: MIT */
/* test_tree.c -- which pieces travel, exhaustively: the canonical tree comes out of every ring. */
#include "support/test.h"

#include "collectives/ring.h"
#include "collectives/tree.h"

enum { EXHAUSTIVE_SHARDS = 24 };

static void assert_nodes(const ls_node *have, int have_count, const ls_node *want, int want_count)
{
    assert_int_equal(have_count, want_count);
    for (int i = 0; i < want_count; i++) {
        assert_int_equal(have[i].begin, want[i].begin);
        assert_int_equal(have[i].count, want[i].count);
    }
}

/* The sum of two nodes, which must be the two halves of a node of the tree, left first. */
static ls_node add_nodes(ls_node left, ls_node right)
{
    assert_int_equal(left.begin + left.count, right.begin);
    assert_int_equal(ls_tree_split((size_t)(left.count + right.count)), left.count);
    return (ls_node){ left.begin, left.count + right.count };
}

/* Run a stop's program on nodes instead of floats. It must leave what `out` says, from sources that
 * are used once each. */
static void run_stop(const ls_tree_stop *stop)
{
    int used[LS_SHARD_MAX] = { 0 };
    for (int m = 0; m < stop->out_count; m++) {
        ls_node stack[LS_SHARD_MAX];
        int height = 0;
        for (int k = stop->first[m]; k < stop->first[m + 1]; k++) {
            const int source = stop->source[k];
            used[source]++;
            stack[height++] = source < stop->in_count ? stop->in[source]
                                                      : stop->own[source - stop->in_count];
            for (int add = 0; add < stop->adds[k]; add++) {
                assert_true(height >= 2);
                height--;
                stack[height - 1] = add_nodes(stack[height - 1], stack[height]);
            }
        }
        assert_nodes(stack, height, &stop->out[m], 1);
    }
    for (int i = 0; i < stop->in_count + stop->own_count; i++) assert_int_equal(used[i], 1);
}

/* Follow `chunk` through all its stops: what leaves one arrives at the next; the last holds the
 * root. Returns the pieces sent, for the byte counts below. */
static int follow(int shard_count, int world_size, const int *ring, int chunk)
{
    int sent = 0;
    ls_tree_stop previous = { .out_count = 0 };
    for (int i = 0; i < world_size; i++) {
        ls_tree_stop stop;
        ls_tree_stop_exact(&stop, shard_count, world_size, ring, chunk, i);
        const int rank = ring[(chunk + 1 + i) % world_size];
        const int begin = ls_rank_shard_begin(rank, shard_count, world_size);
        const int end = ls_rank_shard_begin(rank + 1, shard_count, world_size);
        ls_node own[2 * LS_FOLD_MERGE_MAX];
        const int own_count = ls_node_cover(begin, end - begin, shard_count, own);
        assert_nodes(stop.own, stop.own_count, own, own_count);
        assert_nodes(stop.in, stop.in_count, previous.out, previous.out_count);
        run_stop(&stop);
        sent += stop.in_count;
        previous = stop;
    }
    const ls_node root = { 0, shard_count };
    assert_nodes(previous.out, previous.out_count, &root, 1);
    return sent;
}

static void straight_ring(int *ring)
{
    for (int place = 0; place < LS_SHARD_MAX; place++) ring[place] = place;
}

static void test_every_chunk_ends_as_the_root(void **state)
{
    (void)state;
    int ring[LS_SHARD_MAX];
    straight_ring(ring);
    for (int v = 1; v <= EXHAUSTIVE_SHARDS; v++) {
        for (int n = 1; n <= v; n++) {
            for (int chunk = 0; chunk < n; chunk++) follow(v, n, ring, chunk);
        }
    }
    for (int n = 1; n <= LS_SHARD_MAX; n += 9) {
        for (int chunk = 0; chunk < n; chunk += 5) follow(LS_SHARD_MAX, n, ring, chunk);
    }
}

static void test_a_ring_in_any_order_ends_as_the_root(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int trial = 0; trial < 300; trial++) {
        int ring[LS_SHARD_MAX];
        straight_ring(ring);
        const int v = 1 + trial % LS_SHARD_MAX, n = 1 + (trial * 7) % v;
        for (int i = n - 1; i > 0; i--) {
            seed = seed * 1664525u + 1013904223u;
            const int j = (int)(seed >> 8) % (i + 1), place = ring[i];
            ring[i] = ring[j];
            ring[j] = place;
        }
        for (int chunk = 0; chunk < n; chunk++) follow(v, n, ring, chunk);
    }
}

/* The worked example of tree.c. */
static void test_chunk_0_of_4_ranks_travels_as_the_example_says(void **state)
{
    (void)state;
    int ring[LS_SHARD_MAX];
    straight_ring(ring);
    static const ls_node out[4][2] = { { { 2, 2 } }, { { 2, 2 }, { 4, 2 } },
                                       { { 2, 2 }, { 4, 4 } }, { { 0, 8 } } };
    static const int count[4] = { 1, 2, 2, 1 };
    for (int i = 0; i < 4; i++) {
        ls_tree_stop stop;
        ls_tree_stop_exact(&stop, 8, 4, ring, 0, i);
        assert_nodes(stop.out, stop.out_count, out[i], count[i]);
    }
}

static void test_pieces_are_the_cover_of_the_shards(void **state)
{
    (void)state;
    for (int v = 1; v <= LS_SHARD_MAX; v++) {
        for (int begin = 0; begin < v; begin++) {
            for (int count = 1; begin + count <= v; count++) {
                ls_node want[2 * LS_FOLD_MERGE_MAX], have[LS_SHARD_MAX];
                uint64_t shards = 0;
                for (int s = begin; s < begin + count; s++) shards |= UINT64_C(1) << s;
                const int have_count = ls_tree_pieces(shards, v, have);
                assert_nodes(have, have_count, want, ls_node_cover(begin, count, v, want));
            }
        }
    }
    ls_node none[1];
    assert_int_equal(ls_tree_pieces(0, 8, none), 0);
}

static void test_slots_need_few_pieces(void **state)
{
    (void)state;
    static const struct {
        int shards, most;
    } known[] = { { 8, 4 }, { 16, 6 }, { 24, 7 }, { 32, 8 } };
    int ring[LS_SHARD_MAX];
    straight_ring(ring);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        int most = 0;
        for (int n = 1; n <= known[k].shards; n++) {
            const int pieces = ls_tree_pieces_max(known[k].shards, n, ring);
            if (pieces > most) most = pieces;
        }
        assert_int_equal(most, known[k].most);
    }
}

/* Bytes of both halves against a plain ring's, V = 8, in thousandths: chunks of one size, pieces in
 * the first half, one copy in the second. The numbers of tree.c's head. */
static void test_the_price_is_what_the_head_says(void **state)
{
    (void)state;
    static const int want[9] = { 0, 0, 1000, 1500, 1250, 1475, 1466, 1523, 1571 };
    int ring[LS_SHARD_MAX];
    straight_ring(ring);
    for (int n = 2; n <= 8; n++) {
        int pieces = 0;
        for (int chunk = 0; chunk < n; chunk++) pieces += follow(8, n, ring, chunk);
        const int plain = n * (n - 1);
        assert_int_equal((pieces + plain) * 1000 / (2 * plain), want[n]);
    }
}

static void test_a_running_sum_takes_what_arrives_and_then_its_own(void **state)
{
    (void)state;
    int ring[LS_SHARD_MAX];
    straight_ring(ring);
    for (int v = 1; v <= EXHAUSTIVE_SHARDS; v++) {
        for (int n = 1; n <= v; n++) {
            for (int i = 0; i < n; i++) {
                ls_tree_stop exact, fast;
                ls_tree_stop_exact(&exact, v, n, ring, n / 2, i);
                ls_tree_stop_fast(&fast, v, n, ring, n / 2, i);
                assert_int_equal(fast.in_count, i > 0);
                assert_int_equal(fast.out_count, 1);
                assert_nodes(fast.own, fast.own_count, exact.own, exact.own_count);
                assert_int_equal(fast.first[1], fast.in_count + fast.own_count);
                for (int k = 0; k < fast.first[1]; k++) {
                    assert_int_equal(fast.source[k], k);
                    assert_int_equal(fast.adds[k], k > 0);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunk_ends_as_the_root),
        cmocka_unit_test(test_a_ring_in_any_order_ends_as_the_root),
        cmocka_unit_test(test_chunk_0_of_4_ranks_travels_as_the_example_says),
        cmocka_unit_test(test_pieces_are_the_cover_of_the_shards),
        cmocka_unit_test(test_slots_need_few_pieces),
        cmocka_unit_test(test_the_price_is_what_the_head_says),
        cmocka_unit_test(test_a_running_sum_takes_what_arrives_and_then_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
