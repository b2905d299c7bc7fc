/* SPDX-License-Identifier: MIT */
/* tile.h -- the micro-kernel: one tile of a matrix product, held in registers from end to end.
 *
 * All multiplications of GEMM and of the three convolutions happen in LS_HOST(tile), but for those
 * of small products (near_gemm.c), of an image of few channels under a max pooling (pooled_tile.c),
 * and of two weight gradients: a dense layer's of few samples (dense_tile.c), and that of an image
 * of few channels (filter_rows.c). The loops around it
 * (part.c, weight_slice.c) decide where its operands lie and in which order the tiles are
 * visited; neither can change a bit, because a tile's elements are separate chains.
 */
#ifndef LS_KERNELS_HOST_TILE_H
#define LS_KERNELS_HOST_TILE_H

#include "kernels/host/host.h"

#include LS_SIMD

enum { LS_TILE_COLUMNS = LS_TILE_VECTORS * LS_LANES };

/* A matrix of which the tile reads its own rows and columns: row i starts at p + i * step. */
typedef struct {
    const float *p;
    size_t step;
} ls_tile_source;

/* A run of successive k of a tile. Its first row is A's and its terms are in b's order:
 *     a[i, k] = tile.a[a_from + a + (i - first row) * a_row_step + k * a_step]   for the rows that
 *                                                                                take part
 *     b[k, j] = tile.b[b + k * b_step + j]
 * A row that takes no part has only zeros there: a place whose patch reaches into the padding. */
typedef enum { LS_RUN_ALL, LS_RUN_NOT_FIRST, LS_RUN_NOT_LAST } ls_run_rows;

typedef struct {
    size_t a, b, depth;        /* floats from the tile's a_from and b; number of k */
    ls_run_rows rows;          /* NOT_FIRST, NOT_LAST: the tile has at least two */
} ls_tile_run;

/* Runs of a tile of a weight gradient, at most. (Others' lie in lists: in_place.h.) */
enum { LS_TILE_RUNS_MAX = 160 };

/* to[i,j] = finish(from[i,j] + sum over k of a[i,k] * b[k,j]), 0 <= i < rows, 0 <= j < columns; k
 * goes through the runs in their order, ascending in each. */
typedef struct {
    int rows;                  /* 1 .. LS_TILE_ROWS, or LS_NARROW_ROWS of at most one word */
    size_t columns;            /* 1 .. LS_TILE_COLUMNS */
    const ls_tile_run *run;    /* [runs], or none */
    size_t runs;
    const float *a;
    size_t a_from;             /* the place in `a` from which runs count; the sum may wrap around */
    size_t a_row_step, a_step; /* one of the two is 1 */
    uintptr_t next;            /* not 0: an address, perhaps past the matrix, of what is read later:
                                * the tile asks for it meanwhile, */
    size_t next_step;          /* so many bytes at every k; where a_step is not 1, A's terms some
                                * steps ahead are asked for instead */
    const float *b;            /* whole vector words are read */
    size_t b_step;
    ls_tile_source from;       /* the chain so far; p NULL: +0 */
    bool finish;               /* false: store the chain so far, the fields below are not used */
    const float *bias;         /* [columns] added to the finished chain, or NULL; then + 0.0f */
    int add_count;
    const ls_tile_source *add; /* [add_count] then added one after another */
    bool relu;                 /* then x <= 0 ? 0 : x */
    float *to;                 /* may be the same place as `from` or one of `add` */
    size_t to_step;
} ls_tile;

void LS_HOST(tile)(const ls_tile *tile);

#endif
