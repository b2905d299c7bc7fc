/* SPDX-License-Identifier: MIT */
/* gpu_arrays.h -- arrays that are on the host and on a GPU, to run an op on both and compare.
 *
 * An array is an allocation of its exact size of its own, so that a virtual GPU sees every step
 * outside; outputs are never written before the op, so that it sees every element that is read too
 * early, and that a comparison finds missing. All calls end the process with a message when
 * something fails: they are for cases of fresh_process.h.
 */
#ifndef TEST_SUPPORT_GPU_ARRAYS_H
#define TEST_SUPPORT_GPU_ARRAYS_H

#include <stddef.h>

#include "device/device.h"
#include "kernels/kernels.h"
#include "support/naive.h"

enum { GPU_ARRAYS_MAX = 160 };

typedef struct {
    ls_device *device;
    ls_stream stream;
    unsigned char *staging; /* pinned */
    size_t shift;           /* bytes by which arrays are moved off their alignment */
    int count;
    void *memory[GPU_ARRAYS_MAX]; /* device */
    void *host[GPU_ARRAYS_MAX];
} gpu_arrays;

naive_random gpu_random(void); /* for the data: other numbers for each virtual GPU's seed */

void gpu_arrays_open(gpu_arrays *g);
void gpu_arrays_close(gpu_arrays *g);
void gpu_arrays_drop(gpu_arrays *g); /* forget all arrays */

/* A copy of `bytes` bytes of `data` on the GPU; NULL for NULL. */
void *gpu_copy_of(gpu_arrays *g, const void *data, size_t bytes);

/* An output: `*host` becomes host memory of the same size, filled with 0xff, for the reference. */
void *gpu_output(gpu_arrays *g, size_t bytes, void *host_pointer);

/* The same, both filled with `data`: for ops in place, and outputs of which a part is kept. */
void *gpu_updated(gpu_arrays *g, const void *data, size_t bytes, void *host_pointer);

/* Equal bits (floats: a NaN equals any NaN); else a message with `what` and the end of the
 * process. */
void gpu_same_floats(gpu_arrays *g, const char *what, const float *want, const void *device,
                     size_t count);
void gpu_same_bytes(gpu_arrays *g, const char *what, const void *want, const void *device,
                    size_t bytes);

/* End the process with a message unless `status` is LS_OK. */
#define MUST(call) gpu_must((call), #call, __FILE__, __LINE__)
void gpu_must(ls_status status, const char *call, const char *file, int line);

#endif
