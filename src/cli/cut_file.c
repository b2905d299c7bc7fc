/* SPDX-License-Identifier: MIT */
/* cut_file.c -- the handler of SIGBUS. See cut_file.h.
 *
 * It may call only what is safe in a handler: open, read, write and _exit are. So the file's name
 * is looked up where Linux tells it, in /proc/self/maps, a line a mapping:
 *
 *     7f3a1c000000-7f3a27000000 r--p 00000000 fe:00 1234        /data/train.npy
 */
#define _DEFAULT_SOURCE /* siginfo_t's codes */
#include "cli/cut_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

enum { LINE_BYTES = 4096 };

static void say(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* The hexadecimal number at *text, which moves behind it. */
static uintptr_t read_hex(const char **text)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t x = 0;
    for (const char *d; **text != '\0' && (d = strchr(digits, **text)) != NULL; (*text)++)
        x = x * 16 + (uintptr_t)(d - digits);
    return x;
}

/* Is `at` in the mapping that the line tells of? */
static bool is_in(const char *line, uintptr_t at)
{
    const uintptr_t begin = read_hex(&line);
    if (*line++ != '-') return false;
    return begin <= at && at < read_hex(&line);
}

/* Put the next line, without its end, into `line`, cut to LINE_BYTES - 1. False: there is none. */
static bool next_line(int maps, char line[LINE_BYTES])
{
    size_t count = 0;
    char c;
    while (read(maps, &c, 1) == 1 && c != '\n') {
        if (count + 1 < LINE_BYTES) line[count++] = c;
    }
    line[count] = '\0';
    return count > 0;
}

static void say_file_at(uintptr_t at)
{
    static char line[LINE_BYTES];
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool found = false;
    while (maps >= 0 && !found && next_line(maps, line)) found = is_in(line, at);
    const char *path = found ? strchr(line, '/') : NULL;
    say(path ? path : "a mapped file");
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static atomic_flag has_struck = ATOMIC_FLAG_INIT;
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* no file's end: let it strike again, unhandled */
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&has_struck)) pause(); /* another thread tells it and exits */
    say("lockstep: ");
    say_file_at((uintptr_t)info->si_addr);
    say(": was cut short while it was read, or its disk failed; expected a file that stays as it "
        "is\n");
    _exit(ls_exit_code(LS_ERR_FORMAT));
}

void ls_cut_file_catch(void)
{
    struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
