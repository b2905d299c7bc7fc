/* SPDX-License-Identifier: MIT */
/* thread.h -- rank threads that stop together, waits that end, and a pool of compute threads.
 *
 * A group is N rank threads that work in step. Whatever one of them waits for -- a barrier, a
 * neighbour's transfer, an input batch -- it waits through an ls_wait, which ends in one of three
 * ways: what was waited for came; another rank failed (ABORTED); or nothing moved anywhere in the
 * group for `timeout` seconds (TIMEOUT). The first real cause is kept with its rank and text, and
 * everybody else leaves with ABORTED: the user reads one error, the one that came first.
 *
 * A pool is T compute threads of ONE replica. It cuts a kernel into tasks that share nothing but
 * their inputs; the number of threads never changes a bit (docs/numerics.md).
 *
 * Thread rule: an ls_group is shared by its ranks, every function of it may be called by any of
 * them. An ls_pool belongs to the thread that calls ls_pool_run, one of ls_pool_of_thread to the
 * task's.
 */
#ifndef LS_THREAD_H
#define LS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* -- a group of ranks ------------------------------------------------------------------------ */

typedef struct ls_group ls_group;
typedef ls_status ls_rank_fn(int rank, void *arg);

/* `timeout_s`: seconds without progress of any rank after which a wait gives up. */
LS_MUST_USE ls_status ls_group_create(int world_size, double timeout_s, ls_group **out);
void ls_group_destroy(ls_group *group); /* accepts NULL; no rank thread may be running */

/* Start `world_size` threads, call fn(rank, arg) on each, join them all. Returns LS_OK if all did,
 * else the first cause, whose text ("rank 2: ...") becomes the calling thread's record.
 * A rank that still has not returned `timeout` + 1 s after the first failure, or 1 s after it if
 * that was a timeout, cannot be joined (it sits in a call that answers no abort): then nothing is
 * freed, `on_stuck` is called with the first cause recorded, and must not return (it writes the
 * message and calls _exit(5)).
 * Every rank thread runs with MXCSR 0x1F80: round to nearest, no flush to zero.
 * Blocks: until all ranks returned. */
LS_MUST_USE ls_status ls_group_run(ls_group *group, ls_rank_fn *fn, void *arg,
                                   void (*on_stuck)(void));

int ls_group_world_size(const ls_group *group);
double ls_group_timeout(const ls_group *group);

/* Record why `rank` stops (the calling thread's record) and stop the others; the first cause wins
 * and ABORTED never is one. A rank function that returns an error does this by itself. `rank` -1:
 * the failure is no rank's (a reader thread's), and its text gets no "rank R: ". */
void ls_group_abort(ls_group *group, int rank, ls_status status);
bool ls_group_is_aborted(const ls_group *group);

/* The group's progress count. Whoever finishes a kernel, a copy or an input batch adds 1 to it;
 * every deadline of the group starts again when it changes. */
atomic_ulong *ls_group_progress(ls_group *group);

/* All ranks meet. `what` names the meeting in the message of a timeout, which also names the rank
 * that did not come. Errors: ABORTED, TIMEOUT. Blocks: until all came.
 * Happens-before: everything a rank did before the barrier, for every rank after it. */
LS_MUST_USE ls_status ls_barrier_wait(ls_group *group, int rank, const char *what);

/* All-gather of a few bytes of host memory: rank r's `bytes` bytes at `mine` land at
 * all + r * bytes on every rank. How digests are compared and decisions shared.
 * Collective. Errors: ARGUMENT (bytes > LS_EXCHANGE_BYTES), ABORTED, TIMEOUT. */
enum { LS_EXCHANGE_BYTES = 256 };
LS_MUST_USE ls_status ls_group_exchange(ls_group *group, int rank, const void *mine, size_t bytes,
                                        void *all, const char *what);

/* -- one wait -------------------------------------------------------------------------------- */

/* Use:  ls_wait w = ls_wait_begin(group);
 *       while (!ready()) { s = ls_wait_poll(&w); if (s != LS_OK) break; }
 * ls_wait_poll spins a little, then yields, then sleeps 50 us at a time. It returns LS_OK ("look
 * again"), LS_ERR_ABORTED, or LS_ERR_TIMEOUT; on TIMEOUT the caller says with ls_fail what it was
 * waiting for. It writes no record itself: on ABORTED the cause is another rank's, and this thread
 * may be cleaning up after one of its own. Time in which the process was stopped does not count.
 * With group NULL it never aborts and times out after 60 s. */
typedef struct {
    ls_group *group;        /* borrowed */
    unsigned long progress; /* the group's count when the deadline was last set */
    double deadline;        /* seconds, monotonic clock */
    double polled;          /* when it was last polled, likewise */
    unsigned poll_count;
} ls_wait;

ls_wait ls_wait_begin(ls_group *group);
LS_MUST_USE ls_status ls_wait_poll(ls_wait *wait);

/* Seconds on the monotonic clock. */
double ls_clock(void);

/* -- compute threads of one replica ----------------------------------------------------------- */

typedef struct ls_pool ls_pool;

/* One task of a parallel loop. `thread` is in 0 .. thread_count-1 and names a scratch area. */
typedef void ls_task_fn(void *arg, size_t task, int thread);

/* T threads: the caller and T-1 more. `spin`: idle threads poll for some 500 us before they sleep
 * (set it only where replicas x threads <= cores). */
LS_MUST_USE ls_status ls_pool_create(int thread_count, bool spin, ls_pool **out);
void ls_pool_destroy(ls_pool *pool); /* accepts NULL */
int ls_pool_thread_count(const ls_pool *pool);

/* Run fn(arg, task, thread) once for every task in 0 .. task_count-1, in any order, on any
 * thread; thread t begins with task t task_count / T, so that loops which count the same samples
 * up, each in its own number of tasks, find them in the same core's caches. Tasks must not share
 * what they write. Blocks: until all are done.
 * Happens-before: what the caller wrote, for every task; what tasks wrote, for the caller. */
void ls_pool_run(ls_pool *pool, size_t task_count, ls_task_fn *fn, void *arg);

/* Scratch memory of one thread: LS_SCRATCH_BYTES, 64-byte aligned, allocated with the pool; its
 * contents are undefined at the start of every task. */
#define LS_SCRATCH_BYTES ((size_t)4 << 20)
void *ls_pool_scratch(ls_pool *pool, int thread);

/* A pool of one thread for what a task calls, with the scratch memory of the task's `thread`:
 * whatever runs there runs in the task. Lives as long as `pool`, and is not destroyed. */
ls_pool *ls_pool_of_thread(ls_pool *pool, int thread);

/* -- cores ------------------------------------------------------------------------------------- */

enum { LS_CORE_MAX = 1024 };

/* Cores that a thread may run on. */
typedef struct {
    int count;               /* at least 1 */
    int number[LS_CORE_MAX]; /* the first [count], as the system numbers them, ascending */
} ls_cores;

/* The calling thread's cores, by its affinity mask. */
void ls_cores_read(ls_cores *cores);
int ls_core_count(void);

/* The calling thread, and every thread that it makes from now on, stays on cores [first, first +
 * count) of the list. Returns whether the system lets it. */
bool ls_cores_enter(const ls_cores *cores, int first, int count);

/* "0-3,8": those cores. `room` bytes. */
void ls_cores_text(const ls_cores *cores, int first, int count, char *text, size_t room);

/* Start a thread that runs fn(arg), with a stack of `stack_bytes` under every ulimit -s. Returns 0,
 * or why not, as pthread_create does. */
int ls_thread_start(pthread_t *thread, size_t stack_bytes, void *(*fn)(void *), void *arg);

/* From now on the calling thread, when it wakes, waits for its turn instead of taking the core of a
 * thread that is running. */
void ls_thread_give_way(void);

#endif
