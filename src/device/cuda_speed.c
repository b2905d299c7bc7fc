/* SPDX-License-Identifier: MIT */
/* cuda_speed.c -- how fast copies are: bytes per second of large ones, the time of a small one.
 *
 * Timed by the GPU itself, between two events of one stream, as many copies in a row as make the
 * time of a row's begin small against it:
 *
 *     record begin | copy, copy, ..., copy | record end           time / copies = one sample
 *
 * Of SAMPLES samples, after one that warms up, the median counts: others may be using the link. The
 * smallest size tells the microseconds of a copy, the best of all sizes the bytes per second. This
 * is done by the probe's child (cuda_probe_child.c), so that a link which hangs under load hangs
 * the child alone.
 */
#include "device/cuda_speed.h"

#include <stdlib.h>

#include "device/cuda.h"
#include "device/cuda_context.h"
#include "device/cuda_driver.h"
#include "device/cuda_probe.h"

enum { SAMPLES = 5 };

static const struct {
    size_t bytes;
    int copies; /* in a row */
} SIZES[] = { { 4096, 16 }, { 1 << 20, 4 }, { LS_CUDA_SPEED_BYTES, 1 } };
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

typedef struct {
    const ls_cuda_context *context;
    ls_stream *stream;
    CUevent begin, end;
} timer;

static ls_status copy_once(const timer *t, const ls_cuda_course *course, size_t bytes)
{
    switch (course->direction) {
    case LS_COPY_TO_DEVICE:
        return ls_copy_to_device(t->stream, course->to, course->from, bytes);
    case LS_COPY_TO_HOST: return ls_copy_to_host(t->stream, course->to, course->from, bytes);
    case LS_COPY_WITHIN: return ls_copy_within(t->stream, course->to, course->from, bytes);
    case LS_COPY_PEER: break;
    }
    return ls_copy_peer(t->stream, course->to, course->from, bytes);
}

static ls_status record(const timer *t, CUevent event)
{
    LS_TRY(ls_cuda_context_enter(t->context));
    return LS_CUDA_ON(t->context, event_record,
                      (event, ls_cuda_stream_of(t->stream)), "recording a time");
}

/* Microseconds of one of `copies` copies in a row. */
static ls_status sample(const timer *t, const ls_cuda_course *course, size_t bytes, int copies,
                        double *us)
{
    float ms = 0;
    LS_TRY(record(t, t->begin));
    for (int i = 0; i < copies; i++) LS_TRY(copy_once(t, course, bytes));
    LS_TRY(record(t, t->end));
    LS_TRY(ls_cuda_probe_settle(t->stream));
    LS_TRY(LS_CUDA_ON(t->context, event_elapsed_time,
                      (&ms, t->begin, t->end), "asking how long copies took"));
    *us = (double)ms * 1000 / copies;
    return LS_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ls_status median(const timer *t, const ls_cuda_course *course, size_t bytes, int copies,
                        double *us)
{
    double all[SAMPLES];
    LS_TRY(sample(t, course, bytes, copies, &all[0]));
    for (int i = 0; i < SAMPLES; i++) LS_TRY(sample(t, course, bytes, copies, &all[i]));
    qsort(all, SAMPLES, sizeof all[0], compare);
    *us = all[SAMPLES / 2];
    return LS_OK;
}

static ls_status measure(const timer *t, const ls_cuda_course *course, ls_cuda_speed *out)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        double us = 0;
        LS_TRY(median(t, course, SIZES[i].bytes, SIZES[i].copies, &us));
        const double gb_per_s = us > 0 ? (double)SIZES[i].bytes / us / 1000 : 0;
        if (i == 0) out->us = us;
        if (gb_per_s > out->gb_per_s) out->gb_per_s = gb_per_s;
    }
    return LS_OK;
}

ls_status ls_cuda_speed_measure(ls_stream *stream, const ls_cuda_course *course,
                                ls_cuda_speed *out)
{
    timer t = { .context = stream->device->implementation, .stream = stream };
    *out = (ls_cuda_speed){ 0 };
    LS_TRY(ls_cuda_context_enter(t.context));
    ls_status status = LS_CUDA_ON(t.context, event_create,
                                  (&t.begin, CU_EVENT_DEFAULT), "making an event that tells times");
    if (status == LS_OK)
        status = LS_CUDA_ON(t.context, event_create,
                            (&t.end, CU_EVENT_DEFAULT), "making an event that tells times");
    if (status == LS_OK) status = measure(&t, course, out);
    if (t.end != NULL) (void)t.context->driver->event_destroy(t.end);
    if (t.begin != NULL) (void)t.context->driver->event_destroy(t.begin);
    return status;
}
