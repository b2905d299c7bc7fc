/* SPDX-License-Identifier: MIT */
/* test_all_reduce.c -- collectives on host devices: right bits, right refusals, nothing silent.
 *
 * The large sweep is long_all_reduce.c. Faults are put in by support/faulty_device.h.
 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "collectives/comm.h"
#include "support/ranks.h"
#include "support/reduction.h"

static void assert_run(const reduction_settings *settings, size_t count, size_t offset)
{
    reduction r;
    ls_status status = reduction_open(&r, settings);
    if (status == LS_OK) {
        r.count = count;
        r.offset = offset;
        r.seed = count * 31 + (uint64_t)settings->world_size;
        status = reduction_run_once(&r);
    }
    if (status != LS_OK) {
        fail_msg("V %d, N %d, algorithm %d, order %d, pairs %d, %zu floats: %s",
                 settings->shard_count, settings->world_size, (int)settings->algorithm,
                 (int)settings->order, (int)settings->pairs, count, ls_last_error());
    }
    reduction_close(&r);
}

/* -- the bits --------------------------------------------------------------------------------- */

static void test_every_algorithm_and_pair_kind_gives_the_tree(void **state)
{
    (void)state;
    static const int shards[] = { 1, 3, 8 };
    for (size_t v = 0; v < 3; v++) {
        for (int n = 1; n <= shards[v] && n <= 5; n++) {
            for (int a = LS_ALGORITHM_AUTO; a <= LS_ALGORITHM_ROOT; a++) {
                for (int pairs = PAIRS_PEER; pairs <= PAIRS_LOCAL; pairs++) {
                    const reduction_settings settings = { .world_size = n,
                                                          .shard_count = shards[v],
                                                          .algorithm = (ls_algorithm)a,
                                                          .pairs = (pair_pattern)pairs,
                                                          .turn_ring = pairs % 2,
                                                          .in_place = n % 2,
                                                          .slice_floats = 64, .count_max = 999 };
                    assert_run(&settings, 999, 32);
                }
            }
        }
    }
}

/* Out of place also asserts that the pieces are unchanged. */
static void test_odd_sizes_come_out_right_in_and_out_of_place(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        const size_t m = (size_t)n, count[] = { 0, 1, m - 1, m, m + 1, 127, 128, 129 };
        for (size_t i = 0; i < 4 * sizeof count / sizeof count[0]; i++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                                  .algorithm = LS_ALGORITHM_RING,
                                                  .in_place = i % 2, .count_max = 129 };
            assert_run(&settings, count[i / 4], i % 4 / 2);
        }
    }
}

static void test_slices_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t slices[] = { 32, 96, 1024, 0 };
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        for (int a = LS_ALGORITHM_RING; a <= LS_ALGORITHM_ROOT; a++) {
            const reduction_settings settings = { .world_size = 3, .shard_count = 8,
                                                  .algorithm = (ls_algorithm)a,
                                                  .pairs = PAIRS_MIXED,
                                                  .slice_floats = slices[i], .count_max = 10000 };
            assert_run(&settings, 10000, 0);
        }
    }
}

static void test_the_fast_order_is_the_rings_own(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        for (int turn = 0; turn < 2; turn++) {
            const reduction_settings settings = { .world_size = n, .shard_count = 7,
                                                  .order = LS_ORDER_FAST, .turn_ring = turn,
                                                  .pairs = PAIRS_MIXED, .slice_floats = 96,
                                                  .count_max = 1000 };
            assert_run(&settings, 1000, 0);
        }
    }
}

/* 1e8, 1, -1e8, 1: 1 from left to right, 0 as (a+b)+(c+d), 2 as (a+c)+(b+d). */
static ls_status sum_of_four(int rank, void *arg)
{
    static const float shard[4] = { 1e8f, 1.0f, -1e8f, 1.0f };
    reduction *r = arg;
    reduction_rank *mine = &r->rank[rank];
    mine->piece[0] = mine->result = mine->memory[0];
    mine->piece[0][0] = shard[rank];
    const ls_pieces pieces = { .count = 1, .piece_count = 1, .node = mine->node,
                               .piece = mine->piece, .result = mine->result,
                               .ready = &mine->ready, .done = &mine->done };
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    LS_TRY(ls_all_reduce(r->comm, rank, &pieces));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    if (mine->result[0] == r->want[0]) return LS_OK;
    return ls_fail(LS_ERR_VERIFY, "%g instead of %g", (double)mine->result[0],
                   (double)r->want[0]);
}

static void test_the_order_of_addition_shows_in_the_sum(void **state)
{
    (void)state;
    static const float want[2] = { 0.0f, 1.0f }; /* the tree; the ring from rank 0 */
    for (int order = LS_ORDER_EXACT; order <= LS_ORDER_FAST; order++) {
        const reduction_settings settings = { .world_size = 4, .shard_count = 4,
                                              .order = (ls_order)order, .count_max = 1 };
        reduction r;
        assert_int_equal(reduction_open(&r, &settings), LS_OK);
        r.want[0] = want[order];
        /* One element lies in the last chunk, which starts its way at rank 0. */
        if (run_ranks_in(r.group, sum_of_four, &r, NULL) != LS_OK) fail_msg("%s", ls_last_error());
        reduction_close(&r);
    }
}

/* -- gather and broadcast --------------------------------------------------------------------- */

enum { ROW_WORDS = 5 };

static uint32_t row_word(int shard, size_t i) { return (uint32_t)shard * 1000u + (uint32_t)i; }

static ls_status fill_gather_check(reduction *r, int rank, reduction_rank *mine)
{
    const int shards = r->settings.shard_count;
    uint32_t *rows = mine->memory[0];
    for (int s = 0; s < shards; s++) {
        const bool own = s >= ls_rank_shard_begin(rank, shards, r->settings.world_size) &&
                         s < ls_rank_shard_begin(rank + 1, shards, r->settings.world_size);
        for (size_t i = 0; i < ROW_WORDS; i++) {
            rows[(size_t)s * ROW_WORDS + i] = own ? row_word(s, i) : 0;
        }
    }
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    LS_TRY(ls_gather(r->comm, rank, rows, ROW_WORDS * sizeof rows[0], &mine->ready, &mine->done));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    for (int s = 0; s < shards; s++) {
        for (size_t i = 0; i < ROW_WORDS; i++) {
            const uint32_t have = rows[(size_t)s * ROW_WORDS + i];
            if (have == row_word(s, i)) continue;
            return ls_fail(LS_ERR_VERIFY, "rank %d: row %d, word %zu: %u", rank, s, i, have);
        }
    }
    return LS_OK;
}

static ls_status broadcast_check(reduction *r, int rank, reduction_rank *mine)
{
    float *x = mine->memory[0];
    for (size_t i = 0; i < r->count; i++) x[i] = rank == 0 ? (float)i : -1.0f;
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    LS_TRY(ls_broadcast(r->comm, rank, x, r->count, &mine->ready, &mine->done));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    for (size_t i = 0; i < r->count; i++) {
        if (x[i] != (float)i) {
            return ls_fail(LS_ERR_VERIFY, "rank %d: element %zu: %g", rank, i, (double)x[i]);
        }
    }
    return LS_OK;
}

typedef ls_status rank_body(reduction *r, int rank, reduction_rank *mine);

typedef struct {
    reduction r;
    rank_body *body;
} body_run;

static ls_status run_body(int rank, void *arg)
{
    body_run *run = arg;
    return run->body(&run->r, rank, &run->r.rank[rank]);
}

static ls_status run_bodies(body_run *run, const reduction_settings *settings, size_t count,
                            rank_body *body)
{
    LS_TRY(reduction_open(&run->r, settings));
    run->body = body;
    run->r.count = count;
    reduction_expect(&run->r);
    return run_ranks_in(run->r.group, run_body, run, NULL);
}

static void assert_bodies(const reduction_settings *settings, size_t count, rank_body *body)
{
    body_run run;
    if (run_bodies(&run, settings, count, body) != LS_OK) {
        fail_msg("N %d, pairs %d, %zu: %s", settings->world_size, (int)settings->pairs, count,
                 ls_last_error());
    }
    reduction_close(&run.r);
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
            assert_bodies(&settings, 0, fill_gather_check);
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
            assert_bodies(&settings, count[(n + pairs) % 5], broadcast_check);
        }
    }
}

/* -- many calls ------------------------------------------------------------------------------- */

/* 40 calls between two checks, in slices of 32: more contributions than the ledger holds. */
static ls_status reduce_often(reduction *r, int rank, reduction_rank *mine)
{
    for (int call = 0; call < 40; call++) {
        for (int p = 0; p < mine->piece_count; p++) {
            mine->piece[p] = mine->memory[p];
            for (size_t i = 0; i < r->count; i++) mine->piece[p][i] = (float)(rank + call);
        }
        mine->result = mine->memory[mine->piece_count];
        const ls_pieces pieces = { .bucket = call, .count = r->count,
                                   .piece_count = mine->piece_count, .node = mine->node,
                                   .piece = mine->piece, .result = mine->result,
                                   .ready = &mine->ready, .done = &mine->done };
        LS_TRY(ls_event_record(&mine->ready, &mine->compute));
        LS_TRY(ls_all_reduce(r->comm, rank, &pieces));
        LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    }
    return ls_comm_verify(r->comm, rank);
}

static void test_a_step_may_have_more_contributions_than_the_ledger(void **state)
{
    (void)state;
    const reduction_settings settings = { .world_size = 3, .shard_count = 8, .slice_floats = 32,
                                          .pairs = PAIRS_MIXED, .count_max = 20000,
                                          .calls_max = 40 };
    assert_bodies(&settings, 20000, reduce_often);
}

static void test_a_full_ledger_is_compared_before_it_starts_again(void **state)
{
    (void)state;
    fault f = { .kind = FAULT_FLIP, .n = 2, .flip_bit = 77,
                .directions = 1u << LS_COPY_PEER }; /* rank 1's second copy to rank 2 */
    const reduction_settings settings = { .world_size = 3, .shard_count = 8, .slice_floats = 32,
                                          .count_max = 20000, .calls_max = 40, .fault = &f,
                                          .fault_rank = 1 };
    body_run run;
    assert_int_equal(run_bodies(&run, &settings, 20000, reduce_often), LS_ERR_DIVERGED);
    assert_non_null(strstr(ls_last_error(), "bucket 0, ring step 0 (shards "));
    assert_non_null(strstr(ls_last_error(), "link 1 -> 2"));
    reduction_close(&run.r);
}

static void test_more_calls_than_announced_are_refused(void **state)
{
    (void)state;
    const reduction_settings settings = { .world_size = 2, .shard_count = 2, .count_max = 100,
                                          .calls_max = 39 };
    body_run run;
    assert_int_equal(run_bodies(&run, &settings, 100, reduce_often), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "at most 39"));
    reduction_close(&run.r);
}

/* -- rendezvous ------------------------------------------------------------------------------- */

static ls_status reduce_bucket(reduction *r, int rank, reduction_rank *mine, int bucket,
                               size_t count, int piece_count)
{
    for (int p = 0; p < mine->piece_count; p++) mine->piece[p] = mine->memory[p];
    mine->result = mine->memory[0];
    memset(mine->result, 0, r->count * sizeof(float));
    const ls_pieces pieces = { .bucket = bucket, .count = count, .piece_count = piece_count,
                               .node = mine->node, .piece = mine->piece, .result = mine->result,
                               .ready = &mine->ready, .done = &mine->done };
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    const ls_status status = ls_all_reduce(r->comm, rank, &pieces);
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

static void assert_refused(rank_body *body, ls_status want, const char *first, const char *second)
{
    for (int n = 2; n <= 4; n++) {
        const reduction_settings settings = { .world_size = n, .shard_count = 8,
                                              .pairs = PAIRS_MIXED, .count_max = 4096,
                                              .timeout_s = want == LS_ERR_TIMEOUT ? 0.2 : 60 };
        body_run run;
        assert_int_equal(run_bodies(&run, &settings, 4096, body), want);
        if (strstr(ls_last_error(), first) == NULL || strstr(ls_last_error(), second) == NULL) {
            fail_msg("\"%s\" has no \"%s\" or no \"%s\"", ls_last_error(), first, second);
        }
        reduction_close(&run.r);
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

/* -- faults ----------------------------------------------------------------------------------- */

static ls_status reduce_gather_broadcast(reduction *r, int rank, reduction_rank *mine)
{
    LS_TRY(reduction_rank_run(r, rank));
    LS_TRY(fill_gather_check(r, rank, mine));
    return broadcast_check(r, rank, mine);
}

/* Whole units of 32 in every slice: no copy has padding, whose bits are nobody's. */
enum { FAULTY_FLOATS = 480 };

/* How often the device copies in one healthy run. */
static long count_copies(reduction_settings settings, fault *f)
{
    *f = (fault){ .kind = FAULT_NONE };
    settings.fault = f;
    body_run run;
    assert_int_equal(run_bodies(&run, &settings, FAULTY_FLOATS, reduce_gather_broadcast), LS_OK);
    reduction_close(&run.r);
    return atomic_load(&f->copies);
}

/* A run in which the n-th copy of rank 1 is hit as `f` says. */
static ls_status run_with_fault(reduction_settings settings, fault *f, body_run *run)
{
    settings.fault = f;
    return run_bodies(run, &settings, FAULTY_FLOATS, reduce_gather_broadcast);
}

static bool names_a_place(const char *message)
{
    const bool link = strstr(message, "link ") != NULL && strstr(message, "ring step ") != NULL;
    const bool result = strstr(message, "the result of rank ") != NULL;
    return (link || result) && (strstr(message, "bucket 0") != NULL ||
                                strstr(message, "gather") != NULL ||
                                strstr(message, "broadcast") != NULL);
}

static const reduction_settings FAULTY[] = {
    { .world_size = 3, .shard_count = 8, .algorithm = LS_ALGORITHM_RING, .fault_rank = 1,
      .slice_floats = 96, .count_max = 500 },
    { .world_size = 3, .shard_count = 8, .algorithm = LS_ALGORITHM_RING, .pairs = PAIRS_STAGED,
      .fault_rank = 1, .slice_floats = 96, .count_max = 500 },
    { .world_size = 3, .shard_count = 8, .algorithm = LS_ALGORITHM_TREE, .pairs = PAIRS_MIXED,
      .fault_rank = 1, .count_max = 500 },
    { .world_size = 2, .shard_count = 8, .algorithm = LS_ALGORITHM_ROOT, .pairs = PAIRS_STAGED,
      .fault_rank = 1, .count_max = 500 },
};
enum { FAULTY_COUNT = sizeof FAULTY / sizeof FAULTY[0] };

/* A run whose n-th copy arrives with a bit flipped: is that found, and a place named? `f` says
 * afterwards which copy it was; `of_ledger`: it was one of the ledger's digests to the host. */
static bool flip_is_found(int setting, long n, size_t bit, fault *f, bool *of_ledger)
{
    *f = (fault){ .kind = FAULT_FLIP, .n = n, .flip_bit = bit };
    body_run run;
    const ls_status status = run_with_fault(FAULTY[setting], f, &run);
    const bool found = status == LS_ERR_DIVERGED && names_a_place(ls_last_error());
    if (!atomic_load(&f->fired) || (!found && status != LS_OK)) {
        fail_msg("setting %d, copy %ld, bit %zu: %s: %s", setting, n, bit, ls_status_name(status),
                 ls_last_error());
    }
    *of_ledger = f->to == run.r.comm->rank[1].ledger.digest_host;
    reduction_close(&run.r);
    return found;
}

/* Places of rank 1's ledger that one all-reduce takes for its own pieces, and no entry names: a
 * merge makes their digests among the others'. */
static size_t unpaired_digests(int setting)
{
    body_run run;
    assert_int_equal(run_bodies(&run, &FAULTY[setting], FAULTY_FLOATS, reduce_gather_broadcast),
                     LS_OK);
    const ls_comm *comm = run.r.comm;
    const int world_size = comm->world_size;
    const int slices = ls_ring_slice_count(FAULTY_FLOATS, world_size, comm->config.slice_floats);
    const int merges = comm->algorithm == LS_ALGORITHM_RING ? world_size - 1
                                                            : ls_comm_is_owner(comm, 1);
    const int columns = comm->algorithm == LS_ALGORITHM_RING ? 1 : 2; /* seen; direct: sent too */
    const int unpaired = slices * merges * columns * comm->rank[1].own_count;
    reduction_close(&run.r);
    return (size_t)unpaired;
}

/* Flip a bit of each digest in the n-th copy, one of a ledger's to the host. Returns how many of
 * these are not found. */
static size_t digests_not_found(int setting, long n, size_t digests)
{
    size_t missed = 0;
    for (size_t i = 0; i < digests; i++) {
        fault f;
        bool of_ledger = false;
        missed += !flip_is_found(setting, n, i * 64 + i % 64, &f, &of_ledger);
        assert_true(of_ledger);
    }
    return missed;
}

static void test_a_bit_flipped_in_any_copy_is_found_and_placed(void **state)
{
    (void)state;
    for (int i = 0; i < FAULTY_COUNT; i++) {
        fault f;
        const long copies = count_copies(FAULTY[i], &f);
        size_t missed = 0;
        assert_true(copies > 8);
        for (long n = 1; n <= copies; n++) {
            bool of_ledger = false;
            const bool found = flip_is_found(i, n, (size_t)n * 37, &f, &of_ledger);
            if (of_ledger) missed += digests_not_found(i, n, f.bytes / sizeof(uint64_t));
            else if (!found) fail_msg("setting %d, copy %ld of %ld is not found", i, n, copies);
        }
        assert_int_equal(missed, unpaired_digests(i));
    }
}

static void test_any_copy_or_record_that_fails_ends_the_run(void **state)
{
    (void)state;
    for (int i = 0; i < FAULTY_COUNT; i++) {
        fault f;
        const long copies = count_copies(FAULTY[i], &f), records = atomic_load(&f.records);
        for (long n = 1; n <= copies + records; n++) {
            const bool copy = n <= copies;
            body_run run;
            f = (fault){ .kind = copy ? FAULT_COPY : FAULT_RECORD, .n = copy ? n : n - copies };
            assert_int_equal(run_with_fault(FAULTY[i], &f, &run), LS_ERR_DEVICE);
            reduction_close(&run.r);
        }
    }
}

static void test_a_copy_that_never_ends_is_a_timeout_that_names_its_place(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fault f;
        const long copies = count_copies(FAULTY[i], &f);
        for (long n = 1; n <= copies; n += copies / 2) {
            reduction_settings settings = FAULTY[i];
            settings.timeout_s = 0.5; /* or a busy machine's pause would look like a stall */
            body_run run;
            f = (fault){ .kind = FAULT_STALL_COPY, .n = n };
            assert_int_equal(run_with_fault(settings, &f, &run), LS_ERR_TIMEOUT);
            assert_non_null(strstr(ls_last_error(), "within the timeout"));
            assert_false(ls_comm_drain(run.r.comm, 1, 0.0));
            atomic_store(&f.released, true);
            assert_true(ls_comm_drain(run.r.comm, 1, 1.0));
            reduction_close(&run.r);
        }
    }
}

/* What has stalled goes on when the run has given up, so that all threads can be joined. */
static ls_status reduce_and_release(reduction *r, int rank, reduction_rank *mine)
{
    (void)mine;
    const ls_status status = reduction_rank_run(r, rank);
    if (status == LS_ERR_TIMEOUT) atomic_store(&r->settings.fault->released, true);
    return status;
}

/* Rank 1's n-th copy to rank 2 does not end, or does not even return. Returns the ring step that
 * the message names; it must name the link, whoever gives up first. */
static int stalled_step(fault_kind kind, long n, long *copies)
{
    static const reduction_settings ring = { .world_size = 3, .shard_count = 8, .fault_rank = 1,
                                             .algorithm = LS_ALGORITHM_RING, .slice_floats = 96,
                                             .count_max = 500 };
    fault f = { .kind = kind, .n = n, .directions = 1u << LS_COPY_PEER };
    reduction_settings settings = ring;
    settings.fault = &f;
    settings.timeout_s = kind == FAULT_NONE ? 60 : 0.2;
    body_run run;
    int step = -1;
    const ls_status status = run_bodies(&run, &settings, 500, reduce_and_release);
    *copies = atomic_load(&f.copies);
    const char *at = strstr(ls_last_error(), "bucket 0, ring step ");
    if (status == LS_ERR_TIMEOUT && at != NULL) (void)sscanf(at, "bucket 0, ring step %d", &step);
    if (kind != FAULT_NONE && (step < 0 || strstr(at, "link 1 -> 2 (PEER): the ") == NULL)) {
        fail_msg("copy %ld, fault %d: %s", n, (int)kind, ls_last_error());
    }
    reduction_close(&run.r);
    return step;
}

static void test_a_rank_that_stalls_at_any_ring_step_is_named_with_its_link(void **state)
{
    (void)state;
    long copies = 0, ignored;
    (void)stalled_step(FAULT_NONE, 0, &copies);
    assert_true(copies >= 8);
    for (int kind = FAULT_BLOCK_COPY; kind <= FAULT_STALL_COPY; kind++) {
        int last = 0;
        for (int k = 0; k < 4; k++) {
            const long n = 1 + (copies - 1) * k / 3;
            const int step = stalled_step((fault_kind)kind, n, &ignored);
            assert_true(k == 0 ? step == 0 : step >= last);
            last = step;
        }
        assert_int_equal(last, 3);
    }
}

static void test_any_allocation_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int i = 0; i < FAULTY_COUNT; i++) {
        reduction_settings settings = FAULTY[i];
        fault f = { .kind = FAULT_NONE };
        reduction r;
        settings.fault = &f;
        assert_int_equal(reduction_open(&r, &settings), LS_OK);
        const long allocs = atomic_load(&f.allocs);
        reduction_close(&r);
        assert_true(allocs > 10);
        for (long n = 1; n <= allocs; n++) {
            f = (fault){ .kind = FAULT_ALLOC, .n = n };
            assert_int_equal(reduction_open(&r, &settings), LS_ERR_MEMORY);
        }
    }
}

/* -- settings --------------------------------------------------------------------------------- */

static void assert_not_created(const reduction_settings *settings, const char *text)
{
    reduction r;
    assert_int_equal(reduction_open(&r, settings), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), text));
}

static void test_settings_that_cannot_work_are_refused(void **state)
{
    (void)state;
    assert_not_created(&(reduction_settings){ .world_size = 4, .shard_count = 3 }, "--shards 4");
    assert_not_created(&(reduction_settings){ .world_size = 2, .shard_count = 8,
                                              .slice_floats = 33 }, "multiple of 32");
    assert_not_created(&(reduction_settings){ .world_size = 2, .shard_count = 8,
                                              .order = LS_ORDER_FAST,
                                              .algorithm = LS_ALGORITHM_TREE }, "--order fast");
}

static void assert_choice(reduction_settings settings, ls_algorithm algorithm, const char *reason)
{
    reduction r;
    settings.shard_count = 8;
    assert_int_equal(reduction_open(&r, &settings), LS_OK);
    assert_int_equal(ls_comm_algorithm(r.comm), algorithm);
    assert_string_equal(ls_comm_reason(r.comm), reason);
    reduction_close(&r);
}

static void test_the_choice_of_algorithm_says_why(void **state)
{
    (void)state;
    assert_choice((reduction_settings){ .world_size = 1 }, LS_ALGORITHM_RING,
                  "ring: one rank, nothing to exchange");
    assert_choice((reduction_settings){ .world_size = 4 }, LS_ALGORITHM_RING,
                  "ring: host devices");
    assert_choice((reduction_settings){ .world_size = 2, .order = LS_ORDER_FAST },
                  LS_ALGORITHM_RING, "ring: order fast");
    assert_choice((reduction_settings){ .world_size = 3, .algorithm = LS_ALGORITHM_ROOT },
                  LS_ALGORITHM_ROOT, "root: asked for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm_and_pair_kind_gives_the_tree),
        cmocka_unit_test(test_odd_sizes_come_out_right_in_and_out_of_place),
        cmocka_unit_test(test_slices_of_any_size_give_the_same_bits),
        cmocka_unit_test(test_the_fast_order_is_the_rings_own),
        cmocka_unit_test(test_the_order_of_addition_shows_in_the_sum),
        cmocka_unit_test(test_a_gather_brings_every_row_to_every_rank),
        cmocka_unit_test(test_a_broadcast_brings_rank_0s_buffer_to_every_rank),
        cmocka_unit_test(test_a_step_may_have_more_contributions_than_the_ledger),
        cmocka_unit_test(test_a_full_ledger_is_compared_before_it_starts_again),
        cmocka_unit_test(test_more_calls_than_announced_are_refused),
        cmocka_unit_test(test_another_bucket_is_refused_naming_both_sides),
        cmocka_unit_test(test_another_count_is_refused_naming_both_sides),
        cmocka_unit_test(test_pieces_of_other_shards_are_refused),
        cmocka_unit_test(test_another_call_is_refused_naming_both_sides),
        cmocka_unit_test(test_a_rank_that_does_not_come_is_named),
        cmocka_unit_test(test_a_bit_flipped_in_any_copy_is_found_and_placed),
        cmocka_unit_test(test_any_copy_or_record_that_fails_ends_the_run),
        cmocka_unit_test(test_a_copy_that_never_ends_is_a_timeout_that_names_its_place),
        cmocka_unit_test(test_a_rank_that_stalls_at_any_ring_step_is_named_with_its_link),
        cmocka_unit_test(test_any_allocation_that_fails_leaves_nothing_behind),
        cmocka_unit_test(test_settings_that_cannot_work_are_refused),
        cmocka_unit_test(test_the_choice_of_algorithm_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
