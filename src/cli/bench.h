/* SPDX-License-Identifier: MIT */
/* bench.h -- what the `lockstep bench` commands share.
 *
 * A busy machine is the normal case: every time is the median of several, which one that was
 * interrupted does not move; the least and the most say how quiet it was.
 */
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "cli/options.h"
#include "status.h"

/* How long one sample of a speed takes, if what is measured can be cut so. Shorter than the time
 * for which a scheduler lets a thread run: then most samples are not interrupted on a busy machine,
 * and the median is of one that was not. */
#define LS_BENCH_SECONDS 1e-3

typedef struct {
    double median;       /* the one in the middle, or the mean of the two there */
    double least, most;
} ls_bench_spread;

/* Of x[count], count >= 1. Sorts x. */
ls_bench_spread ls_bench_spread_of(double *x, int count);

/* A flag whose value is a number of bytes ("4K", "16MiB") in low .. high; `otherwise` if it was not
 * given. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_bench_bytes(const ls_invocation *invocation, int flag, double low,
                                     double high, uint64_t otherwise, uint64_t *out);

#endif
