/* SPDX-License-Identifier: MIT */
/* pool.h -- the gradient of a max pooling whose windows do not overlap, some rows at a time. */
#ifndef LS_KERNELS_HOST_POOL_H
#define LS_KERNELS_HOST_POOL_H

#include "kernels/host/host.h"
#include LS_SIMD

static inline bool ls_max_pool_windows_overlap(const ls_pool_shape *s)
{
    return s->stride_height < s->window_height || s->stride_width < s->window_width;
}

/* Are all windows whole squares, of 2 x 2 side by side? */
static inline bool ls_max_pool_has_squares(const ls_pool_shape *s)
{
    return s->window_height == 2 && s->window_width == 2 && s->stride_height == 2
           && s->stride_width == 2 && s->pad_top == 0 && s->pad_left == 0
           && 2 * s->out_height <= s->height && 2 * s->out_width <= s->width;
}

/* A step of a window's scan: x, at `place` of it, is the largest from here on if it is greater than
 * what was met before, or a NaN. The first of equals stays. */
LS_ALWAYS_INLINE void ls_pool_meet(ls_vec x, int place, ls_vec *largest, ls_bytes *stood)
{
    const ls_mask replaces = ls_vec_replaces(x, *largest);
    *largest = ls_vec_select(replaces, x, *largest);
    *stood = ls_bytes_select(replaces, ls_bytes_set(place), *stood);
}

/* Rows [row, row + rows) of dx, counted through all samples, its channels from `first` on:
 * to[row][w][count]. The windows must not overlap. args->dx is not used. */
void LS_HOST(max_pool_gradient_rows)(const ls_max_pool_gradient_args *args, size_t row, size_t rows,
                                     size_t first, size_t count, float *to);

#endif
