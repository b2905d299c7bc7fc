/* SPDX-License-Identifier: MIT */
/* cuda_context.c -- the registry: which GPUs this process holds, and whose each allocation is.
 *
 * Contexts. A GPU that is not chosen gets none, because a context takes hundreds of MiB on it. The
 * primary context is retained once, by the first device opened on the GPU, and released by the
 * last one closed. Peer access belongs to a pair of contexts and goes one way; it is enabled where
 * a link is opened and ends with either context, so what is closed is forgotten as reachable by
 * all.
 *
 * Memory. A peer copy has to be told the context of both ends, and device.h's copies are told
 * addresses. Under unified addressing an address means one place in the whole process, so the
 * registry keeps every allocation, sorted by address, and finds an owner by bisection:
 *
 *     [ begin_0, end_0 )  [ begin_1, end_1 )  ...      disjoint, ascending
 *
 * The owner of [a, a + n) is that of the last range with begin <= a, if a + n <= its end. The same
 * look-up refuses, in words and before the driver sees it, a copy that leaves its allocation, one
 * from memory that is not pinned, and one into memory that was released.
 *
 * Allocations come and go at set-up and tear-down only, so an array that is shifted is fast enough,
 * and the lock is contended by look-ups alone, which take less than a microsecond.
 *
 * The registry is of the process, like the driver. Lock: `registry.lock`.
 */
#include "device/cuda_context.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uintptr_t begin, end;
    ls_cuda_context *context; /* borrowed */
    bool pinned;
} range;

static struct {
    pthread_mutex_t lock;
    ls_cuda_context *context[LS_CUDA_GPU_MAX]; /* owned; NULL: not open */
    range *range;                              /* owned, [range_count], sorted by begin */
    size_t range_count, range_capacity;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* -- contexts ---------------------------------------------------------------------------------- */

static ls_status attribute(const ls_cuda_context *context, CUdevice_attribute which, int *out)
{
    return LS_CUDA_ON(context, device_attribute,
                      (out, which, context->device), "asking for attribute %d", (int)which);
}

/* Everything that needs the context to be current. */
static ls_status fill_context(ls_cuda_context *context)
{
    int major = 0, minor = 0;
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(attribute(context, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    LS_TRY(attribute(context, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    context->capability = 10 * major + minor;
    return attribute(context, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                     &context->multiprocessor_count);
}

static ls_status make_context(const ls_cuda_driver *driver, int ordinal, ls_cuda_context **out)
{
    ls_cuda_context *context = calloc(1, sizeof *context);
    if (context == NULL) return ls_fail(LS_ERR_MEMORY, "cuda:%d: no memory for a context", ordinal);
    context->driver = driver;
    context->ordinal = ordinal;
    (void)snprintf(context->name, sizeof context->name, "cuda:%d", ordinal);
    for (int i = 0; i < LS_CUDA_GPU_MAX; i++) atomic_init(&context->reaches[i], false);
    ls_status status = LS_CUDA(driver, context->name, device_at, (&context->device, ordinal),
                               "looking for GPU %d", ordinal);
    if (status == LS_OK)
        status = LS_CUDA(driver, context->name, primary_ctx_retain,
                         (&context->handle, context->device), "opening the GPU");
    if (status == LS_OK) {
        status = fill_context(context);
        if (status == LS_OK) {
            *out = context;
            return LS_OK;
        }
        (void)driver->primary_ctx_release(context->device);
    }
    free(context);
    return status;
}

/* `ls_cuda_context_retain`, with the registry locked. */
static ls_status retain(const ls_cuda_driver *driver, int ordinal, ls_cuda_context **out)
{
    if (registry.context[ordinal] == NULL)
        LS_TRY(make_context(driver, ordinal, &registry.context[ordinal]));
    registry.context[ordinal]->user_count++;
    *out = registry.context[ordinal];
    return LS_OK;
}

ls_status ls_cuda_context_retain(int ordinal, ls_cuda_context **out)
{
    *out = NULL;
    const char *why = "";
    const ls_cuda_driver *driver = ls_cuda_driver_open(&why);
    if (driver == NULL)
        return ls_fail(LS_ERR_DEVICE, "cuda:%d: no usable GPU: %s", ordinal, why);
    if (ordinal < 0 || ordinal >= LS_CUDA_GPU_MAX)
        return ls_fail(LS_ERR_DEVICE, "cuda:%d: GPUs 0 to %d can be used", ordinal,
                       LS_CUDA_GPU_MAX - 1);
    (void)pthread_mutex_lock(&registry.lock);
    const ls_status status = retain(driver, ordinal, out);
    (void)pthread_mutex_unlock(&registry.lock);
    return status;
}

void ls_cuda_context_release(ls_cuda_context *context)
{
    (void)pthread_mutex_lock(&registry.lock);
    assert(context->user_count > 0);
    if (--context->user_count == 0) {
        registry.context[context->ordinal] = NULL;
        for (int i = 0; i < LS_CUDA_GPU_MAX; i++)
            if (registry.context[i] != NULL)
                atomic_store(&registry.context[i]->reaches[context->ordinal], false);
        if (ls_cuda_context_enter(context) == LS_OK) ls_cuda_modules_unload(&context->modules);
        (void)context->driver->primary_ctx_release(context->device);
        free(context->function);
        free(context);
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

ls_status ls_cuda_context_enter(const ls_cuda_context *context)
{
    return LS_CUDA_ON(context, ctx_set_current, (context->handle),
                      "making the GPU this thread's");
}

static ls_status find_functions(const ls_cuda_context *context, const char *const *name, int count,
                                CUfunction *function)
{
    for (int i = 0; i < count; i++)
        LS_TRY(ls_cuda_modules_find(&context->modules, name[i], &function[i]));
    return LS_OK;
}

ls_status ls_cuda_context_load(ls_cuda_context *context, const ls_cuda_image *image,
                               const char *const *name, int count)
{
    if (context->function != NULL) {
        assert(context->kernel == name && context->kernel_count == count);
        return LS_OK;
    }
    LS_TRY(ls_cuda_context_enter(context));
    CUfunction *function = calloc((size_t)count, sizeof *function);
    if (function == NULL)
        return ls_fail(LS_ERR_MEMORY, "%s: no memory for %d kernels", context->name, count);
    ls_status status = ls_cuda_modules_load(&context->modules, context->driver, context->name,
                                            context->capability, image);
    if (status == LS_OK) status = find_functions(context, name, count, function);
    if (status != LS_OK) {
        ls_cuda_modules_unload(&context->modules);
        free(function);
        return status;
    }
    context->kernel = name;
    context->kernel_count = count;
    context->function = function;
    return LS_OK;
}

CUfunction ls_cuda_context_function(const ls_cuda_context *context, const char *name)
{
    for (int i = 0; i < context->kernel_count; i++)
        if (context->kernel[i] == name || strcmp(context->kernel[i], name) == 0)
            return context->function[i];
    return NULL;
}

ls_status ls_cuda_context_reach(ls_cuda_context *context, ls_cuda_context *other)
{
    if (context == other || atomic_load(&context->reaches[other->ordinal])) return LS_OK;
    LS_TRY(ls_cuda_context_enter(context));
    const CUresult result = context->driver->ctx_enable_peer_access(other->handle, 0);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        LS_TRY(ls_cuda_check_at(__FILE__, __LINE__, context->driver, result,
                                LS_CUDA_ENTRY_ctx_enable_peer_access, context->name,
                                "enabling access to %s", other->name));
    atomic_store(&context->reaches[other->ordinal], true);
    return LS_OK;
}

int ls_cuda_context_partner_count(const ls_cuda_context *context)
{
    int count = 0;
    for (int i = 0; i < LS_CUDA_GPU_MAX; i++) count += atomic_load(&context->reaches[i]);
    return count;
}

void ls_cuda_context_unreach_all(ls_cuda_context *context)
{
    if (ls_cuda_context_enter(context) != LS_OK) return;
    (void)pthread_mutex_lock(&registry.lock);
    for (int i = 0; i < LS_CUDA_GPU_MAX; i++) {
        if (!atomic_load(&context->reaches[i]) || registry.context[i] == NULL) continue;
        (void)context->driver->ctx_disable_peer_access(registry.context[i]->handle);
        atomic_store(&context->reaches[i], false);
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

/* -- whose memory ------------------------------------------------------------------------------ */

/* How many ranges begin at or before `address`. */
static size_t rank_of(uintptr_t address)
{
    size_t low = 0, high = registry.range_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (registry.range[middle].begin <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Room for one more range, with the registry locked. */
static bool make_room(void)
{
    if (registry.range_count < registry.range_capacity) return true;
    const size_t capacity = 2 * registry.range_capacity + 64;
    range *grown = realloc(registry.range, capacity * sizeof *grown);
    if (grown == NULL) return false;
    registry.range = grown;
    registry.range_capacity = capacity;
    return true;
}

ls_status ls_cuda_memory_add(ls_cuda_context *context, void *memory, size_t bytes, bool pinned)
{
    const uintptr_t begin = (uintptr_t)memory;
    (void)pthread_mutex_lock(&registry.lock);
    const bool room = make_room();
    if (room) {
        const size_t at = rank_of(begin);
        memmove(registry.range + at + 1, registry.range + at,
                (registry.range_count - at) * sizeof *registry.range);
        registry.range[at] =
            (range){ .begin = begin, .end = begin + bytes, .context = context, .pinned = pinned };
        registry.range_count++;
    }
    (void)pthread_mutex_unlock(&registry.lock);
    if (room) return LS_OK;
    return ls_fail(LS_ERR_MEMORY, "%s: no memory to note an allocation", context->name);
}

void ls_cuda_memory_remove(void *memory)
{
    (void)pthread_mutex_lock(&registry.lock);
    const size_t after = rank_of((uintptr_t)memory);
    assert(after > 0 && registry.range[after - 1].begin == (uintptr_t)memory);
    memmove(registry.range + after - 1, registry.range + after,
            (registry.range_count - after) * sizeof *registry.range);
    registry.range_count--;
    if (registry.range_count == 0) { /* nothing of this process is on a GPU: leave nothing */
        free(registry.range);
        registry.range = NULL;
        registry.range_capacity = 0;
    }
    (void)pthread_mutex_unlock(&registry.lock);
}

ls_cuda_context *ls_cuda_memory_owner(const void *memory, size_t bytes, bool pinned)
{
    ls_cuda_context *owner = NULL;
    const uintptr_t begin = (uintptr_t)memory;
    (void)pthread_mutex_lock(&registry.lock);
    const size_t after = rank_of(begin);
    if (after > 0) {
        const range *r = &registry.range[after - 1];
        if (r->pinned == pinned && bytes <= r->end - r->begin && begin <= r->end - bytes)
            owner = r->context;
    }
    (void)pthread_mutex_unlock(&registry.lock);
    return owner;
}

size_t ls_cuda_pinned_bytes(void)
{
    size_t bytes = 0;
    (void)pthread_mutex_lock(&registry.lock);
    for (size_t i = 0; i < registry.range_count; i++)
        if (registry.range[i].pinned) bytes += registry.range[i].end - registry.range[i].begin;
    (void)pthread_mutex_unlock(&registry.lock);
    return bytes;
}
