/* SPDX-License-Identifier: MIT */
/* dense_gradient.c -- the weight gradient of a dense layer of few samples.
 *
 * A tile of dw goes through all shards at once (dense_tile.h); here is where its operands come
 * from, and in which order the tiles are visited:
 *
 *     for each block of rows: copy its dy, if at all
 *         for each group of columns, a tile wide or, of few places, wider: copy its x,
 *                                                                         if at all
 *             for each tile of rows: the group's tiles (dense_tile.c), which ask for a part of
 *                                    the next group's x meanwhile
 *
 * A gradient so small that all of it lies in the caches of a core is made by the same loops without
 * the rest: nothing is copied, asked for or shared, and what a call costs counts. (Measured, 64
 * places, 10 filters of 64: 0.95 of the time alone, with one shard or eight, 0.92 beside a busy
 * neighbour.)
 *
 * Few of dy's or x's words are copied: a tile reads some neighbouring floats of each place. Of dy
 * these are as many lines, or twice as many, in some sets of the caches, and of many filters as
 * many pages; where many tiles read them they are copied first, a line for each place, for a block
 * of rows that stays in the second level cache. So
 * are the words of x where its rows evict each other from the first level cache, where a word is
 * not a whole one, and where the convolution has a stride; and if many tiles read them, where they
 * are more than that cache has room for or cross its lines.
 *
 * A shard without samples is +0, and to add +0 changes nothing: such a leaf is skipped where its
 * slot is a temporary, and what would have read the slot does not.
 *
 * Threads share dw: its rows, which are in the order of the weights and of their update, if x is
 * small enough to be read by each; else its columns too.
 */
#include "kernels/host/dense_gradient.h"
#include "kernels/host/dense_tile.h"
#include "kernels/host/lanes.h"
#include "kernels/host/near_gemm.h"
#include "sizes.h"

/* Rows of x this many bytes apart, or a multiple of it, share too few sets of the first level
 * cache. */
enum { ALIAS_BYTES = 2048 };
/* Places up to which a panel of x, two lines of each, fills at most the first level cache. */
enum { PLACES_IN_PLACE = 256 };
/* Tiles of rows from which on it is worth its cost to copy a panel of more places, or of words that
 * cross lines. (Measured, AVX-512: 784 places of 256 channels, 5 tiles: 0.95 of the peak in place,
 * 0.86 copied; 256 of 1000, 8 tiles: 0.75 and 0.82.) */
enum { TILES_PER_COPY = 6 };
/* Floats of a row of dy from which on a tile finds few of its places in a line, and columns of
 * tiles that it takes then to copy them. (Measured: 784 places of 512 filters 0.94 of the peak
 * against 0.75; 64 places, 128 filters of 784 and 64 of 7200, 0.96 of the time; 64 of 128, which
 * are 4 columns, 1.05.) */
enum { FAR_FILTERS = 32, COLUMNS_PER_COPY = 8 };
/* Tiles of rows from which on the words of the next group of columns are asked for meanwhile. */
enum { TILES_PER_FETCH = 4 };
/* Floats of dy that are copied at once: a part of a second level cache; but so many tiles at least,
 * as x is copied again for every block. (Measured: 20 tiles instead of 10, 784 places: 1.06 times
 * the speed.) */
enum { BLOCK_FLOATS = 1 << 17, BLOCK_TILES_MIN = 20 };
/* Floats of x that a group of columns has at most, unless a tile's are more: of few places many
 * columns, so that rows of dw are stored in long pieces. */
enum { GROUP_FLOATS = 1 << 12 };
/* Floats of dw that do not stay in a second level cache, and places that take long enough for its
 * lines to come. (Measured: 64 places, 64 filters of 7200: 1.2 times the speed; where dw does stay
 * there, 0.99.) */
enum { DW_FLOATS = 1 << 18, FETCH_PLACES = 32 };
/* Floats of x, or of x and dw, that stay in a second level cache; of more, each costs ten times as
 * much. */
enum { X_FLOATS = 1 << 18 };

/* Scratch memory: the tile's stack, then the copies of dy and of x. */
enum {
    DY_FLOATS = BLOCK_FLOATS + BLOCK_TILES_MIN * LS_DENSE_PLACES * LS_LANES,
    COPY_FLOATS = GROUP_FLOATS + LS_DENSE_PLACES * LS_TILE_COLUMNS,
};
_Static_assert((LS_DENSE_STACK_FLOATS + DY_FLOATS + COPY_FLOATS) * sizeof(float)
               <= LS_SCRATCH_BYTES, "stack and copies fit into scratch memory");
_Static_assert((size_t)FAR_FILTERS >= LS_LANES, "a word from a row of dy ends in the next one");
_Static_assert(LS_TILE_ROWS % 2 == 0, "a tile has pairs of rows");
_Static_assert(LS_TILE_ROWS <= LS_LANES, "a word has room for a tile's floats of dy");

typedef struct {
    const ls_conv_weight_gradient_args *args;
    ls_pool *pool;
    size_t filters, columns;         /* of dw */
    size_t places;
    size_t row_tiles, column_tiles;
    size_t pairs_each, pairs_left;   /* of rows, in a tile; the first pairs_left have one more */
    size_t block_tiles, group_tiles; /* of rows, whose dy is copied at once; of columns, a group */
    bool is_strided;                 /* rows of x are not neighbours */
    bool copies_dy, copies_x;
    bool fetches_dw, fetches_x;      /* a tile asks for its lines of dw, for x of the next group */
    ls_split split;                  /* into tasks */
    const ls_dense_leaf *leaf;
    int leaf_count;
} job;

/* -- operands --------------------------------------------------------------------------------- */

/* First row of a tile of rows; the last tile has the odd row, if there is one. */
static size_t tile_row(const job *j, size_t i)
{
    return ls_min_size(2 * (i * j->pairs_each + ls_min_size(i, j->pairs_left)), j->filters);
}

/* copy[tile][place][LS_LANES] = dy for the rows of tiles [first, last), and what lies there in dy
 * after a tile's rows: only the last place's words can end past dy. */
static void copy_dy(const job *j, size_t first, size_t last, float *copy)
{
    for (size_t k = 0; k < j->places; k++) {
        const float *from = j->args->dy + k * j->filters;
        const bool is_last = k + 1 == j->places;
        float *to = copy + k * LS_LANES;
        for (size_t i = first; i < last; i++, to += j->places * LS_LANES) {
            const size_t row = tile_row(j, i);
            if (is_last) ls_vec_store(to, ls_vec_load_part(from + row, tile_row(j, i + 1) - row));
            else ls_vec_store(to, ls_vec_load(from + row));
        }
    }
}

/* Columns of dw, and of x, from `column` on that a tile has. */
static size_t columns_at(const job *j, size_t column)
{
    return ls_min_size(LS_TILE_COLUMNS, j->columns - column);
}

/* Words that x ends in are read as whole ones. */
static bool copies_column(const job *j, size_t column)
{
    return j->copies_x || columns_at(j, column) % LS_LANES != 0;
}

/* Place after place, and its row of x. */
typedef struct {
    size_t row;  /* floats from x; after the last place it may wrap around */
    size_t p, q; /* output row within its image, and column */
} walk;

static walk walk_from(const job *j, size_t place)
{
    const ls_conv_shape *s = &j->args->shape;
    if (!j->is_strided) return (walk){place * j->columns, 0, 0};
    const size_t row = place / s->out_width, q = place % s->out_width;
    const size_t n = row / s->out_height, p = row % s->out_height;
    const size_t height = n * s->height + p * s->stride_height;
    return (walk){(height * s->width + q * s->stride_width) * j->columns, p, q};
}

LS_ALWAYS_INLINE void walk_on(const job *j, walk *w)
{
    const ls_conv_shape *s = &j->args->shape;
    if (!j->is_strided) {
        w->row += j->columns;
        return;
    }
    w->row += s->stride_width * j->columns;
    if (++w->q < s->out_width) return;
    w->q = 0;
    w->row += (s->stride_height * s->width - s->out_width * s->stride_width) * j->columns;
    if (++w->p < s->out_height) return;
    w->p = 0;
    w->row += (s->height - s->out_height * s->stride_height) * s->width * j->columns;
}

/* copy[place][LS_TILE_COLUMNS] = the words of x from `column` on. */
static void copy_x(const job *j, size_t column, float *copy)
{
    const size_t columns = columns_at(j, column);
    if (j->places == 0) return; /* there is no row 0 */
    walk w = walk_from(j, 0);
    for (size_t k = 0; k < j->places; k++, walk_on(j, &w), copy += LS_TILE_COLUMNS) {
        const float *x = j->args->x + w.row + column;
#pragma GCC unroll 4
        for (size_t v = 0; v < LS_TILE_COLUMNS; v += LS_LANES) {
            const size_t lanes = columns > v ? columns - v : 0;
            ls_vec_store(copy + v, ls_vec_load_lanes(x + v, lanes));
        }
    }
}

/* -- tasks ------------------------------------------------------------------------------------ */

/* Some tiles of rows and of columns, and memory for copies: of these rows of dy, of x. */
typedef struct {
    size_t first_row, last_row, first_column, last_column;
    float *dy, *x;
} group;

/* Ask for the words of x of the next group of columns, a share for each tile of this one: a line of
 * every place is no pattern that the processor would follow by itself. (Measured, 64 places, 64
 * filters of 7200, and the lines of dw with them: 0.85 of the time that it takes to ask for a row
 * of tiles' share at once.) This is what row i of tiles asks for. */
static void share_fetch(const job *j, const group *g, size_t i, ls_dense_tiles *t)
{
    const size_t next = g->last_column * LS_TILE_COLUMNS;
    t->next_places = 0;
    t->fetches = j->fetches_dw;
    if (!j->fetches_x || next >= j->columns) return;
    const size_t rows = g->last_row - g->first_row, done = i - g->first_row;
    const size_t tiles = g->last_column - g->first_column, first = done * j->places / rows;
    t->next_places = (done + 1) * j->places / rows - first;
    t->fetches = true;
    t->next_share = ls_ceil_div(t->next_places, tiles * (size_t)j->leaf_count);
    t->next_columns = ls_min_size(j->group_tiles * LS_TILE_COLUMNS, j->columns - next);
    t->next_step = j->columns;
    t->next = j->args->x + first * j->columns + next;
}

/* `count` tiles from row `row` and tile c of the columns on, all as wide. */
static void run_tiles(const job *j, const group *g, size_t row, size_t c, size_t count,
                      ls_dense_tiles *t)
{
    const size_t column = c * LS_TILE_COLUMNS, panel = j->places * LS_TILE_COLUMNS;
    t->dw = j->args->dw + row * j->columns + column;
    t->columns = columns_at(j, column);
    t->count = count;
    t->b = g->x + (c - g->first_column) * panel;
    t->b_step = LS_TILE_COLUMNS;
    t->b_next = panel;
    if (j->places > 0 && !copies_column(j, column)) { /* without places x may be NULL */
        t->b = j->args->x + column;
        t->b_step = j->columns;
        t->b_next = LS_TILE_COLUMNS;
    }
    LS_HOST(dense_tiles)(t);
}

/* The tiles of row i of tiles: whole ones, then what is left of the columns. */
static void run_row(const job *j, const group *g, size_t i, ls_dense_tiles *t)
{
    const size_t row = tile_row(j, i);
    const size_t whole = ls_min_size(g->last_column, j->columns / LS_TILE_COLUMNS);
    t->rows = (int)(tile_row(j, i + 1) - row);
    t->a = g->dy + (i - g->first_row) * j->places * LS_LANES;
    t->a_step = LS_LANES;
    if (j->places > 0 && !j->copies_dy) { /* without places dy may be NULL */
        t->a = j->args->dy + row;
        t->a_step = j->filters;
    }
    share_fetch(j, g, i, t);
    if (g->first_column < whole) run_tiles(j, g, row, g->first_column, whole - g->first_column, t);
    if (whole < g->last_column) run_tiles(j, g, row, whole, 1, t);
}

static void run_group(const job *j, const group *g, ls_dense_tiles *t)
{
    for (size_t c = g->first_column; c < g->last_column; c++) {
        float *copy = g->x + (c - g->first_column) * j->places * LS_TILE_COLUMNS;
        if (copies_column(j, c * LS_TILE_COLUMNS)) copy_x(j, c * LS_TILE_COLUMNS, copy);
    }
    for (size_t i = g->first_row; i < g->last_row; i++) run_row(j, g, i, t);
}

static void run_task(void *arg, size_t task, int thread)
{
    const job *j = arg;
    const ls_split_part part = ls_split_part_at(j->split, task, j->row_tiles, j->column_tiles);
    float *scratch = ls_pool_scratch(j->pool, thread), *dy = scratch + LS_DENSE_STACK_FLOATS;
    ls_dense_tiles t = {
        .leaf = j->leaf,
        .leaf_count = j->leaf_count,
        .step = j->columns,
        .piece_stride = j->args->piece_stride,
        .fetch_rows = j->fetches_dw ? (int)ls_ceil_div(LS_TILE_ROWS, (size_t)j->leaf_count) : 0,
        .stack = scratch,
    };
    for (size_t row = part.first_row; row < part.last_row; row += j->block_tiles) {
        const size_t last_row = ls_min_size(row + j->block_tiles, part.last_row);
        if (j->copies_dy) copy_dy(j, row, last_row, dy);
        for (size_t c = part.first_column; c < part.last_column; c += j->group_tiles) {
            const size_t last_column = ls_min_size(c + j->group_tiles, part.last_column);
            const group g = {row, last_row, c, last_column, dy, dy + DY_FLOATS};
            run_group(j, &g, &t);
        }
    }
}

/* -- set-up ----------------------------------------------------------------------------------- */

static void run_far(ls_pool *pool, const ls_conv_weight_gradient_args *a, size_t places,
                    const ls_dense_leaf *leaf, int leaf_count)
{
    job j = {
        .args = a,
        .pool = pool,
        .filters = a->shape.filters,
        .columns = a->shape.channels,
        .places = places,
        .row_tiles = ls_ceil_div(a->shape.filters, LS_TILE_ROWS),
        .column_tiles = ls_ceil_div(a->shape.channels, LS_TILE_COLUMNS),
        .is_strided = !ls_patches_are_rows(&a->shape),
        .leaf = leaf,
        .leaf_count = leaf_count,
    };
    const size_t pairs = ls_ceil_div(j.filters, 2), some = ls_max_size(places, 1);
    j.pairs_each = pairs / j.row_tiles;
    j.pairs_left = pairs % j.row_tiles;
    j.block_tiles = ls_max_size(BLOCK_FLOATS / (some * LS_LANES), BLOCK_TILES_MIN);
    j.group_tiles = ls_max_size(GROUP_FLOATS / (some * LS_TILE_COLUMNS), 1);
    j.copies_dy = j.filters >= FAR_FILTERS && j.column_tiles >= COLUMNS_PER_COPY;
    j.fetches_dw = j.filters * j.columns >= DW_FLOATS && places >= FETCH_PLACES;
    j.fetches_x = !j.is_strided && j.row_tiles >= TILES_PER_FETCH
                  && (places + j.filters) * j.columns > X_FLOATS;
    j.copies_x = j.is_strided || j.columns * sizeof(float) % ALIAS_BYTES == 0
                 || (j.row_tiles >= TILES_PER_COPY
                     && (places > PLACES_IN_PLACE || j.columns % LS_LANES != 0));
    const ls_split_problem problem = {
        .tile_rows = LS_TILE_ROWS,
        .row_tiles = j.row_tiles,
        .column_tiles = j.column_tiles,
        .depth = places,
        .row_tiles_max = j.row_tiles,
        .column_tiles_max = j.column_tiles,
        .pack_cost = places * j.columns > X_FLOATS ? 0.5 : 0.05,
        .rows_first = true,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(pool));
    ls_pool_run(pool, ls_split_tasks(j.split), run_task, &j);
}

/* -- a near one ------------------------------------------------------------------------------- */

/* Is there nothing to copy, to ask for or to share? */
static bool is_near(const ls_pool *pool, const ls_conv_weight_gradient_args *a, size_t places)
{
    const size_t columns = a->shape.channels;
    return places > 0 && columns % LS_LANES == 0 && columns * sizeof(float) % ALIAS_BYTES != 0
           && ls_is_near(pool, a->shape.filters, columns, places);
}

/* The tiles of t->count * t->columns columns from `first` on. Of rows, all have as many pairs, or
 * one more. */
static void run_near_group(const ls_conv_weight_gradient_args *a, size_t first, ls_dense_tiles *t)
{
    const size_t filters = a->shape.filters, pairs = ls_ceil_div(filters, 2);
    const size_t tiles = ls_ceil_div(filters, LS_TILE_ROWS);
    size_t row = 0;
    for (size_t i = 1; i <= tiles; i++) {
        const size_t end = ls_min_size(2 * (i * pairs / tiles), filters);
        t->rows = (int)(end - row);
        t->a = a->dy + row;
        t->b = a->x + first;
        t->dw = a->dw + row * a->shape.channels + first;
        LS_HOST(dense_tiles)(t);
        row = end;
    }
}

static void run_near(const ls_conv_weight_gradient_args *a, size_t places,
                     const ls_dense_leaf *leaf, float *stack)
{
    const size_t columns = a->shape.channels;
    const size_t group_tiles = ls_max_size(GROUP_FLOATS / (places * LS_TILE_COLUMNS), 1);
    ls_dense_tiles t = {
        .leaf = leaf,
        .a_step = a->shape.filters,
        .b_step = columns,
        .b_next = LS_TILE_COLUMNS,
        .step = columns,
        .piece_stride = a->piece_stride,
        .stack = stack,
    };
    for (size_t n = 0; n < columns; n += t.count * t.columns) {
        t.columns = ls_min_size(LS_TILE_COLUMNS, columns - n);
        t.count = ls_max_size(ls_min_size(group_tiles, (columns - n) / LS_TILE_COLUMNS), 1);
        run_near_group(a, n, &t);
    }
}

bool LS_HOST(dense_gradient)(ls_pool *pool, const ls_conv_weight_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    if (!ls_patches_are_some_rows(s)) return false;
    const bool are_rows = ls_patches_are_rows(s);
    const size_t width = s->out_height * s->out_width, places = s->samples * width;
    if (places > (are_rows ? LS_DENSE_PLACES : LS_DENSE_STRIDED_PLACES)) return false;
    ls_dense_leaf leaf[LS_SHARD_MAX];
    const int count = LS_HOST(dense_leaves)(a->fold, width, leaf);
    if (count == 0) return true; /* a pass without samples that adds nothing to its pieces */
    if (are_rows && is_near(pool, a, places)) run_near(a, places, leaf, ls_pool_scratch(pool, 0));
    else run_far(pool, a, places, leaf, count);
    return true;
}
