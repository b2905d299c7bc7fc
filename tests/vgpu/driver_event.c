/* SPDX-License-Identifier: MIT */
/* driver_event.c -- events.
 *
 * Recording an event notes (stream, number of the record in it): the event is complete when the
 * stream has done that number, and a wait for it is an operation that sleeps until then. So a wait
 * means the latest record called before it was called, and later records do not matter.
 *
 *     stream 0   #1 kernel   #2 record e              e = (stream 0, #2)
 *     stream 3   #1 wait e: until stream 0 has done #2   #2 copy
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    int number; /* for the trace */
    const vgpu_device *device;
    unsigned flags;
    atomic_int references; /* 1 of the handle, 1 of each record not yet run */
    pthread_mutex_t lock;  /* the latest record: a stream's thread reads it and sets the time */
    vgpu_stream *stream;   /* NULL: never recorded */
    uint32_t sequence;
    uint64_t time_ns;
    vgpu_clock *clock;     /* owned */
} event;

static void event_release(event *e)
{
    if (atomic_fetch_sub(&e->references, 1) > 1) return;
    pthread_mutex_destroy(&e->lock);
    vgpu_clock_free(e->clock);
    free(e);
}

void vgpu_event_close_all(const vgpu_device *device)
{
    void *object;
    for (void *handle = NULL;
         (handle = vgpu_handle_next(VGPU_HANDLE_EVENT, handle, &object)) != NULL;) {
        event *e = object;
        if (e->device != device) continue;
        vgpu_handle_close(VGPU_HANDLE_EVENT, handle);
        event_release(e);
    }
}

CUresult cuEventCreate(CUevent *handle, unsigned flags)
{
    static int number;
    VGPU_BEGIN(vgpu_enter_context);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (handle == NULL || (flags & ~known) != 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    event *e = calloc(1, sizeof *e);
    if (e == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    e->number = number++;
    e->device = vgpu_current();
    e->flags = flags;
    atomic_init(&e->references, 1);
    pthread_mutex_init(&e->lock, NULL);
    *handle = vgpu_handle_open(VGPU_HANDLE_EVENT, e);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    VGPU_BEGIN(vgpu_enter_context);
    event *e = vgpu_handle_find(VGPU_HANDLE_EVENT, handle);
    if (e == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    vgpu_handle_close(VGPU_HANDLE_EVENT, handle);
    event_release(e);
    return vgpu_leave(CUDA_SUCCESS);
}

typedef struct {
    vgpu_operation operation;
    event *event;
} record_operation;

/* The time counts if no later record was called meanwhile. */
static CUresult run_record(vgpu_operation *op, char *text, size_t text_bytes)
{
    event *e = ((record_operation *)op)->event;
    pthread_mutex_lock(&e->lock);
    if (e->stream == op->stream && e->sequence == op->sequence) e->time_ns = vgpu_now_ns();
    pthread_mutex_unlock(&e->lock);
    snprintf(text, text_bytes, "event %d", e->number);
    return CUDA_SUCCESS;
}

static void destroy_record(vgpu_operation *op)
{
    event_release(((record_operation *)op)->event);
    free(op);
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s;
    event *e = vgpu_handle_find(VGPU_HANDLE_EVENT, handle);
    const CUresult found = vgpu_stream_find(stream, &s);
    if (found != CUDA_SUCCESS) return vgpu_leave(found);
    if (e == NULL || e->device != vgpu_stream_device(s))
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_HANDLE, "no event of gpu%d",
                                      vgpu_stream_device(s)->ordinal));
    record_operation *r = calloc(1, sizeof *r);
    if (r == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    r->operation =
        (vgpu_operation){ .name = "record", .run = run_record, .destroy = destroy_record };
    r->event = e;
    atomic_fetch_add(&e->references, 1);
    vgpu_stream_place(s, &r->operation, NULL);
    vgpu_clock_free(e->clock);
    e->clock = vgpu_order_record(vgpu.order, vgpu_stream_index(s));
    pthread_mutex_lock(&e->lock);
    e->stream = s;
    e->sequence = r->operation.sequence;
    pthread_mutex_unlock(&e->lock);
    vgpu_stream_enqueue(&r->operation);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuEventQuery(CUevent handle)
{
    VGPU_BEGIN(vgpu_enter_context);
    const event *e = vgpu_handle_find(VGPU_HANDLE_EVENT, handle);
    if (e == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (vgpu_fault_of(e->device) != CUDA_SUCCESS) return vgpu_leave(vgpu_fault_of(e->device));
    if (e->stream == NULL) return vgpu_leave(CUDA_SUCCESS);
    if (!vgpu_stream_is_done(e->stream, e->sequence)) return vgpu_leave(CUDA_ERROR_NOT_READY);
    vgpu_order_seen_event(vgpu.order, e->clock);
    return vgpu_leave(CUDA_SUCCESS);
}

/* When the latest record of `e` ran. Errors: INVALID_HANDLE (never, or not timed), NOT_READY. */
static CUresult time_of(event *e, uint64_t *ns)
{
    if (e == NULL || e->stream == NULL || (e->flags & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!vgpu_stream_is_done(e->stream, e->sequence)) return CUDA_ERROR_NOT_READY;
    pthread_mutex_lock(&e->lock);
    *ns = e->time_ns;
    pthread_mutex_unlock(&e->lock);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    VGPU_BEGIN(vgpu_enter_context);
    uint64_t from, to;
    event *a = vgpu_handle_find(VGPU_HANDLE_EVENT, start),
          *b = vgpu_handle_find(VGPU_HANDLE_EVENT, end);
    if (milliseconds == NULL) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (a != NULL && b != NULL && a->device != b->device)
        return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = time_of(a, &from);
    if (result == CUDA_SUCCESS) result = time_of(b, &to);
    if (result != CUDA_SUCCESS) return vgpu_leave(result);
    *milliseconds = (float)((double)(int64_t)(to - from) / 1e6);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s;
    const event *e = vgpu_handle_find(VGPU_HANDLE_EVENT, handle);
    CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS) return vgpu_leave(result);
    if (e == NULL) return vgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags != 0) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    if (e->stream == NULL) {
        vgpu_report("gpu%d stream %d waits for event %d, which was never recorded: it does not "
                    "wait at all", vgpu_stream_device(s)->ordinal, vgpu_stream_index(s), e->number);
        return vgpu_leave(CUDA_SUCCESS);
    }
    vgpu_stream_keep_legacy_order(s);
    result = vgpu_stream_wait(s, e->stream, e->sequence, e->clock, e->number);
    return vgpu_leave(result);
}
