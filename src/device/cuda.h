/* SPDX-License-Identifier: MIT */
/* cuda.h -- the GPUs of this machine: how many are usable, why none is, and how to open one.
 *
 * A build links one of two implementations: the driver's, or cuda_absent.c, which has none. No
 * code asks which.
 */
#ifndef LS_DEVICE_CUDA_H
#define LS_DEVICE_CUDA_H

#include <stdatomic.h>

#include "device/device.h"
#include "status.h"

/* GPUs that can be opened, with ordinals 0 .. count-1. If there is none, `*why` says why, in words
 * that fit behind "no usable GPU: "; it stays valid for the life of the program. */
int ls_cuda_usable_count(const char **why);

/* Open GPU `ordinal`. `progress` may be NULL. Errors: DEVICE, MEMORY. */
LS_MUST_USE ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out);

/* -- for kernels/cuda/ ------------------------------------------------------------------------- */

/* One launch of a kernel of the image. */
typedef struct {
    const char *kernel;  /* its name there: a string literal, looked up once per device */
    unsigned grid[3];    /* none may be 0 */
    unsigned block;      /* threads */
    const void *params;  /* the kernel's only argument, its parameter struct; copied by the call */
    size_t param_bytes;
} ls_cuda_launch_args;

/* `stream` belongs to a CUDA device. Async. Errors: DEVICE. */
LS_MUST_USE ls_status ls_cuda_launch(ls_stream *stream, const ls_cuda_launch_args *launch);

/* Device memory of the stream's own, 256-byte aligned, made with it: where an op leaves what its
 * next launch reads. Its contents outlive no op. */
enum { LS_CUDA_WORKSPACE_BYTES = 4 << 20 };
void *ls_cuda_workspace(const ls_stream *stream);

#endif
