/* SPDX-License-Identifier: MIT */
/* dense_tile.c -- a tile of a dense layer's weight gradient: all its chains, and their tree.
 *
 *                  x[k]  | words of columns |        for each leaf: k ascending; then add slots of
 *      dy[k, f+0] -----> | acc[0]           |        the fold, store to one
 *      dy[k, f+1] -----> | acc[1]           |
 *        ...             |  ...             |
 *
 * Sums that wait for their sibling are tiles of a small stack, the fold's temporaries:
 *
 *     leaf      0   1   2   3   4   5   6   7
 *               |   |   |   |   |   |   |   |      leaf 1 adds leaf 0's slot; leaf 3 adds leaf 2's,
 *               +---+   +---+   +---+   +---+      then that of leaves 0 and 1
 *                 +-------+       +-------+
 *                     +---------------+   -> piece 0
 *
 * They stay in the first level cache, and what they cost beside the additions hides behind the
 * next chain's multiplications, which wait for nothing. The tile is as large as the registers
 * allow: what a chain costs beside its terms is the same few cycles for any size. (Measured,
 * AVX-512, two multiply-adds a cycle, chains of 8 terms: 8 x 16 reaches 0.69 of the peak, 8 x 32
 * 0.81, 12 x 32 and more 0.83; the additions alone leave 0.89.)
 *
 * The + 0.0f at the end of a chain makes a sum that is -0 into +0. Whether it was done to the terms
 * of an addition shows in the sum only if that is a zero, so it is enough to do it once, to what is
 * stored to dw: temporaries may hold a -0.
 */
#include "kernels/host/dense_tile.h"

/* acc = the leaf's chain, without + 0.0f. */
LS_ALWAYS_INLINE void sum_chain(const ls_dense_tile *t, const ls_dense_leaf *l,
                                ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const size_t a_step = t->a_step, b_step = t->b_step;
    const float *a = t->a + l->place * a_step, *b = t->b + l->place * b_step;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[r][v] = ls_vec_zero();
    }
    for (size_t k = l->depth; k > 0; k--) {
        ls_vec word[LS_TILE_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) word[v] = ls_vec_load(b + v * LS_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const ls_vec x = ls_vec_set(a[r]);
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[r][v] = ls_vec_fma(x, word[v], acc[r][v]);
        }
        a += a_step;
        b += b_step;
    }
}

/* acc = a tile of the stack + acc. */
LS_ALWAYS_INLINE void add_tile(const float *p, ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            acc[r][v] = ls_vec_add(ls_vec_load(p + r * LS_TILE_COLUMNS + v * LS_LANES), acc[r][v]);
        }
    }
}

LS_ALWAYS_INLINE void store_tile(float *p, ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            ls_vec_store(p + r * LS_TILE_COLUMNS + v * LS_LANES, acc[r][v]);
        }
    }
}

/* Store acc + 0.0f to dw, whose rows are `step` floats apart. */
LS_ALWAYS_INLINE void store_piece(float *p, size_t step, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                  int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++, p += step) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            ls_vec_store(p + v * LS_LANES, ls_vec_add(acc[r][v], ls_vec_zero()));
        }
    }
}

static float *piece_at(const ls_dense_tile *t, int piece)
{
    return t->dw + (size_t)piece * t->piece_stride;
}

/* The tile in a piece to the stack's last tile. Seldom used, where ranks or passes share the
 * shards; calls in the middle of a tile would cost registers if they were part of it. */
static __attribute__((noinline)) void fetch_piece(const ls_dense_tile *t, int piece, int rows)
{
    float *to = t->stack + LS_DENSE_PIECE_FLOATS;
    const float *from = piece_at(t, piece);
    for (int r = 0; r < rows; r++, to += LS_TILE_COLUMNS, from += t->step) {
        for (size_t c = 0; c < t->columns; c++) to[c] = from[c];
    }
}

/* The stack's last tile, which has columns that dw does not have, + 0.0f to a piece. */
static __attribute__((noinline)) void store_part(const ls_dense_tile *t, int piece, int rows)
{
    const float *from = t->stack + LS_DENSE_PIECE_FLOATS;
    float *to = piece_at(t, piece);
    for (int r = 0; r < rows; r++, from += LS_TILE_COLUMNS, to += t->step) {
        for (size_t c = 0; c < t->columns; c++) to[c] = from[c] + 0.0f;
    }
}

/* Add the slots of a leaf, and store the sum to one. */
LS_ALWAYS_INLINE void finish(const ls_dense_tile *t, const ls_dense_leaf *l,
                             ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const ls_dense_slot *end = l->add + l->add_count, to = l->to;
    for (const ls_dense_slot *s = l->add; s < end; s++) {
        if (s->piece >= 0) fetch_piece(t, s->piece, rows);
        add_tile(t->stack + s->floats, acc, rows, vectors);
    }
    if (to.piece >= 0 && t->columns == (size_t)vectors * LS_LANES) {
        store_piece(piece_at(t, to.piece), t->step, acc, rows, vectors);
        return;
    }
    store_tile(t->stack + to.floats, acc, rows, vectors);
    if (to.piece >= 0) store_part(t, to.piece, rows);
}

LS_ALWAYS_INLINE void fetch(const ls_dense_tile *t, int rows, int vectors)
{
    const float *row = t->dw;
    for (int r = 0; r < rows; r++, row += t->step) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) __builtin_prefetch(row + v * LS_LANES, 1);
    }
}

LS_ALWAYS_INLINE void run_leaves(const ls_dense_tile *t, int rows, int vectors)
{
    const ls_dense_leaf *end = t->leaf + t->leaf_count;
    if (t->fetches) fetch(t, rows, vectors);
    for (const ls_dense_leaf *l = t->leaf; l < end; l++) {
        ls_vec acc[LS_TILE_ROWS][LS_TILE_VECTORS];
        sum_chain(t, l, acc, rows, vectors);
        finish(t, l, acc, rows, vectors);
    }
}

typedef void tile_fn(const ls_dense_tile *t);

#define DEFINE_NARROW(rows)                                                                       \
    static void run_##rows##_narrow(const ls_dense_tile *t) { run_leaves(t, rows, 1); }
#define DEFINE_WIDE(rows)                                                                         \
    static void run_##rows##_wide(const ls_dense_tile *t) { run_leaves(t, rows, LS_TILE_VECTORS); }
LS_TILE_ROW_COUNTS(DEFINE_NARROW)
LS_TILE_ROW_COUNTS(DEFINE_WIDE)

#define NAME_NARROW(rows) run_##rows##_narrow,
#define NAME_WIDE(rows) run_##rows##_wide,
static tile_fn *const narrow[] = {LS_TILE_ROW_COUNTS(NAME_NARROW)};
static tile_fn *const wide[] = {LS_TILE_ROW_COUNTS(NAME_WIDE)};

void LS_HOST(dense_tile)(const ls_dense_tile *tile)
{
    const int i = tile->rows - 1;
    if (tile->columns <= LS_LANES) narrow[i](tile);
    else wide[i](tile);
}
