/* SPDX-License-Identifier: MIT */
/* bench.h -- what the `lockstep bench` commands share.
 *
 * A busy machine is the normal case: every time is the median of several, which one that was
 * interrupted does not move.
 */
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "cli/options.h"
#include "io/json.h"
#include "status.h"

/* The middle of x[count], or the mean of the two in the middle. Sorts x. count >= 1. */
double ls_bench_median(double *x, int count);

/* A flag whose value is a number of bytes ("4K", "16MiB") in low .. high; `otherwise` if it was not
 * given. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_bench_bytes(const ls_invocation *invocation, int flag, double low,
                                     double high, uint64_t otherwise, uint64_t *out);

/* Print what `json` has written, and a newline. Errors: MEMORY. */
LS_MUST_USE ls_status ls_bench_print_json(ls_json_writer *json);

#endif
