/* SPDX-License-Identifier: MIT */
/* test_protocol.c -- the hand-over between ranks, simulated in many random orders.
 *
 * Host devices run everything inline, so on them an event that is not waited for is seldom missed.
 * A GPU's streams run on their own. Here the same calls are made by the ranks of a simulation
 * (support/simulation.h), which asks of every schedule that it neither hangs nor races, and that
 * every rank reads the sum over all shards of that very call.
 *
 * What each rank calls is written from link.c, reduce_ring.c and reduce_direct.c; which chunk and
 * which shards are asked of ring.c and tree.c themselves. A mutant leaves one call out or moves it.
 * Every mutant must be caught, or the simulation would prove nothing.
 */
#include "support/test.h"

#include "collectives/ring.h"
#include "collectives/tree.h"
#include "support/simulation.h"

enum {
    RANKS_MAX = SIMULATION_RANKS_MAX,
    SLOTS_MAX = 3,
    SLICES_MAX = 4,
    CALLS = 3,
    LINKS_MAX = RANKS_MAX * RANKS_MAX
};

typedef enum {
    MUTANT_NONE,
    MUTANT_NO_FREE_WAIT,       /* out does not wait until the slot has been read */
    MUTANT_NO_HANDSHAKE,       /* nobody waits for posted or freed */
    MUTANT_POST_BEFORE_RECORD, /* posted is stored before full is recorded */
    MUTANT_DONE_WITHOUT_OUT,   /* done covers in alone */
    MUTANT_FREE_BEFORE_READ,   /* free is recorded before the consumer */
    MUTANT_NO_STAGE_WAIT,      /* a merge does not wait for the send from its staging area */
    MUTANT_NO_MADE_WAIT,       /* a send does not wait for what made its bytes */
    MUTANT_NO_FULL_WAIT,       /* in does not wait for the bytes */
    MUTANTS
} mutant;

static const char *const MUTANT_NAME[MUTANTS] = {
    "none", "no free wait", "no handshake", "post before record", "done without out",
    "free before read", "no stage wait", "no made wait", "no full wait",
};

typedef struct {
    simulation *machine;         /* owned */
    int rank_count, slot_count, slice_count, shard_count;
    size_t count;                /* floats of the buffer, in slices of 32 */
    bool staged[LINKS_MAX];
    bool in_place, tree;
    mutant mutant;
    int ring[RANKS_MAX];         /* the schedule's view: rank at each place */
    size_t sent[LINKS_MAX], received[LINKS_MAX]; /* while programs are written */
} world;

/* -- names of cells, events, counters --------------------------------------------------------- */

enum { STREAM_COMPUTE, STREAM_OUT, STREAM_IN };
enum { EVENT_READY, EVENT_DONE, EVENT_LEFT, EVENT_MADE, EVENTS_OF_RANK = EVENT_MADE + SLICES_MAX };
enum { EVENTS_OF_LINK = 2 * SLOTS_MAX, CELLS_OF_LINK = SLOTS_MAX + 1 };
enum { CELLS_OF_BUFFER = RANKS_MAX * SLICES_MAX, CELLS_OF_RANK = 2 * CELLS_OF_BUFFER + SLICES_MAX };

static int event_of(int rank, int which) { return rank * EVENTS_OF_RANK + which; }
static int link_event(int link, int which)
{
    return RANKS_MAX * EVENTS_OF_RANK + link * EVENTS_OF_LINK + which;
}
static int full_of(const world *w, int link, size_t t)
{
    return link_event(link, (int)(t % (size_t)w->slot_count));
}
static int free_of(const world *w, int link, size_t t)
{
    return link_event(link, SLOTS_MAX + (int)(t % (size_t)w->slot_count));
}
static int posted_of(int link) { return 2 * link; }
static int freed_of(int link) { return 2 * link + 1; }
static int arrived_of(int rank) { return 2 * LINKS_MAX + rank; }

static int piece_cell(int rank, int chunk, int slice)
{
    return rank * CELLS_OF_RANK + chunk * SLICES_MAX + slice;
}
static int result_cell(const world *w, int rank, int chunk, int slice)
{
    return piece_cell(rank, chunk, slice) + (w->in_place ? 0 : CELLS_OF_BUFFER);
}
static int stage_cell(int rank, int slice)
{
    return rank * CELLS_OF_RANK + 2 * CELLS_OF_BUFFER + slice;
}
static int slot_cell(const world *w, int link, size_t t)
{
    return RANKS_MAX * CELLS_OF_RANK + link * CELLS_OF_LINK + (int)(t % (size_t)w->slot_count);
}
static int landing_cell(int link)
{
    return RANKS_MAX * CELLS_OF_RANK + link * CELLS_OF_LINK + SLOTS_MAX;
}

/* -- programs: calls of a rank's thread ------------------------------------------------------- */

static void host_wait(world *w, int rank, int counter, size_t value)
{
    if (w->mutant == MUTANT_NO_HANDSHAKE && counter < arrived_of(0)) return;
    simulate_host_wait(w->machine, rank, counter, value);
}

static void host_set(world *w, int rank, int counter, size_t value)
{
    simulate_host_set(w->machine, rank, counter, value);
}

static void stream_wait(world *w, int rank, int which, int event)
{
    simulate_stream_wait(w->machine, rank, which, event);
}

static void event_record(world *w, int rank, int which, int event)
{
    simulate_record(w->machine, rank, which, event);
}

static simulated_work *work_on(world *w, int rank, int which, int call, uint64_t shards)
{
    return simulate_work(w->machine, rank, which, call, shards);
}

static void copy(world *w, int rank, int which, int call, uint64_t shards, int from, int to)
{
    simulated_work *job = work_on(w, rank, which, call, shards);
    simulated_reads(job, from);
    simulated_writes(job, to);
}

/* link.c */

static int link_of(int from, int to) { return from * RANKS_MAX + to; }

static void send_begin(world *w, int rank, int link)
{
    const size_t t = w->sent[link], slots = (size_t)w->slot_count;
    if (t < slots) return;
    host_wait(w, rank, freed_of(link), t - slots + 1);
    if (w->mutant != MUTANT_NO_FREE_WAIT) stream_wait(w, rank, STREAM_OUT, free_of(w, link, t));
}

static void send_end(world *w, int rank, int link)
{
    const size_t t = w->sent[link]++;
    const bool early = w->mutant == MUTANT_POST_BEFORE_RECORD;
    if (early) host_set(w, rank, posted_of(link), t + 1);
    event_record(w, rank, STREAM_OUT, full_of(w, link, t));
    if (!early) host_set(w, rank, posted_of(link), t + 1);
}

static void recv_begin(world *w, int rank, int link)
{
    const size_t t = w->received[link];
    host_wait(w, rank, posted_of(link), t + 1);
    if (w->mutant != MUTANT_NO_FULL_WAIT) stream_wait(w, rank, STREAM_IN, full_of(w, link, t));
}

static void recv_end(world *w, int rank, int link)
{
    const size_t t = w->received[link]++;
    event_record(w, rank, STREAM_IN, free_of(w, link, t));
    host_set(w, rank, freed_of(link), t + 1);
}

/* Where the consumer reads; the slot of a staged link, or of that mutant, is already free then. */
static int land(world *w, int rank, int link, int call, uint64_t shards, bool *freed)
{
    const int slot = slot_cell(w, link, w->received[link]);
    *freed = w->staged[link] || w->mutant == MUTANT_FREE_BEFORE_READ;
    if (w->staged[link]) copy(w, rank, STREAM_IN, call, shards, slot, landing_cell(link));
    if (*freed) recv_end(w, rank, link);
    return w->staged[link] ? landing_cell(link) : slot;
}

/* reduce_ring.c */

static uint64_t shards_of(const ls_node *node, int count)
{
    uint64_t shards = 0;
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < node[i].count; s++) shards |= UINT64_C(1) << (node[i].begin + s);
    }
    return shards;
}

static uint64_t all_shards(const world *w) { return (UINT64_C(1) << w->shard_count) - 1; }

static bool is_empty(const world *w, int chunk, int slice)
{
    const ls_span span = ls_ring_chunk_span(w->count, chunk, w->rank_count);
    return ls_ring_slice_span(span, slice, LS_CHUNK_UNIT).count == 0;
}

static ls_tree_stop stop_at(const world *w, int chunk, int i)
{
    ls_tree_stop stop;
    ls_tree_stop_exact(&stop, w->shard_count, w->rank_count, w->ring, chunk, i);
    return stop;
}

static void ring_send(world *w, int rank, int call, ls_ring_move move, int step, int slice)
{
    const int link = link_of(rank, move.send_to), chunk = move.send_chunk;
    const int slot = slot_cell(w, link, w->sent[link]);
    const bool first_half = move.action == LS_RING_ADD, from_own = step == 0;
    send_begin(w, rank, link);
    if (!from_own && w->mutant != MUTANT_NO_MADE_WAIT) {
        stream_wait(w, rank, STREAM_OUT, event_of(rank, EVENT_MADE + slice));
    }
    if (!is_empty(w, chunk, slice) && first_half) {
        const ls_tree_stop stop = stop_at(w, chunk, step);
        copy(w, rank, STREAM_OUT, call, shards_of(stop.out, stop.out_count),
             from_own ? piece_cell(rank, chunk, slice) : stage_cell(rank, slice), slot);
    } else if (!is_empty(w, chunk, slice)) {
        copy(w, rank, STREAM_OUT, call, all_shards(w), result_cell(w, rank, chunk, slice),
             w->staged[link] ? slot : result_cell(w, move.send_to, chunk, slice));
    }
    send_end(w, rank, link);
}

static void ring_merge(world *w, int rank, int call, ls_ring_move move, int step, int slice)
{
    const int from = link_of(move.recv_from, rank), to = link_of(rank, move.send_to);
    const int chunk = move.recv_chunk;
    bool freed = false;
    if (!is_empty(w, chunk, slice)) {
        const ls_tree_stop stop = stop_at(w, chunk, step + 1);
        const int arrived = land(w, rank, from, call, shards_of(stop.in, stop.in_count), &freed);
        if (w->mutant != MUTANT_NO_STAGE_WAIT) {
            stream_wait(w, rank, STREAM_IN, full_of(w, to, w->sent[to] - 1));
        }
        simulated_work *job = work_on(w, rank, STREAM_IN, call,
                                      shards_of(stop.out, stop.out_count));
        simulated_reads(job, arrived);
        simulated_reads(job, piece_cell(rank, chunk, slice));
        simulated_writes(job, step + 2 == w->rank_count ? result_cell(w, rank, chunk, slice)
                                                   : stage_cell(rank, slice));
    }
    event_record(w, rank, STREAM_IN, event_of(rank, EVENT_MADE + slice));
    if (!freed) recv_end(w, rank, from);
}

static void ring_recv(world *w, int rank, int call, ls_ring_move move, int step, int slice)
{
    const int link = link_of(move.recv_from, rank), chunk = move.recv_chunk;
    recv_begin(w, rank, link);
    if (move.action == LS_RING_ADD) {
        ring_merge(w, rank, call, move, step, slice);
        return;
    }
    if (w->staged[link] && !is_empty(w, chunk, slice)) {
        copy(w, rank, STREAM_IN, call, all_shards(w), slot_cell(w, link, w->received[link]),
             result_cell(w, rank, chunk, slice));
    }
    event_record(w, rank, STREAM_IN, event_of(rank, EVENT_MADE + slice));
    recv_end(w, rank, link);
}

static void ring_call(world *w, int rank, int call)
{
    for (int step = 0; step < ls_ring_step_count(w->rank_count); step++) {
        const ls_ring_move move = ls_ring_move_at(rank, step, w->rank_count);
        for (int slice = 0; slice < w->slice_count; slice++) {
            ring_send(w, rank, call, move, step, slice);
            ring_recv(w, rank, call, move, step, slice);
        }
    }
}

/* reduce_direct.c. The digests of an offer always travel in the slot, behind the pieces or alone;
 * alone they are modelled as another copy of the pieces, which the owner copies to its ledger. */

static uint64_t own_shards(const world *w, int rank)
{
    return ls_tree_rank_shards(rank, w->shard_count, w->rank_count);
}

static void tree_offer(world *w, int rank, int call, int owner, int slice)
{
    const int link = link_of(rank, owner);
    send_begin(w, rank, link);
    if (!is_empty(w, owner, slice)) {
        copy(w, rank, STREAM_OUT, call, own_shards(w, rank), piece_cell(rank, owner, slice),
             slot_cell(w, link, w->sent[link]));
    }
    send_end(w, rank, link);
}

static void tree_collect(world *w, int rank, int call, int slice)
{
    bool freed[RANKS_MAX] = { false };
    int source[RANKS_MAX];
    const bool empty = is_empty(w, rank, slice);
    for (int from = 0; from < w->rank_count; from++) {
        if (from != rank) recv_begin(w, rank, link_of(from, rank));
    }
    for (int from = 0; from < w->rank_count && !empty; from++) {
        const int link = link_of(from, rank);
        source[from] = piece_cell(from, rank, slice);
        if (from == rank) continue;
        const int landed = land(w, rank, link, call, own_shards(w, from), &freed[from]);
        if (w->staged[link]) source[from] = landed;
        else copy(w, rank, STREAM_IN, call, own_shards(w, from), landed, landing_cell(link));
    }
    if (!empty) {
        simulated_work *job = work_on(w, rank, STREAM_IN, call, all_shards(w));
        for (int r = 0; r < w->rank_count; r++) {
            simulated_reads(job, source[r]);
            if (r != rank && w->staged[link_of(rank, r)]) continue;
            simulated_writes(job, result_cell(w, r, rank, slice));
        }
    }
    event_record(w, rank, STREAM_IN, event_of(rank, EVENT_MADE));
    for (int from = 0; from < w->rank_count; from++) {
        if (from != rank && !freed[from]) recv_end(w, rank, link_of(from, rank));
    }
}

static void tree_announce(world *w, int rank, int call, int to, int slice)
{
    const int link = link_of(rank, to);
    send_begin(w, rank, link);
    if (w->mutant != MUTANT_NO_MADE_WAIT) {
        stream_wait(w, rank, STREAM_OUT, event_of(rank, EVENT_MADE));
    }
    if (w->staged[link] && !is_empty(w, rank, slice)) {
        copy(w, rank, STREAM_OUT, call, all_shards(w), result_cell(w, rank, rank, slice),
             slot_cell(w, link, w->sent[link]));
    }
    send_end(w, rank, link);
}

static void tree_accept(world *w, int rank, int call, int owner, int slice)
{
    const int link = link_of(owner, rank);
    recv_begin(w, rank, link);
    if (w->staged[link] && !is_empty(w, owner, slice)) {
        copy(w, rank, STREAM_IN, call, all_shards(w), slot_cell(w, link, w->received[link]),
             result_cell(w, rank, owner, slice));
    }
    recv_end(w, rank, link);
}

static void tree_call(world *w, int rank, int call)
{
    const int n = w->rank_count;
    for (int slice = 0; slice < w->slice_count; slice++) {
        for (int i = 1; i < n; i++) tree_offer(w, rank, call, (rank + i) % n, slice);
        tree_collect(w, rank, call, slice);
        for (int i = 1; i < n; i++) tree_announce(w, rank, call, (rank + i) % n, slice);
        for (int i = 1; i < n; i++) tree_accept(w, rank, call, (rank + i) % n, slice);
    }
}

/* comm.c: a call with the compute before and after it. */
static void write_program(world *w, int rank)
{
    for (int call = 0; call < CALLS; call++) {
        simulated_work *backward = NULL;
        for (int i = 0; i < w->rank_count * w->slice_count; i++) {
            const int chunk = i / w->slice_count, slice = i % w->slice_count;
            backward = work_on(w, rank, STREAM_COMPUTE, call, own_shards(w, rank));
            simulated_writes(backward, piece_cell(rank, chunk, slice));
        }
        event_record(w, rank, STREAM_COMPUTE, event_of(rank, EVENT_READY));
        host_set(w, rank, arrived_of(rank), (size_t)call + 1);
        for (int r = 0; r < w->rank_count; r++) {
            host_wait(w, rank, arrived_of(r), (size_t)call + 1);
        }
        stream_wait(w, rank, STREAM_OUT, event_of(rank, EVENT_READY));
        stream_wait(w, rank, STREAM_IN, event_of(rank, EVENT_READY));
        if (w->tree) tree_call(w, rank, call);
        else ring_call(w, rank, call);
        if (w->mutant != MUTANT_DONE_WITHOUT_OUT) {
            event_record(w, rank, STREAM_OUT, event_of(rank, EVENT_LEFT));
            stream_wait(w, rank, STREAM_IN, event_of(rank, EVENT_LEFT));
        }
        event_record(w, rank, STREAM_IN, event_of(rank, EVENT_DONE));
        stream_wait(w, rank, STREAM_COMPUTE, event_of(rank, EVENT_DONE));
        for (int i = 0; i < w->rank_count * w->slice_count; i++) {
            const int chunk = i / w->slice_count, slice = i % w->slice_count;
            if (is_empty(w, chunk, slice)) continue;
            simulated_work *update = work_on(w, rank, STREAM_COMPUTE, call, all_shards(w));
            simulated_reads(update, result_cell(w, rank, chunk, slice));
        }
    }
}

/* -- many worlds ------------------------------------------------------------------------------ */

static world *world_create(void)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->machine = simulation_create();
    return w;
}

static void world_destroy(world *w)
{
    simulation_destroy(w->machine);
    free(w);
}

static unsigned draw(world *w, unsigned below) { return simulation_draw(w->machine, below); }

/* A world drawn from `seed`; then its programs. */
static void world_draw(world *w, uint64_t seed, bool tree, mutant m)
{
    simulation_begin(w->machine, seed);
    memset(w->sent, 0, sizeof w->sent);
    memset(w->received, 0, sizeof w->received);
    w->mutant = m;
    w->tree = tree;
    w->rank_count = 2 + (int)draw(w, RANKS_MAX - 1);
    w->slot_count = 1 + (int)draw(w, SLOTS_MAX);
    w->shard_count = w->rank_count + (int)draw(w, 8);
    w->in_place = draw(w, 2) == 0;
    const unsigned units = draw(w, (unsigned)(w->rank_count * SLICES_MAX) + 1);
    w->count = (size_t)units * LS_CHUNK_UNIT;
    w->slice_count = ls_ring_slice_count(w->count, w->rank_count, LS_CHUNK_UNIT);
    for (int a = 0; a < RANKS_MAX; a++) {
        w->ring[a] = a;
        for (int b = 0; b < a; b++) {
            /* The direct algorithms take a pair as one kind; the ring's links are free. */
            w->staged[link_of(a, b)] = draw(w, 2) == 0;
            w->staged[link_of(b, a)] = tree ? w->staged[link_of(a, b)] : draw(w, 2) == 0;
        }
    }
    for (int rank = 0; rank < w->rank_count; rank++) write_program(w, rank);
}

/* Run worlds `first` .. `first + count - 1`; the first seed that fails, or 0. */
static uint64_t find_failure(world *w, uint64_t first, uint64_t count, bool tree, mutant m)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        world_draw(w, seed, tree, m);
        if (!simulation_run(w->machine, w->rank_count)) return seed;
    }
    return 0;
}

static void assert_protocol_holds(bool tree)
{
    world *w = world_create();
    const uint64_t seed = find_failure(w, 1, 1500, tree, MUTANT_NONE);
    if (seed != 0) {
        fail_msg("seed %llu: %d ranks, %d slots, %d slices, %d shards: %s",
                 (unsigned long long)seed, w->rank_count, w->slot_count, w->slice_count,
                 w->shard_count, simulation_failure(w->machine));
    }
    world_destroy(w);
}

static void test_the_ring_never_hangs_races_or_adds_wrongly(void **state)
{
    (void)state;
    assert_protocol_holds(false);
}

static void test_the_tree_never_hangs_races_or_adds_wrongly(void **state)
{
    (void)state;
    assert_protocol_holds(true);
}

static void assert_mutant_is_caught(bool tree, mutant m)
{
    world *w = world_create();
    if (find_failure(w, 1, 400, tree, m) == 0) {
        fail_msg("%s, %s: 400 schedules, nothing found", tree ? "tree" : "ring", MUTANT_NAME[m]);
    }
    world_destroy(w);
}

static void test_every_mutant_of_the_ring_is_caught(void **state)
{
    (void)state;
    for (int m = MUTANT_NONE + 1; m < MUTANTS; m++) assert_mutant_is_caught(false, (mutant)m);
}

static void test_every_mutant_of_the_tree_is_caught(void **state)
{
    (void)state;
    for (int m = MUTANT_NONE + 1; m < MUTANTS; m++) {
        if (m == MUTANT_NO_STAGE_WAIT) continue; /* the tree stages nothing */
        assert_mutant_is_caught(true, (mutant)m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_never_hangs_races_or_adds_wrongly),
        cmocka_unit_test(test_the_tree_never_hangs_races_or_adds_wrongly),
        cmocka_unit_test(test_every_mutant_of_the_ring_is_caught),
        cmocka_unit_test(test_every_mutant_of_the_tree_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
