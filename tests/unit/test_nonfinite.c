/* SPDX-License-Identifier: MIT */
/* test_nonfinite.c -- one replica comes to a number that is not finite: where it is looked for,
 * what is named, and how the run goes on if it is to.
 *
 * That replica's device lies (lying_replica.h). For numbers that data make see test_guard.c.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>

#include "io/checkpoint.h"
#include "support/lying_replica.h"

static ls_status nan_update(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(lie.sound->update(stream, args));
    if (++lie.calls == lie.bad_call) {
        const float zero = 0;
        args->w[args->tensors->host[0].begin + 5] = zero / zero;
    }
    return LS_OK;
}

/* An optimizer slot is bad before the chosen update. */
static ls_status nan_slot(ls_stream *stream, const ls_update_args *args)
{
    if (++lie.calls == lie.bad_call) args->slot0[args->tensors->host[0].begin + 5] = NAN;
    return lie.sound->update(stream, args);
}

/* digits-cnn has two convolutions, the second of which is pooled at once: call 7 is that of step 7.
 * Its weights go bad before it. */

static ls_status nan_weight(ls_stream *stream, const ls_conv_forward_args *args)
{
    if (++lie.calls == lie.bad_call) ((float *)(uintptr_t)args->w)[5] = NAN;
    return lie.sound->conv_forward(stream, args);
}

/* The same, but it is the output that is bad, and that once. */
static ls_status nan_output(ls_stream *stream, const ls_conv_forward_args *args)
{
    LS_TRY(lie.sound->conv_forward(stream, args));
    if (++lie.calls == lie.bad_call) args->y[5] = NAN;
    return LS_OK;
}

/* Bad once; there is no memory for the next. */
static ls_status nan_then_failing_output(ls_stream *stream, const ls_conv_forward_args *args)
{
    LS_TRY(nan_output(stream, args));
    if (lie.calls == lie.bad_call + 1)
        return ls_fail(LS_ERR_MEMORY, "%s: out of memory", stream->device->name);
    return LS_OK;
}

/* A convolution of four filters that overflows, though its weights and its input are finite. */
static const float overflow[4] = { [2] = INFINITY };

static ls_status infinite_conv(ls_stream *stream, const ls_conv_forward_args *args)
{
    ls_conv_forward_args a = *args;
    a.bias = overflow;
    return lie.sound->conv_forward(stream, &a);
}

static ls_status infinite_pooled(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    ls_pooled_conv_forward_args a = *args;
    a.conv.bias = overflow;
    LS_TRY(lie.sound->pooled_conv_forward(stream, &a));
    memset(a.conv.y, 0, sizeof *a.conv.y * a.conv.shape.samples * a.pool.shape.height
                            * a.pool.shape.width * a.pool.shape.channels); /* not kept */
    return LS_OK;
}

static void test_a_value_that_is_not_finite_stops_that_step_and_is_in_no_checkpoint(void **state)
{
    (void)state;
    training *t = lying_create();
    training_set(t, "devices", "host:2");
    training_set(t, "check-every", "0"); /* or the digest would see the NaN first */
    training_set(t, "save-every", "1");
    lie.kernels.update = nan_update;
    lie.bad_call = 6; /* takes effect in step 7 */
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_int_equal(t->step_count, 6);
    expect_in_message("step 7");
    expect_in_message("weights/conv1/kernel");
    training_destroy(t);
}

/* All numbered checkpoints of the run in `folder` up to `last` are there, and no later one; no
 * value in them is bad. */
static void expect_finite_checkpoints(const char *folder, int last)
{
    for (int step = 1; step <= last + 1; step++) {
        char path[700];
        ls_checkpoint *checkpoint;
        snprintf(path, sizeof path, "%s/checkpoints/step-%d.safetensors", folder, step);
        const ls_status status = ls_checkpoint_open(path, &checkpoint);
        assert_int_equal(status == LS_OK, step <= last);
        if (status != LS_OK) continue;
        for (int i = 0; i < ls_checkpoint_tensor_count(checkpoint); i++) {
            const ls_saved_tensor *tensor = ls_checkpoint_tensor_at(checkpoint, i);
            const float *x = tensor->data;
            for (size_t e = 0; e < ls_saved_tensor_count(tensor); e++) assert_true(isfinite(x[e]));
        }
        ls_checkpoint_close(checkpoint);
    }
}

static void test_a_weight_gone_bad_in_one_replica_is_named_with_it(void **state)
{
    (void)state;
    training *t = lying_create();
    char folder[600];
    snprintf(folder, sizeof folder, "%s", training_path(t, "named"));
    training_set(t, "out", folder);
    training_set(t, "save-every", "1");
    lie.kernels.conv_forward = nan_weight;
    lie.bad_call = 7;
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    assert_int_equal(t->step_count, 6);
    expect_in_message("rank 1: step 7");
    expect_in_message("weights/conv1/kernel holds a value that is not finite, element 5");
    expect_finite_checkpoints(folder, 6);
    training_destroy(t);
}

/* The convolution's output is not kept: it is looked at all the same. */
static void test_the_layer_that_overflows_is_named_and_not_the_pooling_over_it(void **state)
{
    (void)state;
    training *t = lying_create();
    training_write(t, "small.model", "input 8x8x1\nconv 4 3x3 relu\nmaxpool 2x2\nflatten\n"
                                     "dense 10\nloss softmax-crossentropy\n");
    training_set(t, "model", training_path(t, "small.model"));
    lie.kernels.conv_forward = infinite_conv;
    lie.kernels.pooled_conv_forward = infinite_pooled;
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    expect_in_message("the output of layer conv1 is the first that is not finite");
    training_destroy(t);
}

/* An output that is bad once is made again, and is good. */
static void test_a_failure_that_does_not_come_back_is_told_as_the_devices(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.kernels.conv_forward = nan_output;
    lie.bad_call = 7;
    assert_int_equal(training_run(t), LS_ERR_NONFINITE);
    expect_in_message("rank 1: step 7");
    expect_in_message("the device or its memory has failed");
    training_destroy(t);
}

/* Going back has the bits of a run that left this batch out, on any number of replicas. */
static void test_rollback_goes_on_as_if_the_batch_had_been_left_out(void **state)
{
    (void)state;
    static const char *const worlds[] = { "host:2", "host:3", "host:8" };
    training *t = lying_create();
    training_bits skipped;
    training_set(t, "nonfinite", "skip");
    lie.kernels.conv_forward = nan_output;
    lie.bad_call = 7;
    training_must_run(t);
    assert_true(t->step_count == 13 && t->step[6].skipped);
    t->step[6].loss = 0; /* a NaN, which equals nothing */
    training_remember(t, &skipped);
    training_set(t, "nonfinite", "rollback");
    for (int w = 0; w < 3; w++) {
        training_set(t, "devices", worlds[w]);
        lie.kernels = (ls_kernels){ .conv_forward = nan_weight };
        lie.calls = 0;
        training_must_run(t);
        assert_true(t->step_count == 13 && t->step[6].skipped && !t->step[7].skipped);
        t->step[6].loss = 0;
        assert_true(training_same(t, &skipped, worlds[w]));
    }
    training_destroy(t);
}

/* The bad replica alone goes back, which is no difference of weights that says anything. */
static void test_a_slot_gone_bad_in_one_replica_is_told_as_that(void **state)
{
    (void)state;
    training *t = lying_create();
    training_set(t, "nonfinite", "rollback");
    lie.kernels.update = nan_slot;
    lie.bad_call = 6;
    lying_must_diverge(t, 6, "step 6: replicas diverged: the update of rank 1 is not finite, that "
                             "of rank 0 is: weights or optimizer slots were not alike");
}

static void test_another_failure_after_skipped_steps_does_not_tell_of_them(void **state)
{
    (void)state;
    training *t = lying_create();
    training_set(t, "nonfinite", "skip");
    lie.kernels.conv_forward = nan_then_failing_output;
    lie.bad_call = 7;
    assert_int_equal(training_run(t), LS_ERR_MEMORY);
    assert_true(t->step_count == 7 && t->step[6].skipped);
    expect_in_message("rank 1: step 7: host:1: out of memory");
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_that_is_not_finite_stops_that_step_and_is_in_no_checkpoint),
        cmocka_unit_test(test_a_weight_gone_bad_in_one_replica_is_named_with_it),
        cmocka_unit_test(test_the_layer_that_overflows_is_named_and_not_the_pooling_over_it),
        cmocka_unit_test(test_a_failure_that_does_not_come_back_is_told_as_the_devices),
        cmocka_unit_test(test_rollback_goes_on_as_if_the_batch_had_been_left_out),
        cmocka_unit_test(test_a_slot_gone_bad_in_one_replica_is_told_as_that),
        cmocka_unit_test(test_another_failure_after_skipped_steps_does_not_tell_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
