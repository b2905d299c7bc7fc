/* SPDX-License-Identifier: MIT */
/* params.h -- what the launcher tells each kernel: one struct per kernel, passed by value.
 *
 * The launcher (launch*.c) and the device code (*.cu) include this file, so they cannot drift.
 * Valid C11 and C++14. A struct is at most 4096 bytes, the most a kernel's parameters may take.
 *
 * Extents are 32 bits wide and below 2^31 (the launcher refuses more); addresses and whole lengths
 * have 64. `vector` fields say that the addresses concerned, and the distances between rows, are
 * multiples of 16 bytes, so that four floats move at a time.
 */
#ifndef LS_KERNELS_CUDA_PARAMS_H
#define LS_KERNELS_CUDA_PARAMS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/elementwise.h"
#include "kernels/fold.h"
#include "kernels/layout.h"
#include "kernels/row_merge.h"
#include "numerics.h"

/* Threads of a block, by kernel. Tiles of products have their own (tile.cuh, tiles.h). */
enum {
    LS_CUDA_THREADS = 256,       /* element-wise ops, pooling, the arena, whole buffers */
    LS_CUDA_ROW_THREADS = 128,   /* losses: a warp per row */
    LS_CUDA_FLAT_THREADS = 64,   /* sums of shards: a thread per lane */
    LS_CUDA_FOLD_THREADS = 128,  /* batch sums: slices and shards to pieces */
    LS_CUDA_MERGE_THREADS = 128,
    LS_CUDA_DEEP_THREADS = 32    /* merges whose stack is deep */
};

/* n / divisor = n * multiplier >> shift for n < 2^31, rounded down. With l = ceil(log2 divisor) and
 * shift = 31 + l, multiplier = ceil(2^shift / divisor) fits 32 bits. It is too large by less than
 * 1, hence the product by less than n / 2^shift < 2^-l <= 1 / divisor: too little to reach the next
 * integer (T. Granlund and P. L. Montgomery, "Division by invariant integers using multiplication",
 * PLDI 1994). */
typedef struct {
    uint32_t divisor, multiplier, shift;
} ls_cuda_divisor;

/* -- products ---------------------------------------------------------------------------------- */

/* A matrix that is not stored: row m is a place (sample, i, j) of a grid, column k a tap and a
 * channel (r, s, c). Its element is
 *     source[sample, i * stride_h + first_h + sign * r, j * stride_w + first_w + sign * s, c]
 * or 0 where that lies outside the source. The sign belongs to the kernel: + for patches of an
 * image, - for the outputs that an input took part in. */
typedef struct {
    const float *source; /* [samples, height, width, channels] */
    uint32_t height, width, channels;
    uint32_t places;     /* of the grid, over all samples */
    ls_cuda_divisor by_sample; /* places of a sample */
    ls_cuda_divisor by_row;    /* places of a row of the grid */
    ls_cuda_divisor by_tap;    /* channels */
    ls_cuda_divisor by_tap_row; /* taps of a row of the window */
    int32_t stride_h, stride_w, first_h, first_w;
    int32_t vector;
} ls_cuda_patches;

typedef struct {
    uint32_t M, N, K;
    uint32_t tiles_m, tiles_n;
    int32_t accumulate, relu;
    int32_t vector_a, vector_b, vector_c;
    const float *A, *B, *bias;
    float *C;
} ls_cuda_gemm;

typedef struct {
    ls_cuda_patches x;
    uint32_t filters, columns; /* columns: taps * channels of a filter */
    uint32_t tiles_m, tiles_n;
    int32_t relu, vector_w, vector_y;
    const float *w, *bias;
    float *y;
} ls_cuda_conv_forward;

/* The inputs (h, w) with h = first_h modulo stride_h and w likewise: one launch for each such
 * class, so that every tap that is looked at lies on the stride grid. */
typedef struct {
    ls_cuda_patches dy; /* grid: the class; taps: those that reach it; channels: filters */
    uint32_t columns;   /* reaching taps * filters */
    uint32_t channels;
    uint32_t tiles_m, tiles_n;
    uint32_t filter_floats;                    /* of a filter */
    uint32_t first_tap, tap_row_step, tap_step; /* in floats, inside a filter */
    uint32_t height, width;                    /* of dx */
    uint32_t first_h, first_w, stride_h, stride_w;
    int32_t vector_w, vector_dx;
    const float *w;
    float *dx;
} ls_cuda_conv_input_gradient;

/* Groups of a batch sum: 2^log2 slices of a leaf, counted from its start, its last one fewer.
 * Groups are numbered through the leaves. */
typedef struct {
    ls_fold fold;
    uint32_t slice_rows;
    uint32_t rows;    /* of a sample */
    uint32_t log2;    /* slices of a group */
    uint32_t first[LS_SHARD_MAX + 1]; /* [leaf_count + 1] first group of a leaf */
} ls_cuda_groups;

/* A range of tiles of dw, numbered row by row. `partial` is NULL where a block runs the whole fold
 * for its tile; else a block sums one group and leaves it in partial[group][tile][element]. */
typedef struct {
    ls_cuda_groups groups;
    ls_cuda_patches x;
    uint32_t filters, columns;
    uint32_t tiles_n, first_tile;
    uint32_t tiles; /* in this launch */
    int32_t vector_dy, vector_dw;
    const float *dy;
    float *dw;
    uint64_t piece_stride;
    float *partial;
} ls_cuda_weight_gradient;

/* -- sums over samples ------------------------------------------------------------------------- */

/* partial[group][channel - first_channel] = the sum of a group, a warp per group and 32
 * channels. */
typedef struct {
    ls_cuda_groups groups; /* of one slice each */
    uint32_t width, channels;
    uint32_t first_channel, channel_count;
    const float *x;
    float *partial;
} ls_cuda_batch_sum;

/* partial[group][element] -> pieces. Element e of a batch sum is out[e]; of a weight gradient,
 * whose partials lie in tiles, it is element e mod tile of tile first_tile + e / tile. */
typedef struct {
    ls_cuda_groups groups;
    uint32_t count; /* elements of a group */
    uint32_t filters, columns, tiles_n, first_tile; /* of a weight gradient */
    const float *partial;
    float *out;
    uint64_t piece_stride;
} ls_cuda_batch_fold;

typedef struct {
    ls_fold fold;
    int32_t top_k;
    const float *loss, *weight, *absolute_error, *squared_error;
    const int32_t *place;
    ls_shard_sum *out;
} ls_cuda_shard_sums;

/* -- batch normalisation ----------------------------------------------------------------------- */

/* As ls_cuda_batch_sum, of squares; of gradients, where the sums of dy come first, those of
 * dy * xhat after the last group's. Statistics: of shard s at row + s * row_stride, from n[s]
 * values; row_stride 0: one row. */
typedef struct {
    ls_cuda_groups groups; /* of one slice each */
    uint32_t width, channels;
    uint32_t first_channel, channel_count;
    const float *x, *dy;
    const float *row;
    uint64_t row_stride;
    float n[LS_SHARD_MAX];
    float epsilon;
    float *partial;
} ls_cuda_batchnorm_sums;

/* row[shard * row_stride + e] = the sum of partial[group][e] over a leaf's groups, a row of blocks
 * for each leaf; divided by the leaf's places where it is to be a mean. */
typedef struct {
    ls_cuda_groups groups;
    uint32_t width;
    uint32_t count; /* elements of a group */
    int32_t divides;
    const float *partial;
    float *row;
    uint64_t row_stride;
} ls_cuda_batchnorm_rows;

/* A thread per channel; of sums, per element of a row. */
typedef struct {
    ls_row_merge plan;
    uint32_t channels;
    int32_t by_shard;
    float one_minus_momentum;
    const float *row; /* [shards, 2 * channels] */
    float *merged, *moving_mean, *moving_variance;
} ls_cuda_batchnorm_merge;

enum {
    LS_BATCHNORM_FLYING = 4, /* places of which a thread has the elements on their way at a time */
    LS_BATCHNORM_PLACES = 16 /* that a thread meets in a chunk */
};

/* A chunk is a run of places of one shard, cut as slices are: chunks.slice_rows places each. A
 * block meets `abreast` places at a time, a thread a channel of one of them, or four. */
typedef struct {
    ls_cuda_groups chunks;
    uint32_t channels, abreast;
    int32_t vector, relu;
    const float *row, *sums; /* sums: S1 and S2 of the gradient, apart like rows */
    uint64_t row_stride;
    float n[LS_SHARD_MAX];
    float epsilon;
    const float *gamma, *beta;
    const float *x, *dy;
    float *to; /* y, or dx */
} ls_cuda_batchnorm_elements;

/* -- pooling, activations, losses ------------------------------------------------------------- */

typedef struct {
    const float *from; /* x, or dy */
    float *to;         /* y, or dx */
    uint8_t *place;        /* max_pool writes it */
    const uint8_t *chosen; /* max_pool_gradient reads it, */
    const float *relu_y;   /* and this, unless it is NULL */
    uint32_t count;    /* elements of `to` */
    uint32_t height, width, out_height, out_width;
    int32_t window_height, window_width, stride_height, stride_width, pad_top, pad_left;
    ls_cuda_divisor by_channels, by_width, by_height; /* those of `to` */
} ls_cuda_pool;

typedef struct {
    size_t count;
    ls_activation kind;
    float slope;
    int32_t vector;
    const float *v;  /* activate: x; the gradient: what it derives from */
    const float *dy; /* the gradient */
    float *to;
} ls_cuda_activate;

/* `vector`: x is 4-byte aligned, y 16-byte aligned. */
typedef struct {
    uint32_t count;
    int32_t vector;
    ls_cuda_divisor by_channels;
    const uint8_t *x;
    const float *table; /* [channels, 256] */
    float *y;
} ls_cuda_decode;

/* narrow: wide to narrow; widen: the other way. `vector`: wide is 16-byte, narrow 8-byte
 * aligned. */
typedef struct {
    size_t count;
    int32_t vector, is_bf16;
    float *wide;
    uint16_t *narrow;
} ls_cuda_format16;

/* A thread draws the four words of a quad of a sample. */
typedef struct {
    uint32_t samples, quads; /* quads: of a sample, its last one maybe short */
    size_t elements;
    const uint32_t *index;
    uint64_t seed;
    uint32_t epoch, layer, threshold;
    float scale;
    int32_t vector;
    ls_cuda_divisor by_channels; /* of dropout_channels */
    const float *x;
    float *y;
} ls_cuda_dropout;

/* target_hot, target_rest: the targets of the label and of the others. */
typedef struct {
    size_t count;
    int32_t vector, relu; /* relu: of add */
    const float *a, *b;
    float *y;
} ls_cuda_pair;

/* A unit is four floats if `vector`, else one. */
typedef struct {
    uint32_t count; /* units */
    int32_t vector;
    ls_cuda_divisor by_columns;    /* units of a row */
    size_t from_stride, to_stride; /* units */
    const float *from;
    float *to;
} ls_cuda_copy_columns;

typedef struct {
    uint32_t count; /* units of y */
    int32_t vector;
    uint32_t height, width; /* of x */
    int32_t top, left;
    ls_cuda_divisor by_channels, by_width, by_height; /* units of a place; of y */
    const float *x;
    float *y;
} ls_cuda_pad;

typedef struct {
    size_t samples;
    uint32_t classes;
    float smooth_hot, target_hot, target_rest, loss_scale;
    const float *logits, *weight;
    const int32_t *label;
    float *loss;
    int32_t *place, *predicted;
    float *dlogits, *probability;
} ls_cuda_softmax_loss;

typedef struct {
    size_t samples;
    uint32_t outputs;
    float smooth_hot, smooth_all, loss_scale;
    const float *logits, *target, *weight;
    const int32_t *label;
    float *loss;
    int32_t *place, *predicted;
    float *absolute_error, *squared_error, *dlogits, *probability;
} ls_cuda_sigmoid_loss;

typedef struct {
    size_t samples;
    uint32_t outputs;
    int32_t absolute;
    float loss_scale;
    const float *prediction, *target, *weight;
    float *loss, *absolute_error, *squared_error, *dprediction;
} ls_cuda_regression_loss;

/* -- the parameter arena ---------------------------------------------------------------------- */

enum {
    LS_CUDA_TENSORS = 640,      /* of one launch */
    LS_CUDA_TENSOR_GROUPS = 1024 /* of one tensor */
};

/* Tensors are cut into the blocks of their flat sums, blocks into groups of 2^log2; a group is a
 * node of the tensor's tree. */
typedef struct {
    const ls_arena_tensor *tensor; /* [count] device memory */
    uint32_t count, log2;
    int32_t vector;
    uint32_t first[LS_CUDA_TENSORS + 1]; /* [count + 1] first group of a tensor */
} ls_cuda_arena;

typedef struct {
    ls_cuda_arena arena;
    float scale;
    const float *w;
    float *g;
    double *square;  /* [groups] */
    uint64_t *first; /* [groups] */
} ls_cuda_gradient_finish;

typedef struct {
    ls_cuda_arena arena;
    const float *w;
    double *square, *absolute; /* [groups] */
} ls_cuda_weight_sums;

typedef struct {
    ls_cuda_arena arena;
    const ls_tensor_step *step; /* [count] device memory */
    ls_optimizer optimizer;
    float momentum, one_minus_beta1, one_minus_beta2, one_minus_rho, epsilon;
    float clip_value, one_minus_ema;
    const float *g;
    float *w, *slot0, *slot1, *average; /* a slot that the optimizer has not is NULL */
    double *square;   /* [groups] */
    uint64_t *digest; /* [groups] */
} ls_cuda_update;

/* Groups to tensors. NULL outputs are not computed. */
typedef struct {
    ls_cuda_arena arena;
    const double *sum[2];  /* [groups] */
    double *sum_out[2];    /* [tensors] */
    const uint64_t *first; /* [groups] */
    uint64_t *first_out;   /* [tensors] smallest of a tensor's groups */
    const uint64_t *digest; /* [groups] */
    uint64_t *digest_out;   /* [1] of all groups, and of what is there if digest_continues */
    int32_t digest_continues;
} ls_cuda_arena_fold;

/* -- whole buffers ---------------------------------------------------------------------------- */

/* partial[block] = the digest, or the first index, of the elements that a block looked at. */
typedef struct {
    size_t count;
    int32_t vector;
    const float *x;
    uint64_t *partial;
} ls_cuda_whole;

typedef struct {
    size_t count;
    int32_t source_count, out_count;
    int32_t vector;
    const float *source[LS_SHARD_MAX];
    float *out[LS_SHARD_MAX];
    unsigned char adds[LS_SHARD_MAX];
    uint64_t *source_partial; /* [source_count][blocks], or NULL */
    uint64_t *out_partial;    /* [blocks], or NULL */
} ls_cuda_merge;

/* Entries of a merge's stack below its top. */
enum { LS_CUDA_SHALLOW = 7, LS_CUDA_DEEP = LS_SHARD_MAX - 1 };

/* out[i] = the digest, or the smallest, of partial[i][0 .. parts-1]; a block for each i. */
typedef struct {
    const uint64_t *partial;
    uint64_t *out;
    uint32_t parts;
    int32_t smallest;
} ls_cuda_fold_words;

/* The largest. Newer toolkits let more pass; drivers before 12.1 do not. */
static_assert(sizeof(ls_cuda_arena_fold) <= 4096, "parameters of a kernel");
static_assert(sizeof(ls_cuda_weight_gradient) <= 4096, "parameters of a kernel");
static_assert(sizeof(ls_cuda_update) <= 4096, "parameters of a kernel");
static_assert(sizeof(ls_cuda_merge) <= 4096, "parameters of a kernel");

#endif
