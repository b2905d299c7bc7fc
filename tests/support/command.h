/* SPDX-License-Identifier: MIT */
/* command.h -- runs the program under test in an empty folder, its two outputs apart.
 *
 * For tests of what a user types and reads (program.h starts the same program through a shell, for
 * tests of what it computes). Each test has a fresh folder, which is its current folder and the
 * program's; the outputs are caught there, in files "out" and "err".
 *
 *     static void test_...(void **state) { expect("show", 0); expect_text(last.out, "linear"); }
 *     ... { TEST_IN_FOLDER(test_...), ... };
 *     return cmocka_run_group_tests(tests, find_program, NULL);
 *
 * Main thread only: all functions end the test if something is not as they expect.
 */
#ifndef TEST_SUPPORT_COMMAND_H
#define TEST_SUPPORT_COMMAND_H

#include <sys/types.h>

enum { COMMAND_WORDS_MAX = 24, COMMAND_TEXT_BYTES = 1 << 16 };

/* What one run of the program left. */
typedef struct {
    int code;               /* exit code, or -signal */
    char out[COMMAND_TEXT_BYTES];
    char err[COMMAND_TEXT_BYTES];
} command_outcome;

extern command_outcome last; /* of the latest command_run or expect */

/* The program that LOCKSTEP names, absolute: a group's set-up finds it before folders change. */
extern char command_program[];
int find_program(void **state);

#define TEST_IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, enter_folder, leave_folder)
int enter_folder(void **state);
int leave_folder(void **state);

/* Run `lockstep <line>` to its end; returns the exit code. Words of `line` end at blanks. */
int command_run(const char *line);

/* The same, and the code must be this one. */
void expect(const char *line, int code);
void expect_text(const char *text, const char *part);

/* Of the last output: what follows `name` at the beginning of a line, and the 64 digits of the row
 * "<name>  sha256 <digits>". */
const char *row(const char *name);
void digest_of(const char *name, char out[65]);

/* In steps: words of `line`, cut in place, after the program's name; start, with `out_fd` as
 * standard output if it is not -1; wait, which returns a code as in command_outcome. */
void command_words(char *line, char *argv[COMMAND_WORDS_MAX]);
pid_t command_start(char *const *argv, int out_fd);
int command_wait(pid_t pid);

/* The start of a file. */
void read_text(const char *path, char text[COMMAND_TEXT_BYTES]);

/* A new file with this text. */
void write_text(const char *path, const char *text);

#endif
