/* SPDX-License-Identifier: MIT */
/* part.h -- a part of C, which is one task: what product.c cuts and part.c computes.
 *
 * Internal to these two files.
 */
#ifndef LS_KERNELS_HOST_PART_H
#define LS_KERNELS_HOST_PART_H

#include "kernels/host/product.h"
#include "kernels/host/split.h"

/* Columns of one part, at most; its partial sums, where they are kept apart from C, lie in rows
 * that are so many floats apart. */
enum { LS_PART_PANELS = 512 / LS_TILE_COLUMNS, LS_PART_COLUMNS = LS_PART_PANELS * LS_TILE_COLUMNS };

/* A product and how it is cut. */
typedef struct {
    const ls_product *product;
    ls_pool *pool;
    ls_split split;
    size_t group;       /* rows in a group; all of them where there are no groups */
    size_t group_tiles; /* tiles in a group */
    size_t rows_each;   /* of a tile; the first rows_left tiles of a group have one more */
    size_t rows_left;
    size_t row_tiles, column_tiles;
} ls_cut;

/* The part of C that a task computes, and where it keeps what. */
typedef struct {
    size_t first_tile, last_tile;     /* tiles of rows */
    size_t first_row, first_column, last_column;
    float *panels, *partial;
    ls_rows_memory *memory;
    const float *next;                /* what the panel after this one is packed from, */
    size_t next_floats;               /* so much; 0: nothing that is asked for */
} ls_cut_part;

/* First row of tile `within` of a group: the rows are dealt to the tiles as evenly as may be. */
static inline size_t ls_row_in_group(const ls_cut *cut, size_t within)
{
    return within * cut->rows_each + ls_min_size(within, cut->rows_left);
}

/* The group of tile `tile`. (A division is a tenth of a small product's time.) */
static inline size_t ls_group_of(const ls_cut *cut, size_t tile)
{
    return tile < cut->group_tiles ? 0 : tile / cut->group_tiles;
}

/* First row of tile `tile`. */
static inline size_t ls_tile_row(const ls_cut *cut, size_t tile)
{
    const size_t group = ls_group_of(cut, tile);
    return group * cut->group + ls_row_in_group(cut, tile - group * cut->group_tiles);
}

static inline bool ls_is_kept_apart(const ls_product *p) { return p->accumulate || p->turned; }

/* Block [k, k + depth) of the part's chains. */
void LS_HOST(part_block)(const ls_cut *cut, const ls_cut_part *a, size_t k, size_t depth);

/* What follows the last term of a turned part's chains, and C. */
void LS_HOST(part_turn)(const ls_cut *cut, const ls_cut_part *a);

#endif
