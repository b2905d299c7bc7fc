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

typedef struct {
    const ls_conv_shape *shape;
    const float *x;
    size_t first, count;                /* output rows of the slice, counted over samples */
    size_t first_filter_row, filter_rows;
    const float *dy;                    /* of the slice's first place and the first filter; */
    size_t dy_step;                     /* the next place's lies this far on */
    size_t filters;                     /* a multiple of LS_LANES */
    float *band;                        /* scratch, LS_HOST(filter_rows_floats) */
    int add_count;
    const ls_tile_source *add;          /* [add_count] like `to`, added to the finished chains */
    float *to;
    size_t to_step;
    float *sum;                         /* [filters] the chain of dy itself, or NULL */
} ls_filter_rows;

/* Scratch that slices of `slice_rows` output rows need; 0: this shape does not go this way. */
size_t LS_HOST(filter_rows_floats)(const ls_conv_shape *shape, size_t slice_rows);

void LS_HOST(filter_rows_run)(const ls_filter_rows *job);

#endif
