/* SPDX-License-Identifier: MIT */
/* launch.h -- what the files launch*.c share: the ops of a GPU, limits, divisors, one launch.
 */
#ifndef LS_KERNELS_CUDA_LAUNCH_H
#define LS_KERNELS_CUDA_LAUNCH_H

#include "device/cuda.h"
#include "kernels/cuda/params.h"
#include "kernels/kernels.h"
#include "sizes.h"

#define LS_DECLARE_CUDA(op) LS_MUST_USE ls_##op##_fn ls_##op##_cuda;
LS_KERNELS(LS_DECLARE_CUDA)
#undef LS_DECLARE_CUDA

/* Blocks that a grid may have in its second direction. */
enum { LS_CUDA_GRID_Y_MAX = 65535 };

/* Enqueue `kernel` over blocks_x x blocks_y blocks. Nothing where either is 0. Errors: ARGUMENT
 * (more blocks than a grid may have), DEVICE. */
LS_MUST_USE ls_status ls_cuda_enqueue(ls_stream *stream, const char *kernel, size_t blocks_x,
                                      size_t blocks_y, unsigned threads, const void *params,
                                      size_t param_bytes);
#define LS_CUDA_ENQUEUE(stream, kernel, blocks_x, blocks_y, threads, params)                      \
    ls_cuda_enqueue(stream, kernel, blocks_x, blocks_y, threads, &(params), sizeof(params))

/* Errors: ARGUMENT (`count` of `what` is 2^31 or more: device code counts with 32 bits). */
LS_MUST_USE ls_status ls_cuda_fits(const char *op, const char *what, size_t count);

/* `divisor` is 1 or more and below 2^31. Pure. */
ls_cuda_divisor ls_cuda_divisor_of(size_t divisor);

/* Can four floats at a time be moved from `memory`, and from every row of `row_floats` behind
 * it? */
bool ls_cuda_moves_quads(const void *memory, size_t row_floats);

/* The patches of a convolution's x, as forward and weight gradient read them. */
ls_cuda_patches ls_cuda_patches_of(const ls_conv_shape *shape, const float *x);

/* Errors: ARGUMENT (a sample, a filter or the places are too many for 32 bits). */
LS_MUST_USE ls_status ls_cuda_conv_fits(const char *op, const ls_conv_shape *shape);

/* Errors: ARGUMENT (a fold with more temporaries than device code has room for). */
LS_MUST_USE ls_status ls_cuda_fold_fits(const char *op, const ls_fold *fold);

/* Batch sums over `rows` rows of `width` places a sample, not yet cut into groups. */
ls_cuda_groups ls_cuda_groups_of(const ls_fold *fold, size_t rows, size_t width);

/* Groups of 2^log2 slices. Returns how many there are. */
size_t ls_cuda_cut_into_groups(ls_cuda_groups *groups, uint32_t log2);

#endif
