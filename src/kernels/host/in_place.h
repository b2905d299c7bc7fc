/* SPDX-License-Identifier: MIT */
/* in_place.h -- the runs of a convolution's tile that reads its image where it lies.
 *
 * A tile whose rows are places of one row of the result reads, through one tap, places of one row
 * of the image behind A, `step` apart. The next tap reads the image one place further right (in the
 * forward product) or left (for the input gradient). Of two rows of taps and three of the tile:
 *
 *      tap columns 0 1 2             image row     . . . x x x
 *      tile at the left border       tile row 0    0 1 2             tap 0 is padding: NOT_FIRST
 *                                    tile row 1      0 1 2
 *                                    tile row 2        0 1 2
 *
 * So a tile is a run per tap and per stretch of taps whose numbers follow each other in memory;
 * a tap that is padding for all its rows is skipped, as is a whole row of taps above or below the
 * image. Nothing is copied and no zero is multiplied.
 *
 * The runs depend on the tile's place only through its column, where a border is near, and through
 * the rows of taps that lie in the image. So they are listed once, with every row of taps and
 * counted from the place of the tile's first row and tap; a tile takes the part of a list that its
 * image has. To find a list takes tens of cycles, to make one hundreds, and a tile of 16 filters
 * has 160 multiplications a tap.
 */
#ifndef LS_KERNELS_HOST_IN_PLACE_H
#define LS_KERNELS_HOST_IN_PLACE_H

#include "kernels/host/tile.h"

typedef struct {
    const float *image;
    size_t height, width, depth;       /* of the image: rows, places, floats of a place */
    size_t tap_rows, tap_columns;
    ptrdiff_t direction;               /* of taps in the image, rows and columns: 1 or -1 */
    size_t row_step, step;             /* of rows and places of the result, in those of the image */
} ls_tap_grid;

/* What a tile's first row reads through the first tap: may lie outside the image. */
typedef struct {
    size_t sample;
    ptrdiff_t row, column;
} ls_tap_origin;

/* The runs of tiles at one column, for one block of k. */
typedef struct {
    size_t first_k;
    ptrdiff_t column;                  /* where rows is not 0 */
    int rows;                          /* of the tile; 0: no border is near, any column and rows */
    bool is_possible;                  /* false: no runs say this */
    size_t first, count;               /* runs [first, first + count) of all lists' */
    size_t next, next_step;            /* what to fetch: floats from the tile's place; bytes a k */
} ls_tap_list;

enum { LS_TAP_LISTS_MAX = 8, LS_TAP_RUNS_MAX = 320 };

/* The lists of one grid, in memory of one thread; at first `count` is 0. */
typedef struct {
    size_t count;                      /* of lists */
    ls_tap_list list[LS_TAP_LISTS_MAX];
    ls_tile_run run[LS_TAP_RUNS_MAX];
    size_t tap_row[LS_TAP_RUNS_MAX];   /* of each run */
} ls_tap_lists;

/* Give the tile, of tile->rows rows at `at`, its A and the runs of k [first_k, first_k + depth),
 * which lie in `lists` until the next call. Blocks of one grid that begin at the same first_k end
 * together. Returns for how many rows of the result, from `at` on and at most `rows`, the same
 * holds: the next one's a_from is row_step rows of the image further. 0: this takes runs that there
 * are none for, or too many; then the tile's part of A must be copied. */
size_t LS_HOST(take_in_place)(const ls_tap_grid *grid, const ls_tap_origin *at, size_t rows,
                              size_t first_k, size_t depth, ls_tap_lists *lists, ls_tile *tile);

#endif
