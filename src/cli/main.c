/* SPDX-License-Identifier: MIT */
/* main.c -- finds the command, runs it, says what failed, and turns it into an exit code.
 *
 * Results go to standard output, everything else to standard error. A failure is one line:
 * "lockstep: <what and where, found and expected> [source file:line]".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/console.h"
#include "cli/options.h"
#include "nearest.h"
#include "status.h"

static const ls_command *const commands[] = {
    &ls_command_train, &ls_command_eval,   &ls_command_predict, &ls_command_show,
    &ls_command_devices, &ls_command_verify, &ls_command_data,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out)
{
    fputs("usage: lockstep COMMAND ...\n\n"
          "Trains one model on several replicas, in one process, with the same bits for any\n"
          "number of them.\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nlockstep COMMAND --help says more; lockstep --version prints the version.\n"
          "Exit codes: 0 done, 1 failed while running, 2 usage, model or configuration, 3 data or\n"
          "checkpoint, 4 verification failed, 5 device, link or replicas diverged, 130 and 143\n"
          "stopped by SIGINT and SIGTERM.\n", out);
}

static const ls_command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

static ls_status unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1] = { NULL };
    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i]->name;
    const char *nearest = ls_nearest_name(name, names);
    return ls_fail(LS_ERR_ARGUMENT, "unknown command '%.60s'%s%s%s; see lockstep --help", name,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static ls_status run_command(int argc, char *const *argv, int *exit_code)
{
    const ls_command *command = find_command(argv[1]);
    if (!command) return unknown_command(argv[1]);
    ls_invocation invocation;
    LS_TRY(ls_invocation_init(&invocation, argv[0], command, argc - 2, argv + 2));
    if (invocation.help) {
        ls_print_help(stdout, command);
        return LS_OK;
    }
    return command->run(&invocation, exit_code);
}

/* What was printed must have arrived; a pipe that was closed early or a full disk is a failure. */
static ls_status finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return LS_OK;
    return ls_fail(LS_ERR_IO, "standard output could not be written: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return ls_exit_code(LS_ERR_ARGUMENT);
    }
    int exit_code = 0;
    ls_status status = LS_OK;
    if (strcmp(argv[1], "--help") == 0) {
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
