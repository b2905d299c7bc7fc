/* SPDX-License-Identifier: MIT */
/* average_pool.c -- host: average pooling and its gradient.
 *
 * It gathers both ways: an output adds up the places of its window, an input the windows over it,
 * with the sums of up to 64 channels beside each other.
 */
#include <string.h>

#include "kernels/host/pool_window.h"
#include "kernels/host/ranges.h"

enum { CHANNELS = 64, GRAIN = 32768 };

static float places_of(ls_window v)
{
    return (float)((v.row.end - v.row.begin) * (v.column.end - v.column.begin));
}

/* One window for `count` <= CHANNELS channels; x is its first valid place's first channel. */
static void average_window(const ls_pool_shape *s, ls_window v, const float *x, size_t count,
                           float *y)
{
    float sum[CHANNELS] = { 0 };
    for (size_t i = v.row.begin; i < v.row.end; i++) {
        for (size_t j = v.column.begin; j < v.column.end; j++) {
            const size_t below = i - v.row.begin, beside = j - v.column.begin;
            const float *at = x + (below * s->width + beside) * s->channels;
            for (size_t c = 0; c < count; c++) sum[c] += at[c];
        }
    }
    const float places = places_of(v);
    for (size_t c = 0; c < count; c++) y[c] = sum[c] / places;
}

/* Output rows [begin, end), counted through all samples. */
static void average_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_average_pool_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    for (size_t row = begin; row < end; row++) {
        const float *x = args->x + row / s->out_height * s->height * s->width * s->channels;
        for (size_t ow = 0; ow < s->out_width; ow++) {
            const ls_window v = ls_window_at(s, row % s->out_height, ow);
            float *y = args->y + (row * s->out_width + ow) * s->channels;
            for (size_t c = 0; c < s->channels; c += CHANNELS) {
                const size_t left = s->channels - c;
                average_window(s, v, x + v.place * s->channels + c,
                               left < CHANNELS ? left : CHANNELS, y + c);
            }
        }
    }
}

ls_status LS_HOST(average_pool)(ls_stream *stream, const ls_average_pool_args *args)
{
    const ls_pool_shape *s = &args->shape;
    const size_t floats = s->window_height * s->width * s->channels;
    ls_range_run(stream, s->samples * s->out_height, GRAIN / floats, average_rows, args);
    return LS_OK;
}

/* The outputs [begin, end), in one direction, whose windows hold input `in`. */
typedef struct {
    size_t begin, end;
} windows;

static windows windows_over(size_t in, size_t stride, size_t pad, size_t size, size_t out)
{
    const size_t at = in + pad, last = at / stride;
    windows over = { at < size ? 0 : (at - size) / stride + 1, last < out ? last + 1 : out };
    return over;
}

/* One input for `count` <= CHANNELS channels; dy is the sample's first output's channel. */
static void share_of_input(const ls_pool_shape *s, windows rows, windows columns, const float *dy,
                           size_t count, float *dx)
{
    float sum[CHANNELS] = { 0 };
    for (size_t oh = rows.begin; oh < rows.end; oh++) {
        for (size_t ow = columns.begin; ow < columns.end; ow++) {
            const float places = places_of(ls_window_at(s, oh, ow));
            const float *at = dy + (oh * s->out_width + ow) * s->channels;
            for (size_t c = 0; c < count; c++) sum[c] += at[c] / places;
        }
    }
    memcpy(dx, sum, count * sizeof *dx);
}

/* Input rows [begin, end), counted through all samples. */
static void share_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_average_pool_gradient_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    for (size_t row = begin; row < end; row++) {
        const size_t n = row / s->height;
        const windows rows = windows_over(row % s->height, s->stride_height, s->pad_top,
                                          s->window_height, s->out_height);
        const float *dy = args->dy + n * s->out_height * s->out_width * s->channels;
        for (size_t w = 0; w < s->width; w++) {
            const windows columns = windows_over(w, s->stride_width, s->pad_left,
                                                 s->window_width, s->out_width);
            float *dx = args->dx + (row * s->width + w) * s->channels;
            for (size_t c = 0; c < s->channels; c += CHANNELS) {
                const size_t left = s->channels - c;
                share_of_input(s, rows, columns, dy + c, left < CHANNELS ? left : CHANNELS,
                               dx + c);
            }
        }
    }
}

ls_status LS_HOST(average_pool_gradient)(ls_stream *stream,
                                         const ls_average_pool_gradient_args *args)
{
    const ls_pool_shape *s = &args->shape;
    ls_range_run(stream, s->samples * s->height, GRAIN / (s->width * s->channels), share_rows,
                 args);
    return LS_OK;
}
