/* SPDX-License-Identifier: MIT */
/* numerics.h -- the arithmetic that every implementation shares: shard bounds, the canonical tree,
 * fused multiply-add, flat sums, digests, and the elementary functions that libm may not supply.
 *
 * docs/numerics.md defines the bits; this header is the part of the definition that is code. It
 * uses + - * / sqrt, comparisons, exact conversions and integers only, so that every compiler and
 * processor that follows IEEE 754 gives the same bits (build with contraction off).
 *
 * Everything here is pure. Valid C11, C++14 and device code. The includer may define LS_INLINE
 * (device code: static __device__ inline) and LS_FMAF (see ls_fmaf).
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

/* Neither NaN nor infinite. */
LS_INLINE int ls_is_finite(float x) { return (ls_float_bits(x) & 0x7f800000u) != 0x7f800000u; }

/* -- fused multiply-add ------------------------------------------------------------------------ */

/* a * b + c, rounded once, on a processor without the instruction. The product of two floats is
 * exact in double. s + e = product + c exactly (TwoSum: D. E. Knuth, The Art of Computer
 * Programming, volume 2, section 4.2.2). If e is not 0, s is made odd: an even s steps to its
 * neighbour on e's side, which is odd. An odd 53-bit number remembers that something was lost and
 * is never a tie, so the one conversion to 24 bits rounds as the exact sum would (S. Boldo and
 * G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
 * odd", IEEE Transactions on Computers 57(4), 2008). With an infinity or a NaN e is NaN, which is
 * neither above nor below 0, and s passes as it is. No branches: a loop over it vectorises. */
LS_INLINE float ls_soft_fmaf(float a, float b, float c)
{
    const double product = (double)a * (double)b;
    const double s = product + (double)c;
    const double c_part = s - product;
    const double e = (product - (s - c_part)) + ((double)c - c_part);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    const uint64_t inexact = (uint64_t)(e < 0.0) | (uint64_t)(e > 0.0);
    const uint64_t shrinks = (uint64_t)(e < 0.0) ^ (uint64_t)(s < 0.0);
    bits += (inexact & ~bits) * (1 - 2 * shrinks); /* ~bits & 1 = even */
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

/* a * b + c, rounded once. Builds for processors that have the instruction define LS_FMAF as
 * __builtin_fmaf (device code: __fmaf_rn); the result is the same, only faster. */
#ifndef LS_FMAF
#define LS_FMAF ls_soft_fmaf
#endif
LS_INLINE float ls_fmaf(float a, float b, float c) { return LS_FMAF(a, b, c); }

#endif
