/* SPDX-License-Identifier: MIT */
/* test_late_streams.c -- the collectives themselves, on devices whose streams run late.
 *
 * test_protocol.c checks the protocol on a model; this runs the real code. Each rank enqueues a few
 * all-reduces (new pieces to the device, reduce, result to the host), then gathers, then
 * broadcasts, without waiting for any of it, on buffers that it uses again at once. The late
 * device finds every pair of accesses that no event orders. Calls of one kind follow each other,
 * because a gather in between would by itself order what came before it.
 */
#include "support/test.h"

#include "collectives/all_reduce.h"
#include "support/late_device.h"
#include "support/ranks.h"

enum { RANKS_MAX = 4, STEPS = 3, COUNT = 300, SHARDS = 5, ROW_FLOATS = 3 };

typedef struct {
    ls_stream compute;
    ls_event ready, done;
    int piece_count;
    ls_node node[16];
    float *piece[16], *result, *rows, *weights;         /* device */
    float *piece_host[STEPS][16];                       /* pinned */
    float *result_host[STEPS], *rows_host[STEPS], *weights_host[STEPS];
    float *rows_from, *weights_from;
    void *device_memory[32], *pinned_memory[128];
    int device_count, pinned_count;
} rank_state;

typedef struct {
    int world_size;
    bool in_place;
    ls_group *group;
    late_world *world;
    ls_device *device[RANKS_MAX];
    ls_comm *comm;
    rank_state rank[RANKS_MAX];
} late_run;

static float shard_at(int step, int shard, size_t i)
{
    return (float)((step + 2) * (shard + 1)) + (float)i / 64.0f;
}

/* Small numbers: every order of addition gives the same, and it is easy to say what. */
static float sum_at(int step, int begin, int count, size_t i)
{
    float sum = 0;
    for (int s = begin; s < begin + count; s++) sum += shard_at(step, s, i);
    return sum;
}

static float *device_floats(late_run *run, int r, size_t count)
{
    rank_state *rank = &run->rank[r];
    void *memory = NULL;
    assert_int_equal(ls_device_alloc(run->device[r], count * sizeof(float), &memory), LS_OK);
    return rank->device_memory[rank->device_count++] = memory;
}

static float *pinned_floats(late_run *run, int r, size_t count)
{
    rank_state *rank = &run->rank[r];
    void *memory = NULL;
    assert_int_equal(ls_pinned_alloc(run->device[r], count * sizeof(float), &memory), LS_OK);
    return rank->pinned_memory[rank->pinned_count++] = memory;
}

static void open_rank(late_run *run, int r)
{
    rank_state *rank = &run->rank[r];
    const int begin = ls_rank_shard_begin(r, SHARDS, run->world_size);
    const int end = ls_rank_shard_begin(r + 1, SHARDS, run->world_size);
    assert_int_equal(ls_stream_init(&rank->compute, run->device[r]), LS_OK);
    assert_int_equal(ls_event_init(&rank->ready, run->device[r]), LS_OK);
    assert_int_equal(ls_event_init(&rank->done, run->device[r]), LS_OK);
    rank->piece_count = ls_node_cover(begin, end - begin, SHARDS, rank->node);
    for (int p = 0; p < rank->piece_count; p++) {
        rank->piece[p] = device_floats(run, r, COUNT);
        for (int step = 0; step < STEPS; step++) {
            rank->piece_host[step][p] = pinned_floats(run, r, COUNT);
            for (size_t i = 0; i < COUNT; i++) {
                rank->piece_host[step][p][i] =
                    sum_at(step, rank->node[p].begin, rank->node[p].count, i);
            }
        }
    }
    rank->result = run->in_place ? rank->piece[0] : device_floats(run, r, COUNT);
    rank->rows = device_floats(run, r, SHARDS * ROW_FLOATS);
    rank->weights = device_floats(run, r, COUNT);
    rank->rows_from = pinned_floats(run, r, SHARDS * ROW_FLOATS);
    rank->weights_from = pinned_floats(run, r, COUNT);
    for (int step = 0; step < STEPS; step++) {
        rank->result_host[step] = pinned_floats(run, r, COUNT);
        rank->rows_host[step] = pinned_floats(run, r, SHARDS * ROW_FLOATS);
        rank->weights_host[step] = pinned_floats(run, r, COUNT);
    }
    for (size_t i = 0; i < SHARDS * ROW_FLOATS; i++) {
        const int shard = (int)(i / ROW_FLOATS);
        rank->rows_from[i] = begin <= shard && shard < end ? (float)i : -1.0f;
    }
    for (size_t i = 0; i < COUNT; i++) rank->weights_from[i] = r == 0 ? (float)i : -1.0f;
}

static void close_rank(late_run *run, int r)
{
    rank_state *rank = &run->rank[r];
    ls_event_free(&rank->done);
    ls_event_free(&rank->ready);
    ls_stream_free(&rank->compute);
    for (int i = 0; i < rank->pinned_count; i++) {
        ls_pinned_release(run->device[r], rank->pinned_memory[i]);
    }
    for (int i = 0; i < rank->device_count; i++) {
        ls_device_release(run->device[r], rank->device_memory[i]);
    }
}

/* -- what a rank enqueues --------------------------------------------------------------------- */

static ls_status enqueue_reduce(late_run *run, int r, int step)
{
    rank_state *rank = &run->rank[r];
    const size_t bytes = COUNT * sizeof(float);
    for (int p = 0; p < rank->piece_count; p++) {
        LS_TRY(ls_copy_to_device(&rank->compute, rank->piece[p], rank->piece_host[step][p], bytes));
    }
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    const ls_pieces pieces = { .bucket = step, .count = COUNT, .piece_count = rank->piece_count,
                               .node = rank->node, .piece = rank->piece, .result = rank->result,
                               .ready = &rank->ready, .done = &rank->done };
    LS_TRY(ls_all_reduce(run->comm, r, &pieces));
    LS_TRY(ls_stream_wait(&rank->compute, &rank->done));
    return ls_copy_to_host(&rank->compute, rank->result_host[step], rank->result, bytes);
}

static ls_status enqueue_gather(late_run *run, int r, int step)
{
    rank_state *rank = &run->rank[r];
    const size_t row_bytes = ROW_FLOATS * sizeof(float);
    LS_TRY(ls_copy_to_device(&rank->compute, rank->rows, rank->rows_from, SHARDS * row_bytes));
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    LS_TRY(ls_gather(run->comm, r, rank->rows, row_bytes, &rank->ready, &rank->done));
    LS_TRY(ls_stream_wait(&rank->compute, &rank->done));
    return ls_copy_to_host(&rank->compute, rank->rows_host[step], rank->rows, SHARDS * row_bytes);
}

static ls_status enqueue_broadcast(late_run *run, int r, int step)
{
    rank_state *rank = &run->rank[r];
    const size_t bytes = COUNT * sizeof(float);
    LS_TRY(ls_copy_to_device(&rank->compute, rank->weights, rank->weights_from, bytes));
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    LS_TRY(ls_broadcast(run->comm, r, rank->weights, COUNT, &rank->ready, &rank->done));
    LS_TRY(ls_stream_wait(&rank->compute, &rank->done));
    return ls_copy_to_host(&rank->compute, rank->weights_host[step], rank->weights, bytes);
}

static ls_status check_rank(const late_run *run, int r)
{
    const rank_state *rank = &run->rank[r];
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (rank->result_host[step][i] != sum_at(step, 0, SHARDS, i)) {
                return ls_fail(LS_ERR_VERIFY, "rank %d, step %d, element %zu", r, step, i);
            }
            if (rank->weights_host[step][i] != (float)i) {
                return ls_fail(LS_ERR_VERIFY, "rank %d, step %d, weight %zu", r, step, i);
            }
        }
        for (size_t i = 0; i < SHARDS * ROW_FLOATS; i++) {
            if (rank->rows_host[step][i] != (float)i) {
                return ls_fail(LS_ERR_VERIFY, "rank %d, step %d, row word %zu", r, step, i);
            }
        }
    }
    return LS_OK;
}

static ls_status run_rank(int r, void *arg)
{
    late_run *run = arg;
    for (int step = 0; step < STEPS; step++) LS_TRY(enqueue_reduce(run, r, step));
    for (int step = 0; step < STEPS; step++) LS_TRY(enqueue_gather(run, r, step));
    for (int step = 0; step < STEPS; step++) LS_TRY(enqueue_broadcast(run, r, step));
    LS_TRY(ls_comm_verify(run->comm, r));
    LS_TRY(ls_stream_drain(&run->rank[r].compute, run->group, "the last copies"));
    return check_rank(run, r);
}

/* -- many runs -------------------------------------------------------------------------------- */

static ls_topology topology_of(int world_size, bool staged, bool mixed)
{
    ls_topology topology = { .count = world_size };
    for (int a = 0; a < world_size; a++) {
        topology.ring[a] = a;
        for (int b = 0; b < world_size; b++) {
            const bool stage = mixed ? (a + 2 * b) % 3 == 0 : staged;
            topology.pair[a * world_size + b] = a == b ? LS_PAIR_LOCAL
                                                : stage ? LS_PAIR_STAGED : LS_PAIR_PEER;
        }
    }
    return topology;
}

static void run_late(uint64_t seed, int world_size, ls_algorithm algorithm, ls_order order)
{
    late_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->world_size = world_size;
    run->in_place = seed % 2;
    assert_int_equal(ls_group_create(world_size, 60, &run->group), LS_OK);
    assert_int_equal(late_world_create(seed, &run->world), LS_OK);
    for (int r = 0; r < world_size; r++) {
        assert_int_equal(late_device_open(run->world, r, ls_group_progress(run->group),
                                          &run->device[r]), LS_OK);
    }
    const ls_topology topology = topology_of(world_size, seed % 3 == 0, seed % 3 == 1);
    const ls_comm_config config = { .algorithm = algorithm, .order = order, .shard_count = SHARDS,
                                    .bucket_floats_max = COUNT, .slice_floats = 64,
                                    .bucket_count_max = STEPS,
                                    .gather_bytes_max = ROW_FLOATS * sizeof(float) };
    assert_int_equal(ls_comm_create(run->group, run->device, &topology, &config, &run->comm),
                     LS_OK);
    for (int r = 0; r < world_size; r++) open_rank(run, r);
    const ls_status status = run_ranks_in(run->group, run_rank, run, NULL);
    const char *race = late_world_race(run->world);
    if (status != LS_OK || race != NULL) {
        fail_msg("seed %llu, N %d, algorithm %d: %s", (unsigned long long)seed, world_size,
                 (int)algorithm, race != NULL ? race : ls_last_error());
    }
    for (int r = 0; r < world_size; r++) close_rank(run, r);
    ls_comm_destroy(run->comm);
    for (int r = 0; r < world_size; r++) ls_device_close(run->device[r]);
    late_world_destroy(run->world);
    ls_group_destroy(run->group);
    free(run);
}

static void run_all_late(ls_algorithm algorithm, ls_order order)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        for (int n = 1; n <= RANKS_MAX; n++) run_late(seed, n, algorithm, order);
    }
}

static void test_the_ring_orders_every_access_by_events(void **state)
{
    (void)state;
    run_all_late(LS_ALGORITHM_RING, LS_ORDER_EXACT);
}

static void test_the_fast_ring_orders_every_access_by_events(void **state)
{
    (void)state;
    run_all_late(LS_ALGORITHM_RING, LS_ORDER_FAST);
}

static void test_the_tree_orders_every_access_by_events(void **state)
{
    (void)state;
    run_all_late(LS_ALGORITHM_TREE, LS_ORDER_EXACT);
}

static void test_the_root_orders_every_access_by_events(void **state)
{
    (void)state;
    run_all_late(LS_ALGORITHM_ROOT, LS_ORDER_EXACT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_orders_every_access_by_events),
        cmocka_unit_test(test_the_fast_ring_orders_every_access_by_events),
        cmocka_unit_test(test_the_tree_orders_every_access_by_events),
        cmocka_unit_test(test_the_root_orders_every_access_by_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
