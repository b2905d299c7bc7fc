/* SPDX-License-Identifier: MIT */
/* dense_gradient.h -- the weight gradient of a dense layer of few samples.
 *
 * A dense layer is a convolution of 1x1 at stride 1 without padding: the patch of place i is row i
 * of x. Any such convolution with few output places is meant.
 */
#ifndef LS_KERNELS_HOST_DENSE_GRADIENT_H
#define LS_KERNELS_HOST_DENSE_GRADIENT_H

#include "kernels/host/host.h"

/* Is the patch of place i simply row i of x? */
static inline bool ls_patches_are_rows(const ls_conv_shape *s)
{
    return s->kernel_height == 1 && s->kernel_width == 1 && s->stride_height == 1
           && s->stride_width == 1 && s->pad_top == 0 && s->pad_left == 0
           && s->out_height == s->height && s->out_width == s->width;
}

/* Is this a shape for dense_gradient? Up to 1024 places a shard's sum is never more than one slice:
 * a slice is as many whole output rows as have 1024 places, or one (ls_slice_rows). */
enum { LS_DENSE_PLACES = 1024 };
static inline bool ls_dense_gradient_fits(const ls_conv_shape *s)
{
    return ls_patches_are_rows(s)
           && s->samples * s->out_height * s->out_width <= LS_DENSE_PLACES;
}

/* As conv_weight_gradient, for a shape that fits. */
void LS_HOST(dense_gradient)(ls_pool *pool, const ls_conv_weight_gradient_args *args);

#endif
