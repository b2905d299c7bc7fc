/* SPDX-License-Identifier: MIT */
/* fresh_process.h -- runs a case of a test in a process of its own.
 *
 * A driver is loaded once per process and remembers; the virtual one reads its settings at the
 * first call. So a case that needs a certain machine runs in a new process: this same program,
 * started with the case's name and the machine's settings in its environment.
 *
 *     static int case_two_gpus(void) { CHECK(...); CHECK_OK(ls_...); return 0; }
 *     static const fresh_case CASES[] = { { "two gpus", case_two_gpus }, { NULL, NULL } };
 *     static void test_...(void **state) { assert_case("two gpus", "LOCKSTEP_VGPU_DEVICES=2"); }
 *     int main(int argc, char **argv) { fresh_main(argc, argv, CASES); ... cmocka ... }
 */
#ifndef TEST_SUPPORT_FRESH_PROCESS_H
#define TEST_SUPPORT_FRESH_PROCESS_H

#include <stdbool.h>
#include <stdio.h>

#include "status.h"

/* 0: the case holds. */
typedef int fresh_case_fn(void);

typedef struct {
    const char *name;
    fresh_case_fn *run;
} fresh_case; /* a table ends with NULL */

/* First in main: a process that was started for a case runs it and ends here. */
void fresh_main(int argc, char **argv, const fresh_case *cases);

/* Run a case with "NAME=value" settings, up to NULL, over this process's environment ("NAME="
 * unsets it). Returns its exit code, 128 + n for signal n; `output` gets the start of what it
 * printed. */
int fresh_run(const char *name, const char *const *settings, char *output, size_t output_bytes);
#define WITH(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* The case must hold; what it printed is shown if it does not. */
void assert_case_at(const char *file, int line, const char *name, const char *const *settings);
#define assert_case(name, ...)                                                                    \
    assert_case_at(__FILE__, __LINE__, (name), WITH(__VA_ARGS__))

/* Is the driver the virtual one, which does what settings tell? */
bool driver_is_virtual(void);

/* -- inside a case -- */

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);         \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)
#define CHECK_OK(call)                                                                            \
    do {                                                                                          \
        if ((call) != LS_OK) {                                                                    \
            (void)fprintf(stderr, "%s:%d: %s: %s [%s]\n", __FILE__, __LINE__, #call,              \
                          ls_last_error(), ls_last_error_place());                                \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)
/* The call fails with `code` and a message that has `text` in it. */
#define CHECK_FAILS(call, code, text)                                                             \
    do {                                                                                          \
        if (!fresh_failed((call), (code), (text))) {                                              \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #call);                      \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)
bool fresh_failed(ls_status status, ls_status code, const char *text);

#endif
