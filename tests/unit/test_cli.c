/* SPDX-License-Identifier: MIT */
/* test_cli.c -- what the program prints where, and how it exits, when it is asked or told wrongly.
 *
 * Help, mistakes, and the commands that only show something. Runs the binary that LOCKSTEP names
 * (command.h).
 */
#include "support/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include "support/command.h"
#include "train/config.h"
#include "train/model.h"

/* -- usage ---------------------------------------------------------------------------------- */

static void test_without_a_command_usage_goes_to_standard_error(void **state)
{
    (void)state;
    expect("", 2);
    assert_string_equal(last.out, "");
    expect_text(last.err, "usage: lockstep COMMAND");
}

static void test_help_and_version_go_to_standard_output(void **state)
{
    (void)state;
    static const char *const commands[] = { "train", "eval", "predict", "show", "devices",
                                            "verify", "bench allreduce", "bench gemm", "bench conv",
                                            "bench step", "data verify", "data show" };
    expect("--help", 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[64], usage[64];
        expect_text(last.out, commands[i]);
        snprintf(line, sizeof line, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "usage: lockstep %s ", commands[i]);
        command_outcome *help = malloc(sizeof *help);
        assert_non_null(help);
        *help = last;
        expect(line, 0);
        assert_true(strncmp(last.out, usage, strlen(usage)) == 0);
        assert_string_equal(last.err, "");
        last = *help;
        free(help);
    }
    expect("--version", 0);
    assert_true(strncmp(last.out, "lockstep ", 9) == 0);
}

static void test_help_is_had_by_other_words_too(void **state)
{
    (void)state;
    static const struct {
        const char *line, *same;
    } pairs[] = {
        { "help", "--help" },          { "-h", "--help" },
        { "train -h", "train --help" }, { "help train", "train --help" },
        { "bench -h", "bench --help" }, { "help bench", "bench --help" },
        { "bench gemm -h", "bench gemm --help" }, { "help bench gemm", "bench gemm --help" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        expect(pairs[i].same, 0);
        char *text = strdup(last.out);
        assert_non_null(text);
        expect(pairs[i].line, 0);
        assert_string_equal(last.out, text);
        assert_string_equal(last.err, "");
        free(text);
    }
}

/* Every run of blanks and line ends becomes one blank. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const bool blank = *from == ' ' || *from == '\n';
        if (!blank || to == text || to[-1] != ' ') *to++ = blank ? ' ' : *from;
    }
    *to = '\0';
}

static void test_no_line_of_help_is_longer_than_100_columns(void **state)
{
    (void)state;
    static const char *const lines[] = { "--help",         "train --help",   "eval --help",
                                         "predict --help", "show --help",    "verify --help",
                                         "devices --help", "bench gemm --help" };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect(lines[i], 0);
        for (const char *line = last.out; *line;) {
            const size_t columns = strcspn(line, "\n");
            if (columns > 100) fail_msg("%s: %.*s", lines[i], (int)columns, line);
            line += columns + (line[columns] == '\n');
        }
    }
}

static void test_the_help_of_train_names_every_option(void **state)
{
    (void)state;
    expect("train --help", 0);
    join_lines(last.out);
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        char name[64];
        if (o->group[0] == '\0') continue;
        snprintf(name, sizeof name, "--%s", o->name);
        expect_text(last.out, name);
        expect_text(last.out, o->help);
    }
}

/* The list's line of an option, from the name on, its blanks joined. */
static void expect_option(const char *command, const char *option, const char *words)
{
    char line[64], name[64];
    snprintf(line, sizeof line, "%s --help", command);
    snprintf(name, sizeof name, "\n  --%s ", option);
    expect(line, 0);
    char *found = strstr(last.out, name);
    if (!found) {
        fail_msg("%s: no --%s", line, option);
        return;
    }
    char *next = strstr(found + 1, "\n  --");
    if (next) *next = '\0';
    join_lines(found);
    expect_text(found, words);
}

static void test_help_says_the_default_that_the_command_has(void **state)
{
    (void)state;
    expect_option("train", "shards", "(default 8)");
    expect_option("bench allreduce", "shards", "(default as many as replicas)");
    expect_option("train", "metrics", "(default auto: accuracy, or mse,mae)");
    expect_option("eval", "metrics", "(default its run's)");
    expect_option("train", "steps", "(default none)");
    expect_option("bench step", "steps", "(default 50 unless --epochs)");
    expect_option("bench step", "epochs", "(default none)");
    for (const ls_option *o = ls_option_table(); o->name; o++) {
        if (o->zero) expect_option("train", o->name, o->zero); /* a word that messages name */
    }
}

static const struct {
    const char *line;
    int code;
    const char *words; /* in the one line on standard error */
} mistakes[] = {
    { "trian", 2, "did you mean train?" },
    { "bogus-command", 2, "unknown command 'bogus-command'" },
    { "train --lrr 3", 2, "did you mean --lr?" },
    { "train --batch-size 3", 2, "did you mean --global-batch?" },
    { "train --learning-rate 3", 2, "did you mean --lr?" },
    { "eval --batch-size 3", 2, "unknown option --batch-size; see lockstep eval" },
    { "evaluate r", 2, "did you mean eval?" },
    { "train --global 3", 2, "unknown option --global" }, /* no prefixes */
    { "train linear --data digits -d", 2, "found '-d'" },
    { "train linear --data digits extra", 2, "found 'extra'" },
    { "train linear --data digits --epochs", 2, "--epochs: nothing follows it" },
    { "train linear --data digits --epochs x", 2, "--epochs: found 'x'" },
    { "train linear --data digits --optimizer adma", 2, "adam" },
    { "train linear --data digits --devices host:9", 2, "--shards" },
    { "train linear --data digits --devices hots", 2, "--devices hots" },
    { "train linear --data digits --devices cuda", 5, "CUDA" },
    { "train linear --data digits --until acc>=0.9", 2, "--until" },
    { "train linear --data digits --monitor val_lss", 2, "did you mean val_loss?" },
    { "train linear --data digits --monitor val_auc", 2, "one of them after val_ [" },
    { "train linear --data digits --steps 3 --explain-step 4", 2, "the run ends with step 3" },
    { "train linear --data digts", 2, "did you mean 'digits'?" },
    { "train linear", 2, "--data" },
    { "train", 2, "MODEL" },
    { "train liner --data digits", 2, "did you mean 'linear'?" },
    { "train linear --data idx:nowhere", 3, "nowhere" },
    { "train linear --config nothing.txt", 2, "nothing.txt" },
    { "train linear --data digits --resume nothing", 3, "nothing" },
    { "train linear --data digits --resume auto", 2, "--resume auto needs --out" },
    { "train --resume auto", 2, "--resume auto needs --out" },
    { "verify linear --data digits --resume auto", 2, "takes no --resume" },
    { "eval", 2, "eval needs more" },
    { "eval nothing.safetensors --data digits", 3, "nothing.safetensors" },
    { "eval nothing.safetensors --lr 3", 2, "--lr is an option of train, not of eval" },
    { "eval nothing.safetensors --p2p off", 2, "--p2p is an option of train, not of eval" },
    { "help trian", 2, "did you mean train?" },
    { "predict x --out y.txt", 2, ".csv or .npy" },
    { "predict x --p2p off", 2, "--p2p is an option of train, not of predict" },
    { "show mnst-mlp", 2, "did you mean 'mnist-mlp'?" },
    { "show mlp", 2, "mlp:2:9: " },
    { "show nothing.safetensors", 3, "nothing.safetensors" },
    { "show ring", 2, "1 to 64" },
    { "show ring 0", 2, "1 to 64" },
    { "show ring 4x", 2, "found '4x'" },
    { "show ring 9", 2, "--shards" },
    { "show --text=yes mlp", 2, "takes no value" },
    { "verify linear --data digits --devices host:1", 2, "at least 2" },
    { "verify linear --data digits --repeat 0", 2, "--repeat: found '0'" },
    { "verify linear --data digits --scale-batch x", 2, "--scale-batch: found 'x'" },
    { "verify linear --data digits --replica-batch 4", 2, "--global-batch" },
    { "bench", 2, "bench: nothing follows it" },
    { "data", 2, "see lockstep data --help" },
    { "bench gem", 2, "did you mean bench gemm?" },
    { "bench step linear", 2, "--data" },
    { "bench step linear --data digits --out x", 2, "no --out" },
    { "bench step linear --data digits --repeat 0", 2, "--repeat: found '0'" },
    { "bench conv --square 3", 2, "unknown option --square" },
    { "bench gemm linear", 2, "say --data" },
    { "bench gemm --data digits", 2, "--data digits without a MODEL" },
    { "bench conv cifar10-cnn --data digits", 2, "32" },
    { "bench gemm --batch 0", 2, "--batch: found '0'" },
    { "bench alreduce", 2, "did you mean bench allreduce?" },
    { "bench allreduce --interations 3", 2, "did you mean --iterations?" },
    { "bench allreduce --lr 3", 2, "--lr is an option of train, not of bench allreduce" },
    { "bench allreduce --min 64 --max 32", 2, "--min 64 is more than --max 32" },
    { "bench allreduce --min 4x", 2, "--min: found '4x'" },
    { "bench allreduce --factor 1", 2, "--factor: found '1'" },
    { "bench allreduce --offset 32", 2, "--offset: found '32'" },
    { "bench allreduce --devices host:3 --shards 2", 2, "--shards 3 to 64" },
    { "bench allreduce --devices host:2 --order fast --allreduce tree", 2, "--order fast" },
    { "data verfy digits", 2, "did you mean data verify?" },
    { "data show digits", 2, "expected --out FILE.png" },
    { "data show digits --out x.jpg", 2, "ends in .png" },
    { "verify linear --data digits --out /", 2, "--out /: is there and not empty" },
    { "data show digits --out x.png --part all", 2, "expected train or test" },
    { "data show digits --out x.png --epoch 0", 2, "--epoch: found '0'" },
    { "data show digits --out x.png --augment spin", 2, "expected crop:P" },
    { "data show digits --out x.png --part test --augment flip", 2, "never augmented" },
    { "data show digits --out nowhere/x.png", 1, "nowhere/x.png" },
    { "data verify digit", 2, "digits" },
    { "data verify idx:nowhere", 3, "nowhere" },
};

static void test_a_mistake_is_one_line_on_standard_error_and_its_exit_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        expect(mistakes[i].line, mistakes[i].code);
        assert_string_equal(last.out, "");
        expect_text(last.err, mistakes[i].words);
        const size_t bytes = strlen(last.err);
        const bool is_one_line = bytes > 2 && strcmp(last.err + bytes - 2, "]\n") == 0 &&
                                 strchr(last.err, '\n') == last.err + bytes - 1;
        if (!is_one_line || strncmp(last.err, "lockstep: ", 10) != 0) {
            fail_msg("not one line \"lockstep: ... [place]\":\n%s", last.err);
        }
        struct stat info;
        assert_int_equal(stat("runs", &info), -1); /* nothing was made */
    }
}

static void test_the_environment_is_checked_like_an_option(void **state)
{
    (void)state;
    setenv("LOCKSTEP_P2P", "maybe", 1);
    expect("devices", 2);
    expect_text(last.err, "LOCKSTEP_P2P is 'maybe', expected auto, on or off");
    setenv("LOCKSTEP_P2P", "off", 1);
    expect("devices --devices host:2", 0);
    expect_text(last.out, "STAGED");
    expect("devices --devices host:2 --p2p on", 0); /* the command line wins */
    assert_null(strstr(last.out, "STAGED"));
    setenv("LOCKSTEP_P2P", "", 1); /* as if it were not set */
    expect("devices --devices host:2", 0);
    unsetenv("LOCKSTEP_P2P");
    setenv("LOCKSTEP_ISA", "mmx", 1);
    expect("devices", 2);
    expect_text(last.err, "LOCKSTEP_ISA=mmx is unknown; known are reference, portable");
    char word[2000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    setenv("LOCKSTEP_ISA", word, 1);
    expect("devices", 2);
    expect_text(last.err, "xxx is unknown; known are reference, portable");
    setenv("LOCKSTEP_ISA", "portable", 1);
    expect("devices", 0);
    expect_text(last.out, "kernels     portable");
    unsetenv("LOCKSTEP_ISA");
}

/* -- show, devices, data -------------------------------------------------------------------- */

static void test_show_prints_models_their_source_and_the_ring(void **state)
{
    (void)state;
    expect("show", 0);
    for (const char *const *name = ls_model_builtin_names(); *name; name++) {
        expect_text(last.out, *name);
    }
    expect("show cifar10-cnn", 0);
    expect_text(last.out, "462,410 in 6 tensors");
    expect("show cifar10-cnn --text", 0);
    assert_string_equal(last.out, ls_model_builtin("cifar10-cnn"));
    expect("show mlp --data digits", 0);
    expect_text(last.out, "8x8x1");
    expect("show ring 3 --shards 12", 0);
    expect_text(last.out, "Ring of 3 ranks, 12 shards");
}

static void test_a_training_says_how_much_it_did(void **state)
{
    (void)state;
    expect("train mlp --data digits --global-batch 64 --steps 20 --out part", 0);
    expect_text(last.out, "done: 20 of an epoch's 23 steps\n");
    expect("train mlp --data digits --global-batch 64 --epochs 2 --out whole", 0);
    expect_text(last.out, "done: 2 epochs, 46 steps\n");
    expect("train mlp --data digits --global-batch 64 --steps 24 --out more", 0);
    expect_text(last.out, "done: 1 epoch and 1 of 23 steps, 24 steps in all\n");
}

static void test_devices_says_what_is_here_and_why_there_is_no_gpu(void **state)
{
    (void)state;
    expect("devices --devices host:3", 0);
    expect_text(last.out, "GPUs        ");
    expect_text(last.out, "\nreplicas    3 (--devices host:3)\n");
    expect_text(last.out, "precisions  f32, bf16 (storage), f16 (storage)\n");
    expect_text(last.out, "ring: 0 -> 1 -> 2 -> 0");
}

static void test_data_verify_says_what_is_in_the_digits(void **state)
{
    (void)state;
    expect("data verify digits", 0);
    expect_text(last.out, "8x8x1");
    expect_text(last.out, "10 classes");
    expect_text(last.out, "identity");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_without_a_command_usage_goes_to_standard_error),
        TEST_IN_FOLDER(test_help_and_version_go_to_standard_output),
        TEST_IN_FOLDER(test_help_is_had_by_other_words_too),
        TEST_IN_FOLDER(test_no_line_of_help_is_longer_than_100_columns),
        TEST_IN_FOLDER(test_the_help_of_train_names_every_option),
        TEST_IN_FOLDER(test_help_says_the_default_that_the_command_has),
        TEST_IN_FOLDER(test_a_mistake_is_one_line_on_standard_error_and_its_exit_code),
        TEST_IN_FOLDER(test_the_environment_is_checked_like_an_option),
        TEST_IN_FOLDER(test_show_prints_models_their_source_and_the_ring),
        TEST_IN_FOLDER(test_a_training_says_how_much_it_did),
        TEST_IN_FOLDER(test_devices_says_what_is_here_and_why_there_is_no_gpu),
        TEST_IN_FOLDER(test_data_verify_says_what_is_in_the_digits),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
