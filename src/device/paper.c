/* SPDX-License-Identifier: MIT */
/* paper.c -- see paper.h.
 *
 * device.c keeps account of device memory; what it does not count, pinned memory and streams, is
 * counted here. An address on paper is where the previous block ended, from far above what a
 * process has; so a pinned block that is memory is known by its address.
 */
#include "device/paper.h"

#include <stdlib.h>

#include "device/cuda.h"

enum { ALIGN = 128, REAL_BYTES = 16 << 20 }; /* pinned blocks up to this size are memory */

#define PAPER_BASE ((uintptr_t)1 << 56)

typedef struct {
    uintptr_t next;
    size_t pinned_bytes, streams;
} paper;

static paper *paper_of(const ls_device *device) { return device->implementation; }

static void *address(paper *p, size_t bytes)
{
    void *memory = (void *)p->next; /* NOLINT: no object is there */
    p->next += (bytes + ALIGN) / ALIGN * ALIGN;
    return memory;
}

static ls_status memory_alloc(ls_device *device, size_t bytes, void **out)
{
    *out = address(paper_of(device), bytes);
    return LS_OK;
}

static void memory_release(ls_device *device, void *memory)
{
    (void)device, (void)memory;
}

static ls_status pinned_alloc(ls_device *device, size_t bytes, void **out)
{
    paper *p = paper_of(device);
    p->pinned_bytes += bytes;
    if (bytes > REAL_BYTES) {
        *out = address(p, bytes);
        return LS_OK;
    }
    *out = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
    if (*out) return LS_OK;
    p->pinned_bytes -= bytes;
    return ls_fail(LS_ERR_MEMORY, "no memory for %zu bytes", bytes);
}

static void pinned_release(ls_device *device, void *memory)
{
    (void)device;
    if ((uintptr_t)memory < PAPER_BASE) free(memory);
}

static ls_status stream_open(ls_device *device, ls_stream *stream)
{
    (void)stream;
    paper_of(device)->streams++;
    return LS_OK;
}

static void stream_close(ls_stream *stream) { paper_of(stream->device)->streams--; }

static ls_status stream_poll(ls_stream *stream, bool *idle)
{
    (void)stream;
    *idle = true;
    return LS_OK;
}

static ls_status stream_wait(ls_stream *stream, ls_event *event)
{
    (void)stream, (void)event;
    return LS_OK;
}

static ls_status event_open(ls_device *device, ls_event *event)
{
    (void)device, (void)event;
    return LS_OK;
}

static void event_close(ls_event *event) { (void)event; }

static ls_status event_record(ls_event *event, ls_stream *stream)
{
    (void)event, (void)stream;
    return LS_OK;
}

static ls_status event_poll(ls_event *event, bool *complete)
{
    (void)event;
    *complete = true;
    return LS_OK;
}

static ls_status copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                      ls_copy_direction direction)
{
    (void)stream, (void)to, (void)from, (void)bytes, (void)direction;
    return LS_OK;
}

static ls_status fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    (void)stream, (void)to, (void)value, (void)bytes;
    return LS_OK;
}

static void close_device(ls_device *device)
{
    free(paper_of(device));
    free(device);
}

static const ls_device_ops paper_ops = {
    .alloc = memory_alloc,
    .release = memory_release,
    .pinned_alloc = pinned_alloc,
    .pinned_release = pinned_release,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .stream_poll = stream_poll,
    .stream_wait = stream_wait,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_poll = event_poll,
    .copy = copy,
    .fill = fill,
    .close = close_device,
};

ls_status ls_device_open_paper(ls_device_kind kind, int ordinal, ls_device **out)
{
    *out = NULL;
    ls_device *device = malloc(sizeof *device);
    paper *p = calloc(1, sizeof *p);
    if (!device || !p) {
        free(device);
        free(p);
        return ls_fail(LS_ERR_MEMORY, "no memory for device %d on paper", ordinal);
    }
    p->next = PAPER_BASE;
    ls_device_init(device, kind, ordinal, &paper_ops, NULL, NULL);
    device->implementation = p;
    *out = device;
    return LS_OK;
}

size_t ls_paper_pinned_bytes(const ls_device *device) { return paper_of(device)->pinned_bytes; }

size_t ls_paper_stream_bytes(const ls_device *device)
{
    const bool is_gpu = device->kind == LS_DEVICE_CUDA;
    return is_gpu ? paper_of(device)->streams * (size_t)LS_CUDA_WORKSPACE_BYTES : 0;
}
