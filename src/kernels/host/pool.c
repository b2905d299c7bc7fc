/* SPDX-License-Identifier: MIT */
/* pool.c -- host: max pooling and its gradient, vectorised over channels.
 *
 * NHWC keeps the channels of a place together, so a window is scanned for a word of channels at a
 * time, with the largest values and their places in registers. Selects as in reference/pool.c. The
 * window's first valid element is the largest at first.
 *
 * Gradient: where windows do not overlap, an input belongs to one output at most. Then every place
 * is written once, chosen or +0, and rows are apart, so threads share them. Where they overlap, a
 * sample is one task: it is cleared, and each output in order adds its gradient or +0 to every
 * place of its window. Adding +0 changes no sum that began with +0.
 *
 * The usual windows, of 2 x 2 side by side, are SQUARES: what concerns their place is known for a
 * whole row of outputs, and a gradient's two rows are written together.
 */
#include <string.h>

#include "kernels/host/lanes.h"
#include "kernels/host/pool.h"
#include "kernels/host/pool_window.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 32768, AHEAD_BYTES = 2048 };

static const ls_window square = { .row = { 0, 2 }, .column = { 0, 2 } };

LS_ALWAYS_INLINE ls_bytes load_bytes(const uint8_t *p, size_t lanes)
{
    uint8_t all[LS_LANES] = { 0 };
    if (lanes == LS_LANES) return ls_bytes_load(p);
    memcpy(all, p, lanes);
    return ls_bytes_load(all);
}

LS_ALWAYS_INLINE void store_bytes(uint8_t *p, ls_bytes v, size_t lanes)
{
    uint8_t all[LS_LANES];
    if (lanes == LS_LANES) {
        ls_bytes_store(p, v);
    } else {
        ls_bytes_store(all, v);
        memcpy(p, all, lanes);
    }
}

/* -- max pooling ------------------------------------------------------------------------------- */

/* What the functions of a window know about all windows of a tensor: floats from a place to the
 * next one below and beside it, and places in a window's row. */
typedef struct {
    size_t below, beside, window_width;
} steps;

static steps steps_of(const ls_pool_shape *s)
{
    return (steps){ s->width * s->channels, s->channels, s->window_width };
}

/* One window for a word of channels; x is its first valid place's first channel. The lines of y are
 * asked for ahead: under a convolution they are far, and stores that wait for them fill the queue
 * of stores. (Measured: 0.77 of the time in a step of cifar10-cnn.) */
LS_ALWAYS_INLINE void pool_word(steps step, ls_window v, const float *x, size_t lanes, float *y,
                                uint8_t *place)
{
    ls_vec largest = ls_vec_load_lanes(x, lanes);
    ls_bytes stood = ls_bytes_set((int)(v.row.begin * step.window_width + v.column.begin));
    for (size_t i = v.row.begin; i < v.row.end; i++) {
        for (size_t j = v.column.begin; j < v.column.end; j++) {
            if (i == v.row.begin && j == v.column.begin) continue;
            const size_t at = (i - v.row.begin) * step.below + (j - v.column.begin) * step.beside;
            ls_pool_meet(ls_vec_load_lanes(x + at, lanes), (int)(i * step.window_width + j),
                         &largest, &stood);
        }
    }
    ls_fetch_target(y);
    ls_vec_store_lanes(y, largest, lanes);
    store_bytes(place, stood, lanes);
}

LS_ALWAYS_INLINE void pool_window(steps step, ls_window v, const float *x, float *y, uint8_t *place)
{
    size_t c = 0;
    for (; c + LS_LANES <= step.beside; c += LS_LANES) {
        pool_word(step, v, x + c, LS_LANES, y + c, place + c);
    }
    if (c < step.beside) pool_word(step, v, x + c, step.beside - c, y + c, place + c);
}

/* A row of outputs; x is the upper of their two rows. */
static void pool_squares(const ls_pool_shape *s, const float *x, float *y, uint8_t *place)
{
    const size_t C = s->channels;
    const steps step = { s->width * C, C, 2 };
    for (size_t ow = 0; ow < s->out_width; ow++, x += 2 * C, y += C, place += C) {
        pool_window(step, square, x, y, place);
    }
}

/* Output rows [begin, end), counted through all samples. */
static void pool_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    const steps step = steps_of(s);
    const bool squares = ls_max_pool_has_squares(s);
    for (size_t row = begin; row < end; row++) {
        const size_t oh = row % s->out_height;
        const float *x = args->x + row / s->out_height * s->height * step.below;
        float *y = args->y + row * s->out_width * s->channels;
        uint8_t *place = args->place + row * s->out_width * s->channels;
        if (squares) {
            pool_squares(s, x + 2 * oh * step.below, y, place);
            continue;
        }
        for (size_t ow = 0; ow < s->out_width; ow++, y += s->channels, place += s->channels) {
            const ls_window v = ls_window_at(s, oh, ow);
            pool_window(step, v, x + v.place * s->channels, y, place);
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

/* What dx is made of. A copy of the arguments: a loop that stores keeps it in registers. */
typedef struct {
    const float *dy, *relu_y;
    const uint8_t *place;
} source;

static source source_of(const ls_max_pool_gradient_args *args)
{
    return (source){ args->dy, args->relu_y, args->place };
}

/* Slices are made with multiplications in between (pooled_gradient.c), after which the processor
 * must find the streams anew. An address, not a pointer: it may lie past the tensor, and then
 * nothing happens. */
static inline void fetch_ahead(const void *p, size_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)p + bytes));
}

/* Places of a window, some rows of some columns: the number of the first one, and floats from a
 * place to those below and beside it. */
typedef struct {
    int first, window_width;
    size_t rows, columns, below, beside;
} places;

/* A word of channels of dx: the gradient of output `at` where it was chosen and +0 elsewhere, or
 * that added to what is there. */
LS_ALWAYS_INLINE void give_word(source from, size_t at, places p, bool adds, size_t lanes,
                                float *dx)
{
    const ls_vec zero = ls_vec_zero();
    ls_vec gradient = ls_vec_load_lanes(from.dy + at, lanes);
    fetch_ahead(from.dy + at, AHEAD_BYTES);
    if (from.relu_y != NULL) {
        fetch_ahead(from.relu_y + at, AHEAD_BYTES);
        const ls_vec y = ls_vec_load_lanes(from.relu_y + at, lanes);
        gradient = ls_vec_select(ls_vec_below(zero, y), gradient, zero);
    }
    gradient = ls_vec_add(gradient, zero); /* stored, it is a chain of one term: -0 becomes +0 */
    fetch_ahead(from.place + at, AHEAD_BYTES / sizeof(float));
    const ls_bytes chosen = load_bytes(from.place + at, lanes);
    for (size_t i = 0; i < p.rows; i++) {
        for (size_t j = 0; j < p.columns; j++) {
            float *to = dx + i * p.below + j * p.beside;
            const int place = p.first + (int)i * p.window_width + (int)j;
            const ls_mask here = ls_bytes_equal(chosen, ls_bytes_set(place));
            const ls_vec part = ls_vec_select(here, gradient, zero);
            ls_vec_store_lanes(to, adds ? ls_vec_add(ls_vec_load_lanes(to, lanes), part) : part,
                               lanes);
        }
    }
}

/* `count` channels, from that of `at` on. */
LS_ALWAYS_INLINE void give_window(source from, size_t at, size_t count, places p, bool adds,
                                  float *dx)
{
    size_t c = 0;
    for (; c + LS_LANES <= count; c += LS_LANES) {
        give_word(from, at + c, p, adds, LS_LANES, dx + c);
    }
    if (c < count) give_word(from, at + c, p, adds, count - c, dx + c);
}

/* A row of outputs, the first of which is `at`: both rows of their windows. */
static void give_squares(const ls_max_pool_gradient_args *args, size_t at, size_t count, float *to)
{
    const source from = source_of(args);
    const size_t end = at + args->shape.out_width * args->shape.channels;
    const size_t channels = args->shape.channels;
    const places p = { 0, 2, 2, 2, args->shape.width * count, count };
    for (; at < end; at += channels, to += 2 * count) give_window(from, at, count, p, false, to);
}

/* One row of dx. */
static void give_row(const ls_max_pool_gradient_args *args, size_t row, size_t first, size_t count,
                     float *to)
{
    const ls_pool_shape *s = &args->shape;
    const size_t n = row / s->height, top = row % s->height + s->pad_top;
    const size_t oh = top / s->stride_height, i = top % s->stride_height;
    const bool misses = oh >= s->out_height || i >= s->window_height;
    const bool gaps = s->stride_width > s->window_width || s->pad_left > 0 ||
                      s->out_width * s->stride_width != s->width;
    if (misses || gaps) memset(to, 0, s->width * count * sizeof *to); /* what no window covers */
    if (misses) return;
    size_t at = (n * s->out_height + oh) * s->out_width * s->channels + first;
    for (size_t ow = 0; ow < s->out_width; ow++, at += s->channels) {
        const ls_bounds v = ls_places_inside(ow, s->stride_width, s->pad_left, s->window_width,
                                             s->width);
        const places p = { .first = (int)(i * s->window_width + v.begin), .rows = 1,
                           .columns = v.end - v.begin, .beside = count };
        float *dx = to + (ow * s->stride_width + v.begin - s->pad_left) * count;
        give_window(source_of(args), at, count, p, false, dx);
    }
}

void LS_HOST(max_pool_gradient_rows)(const ls_max_pool_gradient_args *args, size_t row, size_t rows,
                                     size_t first, size_t count, float *to)
{
    const ls_pool_shape *s = &args->shape;
    const size_t row_floats = s->width * count, end = row + rows;
    const bool squares = ls_max_pool_has_squares(s) && 2 * s->out_width == s->width;
    while (row < end) {
        const size_t h = row % s->height, oh = h / 2;
        if (squares && h % 2 == 0 && oh < s->out_height && row + 2 <= end) {
            const size_t out_row = row / s->height * s->out_height + oh;
            give_squares(args, out_row * s->out_width * s->channels + first, count, to);
            row += 2;
            to += 2 * row_floats;
        } else {
            give_row(args, row++, first, count, to);
            to += row_floats;
        }
    }
}

/* Windows apart: input rows [begin, end), counted through all samples. */
static void gradient_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_gradient_args *args = args_;
    const size_t C = args->shape.channels;
    float *to = args->dx + begin * args->shape.width * C;
    LS_HOST(max_pool_gradient_rows)(args, begin, end - begin, 0, C, to);
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
            const ls_window v = ls_window_at(s, o / s->out_width, o % s->out_width);
            const places p = { (int)(v.row.begin * s->window_width + v.column.begin),
                               (int)s->window_width, v.row.end - v.row.begin,
                               v.column.end - v.column.begin, s->width * C, C };
            give_window(source_of(args), (n * outputs + o) * C, C, p, true, dx + v.place * C);
        }
    }
}

ls_status LS_HOST(max_pool_gradient)(ls_stream *stream, const ls_max_pool_gradient_args *args)
{
    const ls_pool_shape *s = &args->shape;
    const size_t row_floats = s->width * s->channels;
    if (ls_max_pool_windows_overlap(s)) {
        ls_range_run(stream, s->samples, GRAIN / (s->height * row_floats), gradient_samples, args);
    } else {
        ls_range_run(stream, s->samples * s->height, GRAIN / row_floats, gradient_rows, args);
    }
    return LS_OK;
}
