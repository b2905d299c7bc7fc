/* SPDX-License-Identifier: MIT */
/* lying_replica.h -- runs of some replicas, one of which has a device that lies: it opens as any
 * other, but an op of its table or a copy misbehaves at a chosen call.
 *
 *     training *t = lying_create();
 *     lie.kernels.update = flipping_update;     counts lie.calls, forwards to lie.sound
 *     lie.bad_call = 7;
 *     assert_int_equal(training_run(t), LS_ERR_DIVERGED);
 *     expect_in_message("step 7");
 *
 * `lie` is set before a run, and a run makes lie.kernels the whole table: before the next one it is
 * set again.
 */
#ifndef TEST_SUPPORT_LYING_REPLICA_H
#define TEST_SUPPORT_LYING_REPLICA_H

#include "support/faulty_device.h"
#include "support/training.h"

enum { LYING_RANK = 1 };

/* What the device of LYING_RANK does wrong, and when. */
typedef struct {
    ls_kernels kernels;       /* its table; of it update, digest, merge and conv_forward, pooled or
                                 not, may be set */
    const ls_kernels *sound;  /* what these forward to */
    int calls, bad_call;      /* of the op in question, from 1 */
    fault fault;              /* for faults of copies; kind FAULT_NONE: none */
} replica_lie;

extern replica_lie lie;

/* digits-cnn on three replicas, and nothing in `lie` yet. */
training *lying_create(void);

/* Run `t`, which must end as diverged in step `step` with this in its text, and destroy it. */
void lying_must_diverge(training *t, size_t step, const char *text);

/* Is the text in the latest error? If not, the test fails. */
void expect_in_message(const char *text);

#endif
