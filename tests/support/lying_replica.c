/* SPDX-License-Identifier: MIT */
/* lying_replica.c -- see lying_replica.h. */
#include "support/lying_replica.h"

#include "support/test.h"

replica_lie lie;

static ls_status open_lying(void *context, int rank, int threads, atomic_ulong *progress,
                            ls_device **out)
{
    (void)context;
    const bool lies = rank == LYING_RANK;
    fault *f = lies && lie.fault.kind != FAULT_NONE ? &lie.fault : NULL;
    LS_TRY(faulty_device_open(rank, threads, progress, f, out));
    LS_TRY(ls_kernels_bind(*out));
    if (lies) {
        lie.sound = (*out)->kernels;
        const ls_kernels wrong = lie.kernels;
        lie.kernels = *lie.sound;
        if (wrong.update) lie.kernels.update = wrong.update;
        if (wrong.digest) lie.kernels.digest = wrong.digest;
        if (wrong.merge) lie.kernels.merge = wrong.merge;
        if (wrong.conv_forward) lie.kernels.conv_forward = wrong.conv_forward;
        if (wrong.pooled_conv_forward)
            lie.kernels.pooled_conv_forward = wrong.pooled_conv_forward;
        (*out)->kernels = &lie.kernels;
    }
    return LS_OK;
}

training *lying_create(void)
{
    training *t = training_create();
    training_set(t, "model", "digits-cnn");
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "64");
    training_set(t, "steps", "12");
    training_set(t, "devices", "host:3");
    training_set(t, "timeout", "1");
    t->observer.open_device = open_lying;
    memset(&lie, 0, sizeof lie);
    return t;
}

void expect_in_message(const char *text)
{
    if (!strstr(ls_last_error(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, ls_last_error());
}

void lying_must_diverge(training *t, size_t step, const char *text)
{
    assert_int_equal(training_run(t), LS_ERR_DIVERGED);
    assert_int_equal(t->step_count, step - 1);
    expect_in_message(text);
    training_destroy(t);
}
