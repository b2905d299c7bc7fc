/* SPDX-License-Identifier: MIT */
/* image_rows.h -- copies of an image's rows with the padding around them, as the windows of a
 * convolution see them: for where to multiply the padding costs less than to find out where it is.
 * +0 adds nothing to a chain.
 */
#ifndef LS_KERNELS_HOST_IMAGE_ROWS_H
#define LS_KERNELS_HOST_IMAGE_ROWS_H

#include "kernels/host/pack.h"
#include "sizes.h"

static inline bool ls_has_padding(const ls_conv_shape *s)
{
    return s->pad_top > 0 || s->pad_left > 0
           || (s->out_height - 1) * s->stride_height + s->kernel_height > s->height
           || (s->out_width - 1) * s->stride_width + s->kernel_width > s->width;
}

/* Floats of a row that the windows of an output row see. */
static inline size_t ls_padded_row(const ls_conv_shape *s)
{
    return ((s->out_width - 1) * s->stride_width + s->kernel_width) * s->channels;
}

/* Row h of the image, or of padding (above the image h is huge). May write LS_LANES - 1 floats
 * more: rows are copied in ascending order, with as much room after the last. */
static inline void ls_copy_padded_row(const ls_conv_shape *s, const float *image, size_t h,
                                      float *to)
{
    const size_t row = ls_padded_row(s), before = ls_min_size(s->pad_left * s->channels, row);
    const size_t inside = ls_min_size(s->width * s->channels, row - before);
    if (h >= s->height) {
        ls_zero_over(to, row);
        return;
    }
    ls_zero_over(to, before);
    ls_copy_over(to + before, image + h * s->width * s->channels, inside);
    ls_zero_over(to + before + inside, row - before - inside);
}

#endif
