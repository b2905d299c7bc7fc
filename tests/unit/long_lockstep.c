/* SPDX-License-Identifier: MIT */
/* long_lockstep.c -- the promise, at length: every way to share the work out, on two networks.
 *
 *   cifar10-cnn   synthetic pictures, global batch 64, 60 steps, Adam
 *   digits-cnn    digits, 3 epochs of 45 steps, the last with 30 of 32 samples, momentum
 *
 * N = 1, 2, 3, 4, 5, 8; 1 and 2 threads; every instruction set; ring, tree, root; buckets of 64 KiB
 * and 4 MiB; accumulation 1, 2, 4; a stop in mid-epoch, resumed at another N. The short form, in
 * `check`, is test_lockstep.c.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/training.h"

typedef struct {
    training *run;
    training_bits bits;
    const char *network;
} promise;

static void set_cnn(training *t)
{
    training_set(t, "global-batch", "64");
    training_set(t, "steps", "60");
}

static void set_digits(training *t)
{
    training_set(t, "global-batch", "32");
    training_set(t, "epochs", "3");
    training_set(t, "optimizer", "momentum");
}

static void set_run(const promise *p)
{
    training_reset(p->run);
    (strcmp(p->network, "cifar10-cnn") == 0 ? set_cnn : set_digits)(p->run);
}

static int begin(promise *p, const char *network)
{
    p->network = network;
    p->run = training_create();
    training_set(p->run, "model", network);
    training_set(p->run, "data", strcmp(network, "cifar10-cnn") == 0
                                     ? training_pictures(p->run, 1600) : "digits");
    set_run(p);
    training_set(p->run, "threads", "1");
    training_must_run(p->run);
    training_remember(p->run, &p->bits);
    return 0;
}

static promise cnn, digits;

static int begin_both(void **state)
{
    (void)state;
    return begin(&cnn, "cifar10-cnn") + begin(&digits, "digits-cnn");
}

static int end_both(void **state)
{
    (void)state;
    training_destroy(cnn.run);
    training_destroy(digits.run);
    return 0;
}

/* Run with the options of `options` ("name value name value"), and compare. */
static void hold(promise *p, const char *options)
{
    char words[256], *rest = NULL;
    snprintf(words, sizeof words, "%s", options);
    set_run(p);
    for (char *name = strtok_r(words, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        training_set(p->run, name, strtok_r(NULL, " ", &rest));
    training_must_run(p->run);
    assert_true(training_same(p->run, &p->bits, options));
}

static void hold_both(const char *options)
{
    hold(&cnn, options);
    hold(&digits, options);
}

static void test_replicas_and_threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const replicas[] = { "1", "2", "3", "4", "5", "8" };
    for (int n = 0; n < 6; n++)
        for (int threads = 1; threads <= 2; threads++) {
            char options[64];
            snprintf(options, sizeof options, "devices host:%s threads %d", replicas[n], threads);
            hold_both(options);
        }
}

static void test_algorithms_and_buckets_change_no_bit(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "ring", "tree", "root" };
    static const char *const buckets[] = { "64KiB", "4MiB" };
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2; b++)
            for (int n = 3; n <= 5; n += 2) {
                char options[96];
                snprintf(options, sizeof options, "devices host:%d allreduce %s bucket %s", n,
                         algorithms[a], buckets[b]);
                hold_both(options);
            }
}

static void test_accumulation_and_staging_change_no_bit(void **state)
{
    (void)state;
    hold_both("accumulate 2");
    hold_both("accumulate 4 devices host:2");
    hold_both("accumulate 4 devices host:5 threads 2");
    hold_both("p2p off devices host:4");
}

static void test_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const isa[] = { "portable", "avx2", "avx512" };
    for (int i = 0; i < 3; i++) {
        setenv("LOCKSTEP_ISA", isa[i], 1);
        set_run(&cnn);
        const ls_status status = training_run(cnn.run);
        if (status == LS_OK) hold_both("devices host:2");
        unsetenv("LOCKSTEP_ISA");
        if (status == LS_ERR_ARGUMENT) {
            print_message("left out, not on this processor: %s\n", isa[i]);
            continue;
        }
        assert_int_equal(status, LS_OK);
    }
}

static void interrupt(promise *p, uint64_t stop, const char *before, const char *after)
{
    char checkpoint[1200];
    set_run(p);
    training_set(p->run, "devices", before);
    p->run->stop_after = stop;
    training_must_run(p->run);
    memcpy(checkpoint, p->run->result.checkpoint, sizeof checkpoint);
    training_reset(p->run);
    training_set(p->run, "resume", checkpoint);
    training_set(p->run, "devices", after);
    training_must_run(p->run);
    assert_true(training_same(p->run, &p->bits, after));
}

static void test_interruptions_change_no_bit(void **state)
{
    (void)state;
    interrupt(&cnn, 7, "host:4", "host:1");
    interrupt(&cnn, 31, "host:1", "host:3");
    interrupt(&digits, 50, "host:3", "host:8");
    interrupt(&digits, 90, "host:2", "host:5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_and_threads_change_no_bit),
        cmocka_unit_test(test_algorithms_and_buckets_change_no_bit),
        cmocka_unit_test(test_accumulation_and_staging_change_no_bit),
        cmocka_unit_test(test_instruction_sets_change_no_bit),
        cmocka_unit_test(test_interruptions_change_no_bit),
    };
    return cmocka_run_group_tests(tests, begin_both, end_both);
}
