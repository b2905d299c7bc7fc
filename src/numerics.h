/* SPDX-License-Identifier: MIT */
/* numerics.h -- the arithmetic that every implementation shares: the canonical tree, flat sums,
 * shard bounds, and the elementary functions that libm may not supply.
 *
 * docs/numerics.md defines the bits; this header is the part of the definition that is code.
 * Everything here is pure. Valid C11, C++14 and device code; the includer may define LS_INLINE.
 */
#ifndef LS_NUMERICS_H
#define LS_NUMERICS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
