/* SPDX-License-Identifier: MIT */
/* test_comm_faults.c -- copies, records and ranks that fail in a collective: nothing is silent.
 *
 * Faults are put into rank 1's device by support/faulty_device.h; where they strike is counted over
 * all copies of a healthy run.
 */
#include "support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "collectives/comm.h"
#include "support/reduction.h"

static ls_status reduce_gather_broadcast(reduction *r, int rank, reduction_rank *mine)
{
    LS_TRY(reduction_rank_run(r, rank));
    LS_TRY(reduction_gather_check(r, rank, mine));
    return reduction_broadcast_check(r, rank, mine);
}

/* Whole units of 32 in every slice: no copy has padding, whose bits are nobody's. */
enum { FAULTY_FLOATS = 480 };

/* How often the device copies in one healthy run. */
static long count_copies(reduction_settings settings, fault *f)
{
    *f = (fault){ .kind = FAULT_NONE };
    settings.fault = f;
    reduction r;
    assert_int_equal(reduction_run_body(&r, &settings, FAULTY_FLOATS, reduce_gather_broadcast),
                     LS_OK);
    reduction_close(&r);
    return atomic_load(&f->copies);
}

/* A run in which the n-th copy of rank 1 is hit as `f` says. */
static ls_status run_with_fault(reduction_settings settings, fault *f, reduction *r)
{
    settings.fault = f;
    return reduction_run_body(r, &settings, FAULTY_FLOATS, reduce_gather_broadcast);
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
    reduction r;
    const ls_status status = run_with_fault(FAULTY[setting], f, &r);
    const bool found = status == LS_ERR_DIVERGED && names_a_place(ls_last_error());
    if (!atomic_load(&f->fired) || (!found && status != LS_OK)) {
        fail_msg("setting %d, copy %ld, bit %zu: %s: %s", setting, n, bit, ls_status_name(status),
                 ls_last_error());
    }
    *of_ledger = f->to == r.comm->rank[1].ledger.digest_host;
    reduction_close(&r);
    return found;
}

/* Places of rank 1's ledger that one all-reduce takes for its own pieces, and no entry names: a
 * merge makes their digests among the others'. */
static size_t unpaired_digests(int setting)
{
    reduction r;
    assert_int_equal(reduction_run_body(&r, &FAULTY[setting], FAULTY_FLOATS,
                                        reduce_gather_broadcast),
                     LS_OK);
    const ls_comm *comm = r.comm;
    const int world_size = comm->world_size;
    const int slices = ls_ring_slice_count(FAULTY_FLOATS, world_size, comm->config.slice_floats);
    const int merges = comm->algorithm == LS_ALGORITHM_RING ? world_size - 1
                                                            : ls_comm_is_owner(comm, 1);
    const int columns = comm->algorithm == LS_ALGORITHM_RING ? 1 : 2; /* seen; direct: sent too */
    const int unpaired = slices * merges * columns * comm->rank[1].own_count;
    reduction_close(&r);
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

static ls_status alter_and_note(reduction *r, int rank, reduction_rank *mine)
{
    LS_TRY(reduction_rank_run(r, rank));
    LS_TRY(reduction_submit(r, rank, 4, FAULTY_FLOATS, mine->piece_count));
    if (r->comm->rank[rank].result_count != 0)
        return ls_fail(LS_ERR_VERIFY, "rank %d: a result has been noted", rank);
    LS_TRY(ls_comm_verify(r->comm, rank));
    if (rank == 1) mine->result[7] += 1;
    LS_TRY(ls_comm_note(r->comm, rank, 5, mine->result, FAULTY_FLOATS));
    return ls_comm_verify(r->comm, rank);
}

/* Results that are left to the caller are not compared, until it asks for that. */
static void test_an_unnoted_result_is_compared_once_it_is_noted(void **state)
{
    (void)state;
    const reduction_settings settings = { .world_size = 3, .shard_count = 8, .unnoted = true,
                                          .count_max = 500 };
    reduction r;
    assert_int_equal(reduction_run_body(&r, &settings, FAULTY_FLOATS, alter_and_note),
                     LS_ERR_DIVERGED);
    assert_non_null(strstr(ls_last_error(), "bucket 5: the result of rank 1 has digest "));
    reduction_close(&r);
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
            reduction r;
            f = (fault){ .kind = copy ? FAULT_COPY : FAULT_RECORD, .n = copy ? n : n - copies };
            assert_int_equal(run_with_fault(FAULTY[i], &f, &r), LS_ERR_DEVICE);
            reduction_close(&r);
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
            reduction r;
            f = (fault){ .kind = FAULT_STALL_COPY, .n = n };
            assert_int_equal(run_with_fault(settings, &f, &r), LS_ERR_TIMEOUT);
            assert_non_null(strstr(ls_last_error(), "within the timeout"));
            assert_false(ls_comm_drain(r.comm, 1, 0.0));
            atomic_store(&f.released, true);
            assert_true(ls_comm_drain(r.comm, 1, 1.0));
            reduction_close(&r);
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
    reduction r;
    int step = -1;
    const ls_status status = reduction_run_body(&r, &settings, 500, reduce_and_release);
    *copies = atomic_load(&f.copies);
    const char *at = strstr(ls_last_error(), "bucket 0, ring step ");
    if (status == LS_ERR_TIMEOUT && at != NULL) (void)sscanf(at, "bucket 0, ring step %d", &step);
    if (kind != FAULT_NONE && (step < 0 || strstr(at, "link 1 -> 2 (PEER): the ") == NULL)) {
        fail_msg("copy %ld, fault %d: %s", n, (int)kind, ls_last_error());
    }
    reduction_close(&r);
    return step;
}

static void test_a_rank_that_stalls_at_any_ring_step_is_named_with_its_link(void **state)
{
    (void)state;
    long copies = 0, ignored;
    (void)stalled_step(FAULT_NONE, 0, &copies);
    assert_true(copies >= 6);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unnoted_result_is_compared_once_it_is_noted),
        cmocka_unit_test(test_a_bit_flipped_in_any_copy_is_found_and_placed),
        cmocka_unit_test(test_any_copy_or_record_that_fails_ends_the_run),
        cmocka_unit_test(test_a_copy_that_never_ends_is_a_timeout_that_names_its_place),
        cmocka_unit_test(test_a_rank_that_stalls_at_any_ring_step_is_named_with_its_link),
        cmocka_unit_test(test_any_allocation_that_fails_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
