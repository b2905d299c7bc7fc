/* SPDX-License-Identifier: MIT */
/* device.c -- the checks that hold for every kind of device, then the kind's own op.
 *
 * Callers see the ls_* functions of device.h; a kind (host.c, a GPU driver, a test's wrapper)
 * provides ls_device_ops. What is checked here is checked once for all of them:
 *
 *  1. a record's event and stream are on one device;
 *  2. a wait is for an event that was recorded before the wait was called;
 *  3. a copy moves from somewhere to somewhere, and the two do not overlap;
 *  4. what is released was allocated on this device and not released before;
 *  5. a device that is closed has nothing left open.
 *
 * A breach of 1 to 3 is reported (DEVICE), because it would corrupt sums silently; of 4 and 5
 * asserted, because nothing is lost.
 *
 * Accounting: a list of (memory, bytes) per device. It is walked at release, which happens at
 * tear-down only, so a list is fast enough. It is changed by one thread at a time: the main thread
 * before and after the ranks run, the owner between.
 *
 * Happens-before: ls_event_record adds 1 to `recorded` (release) after the kind's record has been
 * called; ls_stream_wait reads it (acquire) before the kind's wait is called. So a rank that has
 * seen the count also sees all that the recording rank did before, which on a host device, where
 * work runs inline, includes the bytes of every copy that precedes the record.
 */
#include "device/device.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

struct ls_allocation {
    struct ls_allocation *next; /* owned */
    void *memory;               /* borrowed: the kind's */
    size_t bytes;
};

/* -- set-up ---------------------------------------------------------------------------------- */

void ls_device_init(ls_device *device, ls_device_kind kind, int ordinal, const ls_device_ops *ops,
                    ls_pool *pool, atomic_ulong *progress)
{
    device->ops = ops;
    device->kind = kind;
    device->ordinal = ordinal;
    (void)snprintf(device->name, sizeof device->name, "%s:%d",
                   kind == LS_DEVICE_HOST ? "host" : "cuda", ordinal);
    device->kernels = NULL;
    device->pool = pool;
    device->progress = progress;
    atomic_init(&device->allocated_bytes, 0);
    atomic_init(&device->peak_bytes, 0);
    atomic_init(&device->open_count, 0);
    device->allocations = NULL;
    device->implementation = NULL;
}

void ls_device_close(ls_device *device)
{
    if (device == NULL) return;
    assert(device->allocations == NULL && atomic_load(&device->allocated_bytes) == 0);
    assert(atomic_load(&device->open_count) == 0);
    ls_pool_destroy(device->pool);
    device->pool = NULL;
    device->ops->close(device);
}

void ls_device_progress(ls_device *device)
{
    if (device->progress != NULL)
        (void)atomic_fetch_add_explicit(device->progress, 1, memory_order_relaxed);
}

void ls_device_look(ls_device *device)
{
    if (device->ops->look != NULL) device->ops->look(device);
}

/* -- memory ---------------------------------------------------------------------------------- */

ls_status ls_device_alloc(ls_device *device, size_t bytes, void **out)
{
    *out = NULL;
    struct ls_allocation *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return ls_fail(LS_ERR_MEMORY, "%s: %zu bytes asked, no room for the entry", device->name,
                       bytes);
    const ls_status status = device->ops->alloc(device, bytes, &entry->memory);
    if (status != LS_OK) {
        free(entry);
        return status;
    }
    entry->bytes = bytes;
    entry->next = device->allocations;
    device->allocations = entry;
    const size_t now = atomic_fetch_add(&device->allocated_bytes, bytes) + bytes;
    if (now > atomic_load(&device->peak_bytes)) atomic_store(&device->peak_bytes, now);
    *out = entry->memory;
    return LS_OK;
}

void ls_device_release(ls_device *device, void *memory)
{
    if (memory == NULL) return;
    struct ls_allocation **at = &device->allocations;
    while (*at != NULL && (*at)->memory != memory) at = &(*at)->next;
    struct ls_allocation *entry = *at;
    assert(entry != NULL);
    if (entry == NULL) return; /* not ours: leaking it is better than releasing it */
    *at = entry->next;
    (void)atomic_fetch_sub(&device->allocated_bytes, entry->bytes);
    free(entry);
    device->ops->release(device, memory);
}

ls_status ls_device_room(ls_device *device, size_t *bytes)
{
    *bytes = SIZE_MAX;
    return device->ops->room == NULL ? LS_OK : device->ops->room(device, bytes);
}

ls_status ls_pinned_alloc(ls_device *device, size_t bytes, void **out)
{
    *out = NULL;
    LS_TRY(device->ops->pinned_alloc(device, bytes, out));
    (void)atomic_fetch_add(&device->open_count, 1);
    return LS_OK;
}

void ls_pinned_release(ls_device *device, void *memory)
{
    if (memory == NULL) return;
    (void)atomic_fetch_sub(&device->open_count, 1);
    device->ops->pinned_release(device, memory);
}

ls_status ls_device_reach(ls_device *device, ls_device *other)
{
    if (device == other || device->ops->reach == NULL) return LS_OK;
    return device->ops->reach(device, other);
}

/* -- streams and events ---------------------------------------------------------------------- */

ls_status ls_stream_init(ls_stream *stream, ls_device *device)
{
    *stream = (ls_stream){ 0 };
    LS_TRY(device->ops->stream_open(device, stream));
    stream->device = device;
    (void)atomic_fetch_add(&device->open_count, 1);
    return LS_OK;
}

void ls_stream_free(ls_stream *stream)
{
    if (stream->device == NULL) return;
    (void)atomic_fetch_sub(&stream->device->open_count, 1);
    stream->device->ops->stream_close(stream);
    *stream = (ls_stream){ 0 };
}

ls_status ls_event_init(ls_event *event, ls_device *device)
{
    event->device = NULL;
    event->implementation = NULL;
    atomic_init(&event->recorded, 0);
    LS_TRY(device->ops->event_open(device, event));
    event->device = device;
    (void)atomic_fetch_add(&device->open_count, 1);
    return LS_OK;
}

void ls_event_free(ls_event *event)
{
    if (event->device == NULL) return;
    (void)atomic_fetch_sub(&event->device->open_count, 1);
    event->device->ops->event_close(event);
    event->device = NULL;
    event->implementation = NULL;
    atomic_store_explicit(&event->recorded, 0, memory_order_relaxed);
}

ls_status ls_event_record(ls_event *event, ls_stream *stream)
{
    if (event->device != stream->device)
        return ls_fail(LS_ERR_DEVICE, "an event of %s cannot be recorded on a stream of %s",
                       event->device->name, stream->device->name);
    LS_TRY(stream->device->ops->event_record(event, stream));
    (void)atomic_fetch_add_explicit(&event->recorded, 1, memory_order_release);
    return LS_OK;
}

ls_status ls_stream_wait(ls_stream *stream, ls_event *event)
{
    if (atomic_load_explicit(&event->recorded, memory_order_acquire) == 0)
        return ls_fail(LS_ERR_DEVICE,
                       "a stream of %s waits for an event of %s that was never recorded",
                       stream->device->name, event->device->name);
    return stream->device->ops->stream_wait(stream, event);
}

ls_status ls_stream_poll(ls_stream *stream, bool *idle)
{
    return stream->device->ops->stream_poll(stream, idle);
}

ls_status ls_event_poll(ls_event *event, bool *complete)
{
    return event->device->ops->event_poll(event, complete);
}

ls_status ls_stream_drain(ls_stream *stream, ls_group *group, const char *what)
{
    ls_wait wait = ls_wait_begin(group);
    for (;;) {
        bool idle = false;
        LS_TRY(ls_stream_poll(stream, &idle));
        if (idle) return LS_OK;
        ls_device_look(stream->device);
        const ls_status status = ls_wait_poll(&wait);
        if (status == LS_ERR_TIMEOUT)
            return ls_fail(LS_ERR_TIMEOUT, "%s: %s did not finish it in time", what,
                           stream->device->name);
        if (status != LS_OK) return status;
    }
}

bool ls_stream_settles(ls_stream *stream, double seconds)
{
    const double deadline = ls_clock() + seconds;
    bool idle = stream->device == NULL;
    while (!idle) {
        if (ls_stream_poll(stream, &idle) != LS_OK) return false;
        if (!idle && ls_clock() > deadline) return false;
        if (!idle) (void)sched_yield();
    }
    return true;
}

/* -- copies ---------------------------------------------------------------------------------- */

static const char *const direction_text[] = {
    [LS_COPY_TO_DEVICE] = "copy to the device",
    [LS_COPY_TO_HOST] = "copy to the host",
    [LS_COPY_WITHIN] = "copy within the device",
    [LS_COPY_PEER] = "copy to another device",
};

static ls_status copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                      ls_copy_direction direction)
{
    if (bytes == 0) return LS_OK;
    ls_device *device = stream->device;
    if (to == NULL || from == NULL)
        return ls_fail(LS_ERR_DEVICE, "%s: %s of %zu bytes: the %s is NULL", device->name,
                       direction_text[direction], bytes, to == NULL ? "target" : "source");
    const uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
    if (a < b ? b - a < bytes : a - b < bytes)
        return ls_fail(LS_ERR_DEVICE, "%s: %s of %zu bytes: source and target overlap",
                       device->name, direction_text[direction], bytes);
    LS_TRY(device->ops->copy(stream, to, from, bytes, direction));
    ls_device_progress(device);
    return LS_OK;
}

ls_status ls_copy_to_device(ls_stream *stream, void *to, const void *from_host, size_t bytes)
{
    return copy(stream, to, from_host, bytes, LS_COPY_TO_DEVICE);
}

ls_status ls_copy_to_host(ls_stream *stream, void *to_host, const void *from, size_t bytes)
{
    return copy(stream, to_host, from, bytes, LS_COPY_TO_HOST);
}

ls_status ls_copy_within(ls_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, to, from, bytes, LS_COPY_WITHIN);
}

ls_status ls_copy_peer(ls_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, to, from, bytes, LS_COPY_PEER);
}

ls_status ls_fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    if (bytes == 0) return LS_OK;
    ls_device *device = stream->device;
    if (to == NULL)
        return ls_fail(LS_ERR_DEVICE, "%s: fill of %zu bytes: the target is NULL", device->name,
                       bytes);
    LS_TRY(device->ops->fill(stream, to, value, bytes));
    ls_device_progress(device);
    return LS_OK;
}
