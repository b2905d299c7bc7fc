/* SPDX-License-Identifier: MIT */
/* in_place.c -- the runs of a convolution's tile that reads its image where it lies. See
 * in_place.h.
 *
 * k goes through rows of taps, taps, floats of a place. Where every row of the tile reads through
 * every tap of a row of taps, rightwards, that row is one run; elsewhere a run is a tap, of which
 * the first or the last row of the tile may lie in the padding.
 */
#include "kernels/host/in_place.h"

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* The rows of a tile for which columns left, left + step, ... lie inside the image: [first, last).
 * False: more than one row at an end takes no part, which no run can say. */
static bool find_rows(const ls_tap_grid *g, ptrdiff_t left, int rows, int *first, int *last)
{
    const ptrdiff_t step = (ptrdiff_t)g->step, width = (ptrdiff_t)g->width;
    *first = 0;
    *last = rows;
    if (left < 0) *first = (int)min_size((size_t)((step - 1 - left) / step), (size_t)rows);
    if (left + (rows - 1) * step >= width) {
        *last = left >= width ? 0 : (int)((width - left + step - 1) / step);
    }
    if (*first >= *last || rows == 1) return true;
    return *first + (rows - *last) <= 1;
}

/* Does the run go on where the one before it ends? */
static bool continues(const ls_tile_run *before, const ls_tile_run *run)
{
    return before->rows == LS_RUN_ALL && run->rows == LS_RUN_ALL
           && before->a + before->depth == run->a
           && before->b + before->depth * LS_TILE_COLUMNS == run->b;
}

bool LS_HOST(take_in_place)(const ls_tap_grid *g, const ls_tap_origin *at, size_t first_k,
                            size_t depth, ls_tile_run *run, ls_tile *tile)
{
    const ptrdiff_t step = (ptrdiff_t)g->step;
    const int rows = tile->rows;
    /* k as a row of taps, a column of taps, a float of a place. Divisions count: most are of 0. */
    const size_t first_tap = first_k == 0 ? 0 : first_k / g->depth;
    const size_t tap_row = first_tap == 0 ? 0 : first_tap / g->tap_columns;
    size_t tap = first_tap - tap_row * g->tap_columns, within = first_k - first_tap * g->depth;
    ptrdiff_t row = at->row + g->direction * (ptrdiff_t)tap_row;
    size_t row_start = (at->sample * g->height + (size_t)row) * g->width;
    /* Does every row read through every tap column, rightwards? Then rows of taps are runs. */
    const bool is_inside = g->direction > 0 && at->column >= 0
        && at->column + (rows - 1) * step + (ptrdiff_t)g->tap_columns <= (ptrdiff_t)g->width;
    size_t runs = 0;
    for (size_t done = 0; done < depth;) {
        const size_t taps = is_inside || row < 0 || row >= (ptrdiff_t)g->height
            ? g->tap_columns - tap : 1; /* whole rows of them where possible */
        const size_t count = min_size(taps * g->depth - within, depth - done);
        if (row >= 0 && row < (ptrdiff_t)g->height) {
            const ptrdiff_t left = at->column + g->direction * (ptrdiff_t)tap;
            int first = 0, last = rows;
            if (!is_inside && !find_rows(g, left, rows, &first, &last)) return false;
            if (runs == LS_TILE_RUNS_MAX) return false;
            if (first < last) {
                const size_t place = row_start + (size_t)(left + first * step);
                run[runs] = (ls_tile_run){
                    .a = place * g->depth + within,
                    .b = done * LS_TILE_COLUMNS,
                    .depth = count,
                    .rows = first > 0 ? LS_RUN_NOT_FIRST
                                      : last < rows ? LS_RUN_NOT_LAST : LS_RUN_ALL,
                };
                if (runs > 0 && continues(&run[runs - 1], &run[runs])) run[runs - 1].depth += count;
                else runs++;
            }
        }
        done += count;
        within = 0;
        tap += taps;
        if (tap < g->tap_columns) continue;
        tap = 0;
        row += g->direction;
        row_start += (size_t)g->direction * g->width;
    }
    tile->a = g->image;
    tile->a_row_step = g->step * g->depth;
    tile->a_step = 1;
    tile->runs = runs;
    return true;
}
