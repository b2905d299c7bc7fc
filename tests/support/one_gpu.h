/* SPDX-License-Identifier: MIT */
/* one_gpu.h -- a GPU with a stream, some memory of each kind, and a kernel that copies.
 *
 * For cases of fresh_process.h, whose calls return statuses. The kernel is the link probe's, the
 * smallest there is.
 */
#ifndef TEST_SUPPORT_ONE_GPU_H
#define TEST_SUPPORT_ONE_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

enum { GPU_BYTES = 4096 };
#define GPU_COPY_KERNEL "ls_probe_copy"

typedef struct {
    ls_device *device;
    ls_stream stream;
    unsigned char *memory; /* [GPU_BYTES] */
    unsigned char *host;   /* [GPU_BYTES] pinned */
} gpu;

/* What was opened before an error is there for gpu_close, which takes an all-zero one too. */
ls_status gpu_open(gpu *g, int ordinal, atomic_ulong *progress);
void gpu_close(gpu *g);

ls_status gpu_drain(gpu *g);

/* Put `first`, first + 1, ... into the GPU's memory. */
ls_status gpu_store(gpu *g, unsigned first);

/* Does the GPU's memory hold what gpu_store(first) put there? */
bool gpu_holds(gpu *g, unsigned first);

/* The kernel: loaded once, then launched on any stream of the device. */
ls_status gpu_load_copy(gpu *g);
ls_status gpu_launch_copy(ls_stream *stream, void *to, const void *from, size_t bytes);

#endif
