/* SPDX-License-Identifier: MIT */
/* activation.c -- reference: the activations and their gradients, element by element.
 */
#include "kernels/activation.h"
#include "kernels/reference/reference.h"

ls_status ls_activate_reference(ls_stream *stream, const ls_activate_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->y[i] = ls_activation_of(args->kind, args->slope, args->x[i]);
    }
    return LS_OK;
}

ls_status ls_activate_gradient_reference(ls_stream *stream, const ls_activate_gradient_args *args)
{
    (void)stream;
    const float *from = ls_activation_derives_from_y(args->kind) ? args->y : args->x;
    for (size_t i = 0; i < args->count; i++) {
        args->dx[i] =
            ls_activation_gradient_of(args->kind, args->slope, from[i], args->dy[i]);
    }
    return LS_OK;
}
