/* SPDX-License-Identifier: MIT */
/* tile.c -- the micro-kernel, written once for all instruction sets and tile sizes.
 *
 *              b[k]   |  word 0  |  word 1  |
 *      a[0,k] ------> | acc[0,0] | acc[0,1] |      for every k: load the words of b[k]; for every
 *      a[1,k] ------> | acc[1,0] | acc[1,1] |      row broadcast a[i,k] and do one fma per word.
 *        ...          |   ...    |   ...    |      acc stays in registers.
 *
 * Each lane of each accumulator is one chain: k ascending, one fused multiply-add per term. Words
 * that lie past the last column are computed and never stored.
 *
 * The function below is expanded for every number of rows and words, so that a narrow or low tile
 * does no work for rows it does not have; the compiler unrolls the loops over constants. Rows of A
 * that lie along k would need a register each for their addresses; two share a pointer instead,
 * three in a narrow tile, p, p + step, p + 2 step being address modes of x86. Rows that lie across
 * it are neighbours, all of them near one pointer.
 *
 * What a multiply-add costs beside itself is instructions, where another program runs on the
 * core's other half: of a tile of 14 x 2 words 53 for 28 multiply-adds reach 0.57 of the peak, 46
 * 0.63. (Where the core is its own, both reach 0.98.)
 */
#include "kernels/host/tile.h"

#include <assert.h>

#include "kernels/host/tile_term.h"

enum {
    ROWS_OF_POINTER = 2,
    ROWS_OF_POINTER_NARROW = 3,
    POINTERS_MAX = LS_NARROW_ROWS / ROWS_OF_POINTER,
};

/* Steps of k by which A is fetched ahead, where its terms are not neighbours. A weight gradient
 * walks down columns of dy, of which a tile reads one line per row; the processor's own
 * prefetcher does not follow fast enough. (Measured: 1.3 times the speed where dy exceeds the
 * caches, no loss elsewhere.) */
enum { AHEAD = 16 };

/* A tile's description, as read by what follows. It is volatile so that a number is read again
 * where it is needed: if not, the compiler keeps numbers between the runs, beyond 16 of them in
 * vector registers, and from there they come back through the ports of the multiply-adds, after all
 * that wait for these. (Measured on a CPU with two of them: 20 cycles a run.) */
typedef const volatile ls_tile described;

/* Word `v` of `vectors` of a row of `columns` floats that starts at p. */
LS_ALWAYS_INLINE ls_vec word_load(const float *p, int v, int vectors, size_t columns)
{
    const size_t rest = columns - (size_t)v * LS_LANES;
    if (v + 1 == vectors && rest < LS_LANES) return ls_vec_load_part(p + v * LS_LANES, rest);
    return ls_vec_load(p + v * LS_LANES);
}

LS_ALWAYS_INLINE void word_store(float *p, ls_vec x, int v, int vectors, size_t columns)
{
    const size_t rest = columns - (size_t)v * LS_LANES;
    if (v + 1 == vectors && rest < LS_LANES) ls_vec_store_part(p + v * LS_LANES, x, rest);
    else ls_vec_store(p + v * LS_LANES, x);
}

/* What a tile asks the cache for: nothing; what a later tile reads, at every k or, where loads are
 * what bounds it, a run's share line by line before the run; or its own A some steps ahead, at
 * every k. */
typedef enum { FETCH_NOTHING, FETCH_NEXT, FETCH_LINES, FETCH_AHEAD } fetching;

/* A share of more is cut short: so many loads that wait would hold up those of the run. */
enum { SHARE_BYTES = 32 * LS_LINE_BYTES };

/* The terms of one run, for `rows` rows of `acc`, where A's rows lie along k. `next` is where the
 * fetching for a later tile has come to. */
LS_ALWAYS_INLINE void tile_run_along(described *t, const ls_tile_run *run,
                                     ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors,
                                     fetching fetch, uintptr_t *next)
{
    const int each = vectors > 1 ? ROWS_OF_POINTER : ROWS_OF_POINTER_NARROW;
    const size_t row_step = t->a_row_step, b_step = t->b_step;
    const size_t next_step = fetch == FETCH_NEXT ? t->next_step : 0;
    const float *from = t->a + (t->a_from + run->a);
    const float *a[POINTERS_MAX];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i += each) a[i / each] = from + (size_t)i * row_step;
    const float *b = t->b + run->b;
    for (size_t k = run->depth; k > 0; k--) {
        /* An address, not a pointer: it may lie past the matrix, and then nothing happens. */
        if (fetch == FETCH_NEXT) {
            __builtin_prefetch((const void *)*next);
            *next += next_step;
        }
        ls_tile_term(a, row_step, each, b, acc, rows, vectors);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i += each) a[i / each]++;
        b += b_step;
    }
}

/* The same where they lie across it, side by side: one pointer is enough. */
LS_ALWAYS_INLINE void tile_run_across(described *t, const ls_tile_run *run,
                                      ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    const size_t a_step = t->a_step, b_step = t->b_step;
    const float *a = t->a + (t->a_from + run->a), *b = t->b + run->b;
    for (size_t k = run->depth; k > 0; k--) {
        const uintptr_t last = (uintptr_t)(a + (rows - 1));
        __builtin_prefetch((const void *)(last + AHEAD * sizeof(float) * a_step));
        ls_tile_term(&a, 1, LS_NARROW_ROWS, b, acc, rows, vectors);
        a += a_step;
        b += b_step;
    }
}

LS_ALWAYS_INLINE void tile_run(described *t, const ls_tile_run *run, ls_vec acc[][LS_TILE_VECTORS],
                               int rows, int vectors, fetching fetch, uintptr_t *next)
{
    if (rows == 0) return; /* never: a constant that spares the compiler a loop of no rows */
    if (fetch == FETCH_AHEAD) tile_run_across(t, run, acc, rows, vectors);
    else tile_run_along(t, run, acc, rows, vectors, fetch, next);
}

LS_ALWAYS_INLINE void tile_runs(described *t, ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors,
                                fetching fetch)
{
    const ls_tile_run *run = t->run, *end = run + t->runs;
    uintptr_t next = t->next;
    for (; run < end; run++) {
        if (fetch == FETCH_LINES) {
            const size_t share = t->next_step * run->depth;
            const uintptr_t stop = next + (share < SHARE_BYTES ? share : SHARE_BYTES);
            for (; next < stop; next += LS_LINE_BYTES) __builtin_prefetch((const void *)next);
        }
        if (run->rows == LS_RUN_ALL) {
            tile_run(t, run, acc, rows, vectors, fetch, &next);
        } else if (run->rows == LS_RUN_NOT_FIRST) {
            tile_run(t, run, acc + 1, rows - 1, vectors, fetch, &next);
        } else {
            tile_run(t, run, acc, rows - 1, vectors, fetch, &next);
        }
    }
}

LS_ALWAYS_INLINE void tile_multiply(described *t, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                    int vectors)
{
    const fetching next = vectors > 1 ? FETCH_NEXT : FETCH_LINES;
    if (t->a_step != 1) tile_runs(t, acc, rows, vectors, FETCH_AHEAD);
    else if (t->next != 0) tile_runs(t, acc, rows, vectors, next);
    else tile_runs(t, acc, rows, vectors, FETCH_NOTHING);
}

/* acc = m + acc, of a matrix m. */
LS_ALWAYS_INLINE void tile_add(ls_tile_source m, ls_vec acc[][LS_TILE_VECTORS], int rows,
                               int vectors, size_t columns)
{
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const float *row = m.p + (size_t)i * m.step;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            acc[i][v] = ls_vec_add(word_load(row, v, vectors, columns), acc[i][v]);
        }
    }
}

/* What follows the last term of a chain. (x + bias) + 0.0f is x + (bias + 0.0f): the sum is -0 only
 * of two -0, and the second of these has none. So it is one addition for an element. */
LS_ALWAYS_INLINE void tile_finish(described *t, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                  int vectors)
{
    const float *bias = t->bias;
    const size_t columns = t->columns;
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
        ls_vec word = ls_vec_zero();
        if (bias != NULL) word = ls_vec_add(word_load(bias, v, vectors, columns), word);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) acc[i][v] = ls_vec_add(acc[i][v], word);
    }
    for (int m = 0; m < t->add_count; m++) tile_add(t->add[m], acc, rows, vectors, columns);
    if (!t->relu) return;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_relu(acc[i][v]);
    }
}

/* Where the tile is stored at the end is asked for at the beginning: the lines are in the cache by
 * then. (A convolution's result is larger than the caches; stores that wait for its lines fill the
 * queue of stores.) */
LS_ALWAYS_INLINE void tile_fetch(described *t, int rows, int vectors)
{
    const float *row = t->to;
    const size_t step = t->to_step;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, row += step) {
#pragma GCC unroll 16
        for (int c = 0; c < vectors * LS_LANES; c += LS_LINE_FLOATS) __builtin_prefetch(row + c, 1);
    }
}

LS_ALWAYS_INLINE void tile_begin(described *t, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                 int vectors)
{
    const ls_tile_source from = {t->from.p, t->from.step};
    const size_t columns = t->columns;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_zero();
    }
    if (from.p == NULL) return;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const float *row = from.p + (size_t)i * from.step;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[i][v] = word_load(row, v, vectors, columns);
    }
}

LS_ALWAYS_INLINE void tile_compute(described *t, int rows, int vectors)
{
    ls_vec acc[LS_NARROW_ROWS][LS_TILE_VECTORS];
    tile_fetch(t, rows, vectors);
    tile_begin(t, acc, rows, vectors);
    tile_multiply(t, acc, rows, vectors);
    if (t->finish) tile_finish(t, acc, rows, vectors);
    float *to = t->to;
    const size_t step = t->to_step, columns = t->columns;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        float *row = to + (size_t)i * step;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) word_store(row, acc[i][v], v, vectors, columns);
    }
}

typedef void tile_fn(const ls_tile *t);

/* Each begins a line of the cache: its loops then lie the same way in lines whatever is linked
 * before them. (Measured: the place of one alone made a product 1.05 times as slow.) */
#define AT_A_LINE static __attribute__((aligned(64)))

#define DEFINE_NARROW(rows)                                                                       \
    AT_A_LINE void tile_##rows##_narrow(const ls_tile *t) { tile_compute(t, rows, 1); }
#define DEFINE_WIDE(rows)                                                                         \
    AT_A_LINE void tile_##rows##_wide(const ls_tile *t) { tile_compute(t, rows, LS_TILE_VECTORS); }
LS_NARROW_ROW_COUNTS(DEFINE_NARROW)
LS_TILE_ROW_COUNTS(DEFINE_WIDE)

#define NAME_NARROW(rows) tile_##rows##_narrow,
#define NAME_WIDE(rows) tile_##rows##_wide,
static tile_fn *const narrow[] = {LS_NARROW_ROW_COUNTS(NAME_NARROW)};
static tile_fn *const wide[] = {LS_TILE_ROW_COUNTS(NAME_WIDE)};

void LS_HOST(tile)(const ls_tile *tile)
{
    assert(tile->a_step == 1 || tile->a_row_step == 1);
    const int i = tile->rows - 1;
    if (tile->columns <= LS_LANES) narrow[i](tile);
    else wide[i](tile);
}
