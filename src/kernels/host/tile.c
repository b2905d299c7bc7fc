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
 * does no work for rows it does not have; the compiler unrolls the loops over constants. A row's
 * address would need a register of its own for each of up to 16 rows; three rows share one pointer
 * instead, p, p + step, p + 2 step being address modes of x86.
 */
#include "kernels/host/tile.h"

enum { ROWS_PER_POINTER = 3 };

/* Steps of k by which A is fetched ahead, where a tile does not fetch for a later one. A weight
 * gradient walks down columns of dy, of which a tile reads one line per row; the processor's own
 * prefetcher does not follow fast enough. (Measured: 1.3 times the speed where dy exceeds the
 * caches, no loss elsewhere.) */
enum { AHEAD = 16 };

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

/* The terms of one run, for the rows [first, last) of `acc`. `next` is where the tile's fetching
 * has come to. A narrow tile's has no such place: its runs are short, and each would pay for it. */
LS_ALWAYS_INLINE void tile_run(const ls_tile *t, const ls_tile_run *run,
                               ls_vec acc[][LS_TILE_VECTORS], int first, int last, int vectors,
                               uintptr_t *next)
{
    if (first >= last) return; /* never: a constant that spares the compiler a loop of no rows */
    const size_t row_step = t->a_row_step, a_step = t->a_step, b_step = t->b_step;
    const size_t ahead = AHEAD * sizeof(float) * a_step;
    const bool fetches = vectors > 1 && *next != 0;
    const size_t fetch_step = fetches ? t->next_step : sizeof(float) * a_step;
    const float *a[(LS_NARROW_ROWS + ROWS_PER_POINTER - 1) / ROWS_PER_POINTER];
#pragma GCC unroll 16
    for (int i = 0; i < last - first; i += ROWS_PER_POINTER) {
        a[i / ROWS_PER_POINTER] = t->a + (t->a_from + run->a) + (size_t)i * row_step;
    }
    const float *b = t->b + run->b;
    /* Addresses, not pointers: they may lie past the matrix, and then nothing happens. */
    uintptr_t fetch = (uintptr_t)a[(last - first - 1) / ROWS_PER_POINTER] + ahead;
    if (fetches) fetch = *next;
    for (size_t k = run->depth; k > 0; k--) {
        ls_vec word[LS_TILE_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) word[v] = ls_vec_load(b + v * LS_LANES);
        if (vectors > 1) {
            __builtin_prefetch((const void *)fetch);
            fetch += fetch_step;
        } else {
            const float *low = a[(last - first - 1) / ROWS_PER_POINTER];
            __builtin_prefetch((const void *)((uintptr_t)low + ahead));
        }
#pragma GCC unroll 16
        for (int i = 0; i < last - first; i++) {
            const ls_vec x = ls_vec_set(
                a[i / ROWS_PER_POINTER][(size_t)(i % ROWS_PER_POINTER) * row_step]);
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) {
                acc[first + i][v] = ls_vec_fma(x, word[v], acc[first + i][v]);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < last - first; i += ROWS_PER_POINTER) a[i / ROWS_PER_POINTER] += a_step;
        b += b_step;
    }
    if (fetches) *next = fetch;
}

LS_ALWAYS_INLINE void tile_multiply(const ls_tile *t, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                    int vectors)
{
    const ls_tile_run *end = t->run + t->runs;
    uintptr_t next = t->next;
    for (const ls_tile_run *run = t->run; run < end; run++) {
        if (run->rows == LS_RUN_ALL) tile_run(t, run, acc, 0, rows, vectors, &next);
        else if (run->rows == LS_RUN_NOT_FIRST) tile_run(t, run, acc, 1, rows, vectors, &next);
        else tile_run(t, run, acc, 0, rows - 1, vectors, &next);
    }
}

/* What follows the last term of a chain. */
LS_ALWAYS_INLINE void tile_finish(const ls_tile *t, ls_vec acc[][LS_TILE_VECTORS], int rows,
                                  int vectors)
{
    if (t->bias != NULL) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            const ls_vec bias = word_load(t->bias, v, vectors, t->columns);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) acc[i][v] = ls_vec_add(acc[i][v], bias);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_add(acc[i][v], ls_vec_zero());
    }
    for (int m = 0; m < t->add_count; m++) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const float *row = t->add[m].p + (size_t)i * t->add[m].step;
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) {
                acc[i][v] = ls_vec_add(word_load(row, v, vectors, t->columns), acc[i][v]);
            }
        }
    }
    if (t->relu) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_relu(acc[i][v]);
        }
    }
}

/* Where the tile is stored at the end is asked for at the beginning: the lines are in the cache by
 * then. (A convolution's result is larger than the caches; stores that wait for its lines fill the
 * queue of stores.) */
LS_ALWAYS_INLINE void tile_fetch(const ls_tile *t, int rows, int vectors)
{
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const float *row = t->to + (size_t)i * t->to_step;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) __builtin_prefetch(row + v * LS_LANES, 1);
    }
}

LS_ALWAYS_INLINE void tile_compute(const ls_tile *t, int rows, int vectors)
{
    ls_vec acc[LS_NARROW_ROWS][LS_TILE_VECTORS];
    tile_fetch(t, rows, vectors);
    if (t->from.p == NULL) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_zero();
        }
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const float *row = t->from.p + (size_t)i * t->from.step;
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = word_load(row, v, vectors, t->columns);
        }
    }
    tile_multiply(t, acc, rows, vectors);
    if (t->finish) tile_finish(t, acc, rows, vectors);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        float *row = t->to + (size_t)i * t->to_step;
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) word_store(row, acc[i][v], v, vectors, t->columns);
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
    const int i = tile->rows - 1;
    if (tile->columns <= LS_LANES) narrow[i](tile);
    else wide[i](tile);
}
