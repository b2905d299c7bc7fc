/* SPDX-License-Identifier: MIT */
/* activation.h -- one element of an activation and of its gradient (docs/numerics.md 1.6).
 *
 * Reference, host and device code share these lines, so that they cannot drift. They take no
 * branch but on the kind: where that is a constant, a loop over elements vectorises.
 *
 * Everything here is pure. Valid C11, C++14 and device code, as numerics.h.
 */
#ifndef LS_KERNELS_ACTIVATION_H
#define LS_KERNELS_ACTIVATION_H

#include "kernels/elementwise.h"
#include "numerics.h"

/* 1 / (1 + e^-x). The exponential is that of -|x|, which cannot overflow. */
LS_INLINE float ls_sigmoid_of(float x)
{
    const float e = ls_expf(ls_float_of_bits(ls_float_bits(x) | 0x80000000u));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* The standard normal distribution up to x. */
LS_INLINE float ls_normal_below(float x) { return 0.5f * (1.0f + ls_erff(x * 0.707106781f)); }

/* Its density at x. */
LS_INLINE float ls_normal_density(float x) { return 0.398942280f * ls_expf(-0.5f * x * x); }

LS_INLINE float ls_activation_of(ls_activation kind, float slope, float x)
{
    switch (kind) {
    case LS_ACTIVATION_RELU: return x <= 0.0f ? 0.0f : x; /* -0 becomes +0, a NaN passes */
    case LS_ACTIVATION_LEAKY_RELU: return x > 0.0f ? x : slope * x;
    case LS_ACTIVATION_SIGMOID: return ls_sigmoid_of(x);
    case LS_ACTIVATION_TANH: return ls_tanhf(x);
    case LS_ACTIVATION_GELU: return x * ls_normal_below(x);
    case LS_ACTIVATION_SILU: return x * ls_sigmoid_of(x);
    }
    return x;
}

/* Is the gradient computed from the activation's output, or from its input? */
LS_INLINE int ls_activation_derives_from_y(ls_activation kind)
{
    return kind == LS_ACTIVATION_RELU || kind == LS_ACTIVATION_SIGMOID
           || kind == LS_ACTIVATION_TANH;
}

/* `v` is y or x, as ls_activation_derives_from_y says. */
LS_INLINE float ls_activation_gradient_of(ls_activation kind, float slope, float v, float dy)
{
    const float s = kind == LS_ACTIVATION_SILU ? ls_sigmoid_of(v) : 0.0f;
    switch (kind) {
    case LS_ACTIVATION_RELU: return v > 0.0f ? dy : 0.0f;
    case LS_ACTIVATION_LEAKY_RELU: return v > 0.0f ? dy : slope * dy;
    case LS_ACTIVATION_SIGMOID: return dy * (v * (1.0f - v));
    case LS_ACTIVATION_TANH: return dy * (1.0f - v * v);
    case LS_ACTIVATION_GELU: return dy * ls_fmaf(v, ls_normal_density(v), ls_normal_below(v));
    case LS_ACTIVATION_SILU: return dy * (s * ls_fmaf(v, 1.0f - s, 1.0f));
    }
    return dy;
}

#endif
