/* SPDX-License-Identifier: MIT */
/* pool.c -- host: max and average pooling and their gradients, vectorised over channels.
 *
 * NHWC keeps the channels of a place together, so a window is scanned for a word of channels at a
 * time, with the largest values and their places in registers. Selects as in reference/pool.c. The
 * scan begins with the window's first valid element as the largest, and meeting it again changes
 * nothing. Whole windows of 2 x 2, the usual ones, have the loops over a window unrolled.
 *
 * Gradient: where windows do not overlap, an input belongs to one output at most. Then every place
 * is written once, chosen or +0, and rows are apart, so threads share them. Where they overlap, a
 * sample is one task: it is cleared, and each output in order adds its gradient or +0 to every
 * place of its window. Adding +0 changes no sum that began with +0.
 *
 * Average pooling gathers both ways: an output adds up the places of its window, an input the
 * windows over it, with the sums of up to 64 channels beside each other.
 */
#include <string.h>

#include "kernels/host/lanes.h"
#include "kernels/host/pool.h"
#include "kernels/host/ranges.h"

enum { CHANNELS = 64, GRAIN = 32768, AHEAD_BYTES = 2048 };

/* Places of a window that lie inside the input, in one direction. */
typedef struct {
    size_t begin, end;
} bounds;

static inline bounds places_inside(size_t out, size_t stride, size_t pad, size_t size,
                                   size_t extent)
{
    const size_t at = out * stride, rest = extent + pad - at;
    return (bounds){ at < pad ? pad - at : 0, rest < size ? rest : size };
}

/* The part of a window that lies inside the input, and where its first place is in a sample, in
 * places (h * width + w). */
typedef struct {
    bounds row, column;
    size_t place;
} window;

static inline window window_at(const ls_pool_shape *s, size_t oh, size_t ow)
{
    window v;
    v.row = places_inside(oh, s->stride_height, s->pad_top, s->window_height, s->height);
    v.column = places_inside(ow, s->stride_width, s->pad_left, s->window_width, s->width);
    v.place = (oh * s->stride_height + v.row.begin - s->pad_top) * s->width
              + (ow * s->stride_width + v.column.begin - s->pad_left);
    return v;
}

static inline bool is_whole_square(const ls_pool_shape *s, window v)
{
    return s->window_width == 2 && v.row.begin == 0 && v.row.end == 2 && v.column.begin == 0
           && v.column.end == 2;
}

static const window square = { .row = { 0, 2 }, .column = { 0, 2 } };

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

/* One window for a word of channels; x is its first valid place's first channel. */
LS_ALWAYS_INLINE void pool_word(steps step, window v, const float *x, size_t lanes, float *y,
                                uint8_t *place)
{
    ls_vec largest = ls_vec_load_lanes(x, lanes);
    ls_bytes stood = ls_bytes_set((int)(v.row.begin * step.window_width + v.column.begin));
    for (size_t i = v.row.begin; i < v.row.end; i++) {
        for (size_t j = v.column.begin; j < v.column.end; j++) {
            const size_t at = (i - v.row.begin) * step.below + (j - v.column.begin) * step.beside;
            const ls_vec met = ls_vec_load_lanes(x + at, lanes);
            const ls_mask replaces = ls_vec_replaces(met, largest);
            largest = ls_vec_select(replaces, met, largest);
            stood = ls_bytes_select(replaces, ls_bytes_set((int)(i * step.window_width + j)),
                                    stood);
        }
    }
    ls_vec_store_lanes(y, largest, lanes);
    store_bytes(place, stood, lanes);
}

LS_ALWAYS_INLINE void pool_window(steps step, window v, const float *x, float *y, uint8_t *place)
{
    size_t c = 0;
    for (; c + LS_LANES <= step.beside; c += LS_LANES) {
        pool_word(step, v, x + c, LS_LANES, y + c, place + c);
    }
    if (c < step.beside) pool_word(step, v, x + c, step.beside - c, y + c, place + c);
}

/* Output rows [begin, end), counted through all samples. */
static void pool_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_args *args = args_;
    const ls_pool_shape *s = &args->shape;
    const steps step = steps_of(s), square_step = { step.below, step.beside, 2 };
    for (size_t row = begin; row < end; row++) {
        const size_t oh = row % s->out_height;
        const float *x = args->x + row / s->out_height * s->height * step.below;
        float *y = args->y + row * s->out_width * s->channels;
        uint8_t *place = args->place + row * s->out_width * s->channels;
        for (size_t ow = 0; ow < s->out_width; ow++, y += s->channels, place += s->channels) {
            const window v = window_at(s, oh, ow);
            const float *first = x + v.place * s->channels;
            if (is_whole_square(s, v)) pool_window(square_step, square, first, y, place);
            else pool_window(step, v, first, y, place);
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

/* What is known of an output, from its channel `at` on. */
typedef struct {
    const float *dy, *relu_y;
    const uint8_t *place;
} output;

static inline output output_at(const ls_max_pool_gradient_args *args, size_t at)
{
    return (output){ args->dy + at, args->relu_y != NULL ? args->relu_y + at : NULL,
                     args->place + at };
}

/* Slices are made with multiplications in between (pooled_gradient.c), after which the processor
 * must find the streams anew. An address, not a pointer: it may lie past the tensor, and then
 * nothing happens. */
static inline void fetch_ahead(const float *p)
{
    __builtin_prefetch((const void *)((uintptr_t)p + AHEAD_BYTES));
}

/* `columns` places in a row of a window, the first of which is number `place`: dx gets the output's
 * gradient where it was chosen and +0 elsewhere, or has that added. A word of channels; the next
 * place is `beside` floats on. */
LS_ALWAYS_INLINE void give_word(output o, int place, size_t columns, bool adds, size_t lanes,
                                float *dx, size_t beside)
{
    const ls_vec zero = ls_vec_zero();
    ls_vec gradient = ls_vec_load_lanes(o.dy, lanes);
    fetch_ahead(o.dy);
    if (o.relu_y != NULL) {
        fetch_ahead(o.relu_y);
        const ls_vec y = ls_vec_load_lanes(o.relu_y, lanes);
        gradient = ls_vec_select(ls_vec_positive(y), gradient, zero);
    }
    gradient = ls_vec_add(gradient, zero); /* stored, it is a chain of one term: -0 becomes +0 */
    const ls_bytes chosen = load_bytes(o.place, lanes);
    for (size_t j = 0; j < columns; j++) {
        float *to = dx + j * beside;
        const ls_mask here = ls_bytes_equal(chosen, ls_bytes_set(place + (int)j));
        const ls_vec part = ls_vec_select(here, gradient, zero);
        ls_vec_store_lanes(to, adds ? ls_vec_add(ls_vec_load_lanes(to, lanes), part) : part, lanes);
    }
}

/* `count` channels, from `at` on. */
LS_ALWAYS_INLINE void give_row(const ls_max_pool_gradient_args *args, size_t at, size_t count,
                               size_t place, size_t columns, bool adds, float *dx)
{
    size_t c = 0;
    for (; c + LS_LANES <= count; c += LS_LANES) {
        give_word(output_at(args, at + c), (int)place, columns, adds, LS_LANES, dx + c, count);
    }
    if (c == count) return;
    give_word(output_at(args, at + c), (int)place, columns, adds, count - c, dx + c, count);
}

void LS_HOST(max_pool_gradient_row)(const ls_max_pool_gradient_args *args, size_t row, size_t first,
                                    size_t count, float *to)
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
        const bounds v = places_inside(ow, s->stride_width, s->pad_left, s->window_width, s->width);
        float *dx = to + (ow * s->stride_width + v.begin - s->pad_left) * count;
        const size_t place = i * s->window_width + v.begin, columns = v.end - v.begin;
        if (columns == 2) give_row(args, at, count, place, 2, false, dx);
        else give_row(args, at, count, place, columns, false, dx);
    }
}

/* Windows apart: input rows [begin, end), counted through all samples. */
static void gradient_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_max_pool_gradient_args *args = args_;
    const size_t C = args->shape.channels, floats = args->shape.width * C;
    for (size_t row = begin; row < end; row++) {
        LS_HOST(max_pool_gradient_row)(args, row, 0, C, args->dx + row * floats);
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
            for (size_t i = v.row.begin; i < v.row.end; i++) {
                give_row(args, (n * outputs + o) * C, C, i * s->window_width + v.column.begin,
                         v.column.end - v.column.begin, true,
                         dx + (v.place + (i - v.row.begin) * s->width) * C);
            }
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

/* -- average pooling --------------------------------------------------------------------------- */

static float places_of(window v)
{
    return (float)((v.row.end - v.row.begin) * (v.column.end - v.column.begin));
}

/* One window for `count` <= CHANNELS channels, as pool_window. */
static void average_window(const ls_pool_shape *s, window v, const float *x, size_t count,
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
