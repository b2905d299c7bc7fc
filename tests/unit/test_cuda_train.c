/* SPDX-License-Identifier: MIT */
/* test_cuda_train.c -- the promise on GPUs: the program trains to the bits of host:1 on any number
 * of them, over any links.
 *
 * All of this needs machines made for it, so on a real driver it is left out: there,
 * tests/gpu/run trains (gpu_training.h).
 */
#include "support/test.h"

#include <stdio.h>

#include "support/fresh_process.h"
#include "support/gpu_machines.h"
#include "support/gpu_training.h"
#include "support/program.h"

static work digits, small, cifar10;

static int make_works(void **state)
{
    if (make_files(state) != 0) return -1;
    if (!driver_is_virtual()) return 0;
    (void)snprintf(digits.words, sizeof digits.words,
                   "digits-cnn --data digits --global-batch 16 --steps 3");
    (void)snprintf(small.words, sizeof small.words,
                   "digits-cnn --data " DIGITS_TRAIN " --global-batch 12 --steps 3");
    (void)snprintf(cifar10.words, sizeof cifar10.words,
                   "cifar10-cnn --data %s --global-batch 8 --steps 3",
                   training_pictures(files, 24));
    prepare(&digits);
    prepare(&small);
    prepare(&cifar10);
    return 0;
}

/* -- the same bits ----------------------------------------------------------------------------- */

static void test_the_number_of_gpus_changes_no_bit(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=1", "--devices cuda", "replicas    1 on cuda:0" },
        { "DEVICES=2", "--devices cuda", "2 PEER" },
        { "DEVICES=3", "--devices cuda", "3 PEER" },
        { "DEVICES=4", "--devices cuda", "4 PEER" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&digits, variants);
}

static void test_links_and_algorithm_change_no_bit(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=4", "--devices cuda --allreduce ring", "4 PEER" },
        { "DEVICES=4", "--devices cuda --allreduce tree", "4 PEER" },
        { "DEVICES=4 P2P=none", "--devices cuda --allreduce ring", "4 STAGED" },
        { "DEVICES=3 P2P=none", "--devices cuda --allreduce tree", "3 STAGED" },
        { "DEVICES=4 P2P=all,!0-1", "--devices cuda --allreduce ring", "4 PEER" }, /* round it */
        { "DEVICES=3 P2P=all,!0-1", "--devices cuda --allreduce ring", "1 STAGED" },
        { "DEVICES=3 P2P=all,!0-1", "--devices cuda --allreduce tree", NULL },
        { "DEVICES=3", "--devices cuda --p2p off", "3 STAGED" },
        { "DEVICES=1", "--devices 'cuda:0*2' --allreduce ring", "2 LOCAL" },
        { "DEVICES=1", "--devices 'cuda:0*2' --allreduce tree", "2 LOCAL" },
        { "DEVICES=2 P2P=none", "--devices 'cuda:0*2,1'", "LOCAL" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&small, variants);
}

static void test_small_buckets_passes_and_the_lower_ptx_change_no_bit(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=3", "--devices cuda --bucket 16K", "buckets" },
        { "DEVICES=2", "--devices cuda --accumulate 2", NULL },
        { "DEVICES=2 CAPABILITY=75", "--devices cuda", "sm_75" },
        { "DEVICES=2 SEED=2 JITTER=200", "--devices cuda", NULL },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&small, variants);
}

static void test_three_steps_on_pictures_have_the_hosts_bits(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant variants[] = {
        { "DEVICES=1", "--devices cuda", NULL },
        { "DEVICES=3", "--devices cuda", "3 PEER" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&cifar10, variants);
}

/* `loss` on records with weights of their own and of their classes. */
static void check_weighted_loss(const char *loss)
{
    static const variant variants[] = {
        { "DEVICES=1", "--devices cuda", NULL },
        { "DEVICES=3", "--devices cuda --accumulate 2", NULL },
        { "DEVICES=2 CAPABILITY=75", "--devices cuda", "sm_75" },
        { NULL, NULL, NULL },
    };
    char model[200], table[2000];
    size_t used = 0;
    work weighted;
    for (int i = 0; i < 40; i++) {
        used += (size_t)snprintf(table + used, sizeof table - used, "%d,%d,%d,%d\n", i % 5 - 2,
                                 i % 7 - 3, i * i % 3, i % 4);
    }
    (void)snprintf(model, sizeof model, "input 2\ndense 3\nloss %s\n", loss);
    training_write(files, "weighted.model", model);
    training_write(files, "weighted.csv", table);
    (void)snprintf(weighted.words, sizeof weighted.words,
                   "%s --data csv:%s,label=3,weights=4 --class-weights 0=0.5,1=3 --global-batch 8 "
                   "--epochs 1 --metrics accuracy,top2,f1 --reduction weighted-mean",
                   training_path(files, "weighted.model"), training_path(files, "weighted.csv"));
    prepare(&weighted);
    must_all_be_the_same(&weighted, variants);
}

static void test_weighted_and_smoothed_losses_have_the_hosts_bits(void **state)
{
    (void)state;
    need_virtual_driver();
    check_weighted_loss("softmax-crossentropy smoothing=0.1");
    check_weighted_loss("sigmoid-crossentropy smoothing=0.1");
}

static void test_sixteen_gpus_with_eight_partners_each_have_the_hosts_bits(void **state)
{
    (void)state;
    need_virtual_driver();
    work sixteen;
    (void)snprintf(sixteen.words, sizeof sixteen.words,
                   "digits-cnn --data " DIGITS_TRAIN " --shards 16 --global-batch 16 --steps 1");
    prepare(&sixteen);
    const program_run run = train(&sixteen, "DEVICES=16 PARTNERS=8 MEMORY=64M",
                                  "--devices cuda");
    must_be_the_same(&sixteen, &run, "16 GPUs");
    PROGRAM_MUST_END(&run, "16 GPUs", 0, "16 PEER", NULL);
}

static void test_more_gpus_than_shards_are_refused_in_words(void **state)
{
    (void)state;
    need_virtual_driver();
    const program_run run = train(&small, "DEVICES=4", "--devices cuda --shards 2");
    PROGRAM_MUST_END(&run, "4 GPUs, 2 shards", 2, "4 replicas, but only 2 shards",
                     "use --shards 4 or more", NULL);
}

static void test_a_gpu_that_is_too_small_is_told_before_anything_is_allocated(void **state)
{
    (void)state;
    need_virtual_driver();
    const program_run run = train(&small, "DEVICES=2 MEMORY=64M OTHERS=56M", "--devices cuda");
    PROGRAM_MUST_END(&run, "8 MiB free", 1, "the run does not fit: cuda:0 ",
                     "8.0 MiB are free on it", "or more GPUs", NULL);
}

/* -- from machine to machine ------------------------------------------------------------------- */

/* The first two of three steps on one machine, the third on others: the undisturbed run's bits. */
static void must_go_on(const char *from, const char *from_settings, const variant *to)
{
    char begin[600], options[ARGUMENTS_BYTES], folder[512];
    (void)snprintf(folder, sizeof folder, "%s", new_folder());
    (void)snprintf(begin, sizeof begin, "--devices %s --steps 2 --out %s", from, folder);
    program_run run = train(&small, from_settings, begin);
    PROGRAM_MUST_END(&run, begin, 0, NULL);
    assert_string_not_equal(run.weights, small.on_host.weights);
    for (; to->settings != NULL; to++) {
        (void)snprintf(options, sizeof options, "%s --resume %s/checkpoints/last.safetensors",
                       to->options, folder);
        run = train(&small, to->settings, options);
        must_be_the_same(&small, &run, options);
        PROGRAM_MUST_END(&run, options, 0, to->said, NULL);
    }
}

static void test_a_checkpoint_of_four_gpus_goes_on_anywhere(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant to[] = {
        { "DEVICES=1", "--devices cuda", "replicas    1 on cuda:0" },
        { "DEVICES=0", "--devices host:3", "replicas    3 on host" },
        { NULL, NULL, NULL },
    };
    must_go_on("cuda", "DEVICES=4", to);
}

static void test_a_checkpoint_from_anywhere_goes_on_on_four_gpus(void **state)
{
    (void)state;
    need_virtual_driver();
    static const variant to[] = {
        { "DEVICES=4", "--devices cuda", "replicas    4 on cuda:0" },
        { NULL, NULL, NULL },
    };
    must_go_on("cuda", "DEVICES=1", to);
    must_go_on("host:3", "DEVICES=0", to);
}

/* -- more than training ------------------------------------------------------------------------ */

/* What `lockstep <words> <checkpoint> ...` says of samples on a machine. */
static program_run apply(const char *words, const char *checkpoint, const char *data,
                         const char *settings, const char *devices)
{
    char arguments[ARGUMENTS_BYTES];
    program_run run;
    const int bytes = snprintf(arguments, sizeof arguments, "%s %s --data %s --devices %s", words,
                               checkpoint, data, devices);
    assert_true(bytes < ARGUMENTS_BYTES);
    program_run_with(&run, settings, arguments);
    PROGRAM_MUST_END(&run, arguments, 0, NULL);
    return run;
}

/* The first `lines` lines of the digits, as a file of their own; the spec that names it. */
static void write_few_digits(char *spec, size_t spec_bytes, int lines)
{
    char text[16384] = "";
    size_t used = 0;
    FILE *file = fopen("src/data/digits.csv", "r");
    assert_non_null(file);
    for (; lines > 0 && fgets(text + used, (int)(sizeof text - used), file) != NULL; lines--)
        used += strlen(text + used);
    (void)fclose(file);
    assert_int_equal(lines, 0);
    training_write(files, "few.csv", text);
    (void)snprintf(spec, spec_bytes, "csv:%s,header=no,test=none", training_path(files, "few.csv"));
}

static void test_evaluation_and_prediction_say_the_same_as_on_the_host(void **state)
{
    (void)state;
    need_virtual_driver();
    static const char *const machine[][2] = {
        { "LOCKSTEP_VGPU_DEVICES=1", "cuda" },
        { "LOCKSTEP_VGPU_DEVICES=3", "cuda" },
        { "LOCKSTEP_VGPU_DEVICES=2 LOCKSTEP_VGPU_P2P=none", "'cuda:1*2,0'" },
    };
    static const char *const command[][2] = { { "eval", "accuracy" }, { "predict", "predicted" } };
    char options[600], checkpoint[600], spec[400];
    const char *folder = new_folder();
    (void)snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/last.safetensors", folder);
    (void)snprintf(options, sizeof options, "--devices host:1 --out %s", folder);
    const program_run trained = train(&small, "", options);
    PROGRAM_MUST_END(&trained, "training", 0, NULL);
    write_few_digits(spec, sizeof spec, 41); /* a tail in every split */
    for (int c = 0; c < 2; c++) {
        const program_run host = apply(command[c][0], checkpoint, spec, "", "host:1");
        assert_true(program_said(&host, command[c][1]));
        for (size_t m = 0; m < sizeof machine / sizeof machine[0]; m++) {
            const program_run gpu = apply(command[c][0], checkpoint, spec, machine[m][0],
                                          machine[m][1]);
            if (strcmp(gpu.text, host.text) == 0) continue;
            print_error("%s with %s --devices %s differs from the host's\n", command[c][0],
                        machine[m][0], machine[m][1]);
            program_show(&gpu);
            fail();
        }
    }
}

/* The figures of `lockstep devices`, in the run's folder. */

/* Many tensors of one size: what a bucket holds decides how large a slot is. */
static const char many_layers[] =
    "input auto\nflatten\n"
    "dense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\n"
    "dense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\n"
    "dense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\ndense 96 relu\n"
    "dense auto\nloss auto\n";

static void test_too_little_pinned_memory_is_told_and_smaller_staging_fits(void **state)
{
    (void)state;
    need_virtual_driver();
    work layers;
    training_write(files, "many.model", many_layers);
    (void)snprintf(layers.words, sizeof layers.words, "%s --data " DIGITS_TRAIN
                   " --global-batch 8 --steps 1", training_path(files, "many.model"));
    prepare(&layers);
    const program_run run = train(&layers, "DEVICES=3 P2P=none PINNED=5M", "--devices cuda");
    PROGRAM_MUST_END(&run, "large buckets", 1, "cuMemHostAlloc failed while allocating ",
                     " bytes of pinned host memory, with ", "ulimit -l: ", "a smaller --bucket",
                     "CUDA_ERROR_OUT_OF_MEMORY", NULL);
    static const variant variants[] = {
        { "DEVICES=3 P2P=none PINNED=5M", "--devices cuda --bucket 16K", "3 STAGED" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&layers, variants);
}

/* Under a sanitizer, where all is ten times slower, this is all: one step, every kind of link. */
static void test_one_step_has_the_hosts_bits(void **state)
{
    (void)state;
    need_virtual_driver();
    work step;
    (void)snprintf(step.words, sizeof step.words,
                   "digits-cnn --data " DIGITS_TRAIN " --global-batch 8 --steps 1");
    prepare(&step);
    static const variant variants[] = {
        { "DEVICES=3 P2P=all,!0-1", "--devices cuda --allreduce ring", "2 PEER, 1 STAGED" },
        { "DEVICES=1", "--devices 'cuda:0*2' --allreduce tree", "2 LOCAL" },
        { NULL, NULL, NULL },
    };
    must_all_be_the_same(&step, variants);
}

/* Rates, decay and clip factors of each tensor are uploaded every step; the average is
 * evaluated. */
static void test_what_an_optimizer_does_to_each_tensor_has_the_hosts_bits(void **state)
{
    (void)state;
    need_virtual_driver();
    static const char *const optimizers[] = { "rmsprop --lr 0.01", "adamw --weight-decay 0.5" };
    for (int o = 0; o < 2; o++) {
        work step;
        (void)snprintf(step.words, sizeof step.words,
                       "digits-cnn --data " DIGITS_TRAIN " --global-batch 8 --steps 2 --ema 0.5 "
                       "--l2 0.01 --clip-global-norm 0.1 --schedule exponential:3,0.5 "
                       "--rules 'conv1/*=freeze;*bias=lr:2,l2:0.1' --optimizer %s", optimizers[o]);
        prepare(&step);
        static const variant variants[] = {
            { "DEVICES=2", "--devices cuda", "norm clipped to 0.1" },
            { NULL, NULL, NULL },
        };
        must_all_be_the_same(&step, variants);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step_has_the_hosts_bits),
        cmocka_unit_test(test_what_an_optimizer_does_to_each_tensor_has_the_hosts_bits),
        cmocka_unit_test(test_the_number_of_gpus_changes_no_bit),
        cmocka_unit_test(test_links_and_algorithm_change_no_bit),
        cmocka_unit_test(test_small_buckets_passes_and_the_lower_ptx_change_no_bit),
        cmocka_unit_test(test_three_steps_on_pictures_have_the_hosts_bits),
        cmocka_unit_test(test_weighted_and_smoothed_losses_have_the_hosts_bits),
        cmocka_unit_test(test_sixteen_gpus_with_eight_partners_each_have_the_hosts_bits),
        cmocka_unit_test(test_more_gpus_than_shards_are_refused_in_words),
        cmocka_unit_test(test_a_gpu_that_is_too_small_is_told_before_anything_is_allocated),
        cmocka_unit_test(test_a_checkpoint_of_four_gpus_goes_on_anywhere),
        cmocka_unit_test(test_a_checkpoint_from_anywhere_goes_on_on_four_gpus),
        cmocka_unit_test(test_evaluation_and_prediction_say_the_same_as_on_the_host),
        cmocka_unit_test(test_too_little_pinned_memory_is_told_and_smaller_staging_fits),
    };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    cmocka_set_test_filter("test_one_step_has_the_hosts_bits");
#endif
    return cmocka_run_group_tests(tests, make_works, remove_files);
}
