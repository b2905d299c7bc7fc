/* SPDX-License-Identifier: MIT */
/* tensors.c -- host: sums and products of tensors, runs of columns, borders of zeros: as fast as
 * memory is.
 */
#include <string.h>

#include "kernels/host/lanes.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 32768 };

LS_ALWAYS_INLINE void add_word(const ls_add_args *args, size_t i, size_t lanes, bool relu)
{
    const ls_vec sum = ls_vec_add(ls_vec_load_lanes(args->a + i, lanes),
                                  ls_vec_load_lanes(args->b + i, lanes));
    ls_fetch_target(args->y + i);
    ls_vec_store_lanes(args->y + i, relu ? ls_vec_relu(sum) : sum, lanes);
}

LS_ALWAYS_INLINE void add_words(const ls_add_args *args, size_t begin, size_t end, bool relu)
{
    size_t i = begin;
    for (; i + LS_LANES <= end; i += LS_LANES) add_word(args, i, LS_LANES, relu);
    if (i < end) add_word(args, i, end - i, relu);
}

static void add_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_add_args *args = args_;
    if (args->relu) add_words(args, begin, end, true);
    else add_words(args, begin, end, false);
}

ls_status LS_HOST(add)(ls_stream *stream, const ls_add_args *args)
{
    ls_range_run(stream, args->count, GRAIN, add_range, args);
    return LS_OK;
}

static void multiply_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_multiply_args *args = args_;
    const float *a = args->a, *b = args->b;
    float *y = args->y;
#pragma GCC ivdep
    for (size_t i = begin; i < end; i++) y[i] = a[i] * b[i];
}

ls_status LS_HOST(multiply)(ls_stream *stream, const ls_multiply_args *args)
{
    ls_range_run(stream, args->count, GRAIN, multiply_range, args);
    return LS_OK;
}

static void copy_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_copy_columns_args *args = args_;
    for (size_t r = begin; r < end; r++) {
        memcpy(args->to + r * args->to_stride, args->from + r * args->from_stride,
               args->columns * sizeof(float));
    }
}

ls_status LS_HOST(copy_columns)(ls_stream *stream, const ls_copy_columns_args *args)
{
    if (args->columns == 0) return LS_OK;
    ls_range_run(stream, args->rows, GRAIN / args->columns, copy_rows, args);
    return LS_OK;
}

/* The outputs [begin, end) of `extent`, in one direction, that show an input: output o shows input
 * o - offset. */
typedef struct {
    size_t begin, end;
} run;

static run shown(ptrdiff_t offset, size_t input, size_t extent)
{
    const run none = { 0, 0 };
    if (offset >= (ptrdiff_t)extent || offset <= -(ptrdiff_t)input) return none;
    const size_t end = (size_t)(offset + (ptrdiff_t)input);
    const run some = { offset > 0 ? (size_t)offset : 0, end < extent ? end : extent };
    return some;
}

/* Output rows [begin, end), counted through all samples. */
static void pad_rows(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_pad_args *args = args_;
    const size_t C = args->channels;
    const run rows = shown(args->top, args->height, args->out_height);
    const run columns = shown(args->left, args->width, args->out_width);
    for (size_t row = begin; row < end; row++) {
        const size_t n = row / args->out_height, i = row % args->out_height;
        float *y = args->y + row * args->out_width * C;
        if (i < rows.begin || i >= rows.end || columns.begin == columns.end) {
            memset(y, 0, args->out_width * C * sizeof *y);
            continue;
        }
        const size_t h = i - (size_t)args->top, w = columns.begin - (size_t)args->left;
        memset(y, 0, columns.begin * C * sizeof *y);
        memcpy(y + columns.begin * C, args->x + ((n * args->height + h) * args->width + w) * C,
               (columns.end - columns.begin) * C * sizeof *y);
        memset(y + columns.end * C, 0, (args->out_width - columns.end) * C * sizeof *y);
    }
}

ls_status LS_HOST(pad)(ls_stream *stream, const ls_pad_args *args)
{
    const size_t floats = args->out_width * args->channels;
    if (floats == 0) return LS_OK;
    ls_range_run(stream, args->samples * args->out_height, GRAIN / floats, pad_rows, args);
    return LS_OK;
}
