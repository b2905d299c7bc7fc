/* SPDX-License-Identifier: MIT */
/* near_gemm.c -- a product so small that all of it lies in the caches of a core.
 *
 * Of 10 terms a chain, a tile of 13 rows and 2 words multiplies for 130 cycles. What product.c and
 * a tile that may begin, fetch and end in many ways (tile.c) cost beside that is 370 instructions
 * a tile, of 800, and what another program on the core's other half leaves is instructions. So here
 * is the least that makes a product. (Measured: 0.72 to 0.82 of the time for 64x64x10, 0.92 for
 * 64x64x64, 0.46 for 10x10x10.)
 *
 *     for each panel of LS_TILE_COLUMNS
 *         B's part is packed, or used where it lies, if its rows are whole words
 *         for the taller tiles, then the others: one function, which loops over them
 *             every k in order, A where it lies; bias, + 0.0f, relu; C
 *
 * Rows are dealt to the tiles as evenly as may be: of two heights, then, which differ by one. The
 * product is one task. The bits are tile.c's: one chain for an element.
 */
#include "kernels/host/lanes.h"
#include "kernels/host/near_gemm.h"
#include "kernels/host/pack.h"
#include "kernels/host/tile_term.h"
#include "sizes.h"

_Static_assert(LS_NEAR_DEPTH * LS_TILE_COLUMNS * sizeof(float) + LS_LINE_BYTES <= LS_SCRATCH_BYTES,
               "a panel fits into scratch memory");

/* Tiles one below another, of so many rows each, against one panel. */
typedef struct {
    const float *a;
    size_t a_row_step;
    const float *b; /* whole vector words are read */
    size_t b_step, depth;
    const float *bias; /* [columns] or NULL */
    bool relu;
    float *to;
    size_t to_step, columns;
} column;

/* Rows that share a pointer, as in tile.c. */
enum { ROWS_OF_POINTER = 2, POINTERS_MAX = LS_NARROW_ROWS / ROWS_OF_POINTER };

LS_ALWAYS_INLINE void add_terms(const column *c, const float *from, ls_vec acc[][LS_TILE_VECTORS],
                                int rows, int vectors)
{
    const size_t row_step = c->a_row_step, b_step = c->b_step;
    const float *a[POINTERS_MAX], *b = c->b;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i += ROWS_OF_POINTER) {
        a[i / ROWS_OF_POINTER] = from + (size_t)i * row_step;
    }
#pragma GCC unroll 2
    for (size_t k = c->depth; k > 0; k--) {
        ls_tile_term(a, row_step, ROWS_OF_POINTER, b, acc, rows, vectors);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i += ROWS_OF_POINTER) a[i / ROWS_OF_POINTER]++;
        b += b_step;
    }
}

/* What follows the last term: one addition for bias and + 0.0f (tile.c), relu, the store. */
LS_ALWAYS_INLINE void end_tile(const column *c, float *to, ls_vec acc[][LS_TILE_VECTORS], int rows,
                               int vectors, bool relu)
{
    const size_t step = c->to_step, rest = c->columns - (size_t)(vectors - 1) * LS_LANES;
    ls_vec word[LS_TILE_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) {
        word[v] = ls_vec_zero();
        if (c->bias == NULL) continue;
        const float *bias = c->bias + v * LS_LANES;
        word[v] = ls_vec_add(ls_vec_load_lanes(bias, v + 1 < vectors ? LS_LANES : rest), word[v]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, to += step) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            const ls_vec x = ls_vec_add(acc[i][v], word[v]);
            ls_vec_store_lanes(to + v * LS_LANES, relu ? ls_vec_relu(x) : x,
                               v + 1 < vectors ? LS_LANES : rest);
        }
    }
}

LS_ALWAYS_INLINE void run_tiles(const column *c, size_t count, int rows, int vectors)
{
    const float *from = c->a;
    float *to = c->to;
    for (; count > 0; count--) {
        ls_vec acc[LS_NARROW_ROWS][LS_TILE_VECTORS];
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_zero();
        }
        add_terms(c, from, acc, rows, vectors);
        if (c->relu) end_tile(c, to, acc, rows, vectors, true);
        else end_tile(c, to, acc, rows, vectors, false);
        from += (size_t)rows * c->a_row_step;
        to += (size_t)rows * c->to_step;
    }
}

typedef void tiles_fn(const column *c, size_t count);

#define DEFINE_NARROW(rows)                                                                       \
    static void tiles_##rows##_narrow(const column *c, size_t count)                              \
    {                                                                                             \
        run_tiles(c, count, rows, 1);                                                             \
    }
#define DEFINE_WIDE(rows)                                                                         \
    static void tiles_##rows##_wide(const column *c, size_t count)                                \
    {                                                                                             \
        run_tiles(c, count, rows, LS_TILE_VECTORS);                                               \
    }
LS_NARROW_ROW_COUNTS(DEFINE_NARROW)
LS_TILE_ROW_COUNTS(DEFINE_WIDE)

#define NAME_NARROW(rows) tiles_##rows##_narrow,
#define NAME_WIDE(rows) tiles_##rows##_wide,
static tiles_fn *const narrow[] = {LS_NARROW_ROW_COUNTS(NAME_NARROW)};
static tiles_fn *const wide[] = {LS_TILE_ROW_COUNTS(NAME_WIDE)};

/* `count` tiles of `rows` rows; what follows them in A and C is then next. */
static void run_column(column *c, size_t count, size_t rows)
{
    if (count == 0) return;
    if (c->columns <= LS_LANES) narrow[rows - 1](c, count);
    else wide[rows - 1](c, count);
    c->a += count * rows * c->a_row_step;
    c->to += count * rows * c->to_step;
}

bool LS_HOST(near_gemm)(ls_pool *pool, const ls_gemm_args *g)
{
    if (g->transpose_a || g->accumulate || g->M == 0 || g->K == 0) return false;
    if (!ls_is_near(pool, g->M, g->N, g->K)) return false;
    const bool in_place = !g->transpose_b && g->N % LS_LANES == 0;
    const size_t rows_max = g->N <= LS_LANES ? LS_NARROW_ROWS : LS_TILE_ROWS;
    const size_t tiles = ls_ceil_div(g->M, rows_max), rows = g->M / tiles, left = g->M % tiles;
    float *panel = ls_pool_scratch(pool, 0);
    for (size_t n = 0; n < g->N; n += LS_TILE_COLUMNS) {
        const size_t columns = ls_min_size(LS_TILE_COLUMNS, g->N - n);
        if (g->transpose_b) ls_pack_columns(panel, g->B + n * g->K, g->K, g->K, columns);
        else if (!in_place) ls_pack_rows(panel, g->B + n, g->N, g->K, columns);
        column c = {
            .a = g->A,
            .a_row_step = g->K,
            .b = in_place ? g->B + n : panel,
            .b_step = in_place ? g->N : LS_TILE_COLUMNS,
            .depth = g->K,
            .bias = g->bias != NULL ? g->bias + n : NULL,
            .relu = g->relu,
            .to = g->C + n,
            .to_step = g->N,
            .columns = columns,
        };
        run_column(&c, left, rows + 1);
        run_column(&c, tiles - left, rows);
    }
    return true;
}
