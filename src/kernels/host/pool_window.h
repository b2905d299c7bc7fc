/* SPDX-License-Identifier: MIT */
/* pool_window.h -- which places of the input a pooling's window has. */
#ifndef LS_KERNELS_HOST_POOL_WINDOW_H
#define LS_KERNELS_HOST_POOL_WINDOW_H

#include "kernels/kernels.h"

/* Places of a window that lie inside the input, in one direction. */
typedef struct {
    size_t begin, end;
} ls_bounds;

static inline ls_bounds ls_places_inside(size_t out, size_t stride, size_t pad, size_t size,
                                         size_t extent)
{
    const size_t at = out * stride, rest = extent + pad - at;
    return (ls_bounds){ at < pad ? pad - at : 0, rest < size ? rest : size };
}

/* The part of a window that lies inside the input, and where its first place is in a sample, in
 * places (h * width + w). */
typedef struct {
    ls_bounds row, column;
    size_t place;
} ls_window;

static inline ls_window ls_window_at(const ls_pool_shape *s, size_t oh, size_t ow)
{
    ls_window v;
    v.row = ls_places_inside(oh, s->stride_height, s->pad_top, s->window_height, s->height);
    v.column = ls_places_inside(ow, s->stride_width, s->pad_left, s->window_width, s->width);
    v.place = (oh * s->stride_height + v.row.begin - s->pad_top) * s->width
              + (ow * s->stride_width + v.column.begin - s->pad_left);
    return v;
}

#endif
