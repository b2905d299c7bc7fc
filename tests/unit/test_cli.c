/* SPDX-License-Identifier: MIT */
/* test_cli.c -- the program from outside: what it prints where, and how it exits.
 *
 * Runs the binary that LOCKSTEP names. Each test works in a fresh temporary folder, which is the
 * program's current folder, too. Standard output and standard error are caught in files there.
 * Trainings are a few steps of `linear` on the built-in digits.
 */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/scratch_folder.h"
#include "io/checkpoint.h"
#include "train/config.h"
#include "train/model.h"

extern char **environ;

enum { ARGUMENTS_MAX = 24, TEXT_BYTES = 1 << 16, PATH_BYTES = 4096 };

static char program[PATH_BYTES]; /* absolute: tests change the current folder */

/* What one run of the program left. */
typedef struct {
    int code;               /* exit code, or -signal */
    char out[TEXT_BYTES];
    char err[TEXT_BYTES];
} outcome;

static outcome last; /* of the latest run() */

static void read_text(const char *path, char text[TEXT_BYTES])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
    text[bytes] = '\0';
    fclose(file);
}

/* Start the program; `out_fd` >= 0 becomes its standard output, else the file "out". */
static pid_t start(char *const *argv, int out_fd)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    if (out_fd >= 0) {
        posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    } else {
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "out", flags, 0600);
    }
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "err", flags, 0600);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Words of `line`, cut at blanks, into argv after the program's name. `line` is cut in place. */
static void split_words(char *line, char *argv[ARGUMENTS_MAX])
{
    int count = 0;
    argv[count++] = program;
    char *rest = NULL;
    for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        assert_true(count < ARGUMENTS_MAX - 1);
        argv[count++] = w;
    }
    argv[count] = NULL;
}

/* Run `lockstep <line>` to its end; returns the exit code. */
static int run(const char *line)
{
    char words[1024], *argv[ARGUMENTS_MAX];
    snprintf(words, sizeof words, "%s", line);
    split_words(words, argv);
    last.code = wait_for(start(argv, -1));
    read_text("out", last.out);
    read_text("err", last.err);
    return last.code;
}

static void expect(const char *line, int code)
{
    if (run(line) == code) return;
    fail_msg("lockstep %s: exit code %d, expected %d\n%s%s", line, last.code, code, last.out,
             last.err);
}

static void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("found:\n%s\nexpected in it: %s", text, part);
}

/* The text after `name` at the beginning of one of the lines of the last output, blanks skipped. */
static const char *row(const char *name)
{
    for (const char *at = last.out; (at = strstr(at, name)); at++) {
        const char *before = at;
        while (before > last.out && before[-1] == ' ') before--;
        if (before > last.out && before[-1] != '\n') continue;
        return at + strlen(name) + strspn(at + strlen(name), " ");
    }
    fail_msg("no line begins with '%s':\n%s", name, last.out);
    return NULL;
}

/* The 64 digits of the row "<name>  sha256 <digits>" of the last output. */
static void digest_of(const char *name, char out[65])
{
    char start_of_row[32];
    snprintf(start_of_row, sizeof start_of_row, "%-11s sha256 ", name);
    snprintf(out, 65, "%.64s", row(start_of_row));
    assert_int_equal(strspn(out, "0123456789abcdef"), 64);
}

/* -- a folder of its own for each test ------------------------------------------------------ */

static char folder[PATH_BYTES];

static int enter_folder(void **state)
{
    (void)state;
    if (ls_scratch_folder_make("", folder, sizeof folder) != LS_OK) return -1;
    return chdir(folder);
}

static int leave_folder(void **state)
{
    (void)state;
    const int failed = chdir("/");
    ls_scratch_folder_remove(folder);
    return failed;
}

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
        outcome *help = malloc(sizeof *help);
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

static const struct {
    const char *line;
    int code;
    const char *words; /* in the one line on standard error */
} mistakes[] = {
    { "trian", 2, "did you mean train?" },
    { "bogus-command", 2, "unknown command 'bogus-command'" },
    { "train --lrr 3", 2, "did you mean --lr?" },
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
    { "train linear --data digts", 2, "did you mean 'digits'?" },
    { "train linear", 2, "--data" },
    { "train", 2, "MODEL" },
    { "train liner --data digits", 2, "did you mean 'linear'?" },
    { "train linear --data idx:nowhere", 3, "nowhere" },
    { "train linear --config nothing.txt", 2, "nothing.txt" },
    { "train linear --data digits --resume nothing", 3, "nothing" },
    { "train linear --data digits --resume auto", 2, "--out" },
    { "eval", 2, "eval needs more" },
    { "eval nothing.safetensors --data digits", 3, "nothing.safetensors" },
    { "eval nothing.safetensors --lr 3", 2, "--lr is an option of train, not of eval" },
    { "predict x --out y.txt", 2, ".csv or .npy" },
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
    { "bench", 2, "did you mean bench" },
    { "bench gem", 2, "did you mean bench gemm?" },
    { "bench step linear", 2, "--data" },
    { "bench step linear --data digits --out x", 2, "no --out" },
    { "bench step linear --data digits --repeat 0", 2, "--repeat: found '0'" },
    { "bench conv --square 3", 2, "unknown option --square" },
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
    expect_text(last.err, "LOCKSTEP_ISA");
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

/* -- a run ---------------------------------------------------------------------------------- */

static void test_a_run_says_what_it_will_do_and_what_came_out(void **state)
{
    (void)state;
    expect("train linear --data digits --devices host:3 --epochs 2 --global-batch 100 --out r", 0);
    assert_string_equal(last.err, "");
    assert_null(strchr(last.out, '\033'));
    assert_null(strchr(last.out, '\r'));
    expect_text(row("replicas"), "3 on host:0, host:1, host:2 (--devices host:3)");
    expect_text(row("batch"), "global 100 = 25 + 37 + 38; 8 shards");
    expect_text(row("steps"), "15 an epoch; 30 in all");
    expect_text(row("exchange"), "ring");
    expect_text(row("numerics"), "f32");
    expect_text(row("epoch 1/2"), "val_accuracy");
    expect_text(row("epoch 2/2"), "val_accuracy");
    expect_text(row("last"), "epoch 2");
    expect_text(row("speed"), "2876 samples");
    expect_text(row("input"), "of 3 batches ready on average; 2 readers at work");
    expect_text(row("checkpoint"), "r/checkpoints/last.safetensors");
    expect_text(row("evaluate"), "lockstep eval r/checkpoints/last.safetensors --data digits");
    expect_text(row("continue"), "lockstep train --resume r --epochs 4");
}

static void test_a_yes_or_no_option_may_stand_alone(void **state)
{
    (void)state;
    static const struct {
        const char *option, *steps;
    } known[] = { { "--drop-remainder", "14 in all" },    { "--drop-remainder=no", "15 in all" },
                  { "--drop-remainder no", "15 in all" }, { "--drop-remainder yes", "14 in all" } };
    for (int i = 0; i < 4; i++) {
        char line[160];
        snprintf(line, sizeof line, "train linear %s --data digits --epochs 1 --global-batch 100 "
                 "--out r%d", known[i].option, i);
        expect(line, 0);
        expect_text(row("steps"), known[i].steps);
    }
}

static void test_the_digest_is_that_of_the_checkpoint_for_any_number_of_replicas(void **state)
{
    (void)state;
    char weights[3][65], shown[65];
    expect("train linear --data digits --devices host:1 --epochs 1 --out a", 0);
    digest_of("weights", weights[0]);
    expect("train linear --data digits --devices host:3 --threads 2 --epochs 1 --out b", 0);
    digest_of("weights", weights[1]);
    expect("train --config a/config.txt --devices host:2 --out c", 0);
    digest_of("weights", weights[2]);
    expect("show b", 0);
    digest_of("weights", shown);
    assert_string_equal(weights[0], weights[1]);
    assert_string_equal(weights[0], weights[2]);
    assert_string_equal(weights[0], shown);
    expect("train linear --data digits --epochs 1 --seed 2 --out d", 0);
    digest_of("weights", weights[1]);
    assert_string_not_equal(weights[0], weights[1]);
}

static void test_a_run_that_was_continued_ends_in_the_bits_of_one_that_was_not(void **state)
{
    (void)state;
    char straight[2][65], resumed[2][65];
    expect("train linear --data digits --epochs 3 --out whole", 0);
    digest_of("weights", straight[0]);
    digest_of("optimizer", straight[1]);
    expect("train linear --data digits --steps 50 --out part", 0);
    expect("train --resume part --devices host:2 --steps 135", 0);
    expect_text(row("resumed"), "step 50");
    digest_of("weights", resumed[0]);
    digest_of("optimizer", resumed[1]);
    assert_string_equal(straight[0], resumed[0]);
    assert_string_equal(straight[1], resumed[1]);
    expect("train linear --data digits --out part", 2); /* not empty */
    expect_text(last.err, "--resume part");
    expect("train --resume part --seed 5 --steps 200", 2); /* would change bits */
    expect_text(last.err, "--seed 5");
}

static void test_what_is_odd_in_the_data_is_said_once(void **state)
{
    (void)state;
    FILE *file = fopen("odd.csv", "w");
    assert_non_null(file);
    fputs("1,0\n2,1\nx,1\n4,0\n5,1\n6,0\n", file);
    assert_int_equal(fclose(file), 0);
    expect("data verify csv:odd.csv,bad=skip", 0);
    expect_text(last.out, "warning: skipped 1 bad records");
    assert_string_equal(last.err, "");
    expect("train linear --data csv:odd.csv,bad=skip --epochs 1 --out odd", 0);
    expect_text(last.err, "lockstep: warning: skipped: odd.csv: line 3");
    expect_text(last.err, "lockstep: warning: skipped 1 bad records");
}

static void test_eval_and_predict_agree_for_any_number_of_replicas(void **state)
{
    (void)state;
    char first[TEXT_BYTES];
    expect("train linear --data digits --epochs 1 --out r", 0);
    expect("eval r", 0);
    snprintf(first, sizeof first, "%s", last.out);
    expect_text(row("samples"), "359");
    const double accuracy = strtod(row("accuracy"), NULL);
    expect("eval r/checkpoints/last.safetensors --data digits --devices host:3", 0);
    assert_string_equal(last.out, first);

    expect("predict r --devices host:2", 0);
    int right = 0, rows = 0, label, predicted, index;
    char *line = strchr(last.out, '\n') + 1;
    assert_true(strncmp(last.out, "index,label,predicted,p_0", 25) == 0);
    for (; sscanf(line, "%d,%d,%d,", &index, &label, &predicted) == 3; rows++) {
        assert_int_equal(index, rows);
        right += label == predicted;
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(rows, 359);
    assert_true(accuracy == (double)right / 359);
    expect("predict r --part train --out p.npy", 0);
    read_text("p.npy", first);
    assert_memory_equal(first, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (1438, 10), }", 10 + 60);
    struct stat info;
    assert_int_equal(stat("p.npy", &info), 0);
    assert_int_equal(info.st_size, 128 + 1438 * 10 * 4);
    expect("eval r --part tests", 2);
}

/* Classes 0 0 1 1 by the sign of the only field; the two last lines are test and told wrongly by
 * any line through 0: their confusion is certain. */
static void test_eval_prints_the_metrics_that_it_is_asked_for(void **state)
{
    (void)state;
    FILE *file = fopen("m.csv", "w");
    assert_non_null(file);
    fputs("-1,0\n-2,0\n1,1\n2,1\n", file);
    assert_int_equal(fclose(file), 0);
    file = fopen("m-test.csv", "w");
    assert_non_null(file);
    fputs("-1,0\n-2,0\n-3,1\n1,1\n2,0\n3,2\n", file);
    assert_int_equal(fclose(file), 0);
    expect("train linear --data csv:m.csv,test=m-test.csv --epochs 20 --lr 1 --optimizer sgd "
           "--metrics accuracy,f1 --out m", 0);
    expect("eval m", 0);
    expect_text(row("accuracy"), "0.5");
    assert_true(strtod(row("f1"), NULL) > 0.35); /* 4/6, 2/5 and 0 of three classes */
    expect("eval m --metrics top2,recall --confusion", 0);
    assert_null(strstr(last.out, "accuracy"));
    const double recall = strtod(row("recall"), NULL); /* 2/3, 1/2 and 0 of three classes */
    assert_true(recall > 0.38888 && recall < 0.38889);
    expect_text(last.out, "confusion   a row per label, a column per prediction\n"
                          "  0 1 2\n0 2 1 0\n1 1 1 0\n2 0 1 0\n");
    expect("eval m --metrics top4", 2);
    expect("eval m --metrics r2", 2);
    expect("train linear --data csv:m.csv,task=regress --epochs 1 --out n", 0);
    expect("eval n --confusion", 2);
}

/* Two black pictures of CIFAR-10's layout, a cat (3) and a truck (9), at `path`. */
static void write_two_pictures(const char *path)
{
    enum { RECORD_BYTES = 1 + 3 * 1024 };
    static unsigned char records[2 * RECORD_BYTES];
    records[0] = 3;
    records[RECORD_BYTES] = 9;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(records, 1, sizeof records, file), sizeof records);
    assert_int_equal(fclose(file), 0);
}

static void test_a_row_of_the_confusion_ends_in_the_name_of_its_class(void **state)
{
    (void)state;
    write_two_pictures("data_batch_1.bin");
    write_two_pictures("test_batch.bin");
    FILE *file = fopen("batches.meta.txt", "w");
    assert_non_null(file);
    fputs("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n", file);
    assert_int_equal(fclose(file), 0);
    expect("train linear --data cifar10:. --epochs 1 --out p", 0);
    expect("eval p --confusion", 0);
    expect_text(last.out, "\n0 0 0 0 0 0 0 0 0 0 0  airplane\n");
    expect_text(last.out, "  cat\n");
    expect_text(last.out, " 0  ship\n");
    expect_text(last.out, "  truck\n");
}

/* The second epoch is not better by 5; with more epochs alone the run would end at once again. */
static void test_a_run_that_stopped_early_is_continued_with_more_patience(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 9 --early-stop 1 --min-delta 5 --out e", 0);
    expect_text(last.out, "stopped by --early-stop: 2 epochs");
    expect_text(row("continue"), "train --resume e --early-stop 2\n");
    expect("train --resume e --early-stop 2", 0);
    expect_text(last.out, "stopped by --early-stop: 3 epochs");
    expect("train linear --data digits --epochs 2 --early-stop 1 --min-delta 5 --out f", 0);
    expect_text(row("continue"), "train --resume f --early-stop 2 --epochs 4\n");
}

static void test_a_damaged_checkpoint_is_refused_with_its_exit_code(void **state)
{
    (void)state;
    expect("train linear --data digits --epochs 1 --out r", 0);
    const int fd = open("r/checkpoints/last.safetensors", O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "!", 1, 5000), 1);
    close(fd);
    expect("eval r", 3);
    expect("show r", 3);
    expect("train --resume r --epochs 2", 3);
    assert_int_equal(truncate("r/checkpoints/last.safetensors", 100), 0);
    expect("predict r", 3);
}

static void test_verify_climbs_the_ladder(void **state)
{
    (void)state;
    expect("verify linear --data digits --devices host:3 --epochs 1 --repeat 2", 0);
    expect_text(last.out, "verified: 8 of 8 comparisons have the same bits");
    expect_text(last.out, "speed-up");
    expect_text(last.out, "kernels");
    assert_null(strstr(last.out, "DIFFERENT"));
    expect("verify linear --data digits --epochs 1 --repeat 1 --out kept", 0);
    /* The plain ring adds in an order that depends on N: the bits differ, and it must be seen. */
    expect("verify linear --data digits --devices host:3 --epochs 1 --repeat 1 --order fast", 4);
    expect_text(last.out, "DIFFERENT");
    expect_text(last.err, "comparisons differ, first: ");
    struct stat info;
    assert_int_equal(stat("kept/run-1/checkpoints/last.safetensors", &info), 0);
}

static void expect_row(const char *name, const char *text)
{
    const char *found = row(name);
    if (strncmp(found, text, strlen(text)) != 0)
        fail_msg("%s: found %.40s, expected %s", name, found, text);
}

/* What rung 5 trains is what its options say, typed by hand. */
static void test_verify_sets_a_larger_batch_beside_the_fixed_one(void **state)
{
    (void)state;
    char loss[8], digest[65];
    expect("verify linear --data digits --epochs 2 --repeat 1 --out kept", 0);
    expect_row("global batch", "32          128\n");
    expect_row("epochs", "2            2\n");
    expect_row("updates", "90           24\n");
    expect_row("of warm-up", "0            3\n");
    expect_row("highest rate", "0.001        0.004\n");
    expect_text(last.out, "two different trainings");
    snprintf(loss, sizeof loss, "%.6s", strchr(row("val_loss"), ' ') + 7);
    expect("train linear --data digits --epochs 2 --global-batch 128 --lr-scale linear "
           "--base-batch 32 --warmup 3 --out same", 0);
    digest_of("weights", digest);
    expect("show kept/run-3/checkpoints/last.safetensors", 0);
    expect_text(last.out, digest);
    expect("eval same", 0);
    expect_text(last.out, loss);
}

static void test_verify_divides_counts_of_updates_by_the_larger_batch(void **state)
{
    (void)state;
    expect("verify linear --data digits --steps 10 --repeat 1 --scale-batch 3 --warmup 4 "
           "--schedule table:0=0.1,4=0.2,5=0.3 --lr-scale linear --base-batch 16 --out kept", 0);
    expect_row("global batch", "32           96\n");
    expect_row("updates", "10            4\n");
    expect_row("of warm-up", "4            2\n");
    expect_row("highest rate", "0.6          1.8\n");
    read_text("kept/run-3/config.txt", last.out);
    expect_row("schedule", "table:0.1,0.3\n");
    expect_row("base-batch", "16\n");
}

static void test_verify_goes_on_without_the_larger_batch(void **state)
{
    (void)state;
    expect("verify linear --data digits --steps 2 --repeat 1 --scale-batch 0", 0);
    expect_text(last.out, "left out (--scale-batch 0)");
    expect("verify linear --data digits --steps 2 --repeat 1 --scale-batch 45", 0);
    expect_text(last.out, "left out: 45 x 32 is more than the 1438 training samples");
    /* Weights are multiplied by 1 - rate: by 0 with the fixed batch, by -7 with the larger one. */
    expect("verify linear --data digits --epochs 12 --repeat 1 --scale-batch 8 --optimizer sgd "
           "--lr 1 --weight-decay 1", 0);
    expect_text(last.out, "global batch 256, learning rate up to 8: ");
    expect_text(last.out, "verified: 6 of 6");
}

/* -- signals and output --------------------------------------------------------------------- */

/* Append what `fd` gives to `text`, until `words` are in it or, with NULL, to the end. Where the
 * room ends, only the later half is kept. */
static void read_until(int fd, const char *words, char text[TEXT_BYTES])
{
    size_t used = strlen(text);
    while (!words || !strstr(text, words)) {
        if (used > TEXT_BYTES / 2) {
            memmove(text, text + used / 2, used - used / 2 + 1);
            used -= used / 2;
        }
        const ssize_t n = read(fd, text + used, TEXT_BYTES / 4);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
        text[used] = '\0';
    }
    if (words) expect_text(text, words);
}

static void test_a_signal_ends_a_run_with_a_checkpoint_and_how_to_continue(void **state)
{
    (void)state;
    static const struct {
        int signal, code;
    } stop[] = { { SIGINT, 130 }, { SIGTERM, 143 } };
    for (int i = 0; i < 2; i++) {
        char line[128], *argv[ARGUMENTS_MAX];
        int ends[2];
        snprintf(line, sizeof line, "train linear --data digits --devices host:2 --epochs 1000 "
                 "--out r%d", i);
        split_words(line, argv);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
        const pid_t pid = start(argv, ends[1]);
        close(ends[1]);
        last.out[0] = '\0';
        read_until(ends[0], "epoch    2/1000", last.out);
        assert_int_equal(kill(pid, stop[i].signal), 0);
        read_until(ends[0], NULL, last.out);
        close(ends[0]);
        assert_int_equal(wait_for(pid), stop[i].code);
        expect_text(last.out, "stopped by a signal");
        snprintf(line, sizeof line, "lockstep train --resume r%d\n", i);
        expect_text(row("continue"), line);
        snprintf(line, sizeof line, "eval r%d", i);
        expect(line, 0);
    }
}

static void test_output_that_is_lost_is_a_failure(void **state)
{
    (void)state;
    char line[] = "show ring 4", *argv[ARGUMENTS_MAX];
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    split_words(line, argv);
    const int code = wait_for(start(argv, full));
    close(full);
    assert_int_equal(code, 1);
    read_text("err", last.err);
    expect_text(last.err, "standard output could not be written");
}

/* Else the first files that are opened get the streams' numbers, and what is printed goes there. */
static void test_closed_streams_leave_the_files_of_a_run_alone(void **state)
{
    (void)state;
    char line[] = "train linear --data digits --steps 2 --out r", *argv[ARGUMENTS_MAX];
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    split_words(line, argv);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        posix_spawn_file_actions_addclose(&actions, fd);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(wait_for(pid), 1); /* the output was lost */
    read_text("r/history.csv", last.out);
    assert_memory_equal(last.out, "epoch,", 6);
    read_text("r/log.jsonl", last.out);
    assert_memory_equal(last.out, "{\"epoch\":1,", 11);
    expect("show r", 0);
}

static void test_a_file_that_may_not_grow_is_a_message_and_exit_code_1(void **state)
{
    (void)state;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 100000; /* a checkpoint of digits-cnn has 460000 bytes */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    const int code = run("train digits-cnn --data digits --steps 1 --out r");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, 1);
    expect_text(last.err, ".safetensors: writing failed: File too large");
    assert_int_equal(rmdir("r/checkpoints"), 0); /* no temporary file is left */
}

int main(void)
{
    const char *path = getenv("LOCKSTEP");
    char here[PATH_BYTES / 2];
    if (!path || !getcwd(here, sizeof here)) {
        fprintf(stderr, "LOCKSTEP must name the program to test\n");
        return 1;
    }
    snprintf(program, sizeof program, "%s%s%.2000s", path[0] == '/' ? "" : here,
             path[0] == '/' ? "" : "/", path);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_without_a_command_usage_goes_to_standard_error),
        TEST(test_help_and_version_go_to_standard_output),
        TEST(test_no_line_of_help_is_longer_than_100_columns),
        TEST(test_the_help_of_train_names_every_option),
        TEST(test_a_mistake_is_one_line_on_standard_error_and_its_exit_code),
        TEST(test_the_environment_is_checked_like_an_option),
        TEST(test_show_prints_models_their_source_and_the_ring),
        TEST(test_devices_says_what_is_here_and_why_there_is_no_gpu),
        TEST(test_data_verify_says_what_is_in_the_digits),
        TEST(test_a_run_says_what_it_will_do_and_what_came_out),
        TEST(test_a_yes_or_no_option_may_stand_alone),
        TEST(test_the_digest_is_that_of_the_checkpoint_for_any_number_of_replicas),
        TEST(test_a_run_that_was_continued_ends_in_the_bits_of_one_that_was_not),
        TEST(test_what_is_odd_in_the_data_is_said_once),
        TEST(test_eval_and_predict_agree_for_any_number_of_replicas),
        TEST(test_eval_prints_the_metrics_that_it_is_asked_for),
        TEST(test_a_row_of_the_confusion_ends_in_the_name_of_its_class),
        TEST(test_a_run_that_stopped_early_is_continued_with_more_patience),
        TEST(test_a_damaged_checkpoint_is_refused_with_its_exit_code),
        TEST(test_verify_climbs_the_ladder),
        TEST(test_verify_sets_a_larger_batch_beside_the_fixed_one),
        TEST(test_verify_divides_counts_of_updates_by_the_larger_batch),
        TEST(test_verify_goes_on_without_the_larger_batch),
        TEST(test_a_signal_ends_a_run_with_a_checkpoint_and_how_to_continue),
        TEST(test_output_that_is_lost_is_a_failure),
        TEST(test_closed_streams_leave_the_files_of_a_run_alone),
        TEST(test_a_file_that_may_not_grow_is_a_message_and_exit_code_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
