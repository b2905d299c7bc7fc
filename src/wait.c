/* SPDX-License-Identifier: MIT */
/* wait.c -- a wait that ends: by what was waited for, by an abort, or by a deadline.
 *
 * Who waits looks for himself whether it has come; between two looks he calls ls_wait_poll, which
 * decides how long to stay away and when to give up:
 *
 *     polls 1 ..  100    return at once             what comes now costs no system call
 *     polls  .. 2100     yield, read the clock      a core that is wanted goes to who wants it
 *     from then on       sleep 50 us, read it
 *
 * The deadline is `timeout` from the last progress of anybody in the group, not from the start of
 * the wait: a rank that waits for a slow one must not fail while the slow one still moves.
 *
 * The clock counts while a process is stopped (SIGSTOP; a terminal's Ctrl-Z), the ranks do not
 * move, and nobody is to blame. Polls follow each other within microseconds; a gap of more than
 * PAUSE_S between two of them was such a stop, and the deadline moves by the gap.
 *
 * Thread rule: an ls_wait is its thread's own; what it reads of the group is atomic or constant.
 * `progress` is read relaxed: it decides when to give up, it publishes nothing.
 */
#include "thread.h"

#include <sched.h>
#include <time.h>

enum {
    SPIN_POLLS = 100,
    YIELD_POLLS = 2000,  /* about a millisecond on an idle machine */
    SLEEP_NS = 50 * 1000
};

static const double TIMEOUT_WITHOUT_GROUP_S = 60.0;
static const double PAUSE_S = 1.0;

double ls_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

ls_wait ls_wait_begin(ls_group *group)
{
    const double now = ls_clock();
    ls_wait wait = { .group = group, .polled = now, .deadline = now + TIMEOUT_WITHOUT_GROUP_S };
    if (group != NULL) {
        wait.progress = atomic_load_explicit(ls_group_progress(group), memory_order_relaxed);
        wait.deadline = now + ls_group_timeout(group);
    }
    return wait;
}

/* Move the deadline if somebody made progress, or by the time in which nobody could. */
static void wait_renew(ls_wait *wait, double now)
{
    if (now - wait->polled > PAUSE_S) wait->deadline += now - wait->polled;
    wait->polled = now;
    if (wait->group == NULL) return;
    const unsigned long progress =
        atomic_load_explicit(ls_group_progress(wait->group), memory_order_relaxed);
    if (progress == wait->progress) return;
    wait->progress = progress;
    wait->deadline = now + ls_group_timeout(wait->group);
}

ls_status ls_wait_poll(ls_wait *wait)
{
    if (wait->group != NULL && ls_group_is_aborted(wait->group)) return LS_ERR_ABORTED;
    if (wait->poll_count < SPIN_POLLS) {
        wait->poll_count++;
        return LS_OK;
    }
    const double now = ls_clock();
    wait_renew(wait, now);
    if (now > wait->deadline) return LS_ERR_TIMEOUT;
    if (wait->poll_count < SPIN_POLLS + YIELD_POLLS) {
        wait->poll_count++;
        (void)sched_yield();
    } else {
        (void)nanosleep(&(struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
    }
    return LS_OK;
}
