/* SPDX-License-Identifier: MIT */
/* tree.c -- how a ring, which adds in a rotated order, still gives the canonical tree's sum.
 *
 * The sum over V shards is defined as one binary tree (docs/numerics.md 1.1), whatever N is:
 *
 *     V = 8        ((0+1)+(2+3)) + ((4+5)+(6+7))
 *
 * Chunk c starts at place c+1, so a rank that simply added would form ((2+3)+(4+5))... for one
 * chunk and ((6+7)+(0+1))... for the next, and neither is in the tree. So a chunk travels as
 * PIECES: maximal aligned subtrees of the shards that it has met. Two pieces that are siblings are
 * added as soon as both are there; others travel side by side. N = 4, V = 8, chunk 0 (rank r owns
 * shards 2r and 2r+1; "2-3" is the node over shards 2 and 3):
 *
 *     stop  at   arrives      own    leaves           sums formed
 *      0    r1                2-3    2-3
 *      1    r2   2-3          4-5    2-3  4-5         none: 2-3 and 4-5 are no siblings
 *      2    r3   2-3  4-5     6-7    2-3  4-7         (4-5 + 6-7)
 *      3    r0   2-3  4-7     0-1    0-7              ((0-1 + 2-3) + 4-7)
 *
 * Why the last stop gives exactly the tree's bits: a piece holds the tree's value of its node. It
 * does at stop 0, where the rank's ops made it (fold.h); and a piece that is formed here is formed
 * from its two children, which are pieces that are there, or are formed here in turn. At the last
 * stop the set is all shards and its only maximal node is the root.
 *
 * Price: a hop of the first half carries several pieces where a running sum would be one. Bytes of
 * both halves together against a plain ring's, V = 8:
 *
 *     N       2     3     4     5     6     7     8
 *     bytes  x1   x1.50 x1.25 x1.47 x1.47 x1.52 x1.57        at most 4 pieces at a time
 *
 * The merge is a stack program for ls_merge (kernels.h): push a source, then add the two topmost
 * entries adds[] times. It is the walk of the node in post-order: a source is pushed; an inner node
 * is its left half, its right half, one addition after the last push.
 *
 * Invariants
 *  1. Every source is used once: its node lies in exactly one piece that leaves.
 *  2. adds of one piece sum to its number of sources - 1.
 *  3. What leaves stop i is what arrives at stop i+1, in the same order.
 */
#include "collectives/tree.h"

#include <assert.h>
#include <string.h>

static uint64_t node_shards(ls_node node)
{
    const uint64_t ones = node.count >= 64 ? UINT64_MAX : (UINT64_C(1) << node.count) - 1;
    return ones << node.begin;
}

static ls_node left_half(ls_node node)
{
    return (ls_node){ node.begin, (int)ls_tree_split((size_t)node.count) };
}

static ls_node right_half(ls_node node)
{
    const int half = (int)ls_tree_split((size_t)node.count);
    return (ls_node){ node.begin + half, node.count - half };
}

uint64_t ls_tree_rank_shards(int rank, int shard_count, int world_size)
{
    const int begin = ls_rank_shard_begin(rank, shard_count, world_size);
    const int end = ls_rank_shard_begin(rank + 1, shard_count, world_size);
    return end > begin ? node_shards((ls_node){ begin, end - begin }) : 0;
}

/* Append the maximal nodes of `shards` that lie in `node` to out[0 .. found-1]. */
static int append_pieces(uint64_t shards, ls_node node, ls_node *out, int found)
{
    const uint64_t all = node_shards(node);
    if ((shards & all) == 0) return found;
    if ((shards & all) == all) {
        out[found] = node;
        return found + 1;
    }
    found = append_pieces(shards, left_half(node), out, found);
    return append_pieces(shards, right_half(node), out, found);
}

int ls_tree_pieces(uint64_t shards, int shard_count, ls_node *out)
{
    assert(1 <= shard_count && shard_count <= LS_SHARD_MAX);
    return append_pieces(shards, (ls_node){ 0, shard_count }, out, 0);
}

/* The number of the source that is exactly `node`, or -1. */
static int source_of(const ls_tree_stop *stop, ls_node node)
{
    for (int i = 0; i < stop->in_count + stop->own_count; i++) {
        const ls_node n = i < stop->in_count ? stop->in[i] : stop->own[i - stop->in_count];
        if (n.begin == node.begin && n.count == node.count) return i;
    }
    return -1;
}

/* Append the walk of `node` to the program, which has `entry` entries. Returns how many it has. */
static int append_walk(ls_tree_stop *stop, ls_node node, int entry)
{
    const int source = source_of(stop, node);
    if (source >= 0) {
        stop->source[entry] = (unsigned char)source;
        stop->adds[entry] = 0;
        return entry + 1;
    }
    assert(node.count > 1); /* a single shard that is in the union is a source */
    entry = append_walk(stop, left_half(node), entry);
    entry = append_walk(stop, right_half(node), entry);
    stop->adds[entry - 1]++;
    return entry;
}

void ls_tree_stop_merge(ls_tree_stop *stop, const ls_node *in, int in_count, const ls_node *own,
                        int own_count, int shard_count)
{
    assert(in_count + own_count <= LS_SHARD_MAX);
    memset(stop, 0, sizeof *stop);
    uint64_t shards = 0;
    for (int i = 0; i < in_count; i++) shards |= node_shards(stop->in[i] = in[i]);
    for (int i = 0; i < own_count; i++) shards |= node_shards(stop->own[i] = own[i]);
    stop->in_count = in_count;
    stop->own_count = own_count;
    stop->out_count = ls_tree_pieces(shards, shard_count, stop->out);
    for (int m = 0; m < stop->out_count; m++) {
        stop->first[m + 1] = append_walk(stop, stop->out[m], stop->first[m]);
    }
}

/* The shards that `chunk` has met when it leaves stop i; none for i = -1. */
static uint64_t shards_met(int shard_count, int world_size, const int *ring, int chunk, int i)
{
    uint64_t shards = 0;
    for (int k = 0; k <= i; k++) {
        const int place = (chunk + 1 + k) % world_size;
        shards |= ls_tree_rank_shards(ring[place], shard_count, world_size);
    }
    return shards;
}

static int own_pieces(int shard_count, int world_size, const int *ring, int chunk, int i,
                      ls_node *own)
{
    const int rank = ring[(chunk + 1 + i) % world_size];
    return ls_tree_pieces(ls_tree_rank_shards(rank, shard_count, world_size), shard_count, own);
}

void ls_tree_stop_exact(ls_tree_stop *stop, int shard_count, int world_size, const int *ring,
                        int chunk, int i)
{
    assert(0 <= i && i < world_size && world_size <= shard_count);
    ls_node in[LS_SHARD_MAX], own[LS_SHARD_MAX];
    const uint64_t met = shards_met(shard_count, world_size, ring, chunk, i - 1);
    const int in_count = ls_tree_pieces(met, shard_count, in);
    const int own_count = own_pieces(shard_count, world_size, ring, chunk, i, own);
    ls_tree_stop_merge(stop, in, in_count, own, own_count, shard_count);
}

void ls_tree_stop_fast(ls_tree_stop *stop, int shard_count, int world_size, const int *ring,
                       int chunk, int i)
{
    assert(0 <= i && i < world_size && world_size <= shard_count);
    memset(stop, 0, sizeof *stop);
    stop->in_count = i > 0 ? 1 : 0;
    stop->own_count = own_pieces(shard_count, world_size, ring, chunk, i, stop->own);
    stop->out_count = 1;
    stop->first[1] = stop->in_count + stop->own_count;
    for (int k = 0; k < stop->first[1]; k++) {
        stop->source[k] = (unsigned char)k;
        stop->adds[k] = k > 0;
    }
}

int ls_tree_pieces_max(int shard_count, int world_size, const int *ring)
{
    int most = 0;
    for (int chunk = 0; chunk < world_size; chunk++) {
        for (int i = 0; i < world_size; i++) {
            ls_node out[LS_SHARD_MAX];
            const uint64_t met = shards_met(shard_count, world_size, ring, chunk, i);
            const int count = ls_tree_pieces(met, shard_count, out);
            if (count > most) most = count;
        }
    }
    return most;
}
