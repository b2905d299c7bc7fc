/* SPDX-License-Identifier: MIT */
/* main.c -- finds the command, runs it, says what failed, and turns it into an exit code.
 *
 * Results go to standard output, everything else to standard error. A failure is one line:
 * "lockstep: <what and where, found and expected> [source file:line]".
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/console.h"
#include "cli/cut_file.h"
#include "cli/options.h"
#include "nearest.h"
#include "status.h"
#include "version.h"

static const ls_command *const commands[] = {
    &ls_command_train, &ls_command_eval,   &ls_command_predict, &ls_command_show,
    &ls_command_devices, &ls_command_verify, &ls_command_bench_allreduce, &ls_command_bench_gemm,
    &ls_command_bench_conv, &ls_command_bench_step, &ls_command_data_verify, &ls_command_data_show,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

enum { STACK_BYTES = 1 << 20 }; /* of the main thread: the deepest command takes some 200 KiB */

static void print_usage(FILE *out)
{
    fputs("usage: lockstep COMMAND ...\n\n"
          "Trains one model on several replicas, in one process, with the same bits for any\n"
          "number of them.\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-15s  %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nlockstep COMMAND --help says more; lockstep --version prints the version.\n"
          "Exit codes: 0 done, 1 failed while running, 2 usage, model or configuration, 3 data or\n"
          "checkpoint, 4 verification failed, 5 device, link or replicas diverged, 130 and 143\n"
          "stopped by SIGINT and SIGTERM.\n", out);
}

/* Bytes of the first word of a command's name, if there is a second: "bench" of "bench gemm". */
static size_t family_bytes(const ls_command *command)
{
    const char *blank = strchr(command->name, ' ');
    return blank ? (size_t)(blank - command->name) : 0;
}

static bool is_family(const ls_command *command, const char *word)
{
    const size_t bytes = family_bytes(command);
    return bytes > 0 && strlen(word) == bytes && strncmp(command->name, word, bytes) == 0;
}

/* The command that the words from argv[1] on name, and how many they are; NULL: none. */
static const ls_command *find_command(int argc, char *const *argv, int *word_count)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const ls_command *command = commands[i];
        *word_count = 1;
        if (strcmp(command->name, argv[1]) == 0) return command;
        *word_count = 2;
        if (argc > 2 && is_family(command, argv[1]) &&
            strcmp(command->name + family_bytes(command) + 1, argv[2]) == 0)
            return command;
    }
    return NULL;
}

/* The commands that begin with `word`; false if there is none. */
static bool print_family(FILE *out, const char *word)
{
    bool is_any = false;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!is_family(commands[i], word)) continue;
        if (!is_any) fprintf(out, "usage: lockstep %s KIND ...\n\n", word);
        fprintf(out, "  lockstep %-15s  %s\n", commands[i]->name, commands[i]->summary);
        is_any = true;
    }
    return is_any;
}

static ls_status unknown_command(int argc, char *const *argv)
{
    char typed[64];
    const char *names[COMMAND_COUNT + 1] = { NULL };
    bool has_family = false;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
        has_family = has_family || is_family(commands[i], argv[1]);
    }
    const bool is_pair = has_family && argc > 2 && argv[2][0] != '-';
    if (has_family && !is_pair)
        return ls_fail(LS_ERR_ARGUMENT, "%.30s: nothing follows it that says which; see lockstep "
                       "%.30s --help", argv[1], argv[1]);
    snprintf(typed, sizeof typed, "%.30s%s%.30s", argv[1], is_pair ? " " : "",
             is_pair ? argv[2] : "");
    const char *nearest = ls_nearest_name(typed, names);
    return ls_fail(LS_ERR_ARGUMENT, "unknown command '%s'%s%s%s; see lockstep %s%s--help", typed,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "",
                   is_pair ? argv[1] : "", is_pair ? " " : "");
}

/* The main thread's stack grows up to a limit, which the system looks at as it grows; the others
 * have stacks of their own size. A limit that is too low is raised, where that is allowed. */
static ls_status widen_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES) return LS_OK;
    const unsigned long long found = limit.rlim_cur / 1024;
    limit.rlim_cur = STACK_BYTES;
    if (limit.rlim_max >= STACK_BYTES && setrlimit(RLIMIT_STACK, &limit) == 0) return LS_OK;
    return ls_fail(LS_ERR_MEMORY, "the stack may not grow beyond %llu KiB, expected %d or more: "
                   "ulimit -s", found, STACK_BYTES / 1024);
}

static ls_status run_command(int argc, char *const *argv, int *exit_code)
{
    int words = 0;
    LS_TRY(widen_stack());
    const bool help_first = strcmp(argv[1], "help") == 0; /* "help train" is "train --help" */
    if (help_first) {
        argc--;
        argv++;
    }
    const ls_command *command = find_command(argc, argv, &words);
    const bool help = help_first || (argc > 2 && ls_asks_help(argv[2]));
    if (!command && help && print_family(stdout, argv[1])) return LS_OK;
    if (!command) return unknown_command(argc, argv);
    if (help_first) {
        ls_print_help(stdout, command);
        return LS_OK;
    }
    ls_invocation invocation;
    LS_TRY(ls_invocation_init(&invocation, argv[0], command, argc - 1 - words, argv + 1 + words));
    if (invocation.help) {
        ls_print_help(stdout, command);
        return LS_OK;
    }
    return command->run(&invocation, exit_code);
}

/* A standard stream that was closed when we began would give its number to the first file that is
 * opened: what is printed would land in a run's history. /dev/null takes its place, opened the
 * wrong way round, so that reading and writing fail as on a closed one. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        const int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (got < 0) _exit(ls_exit_code(LS_ERR_IO));
    }
}

/* What was printed must have arrived; a pipe that was closed early or a full disk is a failure. */
static ls_status finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return LS_OK;
    return ls_fail(LS_ERR_IO, "standard output could not be written: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    ls_cut_file_catch();
    signal(SIGXFSZ, SIG_IGN); /* a file that may grow no more is a failed write, with a message */
    if (argc < 2) {
        print_usage(stderr);
        return ls_exit_code(LS_ERR_ARGUMENT);
    }
    int exit_code = 0;
    ls_status status = LS_OK;
    if (ls_asks_help(argv[1]) || (argc == 2 && strcmp(argv[1], "help") == 0)) {
        print_usage(stdout);
    } else if (strcmp(argv[1], "--version") == 0) {
        printf("lockstep %s\n", LS_VERSION);
    } else {
        status = run_command(argc, argv, &exit_code);
    }
    if (status == LS_OK) status = finish_output();
    if (status == LS_OK) return exit_code;
    ls_console_error();
    return ls_exit_code(status);
}
