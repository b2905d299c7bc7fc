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
 * of the tile: an addition or the last term of one, the store, the first term of the next. A CPU
 * that multiplies two words a cycle stores one in two, and few stores wait for their turn: a whole
 * tile of them at once holds up what follows. (Measured, AVX-512, two multiply-adds a cycle, 8
 * chains of 8 terms, of which the additions leave 0.89 of the peak: 0.82 with all of a tile's
 * stores at once, 0.85 row by row.) The tile is as large as the registers allow: what a chain costs
 * beside its terms is the same few cycles for any size.
 *
 * Beside a busy neighbour it is instructions that count. So how a chain ends is found out once for
 * all tiles (dense_leaves), and dy and x are read on and on from one pointer each. (Measured, 8
 * chains of 8 terms in such company: 0.67 of the peak; with each chain's place and end found out by
 * the tile, 0.60.)
 *
 * Rows are compiled for in pairs, and for one: half the code.
 *
 * The + 0.0f at the end of a chain makes a sum that is -0 into +0. Whether it was done to the terms
 * of an addition shows in the sum only if that is a zero, so it is enough to do it once, to what is
 * stored to dw: temporaries may hold a -0, and so may a chain, which begins with a product instead
 * of a product + 0.
 */
#include "kernels/host/dense_tile.h"
#include "kernels/host/tile_term.h"

/* -- tiles ------------------------------------------------------------------------------------ */

/* From here on p is a pointer that the compiler knows nothing of: an address near it is reckoned by
 * the instruction that uses it. If not, the compiler finds that 28 addresses occur on two ways, and
 * keeps them, in more registers than there are. */
#define KEEP_POINTER(p) __asm__("" : "+r"(p))

/* Where a tile has come to in dy and x, and bytes from a place to the next one. */
typedef struct {
    const float *a, *b;
    size_t a_bytes, b_bytes;
} operands;

LS_ALWAYS_INLINE const float *floats_after(const float *p, size_t bytes)
{
    return (const float *)((const char *)p + bytes);
}

/* acc = acc + `count` terms. */
LS_ALWAYS_INLINE void add_terms(operands *at, size_t count, ls_vec acc[][LS_TILE_VECTORS],
                                int rows, int vectors)
{
    const float *a = at->a, *b = at->b;
    for (size_t k = count; k > 0; k--) {
        ls_tile_term(&a, 1, LS_TILE_ROWS, b, acc, rows, vectors);
        a = floats_after(a, at->a_bytes);
        b = floats_after(b, at->b_bytes);
        KEEP_POINTER(a); /* where it ends is known then, not worked out from `count` */
        KEEP_POINTER(b);
    }
    at->a = a;
    at->b = b;
}

static float *piece_at(const ls_dense_tiles *t, int piece)
{
    return t->dw + (size_t)piece * t->piece_stride;
}

/* The tiles of pieces that a leaf adds to the stack. Seldom used, where ranks or passes share the
 * shards; in the middle of a tile it would cost registers if it were part of it. */
static __attribute__((noinline)) void fetch_pieces(const ls_dense_tiles *t, const ls_dense_leaf *l,
                                                   int rows)
{
    const int count = l->add_count + (l->end == LS_DENSE_PASSES_SUM);
    for (const ls_dense_slot *s = l->add, *end = s + count; s < end; s++) {
        if (s->piece < 0) continue;
        float *to = t->stack + s->floats;
        const float *from = piece_at(t, s->piece);
        for (int r = 0; r < rows; r++, to += LS_TILE_COLUMNS, from += t->step) {
            for (size_t c = 0; c < t->columns; c++) to[c] = from[c];
        }
    }
}

/* The stack's first tile of a piece, which has columns that dw does not have, to that piece. */
static __attribute__((noinline)) void store_part(const ls_dense_tiles *t, int piece, int rows)
{
    const float *from = t->stack + LS_DENSE_PIECE_FLOATS;
    float *to = piece_at(t, piece);
    for (int r = 0; r < rows; r++, from += LS_TILE_COLUMNS, to += t->step) {
        for (size_t c = 0; c < t->columns; c++) to[c] = from[c];
    }
}

/* acc = slot + acc, for the slots of a leaf. */
LS_ALWAYS_INLINE void add_slots(const ls_dense_tiles *t, const ls_dense_leaf *l,
                                ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    for (const ls_dense_slot *s = l->add, *end = s + l->add_count; s < end; s++) {
        const float *from = t->stack + s->floats;
        KEEP_POINTER(from);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) {
                const ls_vec x = ls_vec_load(from + r * LS_TILE_COLUMNS + v * LS_LANES);
                acc[r][v] = ls_vec_add(x, acc[r][v]);
            }
        }
    }
}

/* The last term of a chain, or the last tile that is added to it; the sum to the stack; and the
 * first term of the next chain, which takes its place. */
LS_ALWAYS_INLINE void pass_on(const ls_dense_tiles *t, const ls_dense_leaf *l, bool adds,
                              operands *at, ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const float *a = at->a, *b = at->b, *add = adds ? t->stack + l->add[l->add_count].floats : NULL;
    float *to = t->stack + l->to.floats;
    KEEP_POINTER(a);
    KEEP_POINTER(add);
    KEEP_POINTER(to);
    const float *next_a = adds ? a : floats_after(a, at->a_bytes);
    const float *next_b = adds ? b : floats_after(b, at->b_bytes);
    ls_vec last[LS_TILE_VECTORS], next[LS_TILE_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
        if (!adds) last[v] = ls_vec_load(b + v * LS_LANES);
        next[v] = ls_vec_load(next_b + v * LS_LANES);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            const int i = r * LS_TILE_COLUMNS + v * LS_LANES;
            ls_vec *x = &acc[r][v];
            *x = adds ? ls_vec_add(ls_vec_load(add + i), *x) : ls_vec_fma_from(a + r, last[v], *x);
            ls_vec_store(to + i, *x);
            *x = ls_vec_mul_from(next_a + r, next[v]);
        }
    }
    at->a = floats_after(next_a, at->a_bytes);
    at->b = floats_after(next_b, at->b_bytes);
}

/* Store the sums, + 0.0f, to a slot. */
LS_ALWAYS_INLINE void store_slot(const ls_dense_tiles *t, ls_dense_slot slot,
                                 ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const bool is_in_place = slot.piece >= 0 && t->columns == (size_t)vectors * LS_LANES;
    float *to = is_in_place ? piece_at(t, slot.piece) : t->stack + slot.floats;
    const size_t step = is_in_place ? t->step : LS_TILE_COLUMNS;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            const ls_vec x = ls_vec_add(acc[r][v], ls_vec_zero());
            ls_vec_store(to + v * LS_LANES, x);
        }
        to += step;
        KEEP_POINTER(to);
    }
    if (slot.piece >= 0 && !is_in_place) store_part(t, slot.piece, rows);
}

/* Ask for a leaf's share of the lines of dw that the tile is stored to, and of x that later tiles
 * read, these in the second level cache: the first has none to spare. All of them at once would
 * keep the tile's own loads waiting. `left`: tiles that follow this one. */
LS_ALWAYS_INLINE void fetch_share(const ls_dense_tiles *t, size_t left, int leaf, int rows,
                                  int vectors)
{
    enum { SECOND_LEVEL = 2 };
    const int first_row = leaf * t->fetch_rows, last_row = first_row + t->fetch_rows;
    const size_t chain = (t->count - 1 - left) * (size_t)t->leaf_count + (size_t)leaf;
    const size_t first = chain * t->next_share, last = first + t->next_share;
    for (int r = first_row; r < last_row && r < rows; r++) {
        const float *row = t->dw + (size_t)r * t->step;
        for (int c = 0; c < vectors * LS_LANES; c += LS_LINE_FLOATS) __builtin_prefetch(row + c, 1);
    }
    for (size_t k = first; k < last && k < t->next_places; k++) {
        const float *x = t->next + k * t->next_step;
        for (size_t c = 0; c < t->next_columns; c += LS_LINE_FLOATS) {
            __builtin_prefetch(x + c, 0, SECOND_LEVEL);
        }
    }
}

LS_ALWAYS_INLINE void clear(ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[r][v] = ls_vec_zero();
    }
}

LS_ALWAYS_INLINE void run_leaves(const ls_dense_tiles *t, size_t left, int rows, int vectors)
{
    ls_vec acc[LS_TILE_ROWS][LS_TILE_VECTORS];
    operands at = {t->a, t->b, t->a_step * sizeof(float), t->b_step * sizeof(float)};
    clear(acc, rows, vectors);
    for (const ls_dense_leaf *l = t->leaf;; l++) {
        if (t->fetches) fetch_share(t, left, (int)(l - t->leaf), rows, vectors);
        if (l->adds_pieces) fetch_pieces(t, l, rows);
        add_terms(&at, l->terms, acc, rows, vectors);
        add_slots(t, l, acc, rows, vectors);
        if (l->end == LS_DENSE_PASSES_TERM) {
            pass_on(t, l, false, &at, acc, rows, vectors);
        } else if (l->end == LS_DENSE_PASSES_SUM) {
            pass_on(t, l, true, &at, acc, rows, vectors);
        } else {
            store_slot(t, l->to, acc, rows, vectors);
            if (l->end == LS_DENSE_IS_LAST) return;
            clear(acc, rows, vectors);
        }
    }
}

LS_ALWAYS_INLINE void run_tiles(ls_dense_tiles *t, int rows, int vectors)
{
    for (size_t left = t->count; left-- > 0;) {
        run_leaves(t, left, rows, vectors);
        t->b += t->b_next;
        t->dw += LS_TILE_COLUMNS;
    }
}

typedef void tiles_fn(ls_dense_tiles *t);

#define DEFINE_PAIRS(n)                                                                           \
    static void run_##n##_narrow(ls_dense_tiles *t) { run_tiles(t, 2 * n, 1); }                   \
    static void run_##n##_wide(ls_dense_tiles *t) { run_tiles(t, 2 * n, LS_TILE_VECTORS); }
LS_TILE_PAIR_COUNTS(DEFINE_PAIRS)
static void run_one_narrow(ls_dense_tiles *t) { run_tiles(t, 1, 1); }
static void run_one_wide(ls_dense_tiles *t) { run_tiles(t, 1, LS_TILE_VECTORS); }

#define NAME_NARROW(n) run_##n##_narrow,
#define NAME_WIDE(n) run_##n##_wide,
static tiles_fn *const narrow[] = {run_one_narrow, LS_TILE_PAIR_COUNTS(NAME_NARROW)};
static tiles_fn *const wide[] = {run_one_wide, LS_TILE_PAIR_COUNTS(NAME_WIDE)};

void LS_HOST(dense_tiles)(ls_dense_tiles *t)
{
    tiles_fn *const *run = t->columns <= LS_LANES ? narrow : wide;
    const int even = t->rows / 2 * 2;
    if (even < t->rows) {
        ls_dense_tiles one = *t;
        one.a += even;
        one.dw += (size_t)even * t->step;
        run[0](&one);
    }
    if (even > 0) run[even / 2](t);
}

/* -- the list of leaves ----------------------------------------------------------------------- */

/* The temporary t of the fold; and a piece, the n-th slot that a leaf adds. */
static ls_dense_slot temporary_slot(int t)
{
    return (ls_dense_slot){t * LS_DENSE_TILE_FLOATS, -1};
}

static ls_dense_slot piece_slot(int piece, int n)
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
            l->add[count] = piece_slot(slot, count);
            count++;
        } else if ((*zeros >> t & 1) == 0) {
            l->add[count++] = temporary_slot(t);
        }
    }
    const int to = fold->store[i], t = to - pieces;
    l->terms = (fold->sample[i + 1] - fold->sample[i]) * width;
    l->to = t < 0 ? piece_slot(to, 0) : temporary_slot(t);
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
int LS_HOST(dense_leaves)(const ls_fold *fold, size_t width, ls_dense_leaf *leaf)
{
    ls_dense_leaf *l = leaf;
    unsigned zeros = 0;
    for (int i = 0; i < fold->leaf_count; i++) {
        if (!list_leaf(fold, i, width, &zeros, l)) continue;
        if (l > leaf && end_leaf(l - 1, l->terms > 0)) l->terms--;
        l++;
    }
    if (l > leaf) l[-1].end = LS_DENSE_IS_LAST;
    return (int)(l - leaf);
}
