/* SPDX-License-Identifier: MIT */
/* signals.c -- one flag, set by a handler. See signals.h.
 *
 * A handler may only touch lock-free atomics, and call functions that are safe in it: _exit is. The
 * flag is atomic and not just volatile because rank 0's thread reads it while the signal may be
 * handled on any other. Exit codes are the shell's: 128 + the signal's number, 130 and 143.
 */
#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_int caught;

static void on_signal(int number)
{
    if (atomic_exchange(&caught, number) != 0) _exit(128 + number);
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

int ls_signals_caught(void) { return atomic_load(&caught); }

bool ls_signals_should_stop(void *unused)
{
    (void)unused;
    return atomic_load(&caught) != 0;
}
