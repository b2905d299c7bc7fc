/* SPDX-License-Identifier: MIT */
/* test_cuda_resnet.c -- a residual network with batch normalisation trains on virtual GPUs to the
 * bits of host:1: weights, optimizer state and statistics, in float32 and with 16-bit numbers.
 *
 * Pictures of bytes, augmented; two joins, one over a projection; three steps of ten samples, in
 * which every instruction is interpreted. Every machine is tried: one GPU, two, and three of which
 * two cannot reach each other.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/fresh_process.h"
#include "support/program.h"
#include "support/training.h"

enum { TEXT = 1400 };

static const char model[] =
    "input 32x32x3\n"
    "conv 4 3x3 pad=same stride=8\n"
    "s0 = batchnorm relu\n"
    "conv 4 3x3 pad=same\n"
    "b1 = batchnorm\n"
    "s1 = add relu from s0 b1\n"
    "conv 6 3x3 pad=same stride=2\n"
    "b2 = batchnorm\n"
    "p2 = conv 6 1x1 stride=2 from s1\n"
    "add relu from p2 b2\n"
    "globalavgpool\n"
    "dropout 0.2\n"
    "dense 10\n"
    "loss softmax-crossentropy\n";

static training *files;
static char common[TEXT];

static int make_files(void **state)
{
    (void)state;
    if (!driver_is_virtual()) return 0;
    files = training_create();
    training_write(files, "residual.model", model);
    (void)snprintf(common, sizeof common,
                   "%s --data %s --global-batch 10 --shards 4 --steps 3 --ema 0.9 "
                   "--augment crop:4,flip,brightness:0.1,cutout:8 --clip-global-norm 1 "
                   "--class-weights 0=0.5,3=2", training_path(files, "residual.model"),
                   training_pictures(files, 25)); /* 10, 10, 5 */
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    if (files != NULL) training_destroy(files);
    return 0;
}

static program_run train(const char *settings, const char *options)
{
    char arguments[TEXT * 2], folder[32];
    program_run run;
    (void)snprintf(folder, sizeof folder, "run-%d", files->runs++);
    (void)snprintf(arguments, sizeof arguments, "train %s %s --out %s", common, options,
                   training_path(files, folder));
    program_run_with(&run, settings, arguments);
    return run;
}

/* `options` on a machine of `settings` has the bits of `host`, and the driver has no complaint. */
static program_run must_be_the_same(const program_run *host, const char *settings,
                                    const char *options)
{
    const program_run run = train(settings, options);
    PROGRAM_MUST_END(&run, settings, 0, NULL);
    const bool weights = strcmp(run.weights, host->weights) == 0,
               optimizer = strcmp(run.optimizer, host->optimizer) == 0,
               statistics = strcmp(run.statistics, host->statistics) == 0;
    if (weights && optimizer && statistics && !program_said(&run, "vgpu:")) return run;
    print_error("%s %s:%s%s%s%s\n", settings, options, weights ? "" : " other weights",
                optimizer ? "" : " other slots", statistics ? "" : " other statistics",
                program_said(&run, "vgpu:") ? " the driver complains" : "");
    program_show(&run);
    fail();
    return run;
}

static void check(const char *words)
{
    static const char *const machine[] = {
        "LOCKSTEP_VGPU_DEVICES=1",
        "LOCKSTEP_VGPU_DEVICES=2",
        "LOCKSTEP_VGPU_DEVICES=3 LOCKSTEP_VGPU_P2P=all,!0-1",
    };
    char options[300];
    if (!driver_is_virtual()) skip();
    (void)snprintf(options, sizeof options, "%s --devices host:1", words);
    const program_run host = train("", options);
    PROGRAM_MUST_END(&host, options, 0, NULL);
    assert_int_equal(strlen(host.statistics), 64);
    (void)snprintf(options, sizeof options, "%s --devices cuda", words);
    for (int m = 0; m < 3; m++) (void)must_be_the_same(&host, machine[m], options);
}

static void test_statistics_of_the_whole_batch_have_the_hosts_bits(void **state)
{
    (void)state;
    check("--batchnorm sync");
}

static void test_statistics_by_shard_have_the_hosts_bits(void **state)
{
    (void)state;
    check("--batchnorm shard");
}

static void test_class_bf16_has_the_hosts_bits(void **state)
{
    (void)state;
    check("--batchnorm sync --precision bf16");
    check("--batchnorm shard --precision bf16");
}

/* In two passes, of which the first one is looked at again after the second; class f16. */
static void test_a_step_is_explained_with_the_hosts_numbers(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    static const char words[] = "--accumulate 2 --precision f16 --explain-step 2 --devices";
    char options[300];
    (void)snprintf(options, sizeof options, "%s host:2", words);
    const program_run host = train("", options);
    PROGRAM_MUST_END(&host, options, 0, "folded again here", NULL);
    (void)snprintf(options, sizeof options, "%s cuda", words);
    const program_run gpu = must_be_the_same(&host, "LOCKSTEP_VGPU_DEVICES=2", options);
    const char *const page = strstr(host.text, "Step 2: "), *same = strstr(gpu.text, "Step 2: ");
    assert_true(page != NULL && same != NULL);
    const char *const end = strstr(page, "digest of the weights");
    if (end != NULL && strncmp(same, page, (size_t)(end - page)) == 0) return;
    program_show(&host);
    program_show(&gpu);
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics_of_the_whole_batch_have_the_hosts_bits),
        cmocka_unit_test(test_statistics_by_shard_have_the_hosts_bits),
        cmocka_unit_test(test_class_bf16_has_the_hosts_bits),
        cmocka_unit_test(test_a_step_is_explained_with_the_hosts_numbers),
    };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    cmocka_set_test_filter("test_statistics_by_shard_have_the_hosts_bits");
#endif
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
