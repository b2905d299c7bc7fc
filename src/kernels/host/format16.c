/* SPDX-License-Identifier: MIT */
/* format16.c -- host: storage in 16 bits and back, at the speed of memory.
 *
 * A loop per format, without branches, which the compiler vectorises.
 */
#include "format16.h"
#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 32768 };

static void narrow_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_narrow_args *args = args_;
    const float *restrict x = args->x;
    uint16_t *restrict y = args->y;
    if (args->format == LS_FORMAT_BF16) {
        for (size_t i = begin; i < end; i++) y[i] = ls_bf16_of_float(x[i]);
    } else {
        for (size_t i = begin; i < end; i++) y[i] = ls_f16_of_float(x[i]);
    }
}

ls_status LS_HOST(narrow)(ls_stream *stream, const ls_narrow_args *args)
{
    ls_range_run(stream, args->count, GRAIN, narrow_range, args);
    return LS_OK;
}

static void widen_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_widen_args *args = args_;
    const uint16_t *restrict x = args->x;
    float *restrict y = args->y;
    if (args->format == LS_FORMAT_BF16) {
        for (size_t i = begin; i < end; i++) y[i] = ls_float_of_bf16(x[i]);
    } else {
        for (size_t i = begin; i < end; i++) y[i] = ls_float_of_f16(x[i]);
    }
}

ls_status LS_HOST(widen)(ls_stream *stream, const ls_widen_args *args)
{
    ls_range_run(stream, args->count, GRAIN, widen_range, args);
    return LS_OK;
}
