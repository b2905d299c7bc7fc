/* SPDX-License-Identifier: MIT */
/* pool.c -- reference: max pooling, average pooling, and their gradients.
 *
 * The definition of the bits (docs/numerics.md 1.6). A window is scanned row by row, column by
 * column, over the places that lie inside the input; an element replaces the largest so far if it
 * is larger or a NaN, so the first of equals wins and a NaN gets through. `place` keeps where it
 * stood. The gradient of an output goes to that place alone; an input that several windows chose
 * gets the chain of their gradients, output row then column ascending. The average of a window is
 * the chain over its places inside the input, in the same order, by their number; its gradient is
 * shared out in equal parts.
 */
#include "kernels/pooled.h"
#include "kernels/reference/reference.h"

/* The row or column of the input under place `i` of the window at output `out`; outside the input
 * it is at or above `extent`, also left of it (the subtraction wraps). */
static size_t input_at(size_t out, size_t stride, size_t pad, size_t i)
{
    return out * stride + i - pad;
}

static void pool_one(const ls_max_pool_args *args, size_t n, size_t oh, size_t ow, size_t c)
{
    const ls_pool_shape *s = &args->shape;
    const size_t at = ((n * s->out_height + oh) * s->out_width + ow) * s->channels + c;
    bool found = false;
    float m = 0.0f;
    size_t place = 0;
    for (size_t i = 0; i < s->window_height; i++) {
        const size_t h = input_at(oh, s->stride_height, s->pad_top, i);
        if (h >= s->height) continue;
        for (size_t j = 0; j < s->window_width; j++) {
            const size_t w = input_at(ow, s->stride_width, s->pad_left, j);
            if (w >= s->width) continue;
            const float x = args->x[((n * s->height + h) * s->width + w) * s->channels + c];
            if (!found || x > m || x != x) {
                m = x;
                place = i * s->window_width + j;
            }
            found = true;
        }
    }
    args->y[at] = m;
    args->place[at] = (uint8_t)place;
}

ls_status ls_max_pool_reference(ls_stream *stream, const ls_max_pool_args *args)
{
    (void)stream;
    const ls_pool_shape *s = &args->shape;
    for (size_t n = 0; n < s->samples; n++) {
        for (size_t oh = 0; oh < s->out_height; oh++) {
            for (size_t ow = 0; ow < s->out_width; ow++) {
                for (size_t c = 0; c < s->channels; c++) pool_one(args, n, oh, ow, c);
            }
        }
    }
    return LS_OK;
}

ls_status ls_max_pool_gradient_reference(ls_stream *stream, const ls_max_pool_gradient_args *args)
{
    (void)stream;
    const ls_pool_shape *s = &args->shape;
    const size_t inputs = s->samples * s->height * s->width * s->channels;
    for (size_t e = 0; e < inputs; e++) args->dx[e] = 0.0f;
    for (size_t at = 0; at < s->samples * s->out_height * s->out_width * s->channels; at++) {
        const size_t c = at % s->channels;
        const size_t ow = at / s->channels % s->out_width;
        const size_t oh = at / s->channels / s->out_width % s->out_height;
        const size_t n = at / s->channels / s->out_width / s->out_height;
        const size_t place = args->place[at];
        const size_t h = input_at(oh, s->stride_height, s->pad_top, place / s->window_width);
        const size_t w = input_at(ow, s->stride_width, s->pad_left, place % s->window_width);
        const float dy = !args->relu_y || args->relu_y[at] > 0.0f ? args->dy[at] : 0.0f;
        /* A chain of additions from +0 never becomes -0: the last + 0.0f has nothing to do. */
        args->dx[((n * s->height + h) * s->width + w) * s->channels + c] += dy;
    }
    return LS_OK;
}

/* Places of the window at output `out` that lie inside the input, in one direction. */
static size_t valid_places(size_t out, size_t stride, size_t pad, size_t window, size_t extent)
{
    size_t count = 0;
    for (size_t i = 0; i < window; i++) count += input_at(out, stride, pad, i) < extent;
    return count;
}

static float valid_count(const ls_pool_shape *s, size_t oh, size_t ow)
{
    return (float)(valid_places(oh, s->stride_height, s->pad_top, s->window_height, s->height) *
                   valid_places(ow, s->stride_width, s->pad_left, s->window_width, s->width));
}

static float average_one(const ls_average_pool_args *args, size_t n, size_t oh, size_t ow,
                         size_t c)
{
    const ls_pool_shape *s = &args->shape;
    float sum = 0.0f;
    for (size_t i = 0; i < s->window_height; i++) {
        const size_t h = input_at(oh, s->stride_height, s->pad_top, i);
        if (h >= s->height) continue;
        for (size_t j = 0; j < s->window_width; j++) {
            const size_t w = input_at(ow, s->stride_width, s->pad_left, j);
            if (w >= s->width) continue;
            sum += args->x[((n * s->height + h) * s->width + w) * s->channels + c];
        }
    }
    return sum / valid_count(s, oh, ow); /* a sum from +0 is never -0 */
}

ls_status ls_average_pool_reference(ls_stream *stream, const ls_average_pool_args *args)
{
    (void)stream;
    const ls_pool_shape *s = &args->shape;
    for (size_t at = 0; at < s->samples * s->out_height * s->out_width * s->channels; at++) {
        const size_t c = at % s->channels;
        const size_t ow = at / s->channels % s->out_width;
        const size_t oh = at / s->channels / s->out_width % s->out_height;
        const size_t n = at / s->channels / s->out_width / s->out_height;
        args->y[at] = average_one(args, n, oh, ow, c);
    }
    return LS_OK;
}

/* dx += its part of one output's gradient, for every valid place of the window. */
static void share_out(const ls_average_pool_gradient_args *args, size_t n, size_t oh, size_t ow,
                      size_t c)
{
    const ls_pool_shape *s = &args->shape;
    const float dy = args->dy[((n * s->out_height + oh) * s->out_width + ow) * s->channels + c];
    const float part = dy / valid_count(s, oh, ow);
    for (size_t i = 0; i < s->window_height; i++) {
        const size_t h = input_at(oh, s->stride_height, s->pad_top, i);
        if (h >= s->height) continue;
        for (size_t j = 0; j < s->window_width; j++) {
            const size_t w = input_at(ow, s->stride_width, s->pad_left, j);
            if (w >= s->width) continue;
            args->dx[((n * s->height + h) * s->width + w) * s->channels + c] += part;
        }
    }
}

ls_status ls_average_pool_gradient_reference(ls_stream *stream,
                                             const ls_average_pool_gradient_args *args)
{
    (void)stream;
    const ls_pool_shape *s = &args->shape;
    const size_t inputs = s->samples * s->height * s->width * s->channels;
    for (size_t e = 0; e < inputs; e++) args->dx[e] = 0.0f;
    for (size_t n = 0; n < s->samples; n++) {
        for (size_t o = 0; o < s->out_height * s->out_width; o++) {
            for (size_t c = 0; c < s->channels; c++) {
                share_out(args, n, o / s->out_width, o % s->out_width, c);
            }
        }
    }
    return LS_OK;
}

ls_status ls_pooled_conv_forward_reference(ls_stream *stream,
                                           const ls_pooled_conv_forward_args *args)
{
    return ls_pooled_conv_forward_in_turn(&ls_kernels_reference, stream, args);
}

ls_status ls_pooled_weight_gradient_reference(ls_stream *stream,
                                              const ls_pooled_weight_gradient_args *args)
{
    return ls_pooled_weight_gradient_in_turn(&ls_kernels_reference, stream, args);
}
