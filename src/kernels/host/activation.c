/* SPDX-License-Identifier: MIT */
/* activation.c -- host: relu and its gradient at the speed of memory.
 *
 * Plain loops that the compiler vectorises. `ivdep` says what kernels.h does: where output and
 * input are one buffer, an element is read before it is written and no other is touched.
 */
#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 32768 };

static void relu_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_relu_args *args = args_;
    const float *x = args->x;
    float *y = args->y;
#pragma GCC ivdep
    for (size_t i = begin; i < end; i++) y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

ls_status LS_HOST(relu)(ls_stream *stream, const ls_relu_args *args)
{
    ls_range_run(stream, args->count, GRAIN, relu_range, args);
    return LS_OK;
}

static void relu_gradient_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_relu_gradient_args *args = args_;
    const float *y = args->y, *dy = args->dy;
    float *dx = args->dx;
#pragma GCC ivdep
    for (size_t i = begin; i < end; i++) {
        const float gradient = dy[i]; /* read in any case, so that no branch is needed */
        dx[i] = y[i] > 0.0f ? gradient : 0.0f;
    }
}

ls_status LS_HOST(relu_gradient)(ls_stream *stream, const ls_relu_gradient_args *args)
{
    ls_range_run(stream, args->count, GRAIN, relu_gradient_range, args);
    return LS_OK;
}
