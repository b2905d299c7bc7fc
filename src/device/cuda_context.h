/* SPDX-License-Identifier: MIT */
/* cuda_context.h -- one context per GPU, what belongs to it, and whose a piece of memory is.
 *
 * Internal to the CUDA backend. A context is the driver's word for one process's state on one GPU:
 * its memory, streams, events, modules, and which other contexts' memory it may access. All
 * devices that this process opens on a GPU share the GPU's primary context.
 *
 * Thread rule: the registry (which contexts, which memory) is behind one lock; any thread may call
 * any function. A context's fields are written when it is made and by ls_cuda_context_load,
 * both before the ranks start.
 */
#ifndef LS_DEVICE_CUDA_CONTEXT_H
#define LS_DEVICE_CUDA_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda_driver.h"
#include "device/cuda_module.h"
#include "device/device.h"
#include "status.h"

enum { LS_CUDA_GPU_MAX = 64 }; /* GPUs that are told apart; machines have up to 16 */

typedef struct {
    const ls_cuda_driver *driver; /* borrowed */
    CUdevice device;
    CUcontext handle;
    int ordinal;
    char name[16];                /* "cuda:0" */
    int capability;               /* 90 for 9.0 */
    int multiprocessor_count;
    ls_cuda_modules modules;
    const char *const *kernel;    /* borrowed, [kernel_count]: names */
    CUfunction *function;         /* owned, [kernel_count] */
    int kernel_count;
    int user_count;               /* open devices; the registry's lock */
    atomic_bool reaches[LS_CUDA_GPU_MAX]; /* may access the memory of that GPU's context */
} ls_cuda_context;

/* Share the context of GPU `ordinal`, made by the first call. Errors: DEVICE, MEMORY. */
LS_MUST_USE ls_status ls_cuda_context_retain(int ordinal, ls_cuda_context **out);
void ls_cuda_context_release(ls_cuda_context *context);

/* Make it the calling thread's: before driver calls that work on a context. Errors: DEVICE. */
LS_MUST_USE ls_status ls_cuda_context_enter(const ls_cuda_context *context);

/* The driver's stream behind a CUDA device's (cuda.c). */
CUstream ls_cuda_stream_of(const ls_stream *stream);

/* Load the images and find the kernels `name`, [count], in them; both borrowed until the context
 * ends. Once per context: another call with the same names does nothing. Errors: as
 * ls_cuda_modules_load and _find. */
LS_MUST_USE ls_status ls_cuda_context_load(ls_cuda_context *context, const ls_cuda_image *image,
                                           const char *const *name, int count);

/* The kernel, or NULL if it was not loaded. */
CUfunction ls_cuda_context_function(const ls_cuda_context *context, const char *name);

/* From now on `context` may access the memory of `other`. Errors: DEVICE. */
LS_MUST_USE ls_status ls_cuda_context_reach(ls_cuda_context *context, ls_cuda_context *other);

/* How many others it reaches; and the end of that. */
int ls_cuda_context_partner_count(const ls_cuda_context *context);
void ls_cuda_context_unreach_all(ls_cuda_context *context);

/* -- whose memory ------------------------------------------------------------------------------ */

/* Note that [memory, memory + bytes) is memory of `context`: on the GPU, or pinned on the host.
 * Errors: MEMORY. */
LS_MUST_USE ls_status ls_cuda_memory_add(ls_cuda_context *context, void *memory, size_t bytes,
                                         bool pinned);
void ls_cuda_memory_remove(void *memory); /* what ls_cuda_memory_add noted */

/* The context that [memory, memory + bytes) lies on; with `pinned`, that it was pinned in. NULL if
 * no one noted allocation holds all of it. */
ls_cuda_context *ls_cuda_memory_owner(const void *memory, size_t bytes, bool pinned);

/* Bytes of host memory that are pinned now, by all contexts of this process. */
size_t ls_cuda_pinned_bytes(void);

/* LS_CUDA for the driver of a context, whose name stands in the failure. */
#define LS_CUDA_ON(context, slot, arguments, ...)                                                 \
    LS_CUDA((context)->driver, (context)->name, slot, arguments, __VA_ARGS__)

/* A device address as the driver takes it. */
static inline CUdeviceptr ls_cuda_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

#endif
