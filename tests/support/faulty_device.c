/* SPDX-License-Identifier: MIT */
/* faulty_device.c -- see faulty_device.h.
 *
 * The wrapper sits in device->implementation, which host devices do not use, and keeps the ops it
 * replaced. A stream's or event's implementation is the fault it is stalled by, or NULL. A stall
 * spreads as on a GPU: from a stream to the events recorded on it, from an event to the streams
 * that wait for it. Each pointer is written by the thread that owns the stream, or before the
 * event's `recorded` is released (device.c), so a waiter sees it.
 */
#include "support/faulty_device.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    const ls_device_ops *host; /* borrowed: static */
    fault *fault;              /* borrowed; NULL: none */
} wrapper;

static const wrapper *wrapper_of(const ls_device *device) { return device->implementation; }

/* Count a call; is it the one? `armed`: the fault is for calls of this sort. */
static bool strikes(fault *f, bool armed, atomic_long *calls)
{
    const long call = atomic_fetch_add(calls, 1) + 1;
    if (!armed || call != f->n) return false;
    atomic_store(&f->fired, true);
    return true;
}

static bool is_stalled(const void *implementation)
{
    const fault *f = implementation;
    return f != NULL && !atomic_load(&f->released);
}

static ls_status setup_call(const ls_device *device, const char *what)
{
    fault *f = wrapper_of(device)->fault;
    if (f == NULL || !strikes(f, f->kind == FAULT_ALLOC, &f->allocs)) return LS_OK;
    return ls_fail(LS_ERR_MEMORY, "%s: injected: no %s (call %ld)", device->name, what, f->n);
}

static ls_status faulty_alloc(ls_device *device, size_t bytes, void **out)
{
    LS_TRY(setup_call(device, "memory"));
    return wrapper_of(device)->host->alloc(device, bytes, out);
}

static void faulty_release(ls_device *device, void *memory)
{
    wrapper_of(device)->host->release(device, memory);
}

static ls_status faulty_pinned_alloc(ls_device *device, size_t bytes, void **out)
{
    LS_TRY(setup_call(device, "pinned memory"));
    return wrapper_of(device)->host->pinned_alloc(device, bytes, out);
}

static void faulty_pinned_release(ls_device *device, void *memory)
{
    wrapper_of(device)->host->pinned_release(device, memory);
}

static ls_status faulty_stream_open(ls_device *device, ls_stream *stream)
{
    LS_TRY(setup_call(device, "stream"));
    return wrapper_of(device)->host->stream_open(device, stream);
}

static void faulty_stream_close(ls_stream *stream)
{
    wrapper_of(stream->device)->host->stream_close(stream);
}

static ls_status faulty_stream_poll(ls_stream *stream, bool *idle)
{
    *idle = false;
    if (is_stalled(stream->implementation)) return LS_OK;
    return wrapper_of(stream->device)->host->stream_poll(stream, idle);
}

static ls_status faulty_stream_wait(ls_stream *stream, ls_event *event)
{
    if (is_stalled(event->implementation)) {
        stream->implementation = event->implementation;
        return LS_OK;
    }
    return wrapper_of(stream->device)->host->stream_wait(stream, event);
}

static ls_status faulty_event_open(ls_device *device, ls_event *event)
{
    LS_TRY(setup_call(device, "event"));
    return wrapper_of(device)->host->event_open(device, event);
}

static void faulty_event_close(ls_event *event)
{
    wrapper_of(event->device)->host->event_close(event);
}

static ls_status faulty_event_record(ls_event *event, ls_stream *stream)
{
    const wrapper *w = wrapper_of(stream->device);
    fault *f = w->fault;
    if (f != NULL && strikes(f, f->kind == FAULT_RECORD, &f->records))
        return ls_fail(LS_ERR_DEVICE, "%s: injected: record %ld failed", stream->device->name,
                       f->n);
    event->implementation = stream->implementation;
    return w->host->event_record(event, stream);
}

static ls_status faulty_event_poll(ls_event *event, bool *complete)
{
    *complete = false;
    if (is_stalled(event->implementation)) return LS_OK;
    return wrapper_of(event->device)->host->event_poll(event, complete);
}

static bool is_for_copies(const fault *f)
{
    return f->kind == FAULT_COPY || f->kind == FAULT_FLIP || f->kind == FAULT_BLOCK_COPY ||
           f->kind == FAULT_STALL_COPY;
}

static void wait_released(fault *f)
{
    while (!atomic_load(&f->released))
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static ls_status faulty_copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                             ls_copy_direction direction)
{
    const wrapper *w = wrapper_of(stream->device);
    fault *f = w->fault;
    const bool counts = f != NULL && (f->directions == 0 || (f->directions >> direction & 1) != 0);
    if (!counts || !strikes(f, is_for_copies(f), &f->copies))
        return w->host->copy(stream, to, from, bytes, direction);
    f->to = to;
    f->bytes = bytes;
    if (f->kind == FAULT_COPY)
        return ls_fail(LS_ERR_DEVICE, "%s: injected: copy %ld of %zu bytes failed",
                       stream->device->name, f->n, bytes);
    if (f->kind == FAULT_BLOCK_COPY) wait_released(f);
    LS_TRY(w->host->copy(stream, to, from, bytes, direction));
    if (f->kind == FAULT_STALL_COPY) stream->implementation = f;
    if (f->kind == FAULT_FLIP) {
        const size_t bit = f->flip_bit % (bytes * 8);
        unsigned char *byte = (unsigned char *)to + bit / 8;
        *byte = (unsigned char)(*byte ^ (1u << bit % 8));
    }
    return LS_OK;
}

static ls_status faulty_fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    return wrapper_of(stream->device)->host->fill(stream, to, value, bytes);
}

static void faulty_close(ls_device *device)
{
    wrapper *w = device->implementation;
    device->ops = w->host;
    device->implementation = NULL;
    free(w);
    device->ops->close(device);
}

static const ls_device_ops faulty_ops = {
    .alloc = faulty_alloc,
    .release = faulty_release,
    .pinned_alloc = faulty_pinned_alloc,
    .pinned_release = faulty_pinned_release,
    .stream_open = faulty_stream_open,
    .stream_close = faulty_stream_close,
    .stream_poll = faulty_stream_poll,
    .stream_wait = faulty_stream_wait,
    .event_open = faulty_event_open,
    .event_close = faulty_event_close,
    .event_record = faulty_event_record,
    .event_poll = faulty_event_poll,
    .copy = faulty_copy,
    .fill = faulty_fill,
    .close = faulty_close,
};

/* Replace the ops of an open host device. */
static ls_status wrap(ls_device *device, fault *f)
{
    assert(device->kind == LS_DEVICE_HOST && device->implementation == NULL);
    wrapper *w = malloc(sizeof *w);
    if (w == NULL) return ls_fail(LS_ERR_MEMORY, "%s: wrapper", device->name);
    w->host = device->ops;
    w->fault = f;
    device->implementation = w;
    device->ops = &faulty_ops;
    return LS_OK;
}

ls_status faulty_device_open(int ordinal, int thread_count, atomic_ulong *progress, fault *f,
                             ls_device **out)
{
    LS_TRY(ls_device_open_host(ordinal, thread_count, false, progress, out));
    const ls_status status = wrap(*out, f);
    if (status == LS_OK) return LS_OK;
    ls_device_close(*out);
    *out = NULL;
    return status;
}
