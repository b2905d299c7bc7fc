/* SPDX-License-Identifier: MIT */
/* cuda_copy.h -- copies and fills on a stream of a GPU's context, and what they refuse.
 *
 * Refused is what the driver would do otherwise than asked:
 *
 *   host copies      asynchronous from pinned memory only: other memory the driver would copy at
 *                    the call (to the device) or after waiting for the device (from it).
 *   peer copies      go through the host without a word where access is not enabled: what is to be
 *                    staged is staged by a link, where it can be seen.
 *
 * So is memory of another GPU than the direction says. The message names the context, and whose the
 * memory is. The caller has entered the context. Errors: DEVICE.
 */
#ifndef LS_DEVICE_CUDA_COPY_H
#define LS_DEVICE_CUDA_COPY_H

#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "device/device.h"

/* Enqueue a copy of `bytes` bytes. LS_COPY_PEER begins in memory of `context`. */
LS_MUST_USE ls_status ls_cuda_copy(ls_cuda_context *context, CUstream stream, void *to,
                                   const void *from, size_t bytes, ls_copy_direction direction);

/* Enqueue `bytes` bytes of `value`, four at a time where address and count allow it. */
LS_MUST_USE ls_status ls_cuda_fill(ls_cuda_context *context, CUstream stream, void *to,
                                   unsigned char value, size_t bytes);

#endif
