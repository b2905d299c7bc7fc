/* SPDX-License-Identifier: MIT */
/* dense_gradient.c -- the weight gradient of a dense layer of few samples.
 *
 * A tile of dw goes through all shards at once (dense_tile.h); here is where its operands come
 * from, and in which order the tiles are visited:
 *
 *     for each block of rows: copy its dy, if at all
 *         for each group of columns, a tile wide or, of few places, wider: copy its x,
 *                                                                         if at all
 *             for each tile of rows
 *                 for each tile of the group: dense_tile, which asks for a part of the next
 *                                             group's x meanwhile
 *
 * dy and x are read in place as a rule: a tile reads a few neighbouring floats of each place. Where
 * the rows of dy are far apart, these are as many lines of as many pages, in a few sets of the
 * caches; then they are copied first, for a block of rows that stays in the second level cache. So
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
#include "kernels/host/split.h"
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
/* Rows of dy from which on they are far apart, in floats, and columns of tiles that it takes then
 * to copy them. (Measured: 0.94 of the peak against 0.75 for 784 places of 512 filters.) */
enum { FAR_FILTERS = 256, COLUMNS_PER_COPY = 8 };
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
_Static_assert(LS_TILE_ROWS <= LS_LANES, "a word has room for a tile's floats of dy");

typedef struct {
    const ls_conv_weight_gradient_args *args;
    ls_pool *pool;
    size_t filters, columns;         /* of dw */
    size_t places;
    size_t row_tiles, column_tiles;
    size_t rows_each, rows_left;     /* rows of a tile; the first rows_left have one more */
    size_t block_tiles, group_tiles; /* of rows, whose dy is copied at once; of columns, a group */
    bool is_strided;                 /* rows of x are not neighbours */
    bool copies_dy, copies_x;
    bool fetches_dw, fetches_x;      /* a tile asks for its lines of dw, for x of the next group */
    ls_split split;                  /* into tasks */
    int leaf_count;
    ls_dense_leaf leaf[LS_SHARD_MAX];
} job;

/* -- operands --------------------------------------------------------------------------------- */

/* First row of a tile of rows. */
static size_t tile_row(const job *j, size_t i)
{
    return i * j->rows_each + ls_min_size(i, j->rows_left);
}

/* copy[tile][place][LS_LANES] = dy for the rows of tiles [first, last). */
static void copy_dy(const job *j, size_t first, size_t last, float *copy)
{
    for (size_t k = 0; k < j->places; k++) {
        const float *from = j->args->dy + k * j->filters + tile_row(j, first);
        float *to = copy + k * LS_LANES;
        for (size_t i = first; i < last; i++, to += j->places * LS_LANES) {
            const size_t rows = j->rows_each + (i < j->rows_left);
            ls_vec_store(to, ls_vec_load_part(from, rows));
            from += rows;
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
 * of tiles' share at once.) */
static void share_fetch(const job *j, const group *g, size_t tile, ls_dense_tile *t)
{
    const size_t next = g->last_column * LS_TILE_COLUMNS;
    t->next_places = 0;
    if (!j->fetches_x || next >= j->columns) return;
    const size_t tiles = (g->last_row - g->first_row) * (g->last_column - g->first_column);
    const size_t first = tile * j->places / tiles;
    t->next_places = (tile + 1) * j->places / tiles - first;
    t->next_share = ls_ceil_div(t->next_places, (size_t)j->leaf_count);
    t->next_columns = ls_min_size(j->group_tiles * LS_TILE_COLUMNS, j->columns - next);
    t->next_step = j->columns;
    t->next = j->args->x + first * j->columns + next;
}

/* The tiles of row i of tiles. */
static void run_row(const job *j, const group *g, size_t i, ls_dense_tile *t)
{
    const size_t row = tile_row(j, i), width = g->last_column - g->first_column;
    t->rows = (int)(tile_row(j, i + 1) - row);
    t->a = g->dy + (i - g->first_row) * j->places * LS_LANES;
    t->a_step = LS_LANES;
    if (j->places > 0 && !j->copies_dy) { /* without places dy may be NULL */
        t->a = j->args->dy + row;
        t->a_step = j->filters;
    }
    for (size_t c = 0; c < width; c++) {
        const size_t column = (g->first_column + c) * LS_TILE_COLUMNS;
        t->columns = columns_at(j, column);
        t->b = g->x + c * j->places * LS_TILE_COLUMNS;
        t->b_step = LS_TILE_COLUMNS;
        if (j->places > 0 && !copies_column(j, column)) { /* without places x may be NULL */
            t->b = j->args->x + column;
            t->b_step = j->columns;
        }
        t->dw = j->args->dw + row * j->columns + column;
        share_fetch(j, g, (i - g->first_row) * width + c, t);
        LS_HOST(dense_tile)(t);
    }
}

static void run_group(const job *j, const group *g, ls_dense_tile *t)
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
    ls_dense_tile t = {
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

static ls_dense_slot slot_of(const ls_fold *fold, int i)
{
    if (i < fold->piece_count) return (ls_dense_slot){LS_DENSE_PIECE_FLOATS, i};
    return (ls_dense_slot){(size_t)(i - fold->piece_count) * LS_DENSE_TILE_FLOATS, -1};
}

static void list_leaves(job *j)
{
    const ls_fold *fold = j->args->fold;
    const size_t width = j->args->shape.out_height * j->args->shape.out_width;
    bool is_zero[LS_SHARD_MAX + LS_FOLD_MERGE_MAX] = {false}; /* +0, and not written */
    j->leaf_count = 0;
    for (int i = 0; i < fold->leaf_count; i++) {
        const int to = fold->store[i];
        ls_dense_leaf *l = &j->leaf[j->leaf_count];
        l->place = fold->sample[i] * width;
        l->depth = fold->sample[i + 1] * width - l->place;
        l->to = slot_of(fold, to);
        l->add_count = 0;
        int only = -1;
        for (int m = 0; m < fold->merge_count[i]; m++) {
            const int from = fold->merge[i][m];
            if (is_zero[from]) continue;
            l->add[l->add_count++] = slot_of(fold, from);
            only = from;
        }
        const bool is_empty = l->depth == 0;
        is_zero[to] = is_empty && l->add_count == 0 && to >= fold->piece_count;
        if (is_zero[to] || (is_empty && l->add_count == 1 && only == to)) continue;
        j->leaf_count++;
    }
}

void LS_HOST(dense_gradient)(ls_pool *pool, const ls_conv_weight_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    if (a->fold->leaf_count == 0 || s->filters == 0 || s->channels == 0) return;
    job j; /* set field by field: `leaf` is long */
    j.args = a;
    j.pool = pool;
    j.filters = s->filters;
    j.columns = s->channels;
    j.places = s->samples * s->out_height * s->out_width;
    j.row_tiles = ls_ceil_div(j.filters, LS_TILE_ROWS);
    j.column_tiles = ls_ceil_div(j.columns, LS_TILE_COLUMNS);
    j.rows_each = j.filters / j.row_tiles;
    j.rows_left = j.filters % j.row_tiles;
    const size_t places = ls_max_size(j.places, 1);
    j.block_tiles = ls_max_size(BLOCK_FLOATS / (places * LS_LANES), BLOCK_TILES_MIN);
    j.group_tiles = ls_max_size(GROUP_FLOATS / (places * LS_TILE_COLUMNS), 1);
    j.copies_dy = j.filters >= FAR_FILTERS && j.column_tiles >= COLUMNS_PER_COPY;
    j.fetches_dw = j.filters * j.columns >= DW_FLOATS && j.places >= FETCH_PLACES;
    j.is_strided = !ls_patches_are_rows(s);
    j.fetches_x = !j.is_strided && j.row_tiles >= TILES_PER_FETCH
                  && (j.places + j.filters) * j.columns > X_FLOATS;
    j.copies_x = j.is_strided || j.columns * sizeof(float) % ALIAS_BYTES == 0
                 || (j.row_tiles >= TILES_PER_COPY
                     && (j.places > PLACES_IN_PLACE || j.columns % LS_LANES != 0));
    list_leaves(&j);
    if (j.leaf_count == 0) return; /* a pass without samples that adds nothing to its pieces */
    const ls_split_problem problem = {
        .tile_rows = LS_TILE_ROWS,
        .row_tiles = j.row_tiles,
        .column_tiles = j.column_tiles,
        .depth = j.places,
        .row_tiles_max = j.row_tiles,
        .column_tiles_max = j.column_tiles,
        .pack_cost = j.places * j.columns > X_FLOATS ? 0.5 : 0.05,
        .rows_first = true,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(pool));
    ls_pool_run(pool, ls_split_tasks(j.split), run_task, &j);
}
