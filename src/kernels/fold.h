/* SPDX-License-Identifier: MIT */
/* fold.h -- which shard's sum is added to what, so that a replica ends with whole pieces.
 *
 * The V shards of a global batch are the leaves of the canonical tree (numerics.h). A rank owns a
 * contiguous range of them and, with --accumulate A, meets them in A passes: pass k does the
 * owned shards s with s mod A = k. An op that sums over samples makes one sum per shard; a
 * fold tells it where that sum goes:
 *
 *     for each leaf i of the pass, shards ascending:
 *         t = the batch sum over samples [sample[i], sample[i+1])     (one tile, in cache)
 *         for m in merge[i][0 .. merge_count[i]-1]:  t = slot[m] + t
 *         slot[store[i]] = t
 *
 * Slots 0 .. piece_count-1 are pieces: copies of the output that outlive the pass (slot p is at
 * out + p * piece_stride). Slots piece_count .. slot_count-1 are temporaries that live in the
 * op's own tile, so that nothing but pieces is ever written to memory.
 *
 * Example, V = 8, N = 1, A = 1: leaves 0..7, one piece (the root), three temporaries:
 *     0 -> t1;  1+t1 -> t1;  2 -> t2;  3+t2+t1 -> t1;  4 -> t2;  5+t2 -> t2;  6 -> t3;
 *     7+t3+t2+t1 -> piece 0.
 * N = 1, A = 2: pass 0 stores shards 0 2 4 6 as four pieces; pass 1 merges 1 3 5 7 into them.
 *
 * (Addition of finite numbers is commutative bit for bit, so "left + right" and "right + left"
 * are the same sum. What may not change is which sums are formed.)
 *
 * Pure: nothing here touches data.
 */
#ifndef LS_KERNELS_FOLD_H
#define LS_KERNELS_FOLD_H

#include <stddef.h>

#include "numerics.h"
#include "status.h"

enum { LS_FOLD_MERGE_MAX = 8 }; /* > log2(LS_SHARD_MAX) */

/* A node of the canonical tree over V leaves: leaves [begin, begin + count). */
typedef struct {
    int begin;
    int count;
} ls_node;

typedef struct {
    int leaf_count;                                  /* shards in this pass; may be 0 */
    int piece_count;                                 /* persistent slots of the whole step */
    int slot_count;                                  /* with temporaries */
    int shard[LS_SHARD_MAX];                         /* [leaf_count] the shard's number */
    size_t sample[LS_SHARD_MAX + 1];                 /* [leaf_count + 1] rows of the pass */
    unsigned char merge_count[LS_SHARD_MAX];         /* [leaf_count] */
    unsigned char merge[LS_SHARD_MAX][LS_FOLD_MERGE_MAX];
    unsigned char store[LS_SHARD_MAX];               /* [leaf_count] */
} ls_fold;

/* A rank's whole step: one fold per pass, and what its pieces are once all passes are done. */
typedef struct {
    int pass_count;                 /* A */
    ls_fold pass[LS_SHARD_MAX];     /* [pass_count] */
    int piece_count;                /* slots to allocate: the most that live at once */
    int final_count;                /* pieces after the last pass: the maximal nodes owned */
    ls_node final_node[LS_FOLD_MERGE_MAX * 2]; /* [final_count] ascending */
    int final_slot[LS_FOLD_MERGE_MAX * 2];     /* [final_count] the slot that holds it */
    size_t sample_begin;            /* first sample of the global batch that this rank owns */
    size_t sample_count;            /* samples that this rank owns */
} ls_fold_plan;

/* Plan `rank`'s part of a global batch of `samples` samples. Slot numbers, piece_count and
 * final_* depend on (V, N, rank, A) alone, never on `samples`. Row 0 of pass k is the first sample
 * of its first shard; the pass's shards follow each other without gaps. */
void ls_fold_plan_init(ls_fold_plan *plan, int shard_count, int world_size, int rank,
                       int accumulate, size_t samples);

/* The sample of the global batch that is row `row` of pass `pass`. */
size_t ls_fold_sample_at(const ls_fold_plan *plan, int pass, size_t row, int shard_count,
                         size_t samples);

/* The node that is merged with `node` to give its parent, in the canonical tree over
 * `shard_count` leaves; the root has none and gives {0, 0}. */
ls_node ls_node_sibling(ls_node node, int shard_count);

/* Output rows of one slice of a batch sum over a tensor `width` wide (docs/numerics.md 2.2),
 * counted through the shard from its start; the last slice may have fewer. A tensor without rows
 * has width 1. Pure. */
LS_INLINE size_t ls_slice_rows(size_t width)
{
    return width == 0 || width > 1024 ? 1 : 1024 / width;
}

/* The maximal nodes that cover leaves [begin, begin + count), ascending. Returns how many
 * (at most 2 * log2(V)). */
int ls_node_cover(int begin, int count, int shard_count, ls_node *out);

#endif
