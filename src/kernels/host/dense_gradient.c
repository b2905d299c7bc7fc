/* SPDX-License-Identifier: MIT */
/* dense_gradient.c -- the weight gradient of a dense layer of few samples, a tree in registers.
 *
 * dw[f, c] is the sum over the places of dy[place, f] * x[place, c]: per shard a chain of fused
 * multiply-adds from +0, places ascending, + 0.0f last; then the shards' chains are added as the
 * fold says (docs/numerics.md 1.1, 1.2 and 2.2, fold.h). With 64 samples in 8 shards a chain has 8
 * terms, and what surrounds it - a call of the micro-kernel (tile.c), its sums stored, and loaded
 * again to be merged - takes as long as the multiplications. So here a tile of dw stays in
 * registers through ALL chains and merges, and its pieces are all that is stored:
 *
 *                  x[k]  | word of columns |        for each node of the list below
 *      dy[k, f+0] -----> | acc[0]          |            for each of its 2^height chains: k
 *      dy[k, f+1] -----> | acc[1]          |            ascending, then + 0.0f; merged as soon as
 *        ...             |  ...            |            both sides of a merge are there
 *                                                       add slots of the fold, store to one
 *
 * Sums that wait for their sibling must have registers that the code names, so a NODE is what one
 * piece of code can do: 2^height neighbouring chains, up to LS_TREE_HEIGHT, that form a whole
 * subtree, and then additions from memory. A subtree of height h is one of height h - 1 (which then
 * waits), another one (in acc), and their sum: h tiles wait at most. The tile is small enough for
 * all of them, one word across where an addition's operand can be a broadcast number of memory
 * (simd_*.h). An fma waits for the one before it in its chain, about 4 times as long as for a unit,
 * and a tile's rows are enough to cover that; the additions go to units that multiply nothing.
 *
 * The list of nodes is made once per call from the fold's leaves, a chain each. Eight shards of one
 * rank are one node:
 *
 *     leaf      0   1   2   3   4   5   6   7
 *               |   |   |   |   |   |   |   |      leaf 1 adds leaf 0's slot: a node of height 1;
 *               +---+   +---+   +---+   +---+      leaf 3 adds leaf 2's, then that node's, of the
 *                 +-------+       +-------+        same height as itself by then: height 2
 *                     +---------------+   -> piece 0
 *
 * In general leaf i begins as a node of height 0 that adds slots and stores to one. While its first
 * addend is the slot to which the node right before it stores, of the same height, with nothing to
 * add, the two become one: nobody else reads that slot, because what one leaf of a pass stores and
 * another merges is a temporary, and is read once (fold.h). Other addends are loaded: temporaries
 * from a small stack of tiles in scratch memory, pieces from dw. A shard without samples is a chain
 * without terms: +0.
 *
 * Neither operand is copied as a rule: x is read a word of each place at a time, for all rows of
 * tiles, while it lies in the first level cache. Where x's rows evict each other from it, where
 * they are more than it has room for, where many tiles would read words that cross lines, and where
 * a word is not a whole one, the words of all places are copied to scratch memory first. While a
 * column of tiles is computed, the words of the next one are fetched; a tile of dw itself, which
 * is first touched when it is stored, is asked for when its multiplications begin.
 *
 * Threads share dw: its rows, which are in the order of the weights and of their update, if x is
 * small enough to be read by each; else its columns too.
 */
#include "kernels/host/dense_gradient.h"
#include "kernels/host/lanes.h"
#include "kernels/host/product.h"
#include "sizes.h"

enum { COLUMNS = LS_TREE_VECTORS * LS_LANES };
_Static_assert(LS_TILE_COLUMNS % COLUMNS == 0, "what threads share is whole tiles");

/* Rows of x this many bytes apart, or a multiple of it, share too few sets of the first level
 * cache. */
enum { ALIAS_BYTES = 2048 };
/* Places up to which a word of each, a line of the first level cache, fills at most that cache. */
enum { PLACES_IN_PLACE = 512 };
/* Tiles of rows from which on it is worth its cost to copy words that cross lines, and to ask for
 * those of the next column of tiles. */
enum { MANY_TILES = 4 };
/* Floats of x that stay in a second level cache; of more, each costs ten times as much. */
enum { X_FLOATS = 1 << 18 };

/* Scratch memory: the stack of temporary slots, a tile each, then the copy of x. */
enum { SLOT_FLOATS = LS_TREE_ROWS * COLUMNS, STACK_FLOATS = LS_FOLD_MERGE_MAX * SLOT_FLOATS };
_Static_assert((STACK_FLOATS + LS_DENSE_PLACES * COLUMNS) * sizeof(float) <= LS_SCRATCH_BYTES,
               "stack and copy fit into scratch memory");

/* The sum of chains [first, first + 2^height), to which slots are added. */
typedef struct {
    int first, height;
    int add_count;
    unsigned char add[LS_FOLD_MERGE_MAX];
    unsigned char to; /* slot */
} node;

typedef struct {
    const ls_conv_weight_gradient_args *args;
    ls_pool *pool;
    size_t filters, columns;          /* of dw */
    size_t places;
    size_t row_tiles;
    bool copies;                      /* x, for all tiles */
    ls_split split;                   /* into tasks */
    int node_count;
    node node[LS_SHARD_MAX];
    size_t place[LS_SHARD_MAX + 1];   /* chain i is places [place[i], place[i + 1]) */
} job;

/* -- one tile --------------------------------------------------------------------------------- */

typedef struct {
    const job *job;
    const float *a, *b;    /* place 0 of dy and x, at the tile's first row and column */
    size_t a_step, b_step; /* floats from a place to the next one; whole words of b are read */
    float *dw;             /* the tile in piece 0 */
    size_t columns;
    float *stack;
} tile;

/* acc = chain i. */
LS_ALWAYS_INLINE void sum_0(const tile *t, int i, ls_vec acc[][LS_TREE_VECTORS], int rows)
{
    const size_t a_step = t->a_step, b_step = t->b_step, first = t->job->place[i];
    const float *a = t->a + first * a_step, *b = t->b + first * b_step;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < LS_TREE_VECTORS; v++) acc[r][v] = ls_vec_zero();
    }
    for (size_t k = t->job->place[i + 1] - first; k > 0; k--) {
        ls_vec word[LS_TREE_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < LS_TREE_VECTORS; v++) word[v] = ls_vec_load(b + v * LS_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const ls_vec x = ls_vec_set(a[r]);
#pragma GCC unroll 16
            for (int v = 0; v < LS_TREE_VECTORS; v++) {
                acc[r][v] = ls_vec_fma(x, word[v], acc[r][v]);
            }
        }
        a += a_step;
        b += b_step;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < LS_TREE_VECTORS; v++) acc[r][v] = ls_vec_add(acc[r][v], ls_vec_zero());
    }
}

/* acc = the subtree of this height whose first chain is i. */
#define DEFINE_SUM(height, below)                                                                 \
    LS_ALWAYS_INLINE void sum_##height(const tile *t, int i, ls_vec acc[][LS_TREE_VECTORS],       \
                                       int rows)                                                  \
    {                                                                                             \
        ls_vec left[LS_TREE_ROWS][LS_TREE_VECTORS];                                               \
        below(t, i, left, rows);                                                                  \
        below(t, i + (1 << (height - 1)), acc, rows);                                             \
        _Pragma("GCC unroll 16") for (int r = 0; r < rows; r++) {                                 \
            _Pragma("GCC unroll 16") for (int v = 0; v < LS_TREE_VECTORS; v++) {                  \
                acc[r][v] = ls_vec_add(left[r][v], acc[r][v]);                                    \
            }                                                                                     \
        }                                                                                         \
    }
DEFINE_SUM(1, sum_0)
DEFINE_SUM(2, sum_1)
DEFINE_SUM(3, sum_2)
_Static_assert(LS_TREE_HEIGHT <= 3, "there is a function for every height");

/* The tile in slot `slot`; its rows are *step floats apart. */
LS_ALWAYS_INLINE float *slot_at(const tile *t, int slot, size_t *step)
{
    const ls_conv_weight_gradient_args *a = t->job->args;
    const int temporary = slot - a->fold->piece_count;
    *step = temporary < 0 ? t->job->columns : COLUMNS;
    return temporary < 0 ? t->dw + (size_t)slot * a->piece_stride
                         : t->stack + temporary * SLOT_FLOATS;
}

/* Lanes of word v that dw has. */
LS_ALWAYS_INLINE size_t word_lanes(const tile *t, int v)
{
    const size_t before = (size_t)v * LS_LANES;
    return before < t->columns ? ls_min_size(t->columns - before, LS_LANES) : 0;
}

LS_ALWAYS_INLINE void finish(const tile *t, const node *n, ls_vec acc[][LS_TREE_VECTORS], int rows)
{
    size_t step;
    for (int m = 0; m < n->add_count; m++) {
        const float *p = slot_at(t, n->add[m], &step);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
            for (int v = 0; v < LS_TREE_VECTORS; v++) {
                const float *word = p + (size_t)r * step + v * LS_LANES;
                acc[r][v] = ls_vec_add(ls_vec_load_lanes(word, word_lanes(t, v)), acc[r][v]);
            }
        }
    }
    float *p = slot_at(t, n->to, &step);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < LS_TREE_VECTORS; v++) {
            ls_vec_store_lanes(p + (size_t)r * step + v * LS_LANES, acc[r][v], word_lanes(t, v));
        }
    }
}

LS_ALWAYS_INLINE void run_nodes(const tile *t, int rows)
{
    const node *end = t->job->node + t->job->node_count;
    for (int r = 0; r < rows; r++) __builtin_prefetch(t->dw + (size_t)r * t->job->columns, 1);
    for (const node *n = t->job->node; n < end; n++) {
        ls_vec acc[LS_TREE_ROWS][LS_TREE_VECTORS];
        if (LS_TREE_HEIGHT >= 3 && n->height == 3) sum_3(t, n->first, acc, rows);
        else if (LS_TREE_HEIGHT >= 2 && n->height == 2) sum_2(t, n->first, acc, rows);
        else if (LS_TREE_HEIGHT >= 1 && n->height == 1) sum_1(t, n->first, acc, rows);
        else sum_0(t, n->first, acc, rows);
        finish(t, n, acc, rows);
    }
}

typedef void tile_fn(const tile *t);

#define DEFINE_TILE(rows) static void run_##rows(const tile *t) { run_nodes(t, rows); }
LS_TREE_ROW_COUNTS(DEFINE_TILE)
#define NAME_TILE(rows) run_##rows,
static tile_fn *const run_rows[] = {LS_TREE_ROW_COUNTS(NAME_TILE)};

/* -- tasks ------------------------------------------------------------------------------------ */

/* Where the tile finds column `column` of x: in place, or copied to `copy`. */
static void lay_out(const job *j, size_t column, float *copy, tile *t)
{
    t->b = copy;
    t->b_step = COLUMNS;
    if (j->places == 0) return; /* x may be NULL */
    const float *x = j->args->x + column;
    if (!j->copies && t->columns == COLUMNS) {
        t->b = x;
        t->b_step = j->columns;
        return;
    }
    for (size_t k = 0; k < j->places; k++) {
#pragma GCC unroll 4
        for (int v = 0; v < LS_TREE_VECTORS; v++) {
            ls_vec_store(copy + k * COLUMNS + v * LS_LANES,
                         ls_vec_load_lanes(x + k * j->columns + v * LS_LANES, word_lanes(t, v)));
        }
    }
}

/* Ask for part i of n of the words of x that lie right of a column of tiles, in the second level
 * cache: the first has none to spare. A line of every place is no pattern that the processor would
 * follow by itself. (Inline: the compiler drops calls of functions that do no more than ask.) */
LS_ALWAYS_INLINE void fetch_next(const job *j, size_t column, size_t i, size_t n)
{
    enum { SECOND_LEVEL = 2 };
    if (n < MANY_TILES || j->places == 0 || column + COLUMNS >= j->columns) return;
    const float *x = j->args->x + column + COLUMNS;
    for (size_t k = i * j->places / n; k < (i + 1) * j->places / n; k++) {
        __builtin_prefetch(x + k * j->columns, 0, SECOND_LEVEL);
    }
}

/* Row tiles [first, last), all of one column of tiles. */
static void run_column(const job *j, size_t column, size_t first, size_t last, tile *t, float *copy)
{
    const ls_conv_weight_gradient_args *a = j->args;
    t->columns = ls_min_size(COLUMNS, j->columns - column);
    lay_out(j, column, copy, t);
    for (size_t i = first; i < last; i++) {
        const size_t row = i * j->filters / j->row_tiles;
        const size_t rows = (i + 1) * j->filters / j->row_tiles - row;
        t->a = j->places == 0 ? copy : a->dy + row; /* without places dy may be NULL */
        t->dw = a->dw + row * j->columns + column;
        fetch_next(j, column, i - first, last - first);
        run_rows[rows - 1](t);
    }
}

static void run_task(void *arg, size_t task, int thread)
{
    const job *j = arg;
    const size_t column_tiles = ls_ceil_div(j->columns, LS_TILE_COLUMNS);
    const ls_split_part part = ls_split_part_at(j->split, task, j->row_tiles, column_tiles);
    const size_t first = part.first_column * LS_TILE_COLUMNS;
    const size_t last = ls_min_size(part.last_column * LS_TILE_COLUMNS, j->columns);
    float *scratch = ls_pool_scratch(j->pool, thread);
    tile t = {.job = j, .a_step = j->filters, .stack = scratch};
    for (size_t column = first; column < last; column += COLUMNS) {
        run_column(j, column, part.first_row, part.last_row, &t, scratch + STACK_FLOATS);
    }
}

/* -- set-up ----------------------------------------------------------------------------------- */

/* Append n, or what becomes of it and the nodes before it. */
static void append_node(job *j, node n)
{
    while (n.height < LS_TREE_HEIGHT && n.add_count > 0 && j->node_count > 0) {
        const node *left = &j->node[j->node_count - 1];
        if (left->height != n.height || left->add_count > 0 || left->to != n.add[0]) break;
        n.first = left->first;
        n.height++;
        n.add_count--;
        for (int m = 0; m < n.add_count; m++) n.add[m] = n.add[m + 1];
        j->node_count--;
    }
    j->node[j->node_count++] = n;
}

static void list_nodes(job *j)
{
    const ls_fold *fold = j->args->fold;
    const size_t width = j->args->shape.out_height * j->args->shape.out_width;
    j->node_count = 0;
    for (int leaf = 0; leaf < fold->leaf_count; leaf++) {
        node n = {.first = leaf, .add_count = fold->merge_count[leaf], .to = fold->store[leaf]};
        for (int m = 0; m < n.add_count; m++) n.add[m] = fold->merge[leaf][m];
        append_node(j, n);
        j->place[leaf] = fold->sample[leaf] * width;
    }
    j->place[fold->leaf_count] = j->places;
}

void LS_HOST(dense_gradient)(ls_pool *pool, const ls_conv_weight_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    if (a->fold->leaf_count == 0 || s->filters == 0 || s->channels == 0) return;
    job j;
    j.args = a;
    j.pool = pool;
    j.filters = s->filters;
    j.columns = s->channels;
    j.places = s->samples * s->out_height * s->out_width;
    j.row_tiles = ls_ceil_div(j.filters, LS_TREE_ROWS);
    j.copies = j.columns * sizeof(float) % ALIAS_BYTES == 0 || j.places > PLACES_IN_PLACE
               || (j.columns % LS_LANES != 0 && j.row_tiles >= MANY_TILES);
    list_nodes(&j);
    const size_t column_tiles = ls_ceil_div(j.columns, LS_TILE_COLUMNS);
    const ls_split_problem problem = {
        .tile_rows = LS_TREE_ROWS,
        .row_tiles = j.row_tiles,
        .column_tiles = column_tiles,
        .depth = j.places,
        .row_tiles_max = j.row_tiles,
        .column_tiles_max = column_tiles,
        .pack_cost = j.places * j.columns > X_FLOATS ? 0.5 : 0.05,
        .rows_first = true,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(pool));
    ls_pool_run(pool, ls_split_tasks(j.split), run_task, &j);
}
