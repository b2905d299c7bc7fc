/* SPDX-License-Identifier: MIT */
/* fold.c -- plan which sum merges with which, by running the passes on node names.
 *
 * The planner keeps the set of LIVE nodes: those whose sum lies in some slot. It meets the leaves
 * in the order in which an op will, and does with names what the op does with numbers:
 *
 *     node = the leaf
 *     while the sibling of node is live: take the sibling's slot, free it, node = their parent
 *     put node into the lowest free slot, of one of two kinds:
 *         a piece       if node is still live when the pass ends
 *         a temporary   if it is merged later in the same pass
 *
 * Merging at once keeps the live set as small as it can be: no two live nodes are siblings, so at
 * the end of pass k the live nodes are the maximal nodes all of whose shards the rank owns and has
 * met (s mod A <= k). The same sentence tells beforehand whether a node survives the pass: it is
 * merged in this pass exactly if its sibling will be whole by the end of it.
 *
 * Leaves come in ascending order, so a temporary waits for the sibling on its right; at most one
 * does per level of the tree, and LS_FOLD_MERGE_MAX bounds both them and the merges of one leaf.
 * While planning, temporary t is called LS_SHARD_MAX + t; when the number of pieces is known, it
 * is renamed piece_count + t.
 */
#include "kernels/fold.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool node_is(ls_node a, ls_node b) { return a.begin == b.begin && a.count == b.count; }

ls_node ls_node_sibling(ls_node node, int shard_count)
{
    ls_node at = {0, shard_count};
    while (!node_is(at, node)) {
        const int half = (int)ls_tree_split((size_t)at.count);
        const ls_node left = {at.begin, half};
        const ls_node right = {at.begin + half, at.count - half};
        if (node_is(left, node)) return right;
        if (node_is(right, node)) return left;
        at = node.begin < right.begin ? left : right;
        assert(at.count > 1 && "not a node of this tree");
    }
    return (ls_node){0, 0};
}

/* Append the maximal nodes inside `at` that cover leaves [begin, end). */
static int cover_below(ls_node at, int begin, int end, ls_node *out, int count)
{
    if (end <= at.begin || at.begin + at.count <= begin) return count;
    if (begin <= at.begin && at.begin + at.count <= end) {
        out[count] = at;
        return count + 1;
    }
    const int half = (int)ls_tree_split((size_t)at.count);
    count = cover_below((ls_node){at.begin, half}, begin, end, out, count);
    return cover_below((ls_node){at.begin + half, at.count - half}, begin, end, out, count);
}

int ls_node_cover(int begin, int count, int shard_count, ls_node *out)
{
    return cover_below((ls_node){0, shard_count}, begin, begin + count, out, 0);
}

enum { PLAN_SLOTS = LS_SHARD_MAX + LS_FOLD_MERGE_MAX, FIRST_TEMPORARY = LS_SHARD_MAX };

/* What the planner knows while it meets the leaves. */
typedef struct {
    int shard_count;
    int begin, end;             /* the rank's shards */
    int accumulate;
    ls_node live[PLAN_SLOTS];   /* the node in each slot; count 0: the slot is free */
    int piece_count;            /* highest piece slot used so far, + 1 */
} planner;

/* Will the sum of `node` exist when pass `pass` is over? */
static bool is_whole_after(const planner *p, ls_node node, int pass)
{
    if (node.begin < p->begin || node.begin + node.count > p->end) return false;
    for (int s = node.begin; s < node.begin + node.count; s++) {
        if (s % p->accumulate > pass) return false;
    }
    return true;
}

/* The slot that holds `node`, or -1. */
static int slot_of(const planner *p, ls_node node)
{
    for (int i = 0; i < PLAN_SLOTS; i++) {
        if (p->live[i].count > 0 && node_is(p->live[i], node)) return i;
    }
    return -1;
}

static int free_slot(const planner *p, int first)
{
    int i = first;
    while (p->live[i].count > 0) i++;
    assert(i < (first == 0 ? FIRST_TEMPORARY : PLAN_SLOTS));
    return i;
}

static ls_node parent_of(ls_node a, ls_node b)
{
    return (ls_node){a.begin < b.begin ? a.begin : b.begin, a.count + b.count};
}

/* Meet shard `shard` as the fold's next leaf. */
static void plan_leaf(planner *p, ls_fold *fold, int shard, int pass)
{
    const int i = fold->leaf_count++;
    ls_node node = {shard, 1};
    ls_node sibling = ls_node_sibling(node, p->shard_count);
    for (int m; sibling.count > 0 && (m = slot_of(p, sibling)) >= 0;) {
        assert(fold->merge_count[i] < LS_FOLD_MERGE_MAX);
        fold->merge[i][fold->merge_count[i]++] = (unsigned char)m;
        p->live[m].count = 0;
        node = parent_of(node, sibling);
        sibling = ls_node_sibling(node, p->shard_count);
    }
    const bool survives = sibling.count == 0 || !is_whole_after(p, sibling, pass);
    const int slot = free_slot(p, survives ? 0 : FIRST_TEMPORARY);
    p->live[slot] = node;
    fold->shard[i] = shard;
    fold->store[i] = (unsigned char)slot;
    if (survives && slot >= p->piece_count) p->piece_count = slot + 1;
}

static void plan_pass(planner *p, ls_fold *fold, int pass, size_t samples)
{
    for (int s = p->begin; s < p->end; s++) {
        if (s % p->accumulate != pass) continue;
        const size_t count = ls_shard_begin(s + 1, samples, p->shard_count)
                             - ls_shard_begin(s, samples, p->shard_count);
        fold->sample[fold->leaf_count + 1] = fold->sample[fold->leaf_count] + count;
        plan_leaf(p, fold, s, pass);
    }
}

/* Give temporaries the numbers after the pieces. */
static void rename_temporaries(ls_fold *fold, int piece_count)
{
    const int shift = piece_count - FIRST_TEMPORARY;
    fold->piece_count = piece_count;
    fold->slot_count = piece_count;
    for (int i = 0; i < fold->leaf_count; i++) {
        for (int m = 0; m < fold->merge_count[i]; m++) {
            const int slot = fold->merge[i][m];
            if (slot >= FIRST_TEMPORARY) fold->merge[i][m] = (unsigned char)(slot + shift);
        }
        if (fold->store[i] >= FIRST_TEMPORARY) {
            fold->store[i] = (unsigned char)(fold->store[i] + shift);
        }
        if (fold->store[i] >= fold->slot_count) fold->slot_count = fold->store[i] + 1;
    }
}

void ls_fold_plan_init(ls_fold_plan *plan, int shard_count, int world_size, int rank,
                       int accumulate, size_t samples)
{
    assert(1 <= world_size && world_size <= shard_count && shard_count <= LS_SHARD_MAX);
    assert(0 <= rank && rank < world_size && 1 <= accumulate && accumulate <= shard_count);
    memset(plan, 0, sizeof *plan);
    planner p = {
        .shard_count = shard_count,
        .begin = ls_rank_shard_begin(rank, shard_count, world_size),
        .end = ls_rank_shard_begin(rank + 1, shard_count, world_size),
        .accumulate = accumulate,
    };
    plan->pass_count = accumulate;
    for (int k = 0; k < accumulate; k++) plan_pass(&p, &plan->pass[k], k, samples);
    plan->piece_count = p.piece_count;
    for (int k = 0; k < accumulate; k++) rename_temporaries(&plan->pass[k], p.piece_count);

    plan->final_count = ls_node_cover(p.begin, p.end - p.begin, shard_count, plan->final_node);
    for (int i = 0; i < plan->final_count; i++) {
        plan->final_slot[i] = slot_of(&p, plan->final_node[i]);
        assert(plan->final_slot[i] >= 0);
    }
    plan->sample_begin = ls_shard_begin(p.begin, samples, shard_count);
    plan->sample_count = ls_shard_begin(p.end, samples, shard_count) - plan->sample_begin;
}

size_t ls_fold_sample_at(const ls_fold_plan *plan, int pass, size_t row, int shard_count,
                         size_t samples)
{
    const ls_fold *fold = &plan->pass[pass];
    int i = 0;
    while (fold->sample[i + 1] <= row) i++;
    assert(i < fold->leaf_count);
    return ls_shard_begin(fold->shard[i], samples, shard_count) + row - fold->sample[i];
}
