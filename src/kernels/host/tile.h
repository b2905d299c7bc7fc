/* SPDX-License-Identifier: MIT */
/* tile.h -- the micro-kernel: one tile of a matrix product, held in registers from end to end.
 *
 * All multiplications of GEMM and of the three convolutions happen in LS_HOST(tile). The loops
 * around it (product.c, weight_gradient.c) decide where its operands lie and in which order the
 * tiles are visited; neither can change a bit, because a tile's elements are separate chains.
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

/* to[i,j] = finish(from[i,j] + sum over k of a[i,k] * b[k,j]), k ascending, 0 <= i < rows,
 * 0 <= j < columns. k goes through `runs` runs of `depth` each; A's runs lie a_run_step apart, B's
 * follow each other:
 *     a[i, run * depth + k] = a[i * a_row_step + run * a_run_step + k * a_step]
 *     b[run * depth + k, j] = b[(run * depth + k) * b_step + j] */
typedef struct {
    int rows;                  /* 1 .. LS_TILE_ROWS */
    size_t columns;            /* 1 .. LS_TILE_COLUMNS */
    size_t runs, depth;        /* 0 is legal */
    const float *a;
    size_t a_row_step, a_run_step, a_step;
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
