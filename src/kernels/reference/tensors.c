/* SPDX-License-Identifier: MIT */
/* tensors.c -- reference: sums and products of tensors, runs of columns, borders of zeros. */
#include "kernels/reference/reference.h"

ls_status ls_add_reference(ls_stream *stream, const ls_add_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        const float sum = args->a[i] + args->b[i];
        args->y[i] = args->relu && sum <= 0.0f ? 0.0f : sum;
    }
    return LS_OK;
}

ls_status ls_multiply_reference(ls_stream *stream, const ls_multiply_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) args->y[i] = args->a[i] * args->b[i];
    return LS_OK;
}

ls_status ls_copy_columns_reference(ls_stream *stream, const ls_copy_columns_args *args)
{
    (void)stream;
    for (size_t r = 0; r < args->rows; r++) {
        for (size_t c = 0; c < args->columns; c++) {
            args->to[r * args->to_stride + c] = args->from[r * args->from_stride + c];
        }
    }
    return LS_OK;
}

ls_status ls_pad_reference(ls_stream *stream, const ls_pad_args *args)
{
    (void)stream;
    const size_t C = args->channels;
    for (size_t n = 0; n < args->samples; n++) {
        for (size_t o = 0; o < args->out_height * args->out_width; o++) {
            /* Above and left of x the subtraction wraps: beyond any extent as well. */
            const size_t h = o / args->out_width - (size_t)args->top;
            const size_t w = o % args->out_width - (size_t)args->left;
            const bool inside = h < args->height && w < args->width;
            const size_t from = inside ? ((n * args->height + h) * args->width + w) * C : 0;
            float *y = args->y + (n * args->out_height * args->out_width + o) * C;
            for (size_t c = 0; c < C; c++) y[c] = inside ? args->x[from + c] : 0.0f;
        }
    }
    return LS_OK;
}
