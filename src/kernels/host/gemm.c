/* SPDX-License-Identifier: MIT */
/* gemm.c -- the matrix product: how op(A) and op(B) are given to the loops of part.c.
 *
 * The micro-kernel reads A's rows along k or across it, so A is used where it lies, transposed or
 * not, except where it is transposed and its rows as stored are a multiple of 2048 bytes apart: a
 * tile reads a few floats of each in turn, and they would evict each other from the first level
 * cache. Then a tile's part of A is copied, unless C has one panel, for which it is read once. Rows
 * that are not transposed are read along; where they are a multiple of 4096 bytes apart, tiles are
 * lower instead (ls_rows_in_place), or the tile's part is copied (must_turn).
 *
 * B is packed: rows are copied, columns transposed in registers. That takes as long as some tiles
 * of rows take to multiply by it; so where it is not transposed, has rows of whole vector words and
 * few tiles read it, B too is used where it lies. Where A is the smaller one and both are stored
 * along k, as in a dense layer with few samples, they change places: A is packed, B used where it
 * lies, and C comes out transposed.
 *
 * A small product is made otherwise (near_gemm.c).
 */
#include "kernels/host/near_gemm.h"
#include "kernels/host/pack.h"
#include "kernels/host/product.h"
#include "sizes.h"

/* Rows this many bytes apart, or a multiple of it, share too few sets of the first level cache. */
enum { ALIAS_BYTES = 2048 };

/* Is a copy of transposed A's part for a tile worth its cost? */
static bool must_copy(const ls_gemm_args *g)
{
    return g->transpose_a && g->M * sizeof(float) % ALIAS_BYTES == 0 && g->N > LS_TILE_COLUMNS;
}

/* Tiles of rows, at most, that read B where it lies: a word costs more there, and a tile of more
 * rows does more with it. Half as many where rows of B share sets of the first level cache.
 * (Measured: 1.1 times the speed with 5 tiles, 0.9 with 70.) */
enum { IN_PLACE_TILES = 3 * LS_TILE_ROWS / 2, IN_PLACE_ALIAS_BYTES = 4096 };

static bool is_b_in_place(const ls_gemm_args *g)
{
    if (g->transpose_b || g->N % LS_LANES != 0) return false;
    const bool aliases = g->N * sizeof(float) % IN_PLACE_ALIAS_BYTES == 0;
    return g->M <= (size_t)(aliases ? IN_PLACE_TILES / 2 : IN_PLACE_TILES) * LS_TILE_ROWS;
}

/* Floats of A's rows of a block, at most, that may be read again for every panel: a quarter of a
 * second level cache of 1 MiB. */
enum { BY_PANEL_FLOATS = 1 << 16 };

/* Must a tile's rows of A, not transposed, be copied, k by k? Where they share sets of the first
 * level cache, tiles that read them in place are low, and take more instructions for a term. A copy
 * is read with the fewest; it pays where a part has as many columns as it may. (Measured: 1.06 to
 * 1.09 times the speed for 1024x1024x1024 beside a busy neighbour, the same without.) */
enum { TURN_COLUMNS = 512 };

static bool must_turn(const ls_gemm_args *g)
{
    return !g->transpose_a && ls_rows_in_place(g->K) < LS_TILE_ROWS && g->N >= TURN_COLUMNS
           && !is_b_in_place(g) && g->M * ls_min_size(g->K, LS_DIRECT_DEPTH) > BY_PANEL_FLOATS;
}

/* Rows that are one or two tiles: a panel as deep as this stays in the first level cache until they
 * have read it. Stored to the second level it takes longer than they do to multiply. (Measured: 1.1
 * times the speed for 28 rows, 1.2 for 4, none for 42.) */
enum { FEW_ROWS = 2 * LS_TILE_ROWS, SHALLOW_DEPTH = 128 };

static size_t block_depth(const ls_gemm_args *g)
{
    if (g->transpose_a || must_turn(g)) return LS_BLOCK_DEPTH;
    return g->M <= FEW_ROWS && !is_b_in_place(g) ? SHALLOW_DEPTH : LS_DIRECT_DEPTH;
}

/* Floats of B that exceed the caches near a core. */
enum { FAR_FLOATS = 1 << 18 };

static bool is_b_far(const ls_gemm_args *g) { return g->N * g->K >= FAR_FLOATS; }

/* Where A's rows of a block may be read again for every panel, a panel is packed just before it is
 * used, always to the same place, which is quicker to store to, and tiles are described for every
 * panel, not for every tile of rows: blocks of fewer k than rows gain nothing by it, nor far ones
 * of fewer than twice as many. (Measured: 1.05 times the speed for 64x10x64, 1.02 for 64x64x128,
 * 0.98 for 256x64x128; with AVX2, 0.96 for 64x7200x64.)
 *
 * B in place is read so where it is far away, as the next panel is asked for while tiles multiply
 * by this one (64x7200x64: 1.08 times the speed beside a busy neighbour); not for one or two tiles,
 * of which the processor does better with B's rows from end to end (4x2048x1000: 0.55). */
static bool is_by_panel(const ls_gemm_args *g)
{
    const size_t depth = ls_min_size(g->K, block_depth(g));
    const bool far = is_b_far(g);
    if (must_copy(g) || must_turn(g) || g->M * depth > BY_PANEL_FLOATS) return false;
    if (!is_b_in_place(g)) return depth >= (far ? 2 : 1) * g->M;
    return far && g->M > FEW_ROWS;
}

/* Panels of a part, at most; 0: any number. Where all of A's rows may be read again and B is larger
 * than the caches near a core, a panel's columns of B are packed from end to end before the next
 * one's: the processor fetches ahead what follows. (Measured: 1.25 times the speed for 4x1000x2048,
 * 1.08 for 28 rows.) */
static size_t part_panels(const ls_gemm_args *g)
{
    const bool again = is_b_far(g) && g->K > block_depth(g);
    return again && !is_b_in_place(g) && is_by_panel(g) && g->M * g->K <= BY_PANEL_FLOATS ? 1 : 0;
}

/* A's part as it was copied, k by k. */
static void take_copy(const float *buffer, ls_tile *tile)
{
    tile->a = buffer;
    tile->a_row_step = 1;
    tile->a_step = LS_TILE_ROWS;
}

static void take_columns(const ls_gemm_args *g, const float *from, size_t depth, float *buffer,
                         ls_tile *tile)
{
    tile->a = from;
    tile->a_row_step = 1;
    tile->a_step = g->M;
    if (!must_copy(g)) return;
    for (size_t k = 0; k < depth; k++) {
        ls_copy_over(buffer + k * LS_TILE_ROWS, from + k * g->M, (size_t)tile->rows);
    }
    take_copy(buffer, tile);
}

_Static_assert(LS_TILE_ROWS <= LS_LANES, "a word holds a float of each row");

/* to[k][i] = from[i * step + k], i < rows: the terms of one k after those of another. */
static void turn_rows(const float *from, size_t step, size_t rows, size_t depth, float *to)
{
    for (size_t k = 0; k < depth; k += LS_LANES) {
        const size_t count = ls_min_size(depth - k, LS_LANES);
        ls_vec square[LS_LANES];
        for (size_t i = 0; i < LS_LANES; i++) {
            square[i] = i < rows ? ls_vec_load_part(from + i * step + k, count) : ls_vec_zero();
        }
        ls_vec_transpose(square);
        for (size_t i = 0; i < count; i++) ls_vec_store(to + (k + i) * LS_TILE_ROWS, square[i]);
    }
}

static void take_rows(const void *operands, const ls_row_at *first, size_t first_k, size_t depth,
                      ls_rows_memory *memory, ls_tile *tile)
{
    const ls_gemm_args *g = operands;
    if (g->transpose_a) {
        take_columns(g, g->A + first_k * g->M + first->row, depth, memory->buffer, tile);
        return;
    }
    const float *from = g->A + first->row * g->K + first_k;
    if (must_turn(g)) {
        turn_rows(from, g->K, (size_t)tile->rows, depth, memory->buffer);
        take_copy(memory->buffer, tile);
        return;
    }
    tile->a = from;
    tile->a_row_step = g->K;
    tile->a_step = 1;
    /* The next tile's rows follow in memory; of a large A they are asked for meanwhile. (Measured:
     * 1.02 times the speed for 512x512x512.) */
    if (depth < g->K || g->M * g->K <= BY_PANEL_FLOATS) return;
    tile->next = (uintptr_t)(from + (size_t)tile->rows * g->K);
    tile->next_step = (size_t)tile->rows * sizeof(float);
}

static void pack(const void *operands, size_t first_k, size_t depth, size_t first_column,
                 size_t columns, float *panel)
{
    const ls_gemm_args *g = operands;
    if (g->transpose_b) {
        ls_pack_columns(panel, g->B + first_column * g->K + first_k, g->K, depth, columns);
    } else {
        ls_pack_rows(panel, g->B + first_k * g->N + first_column, g->N, depth, columns);
    }
}

/* Is C' = B A' cheaper than C = A B'? What takes the part of B is transposed on its way into
 * panels: the smaller one should, if its columns there are whole words. To transpose C at the end
 * takes some four times as long per element. (Measured: 1.15 times the speed for 32 samples of 784
 * numbers and 128 outputs, 1.04 for 64.) */
static bool is_turned(const ls_gemm_args *g)
{
    if (g->transpose_a || !g->transpose_b || g->M % LS_LANES != 0 || g->N <= g->M) return false;
    return g->K * (g->N - g->M) > 4 * g->M * g->N;
}

/* Rows of a tile, at most. */
static int tile_rows(const ls_gemm_args *g, bool turned)
{
    const int rows = g->transpose_a || must_turn(g) ? LS_TILE_ROWS : ls_rows_in_place(g->K);
    return g->accumulate || turned ? rows : ls_rows_if_narrow(rows, g->N);
}

/* Floats of A, at most, of which a turned product is made panel by panel: half of a second level
 * cache of 1 MiB. */
enum { TURNED_FLOATS = 1 << 17 };

static bool is_turned_by_panel(const ls_gemm_args *g)
{
    return !must_turn(g) && g->K <= block_depth(g) && g->M * g->K <= TURNED_FLOATS;
}

ls_status LS_HOST(gemm)(ls_stream *stream, const ls_gemm_args *args)
{
    const bool turned = is_turned(args);
    if (!turned && LS_HOST(near_gemm)(stream->device->pool, args)) return LS_OK;
    ls_gemm_args operands = *args;
    if (turned) {
        operands.M = args->N;
        operands.N = args->M;
        operands.A = args->B;
        operands.B = args->A;
    }
    const ls_gemm_args *g = &operands;
    const bool b_in_place = is_b_in_place(g);
    const bool by_columns = turned && is_turned_by_panel(g);
    const ls_product product = {
        .rows = g->M,
        .columns = g->N,
        .depth = g->K,
        .block_depth = block_depth(g),
        .by_panel = is_by_panel(g) || by_columns,
        .b_columns = by_columns ? g->B : NULL,
        .fetch_b = b_in_place && !g->transpose_a && is_b_far(g),
        .part_panels = part_panels(g),
        .tile_rows = tile_rows(g, turned),
        .operands = g,
        .take_rows = take_rows,
        .pack = pack,
        .b = b_in_place ? g->B : NULL,
        .b_step = g->N,
        .row_cost = 0.05,
        .pack_cost = g->transpose_b ? 0.4 : b_in_place ? 0.1 : 0.15,
        .bias = g->bias,
        .relu = g->relu,
        .accumulate = g->accumulate,
        .C = g->C,
        .step = args->N,
        .turned = turned,
    };
    LS_HOST(product)(stream->device->pool, &product);
    return LS_OK;
}
