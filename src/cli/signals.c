/* SPDX-License-Identifier: MIT */
/* signals.c -- one flag, set by a handler. See signals.h.
 *
 * A handler may only touch volatile sig_atomic_t, and call functions that are safe in it: _exit is.
 * Exit codes are the shell's: 128 + the signal's number, 130 and 143.
 */
#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    if (caught != 0) _exit(128 + number);
    caught = number;
}

void ls_signals_catch(void)
{
    /* SA_RESTART: a write or a read that the signal meets goes on, so that the step can finish. */
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int ls_signals_caught(void) { return caught; }

bool ls_signals_should_stop(void *unused)
{
    (void)unused;
    return caught != 0;
}
