/* SPDX-License-Identifier: MIT */
/* product.h -- the blocked, packed, threaded loops around the micro-kernel.
 *
 * GEMM, convolution and the input gradient are all C[rows, columns] = A[rows, depth] B[depth,
 * columns]; they differ in where A and B come from, which they say with two functions.
 */
#ifndef LS_KERNELS_HOST_PRODUCT_H
#define LS_KERNELS_HOST_PRODUCT_H

#include "kernels/host/tile.h"

/* Make panel[k][j] = B[first_k + k, first_column + j] for k < depth, j < columns <=
 * LS_TILE_COLUMNS, and +0 in the panel's other columns. */
typedef void ls_pack_fn(const void *operands, size_t first_k, size_t depth, size_t first_column,
                        size_t columns, float *panel);

/* Point tile->a, a_row_step and a_step at A[first_row .. + tile->rows, first_k .. + depth): at the
 * operand itself, or at `buffer` after copying there, rows LS_ROW_STEP apart. The tile comes with
 * one run of `depth`; that may be changed to several runs. */
typedef void ls_rows_fn(const void *operands, size_t first_row, size_t first_k, size_t depth,
                        float *buffer, ls_tile *tile);

typedef struct {
    size_t rows, columns, depth;
    size_t run; /* if not 0: k is runs of this many, and a block is whole runs or part of one */
    const void *operands;
    ls_rows_fn *take_rows;
    ls_pack_fn *pack;
    double row_cost, pack_cost; /* of them, in cycles per element: only steers the cut into tasks */
    const float *bias;          /* [columns] or NULL */
    bool relu;
    bool accumulate;            /* C += the finished chain */
    float *C;
    size_t step;                /* row r of C is at C + r * step, unless ... */
    size_t group;               /* ... `group` > 0: rows come in groups of this many, and group g */
    float *(*place)(const void *operands, size_t g); /* is at place(operands, g), not at C */
} ls_product;

/* Depth of one block of k: a tile of A and what is read of a panel meanwhile stay in the first
 * level cache. Rows of a buffer of A are LS_ROW_STEP apart, which no power of two divides much:
 * rows that are 4096 bytes apart would evict each other. */
enum { LS_BLOCK_DEPTH = 256, LS_ROW_STEP = LS_BLOCK_DEPTH + 16 };

void LS_HOST(product)(ls_pool *pool, const ls_product *product);

/* How a matrix of tiles is cut into tasks: row_parts x column_parts. */
typedef struct {
    size_t row_parts, column_parts;
} ls_split;

/* The cut of row_tiles x column_tiles tiles that `threads` threads should finish first, each part
 * at most row_tiles_max x column_tiles_max tiles. Every part of a row of parts packs B again, every
 * part of a column takes A's rows again. Costs are in cycles per element. */
typedef struct {
    size_t row_tiles, column_tiles, depth;
    size_t row_tiles_max, column_tiles_max;
    double row_cost, pack_cost;
} ls_split_problem;

ls_split LS_HOST(split)(const ls_split_problem *problem, int threads);

#endif
