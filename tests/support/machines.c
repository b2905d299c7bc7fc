/* SPDX-License-Identifier: MIT */
/* machines.c -- every implementation of the ops that this machine can run. See machines.h. */
#define _POSIX_C_SOURCE 200809L

#include "support/machines.h"

#include <stdio.h>

#include "support/test.h"

/* Open the next machine, or leave it out if its set is not there. */
static void open_one(machines *set, const char *isa, int threads)
{
    machine *m = &set->machine[set->count];
    assert_true(set->count < MACHINES_MAX);
    assert_int_equal(setenv("LOCKSTEP_ISA", isa, 1), 0);
    assert_int_equal(ls_device_open_host(set->count, threads, false, NULL, &m->device), LS_OK);
    if (ls_kernels_bind(m->device) != LS_OK) {
        ls_device_close(m->device);
        return;
    }
    assert_string_equal(m->device->kernels->name, isa);
    assert_int_equal(ls_stream_init(&m->stream, m->device), LS_OK);
    (void)snprintf(m->name, sizeof m->name, "%s, %d threads", isa, threads);
    set->count++;
}

void machines_open(machines *set)
{
    static const char *const isa[] = { "portable", "avx2", "avx512" };
    set->count = 0;
    open_one(set, "reference", 1);
    for (int i = 0; i < 3; i++) {
        for (int threads = 1; threads <= 3; threads++) open_one(set, isa[i], threads);
    }
    assert_true(set->count > 3); /* the reference and portable are on every machine */
    assert_int_equal(unsetenv("LOCKSTEP_ISA"), 0);
}

void machines_close(machines *set)
{
    for (int i = 0; i < set->count; i++) {
        ls_stream_free(&set->machine[i].stream);
        ls_device_close(set->machine[i].device);
    }
    set->count = 0;
}

void machine_spoil_scratch(machine *m)
{
    ls_pool *pool = m->device->pool;
    for (int i = 0; i < ls_pool_thread_count(pool); i++) {
        memset(ls_pool_scratch(pool, i), 0xff, LS_SCRATCH_BYTES); /* NaN */
    }
}

machines all;

int open_machines(void **state)
{
    (void)state;
    machines_open(&all);
    return 0;
}

int close_machines(void **state)
{
    (void)state;
    machines_close(&all);
    return 0;
}
