/* SPDX-License-Identifier: MIT */
/* dense_gradient.h -- the weight gradient of a dense layer of few samples.
 *
 * A dense layer is a convolution of 1x1 at stride 1 without padding: the patch of place i is row i
 * of x. Any convolution of 1x1 with few output places is meant, whose patches are rows of x.
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

/* Is every patch some row of x? (No patch lies outside the image: kernels.c asks that of every
 * convolution.) */
static inline bool ls_patches_are_some_rows(const ls_conv_shape *s)
{
    return s->kernel_height == 1 && s->kernel_width == 1 && s->pad_top == 0 && s->pad_left == 0;
}

/* Up to so many places a gradient is made here; a shard's sum is never more than one slice then: a
 * slice is as many whole output rows as have 1024 places, or one (ls_slice_rows). With a stride the
 * rows of x are gathered again for every block of filters, of which there are more the more places.
 * (Measured: 196 places 0.85 of the other way's time, 784 places 1.13.) */
enum { LS_DENSE_PLACES = 1024, LS_DENSE_STRIDED_PLACES = 256 };

/* As conv_weight_gradient. False: it is not of a kind that is made here, and nothing was done. */
bool LS_HOST(dense_gradient)(ls_pool *pool, const ls_conv_weight_gradient_args *args);

#endif
