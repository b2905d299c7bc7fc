/* SPDX-License-Identifier: MIT */
/* fresh_process.c -- starts this program again for one case and reads what it prints. */
#include "support/fresh_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static const char MARK[] = "--fresh-case";
enum { SETTING_MAX = 32 };

extern char **environ;

void fresh_main(int argc, char **argv, const fresh_case *cases)
{
    if (argc != 3 || strcmp(argv[1], MARK) != 0) return;
    for (; cases->name != NULL; cases++)
        if (strcmp(cases->name, argv[2]) == 0) exit(cases->run());
    (void)fprintf(stderr, "no case '%s'\n", argv[2]);
    exit(2);
}

/* Does `setting` ("NAME=value") name the variable that `entry` sets? */
static bool is_same_name(const char *setting, const char *entry)
{
    const size_t length = strcspn(setting, "=") + 1;
    return strncmp(setting, entry, length) == 0;
}

/* This process's environment with the settings in it. Owns: the array. */
static char **make_environment(const char *const *settings)
{
    size_t count = 0, used = 0;
    while (environ[count] != NULL) count++;
    char **out = calloc(count + SETTING_MAX + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (const char *const *s = settings; *s != NULL; s++)
            replaced = replaced || is_same_name(*s, environ[i]);
        if (!replaced) out[used++] = environ[i];
    }
    for (const char *const *s = settings; *s != NULL; s++) {
        assert_true(s - settings < SETTING_MAX);
        if (strchr(*s, '=')[1] == '\0') continue;
        memcpy(&out[used++], s, sizeof *out); /* posix_spawn does not write to it */
    }
    return out;
}

int fresh_run(const char *name, const char *const *settings, char *output, size_t output_bytes)
{
    int ends[2], status = 0;
    pid_t process;
    char *arguments[4] = { NULL };
    const char *const words[] = { "case", MARK, name };
    memcpy(arguments, words, sizeof words);
    char **environment = make_environment(settings);
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], 1), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[1], 2), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, ends[0]), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, ends[1]), 0);
    assert_int_equal(posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments,
                                 environment), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    free(environment);
    size_t used = 0;
    char rest[512];
    for (;;) { /* read to the end, or the child may wait for room in the pipe */
        const bool keep = used + 1 < output_bytes;
        const ssize_t got = keep ? read(ends[0], output + used, output_bytes - 1 - used)
                                 : read(ends[0], rest, sizeof rest);
        if (got <= 0) break;
        if (keep) used += (size_t)got;
    }
    output[used] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(process, &status, 0), process);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void assert_case_at(const char *file, int line, const char *name, const char *const *settings)
{
    char output[4096];
    const int code = fresh_run(name, settings, output, sizeof output);
    if (code == 0) return;
    print_error("%s:%d: case '%s' ended with %d:\n%s", file, line, name, code, output);
    for (; *settings != NULL; settings++) print_error("  with %s\n", *settings);
    fail();
}

bool driver_is_virtual(void)
{
    return getenv("LOCKSTEP_VGPU_LIBRARY") != NULL;
}

bool fresh_failed(ls_status status, ls_status code, const char *text)
{
    if (status == code && strstr(ls_last_error(), text) != NULL) return true;
    (void)fprintf(stderr, "expected %s with '%s', found %s: %s\n", ls_status_name(code), text,
                  ls_status_name(status), status == LS_OK ? "" : ls_last_error());
    return false;
}
