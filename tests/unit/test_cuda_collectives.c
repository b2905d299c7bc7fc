/* SPDX-License-Identifier: MIT */
/* test_cuda_collectives.c -- all-reduces of odd sizes, and replicas that fail, on virtual GPUs.
 *
 * The same comm that the trainer uses, with one thread per replica, on buffers whose sum is known
 * (support/reduction.h). The linker replaces ls_link_send_begin and ls_link_recv_begin (--wrap):
 * they forward, but rank 1 can be made to run out of memory, to stall or to hang at any of them,
 * which are all the phases of a ring. Large buffers: long_cuda_collectives.c.
 */
#include "support/test.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "collectives/link.h"
#include "device/cuda.h"
#include "support/fresh_process.h"
#include "support/ranks.h"
#include "support/reduction.h"

enum { RANKS_MAX = 8, SHARDS = 8, COUNT_MAX = 129 };

/* Devices for as many ranks: opening one takes longer than most of what is done here. */
typedef struct {
    ls_device *device[RANKS_MAX];
    int count;
} machine;

/* A GPU for each rank, or GPU 0 for all. */
static ls_status open_machine(machine *m, int count, bool shared)
{
    *m = (machine){ .count = count };
    for (int i = 0; i < count; i++) {
        LS_TRY(ls_device_open_cuda(shared ? 0 : i, NULL, &m->device[i]));
        LS_TRY(ls_kernels_bind(m->device[i]));
    }
    return LS_OK;
}

static void close_machine(machine *m)
{
    for (int i = m->count - 1; i >= 0; i--) ls_device_close(m->device[i]);
}

/* -- odd sizes --------------------------------------------------------------------------------- */

/* Every size, in and out of place, on and off alignment: right, inputs and surroundings intact. */
static int check_sizes(const reduction_settings *settings)
{
    const size_t n = (size_t)settings->world_size;
    const size_t count[] = { 0, 1, n - 1, n, n + 1, 127, 128, COUNT_MAX };
    reduction r;
    CHECK_OK(reduction_open(&r, settings));
    for (size_t i = 0; i < 4 * sizeof count / sizeof count[0]; i++) {
        r.count = count[i / 4];
        r.settings.in_place = i % 2;
        r.offset = i % 4 / 2;
        r.seed = n * 1000 + i;
        CHECK_OK(reduction_run_once(&r));
    }
    reduction_close(&r);
    return 0;
}

static int check_pairs(pair_pattern pairs)
{
    machine m;
    CHECK_OK(open_machine(&m, RANKS_MAX, pairs == PAIRS_LOCAL));
    for (int n = 1; n <= RANKS_MAX; n++) {
        const reduction_settings settings = { .world_size = n, .shard_count = SHARDS,
                                              .algorithm = LS_ALGORITHM_RING, .pairs = pairs,
                                              .count_max = COUNT_MAX, .device = m.device };
        CHECK(check_sizes(&settings) == 0);
    }
    close_machine(&m);
    return 0;
}

static int case_sizes(void)
{
    CHECK(check_pairs(PAIRS_PEER) == 0);
    CHECK(check_pairs(PAIRS_STAGED) == 0);
    return check_pairs(PAIRS_LOCAL);
}

static void test_odd_sizes_come_out_right_over_every_kind_of_pair(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    assert_case("sizes", "LOCKSTEP_VGPU_DEVICES=8");
}

/* -- rank 1 goes wrong ------------------------------------------------------------------------- */

typedef enum {
    WELL,
    OUT_OF_MEMORY, /* fails with MEMORY */
    STALLED,       /* does not go on, but leaves when the others give up */
    STUCK          /* answers nothing any more */
} trouble;

enum { FAULTY_RANK = 1, FAULTY_RANKS = 4, FAULTY_FLOATS = 300 };
static const double TIMEOUT_S = 1, GRACE_S = 2;

static struct {
    trouble kind;
    int at;          /* which hand-over of the faulty rank, from 1 */
    int hand_overs;  /* of that rank so far; its thread's alone */
    double since;    /* when it began; ls_clock */
    ls_group *group;
} fault_of;

ls_status __real_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __wrap_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __real_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);
ls_status __wrap_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what);

static void rest(void)
{
    const struct timespec moment = { 0, 1000000 };
    (void)nanosleep(&moment, NULL);
}

/* Before one hand-over of any rank. */
static ls_status meet_trouble(const ls_channel *channel)
{
    if (channel->rank != FAULTY_RANK || fault_of.kind == WELL) return LS_OK;
    if (++fault_of.hand_overs != fault_of.at) return LS_OK;
    fault_of.since = ls_clock();
    if (fault_of.kind == OUT_OF_MEMORY) return ls_fail(LS_ERR_MEMORY, "no memory, says the test");
    while (fault_of.kind == STUCK || !ls_group_is_aborted(fault_of.group)) rest();
    return LS_ERR_ABORTED;
}

ls_status __wrap_ls_link_send_begin(ls_link *link, ls_channel *channel, const ls_transfer *what)
{
    LS_TRY(meet_trouble(channel));
    return __real_ls_link_send_begin(link, channel, what);
}

ls_status __wrap_ls_link_recv_begin(ls_link *link, ls_channel *channel, const ls_transfer *what)
{
    LS_TRY(meet_trouble(channel));
    return __real_ls_link_recv_begin(link, channel, what);
}

static ls_status open_faulty(reduction *r, const machine *m, pair_pattern pairs)
{
    const reduction_settings settings = {
        .world_size = FAULTY_RANKS, .shard_count = SHARDS, .algorithm = LS_ALGORITHM_RING,
        .pairs = pairs, .count_max = FAULTY_FLOATS, .device = m->device, .timeout_s = TIMEOUT_S,
    };
    LS_TRY(reduction_open(r, &settings));
    r->count = FAULTY_FLOATS;
    fault_of.group = r->group;
    fault_of.hand_overs = 0;
    return LS_OK;
}

/* Rank 1 goes wrong at hand-over `at`: the ring ends in time with `want`, its streams run empty,
 * and everything can be released. */
static int check_trouble(const machine *m, trouble kind, int at, ls_status want, const char *text)
{
    reduction r;
    CHECK_OK(open_faulty(&r, m, at % 2 ? PAIRS_PEER : PAIRS_STAGED));
    fault_of.kind = kind;
    fault_of.at = at;
    CHECK_FAILS(reduction_run_once(&r), want, text);
    const double seconds = ls_clock() - fault_of.since;
    if (seconds > TIMEOUT_S + GRACE_S) (void)fprintf(stderr, "after %.1f s\n", seconds);
    CHECK(seconds <= TIMEOUT_S + GRACE_S);
    for (int rank = 0; rank < FAULTY_RANKS; rank++) CHECK(ls_comm_drain(r.comm, rank, 60));
    reduction_close(&r);
    return 0;
}

/* A ring step has a send and a receive, and there are N - 1 of them in each half. */
enum { HAND_OVERS = 2 * 2 * (FAULTY_RANKS - 1) };

/* At each in turn; the machine is as good as new after it. */
static int check_phases(trouble kind, ls_status want, const char *text)
{
    machine m;
    CHECK_OK(open_machine(&m, FAULTY_RANKS, false));
    for (int at = 1; at <= HAND_OVERS; at++) CHECK(check_trouble(&m, kind, at, want, text) == 0);
    close_machine(&m);
    return 0;
}

static int case_out_of_memory(void)
{
    CHECK(ls_exit_code(LS_ERR_MEMORY) == 1);
    return check_phases(OUT_OF_MEMORY, LS_ERR_MEMORY, "no memory, says the test");
}

static int case_stalled(void)
{
    CHECK(ls_exit_code(LS_ERR_TIMEOUT) == 5);
    return check_phases(STALLED, LS_ERR_TIMEOUT, "within the timeout");
}

/* What ls_group_run does with a rank that it cannot join. */
static void leave(void)
{
    const bool in_time = ls_clock() - fault_of.since <= TIMEOUT_S + GRACE_S;
    (void)fprintf(stderr, "%s\n", ls_last_error());
    _exit(in_time ? ls_exit_code(LS_ERR_TIMEOUT) : 99);
}

static ls_status run_rank(int rank, void *arg) { return reduction_rank_run(arg, rank); }

/* TEST_AT: the hand-over. */
static int case_stuck(void)
{
    machine m;
    reduction r;
    CHECK_OK(open_machine(&m, FAULTY_RANKS, false));
    CHECK_OK(open_faulty(&r, &m, PAIRS_PEER));
    reduction_expect(&r);
    fault_of.kind = STUCK;
    fault_of.at = atoi(getenv("TEST_AT"));
    CHECK_OK(ls_group_run(r.group, run_rank, &r, leave)); /* which it does not return from */
    return 1;
}

static void test_a_rank_out_of_memory_at_any_phase_of_a_ring_ends_it_as_such(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    assert_case("out of memory", "LOCKSTEP_VGPU_DEVICES=4");
}

static void test_a_rank_that_stalls_at_any_phase_of_a_ring_ends_it_in_time(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    assert_case("stalled", "LOCKSTEP_VGPU_DEVICES=4");
}

static void test_a_rank_that_cannot_be_joined_ends_the_process_in_time(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    static const struct {
        const char *at, *named;
    } row[] = {
        { "TEST_AT=1", "bucket 0, ring step 0: link 1 -> 2" },
        { "TEST_AT=7", "bucket 0, ring step 3: link 1 -> 2" },
        { "TEST_AT=12", "rank 1 did not come" }, /* all that it had to send is sent */
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *const settings[] = { "LOCKSTEP_VGPU_DEVICES=4", row[i].at, NULL };
        char output[4096];
        const int code = fresh_run("stuck", settings, output, sizeof output);
        if (code != 5 || !strstr(output, row[i].named) || !strstr(output, "within the timeout") ||
            !strstr(output, "rank 1 did not return and was left behind"))
            fail_msg("%s: code %d: %s", row[i].at, code, output);
    }
}

/* -- another order of calls -------------------------------------------------------------------- */

enum { FIRST = 1, SECOND = 2 };
static const float BEFORE = 3.5f;

/* The first call of every rank; rank 1's is for the second bucket. */
static ls_status submit(int rank, void *arg)
{
    reduction *r = arg;
    reduction_rank *mine = &r->rank[rank];
    for (int p = 0; p < mine->piece_count; p++) mine->piece[p] = mine->memory[p];
    for (size_t i = 0; i < r->count; i++) mine->host[i] = BEFORE;
    for (int p = 0; p <= mine->piece_count; p++) LS_TRY(reduction_put(r, mine, p, r->count));
    mine->result = mine->memory[mine->piece_count];
    const int bucket = rank == FAULTY_RANK ? SECOND : FIRST;
    return reduction_submit(r, rank, bucket, r->count, mine->piece_count);
}

static int case_order(void)
{
    machine m;
    reduction r;
    CHECK(ls_exit_code(LS_ERR_DIVERGED) == 5);
    CHECK_OK(open_machine(&m, FAULTY_RANKS, false));
    CHECK_OK(open_faulty(&r, &m, PAIRS_PEER));
    CHECK_FAILS(run_ranks_in(r.group, submit, &r, NULL), LS_ERR_DIVERGED,
                "call 1: rank 1 submits bucket 2 (300 floats) where rank 0 submits bucket 1 "
                "(300 floats); no data moved");
    for (int rank = 0; rank < FAULTY_RANKS; rank++) {
        CHECK(ls_comm_drain(r.comm, rank, 60));
        for (int p = 0; p <= r.rank[rank].piece_count; p++) {
            CHECK_OK(reduction_get(&r, &r.rank[rank], p, r.count));
            for (size_t i = 0; i < r.count; i++) CHECK(r.rank[rank].host[i] == BEFORE);
        }
    }
    reduction_close(&r);
    close_machine(&m);
    return 0;
}

static void test_buckets_in_another_order_are_refused_before_data_moves(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    assert_case("order", "LOCKSTEP_VGPU_DEVICES=4");
}

int main(int argc, char **argv)
{
    static const fresh_case cases[] = {
        { "sizes", case_sizes },     { "out of memory", case_out_of_memory },
        { "stalled", case_stalled }, { "stuck", case_stuck },
        { "order", case_order },
        { NULL, NULL },
    };
    fresh_main(argc, argv, cases);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes_come_out_right_over_every_kind_of_pair),
        cmocka_unit_test(test_a_rank_out_of_memory_at_any_phase_of_a_ring_ends_it_as_such),
        cmocka_unit_test(test_a_rank_that_stalls_at_any_phase_of_a_ring_ends_it_in_time),
        cmocka_unit_test(test_a_rank_that_cannot_be_joined_ends_the_process_in_time),
        cmocka_unit_test(test_buckets_in_another_order_are_refused_before_data_moves),
    };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    cmocka_set_test_filter("test_buckets*");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
