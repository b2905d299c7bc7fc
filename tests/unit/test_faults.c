/* SPDX-License-Identifier: MIT */
/* test_faults.c -- a run that is broken says so in that step, and names what broke.
 *
 * One replica's device lies: it opens as any other, but an op of its table or a copy misbehaves at
 * a chosen call. What is asserted is the class of the error (so the exit code), the names in its
 * text, that every thread ended (ls_train returned) and that nothing leaked (ls_device_close and
 * the sanitizers).
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "support/faulty_device.h"
#include "support/training.h"

enum { WORLD = 3, BAD = 1 };

/* What rank BAD's device does wrong, and when. */
static struct {
    ls_kernels kernels;       /* the bad rank's table */
    const ls_kernels *sound;  /* what it forwards to */
    int calls, bad_call;      /* of the op in question, from 1 */
    fault fault;              /* for faults of copies; kind FAULT_NONE: none */
} lie;

/* Flip the lowest mantissa bit of x[element]. */
static void flip(float *x, size_t element)
{
    uint32_t word;
    memcpy(&word, &x[element], sizeof word);
    word ^= 1;
    memcpy(&x[element], &word, sizeof word);
}

/* A bit of a weight changes before the chosen update, whose own digest shows it. */
static ls_status flipping_update(ls_stream *stream, const ls_update_args *args)
{
    if (++lie.calls == lie.bad_call) flip(args->w, args->tensors->host[0].begin + 5);
    return lie.sound->update(stream, args);
}

static ls_status flipping_digest(ls_stream *stream, const ls_digest_args *args)
{
    float *x = (float *)(uintptr_t)args->x;
    if (++lie.calls == lie.bad_call) flip(x, args->count - 32);
    return lie.sound->digest(stream, args);
}

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

static ls_status failing_update(ls_stream *stream, const ls_update_args *args)
{
    if (++lie.calls == lie.bad_call)
        return ls_fail(LS_ERR_MEMORY, "%s: out of memory", stream->device->name);
    return lie.sound->update(stream, args);
}

static ls_status open_lying(void *context, int rank, int threads, atomic_ulong *progress,
                            ls_device **out)
{
    (void)context;
    fault *f = rank == BAD && lie.fault.kind != FAULT_NONE ? &lie.fault : NULL;
    LS_TRY(faulty_device_open(rank, threads, progress, f, out));
    LS_TRY(ls_kernels_bind(*out));
    if (rank == BAD) {
        lie.sound = (*out)->kernels;
        const ls_kernels wrong = lie.kernels;
        lie.kernels = *lie.sound;
        if (wrong.update) lie.kernels.update = wrong.update;
        if (wrong.digest) lie.kernels.digest = wrong.digest;
        if (wrong.conv_forward) lie.kernels.conv_forward = wrong.conv_forward;
        if (wrong.pooled_conv_forward)
            lie.kernels.pooled_conv_forward = wrong.pooled_conv_forward;
        (*out)->kernels = &lie.kernels;
    }
    return LS_OK;
}

/* digits-cnn on WORLD replicas, one of which lies as `lie` says. */
static training *lying_create(void)
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

static void expect_in_message(const char *text)
{
    if (!strstr(ls_last_error(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, ls_last_error());
}

static void test_a_flipped_bit_in_one_replica_stops_that_step(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.kernels.update = flipping_update;
    lie.bad_call = 7;
    assert_int_equal(training_run(t), LS_ERR_DIVERGED);
    assert_int_equal(ls_exit_code(LS_ERR_DIVERGED), 5);
    assert_int_equal(t->step_count, 6);
    expect_in_message("step 7");
    expect_in_message("rank 1 has");
    expect_in_message("weights/conv1/kernel, element 5");
    training_destroy(t);
}

static void test_a_replica_that_starts_from_other_weights_is_refused(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.kernels.digest = flipping_digest;
    /* Broadcasts and buckets are digested too; the last call before step 1 is the weights'. */
    for (int call = 1; call < 64 && t->step_count == 0; call++) {
        lie.kernels = (ls_kernels){ .digest = flipping_digest };
        lie.calls = 0;
        lie.bad_call = call;
        const ls_status status = training_run(t);
        if (status == LS_ERR_DIVERGED && strstr(ls_last_error(), "weights/")) {
            assert_int_equal(t->step_count, 0);
            expect_in_message("rank 1 has");
            training_destroy(t);
            return;
        }
    }
    fail_msg("no run was refused for its first weights");
}

/* Any copy between ranks that loses a bit is seen in that step: by a contribution's digest or by
 * the digest of a finished bucket. */
static void test_an_altered_contribution_stops_that_step(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.fault.directions = 1u << LS_COPY_PEER;
    training_must_run(t); /* FAULT_NONE: the healthy run, all copies sound */
    lie.fault.kind = FAULT_FLIP;
    for (long n = 1; n <= 40; n += 3) {
        lie.kernels = (ls_kernels){ .name = NULL };
        lie.fault = (fault){ .kind = FAULT_FLIP, .n = n, .flip_bit = 77,
                             .directions = 1u << LS_COPY_PEER };
        const ls_status status = training_run(t);
        if (!atomic_load(&lie.fault.fired)) fail_msg("copy %ld never came", n);
        if (status != LS_ERR_DIVERGED) fail_msg("copy %ld: %s", n, ls_last_error());
    }
    training_destroy(t);
}

/* Train in a child process; returns its exit status, and what it wrote to stderr. */
static int train_in_child(training *t, char *text, size_t bytes)
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        if (training_run(t) != LS_OK) fprintf(stderr, "returned: %s\n", ls_last_error());
        fflush(NULL);
        _exit(99);
    }
    close(out[1]);
    size_t used = 0;
    for (ssize_t n; used + 1 < bytes && (n = read(out[0], text + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    t->runs++; /* the child has used this run's folder */
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A copy that never completes, or never returns: what it writes to may not be freed, so the program
 * says why and leaves. */
static void test_a_replica_that_stalls_ends_the_program_with_its_reason(void **state)
{
    (void)state;
    static const fault_kind kinds[] = { FAULT_STALL_COPY, FAULT_BLOCK_COPY };
    char text[2048];
    training *t = lying_create();
    for (int i = 0; i < 2; i++) {
        lie.kernels = (ls_kernels){ .name = NULL };
        lie.fault = (fault){ .kind = kinds[i], .n = 30, .directions = 1u << LS_COPY_PEER };
        const int code = train_in_child(t, text, sizeof text);
        if (code != 5) fail_msg("exit %d: \"%s\"", code, text);
        if (!strstr(text, "lockstep: rank ") || !strstr(text, i == 0 ? "link " : "rank"))
            fail_msg("\"%s\"", text);
    }
    training_destroy(t);
}

static void test_a_replica_out_of_memory_ends_the_run_with_its_reason(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.kernels.update = failing_update;
    lie.bad_call = 3;
    assert_int_equal(training_run(t), LS_ERR_MEMORY);
    expect_in_message("rank 1: step 3: host:1: out of memory");
    training_destroy(t);
}

static void test_every_allocation_that_fails_ends_the_run_cleanly(void **state)
{
    (void)state;
    training *t = lying_create();
    training_set(t, "steps", "1");
    long n = 1;
    for (;; n++) {
        lie.kernels = (ls_kernels){ .name = NULL };
        lie.fault = (fault){ .kind = FAULT_ALLOC, .n = n };
        const ls_status status = training_run(t);
        if (!atomic_load(&lie.fault.fired)) break;
        assert_int_equal(status, LS_ERR_MEMORY);
    }
    assert_true(n > 10);
    training_destroy(t);
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
    assert_int_equal(training_run(t), LS_ERR_DIVERGED);
    assert_int_equal(t->step_count, 5);
    expect_in_message("step 6: replicas diverged: the update of rank 1 is not finite, that of rank "
                      "0 is: weights or optimizer slots were not alike");
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flipped_bit_in_one_replica_stops_that_step),
        cmocka_unit_test(test_a_replica_that_starts_from_other_weights_is_refused),
        cmocka_unit_test(test_an_altered_contribution_stops_that_step),
        cmocka_unit_test(test_a_replica_that_stalls_ends_the_program_with_its_reason),
        cmocka_unit_test(test_a_replica_out_of_memory_ends_the_run_with_its_reason),
        cmocka_unit_test(test_every_allocation_that_fails_ends_the_run_cleanly),
        cmocka_unit_test(test_a_value_that_is_not_finite_stops_that_step_and_is_in_no_checkpoint),
        cmocka_unit_test(test_a_weight_gone_bad_in_one_replica_is_named_with_it),
        cmocka_unit_test(test_the_layer_that_overflows_is_named_and_not_the_pooling_over_it),
        cmocka_unit_test(test_a_slot_gone_bad_in_one_replica_is_told_as_that),
        cmocka_unit_test(test_a_failure_that_does_not_come_back_is_told_as_the_devices),
        cmocka_unit_test(test_rollback_goes_on_as_if_the_batch_had_been_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
