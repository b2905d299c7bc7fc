/* SPDX-License-Identifier: MIT */
/* long_residual.c -- the promise at length with resnet20 and everything switched on (residual.h):
 * batch normalisation by the whole batch and by shard, in the classes f32, bf16 and f16.
 *
 * N = 1, 2, 3, 4, 8 with 1 and 2 threads (f32 each pair, the others each N); every instruction set
 * (the plain loops one step); a stop in mid-epoch, resumed at another N. CIFAR-10's first pictures
 * where LOCKSTEP_TEST_DATA names a folder that has cifar10-subset, else pictures of noise. The
 * short form, in `check`, is test_residual.c.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/residual.h"

enum { PICTURES = 60, RECORD_BYTES = 3073 }; /* batches of 16, 16, 16, 12 */

static training *network;
static const char *const modes[] = { "sync", "shard" };
static const char *const precisions[] = { "f32", "bf16", "f16" };

/* The first PICTURES of the data set in `base`, as the only ones of a data set in our folder. */
static const char *copy_pictures(const char *base)
{
    static char spec[600];
    static unsigned char record[PICTURES * RECORD_BYTES];
    char path[600];
    snprintf(path, sizeof path, "%s/cifar10-subset/data_batch_1.bin", base);
    FILE *from = fopen(path, "rb"), *to = fopen(training_path(network, "data_batch_1.bin"), "wb");
    if (!from || !to || fread(record, 1, sizeof record, from) != sizeof record ||
        fwrite(record, 1, sizeof record, to) != sizeof record || fclose(to) != 0) {
        perror(path);
        abort();
    }
    fclose(from);
    snprintf(spec, sizeof spec, "cifar10:%s", network->folder);
    return spec;
}

static int create_network(void **state)
{
    (void)state;
    const char *base = getenv("LOCKSTEP_TEST_DATA");
    char *text = residual_resnet20();
    network = training_create();
    training_write(network, "resnet20.model", text);
    free(text);
    training_set(network, "model", training_path(network, "resnet20.model"));
    if (!base) print_message("on noise: LOCKSTEP_TEST_DATA is not set\n");
    training_set(network, "data",
                 base ? copy_pictures(base) : training_pictures(network, PICTURES));
    return 0;
}

static int destroy_network(void **state)
{
    (void)state;
    training_destroy(network);
    return 0;
}

static training_bits on_one(const char *mode, const char *precision)
{
    training_bits bits;
    residual_set(network, "16", mode, precision);
    residual_run(network, "devices host:1 threads 1");
    training_remember(network, &bits);
    assert_int_equal(bits.step_count, 12);
    assert_int_equal(network->step[3].samples, 12);
    return bits;
}

/* Every number of replicas and threads, and an interruption between them. */
static void check(const char *mode, const char *precision, bool every_pair)
{
    static const char *const replicas[] = { "1", "2", "3", "4", "8" };
    const training_bits bits = on_one(mode, precision);
    char what[128];
    for (int i = 1; i < 10; i++) {
        char options[64];
        const bool one_of_each = i % 4 == 1 || i % 4 == 2; /* N: 1 2 3 4 8, threads: 2 1 2 1 2 */
        if (!every_pair && !one_of_each) continue;
        snprintf(options, sizeof options, "devices host:%s threads %d", replicas[i / 2],
                 i % 2 + 1);
        snprintf(what, sizeof what, "%s, %s, %s", mode, precision, options);
        residual_set(network, "16", mode, precision);
        residual_run(network, options);
        assert_true(training_same(network, &bits, what));
    }
    residual_set(network, "16", mode, precision);
    residual_interrupt(network, "devices host:4", 5, "devices host:3");
    assert_int_equal(network->step_count, 7);
    snprintf(what, sizeof what, "%s, %s, resumed", mode, precision);
    assert_true(training_same(network, &bits, what));
}

static void test_replicas_threads_and_interruptions_change_no_bit(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) check(modes[m], "f32", true);
}

static void test_nor_do_they_in_classes_of_16_bits(void **state)
{
    (void)state;
    for (int p = 1; p < 3; p++)
        for (int m = 0; m < 2; m++) check(modes[m], precisions[p], false);
}

/* `steps` steps with the instruction set `isa`; false: this processor lacks it. */
static bool run_with(const char *isa, const char *mode, const char *precision, const char *steps)
{
    residual_set(network, "16", mode, precision);
    training_set(network, "steps", steps);
    training_set(network, "devices", "host:2");
    training_set(network, "timeout", "600");
    setenv("LOCKSTEP_ISA", isa, 1);
    const ls_status status = training_run(network);
    unsetenv("LOCKSTEP_ISA");
    if (status == LS_ERR_ARGUMENT) print_message("left out, not on this processor: %s\n", isa);
    else assert_int_equal(status, LS_OK);
    return status == LS_OK;
}

/* The plain loops take a hundred times as long: they make one step here, all in test_residual.c. */
static void test_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const isa[] = { "avx2", "avx512" };
    for (int all = 0; all < 2; all++)
        for (int p = 0; p < 2; p++) {
            training_bits bits;
            const char *steps = all ? "12" : "1";
            assert_true(run_with("portable", modes[p], precisions[p], steps));
            training_remember(network, &bits);
            for (int i = 0; i < 2; i++)
                if (run_with(isa[i], modes[p], precisions[p], steps))
                    assert_true(training_same(network, &bits, isa[i]));
            if (all || !run_with("reference", modes[p], precisions[p], steps)) continue;
            assert_true(training_same(network, &bits, "reference"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_threads_and_interruptions_change_no_bit),
        cmocka_unit_test(test_nor_do_they_in_classes_of_16_bits),
        cmocka_unit_test(test_instruction_sets_change_no_bit),
    };
    return cmocka_run_group_tests(tests, create_network, destroy_network);
}
