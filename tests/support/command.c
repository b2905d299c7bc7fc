/* SPDX-License-Identifier: MIT */
/* command.c -- see command.h. */
#include "support/test.h"

#include "support/command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/scratch_folder.h"
#include "support/program.h"

extern char **environ;

enum { PATH_BYTES = 4096 };

command_outcome last;
char command_program[PATH_BYTES];
static char folder[PATH_BYTES];

int find_program(void **state)
{
    (void)state;
    const char *path = getenv("LOCKSTEP");
    char here[PATH_BYTES / 2];
    if (!path || !getcwd(here, sizeof here)) {
        print_error("LOCKSTEP must name the program to test\n");
        return -1;
    }
    snprintf(command_program, sizeof command_program, "%s%s%.2000s", path[0] == '/' ? "" : here,
             path[0] == '/' ? "" : "/", path);
    return 0;
}

int enter_folder(void **state)
{
    (void)state;
    if (ls_scratch_folder_make("", folder, sizeof folder) != LS_OK) return -1;
    return chdir(folder);
}

int leave_folder(void **state)
{
    (void)state;
    const int failed = chdir("/");
    ls_scratch_folder_remove(folder);
    return failed;
}

void read_text(const char *path, char text[COMMAND_TEXT_BYTES])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, COMMAND_TEXT_BYTES - 1, file);
    text[bytes] = '\0';
    fclose(file);
}

pid_t command_start(char *const *argv, int out_fd)
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
    assert_int_equal(posix_spawn(&pid, command_program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int command_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void command_words(char *line, char *argv[COMMAND_WORDS_MAX])
{
    int count = 0;
    argv[count++] = command_program;
    char *rest = NULL;
    for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        assert_true(count < COMMAND_WORDS_MAX - 1);
        argv[count++] = w;
    }
    argv[count] = NULL;
}

int command_run(const char *line)
{
    char words[1024], *argv[COMMAND_WORDS_MAX];
    snprintf(words, sizeof words, "%s", line);
    command_words(words, argv);
    last.code = command_wait(command_start(argv, -1));
    read_text("out", last.out);
    read_text("err", last.err);
    return last.code;
}

void expect(const char *line, int code)
{
    if (command_run(line) == code) return;
    fail_msg("lockstep %s: exit code %d, expected %d\n%s%s", line, last.code, code, last.out,
             last.err);
}

void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("found:\n%s\nexpected in it: %s", text, part);
}

const char *row(const char *name)
{
    return program_row(last.out, name);
}

void digest_of(const char *name, char out[65])
{
    char start_of_row[32];
    snprintf(start_of_row, sizeof start_of_row, "%-11s sha256 ", name);
    snprintf(out, 65, "%.64s", row(start_of_row));
    assert_int_equal(strspn(out, "0123456789abcdef"), 64);
}

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}
