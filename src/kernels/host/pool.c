/* SPDX-License-Identifier: MIT */
/* pool.c -- host: max and average pooling and their gradients, vectorised over channels.
 *
 * NHWC keeps the channels of a place together, so a window is scanned place by place, each step a
 * loop over up to 64 channels with the largest values and their places beside each other. Selects
 * as in reference/pool.c: the scan starts with the window's first valid element, whichever it is.
 *
 * Gradient: where windows do not overlap, an input belongs to one output at most. Then every place
 * of a window is written once, chosen or +0, and bands of rows under different output rows are
 * apart, so threads share them. Where they overlap, a sample is one task: it is cleared, and each
 * output in order adds its gradient or +0 to every place of its window. Adding +0 changes no sum
 * that began with +0.
 *
 * Average pooling gathers both ways: an output adds up the places of its window, an input the
 * windows over it, with the sums of up to 64 channels beside each other.
 */
#include <string.h>

#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { CHANNELS = 64, GRAIN = 32768 };

/* The part of a window that lies inside the input: window rows [row, row_end), columns alike, and
 * where its first place is in a sample, in places (h * width + w). */
typedef struct {
    size_t row, row_end, column, column_end;
    size_t place;
} window;

static window window_at(const ls_pool_shape *s, size_t oh, size_t ow)
{
    const size_t top = oh * s->stride_height, left = ow * s->stride_width;
    window v;
    v.row = top < s->pad_top ? s->pad_top - top : 0;
    v.column = left < s->pad_left ? s->pad_left - left : 0;
    const size_t rows = s->height + s->pad_top - top, columns = s->width + s->pad_left - left;
    v.row_end = rows < s->window_height ? rows : s->window_height;
    v.column_end = columns < s->window_width ? columns : s->window_width;
    v.place = (top + v.row - s->pad_top) * s->width + (left + v.column - s->pad_left);
    return v;
}

/* One window for `count` <= CHANNELS channels; x is its first valid place's first channel. */
static void pool_window(const ls_pool_shape *s, window v, const float *x, size_t count, float *y,
                        uint8_t *place)
{
    float m[CHANNELS];
    int32_t p[CHANNELS];
    const int32_t first = (int32_t)(v.row * s->window_width + v.column);
    for (size_t c = 0; c < count; c++) {
        m[c] = x[c];
        p[c] = first;
    }
    for (size_t i = v.row; i < v.row_end; i++) {
        for (size_t j = v.column; j < v.column_end; j++) {
            const float *at = x + ((i - v.row) * s->width + (j - v.column)) * s->channels;
            const int32_t here = (int32_t)(i * s->window_width + j);
            for (size_t c = 0; c < count; c++) {
                const int32_t replaces = (here != first) & ((at[c] > m[c]) | (at[c] != at[c]));
                m[c] = replaces ? at[c] : m[c];
                p[c] = replaces ? here : p[c];
            }
        }
    }
    for (size_t c = 0; c < count; c++) {
        y[c] = m[c];
        place[c] = (uint8_t)p[c];
    }
}

/* Output rows [begin, end), counted through all samples. */
static void pool_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    for (size_t row = begin; row < end; row++) {
        const float *x = args->x + row / s->out_height * s->height * s->width * s->channels;
        for (size_t ow = 0; ow < s->out_width; ow++) {
            const window v = window_at(s, row % s->out_height, ow);
            const size_t out = (row * s->out_width + ow) * s->channels;
            for (size_t c = 0; c < s->channels; c += CHANNELS) {
                const size_t left = s->channels - c;
                pool_window(s, v, x + v.place * s->channels + c, left < CHANNELS ? left : CHANNELS,
                            args->y + out + c, args->place + out + c);
            }
        }
    }
}

/* Rows that make a task: some GRAIN elements of the input. */
static size_t rows_per_task(const ls_pool_shape *s)
{
    return GRAIN / (s->stride_height * s->width * s->channels);
}

ls_status LS_HOST(max_pool)(ls_stream *stream, const ls_max_pool_args *args)
{
    const ls_pool_shape *s = &args->shape;
    ls_range_run(stream, s->samples * s->out_height, rows_per_task(s), pool_rows, args);
    return LS_OK;
}

/* Windows apart: the input rows under output rows [begin, end), counted through all samples. */
static void gradient_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_gradient_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    const size_t C = s->channels;
    const bool gaps = s->stride_height > s->window_height || s->stride_width > s->window_width ||
                      s->out_width * s->stride_width != s->width ||
                      s->out_height * s->stride_height != s->height || s->pad_top > 0 ||
                      s->pad_left > 0;
    for (size_t row = begin; row < end; row++) {
        const size_t oh = row % s->out_height;
        float *dx = args->dx + row / s->out_height * s->height * s->width * C;
        if (gaps) { /* what no window covers is +0; the first and last band go to the border */
            const size_t top = oh == 0 ? 0 : oh * s->stride_height - s->pad_top;
            const size_t below = (oh + 1) * s->stride_height - s->pad_top;
            const size_t bottom = oh + 1 == s->out_height ? s->height : below;
            memset(dx + top * s->width * C, 0, (bottom - top) * s->width * C * sizeof *dx);
        }
        for (size_t ow = 0; ow < s->out_width; ow++) {
            const window v = window_at(s, oh, ow);
            const float *restrict dy = args->dy + (row * s->out_width + ow) * C;
            const uint8_t *restrict place = args->place + (row * s->out_width + ow) * C;
            for (size_t i = v.row; i < v.row_end; i++) {
                for (size_t j = v.column; j < v.column_end; j++) {
                    float *restrict to =
                        dx + (v.place + (i - v.row) * s->width + (j - v.column)) * C;
                    const int32_t here = (int32_t)(i * s->window_width + j);
                    for (size_t c = 0; c < C; c++) {
                        const float gradient = dy[c] + 0.0f; /* a chain of one: -0 becomes +0 */
                        to[c] = (int32_t)place[c] == here ? gradient : 0.0f;
                    }
                }
            }
        }
    }
}

/* Windows that overlap: whole samples [begin, end). */
static void gradient_samples(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_gradient_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    const size_t C = s->channels, outputs = s->out_height * s->out_width;
    for (size_t n = begin; n < end; n++) {
        float *dx = args->dx + n * s->height * s->width * C;
        memset(dx, 0, s->height * s->width * C * sizeof *dx);
        for (size_t o = 0; o < outputs; o++) {
            const window v = window_at(s, o / s->out_width, o % s->out_width);
            const float *restrict dy = args->dy + (n * outputs + o) * C;
            const uint8_t *restrict place = args->place + (n * outputs + o) * C;
            for (size_t i = v.row; i < v.row_end; i++) {
                for (size_t j = v.column; j < v.column_end; j++) {
                    float *restrict to =
                        dx + (v.place + (i - v.row) * s->width + (j - v.column)) * C;
                    const int32_t here = (int32_t)(i * s->window_width + j);
                    for (size_t c = 0; c < C; c++) {
                        const float gradient = dy[c];
                        to[c] += (int32_t)place[c] == here ? gradient : 0.0f;
                    }
                }
            }
        }
    }
}

ls_status LS_HOST(max_pool_gradient)(ls_stream *stream, const ls_max_pool_gradient_args *args)
{
    const ls_pool_shape *s = &args->shape;
    if (s->stride_height >= s->window_height && s->stride_width >= s->window_width) {
        ls_range_run(stream, s->samples * s->out_height, rows_per_task(s), gradient_rows, args);
    } else {
        const size_t inputs = s->height * s->width * s->channels;
        ls_range_run(stream, s->samples, GRAIN / inputs, gradient_samples, args);
    }
    return LS_OK;
}

/* -- average pooling --------------------------------------------------------------------------- */

static float places_of(window v)
{
    return (float)((v.row_end - v.row) * (v.column_end - v.column));
}

/* One window for `count` <= CHANNELS channels, as pool_window. */
static void average_window(const ls_pool_shape *s, window v, const float *x, size_t count,
                           float *y)
{
    float sum[CHANNELS] = { 0 };
    for (size_t i = v.row; i < v.row_end; i++) {
        for (size_t j = v.column; j < v.column_end; j++) {
            const float *at = x + ((i - v.row) * s->width + (j - v.column)) * s->channels;
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
            const window v = window_at(s, row % s->out_height, ow);
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
            const float places = places_of(window_at(s, oh, ow));
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
