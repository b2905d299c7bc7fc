/* SPDX-License-Identifier: MIT */
/* tree.h -- which pieces of the canonical tree travel with a chunk, and what is added where.
 *
 * A chunk of the ring makes N stops: stop 0 at place chunk+1, where it starts as that rank's own
 * pieces, and stop i at place chunk+1+i (mod N), where the pieces that left stop i-1 arrive and are
 * merged with the rank's own; what leaves stop N-1 is the sum over all shards. tree.c has a worked
 * example.
 *
 * Pure: nothing here touches data.
 */
#ifndef LS_COLLECTIVES_TREE_H
#define LS_COLLECTIVES_TREE_H

#include <stdint.h>

#include "kernels/fold.h"
#include "numerics.h"

/* What happens to a chunk at one stop. Sources are numbered: first the pieces that arrive, then
 * the rank's own. Each piece that leaves is one run of ls_merge's stack over the sources in
 * entries [first[m], first[m + 1]). */
typedef struct {
    int in_count;                        /* pieces that arrive */
    int own_count;                       /* pieces that the rank brings */
    int out_count;                       /* pieces that leave */
    ls_node in[LS_SHARD_MAX];            /* [in_count] ascending; {0, 0} for a running sum */
    ls_node own[LS_SHARD_MAX];           /* [own_count] ascending */
    ls_node out[LS_SHARD_MAX];           /* [out_count] ascending; {0, 0} for a running sum */
    int first[LS_SHARD_MAX + 1];         /* [out_count + 1] */
    unsigned char source[LS_SHARD_MAX];  /* number of the source that is pushed */
    unsigned char adds[LS_SHARD_MAX];    /* additions of the two topmost entries after that push */
} ls_tree_stop;

/* A set of shards: bit s is shard s. */
uint64_t ls_tree_rank_shards(int rank, int shard_count, int world_size);

/* The pieces of a set of shards: the maximal nodes of the tree over `shard_count` shards that lie
 * inside it, ascending. Returns how many. */
int ls_tree_pieces(uint64_t shards, int shard_count, ls_node *out);

/* Merge any pieces: `in` with `own`, disjoint nodes, into the pieces of their union. */
void ls_tree_stop_merge(ls_tree_stop *stop, const ls_node *in, int in_count, const ls_node *own,
                        int own_count, int shard_count);

/* Stop `i` of `chunk` in the exact ring; ring[p] is the rank at place p. */
void ls_tree_stop_exact(ls_tree_stop *stop, int shard_count, int world_size, const int *ring,
                        int chunk, int i);

/* The same stop where one running sum travels: what arrives, plus the rank's own pieces in turn. */
void ls_tree_stop_fast(ls_tree_stop *stop, int shard_count, int world_size, const int *ring,
                       int chunk, int i);

/* The most pieces that arrive at or leave any stop of the exact ring: what a slot must hold. */
int ls_tree_pieces_max(int shard_count, int world_size, const int *ring);

#endif
