/* SPDX-License-Identifier: MIT */
/* gemm.c -- the matrix product: how op(A) and op(B) are given to the loops of product.c.
 *
 * The micro-kernel reads A at any two steps, so A is used where it lies, transposed or not, except
 * where it is transposed and its rows as stored are a multiple of 2048 bytes apart: a tile reads a
 * few floats of each in turn, and they would evict each other from the first level cache. Then a
 * tile's part of A is copied, unless C has one panel, for which it is read once. Rows that are not
 * transposed are read along; where they are a multiple of 4096 bytes apart, tiles are lower instead
 * (ls_rows_in_place).
 *
 * B is packed: rows are copied, columns transposed in registers. That takes as long as some tiles
 * of rows take to multiply by it; so where it is not transposed, has rows of whole vector words and
 * few tiles read it, B too is used where it lies. Where A is the smaller one and both are stored
 * along k, as in a dense layer with few samples, they change places: A is packed, B used where it
 * lies, and C comes out transposed.
 */
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

/* Rows that are one or two tiles: a panel as deep as this stays in the first level cache until they
 * have read it. Stored to the second level it takes longer than they do to multiply. (Measured: 1.1
 * times the speed for 28 rows, 1.2 for 4, none for 42.) */
enum { FEW_ROWS = 2 * LS_TILE_ROWS, SHALLOW_DEPTH = 128 };

static size_t block_depth(const ls_gemm_args *g)
{
    if (g->transpose_a) return LS_BLOCK_DEPTH;
    return g->M <= FEW_ROWS && !is_b_in_place(g) ? SHALLOW_DEPTH : LS_DIRECT_DEPTH;
}

/* Floats of A's rows of a block, at most, that may be read again for every panel: a quarter of a
 * second level cache of 1 MiB. Then a panel is packed just before it is used, always to the same
 * place, which is quicker to store to. But every tile of rows is described again for every panel,
 * which costs what 16 k of a panel gain: the block must have as many k for each of the tiles.
 * (Measured: 1.04 times the speed for 64x64x128, 0.98 for 256x64x128.) */
enum { BY_PANEL_FLOATS = 1 << 16 };

static bool is_by_panel(const ls_gemm_args *g)
{
    const size_t depth = ls_min_size(g->K, block_depth(g));
    return !is_b_in_place(g) && !must_copy(g) && depth >= 2 * g->M
           && g->M * depth <= BY_PANEL_FLOATS;
}

/* Panels of a part, at most; 0: any number. Where all of A's rows may be read again and B is larger
 * than the caches near a core, a panel's columns of B are packed from end to end before the next
 * one's: the processor fetches ahead what follows. (Measured: 1.25 times the speed for 4x1000x2048,
 * 1.08 for 28 rows.) */
enum { FAR_FLOATS = 1 << 18 };

static size_t part_panels(const ls_gemm_args *g)
{
    const bool far = g->N * g->K >= FAR_FLOATS && g->K > block_depth(g);
    return far && is_by_panel(g) && g->M * g->K <= BY_PANEL_FLOATS ? 1 : 0;
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
    tile->a = buffer;
    tile->a_step = LS_TILE_ROWS;
}

static void take_rows(const void *operands, const ls_row_at *first, size_t first_k, size_t depth,
                      ls_rows_memory *memory, ls_tile *tile)
{
    const ls_gemm_args *g = operands;
    if (g->transpose_a) {
        take_columns(g, g->A + first_k * g->M + first->row, depth, memory->buffer, tile);
        return;
    }
    tile->a = g->A + first->row * g->K + first_k;
    tile->a_row_step = g->K;
    tile->a_step = 1;
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
    const int rows = g->transpose_a ? LS_TILE_ROWS : ls_rows_in_place(g->K);
    return g->accumulate || turned ? rows : ls_rows_if_narrow(rows, g->N);
}

ls_status LS_HOST(gemm)(ls_stream *stream, const ls_gemm_args *args)
{
    ls_gemm_args operands = *args;
    const bool turned = is_turned(args);
    if (turned) {
        operands.M = args->N;
        operands.N = args->M;
        operands.A = args->B;
        operands.B = args->A;
    }
    const ls_gemm_args *g = &operands;
    const bool b_in_place = is_b_in_place(g);
    const ls_product product = {
        .rows = g->M,
        .columns = g->N,
        .depth = g->K,
        .block_depth = block_depth(g),
        .by_panel = is_by_panel(g),
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
