/* SPDX-License-Identifier: MIT */
/* test_thread_pool.c -- a pool does every task once, each thread its share first; cores. */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "thread.h"

/* -- pool ------------------------------------------------------------------------------------ */

enum { TASKS_MAX = 200 };

typedef struct {
    int thread_count;
    int times[TASKS_MAX];  /* plain: only one thread may run a task */
    long input, output[TASKS_MAX];
    atomic_int bad_threads;
} pool_job;

static void pool_task(void *arg, size_t task, int thread)
{
    pool_job *job = arg;
    if (thread < 0 || thread >= job->thread_count) (void)atomic_fetch_add(&job->bad_threads, 1);
    job->times[task]++;
    job->output[task] = job->input + (long)task;
}

static void check_pool(int thread_count, bool spin)
{
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(thread_count, spin, &pool), LS_OK);
    assert_int_equal(ls_pool_thread_count(pool), thread_count);
    pool_job job = { .thread_count = thread_count };
    atomic_init(&job.bad_threads, 0);
    int runs[TASKS_MAX] = { 0 };
    for (size_t round = 0; round < 1000; round++) {
        const size_t count = round * 7 % (TASKS_MAX + 1);
        job.input = (long)round * 1000;
        ls_pool_run(pool, count, pool_task, &job);
        for (size_t task = 0; task < count; task++) {
            assert_int_equal(job.times[task], ++runs[task]);
            assert_int_equal(job.output[task], job.input + (long)task);
        }
    }
    assert_memory_equal(job.times, runs, sizeof runs);
    assert_int_equal(atomic_load(&job.bad_threads), 0);
    ls_pool_destroy(pool);
}

static void test_a_pool_runs_every_task_once_and_returns_when_all_are_done(void **state)
{
    (void)state;
    for (int thread_count = 1; thread_count <= 5; thread_count++) {
        check_pool(thread_count, false);
        check_pool(thread_count, true);
    }
}

/* Many jobs that end as soon as they begin: helpers come late to most of them, and claims of the
 * last task meet. */
static void test_a_helper_that_comes_late_does_nothing_twice(void **state)
{
    (void)state;
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(3, true, &pool), LS_OK);
    pool_job job = { .thread_count = 3 };
    atomic_init(&job.bad_threads, 0);
    enum { JOBS = 100000 };
    for (int round = 1; round <= JOBS; round++) {
        ls_pool_run(pool, 3, pool_task, &job);
        for (int task = 0; task < 3; task++)
            if (job.times[task] != round) fail_msg("job %d: task %d ran twice or not", round, task);
    }
    assert_int_equal(job.times[3], 0);
    assert_int_equal(atomic_load(&job.bad_threads), 0);
    ls_pool_destroy(pool);
}

/* Each task waits until as many tasks run as there are threads. */
static void meet_task(void *arg, size_t task, int thread)
{
    atomic_int *come = arg;
    (void)task;
    (void)thread;
    (void)atomic_fetch_add(come, 1);
    while (atomic_load(come) < 4) (void)sched_yield();
}

static void test_a_pool_of_t_threads_runs_t_tasks_at_once(void **state)
{
    (void)state;
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(4, false, &pool), LS_OK);
    for (int round = 0; round < 50; round++) {
        atomic_int come;
        atomic_init(&come, 0);
        for (int i = 0; i < 500; i++) (void)sched_yield(); /* helpers may fall asleep */
        ls_pool_run(pool, 4, meet_task, &come); /* would hang with 3 */
        assert_int_equal(atomic_load(&come), 4);
    }
    ls_pool_destroy(pool);
}

typedef struct {
    atomic_int come;
    int thread[8]; /* that ran the task */
} shares_job;

/* Four threads' first tasks wait for each other, and then their second ones: none has time for
 * another's. */
static void share_task(void *arg, size_t task, int thread)
{
    shares_job *job = arg;
    job->thread[task] = thread;
    (void)atomic_fetch_add(&job->come, 1);
    while (atomic_load(&job->come) < (task % 2 == 0 ? 4 : 8)) (void)sched_yield();
}

static void test_a_thread_takes_the_tasks_of_its_share_first(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        /* A new pool: a helper that is late from another job may begin with any share. */
        ls_pool *pool = NULL;
        assert_int_equal(ls_pool_create(4, round % 2 == 0, &pool), LS_OK);
        shares_job job;
        atomic_init(&job.come, 0);
        ls_pool_run(pool, 8, share_task, &job);
        for (int task = 0; task < 8; task++) assert_int_equal(job.thread[task], task / 2);
        ls_pool_destroy(pool);
    }
}

static void test_scratch_is_aligned_and_each_threads_own(void **state)
{
    (void)state;
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(3, false, &pool), LS_OK);
    for (int thread = 0; thread < 3; thread++) {
        unsigned char *scratch = ls_pool_scratch(pool, thread);
        assert_int_equal((uintptr_t)scratch % 64, 0);
        scratch[0] = (unsigned char)thread;
        scratch[LS_SCRATCH_BYTES - 1] = (unsigned char)thread;
    }
    for (int thread = 0; thread < 3; thread++) {
        const unsigned char *scratch = ls_pool_scratch(pool, thread);
        assert_int_equal(scratch[0], thread);
        assert_int_equal(scratch[LS_SCRATCH_BYTES - 1], thread);
    }
    ls_pool_destroy(pool);
    ls_pool_destroy(NULL);
}

/* What the tasks of a loop inside a task saw. */
typedef struct {
    ls_pool *pool;
    bool stayed[8]; /* outer task's */
    int inner[8];
} nested_loop;

typedef struct {
    pthread_t caller;
    bool stayed;
    int count;
} inner_loop;

static void inner_task(void *loop_, size_t task, int thread)
{
    inner_loop *loop = loop_;
    loop->stayed = loop->stayed && pthread_equal(loop->caller, pthread_self()) && thread == 0;
    loop->count += (int)task + 1;
}

static void outer_task(void *loop_, size_t task, int thread)
{
    nested_loop *loop = loop_;
    ls_pool *alone = ls_pool_of_thread(loop->pool, thread);
    inner_loop inner = { .caller = pthread_self(), .stayed = true };
    ls_pool_run(alone, 4, inner_task, &inner);
    loop->stayed[task] = inner.stayed && ls_pool_thread_count(alone) == 1;
    loop->inner[task] = inner.count;
}

static void test_a_loop_inside_a_task_stays_on_its_thread(void **state)
{
    (void)state;
    nested_loop loop = { 0 };
    assert_int_equal(ls_pool_create(3, false, &loop.pool), LS_OK);
    ls_pool_run(loop.pool, 8, outer_task, &loop);
    for (int i = 0; i < 8; i++) {
        assert_true(loop.stayed[i]);
        assert_int_equal(loop.inner[i], 1 + 2 + 3 + 4);
    }
    for (int t = 0; t < 3; t++) {
        assert_ptr_equal(ls_pool_scratch(ls_pool_of_thread(loop.pool, t), 0),
                         ls_pool_scratch(loop.pool, t));
    }
    ls_pool_destroy(loop.pool);
}

/* -- cores ----------------------------------------------------------------------------------- */

static void *read_cores(void *cores)
{
    ls_cores_read(cores);
    return NULL;
}

static void test_threads_made_on_a_core_stay_on_it(void **state)
{
    (void)state;
    ls_cores all, here, there;
    ls_cores_read(&all);
    if (all.count > LS_CORE_MAX || !ls_cores_enter(&all, all.count - 1, 1)) skip();
    pthread_t thread;
    const int failed = pthread_create(&thread, NULL, read_cores, &there);
    if (failed == 0) (void)pthread_join(thread, NULL);
    ls_cores_read(&here);
    const bool left = ls_cores_enter(&all, 0, all.count);
    assert_int_equal(failed, 0);
    assert_true(left);
    assert_int_equal(here.count, 1);
    assert_int_equal(here.number[0], all.number[all.count - 1]);
    assert_int_equal(there.count, 1);
    assert_int_equal(there.number[0], here.number[0]);
    assert_int_equal(ls_core_count(), all.count);
}

static void test_cores_are_told_in_runs(void **state)
{
    (void)state;
    const ls_cores cores = { .count = 7, .number = { 0, 1, 2, 4, 8, 9, 11 } };
    const struct {
        int first, count;
        const char *text;
    } parts[] = { { 0, 7, "0-2,4,8-9,11" }, { 0, 1, "0" }, { 1, 2, "1-2" }, { 3, 3, "4,8-9" } };
    char text[32], narrow[6];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ls_cores_text(&cores, parts[i].first, parts[i].count, text, sizeof text);
        assert_string_equal(text, parts[i].text);
    }
    ls_cores_text(&cores, 0, 7, narrow, sizeof narrow);
    assert_string_equal(narrow, "0-2,4");
}

static void test_the_process_may_run_on_at_least_one_core(void **state)
{
    (void)state;
    const int count = ls_core_count();
    assert_true(count >= 1);
    assert_true((long)count <= sysconf(_SC_NPROCESSORS_CONF));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pool_runs_every_task_once_and_returns_when_all_are_done),
        cmocka_unit_test(test_a_helper_that_comes_late_does_nothing_twice),
        cmocka_unit_test(test_a_pool_of_t_threads_runs_t_tasks_at_once),
        cmocka_unit_test(test_a_thread_takes_the_tasks_of_its_share_first),
        cmocka_unit_test(test_scratch_is_aligned_and_each_threads_own),
        cmocka_unit_test(test_a_loop_inside_a_task_stays_on_its_thread),
        cmocka_unit_test(test_threads_made_on_a_core_stay_on_it),
        cmocka_unit_test(test_cores_are_told_in_runs),
        cmocka_unit_test(test_the_process_may_run_on_at_least_one_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
