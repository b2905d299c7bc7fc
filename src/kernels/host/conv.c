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
 * stride_height = i are read through taps r = i, i + stride_height, ... alone. So the input
 * gradient is one product for each pair of remainders, with this pair's taps, ascending:
 *
 *      stride 2, 3 taps, no padding     h  0 1 2 3 4        h even: taps 0 2,  h odd: tap 1
 *
 * A remainder without taps is cleared. With stride 1 there is one remainder and every tap belongs
 * to it.
 */
#include <string.h>

#include "kernels/host/pack.h"
#include "kernels/host/patch.h"
#include "kernels/host/product.h"
#include "kernels/host/ranges.h"
#include "sizes.h"

/* Strided input gradients: floats of dx at once, and more if w is that large; and of a task that
 * clears. */
enum { SAMPLES_FLOATS = 1 << 16, WEIGHTS_SHARE = 4, CLEAR_GRAIN = 1 << 15 };

/* Rows of a tile of a product with so many columns, at most, that reads A's in place, `step` floats
 * apart. */
static int tile_rows(size_t columns, size_t step)
{
    return ls_rows_if_narrow(ls_rows_in_place(step), columns);
}

/* With one tap and stride 1 there is no padding, and rows and samples follow each other like
 * places: as good as a single image, of rows that fill a tile if there are whole ones. */
static ls_conv_shape flattened(const ls_conv_shape *s, int rows)
{
    ls_conv_shape flat = *s;
    if (s->samples == 0) return flat;
    if (s->kernel_height * s->kernel_width * s->stride_height * s->stride_width > 1) return flat;
    if (s->height != s->out_height || s->width != s->out_width) return flat;
    const size_t places = s->samples * s->height * s->width;
    flat.samples = 1;
    flat.width = flat.out_width = places % (size_t)rows == 0 ? (size_t)rows : places;
    flat.height = flat.out_height = places / flat.width;
    return flat;
}

/* -- forward ---------------------------------------------------------------------------------- */

static size_t filter_floats(const ls_conv_shape *s)
{
    return s->kernel_height * s->kernel_width * s->channels;
}

typedef struct {
    const ls_conv_forward_args *args;
    ls_tap_grid grid;
} forward_job;

/* A copy of the patches. */
static void take_patches(const void *operands, const ls_row_at *first, size_t first_k, size_t depth,
                         ls_rows_memory *memory, ls_tile *tile)
{
    const ls_conv_forward_args *a = ((const forward_job *)operands)->args;
    LS_HOST(patch_copy)(&a->shape, a->x, first_k, first_k + depth, first->row, (size_t)tile->rows,
                        memory->buffer, ls_row_step(depth));
    tile->a = memory->buffer;
    tile->a_row_step = ls_row_step(depth);
    tile->a_step = 1;
}

static void take_image(const void *operands, const ls_row_at *first, size_t first_k, size_t depth,
                       ls_rows_memory *memory, ls_tile *tile)
{
    const forward_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    const size_t n = first->group / s->out_height, p = first->group - n * s->out_height;
    const size_t q = first->within;
    const ls_tap_origin at = {n, (ptrdiff_t)(p * s->stride_height) - (ptrdiff_t)s->pad_top,
                              (ptrdiff_t)(q * s->stride_width) - (ptrdiff_t)s->pad_left};
    const size_t rows = ls_min_size(first->groups, s->out_height - p);
    memory->groups = LS_HOST(take_in_place)(&j->grid, &at, rows, first_k, depth, &memory->lists,
                                            tile);
    memory->group_step = s->stride_height * s->width * s->channels;
    if (memory->groups > 0) return;
    memory->groups = 1;
    take_patches(operands, first, first_k, depth, memory, tile);
}

static void pack_filters(const void *operands, size_t first_k, size_t depth, size_t first_column,
                         size_t columns, float *panel)
{
    const ls_conv_forward_args *a = ((const forward_job *)operands)->args;
    const size_t step = filter_floats(&a->shape);
    ls_pack_columns(panel, a->w + first_column * step + first_k, step, depth, columns);
}

ls_status LS_HOST(conv_forward)(ls_stream *stream, const ls_conv_forward_args *a)
{
    const int rows = tile_rows(a->shape.filters, a->shape.stride_width * a->shape.channels);
    ls_conv_forward_args args = *a;
    args.shape = flattened(&a->shape, rows);
    const ls_conv_shape *s = &args.shape;
    const forward_job j = {&args, {a->x, s->height, s->width, s->channels, s->kernel_height,
                               s->kernel_width, 1, s->stride_height, s->stride_width}};
    const bool direct = s->out_width >= LS_TILE_ROWS / 2;
    const ls_product product = {
        .rows = s->samples * s->out_height * s->out_width,
        .columns = s->filters,
        .depth = filter_floats(s),
        .run = s->kernel_width * s->channels,
        .block_depth = direct ? LS_DIRECT_DEPTH : LS_BLOCK_DEPTH,
        .tile_rows = direct ? rows : 0,
        .operands = &j,
        .take_rows = direct ? take_image : take_patches,
        .pack = pack_filters,
        .row_cost = direct ? 0.05 : 0.25,
        .pack_cost = 0.4,
        .bias = a->bias,
        .relu = a->relu,
        .C = a->y,
        .step = s->filters,
        .group = direct ? s->out_width : 0,
    };
    LS_HOST(product)(stream->device->pool, &product);
    return LS_OK;
}

/* -- gradient of the input -------------------------------------------------------------------- */

/* Along one axis: the places with one remainder, and the taps that they are read through. */
typedef struct {
    size_t first_place, place_count; /* places first_place + i * stride */
    size_t first_tap, tap_count;     /* taps first_tap + j * stride */
    size_t first_out;                /* the output that reads place 0 through tap 0 */
} axis;

static axis axis_of(size_t remainder, size_t extent, size_t stride, size_t pad, size_t kernel)
{
    /* The first place >= 0 with (place + pad) mod stride = remainder. */
    const size_t first = (remainder + stride - pad % stride) % stride;
    return (axis){
        .first_place = first,
        .place_count = first < extent ? ls_ceil_div(extent - first, stride) : 0,
        .first_tap = remainder,
        .tap_count = remainder < kernel ? ls_ceil_div(kernel - remainder, stride) : 0,
        .first_out = (first + pad) / stride,
    };
}

typedef struct {
    const ls_conv_input_gradient_args *args;
    axis row, column;
    ls_tap_grid grid;
} remainder_job;

/* k as a tap of the remainder (row and column number j of first_tap + j * stride) and a filter. */
typedef struct {
    size_t row, column, filter;
} tap_at;

static tap_at tap_of(const remainder_job *j, size_t k)
{
    if (k == 0) return (tap_at){0, 0, 0};
    const size_t tap = k / j->args->shape.filters;
    return (tap_at){tap / j->column.tap_count, tap % j->column.tap_count,
                    k % j->args->shape.filters};
}

/* The first filter of the next tap. */
static tap_at tap_after(const remainder_job *j, tap_at tap)
{
    if (tap.column + 1 < j->column.tap_count) return (tap_at){tap.row, tap.column + 1, 0};
    return (tap_at){tap.row + 1, 0, 0};
}

/* An input place, as the output that reads it through tap 0. */
typedef struct {
    size_t n, p, q;
} reader;

static void find_readers(const remainder_job *j, size_t first_row, int count, reader *out)
{
    size_t column = first_row % j->column.place_count;
    size_t row = first_row / j->column.place_count % j->row.place_count;
    size_t n = first_row / j->column.place_count / j->row.place_count;
    for (int i = 0; i < count; i++) {
        out[i] = (reader){n, j->row.first_out + row, j->column.first_out + column};
        if (++column < j->column.place_count) continue;
        column = 0;
        if (++row < j->row.place_count) continue;
        row = 0;
        n++;
    }
}

/* A copy of the gradients that each place's taps meet. */
static void copy_gradients(const void *operands, const ls_row_at *first, size_t first_k,
                           size_t depth, ls_rows_memory *memory, ls_tile *tile)
{
    const size_t row_step = ls_row_step(depth);
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    reader at[LS_NARROW_ROWS];
    find_readers(j, first->row, tile->rows, at);
    tap_at tap = tap_of(j, first_k);
    for (size_t done = 0, count; done < depth; done += count, tap = tap_after(j, tap)) {
        count = ls_min_size(s->filters - tap.filter, depth - done);
        for (int i = 0; i < tile->rows; i++) {
            float *to = memory->buffer + (size_t)i * row_step + done;
            /* Through tap t a place is read by the output t places before; before 0 it is huge. */
            const size_t p = at[i].p - tap.row, q = at[i].q - tap.column;
            if (p < s->out_height && q < s->out_width) {
                const size_t place = (at[i].n * s->out_height + p) * s->out_width + q;
                ls_copy_over(to, j->args->dy + place * s->filters + tap.filter, count);
            } else {
                ls_zero_over(to, count);
            }
        }
    }
    tile->a = memory->buffer;
    tile->a_row_step = row_step;
    tile->a_step = 1;
}

/* The rows of dy in place: those of a tile are successive, the next tap's one place earlier. */
static void take_gradients(const void *operands, const ls_row_at *first, size_t first_k,
                           size_t depth, ls_rows_memory *memory, ls_tile *tile)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    const size_t n = first->group / j->row.place_count, i = first->group - n * j->row.place_count;
    const ls_tap_origin at = {n, (ptrdiff_t)(j->row.first_out + i),
                              (ptrdiff_t)(j->column.first_out + first->within)};
    const size_t rows = ls_min_size(first->groups, j->row.place_count - i);
    memory->groups = LS_HOST(take_in_place)(&j->grid, &at, rows, first_k, depth, &memory->lists,
                                            tile);
    memory->group_step = s->out_width * s->filters;
    if (memory->groups > 0) return;
    memory->groups = 1;
    copy_gradients(operands, first, first_k, depth, memory, tile);
}

static void pack_taps(const void *operands, size_t first_k, size_t depth, size_t first_column,
                      size_t columns, float *panel)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    tap_at tap = tap_of(j, first_k);
    for (size_t done = 0, count; done < depth; done += count, tap = tap_after(j, tap)) {
        count = ls_min_size(s->filters - tap.filter, depth - done);
        const size_t r = j->row.first_tap + tap.row * s->stride_height;
        const size_t t = j->column.first_tap + tap.column * s->stride_width;
        const float *from = j->args->w
                            + ((tap.filter * s->kernel_height + r) * s->kernel_width + t)
                                  * s->channels;
        ls_pack_rows(panel + done * LS_TILE_COLUMNS, from + first_column, filter_floats(s), count,
                     columns);
    }
}

/* Group g is one row of places of this remainder: their columns are a stride apart. */
static float *place_row(const void *operands, size_t g)
{
    const remainder_job *j = operands;
    const ls_conv_shape *s = &j->args->shape;
    const size_t n = g / j->row.place_count, i = g - n * j->row.place_count;
    const size_t h = j->row.first_place + i * s->stride_height;
    return j->args->dx + ((n * s->height + h) * s->width + j->column.first_place) * s->channels;
}

/* The places of one pair of remainders, in samples [0, a->shape.samples). */
static void run_remainder(ls_pool *pool, const ls_conv_input_gradient_args *a, axis row,
                          axis column)
{
    const ls_conv_shape *s = &a->shape;
    const remainder_job j = {a, row, column,
                             {a->dy, s->out_height, s->out_width, s->filters, row.tap_count,
                              column.tap_count, -1, 1, 1}};
    const bool dense = s->stride_height == 1 && s->stride_width == 1;
    const bool direct = column.place_count >= LS_TILE_ROWS / 2;
    const ls_product product = {
        .rows = s->samples * row.place_count * column.place_count,
        .columns = s->channels,
        .depth = row.tap_count * column.tap_count * s->filters,
        .run = s->filters,
        .block_depth = direct ? LS_DIRECT_DEPTH : LS_BLOCK_DEPTH,
        .tile_rows = direct ? tile_rows(s->channels, s->filters) : 0,
        .operands = &j,
        .take_rows = direct ? take_gradients : copy_gradients,
        .pack = pack_taps,
        .row_cost = direct ? 0.05 : 0.25,
        .pack_cost = 0.15,
        .C = a->dx,
        .step = s->stride_width * s->channels,
        .group = dense && !direct ? 0 : column.place_count,
        .place = dense ? NULL : place_row,
    };
    LS_HOST(product)(pool, &product);
}

static void clear_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_conv_input_gradient_args *a = args_;
    const size_t row = a->shape.width * a->shape.channels;
    memset(a->dx + begin * row, 0, (end - begin) * row * sizeof *a->dx);
}

/* All remainders of some samples. Those without a tap are cleared, with all the others. */
static void run_samples(ls_stream *stream, const ls_conv_input_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    if (s->stride_height > s->kernel_height || s->stride_width > s->kernel_width) {
        const size_t rows = s->samples * s->height;
        ls_range_run(stream, rows, CLEAR_GRAIN / (s->width * s->channels), clear_rows, a);
    }
    for (size_t i = 0; i < s->stride_height; i++) {
        const axis row = axis_of(i, s->height, s->stride_height, s->pad_top, s->kernel_height);
        for (size_t k = 0; k < s->stride_width; k++) {
            const axis column =
                axis_of(k, s->width, s->stride_width, s->pad_left, s->kernel_width);
            if (row.tap_count == 0 || column.tap_count == 0) continue;
            run_remainder(stream->device->pool, a, row, column);
        }
    }
}

/* How many samples at a time: with a stride each remainder's places lie between the others', and a
 * few samples stay in the second level cache until all have been written; but w is packed again. */
static size_t samples_at_once(const ls_conv_shape *s)
{
    const size_t sample = s->height * s->width * s->channels;
    if (s->stride_height * s->stride_width == 1) return s->samples;
    const size_t weights = s->filters * filter_floats(s);
    const size_t floats = ls_max_size(SAMPLES_FLOATS, WEIGHTS_SHARE * weights);
    return sample == 0 ? s->samples : ls_max_size(floats / sample, 1);
}

ls_status LS_HOST(conv_input_gradient)(ls_stream *stream, const ls_conv_input_gradient_args *a)
{
    const ls_conv_shape flat = flattened(&a->shape, tile_rows(a->shape.channels,
                                                              a->shape.filters));
    const ls_conv_shape *s = &flat;
    const size_t most = samples_at_once(s);
    for (size_t first = 0; first < s->samples; first += most) {
        ls_conv_input_gradient_args some = *a;
        some.shape = *s;
        some.shape.samples = ls_min_size(most, s->samples - first);
        some.dy += first * s->out_height * s->out_width * s->filters;
        some.dx += first * s->height * s->width * s->channels;
        run_samples(stream, &some);
    }
    return LS_OK;
}
