/* SPDX-License-Identifier: MIT */
/* dense_tile.h -- tiles of a dense layer's weight gradient: all their chains, and their tree.
 *
 * dw[f, c] is the sum over the places of dy[place, f] * x[place, c]: per shard a chain of fused
 * multiply-adds from +0, places ascending, + 0.0f last; then the shards' chains are added as the
 * fold says (docs/numerics.md 1.1, 1.2 and 2.2, fold.h). With 64 samples in 8 shards a chain has 8
 * terms, and what surrounds it takes as long as the multiplications if it is a call of the
 * micro-kernel (tile.c) and a pass over dw. So here a tile of dw, of the same shape as tile.c's,
 * goes through ALL chains and additions, and its pieces are all that is stored to dw. One call is
 * for tiles side by side.
 */
#ifndef LS_KERNELS_HOST_DENSE_TILE_H
#define LS_KERNELS_HOST_DENSE_TILE_H

#include "kernels/fold.h"
#include "kernels/host/tile.h"

/* Floats of the stack: the fold's temporaries, tiles of LS_TILE_COLUMNS a row, and as many tiles
 * again, each of which stands for one of a piece that a leaf adds; the first also for one that it
 * is stored to. */
enum {
    LS_DENSE_TILE_FLOATS = LS_TILE_ROWS * LS_TILE_COLUMNS,
    LS_DENSE_PIECE_FLOATS = LS_FOLD_MERGE_MAX * LS_DENSE_TILE_FLOATS, /* before that tile */
    LS_DENSE_STACK_FLOATS = LS_DENSE_PIECE_FLOATS + LS_FOLD_MERGE_MAX * LS_DENSE_TILE_FLOATS
};

/* Where the tile of a slot of the fold lies. */
typedef struct {
    int floats; /* from the stack's beginning */
    int piece;  /* not -1: it is of this piece, and on the stack only on its way from or to dw */
} ls_dense_slot;

/* What follows a leaf's terms, and its slots if it has some; and what the next one begins with. */
typedef enum {
    LS_DENSE_PASSES_TERM, /* a last term; the store to the stack; the next one's first term */
    LS_DENSE_PASSES_SUM,  /* a last slot is added; the same */
    LS_DENSE_STORES,      /* the store, + 0.0f; the next one begins with +0 */
    LS_DENSE_IS_LAST      /* the store, + 0.0f; there is no next one */
} ls_dense_end;

/* A shard's chain, and what is added to it. Its places follow those of the leaf before it. */
typedef struct {
    size_t terms;         /* but those that are part of what ends this leaf, or the one before it */
    int add_count;        /* but for the last slot of PASSES_SUM, which is add[add_count] */
    bool adds_pieces;     /* some slots are of pieces */
    ls_dense_end end;
    ls_dense_slot add[LS_FOLD_MERGE_MAX], to;
} ls_dense_leaf;

/* Tiles side by side. */
typedef struct {
    const ls_dense_leaf *leaf; /* the last one says that it is that */
    int leaf_count;
    int rows;                /* 1 .. LS_TILE_ROWS */
    size_t columns;          /* of a tile, 1 .. LS_TILE_COLUMNS; of one of several, as many */
    size_t count;            /* of tiles, 1 or more */
    const float *a, *b;      /* place 0 of dy and x, at the first tile's first row and column */
    size_t a_step, b_step;   /* floats from a place to the next one; whole words of b are read */
    size_t b_next;           /* and from a tile's to the next one's */
    float *dw;               /* the first tile in piece 0 */
    size_t step;             /* floats from a row of dw to the next one */
    size_t piece_stride;
    bool fetches;
    int fetch_rows;          /* it does: so many rows of piece 0 are asked for before each chain, */
    size_t next_share;       /* and so many places */
    const float *next;       /* of words of x that later tiles read: */
    size_t next_places, next_columns;
    size_t next_step;        /* floats from a place to the next one */
    float *stack;
} ls_dense_tiles;

/* The leaves of a fold for shards of samples of `width` places, and how each ends: leaf[0 .. n), n
 * is returned. There is room for LS_SHARD_MAX. 0: dw stays as it is. */
int LS_HOST(dense_leaves)(const ls_fold *fold, size_t width, ls_dense_leaf *leaf);

/* Changes b and dw. */
void LS_HOST(dense_tiles)(ls_dense_tiles *tiles);

#endif
