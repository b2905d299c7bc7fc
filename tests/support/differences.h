/* SPDX-License-Identifier: MIT */
/* differences.h -- an op's gradient against finite differences of its forward op.
 *
 * The forward op is written again in double; L = sum of dy * y is differenced at every input,
 * (L(x + h) - L(x - h)) / 2h, which for ops that are linear in each input is exact but for
 * rounding, and for the losses wrong by h^2 times a third derivative of at most a few. The op's
 * float gradient must agree to what float chains of that length lose.
 */
#ifndef TEST_SUPPORT_DIFFERENCES_H
#define TEST_SUPPORT_DIFFERENCES_H

#include "support/machines.h"
#include "support/naive.h"

/* y [outputs] of an op in double. */
typedef void forward_fn(const void *op, const double *x, double *y);

double *doubles_of(const float *x, size_t count); /* owned by the caller */

/* Does dx [inputs] agree with the differences of sum dy * forward(x) to `tolerance`? */
void check_gradient(const char *what, const char *who, forward_fn *forward, const void *op,
                    const float *x, size_t inputs, const float *dy, size_t outputs,
                    const float *dx, double tolerance);

/* Does the op's own y agree with the forward op in double? */
void check_forward(const char *what, forward_fn *forward, const void *op, const float *x,
                   size_t inputs, const float *y, size_t outputs, double tolerance);

/* The reference and the fastest of the machines that are open. */
machine *machine_at(int i);

/* Values 0.01 apart in random order: no two so near that a step of h makes another the largest. */
float *apart(naive_random *random, size_t count);

#endif
