/* SPDX-License-Identifier: MIT */
/* program.h -- runs the program under test, $LOCKSTEP, as a shell would, and reads what it says.
 *
 * For what only the whole program shows: its exit code, and its behaviour on a machine that the
 * environment describes (tests/vgpu/README.md). Main thread only: it ends the test if the program
 * cannot be started.
 */
#ifndef TEST_SUPPORT_PROGRAM_H
#define TEST_SUPPORT_PROGRAM_H

#include <stdbool.h>

typedef struct {
    int code;               /* exit code; 124 if it was ended after PROGRAM_SECONDS_MAX */
    double seconds;
    char text[1 << 16];     /* the start of both its outputs */
    char weights[65], optimizer[65], statistics[65]; /* the digests that train prints at its end;
                                                        "" if none */
} program_run;

enum { PROGRAM_SECONDS_MAX = 300 };

/* Run `$LOCKSTEP arguments` with `settings` ("A=1 B=2", may be "") in its environment. Both are
 * words for a shell. */
void program_run_with(program_run *run, const char *settings, const char *arguments);

/* All that the run said, to stderr (cmocka's own functions would cut it short). */
void program_show(const program_run *run);

bool program_said(const program_run *run, const char *text);

/* What follows `name` at the beginning of a line of `text`, blanks before and behind it skipped.
 * Ends the test if no line begins so. */
const char *program_row(const char *text, const char *name);

/* End the test, showing the run, unless it ended with `code`, and not without having said each of
 * the texts, up to NULL. `what` names it. */
void program_must_end(const program_run *run, const char *what, int code,
                      const char *const *texts);
#define PROGRAM_MUST_END(run, what, code, ...)                                                    \
    program_must_end((run), (what), (code), (const char *const[]){ __VA_ARGS__ })

#endif
