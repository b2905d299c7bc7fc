/* SPDX-License-Identifier: MIT */
/* ring_order.c -- in which order the ranks stand in the ring, and which pairs stay direct.
 *
 * The ring should have no STAGED pair, then as fast links as possible. Its cost is the sum over
 * places of
 *
 *     0 LOCAL     1 + rank PEER (the driver's rank of the link, 0 the best)     1000 STAGED
 *
 * The order of the ranks is the first candidate. If no ring can be cheaper (each rank leaves by its
 * cheapest pair), it is taken; so it is on every machine whose GPUs are all alike. Otherwise places
 * are filled in order with every rank that is left, smallest first, as long as what is spent and
 * the cheapest way out of each rank that is left come to less than the best ring so far. After
 * NODE_MAX trials the best so far is taken. The result depends on the pairs alone.
 *
 * Then GPUs that may have only so many partners give up those that are farthest in the ring, both
 * directions together: a pair counts once for both.
 *
 * Pure.
 */
#include "device/topology.h"

#include <string.h>

bool ls_ring_is_whole(const int *ring, int count)
{
    bool visited[LS_WORLD_MAX] = { false };
    if (count < 1 || count > LS_WORLD_MAX || ring[0] != 0) return false;
    for (int i = 0; i < count; i++) {
        if (ring[i] < 0 || ring[i] >= count || visited[ring[i]]) return false;
        visited[ring[i]] = true;
    }
    return true;
}

enum { COST_STAGED = 1000, RANK_MAX = 9, NODE_MAX = 200000 };

/* One search. */
typedef struct {
    const ls_pair_kind *pair;
    const int *link_rank;
    int count;
    int cheapest[LS_WORLD_MAX]; /* the cheapest way out of each rank */
    bool used[LS_WORLD_MAX];
    int path[LS_WORLD_MAX];     /* filled up to where the search is */
    int best[LS_WORLD_MAX];
    int best_cost;
    long nodes;
} ring_search;

static int pair_cost(const ring_search *s, int a, int b)
{
    const int at = a * s->count + b;
    if (s->pair[at] == LS_PAIR_STAGED) return COST_STAGED;
    if (s->pair[at] == LS_PAIR_LOCAL) return 0;
    const int rank = s->link_rank[at];
    return 1 + (rank < 0 ? 0 : rank > RANK_MAX ? RANK_MAX : rank);
}

/* Fill the places from `place` on. `spent`: the pairs so far; `rest`: the cheapest way out of the
 * rank before `place` and of every rank not yet placed. */
static void search_ring(ring_search *s, int place, int spent, int rest)
{
    const int before = s->path[place - 1];
    if (place == s->count) {
        const int cost = spent + pair_cost(s, before, s->path[0]);
        if (cost >= s->best_cost) return;
        s->best_cost = cost;
        memcpy(s->best, s->path, sizeof s->best);
        return;
    }
    for (int next = 1; next < s->count && s->nodes < NODE_MAX; next++) {
        if (s->used[next]) continue;
        s->nodes++;
        const int now = spent + pair_cost(s, before, next);
        const int left = rest - s->cheapest[before];
        if (now + left >= s->best_cost) continue;
        s->used[next] = true;
        s->path[place] = next;
        search_ring(s, place + 1, now, left);
        s->used[next] = false;
    }
}

void ls_ring_choose(const ls_pair_kind *pair, const int *link_rank, int count, int *ring)
{
    ring_search s = { .pair = pair, .link_rank = link_rank, .count = count };
    int least = 0;
    for (int a = 0; a < count; a++) {
        s.best[a] = a;
        s.best_cost += count > 1 ? pair_cost(&s, a, (a + 1) % count) : 0;
        s.cheapest[a] = count > 1 ? COST_STAGED : 0;
        for (int b = 0; b < count; b++)
            if (a != b && pair_cost(&s, a, b) < s.cheapest[a]) s.cheapest[a] = pair_cost(&s, a, b);
        least += s.cheapest[a];
    }
    if (least < s.best_cost) {
        s.used[0] = true;
        search_ring(&s, 1, 0, least);
    }
    memcpy(ring, s.best, (size_t)count * sizeof *ring);
}

void ls_pairs_limit(ls_pair_kind *pair, const int *ring, int count, const int *device_of,
                    const int *partner_max, bool *dropped)
{
    enum { UNDECIDED, KEPT, DROPPED };
    unsigned char verdict[LS_WORLD_MAX][LS_WORLD_MAX] = { { UNDECIDED } };
    int partners[LS_WORLD_MAX] = { 0 };
    for (int distance = 1; distance < count; distance++) {
        for (int place = 0; place < count; place++) {
            const int rank_a = ring[place], rank_b = ring[(place + distance) % count];
            const int at = rank_a * count + rank_b, a = device_of[rank_a], b = device_of[rank_b];
            if (pair[at] != LS_PAIR_PEER) continue;
            if (verdict[a][b] == UNDECIDED) {
                const bool room = partners[a] < partner_max[a] && partners[b] < partner_max[b];
                verdict[a][b] = verdict[b][a] = room ? KEPT : DROPPED;
                partners[a] += room;
                partners[b] += room;
            }
            dropped[at] = verdict[a][b] == DROPPED;
            if (dropped[at]) pair[at] = LS_PAIR_STAGED;
        }
    }
}
