/* SPDX-License-Identifier: MIT */
/* product.c -- the blocked, packed, threaded loops around the micro-kernel.
 *
 * C is cut into parts, one task each; a task is one thread's:
 *
 *     for each block of k (at most block_depth, ascending)
 *         pack B[block, the part's columns] into panels of LS_TILE_COLUMNS     second level cache
 *         for each tile of rows
 *             take the rows of A             where they lie, or a copy in the first level cache
 *             for each panel: the micro-kernel, from C's partial sums to C's partial sums
 *
 * or, of a few rows, a panel at a time: then it is packed where that before it was, and the tiles
 * that pass by it are described once. Of groups whose chains are short, a tile is described once
 * for several of them and run for each in turn.
 *
 * Blocks of k meet in C itself: the chain is stored unfinished and goes on from there, so blocking
 * does not change it; bias, + 0.0f and relu come with the last block. With accumulate C holds a
 * value that is needed at the end; partial sums then lie in scratch memory instead. So do those of
 * a product that is turned, which is transposed on its way from there to C, square by square, with
 * bias and the rest.
 *
 * A part is rows x columns, never a range of k: the number of threads cannot change a bit.
 */
#include "kernels/host/lanes.h"
#include "kernels/host/product.h"
#include "kernels/host/split.h"
#include "sizes.h"

/* Columns of one part, at most. */
enum { PART_PANELS = 512 / LS_TILE_COLUMNS };

/* -- one part --------------------------------------------------------------------------------- */

/* Scratch of a task, in floats: panels, then a tile's rows of A, then, where partial sums are kept
 * apart from C, those of a part, rows PART_COLUMNS apart. */
enum {
    PART_COLUMNS = PART_PANELS * LS_TILE_COLUMNS,
    PANELS_FLOATS = LS_BLOCK_DEPTH * PART_COLUMNS,
    ROWS_FLOATS = LS_NARROW_ROWS * (LS_DIRECT_DEPTH + 48),
    SCRATCH_FLOATS = LS_SCRATCH_BYTES / sizeof(float),
    PARTIAL_TILES = (SCRATCH_FLOATS - PANELS_FLOATS - ROWS_FLOATS) / (LS_TILE_ROWS * PART_COLUMNS),
};
_Static_assert(PARTIAL_TILES > 0, "panels, rows and partial sums fit into scratch memory");
_Static_assert(PANELS_FLOATS >= LS_DIRECT_DEPTH * LS_TILE_COLUMNS, "a panel of any block fits");

typedef struct {
    const ls_product *product;
    ls_pool *pool;
    ls_split split;
    size_t group;       /* rows in a group; all of them where there are no groups */
    size_t group_tiles; /* tiles in a group */
    size_t rows_each;   /* of a tile; the first rows_left tiles of a group have one more */
    size_t rows_left;
    size_t row_tiles, column_tiles;
} job;

/* The part of C that a task computes, and where it keeps what. */
typedef struct {
    size_t first_tile, last_tile;     /* tiles of rows */
    size_t first_row, first_column, last_column;
    float *panels, *partial;
    ls_rows_memory *memory;
    const float *next;                /* what the panel after this one is packed from, */
    size_t next_floats;               /* so much; 0: nothing that is asked for */
} part;

/* First row of tile `within` of a group: the rows are dealt to the tiles as evenly as may be. */
static size_t row_in_group(const job *j, size_t within)
{
    return within * j->rows_each + ls_min_size(within, j->rows_left);
}

/* The group of tile `tile`. (A division is a tenth of a small product's time.) */
static size_t group_of(const job *j, size_t tile)
{
    return tile < j->group_tiles ? 0 : tile / j->group_tiles;
}

/* First row of tile `tile`. */
static size_t tile_row(const job *j, size_t tile)
{
    const size_t group = group_of(j, tile);
    return group * j->group + row_in_group(j, tile - group * j->group_tiles);
}

static float *row_of_c(const job *j, const ls_row_at *at)
{
    const ls_product *p = j->product;
    if (p->place == NULL) return p->C + at->row * p->step;
    return p->place(p->operands, at->group) + at->within * p->step;
}

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

static bool is_kept_apart(const ls_product *p) { return p->accumulate || p->turned; }

/* The end of the block of k that begins at k. */
static size_t block_end(const ls_product *p, size_t k)
{
    if (p->depth == 0) return 0;
    if (p->run == 0) return even_end(p->depth, p->block_depth, k);
    const size_t run = k / p->run, runs = p->block_depth / p->run;
    if (runs > 0) return even_end(p->depth / p->run, runs, run) * p->run;
    return run * p->run + even_end(p->run, p->block_depth, k - run * p->run);
}

static void pack_panels(const ls_product *p, const part *a, size_t k, size_t depth)
{
    float *panel = a->panels;
    for (size_t n = a->first_column; n < a->last_column; n += LS_TILE_COLUMNS) {
        p->pack(p->operands, k, depth, n, ls_min_size(LS_TILE_COLUMNS, a->last_column - n), panel);
        panel += depth * LS_TILE_COLUMNS;
    }
}

/* The tile of group after group that is described for the first, `count` of them. */
static void run_groups(ls_tile tile, size_t count, size_t a_step, size_t c_step)
{
    for (size_t i = 0; i < count; i++) {
        LS_HOST(tile)(&tile);
        tile.a_from += a_step;
        if (tile.next != 0) tile.next += a_step * sizeof(float);
        if (tile.from.p != NULL) tile.from.p += c_step;
        tile.to += c_step;
    }
}

/* A tile as it is described, and what the description points to. */
typedef struct {
    ls_tile tile;
    ls_tile_run whole;
    ls_tile_source old;
} described_tile;

/* The tile of `rows` rows at `at` and the part's first panel, for block [k, k + depth). */
LS_ALWAYS_INLINE void describe(const job *j, const part *a, const ls_row_at *at, size_t rows,
                               size_t k, size_t depth, described_tile *d)
{
    const ls_product *p = j->product;
    const bool first = k == 0, last = k + depth == p->depth && !p->turned;
    float *apart = a->partial + (at->row - a->first_row) * PART_COLUMNS;
    float *C = p->turned ? apart : row_of_c(j, at) + a->first_column;
    float *unfinished = is_kept_apart(p) ? apart : C;
    const size_t unfinished_step = is_kept_apart(p) ? PART_COLUMNS : p->step;
    d->old = (ls_tile_source){C, p->step};
    d->whole = (ls_tile_run){0, 0, depth, LS_RUN_ALL};
    d->tile = (ls_tile){
        .rows = (int)rows,
        .run = &d->whole,
        .runs = 1,
        .b = p->b != NULL ? p->b + k * p->b_step + a->first_column : a->panels,
        .b_step = p->b != NULL ? p->b_step : LS_TILE_COLUMNS,
        .from = {first ? NULL : unfinished, unfinished_step},
        .finish = last,
        .bias = p->bias == NULL || p->turned ? NULL : p->bias + a->first_column,
        .add_count = p->accumulate ? 1 : 0,
        .add = &d->old,
        .relu = p->relu,
        .to = last ? C : unfinished,
        .to_step = last ? p->step : unfinished_step,
    };
    a->memory->groups = 1;
    p->take_rows(p->operands, at, k, depth, a->memory, &d->tile);
}

/* One tile of rows against all panels of block [k, k + depth), and those of as many groups after it
 * as can be treated the same. Returns how many groups that were. */
static size_t run_rows(const job *j, const part *a, const ls_row_at *at, size_t rows, size_t k,
                       size_t depth)
{
    const ls_product *p = j->product;
    described_tile d;
    describe(j, a, at, rows, k, depth, &d);
    ls_tile *tile = &d.tile;
    const size_t panel_step = p->b != NULL ? LS_TILE_COLUMNS : depth * LS_TILE_COLUMNS;
    const size_t groups = a->memory->groups;
    const ls_row_at below = {at->row + j->group, at->group + 1, at->within, 1};
    const size_t c_step = groups > 1 ? (size_t)(row_of_c(j, &below) - row_of_c(j, at)) : 0;
    for (size_t n = a->first_column; n < a->last_column; n += LS_TILE_COLUMNS) {
        tile->columns = ls_min_size(LS_TILE_COLUMNS, a->last_column - n);
        if (groups > 1) run_groups(*tile, groups, a->memory->group_step, c_step);
        else LS_HOST(tile)(tile);
        tile->b += panel_step;
        tile->next = 0;
        if (tile->from.p != NULL) tile->from.p += LS_TILE_COLUMNS;
        if (tile->bias != NULL) tile->bias += LS_TILE_COLUMNS;
        d.old.p += LS_TILE_COLUMNS;
        tile->to += LS_TILE_COLUMNS;
    }
    return groups;
}

/* All tiles of rows against one panel: they differ in addresses alone, and are described once. The
 * lines of the next panel are asked for meanwhile: of one that is read in place by the first tiles,
 * each of which takes one of every row of B, of one that is packed by all tiles evenly. */
static void run_panel(const job *j, const part *a, size_t k, size_t depth)
{
    const ls_product *p = j->product;
    const ls_row_at at = {a->first_row, 0, a->first_row, 1};
    described_tile d;
    describe(j, a, &at, 0, k, depth, &d);
    ls_tile *tile = &d.tile;
    tile->columns = a->last_column - a->first_column;
    const size_t share = a->next_floats * sizeof(float) / (a->last_tile - a->first_tile);
    tile->next_step = share > 0 ? ls_ceil_div(share, depth) : p->b_step * sizeof(float);
    const size_t lines = p->fetch_b && a->last_column < p->columns ? LS_TILE_COLUMNS : 0;
    for (size_t t = a->first_tile; t < a->last_tile; t++) {
        const size_t rows = row_in_group(j, t + 1) - row_in_group(j, t);
        const size_t line = (t - a->first_tile) * LS_LINE_FLOATS;
        tile->rows = (int)rows;
        tile->next = line < lines ? (uintptr_t)(tile->b + LS_TILE_COLUMNS + line) : 0;
        if (share > 0) tile->next = (uintptr_t)a->next + (t - a->first_tile) * share;
        LS_HOST(tile)(tile);
        tile->a_from += rows * tile->a_row_step;
        if (tile->from.p != NULL) tile->from.p += rows * tile->from.step;
        d.old.p += rows * d.old.step;
        tile->to += rows * tile->to_step;
    }
}

/* Tile `tile` of a group and of up to `groups` - 1 groups after it. Returns for how many. */
static size_t run_tile(const job *j, const part *a, size_t group, size_t tile, size_t groups,
                       size_t k, size_t depth)
{
    const size_t within = row_in_group(j, tile);
    const ls_row_at at = {group * j->group + within, group, within, groups};
    return run_rows(j, a, &at, row_in_group(j, tile + 1) - within, k, depth);
}

/* Groups whose tiles at one place are taken one after another, at most: so many that to describe a
 * tile costs little beside its terms, and not more, so that what is read twice is still near. */
enum { TERMS_AT_ONCE = 4096 };

static size_t groups_at_once(size_t terms)
{
    return terms < TERMS_AT_ONCE && terms > 0 ? TERMS_AT_ONCE / terms : 1;
}

/* Whole groups, up to `groups` of them, place by place: as many as the first place's tiles can be
 * treated the same, so a sample at most. Returns how many. */
static size_t run_whole_groups(const job *j, const part *a, size_t group, size_t groups, size_t k,
                               size_t depth)
{
    const size_t count = run_tile(j, a, group, 0, groups, k, depth);
    for (size_t tile = 1; tile < j->group_tiles; tile++) {
        for (size_t done = 0; done < count;) {
            done += run_tile(j, a, group + done, tile, count - done, k, depth);
        }
    }
    return count;
}

/* All tiles of a part for one block of k. */
static void run_block(const job *j, const part *a, size_t k, size_t depth)
{
    const size_t panels = ls_ceil_div(a->last_column - a->first_column, LS_TILE_COLUMNS);
    const bool alone = is_kept_apart(j->product) || j->product->group == 0;
    const size_t most = alone ? 1 : groups_at_once(depth * panels);
    for (size_t t = a->first_tile; t < a->last_tile;) {
        const size_t group = group_of(j, t), tile = t - group * j->group_tiles;
        const size_t whole = tile > 0 || most == 1
                                 ? 0 : ls_min_size((a->last_tile - t) / j->group_tiles, most);
        if (whole > 1) {
            t += run_whole_groups(j, a, group, whole, k, depth) * j->group_tiles;
        } else {
            (void)run_tile(j, a, group, tile, 1, k, depth);
            t++;
        }
    }
}

/* All columns of a part for one block of k. */
static void run_columns(const job *j, const part *a, size_t k, size_t depth)
{
    if (j->product->b == NULL) pack_panels(j->product, a, k, depth);
    run_block(j, a, k, depth);
}

/* Do all threads read all columns of B, each for its part of a layer's outputs? Then they begin
 * with those that they have probably written themselves, and ask for the others meanwhile.
 * (Measured on two threads: 0.90 of the time for 64 samples of 784 numbers and 128 outputs, 0.97 if
 * both begin with the first ones.) */
static bool is_shared(const job *j)
{
    return j->product->b_columns != NULL && j->split.row_parts > 1 && j->split.column_parts == 1;
}

/* The same, panel by panel. */
static void run_panels(const job *j, const part *a, size_t k, size_t depth)
{
    const ls_product *p = j->product;
    part panel = *a;
    const size_t panels = ls_ceil_div(a->last_column - a->first_column, LS_TILE_COLUMNS);
    const bool shared = is_shared(j);
    const size_t begin = shared ? panels * a->first_tile / j->row_tiles : 0;
    for (size_t i = 0; i < panels; i++) {
        const size_t n = a->first_column + (begin + i) % panels * LS_TILE_COLUMNS;
        const size_t next = a->first_column + (begin + i + 1) % panels * LS_TILE_COLUMNS;
        panel.first_column = n;
        panel.last_column = ls_min_size(n + LS_TILE_COLUMNS, a->last_column);
        panel.partial = a->partial + (n - a->first_column);
        panel.next_floats = 0;
        if (shared && i + 1 < panels) {
            panel.next = p->b_columns + next * depth;
            panel.next_floats = ls_min_size(LS_TILE_COLUMNS, a->last_column - next) * depth;
        }
        if (p->b == NULL) pack_panels(p, &panel, k, depth);
        run_panel(j, &panel, k, depth);
    }
}

/* The part's sums [row.., column..) of a square of a word each way, transposed. */
static void take_square(const part *a, size_t row, size_t rows, size_t column,
                        ls_vec square[LS_LANES])
{
    const float *from = a->partial + (row - a->first_row) * PART_COLUMNS
                        + (column - a->first_column);
    for (size_t i = 0; i < LS_LANES; i++) {
        square[i] = i < rows ? ls_vec_load(from + i * PART_COLUMNS) : ls_vec_zero();
    }
    ls_vec_transpose(square);
}

/* What follows the last term of a turned part's chains, and C. */
static void turn_part(const job *j, const part *a)
{
    const ls_product *p = j->product;
    const size_t last_row = tile_row(j, a->last_tile);
    for (size_t row = a->first_row; row < last_row; row += LS_LANES) {
        const size_t rows = ls_min_size(LS_LANES, last_row - row);
        const ls_vec bias = p->bias != NULL ? ls_vec_load_lanes(p->bias + row, rows)
                                            : ls_vec_zero();
        for (size_t n = a->first_column; n < a->last_column; n += LS_LANES) {
            ls_vec square[LS_LANES];
            take_square(a, row, rows, n, square);
            for (size_t i = 0; i < ls_min_size(LS_LANES, a->last_column - n); i++) {
                float *to = p->C + (n + i) * p->step + row;
                ls_vec x = ls_vec_add(ls_vec_add(square[i], bias), ls_vec_zero());
                if (p->accumulate) x = ls_vec_add(ls_vec_load_lanes(to, rows), x);
                ls_vec_store_lanes(to, p->relu ? ls_vec_relu(x) : x, rows);
            }
        }
    }
}

static void run_part(void *arg, size_t task, int thread)
{
    const job *j = arg;
    const ls_product *p = j->product;
    const ls_split_part at = ls_split_part_at(j->split, task, j->row_tiles, j->column_tiles);
    float *scratch = ls_pool_scratch(j->pool, thread);
    ls_rows_memory memory;
    memory.buffer = scratch + PANELS_FLOATS;
    memory.lists.count = 0;
    part a = {
        .first_tile = at.first_row,
        .last_tile = at.last_row,
        .first_column = at.first_column * LS_TILE_COLUMNS,
        .last_column = ls_min_size(p->columns, at.last_column * LS_TILE_COLUMNS),
        .panels = scratch,
        .memory = &memory,
        .partial = scratch + PANELS_FLOATS + ROWS_FLOATS,
    };
    a.first_row = tile_row(j, a.first_tile);
    size_t k = 0;
    do {
        const size_t end = block_end(p, k);
        if (p->by_panel) run_panels(j, &a, k, end - k);
        else run_columns(j, &a, k, end - k);
        k = end;
    } while (k < p->depth); /* a product of depth 0 has one block too: it writes C */
    if (p->turned) turn_part(j, &a);
}

void LS_HOST(product)(ls_pool *pool, const ls_product *p)
{
    if (p->rows == 0 || p->columns == 0) return;
    const size_t group = p->group > 0 ? p->group : p->rows;
    const size_t tile_rows = p->tile_rows > 0 ? (size_t)p->tile_rows : LS_TILE_ROWS;
    const size_t group_tiles = ls_ceil_div(group, tile_rows);
    /* Panels of a block: as many as there is room for. */
    const size_t panel_floats = ls_min_size(p->depth, p->block_depth) * LS_TILE_COLUMNS;
    const size_t panels = panel_floats > 0 ? PANELS_FLOATS / panel_floats : PART_PANELS;
    job j = {
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
        .row_tiles = j.row_tiles,
        .column_tiles = j.column_tiles,
        .depth = p->depth,
        .row_tiles_max = is_kept_apart(p) ? PARTIAL_TILES : j.row_tiles,
        .column_tiles_max = p->part_panels > 0 ? p->part_panels : ls_min_size(panels, PART_PANELS),
        .row_cost = p->row_cost,
        .pack_cost = p->pack_cost,
        .rows_first = p->turned,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(pool));
    ls_pool_run(pool, ls_split_tasks(j.split), run_part, &j);
}
