/* SPDX-License-Identifier: MIT */
/* filter_rows.c -- a weight gradient's sum over one slice where the image has few channels. See
 * filter_rows.h.
 *
 *        A, rows of the tile: floats e of filter row r          B: dy, filters beside each other
 *        place q     x[row p * stride + r][(q * stride) * C + e]     dy[p, q, f ...]
 *        place q+1   the same, stride * C further on                 dy[p, q+1, f ...]
 *
 * A run is one output row. Both operands are read where they lie, but for padding: then the rows of
 * the image that a slice's windows see are first copied to a band of scratch memory with the
 * padding around them, once for all filter rows; +0 there adds nothing to a chain.
 */
#include "kernels/host/filter_rows.h"

#include <string.h>

#include "kernels/host/pack.h"
#include "sizes.h"

/* Narrower filter rows make tiles of too few chains. */
enum { FILTER_ROW_MIN = 8, BAND_FLOATS_MAX = 1 << 18 };

/* Floats in a row of the band: what the windows of an output row see. */
static size_t band_row(const ls_conv_shape *s)
{
    return ((s->out_width - 1) * s->stride_width + s->kernel_width) * s->channels;
}

static bool has_padding(const ls_conv_shape *s)
{
    return s->pad_top > 0 || s->pad_left > 0
           || (s->out_height - 1) * s->stride_height + s->kernel_height > s->height
           || (s->out_width - 1) * s->stride_width + s->kernel_width > s->width;
}

size_t LS_HOST(filter_rows_floats)(const ls_conv_shape *s, size_t slice_rows)
{
    const size_t filter_row = s->kernel_width * s->channels;
    if (s->channels >= LS_LANES || filter_row < FILTER_ROW_MIN || s->filters % LS_LANES != 0
        || s->out_width == 0 || slice_rows > LS_TILE_RUNS_MAX) {
        return 0;
    }
    const size_t floats =
        slice_rows * (s->stride_height + s->kernel_height) * band_row(s) + LS_LANES;
    return floats <= BAND_FLOATS_MAX ? floats : 0;
}

/* One row of the image, or of padding, with the padding on both sides. */
static void copy_row(const ls_conv_shape *s, const float *image, size_t h, float *to)
{
    const size_t row = band_row(s), before = ls_min_size(s->pad_left * s->channels, row);
    const size_t inside = ls_min_size(s->width * s->channels, row - before);
    if (h >= s->height) { /* above the image it is huge */
        memset(to, 0, row * sizeof *to);
        return;
    }
    memset(to, 0, before * sizeof *to);
    memcpy(to + before, image + h * s->width * s->channels, inside * sizeof *to);
    memset(to + before + inside, 0, (row - before - inside) * sizeof *to);
}

/* A run for each output row; `a` from the band or from x. */
static void list_runs(const ls_filter_rows *job, bool in_band, ls_tile_run *run)
{
    const ls_conv_shape *s = job->shape;
    const size_t image_row = s->width * s->channels, row = band_row(s);
    size_t n = job->first / s->out_height, p = job->first % s->out_height, rows = 0, next = 0;
    for (size_t i = 0; i < job->count; i++) {
        size_t a = (n * s->height + p * s->stride_height) * image_row;
        if (in_band) { /* the rows that the previous output row did not bring */
            const size_t top = p * s->stride_height;
            if (i == 0 || p == 0 || next < top) next = top;
            for (; next < top + s->kernel_height; next++) {
                copy_row(s, job->x + n * s->height * image_row, next - s->pad_top,
                         job->band + rows++ * row);
            }
            a = (rows - s->kernel_height) * row;
        }
        run[i] = (ls_tile_run){a, i * s->out_width * job->dy_step, s->out_width, LS_RUN_ALL};
        if (++p < s->out_height) continue;
        p = 0;
        n++;
    }
}

/* The tiles of filter row `r`, of which `e` counts the floats in the result. */
static void run_filter_row(const ls_filter_rows *job, ls_tile tile, size_t r)
{
    const size_t floats = job->shape->kernel_width * job->shape->channels;
    const size_t tiles = ls_ceil_div(floats, LS_TILE_ROWS);
    ls_tile_source add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    tile.add = add;
    for (size_t i = 0, e = 0; i < tiles; i++) {
        const size_t rows = (i + 1) * floats / tiles - e, at = r * floats + e;
        ls_tile part = tile;
        part.rows = (int)rows;
        part.a += e;
        for (size_t f = 0; f < job->filters; f += LS_TILE_COLUMNS) {
            part.columns = ls_min_size(LS_TILE_COLUMNS, job->filters - f);
            part.b = tile.b + f;
            part.to = job->to + at * job->to_step + f;
            for (int m = 0; m < job->add_count; m++) {
                add[m].p = job->add[m].p + at * job->add[m].step + f;
                add[m].step = job->add[m].step;
            }
            LS_HOST(tile)(&part);
        }
        e += rows;
    }
}

void LS_HOST(filter_rows_run)(const ls_filter_rows *job)
{
    const ls_conv_shape *s = job->shape;
    const bool in_band = has_padding(s) || job->count == 0; /* without samples x may be NULL */
    const size_t row = in_band ? band_row(s) : s->width * s->channels;
    ls_tile_run run[LS_TILE_RUNS_MAX];
    list_runs(job, in_band, run);
    ls_tile tile = {
        .run = run,
        .runs = job->count,
        .a_row_step = 1,
        .a_step = s->stride_width * s->channels,
        .b = job->dy,
        .b_step = job->dy_step,
        .finish = true,
        .add_count = job->add_count,
        .to_step = job->to_step,
    };
    for (size_t r = 0; r < job->filter_rows; r++) {
        tile.a = (in_band ? job->band : job->x) + (job->first_filter_row + r) * row;
        run_filter_row(job, tile, r);
    }
}
