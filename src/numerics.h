/* SPDX-License-Identifier: MIT */
/* numerics.h -- the arithmetic that every implementation shares: shard bounds, the canonical tree,
 * fused multiply-add, flat sums, digests, and the elementary functions that libm may not supply.
 *
 * docs/numerics.md defines the bits; this header is the part of the definition that is code. It
 * uses + - * / sqrt, comparisons, exact conversions and integers only, so that every compiler and
 * processor that follows IEEE 754 gives the same bits (build with contraction off).
 *
 * Everything here is pure. Valid C11, C++14 and device code. The includer may define LS_INLINE
 * and LS_FMAF (device code: static __device__ inline, and __fmaf_rn).
 */
#ifndef LS_NUMERICS_H
#define LS_NUMERICS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "lockstep needs float arithmetic in float precision (FLT_EVAL_METHOD 0): use SSE, not x87"
#endif

#ifndef LS_INLINE
#define LS_INLINE static inline
#endif

/* -- shards ---------------------------------------------------------------------------------- */

enum { LS_SHARD_MAX = 64 }; /* the most shards V that --shards accepts; N <= V */

/* First sample of shard s of a global batch of `samples`: shard s is
 * [ls_shard_begin(s), ls_shard_begin(s + 1)). */
LS_INLINE size_t ls_shard_begin(int shard, size_t samples, int shard_count)
{
    return (size_t)shard * samples / (size_t)shard_count;
}

/* First shard that `rank` owns: it owns [ls_rank_shard_begin(r), ls_rank_shard_begin(r + 1)). */
LS_INLINE int ls_rank_shard_begin(int rank, int shard_count, int world_size)
{
    return rank * shard_count / world_size;
}

/* -- the canonical tree ---------------------------------------------------------------------- */

/* A node over `count` >= 2 leaves splits into the first ls_tree_split(count) leaves and the rest:
 * the largest power of two strictly below count. */
LS_INLINE size_t ls_tree_split(size_t count)
{
    size_t half = 1;
    while (half * 2 < count) half *= 2;
    return half;
}

/* Fold leaves that come one by one, in order, with a stack: after leaf i (from 0) has been pushed,
 * this many times the two topmost entries become their sum. It is the number of trailing ones of
 * i, as in a binary counter. After the LAST leaf of `count`, the remaining entries are folded
 * from the top down (also counted here). The result is the tree's root; the stack never holds
 * more than log2(count) + 2 entries.
 * Example, count = 6: pushes 0..5 are followed by 0 1 0 2 0 2 additions: (((0+1)+(2+3))+(4+5)). */
LS_INLINE int ls_tree_adds_after(size_t leaf, size_t count)
{
    int adds = 0;
    for (size_t i = leaf; i & 1; i >>= 1) adds++;
    if (leaf + 1 == count) {
        /* Entries left after the counter's merges: one per set bit of count. */
        for (size_t bits = count & (count - 1); bits; bits &= bits - 1) adds++;
    }
    return adds;
}

/* Entries that a stack of the tree may need, whatever the number of leaves. */
enum { LS_TREE_DEPTH = 66 };

/* -- bits ------------------------------------------------------------------------------------- */

LS_INLINE uint32_t ls_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LS_INLINE float ls_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

LS_INLINE uint64_t ls_double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LS_INLINE double ls_double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Neither NaN nor infinite. */
LS_INLINE int ls_is_finite(float x) { return (ls_float_bits(x) & 0x7f800000u) != 0x7f800000u; }

/* -- fused multiply-add ------------------------------------------------------------------------ */

/* a * b + c, rounded once, on a processor without the instruction. The product of two floats is
 * exact in double. s + e = product + c exactly (TwoSum: D. E. Knuth, The Art of Computer
 * Programming, volume 2, section 4.2.2). If e is not 0, s is made odd: an even s steps to its
 * neighbour on e's side, which is odd. An odd 53-bit number remembers that something was lost and
 * is never a tie, so the one conversion to 24 bits rounds as the exact sum would (S. Boldo and
 * G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
 * odd", IEEE Transactions on Computers 57(4), 2008). An infinite s or a NaN passes as it is.
 * Integers in place of comparisons: then a loop over it vectorises on any 64-bit machine. */
LS_INLINE float ls_soft_fmaf(float a, float b, float c)
{
    const double product = (double)a * (double)b;
    const double s = product + (double)c;
    const double c_part = s - product;
    const double e = (product - (s - c_part)) + ((double)c - c_part);
    uint64_t bits, error;
    memcpy(&bits, &s, sizeof bits);
    memcpy(&error, &e, sizeof error);
    const uint64_t magnitude = error << 1;
    const uint64_t inexact = (magnitude | (0 - magnitude)) >> 63; /* e != 0 */
    const uint64_t nonfinite = (((bits >> 52) & 0x7ff) + 1) >> 11; /* s's exponent is the top */
    const uint64_t step = inexact & ~bits & ~nonfinite; /* 1 where s must move */
    const uint64_t shrinks = 0 - ((bits ^ error) >> 63); /* all ones: towards 0 */
    bits += (step ^ shrinks) - shrinks;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

/* a * b + c, rounded once: by the instruction where the build's processor has it, else soft; the
 * result is the same. Never libm's fmaf, which is correct and a hundred times slower. */
#ifndef LS_FMAF
#ifdef __FP_FAST_FMAF
#define LS_FMAF __builtin_fmaf
#else
#define LS_FMAF ls_soft_fmaf
#endif
#endif
LS_INLINE float ls_fmaf(float a, float b, float c) { return LS_FMAF(a, b, c); }

/* -- flat sums --------------------------------------------------------------------------------- */

/* A flat sum cuts its terms into blocks of 4096. In a block, lane l of 64 is the chain of terms
 * l, l + 64, ...; then lane l += lane l + 32, + 16, + 8, + 4, + 2, + 1. Blocks meet in the tree. */
enum { LS_FLAT_LANES = 64, LS_FLAT_BLOCK = 4096 };

/* The sum of a block's lanes; changes lane[]. */
LS_INLINE double ls_flat_lanes_f64(double *lane)
{
    for (int half = LS_FLAT_LANES / 2; half; half /= 2) {
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    }
    return lane[0] + 0.0;
}

LS_INLINE float ls_flat_lanes_f32(float *lane)
{
    for (int half = LS_FLAT_LANES / 2; half; half /= 2) {
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    }
    return lane[0] + 0.0f;
}

/* Leaves of a tree that come one by one and whose number is not known before the last. */
typedef struct {
    double entry[LS_TREE_DEPTH];
    int depth;
    size_t leaves;
} ls_tree_f64;

typedef struct {
    float entry[LS_TREE_DEPTH];
    int depth;
    size_t leaves;
} ls_tree_f32;

LS_INLINE void ls_tree_push_f64(ls_tree_f64 *tree, double leaf)
{
    for (size_t i = tree->leaves; i & 1; i >>= 1) leaf = tree->entry[--tree->depth] + leaf;
    tree->entry[tree->depth++] = leaf;
    tree->leaves++;
}

LS_INLINE void ls_tree_push_f32(ls_tree_f32 *tree, float leaf)
{
    for (size_t i = tree->leaves; i & 1; i >>= 1) leaf = tree->entry[--tree->depth] + leaf;
    tree->entry[tree->depth++] = leaf;
    tree->leaves++;
}

/* The root; +0 without a leaf. */
LS_INLINE double ls_tree_root_f64(const ls_tree_f64 *tree)
{
    if (tree->depth == 0) return 0.0;
    double sum = tree->entry[tree->depth - 1];
    for (int i = tree->depth - 1; i-- > 0;) sum = tree->entry[i] + sum;
    return sum;
}

LS_INLINE float ls_tree_root_f32(const ls_tree_f32 *tree)
{
    if (tree->depth == 0) return 0.0f;
    float sum = tree->entry[tree->depth - 1];
    for (int i = tree->depth - 1; i-- > 0;) sum = tree->entry[i] + sum;
    return sum;
}

/* A flat sum whose terms come one by one. All-zero is the empty one. */
typedef struct {
    double lane[LS_FLAT_LANES];
    size_t count; /* terms so far */
    ls_tree_f64 block;
} ls_flat_f64;

typedef struct {
    float lane[LS_FLAT_LANES];
    size_t count;
    ls_tree_f32 block;
} ls_flat_f32;

LS_INLINE void ls_flat_init_f64(ls_flat_f64 *sum) { memset(sum, 0, sizeof *sum); }
LS_INLINE void ls_flat_init_f32(ls_flat_f32 *sum) { memset(sum, 0, sizeof *sum); }

/* Add one term. A product of two floats is exact in double, so fused or not is one there. */
LS_INLINE void ls_flat_add_f64(ls_flat_f64 *sum, double term)
{
    sum->lane[sum->count++ % LS_FLAT_LANES] += term;
    if (sum->count % LS_FLAT_BLOCK == 0) {
        ls_tree_push_f64(&sum->block, ls_flat_lanes_f64(sum->lane));
        memset(sum->lane, 0, sizeof sum->lane);
    }
}

/* Add the term a * b, fused. A plain sum has b = 1. */
LS_INLINE void ls_flat_add_f32(ls_flat_f32 *sum, float a, float b)
{
    float *lane = &sum->lane[sum->count++ % LS_FLAT_LANES];
    *lane = ls_fmaf(a, b, *lane);
    if (sum->count % LS_FLAT_BLOCK == 0) {
        ls_tree_push_f32(&sum->block, ls_flat_lanes_f32(sum->lane));
        memset(sum->lane, 0, sizeof sum->lane);
    }
}

/* The sum of the terms so far; nothing may be added after. */
LS_INLINE double ls_flat_end_f64(ls_flat_f64 *sum)
{
    if (sum->count % LS_FLAT_BLOCK) {
        ls_tree_push_f64(&sum->block, ls_flat_lanes_f64(sum->lane));
    }
    return ls_tree_root_f64(&sum->block);
}

LS_INLINE float ls_flat_end_f32(ls_flat_f32 *sum)
{
    if (sum->count % LS_FLAT_BLOCK) {
        ls_tree_push_f32(&sum->block, ls_flat_lanes_f32(sum->lane));
    }
    return ls_tree_root_f32(&sum->block);
}

/* -- digests and slots ------------------------------------------------------------------------- */

/* A float's 32 bits, any NaN as 0x7fc00000: processors differ in a NaN's payload and sign. */
LS_INLINE uint32_t ls_digest_word(float x) { return x == x ? ls_float_bits(x) : 0x7fc00000u; }

/* What a digest starts from, once: the digest of nothing. It is not 0, so that a link that delivers
 * zeros, a digest among them, does not deliver a buffer with the right digest. All its bytes are
 * LS_DIGEST_BYTE. */
#define LS_DIGEST_BYTE 0xa5
#define LS_DIGEST_START UINT64_C(0xa5a5a5a5a5a5a5a5)

/* What element i adds to a digest, a sum modulo 2^64. */
LS_INLINE uint64_t ls_digest_term(size_t i, float x)
{
    return (2 * (uint64_t)i + 1) * ls_digest_word(x);
}

/* 2^-100: what is smaller vanishes from an optimizer's slot. */
LS_INLINE float ls_slot_least(void) { return ls_float_of_bits(0x0d800000u); }

/* An optimizer slot as it is stored: |x| < 2^-100 (the float 0x0d800000) is +0. Without it the
 * slots of dead units decay into denormals, on which arithmetic is many times slower. */
LS_INLINE float ls_slot_flush(float x)
{
    const float limit = ls_slot_least();
    return (x < limit) & (x > -limit) ? 0.0f : x;
}

/* -- elementary functions ----------------------------------------------------------------------
 * libm's differ in their last bits from version to version, and within one between processors with
 * and without fused multiply-add. These use none and take no branch: they vectorise, same bits. */

/* e^x within 1.1 ulp; +0 for x < -87, where the result would near the denormals; +inf above the
 * range; NaN for NaN.
 * n = x / ln 2 rounded: adding 1.5 * 2^23 leaves no bits for a fraction, and n in the last bits.
 * r = x - n ln 2 with ln 2 in two parts, the first of 9 bits so that its product with n is exact.
 * |r| <= 0.35 and e^r by its Taylor series; the first term left out, r^8 / 8!, is below 6e-9,
 * a tenth of half an ulp. Times 2^n in two factors, as 2^128 is no float. */
LS_INLINE float ls_expf(float x)
{
    const float shift = 12582912.0f;
    const float t = x * 1.44269504f + shift;
    const float n = t - shift;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    /* k = n + 256 > 0 in the range used below; 127 is the exponent's bias. */
    const uint32_t k = ls_float_bits(t) - ls_float_bits(shift) + 256;
    const uint32_t half = k >> 1;
    const float low = ls_float_of_bits((half - 1) << 23);
    const float y = p * low * ls_float_of_bits((k - half - 1) << 23);
    const float high = x > 88.7228317f ? ls_float_of_bits(0x7f800000u) : y;
    return x < -87.0f ? 0.0f : high;
}

/* ln x within 0.87 ulp, denormal x included; -inf for 0, NaN below 0 and for NaN, +inf for +inf.
 * x = 2^e m with sqrt(1/2) <= m < sqrt(2). With f = m - 1 and s = f / (2 + f),
 * ln m = 2 atanh s = 2s + 2/3 s^3 + 2/5 s^5 + ...; written as f - (f^2/2 - s (f^2/2 + R)),
 * R = 2/3 s^2 + 2/5 s^4 + ..., because f is exact and 2s is not. |s| <= 0.172; the first term left
 * out, 2/11 s^11, is a thirtieth of an ulp. ln 2 in two parts, so that e times the first is exact.
 * (The form is that of fdlibm's e_log.c, Sun Microsystems, 1993.) */
LS_INLINE float ls_logf(float x)
{
    const float smallest = ls_float_of_bits(0x00800000u); /* normal */
    const float scaled = x < smallest ? x * 8388608.0f : x;
    const float bias = x < smallest ? 127.0f + 23.0f : 127.0f;
    /* Adding 1 - sqrt(1/2), as bits, carries into the exponent where m would be sqrt(2) or more. */
    const uint32_t u = ls_float_bits(scaled) + (0x3f800000u - 0x3f3504f3u);
    const float e = (float)(int32_t)(u >> 23) - bias;
    const float f = ls_float_of_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    const float R = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
    const float h = 0.5f * f * f;
    const float y = e * 6.9313812256e-01f - ((h - (s * (h + R) + e * 9.0580006145e-06f)) - f);
    const float inf = ls_float_of_bits(0x7f800000u);
    const float finite = x < inf ? y : x;      /* +inf and NaN pass */
    const float domain = x < 0.0f ? ls_float_of_bits(0x7fc00000u) : finite;
    return x == 0.0f ? -inf : domain;
}

/* tanh x within 1.07 ulp; odd, so -0 stays -0 and a denormal itself; 1 from 9.1 on; NaN for NaN.
 * Below 0.75 the continued fraction x / (1 + z/(3 + z/(5 + z/(7 + z/9)))), z = x^2 (J. H. Lambert,
 * 1761), as x less what it falls behind x; cut there it is wrong by z^5 / (9 * 25 * 49 * 81 * 11)
 * of itself, 6e-9. Above, 1 - 2 / (e^2x + 1). One division serves both. */
LS_INLINE float ls_tanhf(float x)
{
    const uint32_t bits = ls_float_bits(x), sign = bits & 0x80000000u;
    const float a = ls_float_of_bits(bits ^ sign); /* |x| */
    const float z = a * a;
    const float e = ls_expf(2.0f * a);
    const int small = a < 0.75f;
    const float n = small ? a * z * (315.0f + 14.0f * z) : 2.0f;
    const float d = small ? 945.0f + z * (420.0f + 15.0f * z) : e + 1.0f;
    const float y = (small ? a : 1.0f) - n / d;
    return ls_float_of_bits(ls_float_bits(y) | sign);
}

/* erf x within 1.34 ulp; odd, -0 and denormals as tanh; 1 from 3.92 on; NaN for NaN.
 * Below 1, x + x p(x^2), p the polynomial of degree 6 that agrees with erf(sqrt z) / sqrt z - 1
 * at the Chebyshev nodes of [0, 1]; elsewhere there it is wrong by 1.3e-9. Above, 1 - e^-q(x), q
 * the polynomial of degree 8 that agrees with -ln(1 - erf x) at the Chebyshev nodes of [1, 4]; what
 * that makes of erf is wrong by 5e-10. */
LS_INLINE float ls_erff(float x)
{
    const uint32_t bits = ls_float_bits(x), sign = bits & 0x80000000u;
    const float whole = ls_float_of_bits(bits ^ sign); /* |x| */
    const float a = whole > 4.0f ? 4.0f : whole;
    const float z = a * a;
    float p = 7.87587506e-5f;
    p = p * z + -8.01686429e-4f;
    p = p * z + 5.18908742e-3f;
    p = p * z + -2.68542120e-2f;
    p = p * z + 1.12835947e-1f;
    p = p * z + -3.76126267e-1f;
    p = p * z + 1.28379166e-1f;
    float q = -1.63715141e-6f;
    q = q * a + 4.60580427e-5f;
    q = q * a + -5.96805626e-4f;
    q = q * a + 4.75959629e-3f;
    q = q * a + -2.64211360e-2f;
    q = q * a + 1.10080083e-1f;
    q = q * a + 6.31826052e-1f;
    q = q * a + 1.13023343f;
    q = q * a + -3.20138050e-4f;
    const float above = 1.0f - ls_expf(-q);
    const float y = a < 1.0f ? a + a * p : above;
    return ls_float_of_bits(ls_float_bits(y) | sign);
}

/* e^x within 1 ulp, denormal results included; +0 for x < -745.1332, +inf above the range; NaN for
 * NaN. For the constants of schedules.
 * As ls_expf: n = x / ln 2 rounded with 1.5 * 2^52; the first part of ln 2 has 32 bits; the first
 * term of the series left out, r^14 / 14!, is below 5e-18. Both factors of 2^n are normal and so is
 * the product with the first: a denormal result is rounded by the second only. */
LS_INLINE double ls_exp(double x)
{
    const double shift = 6755399441055744.0;
    const double t = x * 1.44269504088896340736 + shift;
    const double n = t - shift;
    const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0;
    for (int k = 13; k > 2; k--) p = 1.0 + p * r / k;
    p = 1.0 + (r + 0.5 * (r * r) * p);
    const uint64_t k = ls_double_bits(t) - ls_double_bits(shift) + 2048;
    const uint64_t half = k >> 1;
    const double y = p * ls_double_of_bits((half - 1) << 52)
                     * ls_double_of_bits((k - half - 1) << 52);
    const double high = x > 709.782712893383973 ? ls_double_of_bits(0x7ff0000000000000u) : y;
    return x < -745.1332191019412 ? 0.0 : high;
}

/* ln x within 0.9 ulp, denormal x included; -inf for 0, NaN below 0 and for NaN, +inf for +inf.
 * As ls_logf; the first term of the series left out, 2/23 s^23, is below 7e-19 of the first. */
LS_INLINE double ls_log(double x)
{
    const uint64_t one = 0x3ff0000000000000u, root = 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    const double smallest = 2.2250738585072014e-308; /* normal */
    const double scaled = x < smallest ? x * 18014398509481984.0 : x;
    const double bias = x < smallest ? 1023.0 + 54.0 : 1023.0;
    const uint64_t u = ls_double_bits(scaled) + (one - root);
    const double e = (double)(int32_t)(u >> 52) - bias;
    const double f = ls_double_of_bits((u & 0x000fffffffffffffu) + root) - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double R = 0.0;
    for (int k = 21; k > 1; k -= 2) R = z * (2.0 / k + R);
    const double h = 0.5 * f * f;
    const double y = e * 6.93147180369123816490e-01
                     - ((h - (s * (h + R) + e * 1.90821492927058770002e-10)) - f);
    const double inf = ls_double_of_bits(0x7ff0000000000000u);
    const double finite = x < inf ? y : x; /* +inf and NaN pass */
    const double domain = x < 0.0 ? ls_double_of_bits(0x7ff8000000000000u) : finite;
    return x == 0.0 ? -inf : domain;
}

/* cos x within 2e-16 absolutely, for 0 <= x <= pi (the cosine schedule's half period).
 * n = x / (pi/2) rounded, 0, 1 or 2; r = x - n pi/2 with pi/2 in two parts, the first of 33 bits;
 * cos r or sin r by its Taylor series; the first terms left out, r^18 / 18! and r^19 / 19! with
 * |r| <= pi/4, are below 3e-18. */
LS_INLINE double ls_cos(double x)
{
    const int n = x < 0.78539816339744831 ? 0 : x < 2.3561944901923449 ? 1 : 2;
    const double r = (x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
    const double z = r * r;
    /* 1 - z/2 (1 - z/12 (1 - z/30 ...)), and r (1 - z/6 (1 - z/20 ...)) for the sine. */
    double p = 1.0;
    for (int k = n == 1 ? 17 : 16; k > 1; k -= 2) p = 1.0 - z / (k * (k - 1)) * p;
    return n == 0 ? p : n == 1 ? -(r * p) : -p;
}

#endif
