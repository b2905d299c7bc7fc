/* SPDX-License-Identifier: MIT */
/* test_refusals.c -- whatever the system refuses, a run ends with a message and is not lost.
 *
 * The linker puts this file's functions in the place of the system's (--wrap) in all of lockstep's
 * code. A run is begun, and one of its calls is refused: of memory, threads, entries of a folder or
 * lines of a log; then it is continued, and as many calls later one is refused again; then it is
 * left alone. It must have ended with an error of the right kind each time, or have done without
 * what was refused, and in the end have the weights and the logs of the run that was never refused
 * anything. The next run is refused a later call, until one has no more of them.
 *
 * Under the address sanitizer nothing may leak on the way.
 */
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/training.h"
#include "support/wrapped_memory.h"

typedef enum { MEMORY, THREADS, ENTRIES, LINES } refusal;

static refusal refused;           /* which calls count; main's, while no run is on */
static atomic_long calls_left;    /* until one is refused; below 0: none is any more */

static bool refuses(refusal kind)
{
    return kind == refused && atomic_fetch_sub(&calls_left, 1) == 0;
}

/* -- the system's place ------------------------------------------------------------------------ */

char *__real_strndup(const char *text, size_t bytes);
FILE *__real_open_memstream(char **text, size_t *bytes);
int __real_fclose(FILE *file);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attribute, void *(*fn)(void *),
                          void *arg);
struct dirent *__real_readdir(DIR *folder);
ssize_t __real_getline(char **line, size_t *room, FILE *file);

char *__wrap_strndup(const char *text, size_t bytes);
FILE *__wrap_open_memstream(char **text, size_t *bytes);
int __wrap_fclose(FILE *file);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attribute, void *(*fn)(void *),
                          void *arg);
struct dirent *__wrap_readdir(DIR *folder);
ssize_t __wrap_getline(char **line, size_t *room, FILE *file);

/* NULL, with errno as the system leaves it. */
static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t bytes) { return refuses(MEMORY) ? no_memory() : __real_malloc(bytes); }

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuses(MEMORY) ? no_memory() : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return refuses(MEMORY) ? no_memory() : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return refuses(MEMORY) ? no_memory() : __real_aligned_alloc(align, bytes);
}

int __wrap_posix_memalign(void **memory, size_t align, size_t bytes)
{
    return refuses(MEMORY) ? ENOMEM : __real_posix_memalign(memory, align, bytes);
}

char *__wrap_strdup(const char *text)
{
    return refuses(MEMORY) ? no_memory() : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t bytes)
{
    return refuses(MEMORY) ? no_memory() : __real_strndup(text, bytes);
}

/* A stream into memory that lacks it when it is closed: glibc says 0, and leaves no text. */
static _Thread_local FILE *page;
static _Thread_local char **page_text;

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    page = refuses(MEMORY) ? no_memory() : __real_open_memstream(text, bytes);
    page_text = text;
    return page;
}

int __wrap_fclose(FILE *file)
{
    const bool is_page = file == page, loses = is_page && refuses(MEMORY);
    const int failed = __real_fclose(file);
    if (is_page) page = NULL;
    if (loses) {
        free(*page_text);
        *page_text = NULL;
    }
    return failed;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attribute, void *(*fn)(void *),
                          void *arg)
{
    return refuses(THREADS) ? EAGAIN : __real_pthread_create(thread, attribute, fn, arg);
}

struct dirent *__wrap_readdir(DIR *folder)
{
    if (!refuses(ENTRIES)) return __real_readdir(folder);
    errno = EIO;
    return NULL;
}

ssize_t __wrap_getline(char **line, size_t *room, FILE *file)
{
    if (!refuses(LINES)) return __real_getline(line, room, file);
    errno = EIO;
    return -1;
}

/* -- runs -------------------------------------------------------------------------------------- */

enum { NEVER = -1 };

static training *open_run(void)
{
    training *t = training_tiny();
    training_set(t, "devices", "host:2");
    training_set(t, "threads", "2");
    training_set(t, "save-every", "4");
    training_set(t, "keep", "1");
    training_set(t, "ema", "0.9");
    training_set(t, "resume", "auto");
    return t;
}

/* Run with one call refused, after `calls` others; false: there was none to refuse. */
static bool run_refused(training *t, refusal kind, long calls)
{
    const ls_status expected = kind == MEMORY || kind == THREADS ? LS_ERR_MEMORY : LS_ERR_IO;
    refused = kind;
    atomic_store(&calls_left, calls);
    const ls_status status = training_run(t);
    const bool was_refused = atomic_exchange(&calls_left, NEVER) < 0;
    if (status != LS_OK && (status != expected || strlen(ls_last_error()) < 10))
        fail_msg("refusal %d, call %ld: %d, %s", (int)kind, calls, (int)status, ls_last_error());
    if (status != LS_OK && !was_refused)
        fail_msg("nothing was refused, but: %s", ls_last_error());
    return was_refused;
}

static size_t line_count(training *t, const char *folder, const char *name)
{
    char path[300];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(training_path(t, path), "r");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;) count += c == '\n';
    fclose(file);
    return count;
}

static void refuse_each(refusal kind, long stride)
{
    training *t = open_run();
    char weights[65], folder[32] = "whole";
    bool was_refused = true;
    training_set(t, "out", training_path(t, folder));
    training_must_run(t);
    memcpy(weights, t->result.weights_sha256, sizeof weights);
    const size_t steps = line_count(t, folder, "log.jsonl");
    const size_t epochs = line_count(t, folder, "history.csv");
    for (long calls = 0; was_refused; calls += stride) {
        snprintf(folder, sizeof folder, "run%ld", calls);
        training_set(t, "out", training_path(t, folder));
        t->stop_after = 6;
        was_refused = run_refused(t, kind, calls);
        t->stop_after = 0;
        was_refused = run_refused(t, kind, calls) || was_refused;
        training_must_run(t);
        assert_string_equal(t->result.weights_sha256, weights);
        assert_int_equal(line_count(t, folder, "log.jsonl"), steps);
        assert_int_equal(line_count(t, folder, "history.csv"), epochs);
    }
    training_destroy(t);
}

/* Not every one of some 3000: the stride is prime to what repeats. */
static void test_a_run_without_memory_ends_and_goes_on(void **state)
{
    (void)state;
    refuse_each(MEMORY, 13);
}

static void test_a_run_without_a_thread_ends_and_goes_on(void **state)
{
    (void)state;
    refuse_each(THREADS, 1);
}

static void test_a_folder_that_cannot_be_read_is_not_taken_for_empty(void **state)
{
    (void)state;
    refuse_each(ENTRIES, 1);
}

static void test_a_log_that_cannot_be_read_is_not_cut(void **state)
{
    (void)state;
    refuse_each(LINES, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_without_memory_ends_and_goes_on),
        cmocka_unit_test(test_a_run_without_a_thread_ends_and_goes_on),
        cmocka_unit_test(test_a_folder_that_cannot_be_read_is_not_taken_for_empty),
        cmocka_unit_test(test_a_log_that_cannot_be_read_is_not_cut),
    };
    atomic_init(&calls_left, NEVER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
