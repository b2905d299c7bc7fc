/* SPDX-License-Identifier: MIT */
/* test_faults.c -- a run that is broken says so in that step, and names what broke.
 *
 * One replica's device lies (lying_replica.h). What is asserted is the class of the error (so the
 * exit code), the names in its text, that every thread ended (ls_train returned) and that nothing
 * leaked (ls_device_close and the sanitizers).
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/lying_replica.h"

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

/* What a merge wrote last, perhaps into another replica's sums, is not what it made. */
static ls_status flipping_merge(ls_stream *stream, const ls_merge_args *args)
{
    LS_TRY(lie.sound->merge(stream, args));
    if (++lie.calls == lie.bad_call) flip(args->out[args->out_count - 1], 3);
    return LS_OK;
}

static ls_status overflowing_merge(ls_stream *stream, const ls_merge_args *args)
{
    LS_TRY(lie.sound->merge(stream, args));
    if (++lie.calls == lie.bad_call) args->out[args->out_count - 1][3] = INFINITY;
    return LS_OK;
}

static ls_status overflowing_update(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(lie.sound->update(stream, args));
    if (++lie.calls != lie.bad_call) return LS_OK;
    args->w[3] = INFINITY;
    args->update_square_sum[0] = (double)INFINITY;
    return LS_OK;
}

static ls_status misread_sums(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(lie.sound->update(stream, args));
    if (++lie.calls == lie.bad_call) ++*args->sums_digest;
    return LS_OK;
}

static ls_status failing_update(ls_stream *stream, const ls_update_args *args)
{
    if (++lie.calls == lie.bad_call)
        return ls_fail(LS_ERR_MEMORY, "%s: out of memory", stream->device->name);
    return lie.sound->update(stream, args);
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

/* A sum that reaches one replica other than it was made is found before anything else is made of
 * it, and its bucket is named: whether replicas compare the sums or, with `skip`, the collectives
 * do, and whether or not it is finite. */
static void check_altered_sums(const char *nonfinite, ls_merge_fn *merge)
{
    training *t = lying_create();
    training_set(t, "nonfinite", nonfinite);
    int results = 0;
    for (int call = 1; t->step_count == 0; call++) { /* every merge of the first step */
        lie.kernels = (ls_kernels){ .merge = merge };
        lie.calls = 0;
        lie.bad_call = call;
        if (training_run(t) != LS_ERR_DIVERGED)
            fail_msg("%s, merge %d: %s", nonfinite, call, ls_last_error());
        expect_in_message("bucket ");
        results += strstr(ls_last_error(), ": the result of rank ") != NULL;
    }
    assert_true(results > 0);
    training_destroy(t);
}

static void test_a_sum_that_one_replica_has_otherwise_is_named_by_its_bucket(void **state)
{
    (void)state;
    check_altered_sums("stop", flipping_merge);
    check_altered_sums("stop", overflowing_merge);
    check_altered_sums("skip", flipping_merge);
    check_altered_sums("skip", overflowing_merge);
}

/* Also in a step whose weights are not compared. */
static void test_an_update_that_overflows_on_one_replica_alone_ends_that_step(void **state)
{
    (void)state;
    training *t = lying_create();
    training_set(t, "check-every", "0");
    lie.kernels.update = overflowing_update;
    lie.bad_call = 2;
    lying_must_diverge(t, 2, "step 2: replicas diverged: the update of rank 1 is not finite, that "
                             "of rank 0 is");
}

static void test_sums_that_are_equal_when_looked_at_again_are_said_to_be(void **state)
{
    (void)state;
    training *t = lying_create();
    lie.kernels.update = misread_sums;
    lie.bad_call = 2;
    lying_must_diverge(t, 2, "step 2: the updates of the replicas read different sums of "
                             "gradients; now these, or the gradients that were made of them, are "
                             "equal");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flipped_bit_in_one_replica_stops_that_step),
        cmocka_unit_test(test_a_replica_that_starts_from_other_weights_is_refused),
        cmocka_unit_test(test_an_altered_contribution_stops_that_step),
        cmocka_unit_test(test_a_sum_that_one_replica_has_otherwise_is_named_by_its_bucket),
        cmocka_unit_test(test_an_update_that_overflows_on_one_replica_alone_ends_that_step),
        cmocka_unit_test(test_sums_that_are_equal_when_looked_at_again_are_said_to_be),
        cmocka_unit_test(test_a_replica_that_stalls_ends_the_program_with_its_reason),
        cmocka_unit_test(test_a_replica_out_of_memory_ends_the_run_with_its_reason),
        cmocka_unit_test(test_every_allocation_that_fails_ends_the_run_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
