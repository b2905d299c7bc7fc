/* SPDX-License-Identifier: MIT */
/* ranks.h -- run a function on N rank threads and learn each one's status.
 *
 * A rank function never asserts (see test.h); it returns a status, with ls_fail for the reason, and
 * the test asserts on what comes back:
 *
 *     ls_status status[4];
 *     assert_int_equal(run_ranks(4, fn, &context, status), LS_OK);
 */
#ifndef TEST_SUPPORT_RANKS_H
#define TEST_SUPPORT_RANKS_H

#include "status.h"
#include "thread.h"

/* fn(rank, arg) on `world_size` plain threads, joined. `statuses`: [world_size], or NULL. Returns
 * the status of the first rank (by number) that failed with something other than ABORTED, else of
 * the first that failed, and makes its text, "rank R: ...", the calling thread's record. */
ls_status run_ranks(int world_size, ls_rank_fn *fn, void *arg, ls_status *statuses);

/* The same through ls_group_run, so that a failing rank stops the others; returns what it returns.
 * A rank that cannot be joined ends the program with code 5 and the cause on stderr. */
ls_status run_ranks_in(ls_group *group, ls_rank_fn *fn, void *arg, ls_status *statuses);

#endif
