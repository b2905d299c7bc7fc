/* SPDX-License-Identifier: MIT */
/* faulty_device.h -- a host device that fails where a test wants it to.
 *
 * A test sweeps n: with kind FAULT_NONE it runs once and reads the counts; then for every n up to a
 * count it runs again with a fault at the n-th call and asserts that the run ends with the right
 * code, names the right thing and leaks nothing (ls_device_close asserts that).
 *
 * Wrap every device of a run, the healthy ones too (fault NULL): a plain host device refuses to
 * wait for another's stalled event, where a GPU would enqueue the wait.
 *
 * Thread rule: one fault may serve several devices; counts are atomic. Set the other fields
 * before the ranks start.
 */
#ifndef TEST_SUPPORT_FAULTY_DEVICE_H
#define TEST_SUPPORT_FAULTY_DEVICE_H

#include <stdatomic.h>

#include "device/device.h"

typedef enum {
    FAULT_NONE,
    FAULT_ALLOC,       /* the n-th of: memory, pinned memory, stream, event: fails with MEMORY */
    FAULT_COPY,        /* the n-th copy fails with DEVICE and moves nothing */
    FAULT_RECORD,      /* the n-th event record fails with DEVICE */
    FAULT_FLIP,        /* the n-th copy arrives with bit `flip_bit` (mod its bits) flipped */
    FAULT_BLOCK_COPY,  /* the n-th copy does not return before `released` */
    FAULT_STALL_COPY   /* the n-th copy returns, but its stream is not idle, and what is recorded on
                          it (or on a stream that waits for it) not complete, before `released` */
} fault_kind;

typedef struct {
    fault_kind kind;
    long n;                /* which call, from 1; 0: none */
    size_t flip_bit;
    unsigned directions;   /* copies that count: bits 1 << LS_COPY_...; 0: all */
    atomic_long allocs, copies, records; /* calls so far */
    atomic_bool fired;     /* the n-th call has come */
    const void *to;        /* of the n-th copy, if that has come */
    size_t bytes;          /* likewise */
    atomic_bool released;  /* set by the test: let go of what is blocked or stalled */
} fault;

/* A host device whose ops fail as `f` says: borrowed until the device is closed, or NULL. */
LS_MUST_USE ls_status faulty_device_open(int ordinal, int thread_count, atomic_ulong *progress,
                                         fault *f, ls_device **out);

#endif
