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
 * They stay in the first level cache. What lies between the terms of two chains is done row by row
 * of the tile: the last term of one, an addition, the store, the first term of the next. A CPU that
 * multiplies two words a cycle stores one in two, and few stores wait for their turn: a whole tile
 * of them at once holds up what follows. (Measured, AVX-512, two multiply-adds a cycle, 8 chains of
 * 8 terms, of which the additions leave 0.89 of the peak: 0.82 with all of a tile's stores at once,
 * 0.87 row by row.) The tile is as large as the registers allow: what a chain costs beside its
 * terms is the same few cycles for any size.
 *
 * The + 0.0f at the end of a chain makes a sum that is -0 into +0. Whether it was done to the terms
 * of an addition shows in the sum only if that is a zero, so it is enough to do it once, to what is
 * stored to dw: temporaries may hold a -0, and so may a chain, which begins with a product instead
 * of a product + 0.
 */
#include "kernels/host/dense_tile.h"
#include "kernels/host/tile_term.h"

/* dy and x at some place: the terms of a chain from there on. */
typedef struct {
    const float *a, *b;
} operands;

LS_ALWAYS_INLINE operands operands_at(const ls_dense_tile *t, size_t place)
{
    return (operands){t->a + place * t->a_step, t->b + place * t->b_step};
}

/* acc = acc + `count` terms; `at` goes on to what follows them. */
LS_ALWAYS_INLINE void add_terms(const ls_dense_tile *t, operands *at, size_t count,
                                ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const size_t a_step = t->a_step, b_step = t->b_step;
    const float *a = at->a, *b = at->b;
    for (size_t k = count; k > 0; k--) {
        ls_tile_term(&a, 1, LS_TILE_ROWS, b, acc, rows, vectors);
        a += a_step;
        b += b_step;
    }
    *at = (operands){a, b};
}

/* What lies between the terms of two chains, or a part of it: what is NULL is left out. */
typedef struct {
    const operands *last; /* term of a chain */
    const float *add;     /* a tile of the stack */
    float *to;            /* where the sum is stored, in rows that are `step` floats apart; */
    size_t step;
    bool is_piece;        /* with + 0.0f */
    const operands *next; /* the first term of the next chain, which takes the sum's place */
} turn;

LS_ALWAYS_INLINE void take_turn(turn t, ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    ls_vec last[LS_TILE_VECTORS], next[LS_TILE_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
        if (t.last != NULL) last[v] = ls_vec_load(t.last->b + v * LS_LANES);
        if (t.next != NULL) next[v] = ls_vec_load(t.next->b + v * LS_LANES);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        ls_vec last_all, next_all;
        if (t.last != NULL) last_all = ls_vec_set(t.last->a[r]);
        if (t.next != NULL) next_all = ls_vec_set(t.next->a[r]);
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            ls_vec *x = &acc[r][v];
            if (t.last != NULL) *x = ls_vec_fma(last_all, last[v], *x);
            if (t.add != NULL) {
                *x = ls_vec_add(ls_vec_load(t.add + r * LS_TILE_COLUMNS + v * LS_LANES), *x);
            }
            if (t.to != NULL) {
                ls_vec_store(t.to + (size_t)r * t.step + v * LS_LANES,
                             t.is_piece ? ls_vec_add(*x, ls_vec_zero()) : *x);
            }
            if (t.next != NULL) *x = ls_vec_mul(next_all, next[v]);
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

/* Add the slots of a leaf but for the last one: where that lies, or NULL if there is none. */
LS_ALWAYS_INLINE const float *add_slots(const ls_dense_tile *t, const ls_dense_leaf *l,
                                        ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const float *p = NULL;
    for (const ls_dense_slot *s = l->add, *end = s + l->add_count; s < end; s++) {
        if (p != NULL) take_turn((turn){.add = p}, acc, rows, vectors);
        if (s->piece >= 0) fetch_piece(t, s->piece, rows);
        p = t->stack + s->floats;
    }
    return p;
}

/* Add `add`, or nothing if it is NULL, and store the sum to a slot. */
LS_ALWAYS_INLINE void store_slot(const ls_dense_tile *t, ls_dense_slot to, const float *add,
                                 ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    if (add != NULL) take_turn((turn){.add = add}, acc, rows, vectors);
    if (to.piece >= 0 && t->columns == (size_t)vectors * LS_LANES) {
        const turn end = {.to = piece_at(t, to.piece), .step = t->step, .is_piece = true};
        take_turn(end, acc, rows, vectors);
        return;
    }
    const turn end = {.to = t->stack + to.floats, .step = LS_TILE_COLUMNS};
    take_turn(end, acc, rows, vectors);
    if (to.piece >= 0) store_part(t, to.piece, rows);
}

/* Ask for a leaf's share of the lines of dw that the tile is stored to, and of x that a later tile
 * reads, these in the second level cache: the first has none to spare. All of them at once would
 * keep the tile's own loads waiting. */
LS_ALWAYS_INLINE void fetch_share(const ls_dense_tile *t, int leaf, int rows, int vectors)
{
    enum { SECOND_LEVEL = 2 };
    const int first_row = leaf * t->fetch_rows, last_row = first_row + t->fetch_rows;
    const size_t first = (size_t)leaf * t->next_share, last = first + t->next_share;
    if ((first_row >= rows || t->fetch_rows == 0) && first >= t->next_places) return;
    for (int r = first_row; r < last_row && r < rows; r++) {
        const float *row = t->dw + (size_t)r * t->step;
#pragma GCC unroll 16
        for (int c = 0; c < vectors * LS_LANES; c += LS_LINE_FLOATS) __builtin_prefetch(row + c, 1);
    }
    for (size_t k = first; k < last && k < t->next_places; k++) {
        const float *x = t->next + k * t->next_step;
        for (size_t c = 0; c < t->next_columns; c += LS_LINE_FLOATS) {
            __builtin_prefetch(x + c, 0, SECOND_LEVEL);
        }
    }
}

/* The first term of a chain; of none, +0. */
LS_ALWAYS_INLINE void begin_leaf(const ls_dense_tile *t, const ls_dense_leaf *l,
                                 ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[r][v] = ls_vec_zero();
    }
    const operands first = operands_at(t, l->place);
    if (l->depth > 0) take_turn((turn){.next = &first}, acc, rows, vectors);
}

/* The other terms, what is added to them, and the store. */
LS_ALWAYS_INLINE void end_leaf(const ls_dense_tile *t, const ls_dense_leaf *l,
                               ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    operands at = operands_at(t, l->place + 1);
    if (l->depth > 1) add_terms(t, &at, l->depth - 1, acc, rows, vectors);
    const float *add = add_slots(t, l, acc, rows, vectors);
    store_slot(t, l->to, add, acc, rows, vectors);
}

/* The same and the first term of the next chain. Both have terms, this one two at least, and the
 * sum goes to the stack. */
LS_ALWAYS_INLINE void pass_leaf(const ls_dense_tile *t, const ls_dense_leaf *l,
                                ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    operands at = operands_at(t, l->place + 1);
    const operands next = operands_at(t, l[1].place);
    turn pass = {.to = t->stack + l->to.floats, .step = LS_TILE_COLUMNS, .next = &next};
    if (l->add_count == 0) {
        add_terms(t, &at, l->depth - 2, acc, rows, vectors);
        pass.last = &at;
        take_turn(pass, acc, rows, vectors);
    } else {
        add_terms(t, &at, l->depth - 1, acc, rows, vectors);
        pass.add = add_slots(t, l, acc, rows, vectors);
        take_turn(pass, acc, rows, vectors);
    }
}

LS_ALWAYS_INLINE void run_leaves(const ls_dense_tile *t, int rows, int vectors)
{
    const ls_dense_leaf *end = t->leaf + t->leaf_count;
    ls_vec acc[LS_TILE_ROWS][LS_TILE_VECTORS];
    bool has_begun = false;
    for (const ls_dense_leaf *l = t->leaf; l < end; l++) {
        fetch_share(t, (int)(l - t->leaf), rows, vectors);
        if (!has_begun) begin_leaf(t, l, acc, rows, vectors);
        has_begun = l->to.piece < 0 && l + 1 < end && l->depth > 1 && l[1].depth > 0;
        if (has_begun) pass_leaf(t, l, acc, rows, vectors);
        else end_leaf(t, l, acc, rows, vectors);
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
