/* SPDX-License-Identifier: MIT */
/* split.h -- how a matrix of tiles is cut into tasks for the threads.
 *
 * Never along k: a cut decides who computes an element, not how.
 */
#ifndef LS_KERNELS_HOST_SPLIT_H
#define LS_KERNELS_HOST_SPLIT_H

#include "kernels/host/tile.h"

/* row_parts x column_parts tasks. */
typedef struct {
    size_t row_parts, column_parts;
} ls_split;

/* The cut of row_tiles x column_tiles tiles that `threads` threads should finish first, each part
 * at most row_tiles_max x column_tiles_max tiles; a tile is tile_rows x LS_TILE_COLUMNS. Every part
 * of a row of parts packs B again, every part of a column takes A's rows again. Costs are in cycles
 * per element. */
typedef struct {
    size_t tile_rows, row_tiles, column_tiles, depth;
    size_t row_tiles_max, column_tiles_max;
    double row_cost, pack_cost;
    bool rows_first; /* rows are a layer's outputs: cut them rather than columns where that costs
                      * little more. Its weights lie in that order, and are updated in it; so each
                      * thread finds most of them, and of their gradient, in its core's caches. */
} ls_split_problem;

/* Fewer multiplications than this are not worth waking another thread for. */
enum { LS_TASK_WORK_MIN = 1 << 19 };

ls_split LS_HOST(split)(const ls_split_problem *problem, int threads);

static inline size_t ls_split_tasks(ls_split split) { return split.row_parts * split.column_parts; }

/* What one task has of `rows` x `columns`: each cut as evenly as may be. */
typedef struct {
    size_t first_row, last_row, first_column, last_column;
} ls_split_part;

static inline ls_split_part ls_split_part_at(ls_split split, size_t task, size_t rows,
                                             size_t columns)
{
    if (ls_split_tasks(split) == 1) return (ls_split_part){0, rows, 0, columns};
    const size_t r = task / split.column_parts, c = task % split.column_parts;
    return (ls_split_part){
        .first_row = r * rows / split.row_parts,
        .last_row = (r + 1) * rows / split.row_parts,
        .first_column = c * columns / split.column_parts,
        .last_column = (c + 1) * columns / split.column_parts,
    };
}

#endif
