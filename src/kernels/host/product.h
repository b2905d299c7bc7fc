/* SPDX-License-Identifier: MIT */
/* product.h -- the blocked, packed, threaded loops around the micro-kernel.
 *
 * GEMM, convolution and the input gradient are all C[rows, columns] = A[rows, depth] B[depth,
 * columns]; they differ in where A and B come from, which they say with two functions.
 */
#ifndef LS_KERNELS_HOST_PRODUCT_H
#define LS_KERNELS_HOST_PRODUCT_H

#include "kernels/host/in_place.h"

/* Make panel[k][j] = B[first_k + k, first_column + j] for k < depth, j < columns <=
 * LS_TILE_COLUMNS, and +0 after them to the end of a vector word at least. */
typedef void ls_pack_fn(const void *operands, size_t first_k, size_t depth, size_t first_column,
                        size_t columns, float *panel);

/* A row of C, also as its group and place within the group (group 0 where there are none); and how
 * many groups from this one on the task has tiles of at the same place. */
typedef struct {
    size_t row, group, within, groups;
} ls_row_at;

/* What take_rows has in a task, from tile to tile, and what it says of the groups. */
typedef struct {
    size_t groups;      /* of first->groups, for how many the description holds; 1 beforehand */
    size_t group_step;  /* then floats of `a` from one of them to the next */
    float *buffer;      /* room for LS_NARROW_ROWS rows that are ls_row_step(depth) apart */
    ls_tap_lists lists; /* empty when the task begins */
} ls_rows_memory;

/* Describe A[first->row .. + tile->rows, first_k .. + depth) to the tile: a, a_from, a_row_step,
 * a_step and its runs, which are one of `depth` k at a + 0 unless others are put in their place; b
 * of a run counts from first_k. `next` and next_step too, if at all: they hold for the first panel.
 * A is read where it lies, or from the memory's buffer after copying there; one of its steps
 * is 1. */
typedef void ls_rows_fn(const void *operands, const ls_row_at *first, size_t first_k,
                        size_t depth, ls_rows_memory *memory, ls_tile *tile);

typedef struct {
    size_t rows, columns, depth;
    size_t run; /* if not 0: k is runs of this many, and a block is whole runs or part of one */
    size_t block_depth; /* of k, at most: up to LS_DIRECT_DEPTH, or LS_BLOCK_DEPTH where take_rows
                         * copies */
    int tile_rows;      /* at most; 0: LS_TILE_ROWS. Up to LS_NARROW_ROWS where C is at most a word
                         * wide and neither accumulated nor turned */
    const void *operands;
    ls_rows_fn *take_rows;
    ls_pack_fn *pack;
    const float *b;             /* not NULL: B[k, j] is b[k * b_step + j], its rows are whole */
    size_t b_step;              /* vector words and are read where they lie; `pack` is not called */
    bool by_panel;              /* a panel is packed before its use, where that before it was; all
                                 * tiles of rows pass by it, then by the next. take_rows is asked
                                 * once, for the first row and no more, and must not copy: the
                                 * others' A follows a_row_step apart. There are no groups */
    bool fetch_b;               /* with by_panel and `b`: the next panel is asked for meanwhile */
    const float *b_columns;     /* not NULL: column j of B is b_columns[j * depth ..], as packed
                                 * from there; by_panel, and all of k is one block */
    size_t part_panels;         /* not 0: panels of a part, and there is room for so many */
    double row_cost, pack_cost; /* of them, in cycles per element: only steers the cut into tasks */
    const float *bias;          /* [columns] or NULL */
    bool relu;
    bool accumulate;            /* C += the finished chain */
    float *C;
    size_t step;                /* row r of C is at C + r * step, unless there is `place` */
    bool turned;                /* C is the transposed product: element [i, j] goes to C + j * step
                                   + i, bias is [rows]; no groups, no `place` */
    size_t group;               /* not 0: rows come in groups of this many; no tile crosses them */
    float *(*place)(const void *operands, size_t g); /* NULL, or says where group g of C is */
} ls_product;

/* Depth of one block of k, at most. A block is as deep as the panels' room in the second level
 * cache lets it be where A is read in place: then the partial sums of C travel seldom, or never.
 * Where A is copied, the copy of a tile's rows is to stay in the first level cache. */
enum { LS_BLOCK_DEPTH = 256, LS_DIRECT_DEPTH = 1024 };

/* Distance of rows of a buffer of A: room for what a copy writes too much, and an odd number of
 * lines of 64 bytes. Rows that are a power of two apart would evict each other. */
static inline size_t ls_row_step(size_t depth)
{
    return ((depth + 31) / 16 | 1) * 16;
}

/* Rows of A `step` floats apart: how many a tile may have that reads them in place. The first level
 * cache has room for 8 lines that are 4096 bytes apart. */
static inline int ls_rows_in_place(size_t step)
{
    return step * sizeof(float) % 4096 == 0 && LS_TILE_ROWS > 8 ? 8 : LS_TILE_ROWS;
}

/* `rows` of a tile of a C with so many columns, or more of them: a narrow tile loads as many
 * numbers as it multiplies words, and the word of B besides; the more rows, the smaller its
 * part. */
static inline int ls_rows_if_narrow(int rows, size_t columns)
{
    return columns <= LS_LANES && rows == LS_TILE_ROWS ? LS_NARROW_ROWS : rows;
}

void LS_HOST(product)(ls_pool *pool, const ls_product *product);

#endif
