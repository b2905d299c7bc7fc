/* SPDX-License-Identifier: MIT */
/* test_thread.c -- ranks that meet, exchange, fail together and are joined; waits; how threads
 * round.
 *
 * Time: deadlines here are short, and what is asserted is which code and text come out, never how
 * long it took. Rank functions return a status; the main thread asserts.
 */
#include "support/test.h"

#include <fenv.h>
#include <float.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "thread.h"

static const double LONG_S = 60.0;  /* a deadline that is not meant to pass */
static const double SHORT_S = 0.05; /* one that is */

typedef struct {
    ls_group *group;
    int world_size;
    int culprit;
    long *cell;            /* plain memory: the thread sanitizer sees a missing edge */
} context;

static context context_make(int world_size, double timeout_s)
{
    context c = { .world_size = world_size, .culprit = world_size / 2 };
    assert_int_equal(ls_group_create(world_size, timeout_s, &c.group), LS_OK);
    c.cell = calloc((size_t)world_size, sizeof *c.cell);
    assert_non_null(c.cell);
    return c;
}

static void context_free(context *c)
{
    ls_group_destroy(c->group);
    free(c->cell);
}

/* -- barrier --------------------------------------------------------------------------------- */

enum { ROUNDS = 500 };

/* Each round every rank writes its cell, meets, reads all cells, meets. */
static ls_status write_meet_read(int rank, void *arg)
{
    context *c = arg;
    for (long round = 1; round <= ROUNDS; round++) {
        c->cell[rank] = round;
        LS_TRY(ls_barrier_wait(c->group, rank, "written"));
        for (int r = 0; r < c->world_size; r++)
            if (c->cell[r] != round)
                return ls_fail(LS_ERR_VERIFY, "round %ld: cell %d is %ld", round, r, c->cell[r]);
        LS_TRY(ls_barrier_wait(c->group, rank, "read"));
    }
    return LS_OK;
}

static void test_what_ranks_wrote_before_a_barrier_all_read_after_it(void **state)
{
    (void)state;
    static const int world[] = { 1, 2, 3, 5, 8 };
    for (size_t i = 0; i < sizeof world / sizeof world[0]; i++) {
        context c = context_make(world[i], LONG_S);
        assert_int_equal(run_ranks_in(c.group, write_meet_read, &c, NULL), LS_OK);
        /* A group that ended well may run again. */
        assert_int_equal(run_ranks_in(c.group, write_meet_read, &c, NULL), LS_OK);
        assert_false(ls_group_is_aborted(c.group));
        context_free(&c);
    }
}

static ls_status only_rank_0_comes(int rank, void *arg)
{
    context *c = arg;
    if (rank == 0) return ls_barrier_wait(c->group, rank, "meeting");
    while (!ls_group_is_aborted(c->group)) (void)sched_yield();
    return LS_OK;
}

static void test_a_barrier_that_times_out_names_who_did_not_come(void **state)
{
    (void)state;
    context c = context_make(2, SHORT_S);
    assert_int_equal(run_ranks_in(c.group, only_rank_0_comes, &c, NULL), LS_ERR_TIMEOUT);
    assert_string_equal(ls_last_error(),
                        "rank 0: meeting: waited 0.05 s for rank 1, which did not come");
    context_free(&c);
    c = context_make(4, SHORT_S);
    assert_int_equal(run_ranks_in(c.group, only_rank_0_comes, &c, NULL), LS_ERR_TIMEOUT);
    assert_string_equal(ls_last_error(),
                        "rank 0: meeting: waited 0.05 s for ranks 1 2 3, which did not come");
    context_free(&c);
}

/* -- failure --------------------------------------------------------------------------------- */

static ls_status one_fails_others_wait(int rank, void *arg)
{
    context *c = arg;
    if (rank == c->culprit) return ls_fail(LS_ERR_NONFINITE, "loss is %d", 42);
    return ls_barrier_wait(c->group, rank, "never complete");
}

static void test_a_failing_rank_releases_the_others_and_is_the_cause(void **state)
{
    (void)state;
    for (int culprit = 0; culprit < 5; culprit++) {
        context c = context_make(5, LONG_S);
        c.culprit = culprit;
        ls_status status[5];
        char text[80];
        assert_int_equal(run_ranks_in(c.group, one_fails_others_wait, &c, status),
                         LS_ERR_NONFINITE);
        (void)snprintf(text, sizeof text, "rank %d: loss is 42", culprit);
        assert_string_equal(ls_last_error(), text);
        assert_non_null(strstr(ls_last_error_place(), "test_thread.c:"));
        for (int rank = 0; rank < 5; rank++)
            assert_int_equal(status[rank],
                             rank == culprit ? LS_ERR_NONFINITE : LS_ERR_ABORTED);
        assert_true(ls_group_is_aborted(c.group));
        context_free(&c);
    }
}

/* Rank 1 fails first; the others fail after they have seen that. */
static ls_status all_fail_rank_1_first(int rank, void *arg)
{
    context *c = arg;
    while (rank != 1 && !ls_group_is_aborted(c->group)) (void)sched_yield();
    return ls_fail(rank == 1 ? LS_ERR_DEVICE : LS_ERR_MEMORY, "of rank %d", rank);
}

static void test_the_first_cause_wins(void **state)
{
    (void)state;
    context c = context_make(4, LONG_S);
    assert_int_equal(run_ranks_in(c.group, all_fail_rank_1_first, &c, NULL), LS_ERR_DEVICE);
    assert_string_equal(ls_last_error(), "rank 1: of rank 1");
    context_free(&c);
}

/* Rank 0 stops with ABORTED, which is no cause; rank 1 has one, later. */
static ls_status aborted_before_the_cause(int rank, void *arg)
{
    context *c = arg;
    if (rank == 0) return LS_ERR_ABORTED;
    while (!ls_group_is_aborted(c->group)) (void)sched_yield();
    return ls_fail(LS_ERR_IO, "disk full");
}

static void test_aborted_is_never_the_cause(void **state)
{
    (void)state;
    context c = context_make(2, LONG_S);
    assert_int_equal(run_ranks_in(c.group, aborted_before_the_cause, &c, NULL), LS_ERR_IO);
    assert_string_equal(ls_last_error(), "rank 1: disk full");
    context_free(&c);
}

static ls_status wait_for_a_barrier(int rank, void *arg)
{
    context *c = arg;
    return ls_barrier_wait(c->group, rank, "nobody needs it");
}

static void test_a_failure_outside_the_ranks_stops_them_and_has_no_rank(void **state)
{
    (void)state;
    context c = context_make(2, LONG_S);
    ls_group_abort(c.group, -1, ls_fail(LS_ERR_FORMAT, "record 3: bad label"));
    ls_status status[2];
    assert_int_equal(run_ranks_in(c.group, wait_for_a_barrier, &c, status), LS_ERR_FORMAT);
    assert_string_equal(ls_last_error(), "record 3: bad label");
    assert_int_equal(status[0], LS_ERR_ABORTED);
    assert_int_equal(status[1], LS_ERR_ABORTED);
    context_free(&c);
}

static void say_and_exit(void)
{
    if (strstr(ls_last_error(), "rank 0: gave up") == NULL) _exit(77);
    if (strstr(ls_last_error(), "rank 1 did not return") == NULL) _exit(78);
    _exit(5);
}

static ls_status rank_1_never_returns(int rank, void *arg)
{
    (void)arg;
    if (rank == 0) return ls_fail(LS_ERR_TIMEOUT, "gave up");
    for (;;) (void)pause();
}

/* In a child, because a thread that cannot be joined cannot be got rid of. */
static void test_a_rank_that_never_returns_ends_in_on_stuck_with_the_cause(void **state)
{
    (void)state;
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_group *group = NULL;
        if (ls_group_create(2, SHORT_S, &group) != LS_OK) _exit(79);
        const ls_status status = ls_group_run(group, rank_1_never_returns, NULL, say_and_exit);
        _exit(status == LS_OK ? 80 : 81);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
}

/* -- exchange -------------------------------------------------------------------------------- */

static ls_status exchange_many(int rank, void *arg)
{
    context *c = arg;
    uint32_t all[8];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t mine = round * 100 + (uint32_t)rank;
        LS_TRY(ls_group_exchange(c->group, rank, &mine, sizeof mine, all, "numbers"));
        for (int r = 0; r < c->world_size; r++)
            if (all[r] != round * 100 + (uint32_t)r)
                return ls_fail(LS_ERR_VERIFY, "round %u: rank %d gave %u", round, r, all[r]);
    }
    return LS_OK;
}

static void test_an_exchange_gives_every_rank_what_every_rank_gave(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 8; world_size++) {
        context c = context_make(world_size, LONG_S);
        assert_int_equal(run_ranks_in(c.group, exchange_many, &c, NULL), LS_OK);
        context_free(&c);
    }
}

static ls_status exchange_of_all_lengths(int rank, void *arg)
{
    context *c = arg;
    unsigned char mine[LS_EXCHANGE_BYTES], all[2 * LS_EXCHANGE_BYTES];
    for (size_t bytes = 0; bytes <= LS_EXCHANGE_BYTES; bytes += 64) {
        memset(mine, rank + 1, sizeof mine);
        memset(all, 0, sizeof all);
        LS_TRY(ls_group_exchange(c->group, rank, mine, bytes, all, "bytes"));
        for (size_t i = 0; i < sizeof all; i++)
            if (all[i] != (i < bytes ? 1 : i < 2 * bytes ? 2 : 0))
                return ls_fail(LS_ERR_VERIFY, "%zu bytes: byte %zu is %d", bytes, i, all[i]);
    }
    return ls_group_exchange(c->group, rank, mine, LS_EXCHANGE_BYTES + 1, all, "too long");
}

static void test_an_exchange_takes_0_to_256_bytes_and_no_more(void **state)
{
    (void)state;
    context c = context_make(2, LONG_S);
    assert_int_equal(run_ranks_in(c.group, exchange_of_all_lengths, &c, NULL), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_last_error(), "too long: 257 bytes to exchange, 256 is the most"));
    context_free(&c);
}

static ls_status exchange_unequal(int rank, void *arg)
{
    context *c = arg;
    const uint64_t mine = 0;
    uint64_t all[2];
    return ls_group_exchange(c->group, rank, &mine, rank == 0 ? 4 : 8, all, "digest");
}

static void test_an_exchange_of_unequal_lengths_is_an_error(void **state)
{
    (void)state;
    context c = context_make(2, LONG_S);
    ls_status status[2];
    assert_int_equal(run_ranks_in(c.group, exchange_unequal, &c, status), LS_ERR_ARGUMENT);
    for (int rank = 0; rank < 2; rank++) /* who sees it second may be stopped by who saw it first */
        assert_true(status[rank] == LS_ERR_ARGUMENT || status[rank] == LS_ERR_ABORTED);
    assert_non_null(strstr(ls_last_error(), "digest: rank "));
    context_free(&c);
}

/* -- wait ------------------------------------------------------------------------------------ */

static void test_a_wait_ends_by_deadline_and_writes_no_record(void **state)
{
    (void)state;
    context c = context_make(1, SHORT_S);
    (void)ls_fail(LS_ERR_IO, "the record");
    ls_wait wait = ls_wait_begin(c.group);
    ls_status status = LS_OK;
    while (status == LS_OK) status = ls_wait_poll(&wait);
    assert_int_equal(status, LS_ERR_TIMEOUT);
    assert_string_equal(ls_last_error(), "the record");
    context_free(&c);
}

static void test_progress_of_any_rank_starts_a_deadline_again(void **state)
{
    (void)state;
    context c = context_make(1, LONG_S);
    ls_wait wait = ls_wait_begin(c.group);
    while (wait.poll_count < 200) assert_int_equal(ls_wait_poll(&wait), LS_OK);
    wait.deadline -= 2 * LONG_S;
    (void)atomic_fetch_add(ls_group_progress(c.group), 1);
    assert_int_equal(ls_wait_poll(&wait), LS_OK);
    assert_int_equal(ls_wait_poll(&wait), LS_OK);
    wait.deadline -= 2 * LONG_S;
    assert_int_equal(ls_wait_poll(&wait), LS_ERR_TIMEOUT);
    context_free(&c);
}

static void test_a_wait_ends_when_the_group_is_aborted(void **state)
{
    (void)state;
    context c = context_make(1, LONG_S);
    ls_wait wait = ls_wait_begin(c.group);
    assert_int_equal(ls_wait_poll(&wait), LS_OK);
    ls_group_abort(c.group, 0, ls_fail(LS_ERR_IO, "the cause"));
    assert_int_equal(ls_wait_poll(&wait), LS_ERR_ABORTED);
    assert_int_equal(ls_barrier_wait(c.group, 0, "after the end"), LS_ERR_ABORTED);
    context_free(&c);
}

static void test_a_wait_does_not_count_the_time_in_which_the_process_was_stopped(void **state)
{
    (void)state;
    context c = context_make(1, 2.0);
    ls_wait wait = ls_wait_begin(c.group);
    while (wait.poll_count < 200) assert_int_equal(ls_wait_poll(&wait), LS_OK);
    /* As if the last poll had been 100 s ago, and the deadline with it. */
    wait.polled -= 100.0;
    wait.deadline -= 100.0;
    assert_int_equal(ls_wait_poll(&wait), LS_OK);
    /* A deadline that passed while it was polled counts. */
    wait.deadline -= 100.0;
    assert_int_equal(ls_wait_poll(&wait), LS_ERR_TIMEOUT);
    context_free(&c);
}

static void test_a_wait_without_a_group_has_a_deadline_too(void **state)
{
    (void)state;
    ls_wait wait = ls_wait_begin(NULL);
    ls_status status = LS_OK;
    while (wait.poll_count < 200 && status == LS_OK) status = ls_wait_poll(&wait);
    assert_int_equal(status, LS_OK);
    wait.deadline -= 61.0;
    assert_int_equal(ls_wait_poll(&wait), LS_ERR_TIMEOUT);
}

/* -- arithmetic of the threads ---------------------------------------------------------------- */

/* Round to nearest, and subnormal numbers that stay. */
static ls_status check_arithmetic(void)
{
    if (fegetround() != FE_TONEAREST) return ls_fail(LS_ERR_VERIFY, "rounding is not to nearest");
    volatile float smallest = FLT_MIN;
    volatile float half = smallest * 0.5f;
    if (half == 0.0f || half + half != smallest)
        return ls_fail(LS_ERR_VERIFY, "subnormal numbers are flushed to zero");
    volatile float one = 1.0f, tiny = 0x1p-30f;
    if (one + tiny != one) return ls_fail(LS_ERR_VERIFY, "1 + 2^-30 is not rounded to 1");
    return LS_OK;
}

static ls_status rank_arithmetic(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    return check_arithmetic();
}

/* The first task waits for the second, so two threads have run one each. */
static void task_arithmetic(void *arg, size_t task, int thread)
{
    atomic_int *state = arg;
    (void)thread;
    if (task == 0)
        while (atomic_load(&state[1]) == 0) (void)sched_yield();
    atomic_store(&state[task], check_arithmetic() == LS_OK ? 1 : 2);
}

static void test_threads_round_to_nearest_whatever_their_creator_does(void **state)
{
    (void)state;
    atomic_int task_state[2];
    atomic_init(&task_state[0], 0);
    atomic_init(&task_state[1], 0);
    context c = context_make(2, LONG_S);
    assert_int_equal(fesetround(FE_UPWARD), 0);
    ls_pool *pool = NULL;
    const ls_status created = ls_pool_create(2, false, &pool);
    const ls_status ran = run_ranks_in(c.group, rank_arithmetic, NULL, NULL);
    (void)fesetenv(FE_DFL_ENV);
    assert_int_equal(created, LS_OK);
    assert_int_equal(ran, LS_OK);
    ls_pool_run(pool, 2, task_arithmetic, task_state);
    assert_int_equal(atomic_load(&task_state[0]), 1);
    assert_int_equal(atomic_load(&task_state[1]), 1);
    ls_pool_destroy(pool);
    context_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_ranks_wrote_before_a_barrier_all_read_after_it),
        cmocka_unit_test(test_a_barrier_that_times_out_names_who_did_not_come),
        cmocka_unit_test(test_a_failing_rank_releases_the_others_and_is_the_cause),
        cmocka_unit_test(test_the_first_cause_wins),
        cmocka_unit_test(test_aborted_is_never_the_cause),
        cmocka_unit_test(test_a_failure_outside_the_ranks_stops_them_and_has_no_rank),
        cmocka_unit_test(test_a_rank_that_never_returns_ends_in_on_stuck_with_the_cause),
        cmocka_unit_test(test_an_exchange_gives_every_rank_what_every_rank_gave),
        cmocka_unit_test(test_an_exchange_takes_0_to_256_bytes_and_no_more),
        cmocka_unit_test(test_an_exchange_of_unequal_lengths_is_an_error),
        cmocka_unit_test(test_a_wait_ends_by_deadline_and_writes_no_record),
        cmocka_unit_test(test_progress_of_any_rank_starts_a_deadline_again),
        cmocka_unit_test(test_a_wait_ends_when_the_group_is_aborted),
        cmocka_unit_test(test_a_wait_does_not_count_the_time_in_which_the_process_was_stopped),
        cmocka_unit_test(test_a_wait_without_a_group_has_a_deadline_too),
        cmocka_unit_test(test_threads_round_to_nearest_whatever_their_creator_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
