/* SPDX-License-Identifier: MIT */
/* program.c -- see program.h. */
#include "support/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/test.h"
#include "thread.h"

/* The 64 digits of the line "  <name>   sha256 <digits>". */
static void read_digest(const char *text, const char *name, char digest[65])
{
    char line[32];
    (void)snprintf(line, sizeof line, "\n  %-11s sha256 ", name);
    const char *at = strstr(text, line);
    digest[0] = '\0';
    if (at != NULL) (void)sscanf(at + strlen(line), "%64[0-9a-f]", digest);
}

void program_run_with(program_run *run, const char *settings, const char *arguments)
{
    const char *program = getenv("LOCKSTEP");
    char command[2048], rest[512];
    if (program == NULL) fail_msg("LOCKSTEP does not name the program");
    const int bytes = snprintf(command, sizeof command, "%s timeout -k 5 %d '%s' %s 2>&1",
                               settings, PROGRAM_SECONDS_MAX, program, arguments);
    assert_true(bytes < (int)sizeof command);
    memset(run, 0, sizeof *run);
    const double begin = ls_clock();
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    run->text[fread(run->text, 1, sizeof run->text - 1, pipe)] = '\0';
    while (fread(rest, 1, sizeof rest, pipe) > 0) continue; /* or it waits for room in the pipe */
    const int status = pclose(pipe);
    run->seconds = ls_clock() - begin;
    run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_digest(run->text, "weights", run->weights);
    read_digest(run->text, "optimizer", run->optimizer);
    read_digest(run->text, "statistics", run->statistics);
}

void program_show(const program_run *run)
{
    (void)fprintf(stderr, "%s\n", run->text);
}

bool program_said(const program_run *run, const char *text)
{
    return strstr(run->text, text) != NULL;
}

const char *program_row(const char *text, const char *name)
{
    for (const char *at = text; (at = strstr(at, name)); at++) {
        const char *before = at;
        while (before > text && before[-1] == ' ') before--;
        if (before > text && before[-1] != '\n') continue;
        return at + strlen(name) + strspn(at + strlen(name), " ");
    }
    fail_msg("no line begins with '%s':\n%s", name, text);
    return NULL;
}

void program_must_end(const program_run *run, const char *what, int code, const char *const *texts)
{
    bool holds = run->code == code;
    if (!holds) print_error("%s: exit code %d, expected %d\n", what, run->code, code);
    for (; *texts != NULL; texts++) {
        if (program_said(run, *texts)) continue;
        print_error("%s: it did not say '%s'\n", what, *texts);
        holds = false;
    }
    if (holds) return;
    program_show(run);
    fail();
}
