/* SPDX-License-Identifier: MIT */
/* filter_rows.h -- a weight gradient's sum over one slice where the image has few channels.
 *
 * With 1 to 4 channels, a first layer's case, a tap is too narrow for a vector word. Here words go
 * along the filters, which dy has beside each other, and the tile's rows are the floats of filter
 * rows: kernel_width * channels of them, contiguous in a row of the image. The result is dw
 * transposed, [filter rows * kernel_width * channels][filters].
 */
#ifndef LS_KERNELS_HOST_FILTER_ROWS_H
#define LS_KERNELS_HOST_FILTER_ROWS_H

#include "kernels/host/tile.h"

/* Output rows of a slice, at most. */
enum { LS_FILTER_RUNS_MAX = 160 };

/* A slice. */
typedef struct {
    const ls_conv_shape *shape;
    const float *x;
    size_t first, count;                /* its output rows, counted over samples */
    size_t first_filter_row, filter_rows;
    float *scratch;                     /* LS_HOST(filter_rows_floats), begins a word */
    int add_count;
    const ls_tile_source *add;          /* [add_count] like `to`, added to the finished chains */
    float *to;
    size_t to_step;
    /* Set by filter_rows_begin. */
    const float *a;                     /* x, or a padded copy of its rows */
    size_t row_floats;                  /* to the next row of it */
    size_t run[LS_FILTER_RUNS_MAX];     /* from `a` to each output row's windows */
} ls_filter_rows;

/* Some output rows of it, for a word of filters. */
typedef struct {
    size_t row, rows;                   /* [row, row + rows) of [0, count) */
    const float *dy;                    /* of their first place and the first filter; */
    size_t dy_step;                     /* the next place's lies this far on */
    const ls_max_pool_gradient_args *pool; /* or NULL: what dy is to be made of instead */
    size_t filter;                      /* column of `to` */
    size_t pool_filter;                 /* the first filter, among all of pool's channels */
    float *sum;                         /* [LS_LANES] the chain of dy itself, or NULL */
} ls_filter_part;

/* Scratch that slices of `slice_rows` output rows need; 0: this shape does not go this way. */
size_t LS_HOST(filter_rows_floats)(const ls_conv_shape *shape, size_t slice_rows);

/* May parts have `pool`, and dy be made a word at a time as it is multiplied? Windows of 2 x 2 that
 * cover everything, under a relu, and all of a colour image's 3 x 3 taps in one tile, as AVX-512
 * has it. */
bool LS_HOST(filter_rows_take_windows)(const ls_filter_rows *slice,
                                       const ls_max_pool_gradient_args *pool);

void LS_HOST(filter_rows_begin)(ls_filter_rows *slice);

/* Called for the parts of a slice from its first row to its last, with all parts of a word before
 * those of the next one; with one empty part if the slice is empty. Then `to` has the sum. */
void LS_HOST(filter_rows_run)(const ls_filter_rows *slice, const ls_filter_part *part);

#endif
