/* SPDX-License-Identifier: MIT */
/* kernels.h -- every op, declared once: its arguments, its contract, its place in the table.
 *
 * Math on one device. Ops know nothing of ranks; those that sum over samples take a fold
 * (fold.h) and leave one sum per piece. Each op has a reference (reference/, plain loops, the
 * definition of the bits), a fast host version (host/, built per instruction set) and a device
 * version, all of one function type, so that an implementation with other parameters does not
 * compile. ls_<op> checks its arguments once and calls the table of the stream's device; the
 * implementations trust what they are given.
 *
 * Common rules, unless an op says otherwise
 *  - f32, dense, row-major; activations NHWC; weights dense [out, in], convolution
 *    [filters, kh, kw, channels]. All pointers are memory of the stream's device, 4-byte aligned.
 *  - An op overwrites its outputs and never reads them. Outputs do not overlap inputs, except
 *    where "in place" is said.
 *  - 0 samples, rows or elements are legal: sums come out as +0, nothing else is touched.
 *  - Every number is the one that docs/numerics.md defines. "Chain" is its section 1.2.
 *  - Async: enqueued on the stream. Errors: ARGUMENT (a check of ours failed), DEVICE.
 *
 * Thread rule: an op runs on the stream's device, called from the thread that owns it.
 */
#ifndef LS_KERNELS_KERNELS_H
#define LS_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "kernels/arena.h"
#include "kernels/batchnorm.h"
#include "kernels/elementwise.h"
#include "kernels/fold.h"
#include "kernels/layout.h"
#include "kernels/loss.h"
#include "status.h"

/* -- matrix product ---------------------------------------------------------------------------
 * C[M,N] = relu?(op(A)[M,K] * op(B)[K,N] + bias[N]).  op(A) is A[M,K], or A[K,M] transposed; op(B)
 * is B[K,N], or B[N,K] transposed. One fmaf chain per element, k ascending, + bias, + 0.0f.
 * accumulate: C = C + the finished chain (then bias must be NULL and relu false). */
typedef struct {
    size_t M, N, K;
    bool transpose_a, transpose_b;
    bool accumulate;
    bool relu;
    const float *A, *B;
    const float *bias; /* [N] or NULL */
    float *C;
} ls_gemm_args;

/* -- convolution ------------------------------------------------------------------------------
 * Any kernel size and stride; padding is `pad_top` rows above and `pad_left` columns to the left,
 * the rest follows from the output's extent. A dense layer's weight gradient is the case where
 * height, width and the kernel are all 1. */
typedef struct {
    size_t samples;
    size_t height, width, channels;
    size_t filters, kernel_height, kernel_width;
    size_t stride_height, stride_width;
    size_t pad_top, pad_left;
    size_t out_height, out_width;
} ls_conv_shape;

/* y[samples,out_height,out_width,filters] = relu?(conv(x, w) + bias). Chain: filter row, filter
 * column, channel ascending. */
typedef struct {
    ls_conv_shape shape;
    bool relu;
    const float *x;    /* [samples,height,width,channels] */
    const float *w;    /* [filters,kernel_height,kernel_width,channels] */
    const float *bias; /* [filters] or NULL */
    float *y;
} ls_conv_forward_args;

/* dx = gradient of x. Chain: filter row, filter column as stored, ascending, then filter; only
 * taps on the stride grid. */
typedef struct {
    ls_conv_shape shape;
    const float *dy; /* [samples,out_height,out_width,filters] */
    const float *w;
    float *dx; /* [samples,height,width,channels] */
} ls_conv_input_gradient_args;

/* dw = gradient of w, a batch sum: rows are (sample, output row, output column) ascending, a slice
 * is max(1, 1024 / out_width) whole output rows counted from the shard's start, one chain per
 * slice, slices and shards by the tree (docs/numerics.md 2.2). One output per piece. */
typedef struct {
    ls_conv_shape shape; /* samples = fold->sample[fold->leaf_count] */
    const ls_fold *fold;
    const float *x, *dy;
    float *dw;           /* piece p at dw + p * piece_stride, [filters,kh,kw,channels] */
    size_t piece_stride; /* in floats */
} ls_conv_weight_gradient_args;

/* out[channels] = batch sum of the rows of x (bias gradients): x is
 * [samples, height, width, channels]; slices as above, with this tensor's own width. */
typedef struct {
    size_t height, width, channels;
    const ls_fold *fold;
    const float *x;
    float *out; /* piece p at out + p * piece_stride */
    size_t piece_stride;
} ls_batch_sum_args;

/* -- pooling ----------------------------------------------------------------------------------- */

typedef struct {
    size_t samples;
    size_t height, width, channels;
    size_t window_height, window_width; /* max pooling: at most 256 places */
    size_t stride_height, stride_width;
    size_t pad_top, pad_left;
    size_t out_height, out_width;
} ls_pool_shape;

/* y = the largest valid element of each window; scan rows, then columns, replace where x > m or x
 * is NaN, the first wins. `place` remembers which: row * window_width + column of the window. */
typedef struct {
    ls_pool_shape shape;
    const float *x;
    float *y;       /* [samples,out_height,out_width,channels] */
    uint8_t *place; /* the same shape */
} ls_max_pool_args;

/* dx = chain (+) over the windows that chose this element, output row then column ascending. Under
 * a relu this is its mask too: where relu_y is given and not > 0, dy counts as 0. */
typedef struct {
    ls_pool_shape shape;
    const float *dy;
    const uint8_t *place;
    float *dx;           /* [samples,height,width,channels] */
    const float *relu_y; /* the pooling's y where its x is a relu's output, or NULL */
} ls_max_pool_gradient_args;

/* y = chain (+) over the valid elements of the window, rows then columns, / (float)(their count).
 * The window may be of any size: over the whole input it is global average pooling. */
typedef struct {
    ls_pool_shape shape;
    const float *x;
    float *y; /* [samples,out_height,out_width,channels] */
} ls_average_pool_args;

/* dx = chain (+) over the windows that hold this element, output row then column ascending, of
 * dy / (float)(the window's valid elements). */
typedef struct {
    ls_pool_shape shape;
    const float *dy;
    float *dx; /* [samples,height,width,channels] */
} ls_average_pool_gradient_args;

/* A convolution and a max pooling that alone reads its output: conv_forward into conv.y, which is
 * pool.x, then max_pool. Afterwards conv.y holds anything: it is room, which may be used. */
typedef struct {
    ls_conv_forward_args conv;
    ls_max_pool_args pool;
} ls_pooled_conv_forward_args;

/* Gradients of the parameters of a convolution of which only a max pooling reads the output: what
 * max_pool_gradient leaves in pool.dx, which is conv.dy, given to conv_weight_gradient, and to
 * batch_sum for the bias. Afterwards pool.dx holds anything: it is room, which may be used. */
typedef struct {
    ls_conv_weight_gradient_args conv;
    ls_max_pool_gradient_args pool;
    float *db; /* piece p at db + p * conv.piece_stride; NULL: no bias */
} ls_pooled_weight_gradient_args;

/* -- whole buffers ----------------------------------------------------------------------------- */

/* out = LS_DIGEST_START + sum over i of (2 i + 1) * word(x[i]) mod 2^64, word = the 32 bits, a NaN
 * as 0x7fc00000.
 * Every single-bit change alters it (2 i + 1 is odd); the order of summing does not. */
typedef struct {
    size_t count;
    const float *x;
    uint64_t *out; /* [1] */
} ls_digest_args;

/* out = index of the first element that is NaN or infinite, or LS_ALL_FINITE. */
typedef struct {
    size_t count;
    const float *x;
    uint64_t *out; /* [1] */
} ls_nonfinite_args;

/* Fold sources with a stack, element by element: push source[0], add the two topmost adds[0] times,
 * push source[1], ...; the adds sum to source_count - 1 and one entry is left, which is written to
 * every out. source_count 1 copies. With source_digest (and out_digest), also the digests of what
 * was read (and written), in the same pass: how a receiver checks what a sender said it sent.
 * An out may be one of the sources (same element, same place). */
enum { LS_MERGE_MAX = LS_SHARD_MAX };
typedef struct {
    size_t count;
    int source_count;
    const float *source[LS_MERGE_MAX];
    unsigned char adds[LS_MERGE_MAX];
    int out_count;
    float *out[LS_MERGE_MAX];
    uint64_t *source_digest; /* [source_count], or NULL */
    uint64_t *out_digest;    /* [1], or NULL */
} ls_merge_args;

/* -- the table ----------------------------------------------------------------------------------
 * X(op): the type ls_<op>_fn, the checked entry ls_<op>, the slot .<op>, and in each
 * implementation ls_<op>_reference, ls_<op>_<isa> ... */
#define LS_KERNELS(X)                                                                             \
    X(gemm)                                                                                       \
    X(conv_forward)                                                                               \
    X(conv_input_gradient)                                                                        \
    X(conv_weight_gradient)                                                                       \
    X(batch_sum)                                                                                  \
    X(max_pool)                                                                                   \
    X(max_pool_gradient)                                                                          \
    X(average_pool)                                                                               \
    X(average_pool_gradient)                                                                      \
    X(pooled_conv_forward)                                                                        \
    X(pooled_weight_gradient)                                                                     \
    LS_ELEMENTWISE_KERNELS(X)                                                                     \
    LS_LOSS_KERNELS(X)                                                                            \
    LS_ARENA_KERNELS(X)                                                                           \
    X(digest)                                                                                     \
    X(nonfinite)                                                                                  \
    X(merge)                                                                                      \
    LS_BATCHNORM_KERNELS(X)

#define LS_DECLARE_OP(op)                                                                         \
    typedef ls_status ls_##op##_fn(ls_stream *stream, const ls_##op##_args *args);                \
    LS_MUST_USE ls_##op##_fn ls_##op;
LS_KERNELS(LS_DECLARE_OP)
#undef LS_DECLARE_OP

typedef struct ls_kernels {
    const char *name; /* "reference", "portable", "avx2", "avx512", "cuda" */
#define LS_DECLARE_SLOT(op) ls_##op##_fn *op;
    LS_KERNELS(LS_DECLARE_SLOT)
#undef LS_DECLARE_SLOT
} ls_kernels;

extern const ls_kernels ls_kernels_reference;

/* Give a device its table: a GPU the one for GPUs; the host the widest instruction set that the
 * CPU has, or the one that LOCKSTEP_ISA names (reference, portable, avx2, avx512).
 * Errors: ARGUMENT (LOCKSTEP_ISA names an unknown one, or one that this CPU lacks), DEVICE (a GPU,
 * in a build without CUDA). */
LS_MUST_USE ls_status ls_kernels_bind(ls_device *device);

#endif
