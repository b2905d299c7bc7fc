/* SPDX-License-Identifier: MIT */
/* signals.h -- SIGINT and SIGTERM ask a run to stop; a second one ends the process.
 *
 * The first sets a flag that the trainer polls after every step: it finishes the step, saves, and
 * returns. The second calls _exit at once: the last checkpoint is whole in any case, since files
 * appear by rename (io/new_file.h).
 *
 * Thread rule: main thread; the flag may be read by any.
 */
#ifndef LS_CLI_SIGNALS_H
#define LS_CLI_SIGNALS_H

#include <stdbool.h>

/* From now on the two signals are caught. SIGPIPE is ignored: a reader of our output that goes away
 * does not end a run; main.c says at its end that the output was lost. */
void ls_signals_catch(void);

/* The signal that asked to stop, 0 if none did. */
int ls_signals_caught(void);

/* For ls_observer.should_stop. */
bool ls_signals_should_stop(void *unused);

#endif
