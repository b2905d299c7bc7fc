/* SPDX-License-Identifier: MIT */
/* simd_portable.h -- vector words of four floats on any machine, in GCC's vector extension.
 *
 * The functions are listed in host.h. Where the processor has no fused multiply-add, the one here
 * is ls_soft_fmaf (numerics.h, where it is explained), two lanes at a time: same steps, same bits.
 * Only the conversion between float and double changes the width of a vector.
 */
#ifndef LS_KERNELS_HOST_SIMD_PORTABLE_H
#define LS_KERNELS_HOST_SIMD_PORTABLE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LS_LANES = 4, LS_TILE_ROWS = 4, LS_TILE_VECTORS = 1 };
#define LS_TILE_ROW_COUNTS(X) X(1) X(2) X(3) X(4)
#define LS_TILE_PAIR_COUNTS(X) X(1) X(2)
enum { LS_NARROW_ROWS = LS_TILE_ROWS };
#define LS_NARROW_ROW_COUNTS(X) LS_TILE_ROW_COUNTS(X)
enum { LS_TILE_TRIPLES = 4 };
#define LS_TILE_TRIPLE_COUNTS(X) X(1) X(2) X(3) X(4)
enum { LS_FMA_IS_QUICK = 0 };
#define LS_POOLED_COUNTS(X) X(1)

typedef float ls_vec __attribute__((vector_size(16)));
typedef int32_t ls_mask __attribute__((vector_size(16))); /* -1: yes */
typedef int32_t ls_bytes __attribute__((vector_size(16)));
typedef uint8_t ls_four_bytes __attribute__((vector_size(4)));

static inline ls_vec ls_vec_zero(void) { return (ls_vec){0.0f, 0.0f, 0.0f, 0.0f}; }
static inline ls_vec ls_vec_set(float x) { return (ls_vec){x, x, x, x}; }

static inline ls_vec ls_vec_load(const float *p)
{
    ls_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void ls_vec_store(float *p, ls_vec v) { memcpy(p, &v, sizeof v); }

static inline ls_vec ls_vec_load_part(const float *p, size_t n)
{
    ls_vec v = ls_vec_zero();
    for (size_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}

static inline void ls_vec_store_part(float *p, ls_vec v, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = v[i];
}

#ifdef __FP_FAST_FMAF /* the processor has the instruction */

static inline ls_vec ls_vec_fma(ls_vec a, ls_vec b, ls_vec c)
{
    ls_vec out;
    for (int i = 0; i < LS_LANES; i++) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return out;
}

#else

typedef float ls_vec_half __attribute__((vector_size(8)));
typedef double ls_vec_double __attribute__((vector_size(16)));
typedef int64_t ls_vec_long __attribute__((vector_size(16)));

static inline ls_vec_double ls_vec_widen(float x, float y)
{
    return (ls_vec_double){(double)x, (double)y};
}

static inline ls_vec_half ls_vec_fma_half(ls_vec_double a, ls_vec_double b, ls_vec_double c)
{
    const ls_vec_double product = a * b;
    const ls_vec_double s = product + c;
    const ls_vec_double c_part = s - product;
    const ls_vec_double e = (product - (s - c_part)) + (c - c_part);
    const ls_vec_double zero = {0.0, 0.0};
    ls_vec_long bits;
    memcpy(&bits, &s, sizeof bits);
    /* Comparisons are -1 where true, so (step ^ shrinks) - shrinks is -step there. */
    const ls_vec_long inexact = (e < zero) | (e > zero);
    const ls_vec_long shrinks = (e < zero) ^ (s < zero);
    const ls_vec_long one = {1, 1};
    const ls_vec_long step = inexact & ~bits & one;
    bits += (step ^ shrinks) - shrinks;
    ls_vec_double odd;
    memcpy(&odd, &bits, sizeof odd);
    return __builtin_convertvector(odd, ls_vec_half);
}

static inline ls_vec ls_vec_fma(ls_vec a, ls_vec b, ls_vec c)
{
    const ls_vec_half low = ls_vec_fma_half(ls_vec_widen(a[0], a[1]), ls_vec_widen(b[0], b[1]),
                                            ls_vec_widen(c[0], c[1]));
    const ls_vec_half high = ls_vec_fma_half(ls_vec_widen(a[2], a[3]), ls_vec_widen(b[2], b[3]),
                                             ls_vec_widen(c[2], c[3]));
    return (ls_vec){low[0], low[1], high[0], high[1]};
}

#endif

static inline ls_vec ls_vec_fma_from(const float *a, ls_vec b, ls_vec c)
{
    return ls_vec_fma(ls_vec_set(*a), b, c);
}

static inline ls_vec ls_vec_add(ls_vec a, ls_vec b) { return a + b; }
static inline ls_vec ls_vec_sub(ls_vec a, ls_vec b) { return a - b; }
static inline ls_vec ls_vec_mul(ls_vec a, ls_vec b) { return a * b; }

static inline ls_vec ls_vec_mul_from(const float *a, ls_vec b)
{
    return ls_vec_mul(ls_vec_set(*a), b);
}

static inline ls_vec ls_vec_div(ls_vec a, ls_vec b) { return a / b; }

static inline ls_vec ls_vec_sqrt(ls_vec v)
{
    return (ls_vec){sqrtf(v[0]), sqrtf(v[1]), sqrtf(v[2]), sqrtf(v[3])};
}

static inline ls_vec ls_vec_negate(ls_vec a) { return -a; }
static inline ls_vec ls_vec_abs(ls_vec v) { return (ls_vec)((ls_mask)v & 0x7fffffff); }

static inline ls_vec ls_vec_relu(ls_vec v)
{
    const ls_mask off = v <= ls_vec_zero();
    ls_mask bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= ~off;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline ls_mask ls_vec_below(ls_vec a, ls_vec b) { return a < b; }
static inline ls_mask ls_vec_replaces(ls_vec x, ls_vec m) { return (x > m) | (x != x); }

static inline ls_bytes ls_bytes_select(ls_mask mask, ls_bytes a, ls_bytes b)
{
    return (a & mask) | (b & ~mask);
}

static inline ls_vec ls_vec_select(ls_mask mask, ls_vec a, ls_vec b)
{
    return (ls_vec)ls_bytes_select(mask, (ls_bytes)a, (ls_bytes)b);
}

static inline ls_vec ls_vec_drop(ls_mask mask, ls_vec v) { return (ls_vec)((ls_mask)v & ~mask); }

static inline ls_bytes ls_bytes_set(int b) { return (ls_bytes){b, b, b, b}; }

static inline ls_bytes ls_bytes_load(const uint8_t *p)
{
    return (ls_bytes){p[0], p[1], p[2], p[3]};
}

static inline void ls_bytes_store(uint8_t *p, ls_bytes v)
{
    const ls_four_bytes low = __builtin_convertvector(v, ls_four_bytes);
    memcpy(p, &low, sizeof low);
}

static inline ls_vec ls_vec_of_bytes(ls_bytes v) { return __builtin_convertvector(v, ls_vec); }
static inline ls_mask ls_bytes_equal(ls_bytes a, ls_bytes b) { return a == b; }

static inline void ls_vec_transpose(ls_vec *v)
{
    const ls_vec a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = (ls_vec){a[0], b[0], c[0], d[0]};
    v[1] = (ls_vec){a[1], b[1], c[1], d[1]};
    v[2] = (ls_vec){a[2], b[2], c[2], d[2]};
    v[3] = (ls_vec){a[3], b[3], c[3], d[3]};
}

typedef double ls_doubles __attribute__((vector_size(16)));

static inline ls_doubles ls_doubles_add_squares(ls_doubles sum, const float *p)
{
    const ls_doubles v = {(double)p[0], (double)p[1]};
    return sum + v * v;
}

#endif
