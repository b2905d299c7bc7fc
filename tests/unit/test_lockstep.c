/* SPDX-License-Identifier: MIT */
/* test_lockstep.c -- the promise: the same bits, however the work is shared out.
 *
 * A run's bits are the SHA-256 of its weights, of its optimizer's slots, and the loss of every
 * step. Each test trains once on one replica and then again with one thing changed that may not
 * matter: replicas, threads, instruction set, algorithm, bucket, passes, input threads, an
 * interruption. The long sweeps (cifar10-cnn over 60 steps, digits-cnn over 3 epochs, everything
 * against everything) are long_lockstep.c's.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/training.h"

/* digits-cnn, Adam, 1438 samples in batches of 96: 15 steps, the last one short (94). */
static training *digits_create(void)
{
    training *t = training_create();
    training_set(t, "model", "digits-cnn");
    training_set(t, "data", "digits");
    training_set(t, "global-batch", "96");
    training_set(t, "epochs", "1");
    return t;
}

static training_bits one; /* digits_create's run on host:1 */

static int train_on_one(void **state)
{
    (void)state;
    training *t = digits_create();
    training_set(t, "threads", "1");
    training_must_run(t);
    training_remember(t, &one);
    training_destroy(t);
    return 0;
}

/* Run with `name` set to each of values[] (NULL-terminated), on `devices`. */
static void vary(const char *devices, const char *name, const char *const *values)
{
    training *t = digits_create();
    training_set(t, "devices", devices);
    for (; *values; values++) {
        char what[128];
        snprintf(what, sizeof what, "%s, --%s %s", devices, name, *values);
        training_set(t, name, *values);
        training_must_run(t);
        assert_true(training_same(t, &one, what));
    }
    training_destroy(t);
}

static void test_the_number_of_replicas_changes_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "host:2", "host:3", "host:4", "host:5", "host:8", NULL };
    vary("host:1", "devices", values);
}

static void test_the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "2", "3", NULL };
    vary("host:1", "threads", values);
    vary("host:3", "threads", values);
}

static void test_the_algorithm_changes_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "ring", "tree", "root", NULL };
    vary("host:3", "allreduce", values);
    vary("host:4", "allreduce", values);
}

static void test_staged_links_change_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "off", NULL };
    vary("host:3", "p2p", values);
}

static void test_the_bucket_changes_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "1K", "64K", "4M", NULL };
    vary("host:3", "bucket", values);
}

static void test_accumulation_changes_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "2", "3", "4", "8", NULL };
    vary("host:1", "accumulate", values);
    vary("host:3", "accumulate", values);
}

static void test_input_threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const values[] = { "3", NULL };
    vary("host:2", "readers", values);
}

static void test_the_instruction_set_changes_no_bit(void **state)
{
    (void)state;
    static const char *const isa[] = { "avx512", "avx2", "portable", "reference" };
    training *t = digits_create();
    for (int i = 0; i < 4; i++) {
        setenv("LOCKSTEP_ISA", isa[i], 1);
        const ls_status status = training_run(t);
        unsetenv("LOCKSTEP_ISA");
        if (status == LS_ERR_ARGUMENT) {
            print_message("left out, not on this processor: %s\n", isa[i]);
            continue;
        }
        assert_int_equal(status, LS_OK);
        assert_true(training_same(t, &one, isa[i]));
    }
    training_destroy(t);
}

static void test_an_interruption_changes_no_bit(void **state)
{
    (void)state;
    training *t = digits_create();
    char folder[1200];
    for (int stop = 1; stop <= 15; stop += 7) {
        training_reset(t);
        training_set(t, "global-batch", "96");
        training_set(t, "epochs", "1");
        training_set(t, "devices", "host:3");
        t->stop_after = (uint64_t)stop;
        training_must_run(t);
        memcpy(folder, t->result.checkpoint, sizeof folder);
        training_reset(t);
        training_set(t, "resume", folder);
        training_set(t, "devices", stop == 1 ? "host:5" : "host:2");
        training_must_run(t);
        assert_int_equal(t->step_count, 15 - stop);
        assert_true(training_same(t, &one, "resumed"));
    }
    training_destroy(t);
}

/* The plain ring's order is another class: the same from run to run, not the same for every N. */
static void test_the_fast_order_repeats_itself(void **state)
{
    (void)state;
    training *t = digits_create();
    training_bits first;
    training_set(t, "order", "fast");
    training_set(t, "allreduce", "ring");
    training_set(t, "devices", "host:3");
    training_must_run(t);
    training_remember(t, &first);
    training_must_run(t);
    assert_true(training_same(t, &first, "the same again"));
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_number_of_replicas_changes_no_bit),
        cmocka_unit_test(test_the_number_of_threads_changes_no_bit),
        cmocka_unit_test(test_the_algorithm_changes_no_bit),
        cmocka_unit_test(test_staged_links_change_no_bit),
        cmocka_unit_test(test_the_bucket_changes_no_bit),
        cmocka_unit_test(test_accumulation_changes_no_bit),
        cmocka_unit_test(test_input_threads_change_no_bit),
        cmocka_unit_test(test_the_instruction_set_changes_no_bit),
        cmocka_unit_test(test_an_interruption_changes_no_bit),
        cmocka_unit_test(test_the_fast_order_repeats_itself),
    };
    return cmocka_run_group_tests(tests, train_on_one, NULL);
}
