/* SPDX-License-Identifier: MIT */
/* conv.c -- convolution forward and the gradient of its input, as matrix products (product.c).
 *
 *   forward          rows = output places, columns = filters, k = (r, s, channel)
 *                    A[place, k] = the patch (patch.h), B[k, f] = w[f, k]: columns of B contiguous
 *   input gradient   rows = input places, columns = channels, k = (r, s, filter)
 *                    A[place, k] = dy at the output that reads the place through tap (r, s), or +0
 *                    B[k, c] = w[f, r, s, c]: rows of B contiguous
 *
 * With a stride, an input place is read through every stride-th tap only, and which these are
 * depends on its row and column modulo the strides: input rows h with (h + pad_top) mod
 * stride_height = i are read through taps r = i, i + stride_height, ... alone. So the input gradient
 * is one product for each pair of remainders, with the taps that this pair has, ascending:
 *
 *      stride 2, 3 taps, no padding     h  0 1 2 3 4        h even: taps 0 2,  h odd: tap 1
 *
 * A remainder without taps is a product of depth 0, which gives +0. With stride 1 there is one
 * remainder and every tap belongs to it.
 */
#include "kernels/host/pack.h"
#include "kernels/host/patch.h"
#include "kernels/host/product.h"

static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* -- forward ---------------------------------------------------------------------------------- */

static size_t filter_floats(const ls_conv_shape *s)
{
    return s->kernel_height * s->kernel_width * s->channels;
}

static void take_patches(const void *operands, size_t first_row, size_t first_k, size_t depth,
                         float *buffer, ls_tile *tile)
{
    const ls_conv_forward_args *a = operands;
    LS_HOST(patch_copy)(&a->shape, a->x, first_k, first_k + depth, first_row, (size_t)tile->rows,
                        buffer, LS_ROW_STEP);
    tile->a = buffer;
    tile->a_row_step = LS_ROW_STEP;
    tile->a_step = 1;
}

static void pack_filters(const void *operands, size_t first_k, size_t depth, size_t first_column,
                         size_t columns, float *panel)
{
    const ls_conv_forward_args *a = operands;
    const size_t step = filter_floats(&a->shape);
    ls_pack_columns(panel, a->w + first_column * step + first_k, step, depth, columns);
}

ls_status LS_HOST(conv_forward)(ls_stream *stream, const ls_conv_forward_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const ls_product product = {
        .rows = s->samples * s->out_height * s->out_width,
        .columns = s->filters,
        .depth = filter_floats(s),
        .operands = a,
        .take_rows = take_patches,
        .pack = pack_filters,
        .row_cost = 0.25,
        .pack_cost = 0.4,
        .bias = a->bias,
        .relu = a->relu,
        .C = a->y,
        .step = s->filters,
    };
    LS_HOST(product)(stream->device->pool, &product);
    return LS_OK;
}

/* -- gradient of the input ---------------------------------------------------------------------- */

/* Along one axis: the places with one remainder, and the taps that they are read through. */
typedef struct {
    size_t first_place, place_count; /* places first_place + i * stride */
    size_t first_tap, tap_count;     /* taps first_tap + j * stride */
    size_t first_out;                /* place 0 reads output first_out through tap 0; see out_of */
} axis;

static axis axis_of(size_t remainder, size_t extent, size_t stride, size_t pad, size_t kernel)
{
    /* The first place >= 0 with (place + pad) mod stride = remainder. */
    const size_t first = (remainder + stride - pad % stride) % stride;
    return (axis){
        .first_place = first,
        .place_count = first < extent ? ceil_div(extent - first, stride) : 0,
        .first_tap = remainder,
        .tap_count = remainder < kernel ? ceil_div(kernel - remainder, stride) : 0,
        .first_out = (first + pad) / stride,
    };
}

/* The output that place i is read by through tap j: (place + pad - tap) / stride. Below 0 it is
 * huge, and so beyond the output too. */
static size_t out_of(const axis *a, size_t i, size_t j) { return a->first_out + i - j; }

typedef struct {
    const ls_conv_input_gradient_args *args;
    axis row, column;
} remainder_job;

static void take_gradients(const void *operands, size_t first_row, size_t first_k, size_t depth,
                           float *buffer, ls_tile *tile)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    size_t column = first_row % j->column.place_count;
    size_t row = first_row / j->column.place_count % j->row.place_count;
    size_t n = first_row / j->column.place_count / j->row.place_count;
    for (int i = 0; i < tile->rows; i++) {
        float *to = buffer + i * LS_ROW_STEP;
        size_t tap = first_k / s->filters, f = first_k % s->filters;
        for (size_t left = depth; left > 0; tap++, f = 0) {
            const size_t count = min_size(s->filters - f, left);
            const size_t p = out_of(&j->row, row, tap / j->column.tap_count);
            const size_t q = out_of(&j->column, column, tap % j->column.tap_count);
            if (p < s->out_height && q < s->out_width) {
                const size_t place = (n * s->out_height + p) * s->out_width + q;
                ls_copy_over(to, j->args->dy + place * s->filters + f, count);
            } else {
                ls_zero_over(to, count);
            }
            to += count;
            left -= count;
        }
        if (++column < j->column.place_count) continue;
        column = 0;
        if (++row < j->row.place_count) continue;
        row = 0;
        n++;
    }
    tile->a = buffer;
    tile->a_row_step = LS_ROW_STEP;
    tile->a_step = 1;
}

static void pack_taps(const void *operands, size_t first_k, size_t depth, size_t first_column,
                      size_t columns, float *panel)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    size_t tap = first_k / s->filters, f = first_k % s->filters;
    for (size_t left = depth; left > 0; tap++, f = 0) {
        const size_t count = min_size(s->filters - f, left);
        const size_t r = j->row.first_tap + tap / j->column.tap_count * s->stride_height;
        const size_t t = j->column.first_tap + tap % j->column.tap_count * s->stride_width;
        const float *from = j->args->w + ((f * s->kernel_height + r) * s->kernel_width + t)
                                         * s->channels;
        ls_pack_rows(panel, from + first_column, filter_floats(s), count, columns);
        panel += count * LS_TILE_COLUMNS;
        left -= count;
    }
}

/* Group g is one row of places of this remainder: their columns are a stride apart. */
static float *place_row(const void *operands, size_t g)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    const size_t n = g / j->row.place_count, i = g % j->row.place_count;
    const size_t h = j->row.first_place + i * s->stride_height;
    return j->args->dx + ((n * s->height + h) * s->width + j->column.first_place) * s->channels;
}

ls_status LS_HOST(conv_input_gradient)(ls_stream *stream, const ls_conv_input_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const bool dense = s->stride_height == 1 && s->stride_width == 1;
    for (size_t i = 0; i < s->stride_height; i++) {
        for (size_t k = 0; k < s->stride_width; k++) {
            const remainder_job j = {
                .args = a,
                .row = axis_of(i, s->height, s->stride_height, s->pad_top, s->kernel_height),
                .column = axis_of(k, s->width, s->stride_width, s->pad_left, s->kernel_width),
            };
            const ls_product product = {
                .rows = s->samples * j.row.place_count * j.column.place_count,
                .columns = s->channels,
                .depth = j.row.tap_count * j.column.tap_count * s->filters,
                .operands = &j,
                .take_rows = take_gradients,
                .pack = pack_taps,
                .row_cost = 0.25,
                .pack_cost = 0.15,
                .C = a->dx,
                .step = s->stride_width * s->channels,
                .group = dense ? 0 : j.column.place_count,
                .place = place_row,
            };
            LS_HOST(product)(stream->device->pool, &product);
        }
    }
    return LS_OK;
}
