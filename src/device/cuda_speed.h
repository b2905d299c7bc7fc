/* SPDX-License-Identifier: MIT */
/* cuda_speed.h -- measures one way for bytes: from GPU to GPU, or between a GPU and the host.
 *
 * Internal to the CUDA backend; the probe's child calls it.
 */
#ifndef LS_DEVICE_CUDA_SPEED_H
#define LS_DEVICE_CUDA_SPEED_H

#include "device/cuda.h"
#include "device/device.h"

enum { LS_CUDA_SPEED_BYTES = 32 << 20 }; /* the largest copy; both ends hold so much */

/* Both ends, one of them memory of the stream's GPU; host memory is pinned. */
typedef struct {
    void *to;
    const void *from;
    ls_copy_direction direction; /* LS_COPY_TO_DEVICE, LS_COPY_TO_HOST or LS_COPY_PEER */
} ls_cuda_course;

/* Copy a few sizes a few times. Blocks: 5 s for a row of copies at most. Errors: TIMEOUT,
 * DEVICE. */
LS_MUST_USE ls_status ls_cuda_speed_measure(ls_stream *stream, const ls_cuda_course *course,
                                            ls_cuda_speed *out);

#endif
