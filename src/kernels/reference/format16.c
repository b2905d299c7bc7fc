/* SPDX-License-Identifier: MIT */
/* format16.c -- reference: storage in 16 bits and back (format16.h says how a number is
 * rounded). */
#include "format16.h"
#include "kernels/reference/reference.h"

ls_status ls_narrow_reference(ls_stream *stream, const ls_narrow_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->y[i] = args->format == LS_FORMAT_BF16 ? ls_bf16_of_float(args->x[i])
                                                    : ls_f16_of_float(args->x[i]);
    }
    return LS_OK;
}

ls_status ls_widen_reference(ls_stream *stream, const ls_widen_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->y[i] = args->format == LS_FORMAT_BF16 ? ls_float_of_bf16(args->x[i])
                                                    : ls_float_of_f16(args->x[i]);
    }
    return LS_OK;
}
