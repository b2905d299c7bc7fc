/* SPDX-License-Identifier: MIT */
/* cuda_marks.h -- seeing that a GPU gets on with what was enqueued, before it has done all of it.
 *
 * The driver tells of a stream only whether it is idle. Many operations may be queued, each soon
 * done and all of them not, and a deadline must tell that from a stream that is stuck. So behind
 * some operations an event is recorded, a mark, and whoever waits looks for marks that have been
 * reached.
 *
 * Thread rule: marks belong to their replica's thread.
 */
#ifndef LS_DEVICE_CUDA_MARKS_H
#define LS_DEVICE_CUDA_MARKS_H

#include <stdbool.h>

#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "status.h"

enum { LS_CUDA_MARKS = 16 };

typedef struct {
    CUevent event[LS_CUDA_MARKS]; /* owned; the first `count`, by age, were not seen complete */
    int count;
    unsigned stride; /* operations from one mark to the next */
    unsigned since;  /* operations behind the last */
    double looked;   /* when */
} ls_cuda_marks;

/* Errors: DEVICE, MEMORY; nothing is left then. */
LS_MUST_USE ls_status ls_cuda_marks_open(const ls_cuda_context *context, ls_cuda_marks *marks);
void ls_cuda_marks_close(const ls_cuda_context *context, ls_cuda_marks *marks);

/* An operation has been enqueued on `stream`; the context is entered. Errors: DEVICE. */
LS_MUST_USE ls_status ls_cuda_marks_pass(const ls_cuda_context *context, ls_cuda_marks *marks,
                                         CUstream stream);

/* Has a mark been reached since the last look? Looks a hundred times a second at most. */
bool ls_cuda_marks_look(const ls_cuda_context *context, ls_cuda_marks *marks);

#endif
