/* SPDX-License-Identifier: MIT */
/* test_cuda_waits.c -- the test of the test: each wait of the collectives left out in turn.
 *
 * The linker replaces ls_stream_wait, ls_link_send_begin and ls_link_recv_begin (--wrap) in a
 * program that is otherwise what ships; the functions below forward, but for the one kind of wait
 * that this process is told to leave out. Four virtual GPUs then all-reduce, gather and broadcast
 * on buffers that they use again at once. With all waits the driver has nothing to say; without
 * any one of them it reports work that nothing orders, or device.c an event never recorded.
 *
 * Leaving out a wait of streams shows whatever the timing, by the driver's vector clocks. Leaving
 * out a wait for a counter shows only if the other side is late; so it is held back until the
 * mutant has gone wrong, or for HOLD_S if it does not.
 */
#include "support/test.h"

#include <sched.h>
#include <stdio.h>

#include "collectives/comm.h"
#include "device/cuda.h"
#include "kernels/kernels.h"
#include "support/fresh_process.h"

enum { RANKS = 4, SHARDS = 5, COUNT = 300, ROW_FLOATS = 3, STEPS = 3, PIECES_MAX = 4 };
static const double HOLD_S = 0.3;

typedef enum {
    WAIT_NONE,
    WAIT_READY_IN,    /* in: the caller's pieces */
    WAIT_READY_OUT,   /* out: the same */
    WAIT_READY_THERE, /* out: the neighbour's buffer may be written */
    WAIT_FULL,        /* in: the bytes are there */
    WAIT_FREE,        /* out: the slot has been read */
    WAIT_MADE,        /* out: what is sent has been made */
    WAIT_STAGE,       /* in: what is overwritten has been sent */
    WAIT_LEFT,        /* in, at the end: all has been sent */
    WAIT_POSTED,      /* host: full has been recorded */
    WAIT_FREED,       /* host: free has been recorded */
    WAIT_KINDS
} wait_kind;

static const char *const WAIT_NAME[WAIT_KINDS] = {
    "none", "ready in", "ready out", "ready there", "full", "free", "made", "stage", "left",
    "posted", "freed",
};

typedef struct {
    ls_stream compute;
    ls_event ready, done;
    int piece_count;
    ls_node node[PIECES_MAX];
    float *piece[PIECES_MAX], *rows, *weights; /* device; the result is piece[0] */
    float *from;                               /* pinned, [COUNT] */
} rank_state;

static struct {
    wait_kind without;
    ls_group *group;
    ls_device *device[RANKS];
    ls_comm *comm;
    rank_state rank[RANKS];
} run;

/* -- the waits --------------------------------------------------------------------------------- */

ls_status __real_ls_stream_wait(ls_stream *stream, ls_event *event);
ls_status __wrap_ls_stream_wait(ls_stream *stream, ls_event *event);
ls_status __real_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __wrap_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __real_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __wrap_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);

static bool is_among(const ls_event *event, const ls_event *first, size_t count)
{
    return first != NULL && event >= first && event < first + count;
}

/* What a wait of one of the collectives' streams is for, by its event. */
static wait_kind kind_of(const ls_stream *stream, const ls_event *event)
{
    for (int r = 0; r < RANKS; r++) {
        const ls_comm_rank *of = &run.comm->rank[r];
        if (event == &of->left) return WAIT_LEFT;
        if (is_among(event, of->made, (size_t)run.comm->slice_count_max)) return WAIT_MADE;
        if (event != &run.rank[r].ready) continue;
        return stream == &of->channel.in    ? WAIT_READY_IN
               : stream == &of->channel.out ? WAIT_READY_OUT
                                            : WAIT_READY_THERE;
    }
    for (int i = 0; i < RANKS * RANKS; i++) {
        const ls_link *link = &run.comm->link[i];
        if (is_among(event, link->free, LS_LINK_SLOTS)) return WAIT_FREE;
        if (!is_among(event, link->full, link->watched)) continue;
        return stream == &run.comm->rank[link->to].channel.in ? WAIT_FULL : WAIT_STAGE;
    }
    return WAIT_NONE;
}

ls_status __wrap_ls_stream_wait(ls_stream *stream, ls_event *event)
{
    if (run.without != WAIT_NONE && kind_of(stream, event) == run.without) return LS_OK;
    return __real_ls_stream_wait(stream, event);
}

/* Wait until *count >= want, which a sound protocol does not let happen. */
static void hold(atomic_size_t *count, size_t want)
{
    const double end = ls_clock() + HOLD_S;
    while (atomic_load(count) < want && ls_clock() < end && !ls_group_is_aborted(run.group))
        (void)sched_yield();
}

/* link.c's, without the host's wait. */
ls_status __wrap_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what)
{
    if (run.without == WAIT_POSTED && link->sent == 0) hold(&link->freed, 1);
    if (run.without != WAIT_FREED) return __real_ls_link_send_begin(link, channel, what);
    link->given[link->sent % link->watched] = *what;
    if (link->sent < LS_LINK_SLOTS) return LS_OK;
    return ls_stream_wait(&channel->out, &link->free[link->sent % LS_LINK_SLOTS]);
}

ls_status __wrap_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what)
{
    const size_t t = link->received;
    if (run.without == WAIT_FREED && channel->rank == 1 && t == 0)
        hold(&link->posted, t + LS_LINK_SLOTS + 1);
    if (run.without != WAIT_POSTED) return __real_ls_link_recv_begin(link, channel, what);
    LS_TRY(ls_stream_wait(&channel->in, &link->full[t % link->watched]));
    link->taken[t % link->watched] = *what;
    link->slot_open = true;
    return LS_OK;
}

/* -- what a rank does -------------------------------------------------------------------------- */

static ls_status open_floats(ls_device *device, size_t count, bool pinned, float **out)
{
    void *memory = NULL;
    const size_t bytes = count * sizeof(float);
    LS_TRY(pinned ? ls_pinned_alloc(device, bytes, &memory)
                  : ls_device_alloc(device, bytes, &memory));
    *out = memory;
    return LS_OK;
}

static ls_status open_rank(int r)
{
    rank_state *rank = &run.rank[r];
    ls_device *device = run.device[r];
    const int begin = ls_rank_shard_begin(r, SHARDS, RANKS);
    const int end = ls_rank_shard_begin(r + 1, SHARDS, RANKS);
    LS_TRY(ls_stream_init(&rank->compute, device));
    LS_TRY(ls_event_init(&rank->ready, device));
    LS_TRY(ls_event_init(&rank->done, device));
    rank->piece_count = ls_node_cover(begin, end - begin, SHARDS, rank->node);
    for (int p = 0; p < rank->piece_count; p++)
        LS_TRY(open_floats(device, COUNT, false, &rank->piece[p]));
    LS_TRY(open_floats(device, SHARDS * ROW_FLOATS, false, &rank->rows));
    LS_TRY(open_floats(device, COUNT, false, &rank->weights));
    LS_TRY(open_floats(device, COUNT, true, &rank->from));
    for (int i = 0; i < COUNT; i++) rank->from[i] = (float)(i + r);
    return LS_OK;
}

static ls_status reduce(rank_state *rank, int r, int step)
{
    for (int p = 0; p < rank->piece_count; p++)
        LS_TRY(ls_copy_to_device(&rank->compute, rank->piece[p], rank->from,
                                 COUNT * sizeof(float)));
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    const ls_pieces pieces = { .bucket = step, .count = COUNT, .piece_count = rank->piece_count,
                               .node = rank->node, .piece = rank->piece, .result = rank->piece[0],
                               .ready = &rank->ready, .done = &rank->done };
    LS_TRY(ls_all_reduce(run.comm, r, &pieces));
    return ls_stream_wait(&rank->compute, &rank->done);
}

static ls_status gather_and_broadcast(rank_state *rank, int r)
{
    const size_t row_bytes = ROW_FLOATS * sizeof(float);
    LS_TRY(ls_copy_to_device(&rank->compute, rank->rows, rank->from, SHARDS * row_bytes));
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    LS_TRY(ls_gather(run.comm, r, rank->rows, row_bytes, &rank->ready, &rank->done));
    LS_TRY(ls_stream_wait(&rank->compute, &rank->done));
    LS_TRY(ls_copy_to_device(&rank->compute, rank->weights, rank->from, COUNT * sizeof(float)));
    LS_TRY(ls_event_record(&rank->ready, &rank->compute));
    LS_TRY(ls_broadcast(run.comm, r, rank->weights, COUNT, &rank->ready, &rank->done));
    return ls_stream_wait(&rank->compute, &rank->done);
}

static ls_status run_rank(int r, void *arg)
{
    (void)arg;
    rank_state *rank = &run.rank[r];
    for (int step = 0; step < STEPS; step++) LS_TRY(reduce(rank, r, step));
    for (int step = 0; step < 2; step++) LS_TRY(gather_and_broadcast(rank, r));
    LS_TRY(ls_comm_verify(run.comm, r));
    return ls_stream_drain(&rank->compute, run.group, "a test");
}

static void cannot_join(void)
{
    (void)fprintf(stderr, "%s\n", ls_last_error());
    _Exit(3);
}

/* TEST_WITHOUT: the wait to leave out. TEST_WAY: over what. */
static int case_run(void)
{
    const char *way = getenv("TEST_WAY");
    const bool staged = strcmp(way, "staged ring") == 0, tree = strcmp(way, "tree") == 0;
    ls_topology topology = { .count = RANKS };
    const ls_comm_config config = { .algorithm = tree ? LS_ALGORITHM_TREE : LS_ALGORITHM_RING,
                                    .shard_count = SHARDS,
                                    .bucket_floats_max = COUNT, .slice_floats = 64,
                                    .bucket_count_max = STEPS,
                                    .gather_bytes_max = ROW_FLOATS * sizeof(float) };
    CHECK_OK(ls_group_create(RANKS, 20, &run.group));
    for (int r = 0; r < RANKS; r++) {
        CHECK_OK(ls_device_open_cuda(r, ls_group_progress(run.group), &run.device[r]));
        CHECK_OK(ls_kernels_bind(run.device[r]));
        topology.ring[r] = r;
    }
    for (int i = 0; i < RANKS * RANKS; i++)
        topology.pair[i] = i % (RANKS + 1) == 0 ? LS_PAIR_LOCAL
                                                : staged ? LS_PAIR_STAGED : LS_PAIR_PEER;
    CHECK_OK(ls_comm_create(run.group, run.device, &topology, &config, &run.comm));
    for (int r = 0; r < RANKS; r++) CHECK_OK(open_rank(r));
    run.without = (wait_kind)atoi(getenv("TEST_WITHOUT"));
    const ls_status status = ls_group_run(run.group, run_rank, NULL, cannot_join);
    if (status != LS_OK) (void)fprintf(stderr, "%s\n", ls_last_error());
    (void)fflush(NULL);
    _Exit(status != LS_OK); /* after a fault nothing can be released */
}

/* -- tests ------------------------------------------------------------------------------------- */

/* "ready in" shows in the tree alone: in a ring `in` has already waited for a copy that waited for
 * it. */
static const char *const WAYS[] = { "TEST_WAY=ring", "TEST_WAY=staged ring", "TEST_WAY=tree" };
enum { WAY_COUNT = sizeof WAYS / sizeof WAYS[0], OUTPUT_BYTES = 4096 };

static int run_without(wait_kind without, const char *way, char output[OUTPUT_BYTES])
{
    char number[32];
    (void)snprintf(number, sizeof number, "TEST_WITHOUT=%d", (int)without);
    const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=4", number, way, NULL };
    return fresh_run("run", settings, output, OUTPUT_BYTES);
}

static bool is_reported(wait_kind without, const char *way, char output[OUTPUT_BYTES])
{
    const int code = run_without(without, way, output);
    return code != 0 && (strstr(output, "orders the two") != NULL ||
                         strstr(output, "was never recorded") != NULL);
}

static void test_with_all_waits_there_is_nothing_to_report(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    for (int i = 0; i < WAY_COUNT; i++) {
        char output[OUTPUT_BYTES];
        const int code = run_without(WAIT_NONE, WAYS[i], output);
        if (code != 0 || strstr(output, "vgpu:") != NULL) fail_msg("%d: %s", code, output);
    }
}

static void test_each_wait_that_is_left_out_is_reported(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    int missed = 0;
    for (int w = WAIT_NONE + 1; w < WAIT_KINDS; w++) {
        char output[OUTPUT_BYTES];
        int i = 0;
        while (i < WAY_COUNT && !is_reported((wait_kind)w, WAYS[i], output)) i++;
        if (i < WAY_COUNT) continue;
        print_error("without the wait for \"%s\": %s\n", WAIT_NAME[w],
                    output[0] != '\0' ? output : "nothing was reported");
        missed++;
    }
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = { { "run", case_run }, { NULL, NULL } };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_all_waits_there_is_nothing_to_report),
        cmocka_unit_test(test_each_wait_that_is_left_out_is_reported),
    };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    cmocka_set_test_filter("test_with_all_waits*");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
