/* SPDX-License-Identifier: MIT */
/* test_residual.c -- the promise on a residual network with everything switched on (residual.h),
 * and on a perceptron: SHA-256 of weights, optimizer state and statistics, and every loss.
 *
 * long_residual.c does the same with resnet20.
 */
#include "support/test.h"

#include <stdio.h>

#include "numerics.h"
#include "support/residual.h"

enum { PICTURES = 116 }; /* three batches of 32, and one of 20 */

static training *network;

static int create_network(void **state)
{
    (void)state;
    network = training_create();
    training_write(network, "residual.model", residual_model);
    training_set(network, "model", training_path(network, "residual.model"));
    training_set(network, "data", training_pictures(network, PICTURES));
    return 0;
}

static int destroy_network(void **state)
{
    (void)state;
    training_destroy(network);
    return 0;
}

static const char *const modes[] = { "sync", "shard" };
static const char *const precisions[] = { "f32", "bf16", "f16" };

/* The whole run on one replica with one thread. */
static training_bits on_one(const char *mode, const char *precision)
{
    training_bits bits;
    residual_set(network, "32", mode, precision);
    residual_run(network, "devices host:1 threads 1");
    training_remember(network, &bits);
    assert_int_equal(bits.step_count, 12);
    assert_int_equal(network->step[3].samples, 20);
    return bits;
}

/* With `options` the same bits. */
static void hold(const training_bits *bits, const char *mode, const char *precision,
                 const char *options)
{
    char what[256];
    snprintf(what, sizeof what, "%s, %s, %s", mode, precision, options);
    residual_set(network, "32", mode, precision);
    residual_run(network, options);
    assert_true(training_same(network, bits, what));
}

/* All of it that is run under a sanitizer. */
static void test_three_replicas_have_the_bits_of_one(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        const char *precision = precisions[m];
        const training_bits bits = on_one(modes[m], precision);
        hold(&bits, modes[m], precision, "devices host:3 threads 2");
        residual_set(network, "32", modes[m], precision);
        residual_interrupt(network, "devices host:2", 6, "devices host:3");
        assert_int_equal(network->step_count, 6);
        assert_true(training_same(network, &bits, "resumed"));
    }
}

static void test_replicas_and_threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const options[] = {
        "devices host:1 threads 2", "devices host:2 threads 1", "devices host:2 threads 2",
        "devices host:3 threads 1", "devices host:3 threads 2", "devices host:4 threads 1",
        "devices host:4 threads 2", "devices host:8 threads 1", "devices host:8 threads 2",
    };
    for (int m = 0; m < 2; m++) {
        const training_bits bits = on_one(modes[m], "f32");
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++)
            hold(&bits, modes[m], "f32", options[o]);
    }
}

static void test_replicas_and_threads_change_no_bit_in_classes_of_16_bits(void **state)
{
    (void)state;
    static const char *const options[] = { "devices host:2 threads 2", "devices host:3 threads 1",
                                           "devices host:4 threads 1",
                                           "devices host:8 threads 2" };
    for (int p = 1; p <= 2; p++)
        for (int m = 0; m < 2; m++) {
            const training_bits bits = on_one(modes[m], precisions[p]);
            for (int o = m; o < 4; o += 2) hold(&bits, modes[m], precisions[p], options[o]);
        }
}

static void test_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const isa[] = { "avx512", "avx2", "portable", "reference" };
    for (int p = 0; p < 2; p++) {
        const char *mode = modes[p];
        const training_bits bits = on_one(mode, precisions[p]);
        for (int i = 0; i < 4; i++) {
            setenv("LOCKSTEP_ISA", isa[i], 1);
            residual_set(network, "32", mode, precisions[p]);
            training_set(network, "devices", "host:2");
            const ls_status status = training_run(network);
            unsetenv("LOCKSTEP_ISA");
            if (status == LS_ERR_ARGUMENT) {
                print_message("left out, not on this processor: %s\n", isa[i]);
                continue;
            }
            assert_int_equal(status, LS_OK);
            assert_true(training_same(network, &bits, isa[i]));
        }
    }
}

static void test_interruptions_change_no_bit(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        const training_bits bits = on_one(modes[m], precisions[2 * m]);
        for (uint64_t stop = 1; stop <= 11; stop += 5) {
            residual_set(network, "32", modes[m], precisions[2 * m]);
            residual_interrupt(network, "devices host:4", stop, "devices host:3");
            assert_int_equal(network->step_count, 12 - stop);
            assert_true(training_same(network, &bits, "resumed"));
        }
    }
}

/* -- a perceptron, every algorithm ------------------------------------------------------------- */

/* Were sums not different in another order, equal bits would say nothing. */
static void test_the_order_of_a_sum_shows_in_it(void **state)
{
    (void)state;
    const volatile float x[4] = { 1e8f, 1, -1e8f, 1 };
    const float chain = ((x[0] + x[1]) + x[2]) + x[3];
    const float pairs = (x[0] + x[1]) + (x[2] + x[3]);
    const float strided = (x[0] + x[2]) + (x[1] + x[3]);
    assert_true(chain == 1 && pairs == 0 && strided == 2);
    ls_tree_f32 tree = { .depth = 0 };
    for (int i = 0; i < 4; i++) ls_tree_push_f32(&tree, x[i]);
    assert_true(ls_tree_root_f32(&tree) == pairs); /* ours is the second */
}

static void test_every_algorithm_and_number_of_readers_gives_one_result(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "ring", "tree", "root" };
    static const int replicas[] = { 1, 2, 3, 4, 8 };
    training *t = training_create();
    training_bits bits;
    char data[600], *lines = training_table(3, 120, 4, 3);
    training_write(t, "tiny.model", "input 4\ndense 8\nbatchnorm relu\ndropout 0.2\ndense 3\n"
                                    "loss softmax-crossentropy\n");
    training_write(t, "data.csv", lines);
    free(lines);
    snprintf(data, sizeof data, "csv:%s,test=none", training_path(t, "data.csv"));
    training_set(t, "model", training_path(t, "tiny.model"));
    training_set(t, "data", data);
    for (int i = 0; i < 5 * 3 * 2; i++) {
        char options[200];
        training_reset(t);
        snprintf(options, sizeof options, "devices host:%d allreduce %s readers %d batchnorm shard "
                 "optimizer adam clip-global-norm 0.5 accumulate 4 global-batch 32 steps 20",
                 replicas[i / 6], algorithms[i / 2 % 3], i % 2 ? 8 : 1);
        residual_run(t, options);
        assert_int_equal(t->step_count, 20);
        if (i == 0) training_remember(t, &bits);
        assert_true(training_same(t, &bits, options));
    }
    training_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_replicas_have_the_bits_of_one),
        cmocka_unit_test(test_replicas_and_threads_change_no_bit),
        cmocka_unit_test(test_replicas_and_threads_change_no_bit_in_classes_of_16_bits),
        cmocka_unit_test(test_instruction_sets_change_no_bit),
        cmocka_unit_test(test_interruptions_change_no_bit),
        cmocka_unit_test(test_the_order_of_a_sum_shows_in_it),
        cmocka_unit_test(test_every_algorithm_and_number_of_readers_gives_one_result),
    };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    cmocka_set_test_filter("test_three_replicas_have_the_bits_of_one");
#endif
    return cmocka_run_group_tests(tests, create_network, destroy_network);
}
