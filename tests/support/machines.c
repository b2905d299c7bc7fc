/* SPDX-License-Identifier: MIT */
/* machines.c -- every implementation of the ops that this machine can run. See machines.h. */
#define _POSIX_C_SOURCE 200809L

#include "support/machines.h"

#include <stdio.h>

#include "support/test.h"

/* Open the next machine, or leave it out if its set is not there. */
static void open_one(machines *all, const char *isa, int threads)
{
    machine *m = &all->machine[all->count];
    assert_true(all->count < MACHINES_MAX);
    assert_int_equal(setenv("LOCKSTEP_ISA", isa, 1), 0);
    assert_int_equal(ls_device_open_host(all->count, threads, false, NULL, &m->device), LS_OK);
    if (ls_kernels_bind(m->device) != LS_OK) {
        ls_device_close(m->device);
        return;
    }
    assert_string_equal(m->device->kernels->name, isa);
    assert_int_equal(ls_stream_init(&m->stream, m->device), LS_OK);
    (void)snprintf(m->name, sizeof m->name, "%s, %d threads", isa, threads);
    all->count++;
}

void machines_open(machines *all)
{
    static const char *const isa[] = { "portable", "avx2", "avx512" };
    all->count = 0;
    open_one(all, "reference", 1);
    for (int i = 0; i < 3; i++) {
        for (int threads = 1; threads <= 3; threads++) open_one(all, isa[i], threads);
    }
    assert_true(all->count > 3); /* the reference and portable are on every machine */
    assert_int_equal(unsetenv("LOCKSTEP_ISA"), 0);
}

void machines_close(machines *all)
{
    for (int i = 0; i < all->count; i++) {
        ls_stream_free(&all->machine[i].stream);
        ls_device_close(all->machine[i].device);
    }
    all->count = 0;
}
