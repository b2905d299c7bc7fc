/* SPDX-License-Identifier: MIT */
/* patch.h -- rows of the matrix that turns a convolution into a matrix product.
 *
 * That matrix (often called im2col) is never made. Its row for the output place (n, p, q) is the
 * patch of x that the filters see there, [kernel_height, kernel_width, channels], +0 where the
 * patch reaches into the padding. A caller asks for some columns of some rows of it when it needs
 * them, and they are copied from the NHWC image into scratch memory: kernel_width * channels floats
 * of a patch are contiguous in the image.
 */
#ifndef LS_KERNELS_HOST_PATCH_H
#define LS_KERNELS_HOST_PATCH_H

#include "kernels/host/tile.h"

/* Copy columns [begin, end) of the patches at `count` places, from `place` (counted over samples,
 * output rows and output columns), to to[i * to_step + (column - begin)]; to_step >= end - begin.
 * What lies between the rows of `to` stays as it is. */
void LS_HOST(patch_copy)(const ls_conv_shape *shape, const float *x, size_t begin, size_t end,
                         size_t place, size_t count, float *to, size_t to_step);

#endif
