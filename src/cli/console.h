/* SPDX-License-Identifier: MIT */
/* console.h -- a run's progress on standard output.
 *
 * On a terminal: one live line per epoch, redrawn at most ten times a second, with the time that is
 * left; the finished epoch's line replaces it. In a pipe or a file, and where TERM is "dumb": the
 * finished epochs' lines alone.
 * Warnings and notes go to standard error.
 *
 * Thread rule: the trainer calls the observer's functions one at a time.
 */
#ifndef LS_CLI_CONSOLE_H
#define LS_CLI_CONSOLE_H

#include <stdbool.h>
#include <stdio.h>

#include "io/json.h"
#include "train/trainer.h"

typedef struct {
    bool is_live;        /* standard output is a terminal that can redraw a line */
    bool is_drawn;       /* a live line is on the screen */
    double drawn_at;     /* seconds, ls_clock */
    ls_config effective; /* the run's configuration, once the plan has told it */
} ls_console;

void ls_console_init(ls_console *console);

/* What to give to ls_train; borrows `console`. */
ls_observer ls_console_observer(ls_console *console);

/* Write this thread's error to standard error, as every error of the program is written. */
void ls_console_error(void);

/* The same, and end the process with code 5: an ls_stuck_fn. Does not return. */
void ls_console_leave(void);

/* Take a live line off the screen, before something else is printed. */
void ls_console_clear(ls_console *console);

/* Print what `json` has written, and a newline. Errors: MEMORY. */
LS_MUST_USE ls_status ls_console_print_json(ls_json_writer *json);

/* Of the steps' time, without input: below this share nothing is said of it. */
#define LS_INPUT_BOUND_SHARE 0.05

/* Nor is it of steps that take less in all: they are over before the readers have read ahead. */
#define LS_INPUT_BOUND_SECONDS 1.0

/* "epoch  3/10  loss 0.1234  accuracy 0.9876  val_loss ...", with a newline. epochs 0: unknown. */
void ls_console_print_epoch(FILE *out, const ls_history_line *line, uint64_t epochs);

/* A number for people: four decimals, or an exponent where they would hide it. */
enum { LS_READABLE_BYTES = 32 };
const char *ls_readable(double x, char out[LS_READABLE_BYTES]);

#endif
