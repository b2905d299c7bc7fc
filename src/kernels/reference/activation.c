/* SPDX-License-Identifier: MIT */
/* activation.c -- reference: relu and its gradient, as selects (docs/numerics.md 1.6). */
#include "kernels/reference/reference.h"

ls_status ls_relu_reference(ls_stream *stream, const ls_relu_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->y[i] = args->x[i] <= 0.0f ? 0.0f : args->x[i]; /* -0 becomes +0, a NaN passes */
    }
    return LS_OK;
}

ls_status ls_relu_gradient_reference(ls_stream *stream, const ls_relu_gradient_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->dx[i] = args->y[i] > 0.0f ? args->dy[i] : 0.0f;
    }
    return LS_OK;
}
