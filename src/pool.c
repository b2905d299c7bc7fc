/* SPDX-License-Identifier: MIT */
/* pool.c -- compute threads of one replica: cut a loop into tasks, run them, wait for all.
 *
 * Each of T threads has a share of the n tasks, tasks t n / T to (t + 1) n / T - 1, and a counter
 * of those that nobody has taken yet: whoever lowers it from k > 0 owns the share's k-th task from
 * its end. A thread takes its own share first, then what is left of the others', those behind it
 * first. So where all come in time a thread works on the same part of a batch in every job, on
 * what its core's caches hold; and a share whose thread does not come is done by those that do.
 *
 *     caller                                      helper t
 *     fn, arg, task_count, unfinished = n
 *     left = its size, of each share
 *     opened += 1                  -- 1 -->       opened is not what it was: claim, claim ...
 *     claim, claim ... until none is left         run what was claimed
 *     wait for unfinished == 0     <-- 2 --       unfinished -= tasks I ran
 *
 * Invariants
 *  1. A thread that owns a task holds the job open: unfinished > 0 until it has counted its tasks
 *     off, and the caller does not leave before. So fn, arg and task_count are read only after a
 *     claim, and cannot change under a reader.
 *  2. A helper that is late claims from whatever job is open then, be its shares all there or not
 *     yet, or finds nothing. The caller never waits for a helper that has not claimed anything: on
 *     a busy machine the caller does all of a small job alone.
 *
 * Happens-before. Edge 1: the store to `left` releases fn, arg and the caller's data; a claim
 * acquires them (claims are read-modify-writes, so they continue the store's release sequence, and
 * the tenth claim synchronizes with the store like the first). Edge 2: counting off releases what
 * the tasks wrote; the caller's load of zero acquires it from all threads, again by the release
 * sequence. `opened` only says that there is something new to look for.
 *
 * Sleep: a thread with nothing to do polls, if `spin`, for some 20 us at once and for some 500 us
 * with a yield between two looks, so that a reader of samples gets the core if it wants it; else it
 * yields a few times. Then it sleeps on a condition variable. (What the caller does alone between
 * the jobs of a step takes tens of microseconds, and to wake a sleeper about as long.) No wake-up
 * is lost: the sleeper first says that it sleeps, then looks for work a last time; the caller first
 * publishes the work, then looks for sleepers. All four are sequentially consistent, so at least
 * one of them sees the other; and the sleeper holds the lock from its word to its sleep, so the
 * caller's signal, under the lock, finds it asleep. The caller's own sleep, for `unfinished`, works
 * the same way. These waits have no deadline of their own: they end when tasks end, and a task is a
 * finite loop that waits for nobody.
 */
#include "sizes.h"
#include "thread.h"

#include <assert.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    YIELD_POLLS = 20,      /* polls before a thread that may not spin goes to sleep */
    STACK_BYTES = 2 << 20  /* of a helper */
};

static const double SPIN_S = 20e-6, YIELD_S = 500e-6;

typedef struct {
    pthread_t thread;
    ls_pool *pool; /* borrowed */
    int number;    /* 1 .. thread_count-1 */
} helper;

typedef struct {
    _Alignas(LS_LINE_BYTES) atomic_llong left; /* may fall below 0, by less than thread_count */
} share;

struct ls_pool {
    int thread_count;            /* written before spawn */
    int started;                 /* helpers running; the owner's */
    bool spin;                   /* written before spawn */
    helper *helpers;             /* owned; [thread_count - 1] */
    unsigned char *scratch;      /* owned; [thread_count][LS_SCRATCH_BYTES] */
    ls_pool *alone;              /* owned; [thread_count] of one thread each, which own nothing */
    share *shares;               /* owned; [thread_count] */
    _Alignas(LS_LINE_BYTES) atomic_ulong opened; /* jobs so far */
    ls_task_fn *fn;              /* of the open job; ordered by `left` */
    void *arg;                   /* likewise */
    long long task_count;        /* likewise */
    _Alignas(LS_LINE_BYTES) atomic_llong unfinished;
    atomic_bool caller_sleeps;   /* written under lock */
    _Alignas(LS_LINE_BYTES) atomic_int sleeping_count; /* helpers that sleep; written under lock */
    atomic_bool stopping;        /* written under lock */
    pthread_mutex_t lock;
    pthread_cond_t work;         /* a job was opened, or stopping */
    pthread_cond_t finished;     /* unfinished == 0 */
};

/* The first task of a share; of share T, one past the last. */
static long long share_begin(const ls_pool *pool, int number)
{
    return pool->task_count * number / pool->thread_count;
}

/* Take a task of that share, if one is left. */
static bool pool_claim(ls_pool *pool, int number, long long *task)
{
    atomic_llong *counter = &pool->shares[number].left;
    if (atomic_load_explicit(counter, memory_order_relaxed) <= 0) return false;
    const long long left = atomic_fetch_sub_explicit(counter, 1, memory_order_acquire);
    if (left <= 0) return false;
    *task = share_begin(pool, number + 1) - left;
    return true;
}

/* Run tasks until none is left to claim. */
static void pool_work(ls_pool *pool, int thread)
{
    long long done = 0, task;
    for (int i = 0; i < pool->thread_count; i++) {
        const int number = (thread + i) % pool->thread_count;
        for (; pool_claim(pool, number, &task); done++) pool->fn(pool->arg, (size_t)task, thread);
    }
    if (done == 0) return;
    if (atomic_fetch_sub(&pool->unfinished, done) != done) return;
    if (!atomic_load(&pool->caller_sleeps)) return;
    (void)pthread_mutex_lock(&pool->lock);
    (void)pthread_cond_signal(&pool->finished);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* Is there a job after the first `seen`? */
static bool pool_has_news(const ls_pool *pool, unsigned long seen)
{
    return atomic_load(&pool->opened) != seen || atomic_load(&pool->stopping);
}

static bool pool_is_finished(const ls_pool *pool, unsigned long seen)
{
    (void)seen;
    return atomic_load(&pool->unfinished) == 0;
}

/* Poll for a short while; returns whether it came. Reading the clock takes some 20 ns, which also
 * keeps the loop from hammering the cache line. */
static bool pool_poll(const ls_pool *pool, bool (*came)(const ls_pool *, unsigned long),
                      unsigned long seen)
{
    if (pool->spin) {
        const double begin = ls_clock();
        double waited = 0;
        while (waited < YIELD_S) {
            if (came(pool, seen)) return true;
            if (waited > SPIN_S) (void)sched_yield();
            waited = ls_clock() - begin;
        }
        return false;
    }
    for (int poll = 0; poll < YIELD_POLLS; poll++) {
        if (came(pool, seen)) return true;
        (void)sched_yield();
    }
    return false;
}

static void *helper_main(void *argument)
{
    const helper *self = argument;
    ls_pool *pool = self->pool;
    unsigned long seen = 0;
    (void)fesetenv(FE_DFL_ENV); /* as in rank_main (thread.c) */
    while (!atomic_load(&pool->stopping)) {
        if (!pool_poll(pool, pool_has_news, seen)) {
            (void)pthread_mutex_lock(&pool->lock);
            (void)atomic_fetch_add(&pool->sleeping_count, 1);
            while (!pool_has_news(pool, seen)) (void)pthread_cond_wait(&pool->work, &pool->lock);
            (void)atomic_fetch_sub(&pool->sleeping_count, 1);
            (void)pthread_mutex_unlock(&pool->lock);
        }
        seen = atomic_load(&pool->opened);
        pool_work(pool, self->number);
    }
    return NULL;
}

/* Wake at most `wanted` helpers that sleep. */
static void pool_wake(ls_pool *pool, long long wanted)
{
    if (atomic_load(&pool->sleeping_count) == 0) return;
    (void)pthread_mutex_lock(&pool->lock);
    const int sleeping = atomic_load(&pool->sleeping_count);
    for (int i = 0; i < sleeping && i < wanted; i++) (void)pthread_cond_signal(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
}

static void pool_wait_finished(ls_pool *pool)
{
    if (pool_poll(pool, pool_is_finished, 0)) return;
    (void)pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (!pool_is_finished(pool, 0)) (void)pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    (void)pthread_mutex_unlock(&pool->lock);
}

void ls_pool_run(ls_pool *pool, size_t task_count, ls_task_fn *fn, void *arg)
{
    assert(pool_is_finished(pool, 0)); /* no run of this pool inside its task, or by a second one */
    if (task_count <= 1 || pool->thread_count == 1) {
        for (size_t task = 0; task < task_count; task++) fn(arg, task, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->task_count = (long long)task_count;
    atomic_store_explicit(&pool->unfinished, pool->task_count, memory_order_relaxed);
    for (int t = pool->thread_count - 1; t >= 0; t--) {
        atomic_store_explicit(&pool->shares[t].left,
                              share_begin(pool, t + 1) - share_begin(pool, t),
                              memory_order_release);
    }
    (void)atomic_fetch_add(&pool->opened, 1);
    pool_wake(pool, pool->task_count - 1);
    pool_work(pool, 0);
    pool_wait_finished(pool);
}

/* -- set-up ---------------------------------------------------------------------------------- */

/* `count` objects of zeros, each from a cache line's start if its size is whole lines; or NULL. */
static void *alloc_lines(size_t count, size_t bytes)
{
    const size_t rounded = (count * bytes + LS_LINE_BYTES - 1) / LS_LINE_BYTES * LS_LINE_BYTES;
    void *memory = aligned_alloc(LS_LINE_BYTES, rounded);
    if (memory != NULL) memset(memory, 0, rounded);
    return memory;
}

/* Written here once, before spawn: neighbours in `alone` are read by several threads. */
static void set_alone(ls_pool *pool)
{
    for (int thread = 0; thread < pool->thread_count; thread++) {
        pool->alone[thread].thread_count = 1;
        pool->alone[thread].scratch = ls_pool_scratch(pool, thread);
    }
}

static int pool_start(ls_pool *pool)
{
    int failed = 0;
    while (failed == 0 && pool->started < pool->thread_count - 1) {
        helper *next = &pool->helpers[pool->started];
        next->pool = pool;
        next->number = pool->started + 1;
        failed = ls_thread_start(&next->thread, STACK_BYTES, helper_main, next);
        if (failed == 0) pool->started++;
    }
    return failed;
}

ls_status ls_pool_create(int thread_count, bool spin, ls_pool **out)
{
    assert(thread_count >= 1);
    *out = NULL;
    const size_t threads = (size_t)thread_count;
    ls_pool *pool = alloc_lines(1, sizeof *pool);
    if (pool == NULL) return ls_fail(LS_ERR_MEMORY, "pool: %zu bytes asked", sizeof *pool);
    pool->thread_count = thread_count;
    pool->spin = spin;
    atomic_init(&pool->opened, 0);
    atomic_init(&pool->unfinished, 0);
    atomic_init(&pool->sleeping_count, 0);
    atomic_init(&pool->caller_sleeps, false);
    atomic_init(&pool->stopping, false);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work, NULL);
    (void)pthread_cond_init(&pool->finished, NULL);
    pool->helpers = calloc(threads, sizeof *pool->helpers);
    pool->shares = alloc_lines(threads, sizeof *pool->shares);
    pool->scratch = aligned_alloc(LS_LINE_BYTES, threads * LS_SCRATCH_BYTES);
    pool->alone = alloc_lines(threads, sizeof *pool->alone);
    ls_status status = LS_OK;
    if (pool->helpers == NULL || pool->shares == NULL || pool->scratch == NULL
        || pool->alone == NULL) {
        status = ls_fail(LS_ERR_MEMORY, "pool of %d threads: %zu bytes of scratch asked",
                         thread_count, threads * LS_SCRATCH_BYTES);
    } else {
        set_alone(pool);
        const int failed = pool_start(pool);
        if (failed != 0)
            status = ls_fail(LS_ERR_MEMORY, "pool: thread %d of %d not started: %s",
                             pool->started + 1, thread_count, strerror(failed));
    }
    if (status != LS_OK) {
        ls_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return LS_OK;
}

void ls_pool_destroy(ls_pool *pool)
{
    if (pool == NULL) return;
    (void)pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stopping, true);
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++) (void)pthread_join(pool->helpers[i].thread, NULL);
    (void)pthread_cond_destroy(&pool->finished);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->alone);
    free(pool->scratch);
    free(pool->shares);
    free(pool->helpers);
    free(pool);
}

int ls_pool_thread_count(const ls_pool *pool) { return pool->thread_count; }

void *ls_pool_scratch(ls_pool *pool, int thread)
{
    assert(0 <= thread && thread < pool->thread_count);
    return pool->scratch + (size_t)thread * LS_SCRATCH_BYTES;
}

ls_pool *ls_pool_of_thread(ls_pool *pool, int thread)
{
    assert(0 <= thread && thread < pool->thread_count);
    return &pool->alone[thread];
}
