/* SPDX-License-Identifier: MIT */
/* host.c -- a device that is a part of this machine's memory and some of its threads.
 *
 * The simplest thing that keeps the promises of device.h. Memory is the heap's. Work runs inline,
 * on the calling thread (an op of kernels/host cuts itself into tasks for the device's pool, and so
 * does a large copy to the device), so it has finished when the enqueuing call returns: a stream is
 * always idle, and an event is complete as soon as it is recorded. Order within a stream is program
 * order.
 *
 * What is left of an event is its count and its happens-before edge, and both live in device.c.
 * A wait that finds its event incomplete is therefore a handshake that enqueued in the wrong
 * order; on a GPU the same code would wait for the wrong thing now and then. Here it fails always.
 *
 * Fresh memory is filled with 0xFF bytes, which are NaNs as floats and large negative labels as
 * integers: an op that reads what nobody wrote does not get a convenient zero.
 *
 * Large memory is asked to lie on huge pages, of 2 MiB. A processor keeps the places of some
 * thousand pages at hand; of the usual 4 KiB these are less memory than a step of a small training
 * reads, and to look one up is slow, most of all in a virtual machine. Linux makes huge pages of
 * ordinary memory that is aligned to them and has been advised so before it is first written
 * (madvise(2)), as far as it can and may; where it refuses, nothing changes. A page of which an
 * allocation has but a part is not advised, so none grows. (Measured with one core of Zen 4: a step
 * of cifar10-cnn takes 0.93 of the time at batch 64 and 0.88 at 256, one of resnet20 0.91.)
 *
 * Nothing here uses the `implementation` pointers; a test's wrapper may have them.
 */
#define _DEFAULT_SOURCE /* madvise */

#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sizes.h"

enum { ALIGN = 128, HUGE_BYTES = 2 << 20 };

/* Bytes of memory the machine has; an allocation beyond that would be promised by the kernel and
 * paid by a kill. Not POSIX but everywhere; SIZE_MAX where it is not known. */
static size_t machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return SIZE_MAX;
    return (size_t)pages * (size_t)page_bytes;
}

/* NULL: there is no such memory. */
static void *pages_alloc(size_t bytes)
{
    const bool is_large = bytes >= HUGE_BYTES;
    void *memory = NULL;
    if (posix_memalign(&memory, is_large ? HUGE_BYTES : ALIGN, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (is_large) (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
#endif
    return memory;
}

static ls_status memory_alloc(ls_device *device, size_t bytes, void **out)
{
    const size_t in_use = atomic_load(&device->allocated_bytes);
    const size_t limit = machine_bytes();
    if (in_use <= limit && bytes <= limit - in_use) {
        const size_t rounded = (bytes + (bytes == 0) + ALIGN - 1) / ALIGN * ALIGN;
        *out = pages_alloc(rounded);
        if (*out != NULL) {
            memset(*out, 0xFF, rounded);
            return LS_OK;
        }
    }
    return ls_fail(LS_ERR_MEMORY, "%s: %zu bytes asked, %zu in use, the machine has %zu",
                   device->name, bytes, in_use, limit);
}

static void memory_release(ls_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static ls_status stream_open(ls_device *device, ls_stream *stream)
{
    (void)device;
    (void)stream;
    return LS_OK;
}

static void stream_close(ls_stream *stream) { (void)stream; }

static ls_status stream_poll(ls_stream *stream, bool *idle)
{
    (void)stream;
    *idle = true;
    return LS_OK;
}

static ls_status stream_wait(ls_stream *stream, ls_event *event)
{
    bool complete = false;
    LS_TRY(ls_event_poll(event, &complete));
    if (complete) return LS_OK;
    return ls_fail(LS_ERR_DEVICE, "a stream of %s waits for an event of %s that is not complete",
                   stream->device->name, event->device->name);
}

static ls_status event_open(ls_device *device, ls_event *event)
{
    (void)device;
    (void)event;
    return LS_OK;
}

static void event_close(ls_event *event) { (void)event; }

static ls_status event_record(ls_event *event, ls_stream *stream)
{
    (void)event;
    (void)stream;
    return LS_OK;
}

static ls_status event_poll(ls_event *event, bool *complete)
{
    (void)event;
    *complete = true;
    return LS_OK;
}

/* Bytes of a copy, for each thread, that are worth a loop of the pool. */
enum { SHARED_BYTES = 16 << 10 };

typedef struct {
    char *to;
    const char *from;
    size_t bytes, part_bytes;
} shared_copy;

static void copy_part(void *copy_, size_t task, int thread)
{
    (void)thread;
    const shared_copy *c = copy_;
    const size_t begin = task * c->part_bytes;
    if (begin >= c->bytes) return;
    memcpy(c->to + begin, c->from + begin, ls_min_size(c->part_bytes, c->bytes - begin));
}

/* What comes to the device, samples above all, is copied by the threads that will read it: a reader
 * has written it on some other core, and each thread finds its part in its own caches after. Two
 * parts a thread: one that is late leaves half. (Measured on two threads: a step of cifar10-cnn or
 * mnist-mlp at 64 takes 0.99 of the time, of mnist-mlp at 256 0.975.) */
static void copy_shared(ls_pool *pool, void *to, const void *from, size_t bytes)
{
    const size_t parts = 2 * (size_t)ls_pool_thread_count(pool);
    const size_t lines = ls_ceil_div(ls_ceil_div(bytes, parts), LS_LINE_BYTES);
    shared_copy c = { to, from, bytes, lines * LS_LINE_BYTES };
    ls_pool_run(pool, parts, copy_part, &c);
}

static ls_status copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                      ls_copy_direction direction)
{
    ls_pool *pool = stream->device->pool;
    const size_t shared = (size_t)ls_pool_thread_count(pool) * SHARED_BYTES;
    if (direction == LS_COPY_TO_DEVICE && bytes >= shared) copy_shared(pool, to, from, bytes);
    else memcpy(to, from, bytes);
    return LS_OK;
}

static ls_status fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    (void)stream;
    memset(to, value, bytes);
    return LS_OK;
}

static void close_device(ls_device *device) { free(device); }

static const ls_device_ops host_ops = {
    .alloc = memory_alloc,
    .release = memory_release,
    .pinned_alloc = memory_alloc,
    .pinned_release = memory_release,
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

ls_status ls_device_open_host(int ordinal, int thread_count, bool spin, atomic_ulong *progress,
                              ls_device **out)
{
    *out = NULL;
    ls_device *device = malloc(sizeof *device);
    if (device == NULL)
        return ls_fail(LS_ERR_MEMORY, "host:%d: %zu bytes asked", ordinal, sizeof *device);
    ls_pool *pool = NULL;
    const ls_status status = ls_pool_create(thread_count, spin, &pool);
    if (status != LS_OK) {
        free(device);
        return status;
    }
    ls_device_init(device, LS_DEVICE_HOST, ordinal, &host_ops, pool, progress);
    *out = device;
    return LS_OK;
}
