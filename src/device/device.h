/* SPDX-License-Identifier: MIT */
/* device.h -- one machine interface: memory, copies, streams, events, and pairs of devices.
 *
 * A device is a GPU or a host stand-in, opened by ordinal. Any number of host devices live on one
 * CPU; each has its own memory accounting, streams and compute pool, so that everything above this
 * layer is written once. Nothing above touches a device's memory except through a copy below or an
 * op of kernels.h.
 *
 * Streams and events
 *  1. The work of one stream runs in the order in which it was enqueued.
 *  2. ls_event_record(e, s): e and s are on the same device.
 *  3. ls_stream_wait(s, e): any device. Work enqueued on s after it runs after the work that
 *     preceded the latest record CALLED before this wait was called; later records do not matter.
 *  4. Waiting on an event that was never recorded is an error (a driver would silently not wait).
 *  5. Memory, streams, events and peer access are made and released at set-up and tear-down only.
 *  6. Zero bytes: no copy; events as usual.
 * A host stream runs its work inline, before the enqueuing call returns. So a wait there must find
 * its event complete; it is checked, which proves the handshake on every test without a GPU.
 *
 * Thread rule: a device and its streams belong to one rank thread. Events may be waited for, and
 * ls_copy_peer may write into another device's memory, from another rank's thread.
 */
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "thread.h"

typedef enum { LS_DEVICE_HOST, LS_DEVICE_CUDA } ls_device_kind;

/* How bytes get from one device to another. */
typedef enum {
    LS_PAIR_LOCAL,  /* the same device                                       */
    LS_PAIR_PEER,   /* a copy or a kernel of one may access the other's memory */
    LS_PAIR_STAGED  /* through pinned host memory                            */
} ls_pair_kind;

/* What a copy is told: from where to where. */
typedef enum {
    LS_COPY_TO_DEVICE,
    LS_COPY_TO_HOST,
    LS_COPY_WITHIN,
    LS_COPY_PEER
} ls_copy_direction;

typedef struct ls_device ls_device;
typedef struct ls_stream ls_stream;
typedef struct ls_event ls_event;
struct ls_kernels; /* kernels/kernels.h; carried here so that a stream leads to its ops */

/* What a kind of device must provide; the functions below check and forward. A test that injects
 * faults opens a host device and replaces some of these. All may fail with MEMORY or DEVICE. */
typedef struct {
    ls_status (*alloc)(ls_device *, size_t bytes, void **out);
    void (*release)(ls_device *, void *memory);
    ls_status (*pinned_alloc)(ls_device *, size_t bytes, void **out);
    void (*pinned_release)(ls_device *, void *memory);
    ls_status (*stream_open)(ls_device *, ls_stream *);
    void (*stream_close)(ls_stream *);
    ls_status (*stream_poll)(ls_stream *, bool *idle);
    ls_status (*stream_wait)(ls_stream *, ls_event *);
    ls_status (*event_open)(ls_device *, ls_event *);
    void (*event_close)(ls_event *);
    ls_status (*event_record)(ls_event *, ls_stream *);
    ls_status (*event_poll)(ls_event *, bool *complete);
    ls_status (*copy)(ls_stream *, void *to, const void *from, size_t bytes, ls_copy_direction);
    ls_status (*fill)(ls_stream *, void *to, unsigned char value, size_t bytes);
    ls_status (*reach)(ls_device *, ls_device *other); /* NULL: nothing has to be done */
    ls_status (*room)(ls_device *, size_t *bytes);     /* NULL: not known */
    void (*look)(ls_device *); /* NULL: work has finished when it has been enqueued */
    void (*close)(ls_device *);
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    ls_device_kind kind;
    int ordinal;                      /* within its kind, from 0 */
    char name[96];                    /* "host:1", "cuda:0 NVIDIA H200" */
    const struct ls_kernels *kernels; /* set by ls_kernels_bind before the first op */
    ls_pool *pool;                    /* owned; a host device's compute threads, else NULL */
    atomic_ulong *progress;           /* borrowed from the group, or NULL: see ls_group_progress */
    atomic_size_t allocated_bytes;    /* now, ls_device_alloc; any thread may read it */
    atomic_size_t peak_bytes;         /* the most so far; likewise */
    atomic_int open_count;            /* streams, events and pinned blocks not yet released */
    struct ls_allocation *allocations; /* owned by device.c; the owner's, or the main thread's */
    void *implementation;             /* owned by the kind, or by a test's wrapper */
};

struct ls_stream {
    ls_device *device;  /* borrowed */
    void *implementation;
};

struct ls_event {
    ls_device *device;      /* borrowed */
    atomic_ulong recorded;  /* how often it was recorded; 0 = never */
    void *implementation;
};

/* -- set-up ---------------------------------------------------------------------------------- */

/* Open host device `ordinal` with a pool of `thread_count` compute threads (`spin`: see
 * ls_pool_create). `progress` may be NULL. Errors: MEMORY. */
LS_MUST_USE ls_status ls_device_open_host(int ordinal, int thread_count, bool spin,
                                          atomic_ulong *progress, ls_device **out);
void ls_device_close(ls_device *device); /* accepts NULL; asserts that nothing of it is left open */

/* What a kind's open function does first: every field but the kind's own. Owns: `pool`. */
void ls_device_init(ls_device *device, ls_device_kind kind, int ordinal, const ls_device_ops *ops,
                    ls_pool *pool, atomic_ulong *progress);

/* Device memory, 128-byte aligned, contents undefined (a host device fills it with NaNs, so that
 * what reads it unwritten is seen). Message of a failure: bytes asked, device. */
LS_MUST_USE ls_status ls_device_alloc(ls_device *device, size_t bytes, void **out);
void ls_device_release(ls_device *device, void *memory); /* accepts NULL */

/* Device memory that is free now, of all that the device has; SIZE_MAX where that is not known, as
 * on a host device, whose memory is the machine's (host_room.h). Errors: DEVICE. */
LS_MUST_USE ls_status ls_device_room(ls_device *device, size_t *bytes);

/* Host memory that asynchronous copies may use. */
LS_MUST_USE ls_status ls_pinned_alloc(ls_device *device, size_t bytes, void **out);
void ls_pinned_release(ls_device *device, void *memory); /* accepts NULL */

/* From now on `device` may write and read the memory of `other`, by ls_copy_peer and by ops. Their
 * pair is LOCAL or PEER. Whoever opens a link that does so calls this first. Errors: DEVICE. */
LS_MUST_USE ls_status ls_device_reach(ls_device *device, ls_device *other);

LS_MUST_USE ls_status ls_stream_init(ls_stream *stream, ls_device *device);
void ls_stream_free(ls_stream *stream); /* accepts all-zero */
LS_MUST_USE ls_status ls_event_init(ls_event *event, ls_device *device);
void ls_event_free(ls_event *event); /* accepts all-zero */

/* -- streams and events ------------------------------------------------------------------------ */

LS_MUST_USE ls_status ls_event_record(ls_event *event, ls_stream *stream);
LS_MUST_USE ls_status ls_stream_wait(ls_stream *stream, ls_event *event);

/* Has all that was enqueued (recorded) so far run? Never blocks. */
LS_MUST_USE ls_status ls_stream_poll(ls_stream *stream, bool *idle);
LS_MUST_USE ls_status ls_event_poll(ls_event *event, bool *complete);

/* Host-wait until `stream` is idle, polling; `what` names the work in the message of a timeout.
 * Blocks. Errors: TIMEOUT, ABORTED, DEVICE. */
LS_MUST_USE ls_status ls_stream_drain(ls_stream *stream, ls_group *group, const char *what);

/* Poll until `stream` is idle, for at most `seconds`. False: it is not, or it failed; then what its
 * work uses must not be released. A stream that was never opened is idle. Blocks. */
bool ls_stream_settles(ls_stream *stream, double seconds);

/* How long a tear-down waits in that way. */
#define LS_SETTLE_SECONDS 1.0

/* -- copies ---------------------------------------------------------------------------------- */

/* Async: enqueued on `stream`, whose device owns the device side (for ls_copy_peer: `to` may be
 * memory of another device whose pair with this one is LOCAL or PEER). Host memory of an
 * asynchronous copy must be pinned and untouched until the stream has passed it. */
LS_MUST_USE ls_status ls_copy_to_device(ls_stream *stream, void *to, const void *from_host,
                                        size_t bytes);
LS_MUST_USE ls_status ls_copy_to_host(ls_stream *stream, void *to_host, const void *from,
                                      size_t bytes);
LS_MUST_USE ls_status ls_copy_within(ls_stream *stream, void *to, const void *from, size_t bytes);
LS_MUST_USE ls_status ls_copy_peer(ls_stream *stream, void *to, const void *from, size_t bytes);

/* Set `bytes` bytes to `value`. Async. */
LS_MUST_USE ls_status ls_fill(ls_stream *stream, void *to, unsigned char value, size_t bytes);

/* An op or a copy has finished or been enqueued: restart the group's deadlines. (Who enqueues has
 * not hung, and cannot go on for long without waiting for what he enqueued.) */
void ls_device_progress(ls_device *device);

/* Look whether anything that was enqueued on the device has finished since the last look, and if
 * so, ls_device_progress. Its rank calls it between two polls of whatever it waits for. */
void ls_device_look(ls_device *device);

#endif
