/* SPDX-License-Identifier: MIT */
/* cuda_marks.c -- see cuda_marks.h.
 *
 * A mark follows every fourth operation, whichever of the replica's streams it is on. There are 16
 * events. If all are outstanding, nobody has waited for a while or a long queue is being filled:
 * first those that have been reached are taken back; if that is less than half, every second of the
 * others is given up, the earlier of two, and from now on marks stand twice as far apart. So the
 * outstanding ones are always spread over all that is queued, and the last is never far from its
 * end. When none is outstanding, every fourth it is again.
 *
 *     operations   . . . . m . . . . m . . . . m . . . . m              16 marks: full
 *                            . . . . m . . . .   . . . . m . . . . . . . . m ...
 */
#include "device/cuda_marks.h"

#include <string.h>

#include "thread.h"

enum { STRIDE = 4 };

static const double LOOK_S = 0.01;

ls_status ls_cuda_marks_open(const ls_cuda_context *context, ls_cuda_marks *marks)
{
    memset(marks, 0, sizeof *marks);
    marks->stride = STRIDE;
    LS_TRY(ls_cuda_context_enter(context));
    for (int i = 0; i < LS_CUDA_MARKS; i++) {
        const ls_status status =
            LS_CUDA_ON(context, event_create,
                       (&marks->event[i], CU_EVENT_DISABLE_TIMING), "making an event");
        if (status == LS_OK) continue;
        while (i-- > 0) (void)context->driver->event_destroy(marks->event[i]);
        return status;
    }
    return LS_OK;
}

void ls_cuda_marks_close(const ls_cuda_context *context, ls_cuda_marks *marks)
{
    if (ls_cuda_context_enter(context) != LS_OK) return;
    for (int i = 0; i < LS_CUDA_MARKS; i++) (void)context->driver->event_destroy(marks->event[i]);
}

/* Those of the outstanding marks that `keep` says, in their order, before the others. */
static void keep_marks(ls_cuda_marks *marks, const bool keep[LS_CUDA_MARKS])
{
    CUevent ordered[LS_CUDA_MARKS];
    int kept = 0, put;
    for (int i = 0; i < marks->count; i++) {
        if (keep[i]) ordered[kept++] = marks->event[i];
    }
    put = kept;
    for (int i = 0; i < marks->count; i++) {
        if (!keep[i]) ordered[put++] = marks->event[i];
    }
    memcpy(marks->event, ordered, (size_t)marks->count * sizeof ordered[0]);
    marks->count = kept;
    if (kept == 0) marks->stride = STRIDE;
}

/* Take back the marks that have been reached. False: there were none. */
static bool take_back(const ls_cuda_context *context, ls_cuda_marks *marks)
{
    bool keep[LS_CUDA_MARKS];
    const int before = marks->count;
    for (int i = 0; i < before; i++) {
        /* An error that is none of this event's own is the next call's to report. */
        keep[i] = context->driver->event_query(marks->event[i]) != CUDA_SUCCESS;
    }
    keep_marks(marks, keep);
    return marks->count < before;
}

static void make_room(const ls_cuda_context *context, ls_cuda_marks *marks)
{
    bool keep[LS_CUDA_MARKS];
    (void)take_back(context, marks);
    if (marks->count <= LS_CUDA_MARKS / 2) return;
    for (int i = 0; i < LS_CUDA_MARKS; i++) keep[i] = i % 2 == 1;
    keep_marks(marks, keep);
    marks->stride *= 2;
}

ls_status ls_cuda_marks_pass(const ls_cuda_context *context, ls_cuda_marks *marks, CUstream stream)
{
    if (++marks->since < marks->stride) return LS_OK;
    if (marks->count == LS_CUDA_MARKS) make_room(context, marks);
    LS_TRY(LS_CUDA_ON(context, event_record,
                      (marks->event[marks->count], stream), "marking how far a stream has come"));
    marks->count++;
    marks->since = 0;
    return LS_OK;
}

bool ls_cuda_marks_look(const ls_cuda_context *context, ls_cuda_marks *marks)
{
    const double now = ls_clock();
    if (marks->count == 0 || now - marks->looked < LOOK_S) return false;
    marks->looked = now;
    return ls_cuda_context_enter(context) == LS_OK && take_back(context, marks);
}
