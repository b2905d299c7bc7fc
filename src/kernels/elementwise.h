/* SPDX-License-Identifier: MIT */
/* elementwise.h -- the ops that touch each element once: activations, dropout, sums and products of
 * tensors, moves, 16-bit storage; part of kernels.h's list and under its common rules.
 */
#ifndef LS_KERNELS_ELEMENTWISE_H
#define LS_KERNELS_ELEMENTWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- activations ------------------------------------------------------------------------------- */

/* In fp32, with the elementary functions of numerics.h:
 *   RELU        x <= 0 ? 0 : x                        dx = y > 0 ? dy : 0
 *   LEAKY_RELU  x > 0 ? x : slope * x                 dx = x > 0 ? dy : slope * dy
 *   SIGMOID     s(x), below                           dx = dy * (y * (1 - y))
 *   TANH        tanh x                                dx = dy * (1 - y * y)
 *   GELU        x * P, P = 0.5 * (1 + erf(x * r))    dx = dy * fmaf(x, density(x), P)
 *   SILU        x * s(x)                              dx = dy * (s * fmaf(x, 1 - s, 1)), s = s(x)
 * s(x) = 1 / (1 + exp(-x)), for x < 0 as e / (1 + e) with e = exp(x); r = (float)(1 / sqrt 2);
 * density(x) = (float)(1 / sqrt(2 pi)) * exp(-0.5 * x * x), products from the left. RELU, SIGMOID
 * and TANH derive from y, the others from x. A NaN passes. */
typedef enum {
    LS_ACTIVATION_RELU,
    LS_ACTIVATION_LEAKY_RELU,
    LS_ACTIVATION_SIGMOID,
    LS_ACTIVATION_TANH,
    LS_ACTIVATION_GELU,
    LS_ACTIVATION_SILU
} ls_activation;

/* In place allowed. */
typedef struct {
    ls_activation kind;
    float slope; /* LEAKY_RELU */
    size_t count;
    const float *x;
    float *y;
} ls_activate_args;

/* In place (dx = dy) allowed. */
typedef struct {
    ls_activation kind;
    float slope;
    size_t count;
    const float *x; /* the activation's input; NULL where y is used */
    const float *y; /* its output; NULL where x is used */
    const float *dy;
    float *dx;
} ls_activate_gradient_args;

/* y = kept ? x * scale : 0, kept where the element's Philox word >= threshold (docs/numerics.md 7),
 * for the sample with data-set index `index[i]`. Element e has word e; with `channels` (spatial
 * dropout) element e has word e mod channels, so a channel is kept or dropped whole. The gradient
 * is the same op on dy. In place allowed. */
typedef struct {
    size_t samples, elements; /* x is [samples, elements] */
    size_t channels;          /* 0: each element by itself; else a divisor of elements */
    const uint32_t *index;    /* [samples], device memory */
    uint64_t seed;
    uint32_t epoch, layer, threshold;
    float scale;
    const float *x;
    float *y;
} ls_dropout_args;

/* -- tensors with tensors ---------------------------------------------------------------------- */

/* y = a + b, then relu where asked for. y may be a or b. */
typedef struct {
    size_t count;
    bool relu;
    const float *a, *b;
    float *y;
} ls_add_args;

/* y = a * b. y may be a or b. */
typedef struct {
    size_t count;
    const float *a, *b;
    float *y;
} ls_multiply_args;

/* Copy `columns` floats of each of `rows` rows: concatenation of channels, and its gradient. */
typedef struct {
    size_t rows, columns;
    const float *from;
    size_t from_stride; /* in floats */
    float *to;
    size_t to_stride;
} ls_copy_columns_args;

/* y[n, i, j, c] = x[n, i - top, j - left, c] where that lies in x, else +0. Offsets may be
 * negative: zero padding, and its gradient, which crops. */
typedef struct {
    size_t samples, height, width, channels;
    ptrdiff_t top, left;
    size_t out_height, out_width;
    const float *x;
    float *y;
} ls_pad_args;

/* -- 16-bit storage ------------------------------------------------------------------------------
 * BF16 is the upper half of a float; F16 is IEEE 754 binary16. Rounding to nearest, ties to even;
 * what is too large becomes infinite; F16 keeps its denormals; any NaN becomes the quiet one of the
 * format (0x7fc0, 0x7e00). Widening is exact. */
typedef enum { LS_FORMAT_BF16, LS_FORMAT_F16 } ls_format16;

typedef struct {
    ls_format16 format;
    size_t count;
    const float *x;
    uint16_t *y;
} ls_narrow_args;

typedef struct {
    ls_format16 format;
    size_t count;
    const uint16_t *x;
    float *y;
} ls_widen_args;

/* -- bytes ------------------------------------------------------------------------------------- */

/* y[i] = table[i mod channels][x[i]]: pixels as they lie in a data set become the network's
 * numbers. */
typedef struct {
    size_t count, channels; /* count: a multiple of channels */
    const uint8_t *x;
    const float *table; /* [channels, 256] device memory */
    float *y;
} ls_decode_args;

#define LS_ELEMENTWISE_KERNELS(X)                                                                 \
    X(activate)                                                                                   \
    X(activate_gradient)                                                                          \
    X(dropout)                                                                                    \
    X(add)                                                                                        \
    X(multiply)                                                                                   \
    X(copy_columns)                                                                               \
    X(pad)                                                                                        \
    X(narrow)                                                                                     \
    X(widen)                                                                                      \
    X(decode)

#endif
