/* SPDX-License-Identifier: MIT */
/* cuda.c -- a GPU as a device: memory, streams, events, copies and launches, through the driver.
 *
 * device.h's promises map onto the driver's one to one; what this file adds is what the driver does
 * not check or does differently:
 *
 *   copies           that the driver would make otherwise than asked are refused (cuda_copy.h).
 *   polling          cuStreamQuery and cuEventQuery, whose NOT_READY is no error. Nothing waits in
 *                    the driver: a wait that cannot end must end at our deadline.
 *   streams          NON_BLOCKING: they do not wait for the legacy stream, which is never used.
 *   events           DISABLE_TIMING: cheaper, and nothing reads their times.
 *   progress         an event behind some of the operations shows a poll that work goes on
 *                    (cuda_marks.h).
 *   contexts         are per thread in the driver; each function enters its device's first.
 *   failed kernels   are reported by a later call on the same context, any call, and by all calls
 *                    after; the message says so (ls_cuda_check_at).
 *
 * Releasing memory waits for the device in the driver. So what must not wait is not released: after
 * a failure the caller polls until the streams are idle (machine.c), and leaves the process if they
 * do not become so. What a release reports is ignored: it would hide the first cause.
 *
 * Thread rule: as device.h. Events are polled and waited for from any thread.
 */
#include "device/cuda.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "device/cuda_context.h"
#include "device/cuda_copy.h"
#include "device/cuda_driver.h"
#include "device/cuda_marks.h"

enum { PARAM_BYTES_MAX = 4096, ALIGN_BYTES = 256 };

typedef struct {
    CUstream handle;
    CUdeviceptr workspace; /* LS_CUDA_WORKSPACE_BYTES */
} cuda_stream;

typedef struct {
    ls_device device; /* first: an ls_device of this kind is one of these */
    ls_cuda_marks marks;
} cuda_device;

static ls_cuda_context *context_of(const ls_device *device) { return device->implementation; }

CUstream ls_cuda_stream_of(const ls_stream *stream)
{
    return ((const cuda_stream *)stream->implementation)->handle;
}

/* A copy or a launch has been enqueued on the stream. */
static ls_status enqueued(const ls_stream *stream)
{
    cuda_device *gpu = (cuda_device *)stream->device;
    return ls_cuda_marks_pass(context_of(&gpu->device), &gpu->marks, ls_cuda_stream_of(stream));
}

/* -- memory ------------------------------------------------------------------------------------ */

static ls_status memory_alloc(ls_device *device, size_t bytes, void **out)
{
    ls_cuda_context *context = context_of(device);
    CUdeviceptr address = 0;
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(LS_CUDA_ON(context, mem_alloc, (&address, bytes > 0 ? bytes : 1),
                      "allocating %zu bytes, with %zu in use here", bytes,
                      atomic_load(&device->allocated_bytes)));
    assert(address % ALIGN_BYTES == 0); /* the driver's promise, and more than device.h's */
    void *memory = (void *)(uintptr_t)address;
    const ls_status status = ls_cuda_memory_add(context, memory, bytes, false);
    if (status != LS_OK) (void)context->driver->mem_free(address);
    else *out = memory;
    return status;
}

static void memory_release(ls_device *device, void *memory)
{
    ls_cuda_context *context = context_of(device);
    ls_cuda_memory_remove(memory);
    if (ls_cuda_context_enter(context) == LS_OK)
        (void)context->driver->mem_free(ls_cuda_address(memory));
}

static ls_status room(ls_device *device, size_t *bytes)
{
    ls_cuda_context *context = context_of(device);
    size_t total = 0;
    LS_TRY(ls_cuda_context_enter(context));
    return LS_CUDA_ON(context, mem_info, (bytes, &total), "asking for the memory that is free");
}

/* What the system lets a process pin, as `ulimit -l` tells it; containers often set it low. */
static void pinned_limit(char *text, size_t text_bytes)
{
    struct rlimit limit;
    const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
    if (known && limit.rlim_cur != RLIM_INFINITY)
        (void)snprintf(text, text_bytes, "%llu bytes", (unsigned long long)limit.rlim_cur);
    else
        (void)snprintf(text, text_bytes, "%s", known ? "unlimited" : "unknown");
}

static ls_status pinned_alloc(ls_device *device, size_t bytes, void **out)
{
    ls_cuda_context *context = context_of(device);
    void *memory = NULL;
    char limit[40];
    pinned_limit(limit, sizeof limit);
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(LS_CUDA_ON(context, mem_host_alloc,
                      (&memory, bytes > 0 ? bytes : 1,
                       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                      "allocating %zu bytes of pinned host memory, with %zu pinned by this program "
                      "(ulimit -l: %s; a smaller --bucket or --global-batch needs less)", bytes,
                      ls_cuda_pinned_bytes(), limit));
    const ls_status status = ls_cuda_memory_add(context, memory, bytes, true);
    if (status != LS_OK) (void)context->driver->mem_free_host(memory);
    else *out = memory;
    return status;
}

static void pinned_release(ls_device *device, void *memory)
{
    ls_cuda_context *context = context_of(device);
    ls_cuda_memory_remove(memory);
    if (ls_cuda_context_enter(context) == LS_OK) (void)context->driver->mem_free_host(memory);
}

/* -- streams and events ------------------------------------------------------------------------ */

static ls_status stream_open(ls_device *device, ls_stream *stream)
{
    ls_cuda_context *context = context_of(device);
    LS_TRY(ls_cuda_context_enter(context));
    cuda_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_fail(LS_ERR_MEMORY, "%s: no memory for a stream", device->name);
    ls_status status = LS_CUDA_ON(context, stream_create, (&s->handle, CU_STREAM_NON_BLOCKING, 0),
                                  "making a stream");
    if (status == LS_OK) {
        status = LS_CUDA_ON(context, mem_alloc, (&s->workspace, LS_CUDA_WORKSPACE_BYTES),
                            "allocating a stream's workspace of %d bytes", LS_CUDA_WORKSPACE_BYTES);
        if (status == LS_OK) {
            stream->implementation = s;
            return LS_OK;
        }
        (void)context->driver->stream_destroy(s->handle);
    }
    free(s);
    return status;
}

static void stream_close(ls_stream *stream)
{
    ls_cuda_context *context = context_of(stream->device);
    cuda_stream *s = stream->implementation;
    if (ls_cuda_context_enter(context) == LS_OK) {
        (void)context->driver->stream_destroy(s->handle);
        (void)context->driver->mem_free(s->workspace);
    }
    free(s);
}

static ls_status stream_poll(ls_stream *stream, bool *idle)
{
    ls_cuda_context *context = context_of(stream->device);
    LS_TRY(ls_cuda_context_enter(context));
    const CUresult result = context->driver->stream_query(ls_cuda_stream_of(stream));
    *idle = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_READY) return LS_OK;
    return ls_cuda_check_at(__FILE__, __LINE__, context->driver, result,
                            LS_CUDA_ENTRY_stream_query, context->name,
                            "asking whether a stream is idle");
}

static ls_status stream_wait(ls_stream *stream, ls_event *event)
{
    ls_cuda_context *context = context_of(stream->device);
    if (event->device->kind != LS_DEVICE_CUDA)
        return ls_fail(LS_ERR_DEVICE, "a stream of %s cannot wait for an event of %s",
                       stream->device->name, event->device->name);
    LS_TRY(ls_cuda_context_enter(context));
    return LS_CUDA_ON(context, stream_wait_event,
                      (ls_cuda_stream_of(stream), event->implementation, 0),
                      "letting a stream wait for an event of %s", event->device->name);
}

static ls_status event_open(ls_device *device, ls_event *event)
{
    ls_cuda_context *context = context_of(device);
    CUevent handle = NULL;
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(LS_CUDA_ON(context, event_create, (&handle, CU_EVENT_DISABLE_TIMING),
                      "making an event"));
    event->implementation = handle;
    return LS_OK;
}

static void event_close(ls_event *event)
{
    ls_cuda_context *context = context_of(event->device);
    if (ls_cuda_context_enter(context) == LS_OK)
        (void)context->driver->event_destroy(event->implementation);
}

static ls_status event_record(ls_event *event, ls_stream *stream)
{
    ls_cuda_context *context = context_of(stream->device);
    LS_TRY(ls_cuda_context_enter(context));
    return LS_CUDA_ON(context, event_record, (event->implementation, ls_cuda_stream_of(stream)),
                      "recording an event");
}

static ls_status event_poll(ls_event *event, bool *complete)
{
    ls_cuda_context *context = context_of(event->device);
    LS_TRY(ls_cuda_context_enter(context));
    const CUresult result = context->driver->event_query(event->implementation);
    *complete = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_READY) return LS_OK;
    return ls_cuda_check_at(__FILE__, __LINE__, context->driver, result,
                            LS_CUDA_ENTRY_event_query, context->name,
                            "asking whether an event is complete");
}

/* -- copies ------------------------------------------------------------------------------------ */

static ls_status copy(ls_stream *stream, void *to, const void *from, size_t bytes,
                      ls_copy_direction direction)
{
    ls_cuda_context *context = context_of(stream->device);
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(ls_cuda_copy(context, ls_cuda_stream_of(stream), to, from, bytes, direction));
    return enqueued(stream);
}

static ls_status fill(ls_stream *stream, void *to, unsigned char value, size_t bytes)
{
    ls_cuda_context *context = context_of(stream->device);
    LS_TRY(ls_cuda_context_enter(context));
    return ls_cuda_fill(context, ls_cuda_stream_of(stream), to, value, bytes);
}

/* -- devices ----------------------------------------------------------------------------------- */

static ls_status reach(ls_device *device, ls_device *other)
{
    if (other->kind != LS_DEVICE_CUDA)
        return ls_fail(LS_ERR_DEVICE, "%s cannot access memory of %s", device->name, other->name);
    return ls_cuda_context_reach(context_of(device), context_of(other));
}

static void look(ls_device *device)
{
    if (ls_cuda_marks_look(context_of(device), &((cuda_device *)device)->marks))
        ls_device_progress(device);
}

static void close_device(ls_device *device)
{
    ls_cuda_marks_close(context_of(device), &((cuda_device *)device)->marks);
    ls_cuda_context_release(context_of(device));
    free(device);
}

static const ls_device_ops cuda_ops = {
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
    .reach = reach,
    .room = room,
    .look = look,
    .close = close_device,
};

static ls_status open_on(ls_cuda_context *context, atomic_ulong *progress, ls_device **out)
{
    char model[72] = "";
    LS_TRY(LS_CUDA_ON(context, device_name, (model, (int)sizeof model, context->device),
                      "asking for the GPU's name"));
    cuda_device *gpu = malloc(sizeof *gpu);
    if (gpu == NULL)
        return ls_fail(LS_ERR_MEMORY, "%s: %zu bytes asked", context->name, sizeof *gpu);
    const ls_status status = ls_cuda_marks_open(context, &gpu->marks);
    if (status != LS_OK) {
        free(gpu);
        return status;
    }
    ls_device_init(&gpu->device, LS_DEVICE_CUDA, context->ordinal, &cuda_ops, NULL, progress);
    (void)snprintf(gpu->device.name, sizeof gpu->device.name, "%s %s", context->name, model);
    gpu->device.implementation = context;
    *out = &gpu->device;
    return LS_OK;
}

ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out)
{
    *out = NULL;
    ls_cuda_context *context = NULL;
    LS_TRY(ls_cuda_context_retain(ordinal, &context));
    const ls_status status = open_on(context, progress, out);
    if (status != LS_OK) ls_cuda_context_release(context);
    return status;
}

/* -- launches ---------------------------------------------------------------------------------- */

ls_status ls_cuda_kernels_load(ls_device *device, const char *const *name, int count)
{
    assert(device->kind == LS_DEVICE_CUDA && count > 0);
    return ls_cuda_context_load(context_of(device), ls_embedded_cuda_images, name, count);
}

ls_status ls_cuda_launch(ls_stream *stream, const ls_cuda_launch_args *launch)
{
    ls_cuda_context *context = context_of(stream->device);
    const unsigned *grid = launch->grid;
    const CUfunction function = ls_cuda_context_function(context, launch->kernel);
    if (function == NULL)
        return ls_fail(LS_ERR_DEVICE, "%s: kernel %s was not loaded", context->name,
                       launch->kernel);
    assert(launch->param_bytes <= PARAM_BYTES_MAX);
    /* The driver takes a list of pointers to arguments and reads through them before it returns;
     * the one argument is not written, whatever the type says. */
    void *argument = NULL;
    memcpy(&argument, &launch->params, sizeof argument);
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(LS_CUDA_ON(context, launch,
                      (function, grid[0], grid[1], grid[2], launch->block, 1, 1, 0,
                       ls_cuda_stream_of(stream), &argument, NULL),
                      "launching %s, %u x %u x %u blocks of %u threads", launch->kernel, grid[0],
                      grid[1], grid[2], launch->block));
    return enqueued(stream);
}

void *ls_cuda_workspace(const ls_stream *stream)
{
    return (void *)(uintptr_t)((const cuda_stream *)stream->implementation)->workspace;
}

int ls_cuda_multiprocessor_count(const ls_device *device)
{
    return context_of(device)->multiprocessor_count;
}
