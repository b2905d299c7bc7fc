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
    int leaf_count;
    ls_dense_leaf leaf[LS_SHARD_MAX];
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
 * of tiles' share at once.) */
static void share_fetch(const job *j, const group *g, size_t tile, ls_dense_tile *t)
{
    const size_t next = g->last_column * LS_TILE_COLUMNS;
    t->next_places = 0;
    t->fetches = j->fetches_dw;
    if (!j->fetches_x || next >= j->columns) return;
    const size_t tiles = (g->last_row - g->first_row) * (g->last_column - g->first_column);
    const size_t first = tile * j->places / tiles;
    t->next_places = (tile + 1) * j->places / tiles - first;
    t->fetches = true;
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

/* The temporary t of the fold; and a piece, the n-th slot that a leaf adds. */
static ls_dense_slot temporary_at(int t)
{
    return (ls_dense_slot){t * LS_DENSE_TILE_FLOATS, -1};
}

static ls_dense_slot piece_at(int piece, int n)
{
    return (ls_dense_slot){(LS_FOLD_MERGE_MAX + n) * LS_DENSE_TILE_FLOATS, piece};
}

/* Does a leaf without terms leave things as they are: +0 to a temporary, of which that is noted
 * alone, or what is there to its own place? */
static bool is_nothing(const ls_dense_leaf *l)
{
    if (l->add_count == 0) return l->to.piece < 0;
    return l->add_count == 1 && l->add[0].floats == l->to.floats && l->add[0].piece == l->to.piece;
}

/* Leaf i of the fold, with all of its terms and slots. `zeros`: temporaries that are +0 and not
 * written, bit t for the t-th. False: there is nothing to do for it. */
static bool list_leaf(const ls_fold *fold, int i, size_t width, unsigned *zeros, ls_dense_leaf *l)
{
    const int pieces = fold->piece_count, merges = fold->merge_count[i];
    int count = 0;
    l->adds_pieces = false;
    for (int m = 0; m < merges; m++) {
        const int slot = fold->merge[i][m], t = slot - pieces;
        if (t < 0) {
            l->adds_pieces = true;
            l->add[count] = piece_at(slot, count);
            count++;
        } else if ((*zeros >> t & 1) == 0) {
            l->add[count++] = temporary_at(t);
        }
    }
    const int to = fold->store[i], t = to - pieces;
    l->terms = (fold->sample[i + 1] - fold->sample[i]) * width;
    l->to = t < 0 ? piece_at(to, 0) : temporary_at(t);
    l->add_count = count;
    const bool nothing = l->terms == 0 && is_nothing(l);
    if (t >= 0) *zeros &= ~(1u << t);
    if (nothing && count == 0) *zeros |= 1u << t;
    return !nothing;
}

/* How a leaf ends that others follow: a sum that goes to the stack does so while the next chain
 * begins. True: it does. */
static bool end_leaf(ls_dense_leaf *l, bool next_has_terms)
{
    l->end = LS_DENSE_STORES;
    if (l->to.piece >= 0 || !next_has_terms) return false;
    if (l->add_count > 0) {
        l->end = LS_DENSE_PASSES_SUM;
        l->add_count--;
    } else if (l->terms > 0) {
        l->end = LS_DENSE_PASSES_TERM;
        l->terms--;
    }
    return l->end != LS_DENSE_STORES;
}

/* One pass over the fold in every call. Of a small layer its instructions count: with a pass of its
 * own for the ends, and leaves of twice the bytes, 64 places in 8 shards, 10 filters of 64, took
 * 1.05 times as long beside a busy neighbour. */
_Static_assert(LS_FOLD_MERGE_MAX <= 32, "a bit of `zeros` for each temporary");
static void list_leaves(job *j)
{
    const ls_fold *fold = j->args->fold;
    const size_t width = j->args->shape.out_height * j->args->shape.out_width;
    ls_dense_leaf *l = j->leaf;
    unsigned zeros = 0;
    for (int i = 0; i < fold->leaf_count; i++) {
        if (!list_leaf(fold, i, width, &zeros, l)) continue;
        if (l > j->leaf && end_leaf(l - 1, l->terms > 0)) l->terms--;
        l++;
    }
    j->leaf_count = (int)(l - j->leaf);
    if (l > j->leaf) l[-1].end = LS_DENSE_IS_LAST;
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
    const size_t pairs = ls_ceil_div(j.filters, 2);
    j.pairs_each = pairs / j.row_tiles;
    j.pairs_left = pairs % j.row_tiles;
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
