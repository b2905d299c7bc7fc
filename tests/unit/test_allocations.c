/* SPDX-License-Identifier: MIT */
/* test_allocations.c -- after the first steps, a step allocates nothing.
 *
 * The linker replaces malloc and its kin (--wrap) in all of lockstep's code, so every thread is
 * counted: ranks, compute threads, readers of samples. Two epochs of a network with all that a
 * classification of pictures may have are trained; between the reports of two steps of the second
 * epoch, in which nothing is evaluated or saved, the counter must stand still. What libc allocates
 * for itself (the buffer of a stream when it is opened) is not lockstep's.
 */
#include "support/test.h"

#include <stdatomic.h>

#include "support/training.h"
#include "support/wrapped_memory.h"

void __real_free(void *memory);

void __wrap_free(void *memory);

static atomic_long calls;        /* of any of them, by any thread */
static long at_first, at_last;   /* when the two steps were reported; rank 0's */

void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __real_aligned_alloc(align, bytes);
}

int __wrap_posix_memalign(void **memory, size_t align, size_t bytes)
{
    atomic_fetch_add(&calls, 1);
    return __real_posix_memalign(memory, align, bytes);
}

char *__wrap_strdup(const char *text)
{
    atomic_fetch_add(&calls, 1);
    return __real_strdup(text);
}

void __wrap_free(void *memory)
{
    if (memory) atomic_fetch_add(&calls, 1);
    __real_free(memory);
}

/* 16 steps an epoch: of the second, steps 17 to 32, those that lie clear of its ends. */
enum { SAMPLES = 256, FIRST = 18, LAST = 30 };

static void on_step(void *context, const ls_step_report *report)
{
    (void)context;
    if (report->line->step == FIRST) at_first = atomic_load(&calls);
    if (report->line->step == LAST) at_last = atomic_load(&calls);
}

static const char network[] =
    "input 32x32x3\nconv 8 3x3 pad=same\nbatchnorm relu\nmaxpool 2x2\n"
    "a = conv 8 3x3 pad=same relu\nconv 8 3x3 pad=same\nb = batchnorm\nadd relu from b a\n"
    "avgpool 2x2\ndropout 0.3\nflatten\ndense 32 relu\ndense 10\nloss softmax-crossentropy\n";

/* Trains on `devices` with more options, "name value" each; the number of calls. */
static long calls_of_steps(const char *devices, const char *const *options)
{
    training *t = training_create();
    training_set(t, "data", training_pictures(t, SAMPLES));
    training_write(t, "net.model", network);
    training_set(t, "model", training_path(t, "net.model"));
    training_set(t, "global-batch", "16");
    training_set(t, "epochs", "2");
    training_set(t, "augment", "crop:4,flip,brightness:0.2,contrast:0.2,cutout:8");
    training_set(t, "threads", "2");
    training_set(t, "bucket", "4096");
    training_set(t, "devices", devices);
    for (; *options; options += 2) training_set(t, options[0], options[1]);
    t->observer.step = on_step;
    at_first = -1;
    at_last = -2;
    training_must_run(t);
    training_destroy(t);
    return at_last - at_first;
}

static void test_a_step_of_one_replica_allocates_nothing(void **state)
{
    (void)state;
    assert_int_equal(calls_of_steps("host:1", (const char *const[]){ NULL }), 0);
}

static void test_a_step_of_three_replicas_allocates_nothing_however_they_exchange(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "ring", "tree", "root" };
    for (int a = 0; a < 3; a++) {
        const char *const options[] = { "allreduce", algorithms[a], NULL };
        assert_int_equal(calls_of_steps("host:3", options), 0);
    }
}

static void test_a_step_of_any_kind_allocates_nothing(void **state)
{
    (void)state;
    const char *const narrow[] = { "precision", "f16", NULL };
    const char *const passes[] = { "accumulate", "2", "optimizer", "adamw", "clip-global-norm",
                                   "1", "l2", "1e-4", "ema", "0.99", NULL };
    const char *const careful[] = { "nonfinite", "rollback", "batchnorm", "shard", NULL };
    assert_int_equal(calls_of_steps("host:2", narrow), 0);
    assert_int_equal(calls_of_steps("host:2", passes), 0);
    assert_int_equal(calls_of_steps("host:2", careful), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_of_one_replica_allocates_nothing),
        cmocka_unit_test(test_a_step_of_three_replicas_allocates_nothing_however_they_exchange),
        cmocka_unit_test(test_a_step_of_any_kind_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
