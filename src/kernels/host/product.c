/* SPDX-License-Identifier: MIT */
/* product.c -- how a product is cut: C into parts, k into blocks.
 *
 * A part is one task, and a task is one thread's, which takes the blocks of k in ascending order
 * (part.c has what it does for each).
 *
 * Blocks of k meet in C itself: the chain is stored unfinished and goes on from there, so blocking
 * does not change it; bias, + 0.0f and relu come with the last block. With accumulate C holds a
 * value that is needed at the end; partial sums then lie in scratch memory instead. So do those of
 * a product that is turned.
 *
 * A part is rows x columns, never a range of k: the number of threads cannot change a bit.
 */
#include "kernels/host/part.h"
#include "sizes.h"

/* Scratch of a task, in floats: panels, then a tile's rows of A, then, where partial sums are kept
 * apart from C, those of a part. */
enum {
    PANELS_FLOATS = LS_BLOCK_DEPTH * LS_PART_COLUMNS,
    ROWS_FLOATS = LS_NARROW_ROWS * (LS_DIRECT_DEPTH + 48),
    SCRATCH_FLOATS = LS_SCRATCH_BYTES / sizeof(float),
    PARTIAL_FLOATS = SCRATCH_FLOATS - PANELS_FLOATS - ROWS_FLOATS,
    PARTIAL_TILES = PARTIAL_FLOATS / (LS_TILE_ROWS * LS_PART_COLUMNS),
};
_Static_assert(PARTIAL_TILES > 0, "panels, rows and partial sums fit into scratch memory");
_Static_assert(PANELS_FLOATS >= LS_DIRECT_DEPTH * LS_TILE_COLUMNS, "a panel of any block fits");

/* Part i of n of a length, cut as evenly as may be: [i * length / n, (i + 1) * length / n). This is
 * the end of the part that begins at k. */
static size_t even_end(size_t length, size_t part_max, size_t k)
{
    if (length <= part_max) return length;
    const size_t parts = ls_ceil_div(length, part_max);
    size_t i = k * parts / length;
    if ((i + 1) * length / parts <= k) i++;
    return (i + 1) * length / parts;
}

/* The end of the block of k that begins at k. */
static size_t block_end(const ls_product *p, size_t k)
{
    if (p->depth == 0) return 0;
    if (p->run == 0) return even_end(p->depth, p->block_depth, k);
    const size_t run = k / p->run, runs = p->block_depth / p->run;
    if (runs > 0) return even_end(p->depth / p->run, runs, run) * p->run;
    return run * p->run + even_end(p->run, p->block_depth, k - run * p->run);
}

static void run_part(void *arg, size_t task, int thread)
{
    const ls_cut *cut = arg;
    const ls_product *p = cut->product;
    const ls_split_part at = ls_split_part_at(cut->split, task, cut->row_tiles, cut->column_tiles);
    float *scratch = ls_pool_scratch(cut->pool, thread);
    ls_rows_memory memory;
    memory.buffer = scratch + PANELS_FLOATS;
    memory.lists.count = 0;
    ls_cut_part a = {
        .first_tile = at.first_row,
        .last_tile = at.last_row,
        .first_column = at.first_column * LS_TILE_COLUMNS,
        .last_column = ls_min_size(p->columns, at.last_column * LS_TILE_COLUMNS),
        .panels = scratch,
        .memory = &memory,
        .partial = scratch + PANELS_FLOATS + ROWS_FLOATS,
    };
    a.first_row = ls_tile_row(cut, a.first_tile);
    size_t k = 0;
    do {
        const size_t end = block_end(p, k);
        LS_HOST(part_block)(cut, &a, k, end - k);
        k = end;
    } while (k < p->depth); /* a product of depth 0 has one block too: it writes C */
    if (p->turned) LS_HOST(part_turn)(cut, &a);
}

void LS_HOST(product)(ls_pool *pool, const ls_product *p)
{
    if (p->rows == 0 || p->columns == 0) return;
    const size_t group = p->group > 0 ? p->group : p->rows;
    const size_t tile_rows = p->tile_rows > 0 ? (size_t)p->tile_rows : LS_TILE_ROWS;
    const size_t group_tiles = ls_ceil_div(group, tile_rows);
    /* Panels of a block: as many as there is room for. */
    const size_t panel_floats = ls_min_size(p->depth, p->block_depth) * LS_TILE_COLUMNS;
    const size_t panels = panel_floats > 0 ? PANELS_FLOATS / panel_floats : LS_PART_PANELS;
    ls_cut cut = {
        .product = p,
        .pool = pool,
        .group = group,
        .group_tiles = group_tiles,
        .rows_each = group / group_tiles,
        .rows_left = group % group_tiles,
        .row_tiles = p->group > 0 ? p->rows / group * group_tiles : group_tiles,
        .column_tiles = ls_ceil_div(p->columns, LS_TILE_COLUMNS),
    };
    const ls_split_problem problem = {
        .tile_rows = tile_rows,
        .row_tiles = cut.row_tiles,
        .column_tiles = cut.column_tiles,
        .depth = p->depth,
        .row_tiles_max = ls_is_kept_apart(p) ? PARTIAL_TILES : cut.row_tiles,
        .column_tiles_max = p->part_panels > 0 ? p->part_panels
                                               : ls_min_size(panels, LS_PART_PANELS),
        .row_cost = p->row_cost,
        .pack_cost = p->pack_cost,
        .rows_first = p->turned,
    };
    cut.split = LS_HOST(split)(&problem, ls_pool_thread_count(pool));
    ls_pool_run(pool, ls_split_tasks(cut.split), run_part, &cut);
}
