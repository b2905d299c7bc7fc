/* SPDX-License-Identifier: MIT */
/* test_ring_order.c -- the ring goes where the links are, and partners are kept within their limit.
 */
#include "device/topology.h"
#include "support/test.h"

/* Pairs of `count` ranks, each on a device of its own, all PEER and alike. */
typedef struct {
    int count;
    ls_pair_kind pair[LS_WORLD_MAX * LS_WORLD_MAX];
    int rank[LS_WORLD_MAX * LS_WORLD_MAX];
    int ring[LS_WORLD_MAX];
} mesh;

static void mesh_init(mesh *m, int count)
{
    memset(m, 0, sizeof *m);
    m->count = count;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            m->pair[a * count + b] = a == b ? LS_PAIR_LOCAL : LS_PAIR_PEER;
}

static void cut(mesh *m, int a, int b)
{
    m->pair[a * m->count + b] = m->pair[b * m->count + a] = LS_PAIR_STAGED;
}

static void choose(mesh *m)
{
    ls_ring_choose(m->pair, m->rank, m->count, m->ring);
    assert_true(ls_ring_is_whole(m->ring, m->count));
}

static int staged_links(const mesh *m)
{
    int staged = 0;
    for (int i = 0; i < m->count && m->count > 1; i++)
        staged += m->pair[m->ring[i] * m->count + m->ring[(i + 1) % m->count]] == LS_PAIR_STAGED;
    return staged;
}

static void check_ring(const mesh *m, const int *want)
{
    for (int i = 0; i < m->count; i++) assert_int_equal(m->ring[i], want[i]);
}

static void test_where_all_pairs_are_alike_the_ring_is_the_order_of_the_ranks(void **state)
{
    (void)state;
    static mesh m;
    for (int count = 1; count <= LS_WORLD_MAX; count++) {
        mesh_init(&m, count);
        choose(&m);
        for (int i = 0; i < count; i++) assert_int_equal(m.ring[i], i);
        for (int i = 0; i < count * count; i++)
            if (m.pair[i] == LS_PAIR_PEER) m.pair[i] = LS_PAIR_STAGED;
        choose(&m);
        for (int i = 0; i < count; i++) assert_int_equal(m.ring[i], i);
    }
}

static void test_the_ring_goes_round_links_that_are_missing(void **state)
{
    (void)state;
    static mesh m;
    mesh_init(&m, 4);
    cut(&m, 0, 1);
    choose(&m);
    check_ring(&m, (const int[]){ 0, 2, 1, 3 });
    mesh_init(&m, 4); /* only 0-2, 2-1, 1-3, 3-0 are left */
    cut(&m, 0, 1);
    cut(&m, 2, 3);
    choose(&m);
    check_ring(&m, (const int[]){ 0, 2, 1, 3 });
    for (int count = 5; count <= LS_WORLD_MAX; count++) {
        mesh_init(&m, count);
        cut(&m, 0, 1);
        cut(&m, 2, 3);
        cut(&m, count - 1, 0);
        choose(&m);
        assert_int_equal(staged_links(&m), 0);
    }
}

static void test_a_link_that_goes_one_way_is_used_that_way(void **state)
{
    (void)state;
    static mesh m;
    mesh_init(&m, 3);
    m.pair[0 * 3 + 1] = LS_PAIR_STAGED; /* 1 -> 0 still works */
    choose(&m);
    check_ring(&m, (const int[]){ 0, 2, 1 });
}

static void test_faster_links_and_shared_devices_are_preferred(void **state)
{
    (void)state;
    static mesh m;
    mesh_init(&m, 4); /* pairs 0-2 and 1-3 are bridged, the others go over the bus */
    for (int i = 0; i < 16; i++) m.rank[i] = 1;
    m.rank[0 * 4 + 2] = m.rank[2 * 4 + 0] = m.rank[1 * 4 + 3] = m.rank[3 * 4 + 1] = 0;
    choose(&m);
    check_ring(&m, (const int[]){ 0, 1, 3, 2 });
    mesh_init(&m, 4); /* ranks 0 and 2 share a device, as do 1 and 3 */
    m.pair[0 * 4 + 2] = m.pair[2 * 4 + 0] = m.pair[1 * 4 + 3] = m.pair[3 * 4 + 1] = LS_PAIR_LOCAL;
    choose(&m);
    check_ring(&m, (const int[]){ 0, 1, 3, 2 });
}

/* -- against all rings -- */

static int cost_of(const mesh *m, const int *ring)
{
    int cost = 0;
    for (int i = 0; i < m->count; i++) {
        const int at = ring[i] * m->count + ring[(i + 1) % m->count];
        cost += m->pair[at] == LS_PAIR_STAGED ? 1000
                : m->pair[at] == LS_PAIR_LOCAL ? 0 : 1 + m->rank[at];
    }
    return cost;
}

/* The least cost of any ring that begins as ring[0 .. fixed). */
static int least_cost(const mesh *m, int *ring, int fixed)
{
    if (fixed == m->count) return cost_of(m, ring);
    int least = 1 << 20;
    for (int i = fixed; i < m->count; i++) {
        const int kept = ring[fixed];
        ring[fixed] = ring[i];
        ring[i] = kept;
        const int cost = least_cost(m, ring, fixed + 1);
        if (cost < least) least = cost;
        ring[i] = ring[fixed];
        ring[fixed] = kept;
    }
    return least;
}

static void test_no_other_ring_of_up_to_six_ranks_is_cheaper(void **state)
{
    (void)state;
    static mesh m;
    uint32_t seed = 1;
    for (int trial = 0; trial < 400; trial++) {
        mesh_init(&m, 2 + trial % 5);
        for (int a = 0; a < m.count; a++) {
            for (int b = 0; b < m.count; b++) {
                seed = seed * 1664525u + 1013904223u;
                const uint32_t dice = seed >> 24;
                if (a == b) continue;
                m.rank[a * m.count + b] = (int)(dice % 3);
                if (dice < 100) m.pair[a * m.count + b] = LS_PAIR_STAGED;
                else if (dice > 240) m.pair[a * m.count + b] = LS_PAIR_LOCAL;
            }
        }
        choose(&m);
        int ring[LS_WORLD_MAX];
        for (int i = 0; i < m.count; i++) ring[i] = i;
        const int least = least_cost(&m, ring, 1);
        if (cost_of(&m, m.ring) != least) fail_msg("trial %d", trial);
    }
}

static void test_a_search_that_cannot_end_in_time_still_gives_a_ring(void **state)
{
    (void)state;
    static mesh m;
    mesh_init(&m, LS_WORLD_MAX); /* two islands: two staged links are the least */
    for (int a = 0; a < LS_WORLD_MAX; a += 2)
        for (int b = 1; b < LS_WORLD_MAX; b += 2) cut(&m, a, b);
    choose(&m);
    assert_true(staged_links(&m) >= 2);
}

/* -- partners -- */

static void check_partners(int count, int limit)
{
    static mesh m;
    static bool dropped[LS_WORLD_MAX * LS_WORLD_MAX];
    int device_of[LS_WORLD_MAX], partner_max[LS_WORLD_MAX];
    mesh_init(&m, count);
    choose(&m);
    memset(dropped, 0, sizeof dropped);
    for (int r = 0; r < count; r++) {
        device_of[r] = r;
        partner_max[r] = limit;
    }
    ls_pairs_limit(m.pair, m.ring, count, device_of, partner_max, dropped);
    for (int a = 0; a < count; a++) {
        int partners = 0;
        for (int b = 0; b < count; b++) {
            partners += a != b && m.pair[a * count + b] == LS_PAIR_PEER;
            assert_int_equal(m.pair[a * count + b], m.pair[b * count + a]);
            assert_int_equal(dropped[a * count + b], m.pair[a * count + b] == LS_PAIR_STAGED);
        }
        assert_true(partners <= limit);
    }
    if (limit >= 2) assert_int_equal(staged_links(&m), 0); /* neighbours come first */
}

static void test_no_device_keeps_more_partners_than_it_may_have(void **state)
{
    (void)state;
    for (int count = 1; count <= LS_WORLD_MAX; count = count < 20 ? count + 1 : count + 11)
        for (int limit = 0; limit <= 9; limit++) check_partners(count, limit);
    check_partners(16, 8);
}

static void test_replicas_on_one_device_count_as_one_partner(void **state)
{
    (void)state;
    static mesh m;
    static bool dropped[16];
    const int device_of[] = { 0, 0, 2, 2 }, partner_max[] = { 1, 1, 1, 1 };
    mesh_init(&m, 4);
    m.pair[0 * 4 + 1] = m.pair[1 * 4 + 0] = m.pair[2 * 4 + 3] = m.pair[3 * 4 + 2] = LS_PAIR_LOCAL;
    choose(&m);
    ls_pairs_limit(m.pair, m.ring, 4, device_of, partner_max, dropped);
    for (int i = 0; i < 16; i++) assert_int_not_equal(m.pair[i], LS_PAIR_STAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_all_pairs_are_alike_the_ring_is_the_order_of_the_ranks),
        cmocka_unit_test(test_the_ring_goes_round_links_that_are_missing),
        cmocka_unit_test(test_a_link_that_goes_one_way_is_used_that_way),
        cmocka_unit_test(test_faster_links_and_shared_devices_are_preferred),
        cmocka_unit_test(test_no_other_ring_of_up_to_six_ranks_is_cheaper),
        cmocka_unit_test(test_a_search_that_cannot_end_in_time_still_gives_a_ring),
        cmocka_unit_test(test_no_device_keeps_more_partners_than_it_may_have),
        cmocka_unit_test(test_replicas_on_one_device_count_as_one_partner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
