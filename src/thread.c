/* SPDX-License-Identifier: MIT */
/* thread.c -- rank threads: start, meet, exchange a few bytes, fail together, be joined.
 *
 * What a wait is (ls_wait) is in wait.c, the compute threads of one replica are in pool.c.
 *
 * The barrier is central and counts its rounds (the general form of a sense-reversing barrier
 * [Mellor-Crummey & Scott, "Algorithms for scalable synchronization on shared-memory
 * multiprocessors", ACM TOCS 1991]): a waiter does not wait for the counter to fall back to zero,
 * which the next round may prevent it from ever seeing, but for the round number to move on.
 *
 *     rank r                              the last rank to come
 *     my = round                          my = round
 *     arrived += 1          -- 1 -->      arrived += 1, sees N
 *     poll until round != my              arrived = 0
 *                           <-- 2 --      round = my + 1
 *
 * Happens-before. Edge 1: every arrival is a read-modify-write (acquire and release) of `arrived`,
 * so the last one to come has seen what every rank wrote before it came. Edge 2: it releases
 * `round`, which the others acquire; what it has seen, they see. The reset of `arrived` is ordered
 * before edge 2, hence before any arrival of the next round.
 *
 * Abort and deadline: the poll is an ls_wait. A rank that leaves a barrier early leaves it broken,
 * and that is all right, because it leaves only with ABORTED or TIMEOUT: the first ends every
 * wait of the group from now on, the second is a cause that its rank function returns, which
 * aborts the group.
 *
 * The exchange needs one barrier, not two: a rank's slot has two halves, used in turn. Half h is
 * written for exchange k and again for k + 2. Between them lies the barrier of k + 1, which every
 * reader of k enters after it has read.
 *
 * Joining: pthread_join has no deadline, so each rank's last act is to count itself as returned,
 * under the lock, and the main thread waits for that count on a condition variable: without a
 * deadline while all is well (each wait of each rank has its own), with one after a failure.
 *
 * Invariants
 *  1. `aborted` goes from false to true once and never back.
 *  2. status, rank, text and place of the cause are written once, before `aborted` is set.
 *  3. A rank's arrival count says how many meetings it has come to; the ranks behind the largest
 *     count are those that did not come.
 */
#include "thread.h"

#include <assert.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plural.h"
#include "sizes.h"

enum { STACK_BYTES = 8 << 20 }; /* of a rank thread */

static const double GRACE_S = 1.0; /* beyond its timeout, for a rank to return after a failure */

typedef struct {
    _Alignas(LS_LINE_BYTES) atomic_ulong arrivals; /* meetings this rank has come to; its own */
    unsigned long exchanges;                       /* exchanges it has taken part in; its own */
    size_t bytes[2];                               /* of each half; ordered by the barrier */
    unsigned char half[2][LS_EXCHANGE_BYTES];      /* ordered by the barrier */
    pthread_t thread;                              /* the main thread's */
    ls_group *group;                               /* borrowed; written before spawn */
    int rank;                                      /* written before spawn */
    bool returned;                                 /* under lock */
} rank_slot;

struct ls_group {
    int world_size;                        /* written before spawn */
    double timeout_s;                      /* written before spawn */
    ls_rank_fn *fn;                        /* written before spawn */
    void *arg;                             /* written before spawn */
    rank_slot *slot;                       /* owned; [world_size] */
    atomic_ulong progress;
    atomic_bool aborted;
    _Alignas(LS_LINE_BYTES) atomic_int arrived; /* ranks in the current round of the barrier */
    atomic_ulong round;                      /* rounds completed */
    pthread_mutex_t lock;
    pthread_cond_t changed;                /* a rank has returned, or the group was aborted */
    int returned_count;                    /* under lock */
    double abort_time;                     /* under lock; when `aborted` was set */
    ls_status status;                      /* under lock; the cause, LS_OK: none yet */
    int rank;                              /* under lock; whose it is, -1: no rank's */
    char text[LS_MESSAGE_BYTES];           /* under lock */
    char place[LS_MESSAGE_BYTES];          /* under lock */
};

/* -- the group ------------------------------------------------------------------------------- */

/* Lock and condition variable; the latter on the monotonic clock, so that setting the machine's
 * date moves no deadline. */
static ls_status group_lock_init(ls_group *group)
{
    pthread_condattr_t attribute;
    int failed = pthread_condattr_init(&attribute);
    if (failed == 0) {
        failed = pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
        if (failed == 0) failed = pthread_cond_init(&group->changed, &attribute);
        (void)pthread_condattr_destroy(&attribute);
    }
    if (failed != 0)
        return ls_fail(LS_ERR_MEMORY, "group: condition variable: %s", strerror(failed));
    failed = pthread_mutex_init(&group->lock, NULL);
    if (failed == 0) return LS_OK;
    (void)pthread_cond_destroy(&group->changed);
    return ls_fail(LS_ERR_MEMORY, "group: mutex: %s", strerror(failed));
}

ls_status ls_group_create(int world_size, double timeout_s, ls_group **out)
{
    assert(world_size >= 1);
    *out = NULL;
    const size_t slots_bytes = (size_t)world_size * sizeof(rank_slot);
    ls_group *group = aligned_alloc(LS_LINE_BYTES, sizeof *group);
    rank_slot *slot = aligned_alloc(LS_LINE_BYTES, slots_bytes);
    ls_status status = LS_OK;
    if (group == NULL || slot == NULL) {
        status = ls_fail(LS_ERR_MEMORY, "group of %d ranks: %zu bytes asked", world_size,
                         sizeof *group + slots_bytes);
        goto done;
    }
    memset(group, 0, sizeof *group);
    memset(slot, 0, slots_bytes);
    status = group_lock_init(group);
    if (status != LS_OK) goto done;
    for (int rank = 0; rank < world_size; rank++) {
        atomic_init(&slot[rank].arrivals, 0);
        slot[rank].group = group;
        slot[rank].rank = rank;
    }
    atomic_init(&group->progress, 0);
    atomic_init(&group->aborted, false);
    atomic_init(&group->arrived, 0);
    atomic_init(&group->round, 0);
    group->world_size = world_size;
    group->timeout_s = timeout_s;
    group->slot = slot;
    *out = group;
    group = NULL;
    slot = NULL;
done:
    free(slot);
    free(group);
    return status;
}

void ls_group_destroy(ls_group *group)
{
    if (group == NULL) return;
    (void)pthread_mutex_destroy(&group->lock);
    (void)pthread_cond_destroy(&group->changed);
    free(group->slot);
    free(group);
}

int ls_group_world_size(const ls_group *group) { return group->world_size; }

double ls_group_timeout(const ls_group *group) { return group->timeout_s; }

atomic_ulong *ls_group_progress(ls_group *group) { return &group->progress; }

bool ls_group_is_aborted(const ls_group *group)
{
    return atomic_load_explicit(&group->aborted, memory_order_acquire);
}

void ls_group_abort(ls_group *group, int rank, ls_status status)
{
    assert(rank < group->world_size && status != LS_OK);
    (void)pthread_mutex_lock(&group->lock);
    if (group->status == LS_OK && status != LS_ERR_ABORTED) {
        group->status = status;
        group->rank = rank;
        (void)snprintf(group->text, sizeof group->text, "%s", ls_last_error());
        (void)snprintf(group->place, sizeof group->place, "%s", ls_last_error_place());
    }
    if (!ls_group_is_aborted(group)) {
        group->abort_time = ls_clock();
        atomic_store_explicit(&group->aborted, true, memory_order_release);
    }
    (void)pthread_cond_broadcast(&group->changed);
    (void)pthread_mutex_unlock(&group->lock);
}

/* -- run and join ---------------------------------------------------------------------------- */

/* FE_DFL_ENV is, on x86-64, MXCSR 0x1F80: round to nearest, subnormal numbers kept, no traps. A
 * thread inherits the setting of the one that created it, so it is set, not assumed. */
static void *rank_main(void *argument)
{
    rank_slot *slot = argument;
    ls_group *group = slot->group;
    (void)fesetenv(FE_DFL_ENV);
    const ls_status status = group->fn(slot->rank, group->arg);
    if (status != LS_OK) ls_group_abort(group, slot->rank, status);
    (void)pthread_mutex_lock(&group->lock);
    slot->returned = true;
    group->returned_count++;
    (void)pthread_cond_broadcast(&group->changed);
    (void)pthread_mutex_unlock(&group->lock);
    return NULL;
}

int ls_thread_start(pthread_t *thread, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attribute;
    int failed = pthread_attr_init(&attribute);
    if (failed != 0) return failed;
    failed = pthread_attr_setstacksize(&attribute, stack_bytes);
    if (failed == 0) failed = pthread_create(thread, &attribute, fn, arg);
    (void)pthread_attr_destroy(&attribute);
    return failed;
}

/* Start the ranks; returns how many are running. If one cannot be started the group is aborted. */
static int group_start(ls_group *group)
{
    int started = 0, failed = 0;
    while (failed == 0 && started < group->world_size) {
        rank_slot *slot = &group->slot[started];
        failed = ls_thread_start(&slot->thread, STACK_BYTES, rank_main, slot);
        if (failed == 0) started++;
    }
    if (failed != 0)
        ls_group_abort(group, started,
                       ls_fail(LS_ERR_MEMORY, "thread not started: %s", strerror(failed)));
    return started;
}

/* When a rank that has not returned is given up. After any other failure it may be in the middle of
 * something long; a timeout it has already had. */
static double join_deadline(const ls_group *group)
{
    const double timeout_s = group->status == LS_ERR_TIMEOUT ? 0 : group->timeout_s;
    return group->abort_time + timeout_s + GRACE_S;
}

/* Wait until `started` ranks have returned, or until the grace after a failure is over. */
static void group_wait_returned(ls_group *group, int started)
{
    bool in_time = true;
    (void)pthread_mutex_lock(&group->lock);
    while (group->returned_count < started && in_time) {
        if (!ls_group_is_aborted(group)) {
            (void)pthread_cond_wait(&group->changed, &group->lock);
            continue;
        }
        const double until = join_deadline(group);
        const time_t whole = (time_t)until;
        const struct timespec deadline = { .tv_sec = whole,
                                           .tv_nsec = (long)((until - (double)whole) * 1e9) };
        in_time = pthread_cond_timedwait(&group->changed, &group->lock, &deadline) != ETIMEDOUT;
    }
    (void)pthread_mutex_unlock(&group->lock);
}

/* Make the cause, prefixed by its rank, the record of the calling thread, and return its code.
 * `stuck`: a rank that cannot be joined, named behind the cause, or -1. */
static ls_status group_report(ls_group *group, int stuck)
{
    char text[LS_MESSAGE_BYTES + 128];
    char whose[32] = "";
    char behind[80] = "";
    (void)pthread_mutex_lock(&group->lock);
    const ls_status status = group->status != LS_OK ? group->status : LS_ERR_ABORTED;
    if (group->status != LS_OK && group->rank >= 0)
        (void)snprintf(whose, sizeof whose, "rank %d: ", group->rank);
    if (stuck >= 0)
        (void)snprintf(behind, sizeof behind, " (rank %d did not return and was left behind)",
                       stuck);
    const char *cause = group->text[0] != '\0' ? group->text : "stopped without saying why";
    (void)snprintf(text, sizeof text, "%s%s%s", whose, cause, behind);
    (void)pthread_mutex_unlock(&group->lock);
    return ls_fail_again(status, text, group->place);
}

/* Join the ranks that have returned; the number of the first that has not, or -1. */
static int group_join(ls_group *group, int started)
{
    int stuck = -1;
    for (int rank = started - 1; rank >= 0; rank--) {
        (void)pthread_mutex_lock(&group->lock);
        const bool returned = group->slot[rank].returned;
        (void)pthread_mutex_unlock(&group->lock);
        if (returned)
            (void)pthread_join(group->slot[rank].thread, NULL);
        else
            stuck = rank;
    }
    return stuck;
}

ls_status ls_group_run(ls_group *group, ls_rank_fn *fn, void *arg, void (*on_stuck)(void))
{
    group->fn = fn;
    group->arg = arg;
    group->returned_count = 0;
    for (int rank = 0; rank < group->world_size; rank++) group->slot[rank].returned = false;
    const int started = group_start(group);
    group_wait_returned(group, started);
    const int stuck = group_join(group, started);
    const ls_status status = ls_group_is_aborted(group) ? group_report(group, stuck) : LS_OK;
    if (stuck >= 0) {
        on_stuck();
        assert(!"on_stuck must not return: the stuck thread uses what its caller would free");
    }
    return status;
}

/* -- meeting --------------------------------------------------------------------------------- */

/* Say which ranks are missing at meeting number `meeting`. */
static ls_status barrier_late(ls_group *group, unsigned long meeting, const char *what)
{
    char missing[128] = "";
    size_t used = 0;
    int count = 0;
    for (int rank = 0; rank < group->world_size; rank++) {
        if (atomic_load(&group->slot[rank].arrivals) >= meeting) continue;
        count++;
        if (used + 8 >= sizeof missing) continue;
        used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", rank);
    }
    return ls_fail(LS_ERR_TIMEOUT, "%s: waited %g s for rank%s%s, which did not come", what,
                   group->timeout_s, LS_PLURAL(count), missing);
}

ls_status ls_barrier_wait(ls_group *group, int rank, const char *what)
{
    assert(0 <= rank && rank < group->world_size);
    if (ls_group_is_aborted(group)) return LS_ERR_ABORTED;
    const unsigned long my = atomic_load_explicit(&group->round, memory_order_relaxed);
    const unsigned long meeting = atomic_fetch_add(&group->slot[rank].arrivals, 1) + 1;
    if (atomic_fetch_add_explicit(&group->arrived, 1, memory_order_acq_rel) + 1 ==
        group->world_size) {
        atomic_store_explicit(&group->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&group->round, my + 1, memory_order_release);
        return LS_OK;
    }
    ls_wait wait = ls_wait_begin(group);
    while (atomic_load_explicit(&group->round, memory_order_acquire) == my) {
        const ls_status status = ls_wait_poll(&wait);
        if (status == LS_ERR_TIMEOUT) return barrier_late(group, meeting, what);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

ls_status ls_group_exchange(ls_group *group, int rank, const void *mine, size_t bytes, void *all,
                            const char *what)
{
    if (bytes > LS_EXCHANGE_BYTES)
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu bytes to exchange, %d is the most", what, bytes,
                       LS_EXCHANGE_BYTES);
    rank_slot *slot = &group->slot[rank];
    const unsigned long half = slot->exchanges++ % 2;
    slot->bytes[half] = bytes;
    if (bytes > 0) memcpy(slot->half[half], mine, bytes);
    LS_TRY(ls_barrier_wait(group, rank, what));
    for (int other = 0; other < group->world_size; other++) {
        const rank_slot *from = &group->slot[other];
        if (from->bytes[half] != bytes)
            return ls_fail(LS_ERR_ARGUMENT, "%s: rank %d gave %zu bytes, rank %d %zu", what, rank,
                           bytes, other, from->bytes[half]);
        if (bytes > 0)
            memcpy((unsigned char *)all + (size_t)other * bytes, from->half[half], bytes);
    }
    return LS_OK;
}
