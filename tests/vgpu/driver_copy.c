/* SPDX-License-Identifier: MIT */
/* driver_copy.c -- copies and fills, and what a broken link makes of them.
 *
 * Both ends are found when the copy is called (so that a wrong address is an error of the call)
 * and used when it runs: pinned memory is read then, and what was freed meanwhile is a fault.
 * Pageable host memory is read at the call; a copy into it returns when it is done.
 *
 * A copy between devices is direct if one of the two has access to the other; else the driver
 * stages it. LOCKSTEP_VGPU_LINKS spoils direct copies only, as a real broken link would, and
 * counts them by link in the order in which they were called.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One end of a copy. */
typedef struct {
    vgpu_extent extent;        /* of device or pinned memory; else pageable: */
    unsigned char *pageable; /* the program's, or `captured` */
    unsigned char *captured; /* owned */
} end;

typedef struct {
    vgpu_operation operation;
    end to, from;
    size_t bytes;
    bool direct;            /* from device to device, over a link: */
    vgpu_link_rule rule;    /* .fault: VGPU_LINK_SOUND mostly */
    unsigned long link_use; /* number of this copy on the link, from 1 */
} copy_operation;

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long link_uses[VGPU_MAX_DEVICES][VGPU_MAX_DEVICES]; /* link_lock */

vgpu_link_rule vgpu_link_use(int from, int to, unsigned long *use)
{
    vgpu_link_rule rule = { .from = from, .to = to };
    pthread_mutex_lock(&link_lock);
    *use = ++link_uses[from][to];
    pthread_mutex_unlock(&link_lock);
    for (size_t i = 0; i < vgpu.config.link_count; i++) {
        const vgpu_link_rule *r = &vgpu.config.links[i];
        if (r->from == from && r->to == to && *use >= r->first) rule = *r;
    }
    return rule;
}

const char *vgpu_link_fault_text(vgpu_link_fault fault)
{
    switch (fault) {
    case VGPU_LINK_SOUND: break;
    case VGPU_LINK_DROP: return ", DROPPED";
    case VGPU_LINK_FLIP: return ", ONE BIT FLIPPED";
    case VGPU_LINK_ZERO: return ", ZEROED";
    case VGPU_LINK_SLOW: return ", SLOWED";
    case VGPU_LINK_HANG: return ", HANGS";
    }
    return "";
}

/* -- running a copy ---------------------------------------------------------------------------- */

static unsigned char *end_data(const end *e)
{
    return e->extent.allocation != NULL ? vgpu_extent_data(&e->extent) : e->pageable;
}

static unsigned char *end_shadow(const end *e)
{
    return e->extent.allocation != NULL ? vgpu_extent_shadow(&e->extent) : NULL;
}

static void end_release(end *e)
{
    vgpu_extent_release(&e->extent);
    free(e->captured);
}

/* "gpu1 0x71..." */
static void end_describe(const end *e, char *text, size_t text_bytes)
{
    const vgpu_allocation *a = e->extent.allocation;
    if (a == NULL) {
        snprintf(text, text_bytes, "pageable %p", (void *)e->pageable);
    } else if (a->device < 0) {
        snprintf(text, text_bytes, "pinned %p", (void *)vgpu_extent_data(&e->extent));
    } else {
        snprintf(text, text_bytes, "gpu%d 0x%llx", a->device,
                 (unsigned long long)(a->address + e->extent.offset));
    }
}

/* What was defined where it came from is defined where it arrives. */
static void copy_shadow(const copy_operation *c)
{
    unsigned char *to = end_shadow(&c->to);
    const unsigned char *from = end_shadow(&c->from);
    if (to == NULL) return;
    for (size_t i = 0; i < c->bytes; i++) {
        const int defined = from == NULL ? VGPU_DEFINED : from[i] & VGPU_DEFINED;
        to[i] = (unsigned char)((to[i] & ~VGPU_DEFINED) | defined);
    }
}

static void flip_a_bit(const copy_operation *c)
{
    const uint64_t link = (uint64_t)c->rule.from * VGPU_MAX_DEVICES + (uint64_t)c->rule.to;
    const uint64_t bit = vgpu_random(link, c->link_use) % (c->bytes * 8);
    end_data(&c->to)[bit / 8] ^= (unsigned char)(1 << bit % 8);
}

static void transfer(const copy_operation *c)
{
    unsigned char *to = end_data(&c->to);
    if (c->rule.fault == VGPU_LINK_HANG) vgpu_stream_hang(c->operation.stream);
    if (c->rule.fault == VGPU_LINK_HANG || c->rule.fault == VGPU_LINK_DROP) return;
    if (c->rule.fault == VGPU_LINK_SLOW) vgpu_sleep_us(c->rule.microseconds);
    if (c->rule.fault == VGPU_LINK_ZERO) {
        memset(to, 0, c->bytes);
    } else {
        memmove(to, end_data(&c->from), c->bytes);
    }
    if (c->rule.fault == VGPU_LINK_FLIP) flip_a_bit(c);
    copy_shadow(c);
}

static bool end_is_live(const end *e)
{
    return e->extent.allocation == NULL || vgpu_extent_is_live(&e->extent);
}

static void describe(const copy_operation *c, char *text, size_t text_bytes)
{
    char from[64], to[64], link[64] = "";
    end_describe(&c->from, from, sizeof from);
    end_describe(&c->to, to, sizeof to);
    if (c->direct)
        snprintf(link, sizeof link, ", use %lu of link %d>%d%s", c->link_use, c->rule.from,
                 c->rule.to, vgpu_link_fault_text(c->rule.fault));
    snprintf(text, text_bytes, "%zu bytes from %s to %s%s", c->bytes, from, to, link);
}

static CUresult run_copy(vgpu_operation *op, char *text, size_t text_bytes)
{
    const copy_operation *c = (const copy_operation *)op;
    if (!end_is_live(&c->to) || !end_is_live(&c->from)) {
        snprintf(text, text_bytes, "stream %d #%u: memory of a copy was freed before it ran",
                 vgpu_stream_index(op->stream), op->sequence);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    describe(c, text, text_bytes);
    if (c->rule.fault == VGPU_LINK_HANG)
        vgpu_trace("stream %d #%u: never ends: %s", vgpu_stream_index(op->stream), op->sequence,
                   text);
    transfer(c);
    return CUDA_SUCCESS;
}

static void destroy_copy(vgpu_operation *op)
{
    copy_operation *c = (copy_operation *)op;
    end_release(&c->to);
    end_release(&c->from);
    free(c);
}

/* -- calling a copy ---------------------------------------------------------------------------- */

/* `e` is device memory; `expected`: the device that must own it, or NULL. */
static CUresult find_device_end(end *e, CUdeviceptr address, size_t bytes,
                                const vgpu_device *expected)
{
    char why[256];
    if (!vgpu_extent_find(address, bytes, &e->extent, why, sizeof why))
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "copy: %s", why);
    const int owner = e->extent.allocation->device;
    if (owner < 0 || (expected != NULL && owner != expected->ordinal))
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "copy: 0x%llx is not memory of the device",
                           address);
    return CUDA_SUCCESS;
}

/* `e` is host memory: pinned if it lies in pinned memory, else pageable. */
static CUresult find_host_end(end *e, void *memory, size_t bytes)
{
    char why[256];
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    if (memory == NULL || vgpu_memory_is_device(address))
        return vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "copy: %p is not host memory", memory);
    if (!vgpu_extent_find(address, 1, &e->extent, why, sizeof why)) {
        e->pageable = memory;
        vgpu_report("an asynchronous copy uses pageable memory, %p: it is not asynchronous",
                    memory);
        return CUDA_SUCCESS;
    }
    vgpu_extent_release(&e->extent);
    if (vgpu_extent_find(address, bytes, &e->extent, why, sizeof why)) return CUDA_SUCCESS;
    return vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "copy: %s", why);
}

/* A direct copy takes its number on the link and what is wrong with the link then. */
static void find_link(copy_operation *c)
{
    const vgpu_allocation *to = c->to.extent.allocation, *from = c->from.extent.allocation;
    if (to == NULL || from == NULL || to->device < 0 || from->device < 0) return;
    if (to->device == from->device) return;
    if (!vgpu_has_access(to->device, from->device) && !vgpu_has_access(from->device, to->device))
        return;
    c->direct = true;
    c->rule = vgpu_link_use(from->device, to->device, &c->link_use);
}

static copy_operation *new_copy(size_t bytes)
{
    copy_operation *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->operation =
        (vgpu_operation){ .name = "copy", .run = run_copy, .destroy = destroy_copy };
    c->bytes = bytes;
    return c;
}

static CUresult enqueue_copy(vgpu_stream *s, copy_operation *c, const char *what)
{
    find_link(c);
    vgpu_stream_place(s, &c->operation, what);
    if (c->from.extent.allocation != NULL)
        vgpu_operation_touch(&c->operation, &c->from.extent, false);
    if (c->to.extent.allocation != NULL)
        vgpu_operation_touch(&c->operation, &c->to.extent, true);
    vgpu_operation_known(&c->operation);
    vgpu_stream_enqueue(&c->operation);
    return CUDA_SUCCESS;
}

/* Pageable memory is read now. */
static CUresult capture(copy_operation *c)
{
    if (c->from.pageable == NULL) return CUDA_SUCCESS;
    c->from.captured = malloc(c->bytes);
    if (c->from.captured == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(c->from.captured, c->from.pageable, c->bytes);
    c->from.pageable = c->from.captured;
    return CUDA_SUCCESS;
}

/* Leaves the call; a copy that was not enqueued is freed. */
static CUresult leave(CUresult result, copy_operation *unused)
{
    if (unused != NULL) destroy_copy(&unused->operation);
    return vgpu_leave(result);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s;
    CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS || bytes == 0) return vgpu_leave(result);
    copy_operation *c = new_copy(bytes);
    if (c == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = find_device_end(&c->to, to, bytes, NULL);
    if (result == CUDA_SUCCESS) result = find_host_end(&c->from, (void *)(uintptr_t)from, bytes);
    if (result == CUDA_SUCCESS) result = capture(c);
    if (result != CUDA_SUCCESS) return leave(result, c);
    return vgpu_leave(enqueue_copy(s, c, "copy to device"));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    vgpu_stream *s;
    CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS || bytes == 0) return vgpu_leave(result);
    copy_operation *c = new_copy(bytes);
    if (c == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = find_device_end(&c->from, from, bytes, NULL);
    if (result == CUDA_SUCCESS) result = find_host_end(&c->to, to, bytes);
    if (result != CUDA_SUCCESS) return leave(result, c);
    const bool synchronous = c->to.pageable != NULL;
    result = enqueue_copy(s, c, "copy to host");
    if (synchronous) result = vgpu_stream_finish(s);
    return vgpu_leave(result);
}

/* Between devices, or within one. */
static CUresult copy_across(CUdeviceptr to, const vgpu_device *to_owner, CUdeviceptr from,
                            const vgpu_device *from_owner, size_t bytes, CUstream stream)
{
    vgpu_stream *s;
    CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS || bytes == 0) return vgpu_leave(result);
    copy_operation *c = new_copy(bytes);
    if (c == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = find_device_end(&c->to, to, bytes, to_owner);
    if (result == CUDA_SUCCESS) result = find_device_end(&c->from, from, bytes, from_owner);
    if (result != CUDA_SUCCESS) return leave(result, c);
    const bool within = c->to.extent.allocation->device == c->from.extent.allocation->device;
    return vgpu_leave(enqueue_copy(s, c, within ? "copy within a device" : "copy to a peer"));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    return copy_across(to, NULL, from, NULL, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    const vgpu_device *to_owner = vgpu_device_of(to_context);
    const vgpu_device *from_owner = vgpu_device_of(from_context);
    if (to_owner == NULL || from_owner == NULL) return vgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    return copy_across(to, to_owner, from, from_owner, bytes, stream);
}

/* -- fills ------------------------------------------------------------------------------------- */

typedef struct {
    vgpu_operation operation;
    vgpu_extent to;
    unsigned value;
    size_t unit; /* bytes of it: 1 or 4 */
} fill_operation;

static CUresult run_fill(vgpu_operation *op, char *text, size_t text_bytes)
{
    const fill_operation *f = (const fill_operation *)op;
    if (!vgpu_extent_is_live(&f->to)) {
        snprintf(text, text_bytes, "stream %d #%u: memory of a fill was freed before it ran",
                 vgpu_stream_index(op->stream), op->sequence);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    unsigned char *to = vgpu_extent_data(&f->to), *shadow = vgpu_extent_shadow(&f->to);
    for (size_t i = 0; i < f->to.bytes; i += f->unit) memcpy(to + i, &f->value, f->unit);
    for (size_t i = 0; i < f->to.bytes; i++) shadow[i] |= VGPU_DEFINED;
    snprintf(text, text_bytes, "%zu bytes of gpu%d 0x%llx with 0x%x", f->to.bytes,
             f->to.allocation->device,
             (unsigned long long)(f->to.allocation->address + f->to.offset), f->value);
    return CUDA_SUCCESS;
}

static void destroy_fill(vgpu_operation *op)
{
    vgpu_extent_release(&((fill_operation *)op)->to);
    free(op);
}

static CUresult fill(CUdeviceptr to, unsigned value, size_t unit, size_t count, CUstream stream)
{
    char why[256];
    vgpu_stream *s;
    const CUresult result = vgpu_stream_find(stream, &s);
    if (result != CUDA_SUCCESS || count == 0) return vgpu_leave(result);
    if (to % unit != 0 || count > SIZE_MAX / unit) return vgpu_leave(CUDA_ERROR_INVALID_VALUE);
    fill_operation *f = calloc(1, sizeof *f);
    if (f == NULL) return vgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    f->operation = (vgpu_operation){ .name = "fill", .run = run_fill, .destroy = destroy_fill };
    f->value = value;
    f->unit = unit;
    if (!vgpu_extent_find(to, count * unit, &f->to, why, sizeof why)) {
        free(f);
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "fill: %s", why));
    }
    const int owner = f->to.allocation->device;
    if (owner < 0 || !vgpu_has_access(vgpu_stream_device(s)->ordinal, owner)) {
        destroy_fill(&f->operation);
        return vgpu_leave(vgpu_refuse(CUDA_ERROR_INVALID_VALUE, "fill: no access"));
    }
    vgpu_stream_place(s, &f->operation, "fill");
    vgpu_operation_touch(&f->operation, &f->to, true);
    vgpu_operation_known(&f->operation);
    vgpu_stream_enqueue(&f->operation);
    return vgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    return fill(to, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    VGPU_BEGIN(vgpu_enter_context);
    return fill(to, value, 4, count, stream);
}
