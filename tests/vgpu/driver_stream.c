/* SPDX-License-Identifier: MIT */
/* driver_stream.c -- streams: threads with a queue.
 *
 * Operations are numbered as they are enqueued; `done` is the number of the last that has run.
 * A wait is an operation that sleeps until another stream has done a number (driver_event.c).
 * After a fault the operations of a device are dropped and `done` stays: waits of other devices
 * for them never end, as on hardware.
 *
 * Streams are kept in numbered places. A place is used again after its stream has ended; numbers
 * go on, so (place, number) never means two things. The legacy stream (handle NULL) of a context
 * waits for all blocking streams of it and they wait for it; non-blocking ones take no part.
 *
 * With LOCKSTEP_VGPU_JITTER one operation in four starts late, by chance from the seed.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_STREAMS = 4096 };

struct vgpu_stream {
    int index;
    vgpu_device *device;
    CUstream handle;
    bool open;         /* vgpu.call: not destroyed by the program */
    bool non_blocking; /* takes no part in the legacy stream's order */
    uint32_t enqueued; /* vgpu.call: number of the last operation placed */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t change;
    vgpu_operation *oldest, *newest;
    uint32_t done;
    bool closing; /* the thread ends when the queue is empty */
    bool ended;   /* the place is free */
};

static vgpu_stream *places[MAX_STREAMS]; /* never freed */
static atomic_int place_count;

/* -- a stream's thread ------------------------------------------------------------------------- */

static void jitter(const vgpu_operation *op)
{
    if (vgpu.config.jitter_us == 0) return;
    const uint64_t r = vgpu_random((uint64_t)op->stream->index, op->sequence);
    if (r % 4 == 0) vgpu_sleep_us((r >> 8) % (vgpu.config.jitter_us + 1));
}

/* Runs one operation and tells the trace. False: its device has a fault. */
static bool run(vgpu_operation *op)
{
    char text[1024] = "";
    vgpu_device *device = op->stream->device;
    if (vgpu_fault_of(device) != CUDA_SUCCESS) return false;
    jitter(op);
    const uint64_t begin = vgpu_now_ns();
    const CUresult result = op->run(op, text, sizeof text);
    if (result != CUDA_SUCCESS) {
        vgpu_device_fault(device, result, text);
        return false;
    }
    if (vgpu_fault_of(device) != CUDA_SUCCESS) return false;
    if (vgpu_traced())
        vgpu_trace("gpu%d stream %d #%u %s %s, %.3f ms", device->ordinal, op->stream->index,
                   op->sequence, op->name, text, (double)(vgpu_now_ns() - begin) / 1e6);
    return true;
}

/* The next operation; NULL: the stream ends. */
static vgpu_operation *take(vgpu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->oldest == NULL && !s->closing) pthread_cond_wait(&s->change, &s->lock);
    vgpu_operation *op = s->oldest;
    if (op != NULL) s->oldest = op->next;
    if (s->oldest == NULL) s->newest = NULL;
    pthread_mutex_unlock(&s->lock);
    return op;
}

static void *stream_main(void *argument)
{
    vgpu_stream *s = argument;
    bool sound = true;
    for (vgpu_operation *op; (op = take(s)) != NULL;) {
        const uint32_t sequence = op->sequence;
        sound = sound && run(op);
        vgpu_operation_known(op); /* if it never ran: it touched nothing */
        op->destroy(op);
        if (!sound) continue;
        /* Whoever sees `done` under the lock sees what the operation wrote. */
        pthread_mutex_lock(&s->lock);
        s->done = sequence;
        pthread_cond_broadcast(&s->change);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_lock(&s->lock);
    s->ended = sound; /* a place with lost operations is not used again */
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool vgpu_stream_is_done(vgpu_stream *s, uint32_t sequence)
{
    pthread_mutex_lock(&s->lock);
    const bool done = s->done >= sequence;
    pthread_mutex_unlock(&s->lock);
    return done;
}

/* Blocks until `s` has done `sequence`, or `waiter` has a fault. */
static void wait_until_done(vgpu_stream *s, uint32_t sequence, const vgpu_device *waiter)
{
    pthread_mutex_lock(&s->lock);
    while (s->done < sequence && vgpu_fault_of(waiter) == CUDA_SUCCESS)
        pthread_cond_wait(&s->change, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void vgpu_stream_hang(vgpu_stream *s) { wait_until_done(s, UINT32_MAX, s->device); }

void vgpu_stream_wake_all(void)
{
    const int count = atomic_load(&place_count);
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&places[i]->lock);
        pthread_cond_broadcast(&places[i]->change);
        pthread_mutex_unlock(&places[i]->lock);
    }
}

/* -- making and ending streams ----------------------------------------------------------------- */

static vgpu_stream *new_place(void)
{
    const int count = atomic_load(&place_count);
    vgpu_stream *s = count == MAX_STREAMS ? NULL : calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->index = count;
    s->ended = true;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->change, NULL);
    places[count] = s;
    atomic_store(&place_count, count + 1);
    return s;
}

static vgpu_stream *free_place(void)
{
    const int count = atomic_load(&place_count);
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&places[i]->lock);
        const bool ended = places[i]->ended;
        pthread_mutex_unlock(&places[i]->lock);
        if (ended) return places[i];
    }
    return new_place();
}

/* NULL: no place, or no thread. */
static vgpu_stream *stream_open(vgpu_device *device, bool non_blocking)
{
    vgpu_stream *s = free_place();
    pthread_t thread;
    if (s == NULL) return NULL;
    s->device = device;
    s->non_blocking = non_blocking;
    s->closing = s->ended = false;
    vgpu_order_open(vgpu.order, s->index, device->ordinal);
    if (pthread_create(&thread, NULL, stream_main, s) != 0) {
        s->ended = true;
        return NULL;
    }
    pthread_detach(thread);
    s->open = true;
    s->handle = NULL;
    return s;
}

static void stream_close(vgpu_stream *s)
{
    if (s->handle != NULL) vgpu_handle_close(VGPU_HANDLE_STREAM, s->handle);
    s->open = false;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

void vgpu_stream_close_all(const vgpu_device *device)
{
    const int count = atomic_load(&place_count);
    for (int i = 0; i < count; i++)
        if (places[i]->open && places[i]->device == device) stream_close(places[i]);
    vgpu.devices[device->ordinal].legacy = NULL;
}

/* -- enqueueing -------------------------------------------------------------------------------- */

vgpu_device *vgpu_stream_device(const vgpu_stream *stream) { return stream->device; }

static CUresult legacy_stream(vgpu_stream **out)
{
    vgpu_device *device = vgpu_current();
    vgpu_report("gpu%d: the NULL stream is used: it orders what should run side by side",
                device->ordinal);
    if (device->legacy == NULL) device->legacy = stream_open(device, false);
    *out = device->legacy;
    return *out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult vgpu_stream_find(CUstream handle, vgpu_stream **out)
{
    if (handle == NULL) return legacy_stream(out);
    *out = vgpu_handle_find(VGPU_HANDLE_STREAM, handle);
    if (*out == NULL)
        return vgpu_refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no stream", (void *)handle);
    if ((*out)->device != vgpu_current())
        return vgpu_refuse(CUDA_ERROR_INVALID_HANDLE,
                           "stream %d is of gpu%d, the current context of gpu%d", (*out)->index,
                           (*out)->device->ordinal, vgpu_current()->ordinal);
    return CUDA_SUCCESS;
}

/* Takes its number; the legacy stream's order has been seen to. */
static void place(vgpu_stream *s, vgpu_operation *op, const char *what)
{
    op->stream = s;
    op->sequence = s->enqueued = vgpu_order_next(vgpu.order, s->index);
    if (what != NULL && vgpu.config.strict)
        op->action = vgpu_order_log(vgpu.order, s->index, what);
}

void vgpu_operation_touch(vgpu_operation *op, const vgpu_extent *p, bool write)
{
    if (op->action != NULL)
        vgpu_order_touch(op->action, p->allocation->history, p->offset, p->offset + p->bytes,
                         write);
}

void vgpu_operation_known(vgpu_operation *op)
{
    if (op->action != NULL) vgpu_order_known(vgpu.order, op->action);
    op->action = NULL;
}

void vgpu_stream_enqueue(vgpu_operation *op)
{
    vgpu_stream *s = op->stream;
    pthread_mutex_lock(&s->lock);
    if (s->newest != NULL) {
        s->newest->next = op;
    } else {
        s->oldest = op;
    }
    s->newest = op;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

CUresult vgpu_stream_finish(vgpu_stream *s)
{
    const uint32_t sequence = s->enqueued;
    pthread_mutex_unlock(&vgpu.call);
    wait_until_done(s, sequence, s->device);
    pthread_mutex_lock(&vgpu.call);
    const CUresult fault = vgpu_fault_of(s->device);
    if (fault == CUDA_SUCCESS) vgpu_order_seen_stream(vgpu.order, s->index);
    return fault;
}

int vgpu_stream_index(const vgpu_stream *stream) { return stream->index; }

/* -- waiting ----------------------------------------------------------------------------------- */

typedef struct {
    vgpu_operation operation;
    vgpu_stream *awaited;
    int device; /* of it, when the wait was called */
    uint32_t sequence;
    int event; /* -1: the order of the legacy stream */
} wait_operation;

static CUresult run_wait(vgpu_operation *op, char *text, size_t text_bytes)
{
    const wait_operation *w = (const wait_operation *)op;
    wait_until_done(w->awaited, w->sequence, op->stream->device);
    const int n = snprintf(text, text_bytes, "for gpu%d stream %d #%u",
                           w->device, w->awaited->index, w->sequence);
    if (w->event >= 0 && n > 0 && (size_t)n < text_bytes)
        snprintf(text + n, text_bytes - (size_t)n, " (event %d)", w->event);
    return CUDA_SUCCESS;
}

static void destroy_plain(vgpu_operation *op) { free(op); }

CUresult vgpu_stream_wait(vgpu_stream *s, vgpu_stream *awaited, uint32_t sequence,
                             const vgpu_clock *clock, int event_number)
{
    wait_operation *w = calloc(1, sizeof *w);
    if (w == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (wait_operation){
        .operation = { .name = "wait", .run = run_wait, .destroy = destroy_plain },
        .awaited = awaited,
        .device = awaited->device->ordinal,
        .sequence = sequence,
        .event = event_number,
    };
    place(s, &w->operation, NULL);
    vgpu_order_wait(vgpu.order, s->index, clock);
    vgpu_stream_enqueue(&w->operation);
    return CUDA_SUCCESS;
}

static void wait_for_stream(vgpu_stream *s, vgpu_stream *awaited)
{
    if (awaited == s || awaited->enqueued == 0) return;
    vgpu_clock *clock = vgpu_order_record(vgpu.order, awaited->index);
    if (vgpu_stream_wait(s, awaited, awaited->enqueued, clock, -1) != CUDA_SUCCESS) abort();
    vgpu_clock_free(clock);
}

void vgpu_stream_keep_legacy_order(vgpu_stream *s)
{
    vgpu_stream *legacy = s->device->legacy;
    if (s->non_blocking || legacy == NULL) return;
    if (s != legacy) {
        wait_for_stream(s, legacy);
        return;
    }
    const int count = atomic_load(&place_count);
    for (int i = 0; i < count; i++)
        if (places[i]->open && places[i]->device == s->device && !places[i]->non_blocking)
            wait_for_stream(s, places[i]);
}

void vgpu_stream_place(vgpu_stream *s, vgpu_operation *op, const char *what)
{
    vgpu_stream_keep_legacy_order(s);
    place(s, op, what);
}

/* -- entry points: streams --------------------------------------------------------------------- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    VGPU_BEGIN(vgpu_enter_context);
    (void)priority; /* beyond the range: taken as its nearest end */
    if (stream == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    vgpu_stream *s = stream_open(vgpu_current(), flags == CU_STREAM_NON_BLOCKING);
    if (s == NULL) return vgpu_leave(vgpu_refuse(CUDA_ERROR_OUT_OF_MEMORY, "no more streams"));
    *stream = s->handle = vgpu_handle_open(VGPU_HANDLE_STREAM, s);
    vgpu_trace("gpu%d stream %d: made", s->device->ordinal, s->index);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s = vgpu_handle_find(VGPU_HANDLE_STREAM, stream);
    if (s == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    stream_close(s); /* what is enqueued still runs */
    vgpu_trace("gpu%d stream %d: destroyed", s->device->ordinal, s->index);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamQuery(CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s = vgpu_handle_find(VGPU_HANDLE_STREAM, stream);
    if (stream == NULL && legacy_stream(&s) != CUDA_SUCCESS)
        return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (s == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (vgpu_fault_of(s->device) != CUDA_SUCCESS) return vgpu_leave(vgpu_fault_of(s->device));
    if (!vgpu_stream_is_done(s, s->enqueued)) return vgpu_leave(CUDA_ERROR_NOT_READY);
    vgpu_order_seen_stream(vgpu.order, s->index);
    return vgpu_leave(CUDA_SUCCESS);
}
