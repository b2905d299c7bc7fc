/* SPDX-License-Identifier: MIT */
/* launch_elements.c -- the element-wise ops of a GPU, but decode (launch.c). */
#include "kernels/activation.h"
#include "kernels/cuda/launch.h"

/* Blocks of threads that have four elements each. */
static size_t blocks_of_quads(size_t count) { return ls_ceil_div(count, 4 * LS_CUDA_THREADS); }

/* -- activations ------------------------------------------------------------------------------ */

ls_status ls_activate_cuda(ls_stream *stream, const ls_activate_args *a)
{
    const ls_cuda_activate p = {
        .count = a->count,
        .kind = a->kind,
        .slope = a->slope,
        .vector = ls_cuda_moves_quads(a->x, 0) && ls_cuda_moves_quads(a->y, 0),
        .v = a->x,
        .to = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_activate", blocks_of_quads(a->count), 1, LS_CUDA_THREADS,
                           p);
}

ls_status ls_activate_gradient_cuda(ls_stream *stream, const ls_activate_gradient_args *a)
{
    const float *v = ls_activation_derives_from_y(a->kind) ? a->y : a->x;
    const ls_cuda_activate p = {
        .count = a->count,
        .kind = a->kind,
        .slope = a->slope,
        .vector = ls_cuda_moves_quads(v, 0) && ls_cuda_moves_quads(a->dy, 0)
                  && ls_cuda_moves_quads(a->dx, 0),
        .v = v,
        .dy = a->dy,
        .to = a->dx,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_activate_gradient", blocks_of_quads(a->count), 1,
                           LS_CUDA_THREADS, p);
}

/* -- dropout ---------------------------------------------------------------------------------- */

ls_status ls_dropout_cuda(ls_stream *stream, const ls_dropout_args *a)
{
    const size_t quads = ls_ceil_div(a->elements, 4);
    const bool whole = a->channels > 0; /* channels */
    LS_TRY(ls_cuda_fits("dropout", "samples", a->samples));
    LS_TRY(ls_cuda_fits("dropout", "quads of elements", quads));
    if (whole) LS_TRY(ls_cuda_fits("dropout", "elements", a->elements));
    const ls_cuda_dropout p = {
        .samples = (uint32_t)a->samples,
        .quads = (uint32_t)quads,
        .elements = a->elements,
        .index = a->index,
        .seed = a->seed,
        .epoch = a->epoch,
        .layer = a->layer,
        .threshold = a->threshold,
        .scale = a->scale,
        .vector = ls_cuda_moves_quads(a->x, a->elements) && ls_cuda_moves_quads(a->y, a->elements),
        .by_channels = ls_cuda_divisor_of(whole ? a->channels : 1),
        .x = a->x,
        .y = a->y,
    };
    const size_t rows = a->samples < LS_CUDA_GRID_Y_MAX ? a->samples : LS_CUDA_GRID_Y_MAX;
    return LS_CUDA_ENQUEUE(stream, whole ? "ls_dropout_channels" : "ls_dropout",
                           ls_ceil_div(quads, LS_CUDA_THREADS), rows, LS_CUDA_THREADS, p);
}

/* -- tensors with tensors --------------------------------------------------------------------- */

ls_status ls_add_cuda(ls_stream *stream, const ls_add_args *a)
{
    const ls_cuda_pair p = {
        .count = a->count,
        .vector = ls_cuda_moves_quads(a->a, 0) && ls_cuda_moves_quads(a->b, 0)
                  && ls_cuda_moves_quads(a->y, 0),
        .relu = a->relu,
        .a = a->a,
        .b = a->b,
        .y = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_add", blocks_of_quads(a->count), 1, LS_CUDA_THREADS, p);
}

ls_status ls_multiply_cuda(ls_stream *stream, const ls_multiply_args *a)
{
    const ls_cuda_pair p = {
        .count = a->count,
        .vector = ls_cuda_moves_quads(a->a, 0) && ls_cuda_moves_quads(a->b, 0)
                  && ls_cuda_moves_quads(a->y, 0),
        .a = a->a,
        .b = a->b,
        .y = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_multiply", blocks_of_quads(a->count), 1, LS_CUDA_THREADS,
                           p);
}

/* -- moves ------------------------------------------------------------------------------------ */

ls_status ls_copy_columns_cuda(ls_stream *stream, const ls_copy_columns_args *a)
{
    if (a->columns == 0) return LS_OK;
    const bool vector = a->columns % 4 == 0 && ls_cuda_moves_quads(a->from, a->from_stride) &&
                        ls_cuda_moves_quads(a->to, a->to_stride);
    const size_t unit = vector ? 4 : 1, count = a->rows * (a->columns / unit);
    LS_TRY(ls_cuda_fits("copy_columns", "elements or quads of them", count));
    const ls_cuda_copy_columns p = {
        .count = (uint32_t)count,
        .vector = vector,
        .by_columns = ls_cuda_divisor_of(a->columns / unit),
        .from_stride = a->from_stride / unit,
        .to_stride = a->to_stride / unit,
        .from = a->from,
        .to = a->to,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_copy_columns", ls_ceil_div(count, LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

/* An offset that leaves no input in sight does so at any larger size too: the nearest such one fits
 * 32 bits. */
static int32_t nearest_offset(ptrdiff_t offset, size_t input, size_t output)
{
    if (offset > (ptrdiff_t)output) return (int32_t)output;
    return offset < -(ptrdiff_t)input ? -(int32_t)input : (int32_t)offset;
}

ls_status ls_pad_cuda(ls_stream *stream, const ls_pad_args *a)
{
    const size_t outputs = a->samples * a->out_height * a->out_width * a->channels;
    if (outputs == 0) return LS_OK;
    LS_TRY(ls_cuda_fits("pad", "inputs", a->samples * a->height * a->width * a->channels));
    LS_TRY(ls_cuda_fits("pad", "outputs", outputs));
    const bool vector =
        ls_cuda_moves_quads(a->x, a->channels) && ls_cuda_moves_quads(a->y, a->channels);
    const size_t unit = vector ? 4 : 1;
    const ls_cuda_pad p = {
        .count = (uint32_t)(outputs / unit),
        .vector = vector,
        .height = (uint32_t)a->height,
        .width = (uint32_t)a->width,
        .top = nearest_offset(a->top, a->height, a->out_height),
        .left = nearest_offset(a->left, a->width, a->out_width),
        .by_channels = ls_cuda_divisor_of(a->channels / unit),
        .by_width = ls_cuda_divisor_of(a->out_width),
        .by_height = ls_cuda_divisor_of(a->out_height),
        .x = a->x,
        .y = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_pad", ls_ceil_div(p.count, LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

/* -- 16-bit storage ---------------------------------------------------------------------------- */

static ls_cuda_format16 format16_of(ls_format16 format, size_t count, const float *wide,
                                    const uint16_t *narrow)
{
    return (ls_cuda_format16){
        .count = count,
        .vector = (uintptr_t)narrow % 8 == 0 && ls_cuda_moves_quads(wide, 0),
        .is_bf16 = format == LS_FORMAT_BF16,
        .wide = (float *)(uintptr_t)wide,
        .narrow = (uint16_t *)(uintptr_t)narrow,
    };
}

ls_status ls_narrow_cuda(ls_stream *stream, const ls_narrow_args *a)
{
    const ls_cuda_format16 p = format16_of(a->format, a->count, a->x, a->y);
    return LS_CUDA_ENQUEUE(stream, "ls_narrow", ls_ceil_div(a->count, 4 * LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

ls_status ls_widen_cuda(ls_stream *stream, const ls_widen_args *a)
{
    const ls_cuda_format16 p = format16_of(a->format, a->count, a->y, a->x);
    return LS_CUDA_ENQUEUE(stream, "ls_widen", ls_ceil_div(a->count, 4 * LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}
