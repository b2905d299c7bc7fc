/* SPDX-License-Identifier: MIT */
/* long_cuda_steps.c -- several steps of a training on virtual GPUs, for the sanitizers.
 *
 * All kinds of pairs, both algorithms, small buckets, two replicas on one GPU: the program and the
 * virtual driver are built with a sanitizer, which ends them with an error if it finds anything;
 * and the bits are those of host:1.
 */
#include "support/test.h"

#include <stdio.h>

#include "support/fresh_process.h"
#include "support/program.h"
#include "support/training.h"

enum { TEXT = 1000 };

static training *files;

static program_run train(const char *settings, const char *options)
{
    char arguments[TEXT], folder[32];
    program_run run;
    (void)snprintf(folder, sizeof folder, "run-%d", files->runs++);
    const int bytes = snprintf(arguments, sizeof arguments, "train digits-cnn --global-batch 8 "
                               "--data csv:src/data/digits.csv,header=no,test=none --steps 4 "
                               "--timeout 600 %s --out %s", options, training_path(files, folder));
    assert_true(bytes < TEXT);
    program_run_with(&run, settings, arguments);
    return run;
}

static void test_four_steps_have_the_hosts_bits(void **state)
{
    (void)state;
    if (!driver_is_virtual()) skip();
    static const char *const variant[][2] = {
        { "LOCKSTEP_VGPU_DEVICES=3 LOCKSTEP_VGPU_P2P=all,!0-1",
          "--devices cuda --allreduce ring --bucket 16K" },
        { "LOCKSTEP_VGPU_DEVICES=2", "--devices 'cuda:0*2,1' --allreduce ring" },
        { "LOCKSTEP_VGPU_DEVICES=3 LOCKSTEP_VGPU_JITTER=200", "--devices cuda --allreduce tree" },
    };
    files = training_create();
    const program_run host = train("", "--devices host:1");
    PROGRAM_MUST_END(&host, "host:1", 0, NULL);
    for (size_t i = 0; i < sizeof variant / sizeof variant[0]; i++) {
        const program_run run = train(variant[i][0], variant[i][1]);
        PROGRAM_MUST_END(&run, variant[i][1], 0, NULL);
        const bool clean = !program_said(&run, "vgpu:") && !program_said(&run, "Sanitizer");
        if (!clean) program_show(&run);
        assert_true(clean);
        assert_string_equal(run.weights, host.weights);
        assert_string_equal(run.optimizer, host.optimizer);
    }
    training_destroy(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_four_steps_have_the_hosts_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
