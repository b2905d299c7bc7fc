/* SPDX-License-Identifier: MIT */
/* test_cli_outside.c -- a run whose surroundings fail it: signals, lost output, a disk limit;
 * and the terminal that it prints to.
 */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/command.h"
#include "support/program.h"

extern char **environ;

/* Append what `fd` gives to `text`, until `words` are in it or, with NULL, to the end. Where the
 * room ends, only the later half is kept. */
static void read_until(int fd, const char *words, char text[COMMAND_TEXT_BYTES])
{
    size_t used = strlen(text);
    while (!words || !strstr(text, words)) {
        if (used > COMMAND_TEXT_BYTES / 2) {
            memmove(text, text + used / 2, used - used / 2 + 1);
            used -= used / 2;
        }
        const ssize_t n = read(fd, text + used, COMMAND_TEXT_BYTES / 4);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        used += (size_t)n;
        text[used] = '\0';
    }
    if (words) expect_text(text, words);
}

/* Start `lockstep line` and read what it prints, to last.out, until `words` are in it. */
static pid_t start_until(char *line, const char *words, int *out)
{
    char *argv[COMMAND_WORDS_MAX];
    int ends[2];
    command_words(line, argv);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    const pid_t pid = command_start(argv, ends[1]);
    close(ends[1]);
    last.out[0] = '\0';
    read_until(ends[0], words, last.out);
    *out = ends[0];
    return pid;
}

/* Read the rest; returns what command_wait does. */
static int read_to_end(pid_t pid, int out)
{
    read_until(out, NULL, last.out);
    close(out);
    return command_wait(pid);
}

static void test_a_signal_ends_a_run_with_a_checkpoint_and_how_to_continue(void **state)
{
    (void)state;
    static const struct {
        int signal, code;
    } stop[] = { { SIGINT, 130 }, { SIGTERM, 143 } };
    for (int i = 0; i < 2; i++) {
        char line[128];
        int out;
        snprintf(line, sizeof line, "train linear --data digits --devices host:2 --epochs 1000 "
                 "--out r%d", i);
        const pid_t pid = start_until(line, "epoch    2/1000", &out);
        assert_int_equal(kill(pid, stop[i].signal), 0);
        assert_int_equal(read_to_end(pid, out), stop[i].code);
        expect_text(last.out, "stopped by a signal");
        snprintf(line, sizeof line, "lockstep train --resume r%d\n", i);
        expect_text(row("continue"), line);
        snprintf(line, sizeof line, "eval r%d", i);
        expect(line, 0);
    }
}

/* Both are pending when the stopped program goes on: the second finds the first. */
static void test_a_second_signal_ends_a_run_at_once(void **state)
{
    (void)state;
    char line[] = "train linear --data digits --devices host:2 --epochs 100000 --out r";
    int out;
    const pid_t pid = start_until(line, "epoch      2/100000", &out);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(kill(pid, SIGCONT), 0);
    const int code = read_to_end(pid, out);
    assert_true(code == 130 || code == 143); /* of the one that was delivered last */
    assert_null(strstr(last.out, "stopped by a signal"));
    expect("eval r", 0);
}

static void test_a_data_file_cut_short_under_a_run_is_named(void **state)
{
    (void)state;
    enum { RECORD_BYTES = 3073, RECORDS = 64 }; /* of CIFAR-10: zeros are black, of class 0 */
    char line[] = "train linear --data cifar10:. --devices host:1 --epochs 100000 --out r";
    int out;
    write_text("data_batch_1.bin", "");
    write_text("test_batch.bin", "");
    assert_int_equal(truncate("data_batch_1.bin", RECORDS * RECORD_BYTES), 0);
    assert_int_equal(truncate("test_batch.bin", RECORD_BYTES), 0);
    const pid_t pid = start_until(line, "epoch      2/100000", &out);
    assert_int_equal(truncate("data_batch_1.bin", 0), 0);
    assert_int_equal(read_to_end(pid, out), 3);
    read_text("err", last.err);
    expect_text(last.err, "/data_batch_1.bin: was cut short while it was read");
    expect("eval r", 3); /* of the data; the checkpoint is whole */
    expect("show r", 0);
}

/* Run `line` on a terminal; what it prints there comes to last.out. */
static void expect_on_terminal(const char *type, char *line)
{
    char *argv[COMMAND_WORDS_MAX];
    const int screen = posix_openpt(O_RDWR | O_NOCTTY);
    if (screen < 0 || grantpt(screen) != 0 || unlockpt(screen) != 0) skip();
    const int terminal = open(ptsname(screen), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    command_words(line, argv);
    setenv("TERM", type, 1);
    const pid_t pid = command_start(argv, terminal);
    close(terminal);
    last.out[0] = '\0';
    assert_int_equal(read_to_end(pid, screen), 0);
    expect_text(last.out, "epoch 1/1  loss");
}

static void test_a_dumb_terminal_gets_lines_alone(void **state)
{
    (void)state;
    char live[] = "train linear --data digits --epochs 1 --out r";
    char dumb[] = "train linear --data digits --epochs 1 --out s";
    expect_on_terminal("xterm", live);
    expect_text(last.out, "\r\033[K");
    expect_on_terminal("dumb", dumb);
    for (const char *c = last.out; *c; c++)
        assert_true(*c != '\033' && (*c != '\r' || c[1] == '\n')); /* \r\n is the terminal's */
}

static void test_output_that_is_lost_is_a_failure(void **state)
{
    (void)state;
    char line[] = "show ring 4", *argv[COMMAND_WORDS_MAX];
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    command_words(line, argv);
    const int code = command_wait(command_start(argv, full));
    close(full);
    assert_int_equal(code, 1);
    read_text("err", last.err);
    expect_text(last.err, "standard output could not be written");
}

/* Else the first files that are opened get the streams' numbers, and what is printed goes there. */
static void test_closed_streams_leave_the_files_of_a_run_alone(void **state)
{
    (void)state;
    char line[] = "train linear --data digits --steps 2 --out r", *argv[COMMAND_WORDS_MAX];
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    command_words(line, argv);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        posix_spawn_file_actions_addclose(&actions, fd);
    assert_int_equal(posix_spawn(&pid, command_program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(command_wait(pid), 1); /* the output was lost */
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
    const int code = command_run("train digits-cnn --data digits --steps 1 --out r");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, 1);
    expect_text(last.err, ".safetensors: writing failed: File too large");
    assert_int_equal(rmdir("r/checkpoints"), 0); /* no temporary file is left */
}

/* Its own threads have stacks of their own size; the main thread's limit is raised if it may be. */
static void test_a_small_stack_is_widened_or_a_message(void **state)
{
    (void)state;
    static program_run run;
    assert_int_equal(setenv("LOCKSTEP", command_program, 1), 0); /* absolute */
    program_run_with(&run, "ulimit -S -s 128;", "train linear --data digits --steps 2 --out r");
    PROGRAM_MUST_END(&run, "soft limit", 0, "weights", NULL);
    program_run_with(&run, "ulimit -s 128;", "bench allreduce --devices host:2 --max 4096");
    PROGRAM_MUST_END(&run, "hard limit", 1, "lockstep: the stack may not grow beyond 128 KiB, "
                     "expected 1024 or more", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_a_signal_ends_a_run_with_a_checkpoint_and_how_to_continue),
        TEST_IN_FOLDER(test_a_second_signal_ends_a_run_at_once),
        TEST_IN_FOLDER(test_a_data_file_cut_short_under_a_run_is_named),
        TEST_IN_FOLDER(test_a_dumb_terminal_gets_lines_alone),
        TEST_IN_FOLDER(test_output_that_is_lost_is_a_failure),
        TEST_IN_FOLDER(test_closed_streams_leave_the_files_of_a_run_alone),
        TEST_IN_FOLDER(test_a_file_that_may_not_grow_is_a_message_and_exit_code_1),
        TEST_IN_FOLDER(test_a_small_stack_is_widened_or_a_message),
    };
    return cmocka_run_group_tests(tests, find_program, NULL);
}
