/* SPDX-License-Identifier: MIT */
/* in_place.c -- the runs of a convolution's tile that reads its image where it lies. See
 * in_place.h.
 *
 * k goes through rows of taps, taps, floats of a place. Where every row of the tile reads through
 * every tap of a row of taps, rightwards, that row is one run; elsewhere a run is a tap, of which
 * the first or the last row of the tile may lie in the padding. Runs of different rows of taps stay
 * apart, so that a tile at the top or the bottom of the image can leave out those of some rows.
 *
 * A list counts `a` from the tile's first place, whichever that is, so runs further left or above
 * have negative numbers; as size_t they wrap around, and adding the place wraps back.
 */
#include "kernels/host/in_place.h"
#include "sizes.h"

/* -- making a list ---------------------------------------------------------------------------- */

/* IMPOSSIBLE: no runs say what a tile needs. NO_ROOM: there are too many of them. */
typedef enum { MADE, IMPOSSIBLE, NO_ROOM } outcome;

/* The rows of a tile for which columns left, left + step, ... lie inside the image: [first, last).
 * False: more than one row at an end takes no part, which no run can say. */
static bool find_rows(const ls_tap_grid *g, ptrdiff_t left, int rows, int *first, int *last)
{
    const ptrdiff_t step = (ptrdiff_t)g->step, width = (ptrdiff_t)g->width;
    *first = 0;
    *last = rows;
    if (left < 0) *first = (int)ls_min_size((size_t)((step - 1 - left) / step), (size_t)rows);
    if (left + (rows - 1) * step >= width) {
        *last = left >= width ? 0 : (int)((width - left + step - 1) / step);
    }
    if (*first >= *last || rows == 1) return true;
    return *first + (rows - *last) <= 1;
}

static bool continues(const ls_tile_run *before, const ls_tile_run *run)
{
    return before->rows == LS_RUN_ALL && run->rows == LS_RUN_ALL
           && before->a + before->depth == run->a
           && before->b + before->depth * LS_TILE_COLUMNS == run->b;
}

/* Append a run to the last list, or lengthen its last one. False: there is no room. */
static bool add_run(ls_tap_lists *all, ls_tap_list *list, const ls_tile_run *run, size_t tap_row)
{
    const size_t end = list->first + list->count;
    if (list->count > 0 && all->tap_row[end - 1] == tap_row && continues(&all->run[end - 1], run)) {
        all->run[end - 1].depth += run->depth;
        return true;
    }
    if (end == LS_TAP_RUNS_MAX) return false;
    all->run[end] = *run;
    all->tap_row[end] = tap_row;
    list->count++;
    return true;
}

/* The runs of `list`, of tiles with `rows` rows at its column. */
static outcome make_runs(const ls_tap_grid *g, int rows, size_t depth, ls_tap_lists *all,
                         ls_tap_list *list)
{
    if (depth == 0) return MADE; /* places of no floats, perhaps: no division by them */
    const bool has_border = list->rows > 0;
    const ptrdiff_t step = (ptrdiff_t)g->step;
    const size_t first_tap = list->first_k / g->depth;
    size_t tap_row = first_tap / g->tap_columns, tap = first_tap % g->tap_columns;
    size_t within = list->first_k % g->depth;
    for (size_t done = 0, count; done < depth; done += count, within = 0) {
        const size_t taps = has_border || g->direction < 0 ? 1 : g->tap_columns - tap;
        const ptrdiff_t shift = g->direction * (ptrdiff_t)tap;
        int first = 0, last = rows;
        count = ls_min_size(taps * g->depth - within, depth - done);
        if (has_border && !find_rows(g, list->column + shift, rows, &first, &last)) {
            return IMPOSSIBLE;
        }
        const ptrdiff_t place = g->direction * (ptrdiff_t)(tap_row * g->width) + shift
                                + first * step;
        const ls_tile_run run = {
            .a = (size_t)place * g->depth + within,
            .b = done * LS_TILE_COLUMNS,
            .depth = count,
            .rows = first > 0 ? LS_RUN_NOT_FIRST : last < rows ? LS_RUN_NOT_LAST : LS_RUN_ALL,
        };
        if (first < last && !add_run(all, list, &run, tap_row)) return NO_ROOM;
        tap += taps;
        if (tap < g->tap_columns) continue;
        tap = 0;
        tap_row++;
    }
    return MADE;
}

/* What a later tile than one of `rows` rows reads and this one does not: with one tap, the places
 * that follow in the row; with more, those that the tile below reads through its last row of taps
 * (the first one, for the input gradient). Rows of one tap are read at the same time, too many and
 * too short for the processor's prefetcher; a row of taps is new for every tile of a row. Of one
 * tap with a stride, the tile below reads every step-th place: a line of each, if that is all a
 * place has. Nothing where a block is a part of a tap: then places do not follow each other. */
static void find_next(const ls_tap_grid *g, size_t rows, size_t depth, ls_tap_list *list)
{
    const size_t taps = g->tap_rows * g->tap_columns;
    if (depth == 0 || list->first_k % g->depth + depth % g->depth > 0) return;
    const size_t row = g->width * g->depth, place_bytes = g->depth * sizeof(float);
    if (taps == 1 && g->step > 1) {
        if (place_bytes > LS_LINE_BYTES) return;
        list->next = g->row_step * row;
        list->next_step = g->step * place_bytes;
        return;
    }
    const size_t first_row = list->first_k / g->depth / g->tap_columns;
    const size_t last_row = ((list->first_k + depth) / g->depth - 1) / g->tap_columns;
    const size_t places = (rows - 1) * g->step + g->tap_columns;
    list->next_step = (places * g->depth * sizeof(float) + depth - 1) / depth;
    if (taps == 1) list->next = rows * g->depth;
    else if (g->direction > 0) list->next = (last_row + g->row_step) * row;
    else list->next = (1 - first_row) * row - (g->tap_columns - 1) * g->depth;
}

/* -- finding one ------------------------------------------------------------------------------ */

/* Does every row read through every tap column? */
static bool is_inside(const ls_tap_grid *g, ptrdiff_t column, int rows)
{
    const ptrdiff_t taps = (ptrdiff_t)g->tap_columns;
    const ptrdiff_t left = g->direction > 0 ? column : column - (taps - 1);
    const ptrdiff_t right = column + (rows - 1) * (ptrdiff_t)g->step
                            + (g->direction > 0 ? taps - 1 : 0);
    return left >= 0 && right < (ptrdiff_t)g->width;
}

static const ls_tap_list *find_list(const ls_tap_grid *g, ptrdiff_t column, int rows,
                                    size_t first_k, size_t depth, ls_tap_lists *all)
{
    const bool has_border = !is_inside(g, column, rows);
    ls_tap_list wanted = {
        .first_k = first_k,
        .column = has_border ? column : 0,
        .rows = has_border ? rows : 0,
    };
    for (size_t i = 0; i < all->count; i++) {
        const ls_tap_list *l = &all->list[i];
        if (l->first_k == first_k && l->column == wanted.column && l->rows == wanted.rows) return l;
    }
    if (all->count == LS_TAP_LISTS_MAX) all->count = 0;
    const ls_tap_list *last = all->count > 0 ? &all->list[all->count - 1] : NULL;
    wanted.first = last != NULL ? last->first + last->count : 0;
    outcome result = make_runs(g, rows, depth, all, &wanted);
    if (result == NO_ROOM && all->count > 0) {
        all->count = wanted.first = wanted.count = 0;
        result = make_runs(g, rows, depth, all, &wanted);
    }
    wanted.is_possible = result == MADE;
    if (!wanted.is_possible) wanted.count = 0;
    find_next(g, (size_t)rows, depth, &wanted);
    ls_tap_list *list = &all->list[all->count++];
    *list = wanted;
    return list;
}

/* -- a tile ----------------------------------------------------------------------------------- */

/* Leave out the rows of taps that lie above or below the image. Returns how many rows of the result
 * from this one on leave out the same, at most `rows`: one that leaves out any is alone. */
static size_t take_rows(const ls_tap_grid *g, ptrdiff_t row, size_t rows, const ls_tap_list *list,
                        const ls_tap_lists *all, ls_tile *tile)
{
    const ptrdiff_t height = (ptrdiff_t)g->height, taps = (ptrdiff_t)g->tap_rows;
    const ptrdiff_t above = g->direction > 0 ? -row : row - (height - 1);
    const ptrdiff_t inside = g->direction > 0 ? height - row : row + 1; /* with those before */
    size_t begin = list->first, end = list->first + list->count;
    while (begin < end && (ptrdiff_t)all->tap_row[begin] < above) begin++;
    while (begin < end && (ptrdiff_t)all->tap_row[end - 1] >= inside) end--;
    tile->run = &all->run[begin];
    tile->runs = end - begin;
    if (above > 0 || inside < taps) return 1;
    const size_t further = (size_t)(g->direction > 0 ? inside - taps : -above) / g->row_step;
    return ls_min_size(further + 1, rows);
}

size_t LS_HOST(take_in_place)(const ls_tap_grid *g, const ls_tap_origin *at, size_t rows,
                              size_t first_k, size_t depth, ls_tap_lists *lists, ls_tile *tile)
{
    const ls_tap_list *list = find_list(g, at->column, tile->rows, first_k, depth, lists);
    if (!list->is_possible) return 0;
    const size_t same = take_rows(g, at->row, rows, list, lists, tile);
    const size_t row = at->sample * g->height + (size_t)at->row;
    tile->a = g->image;
    tile->a_from = (row * g->width + (size_t)at->column) * g->depth;
    tile->a_row_step = g->step * g->depth;
    tile->a_step = 1;
    if (list->next_step > 0) {
        tile->next = (uintptr_t)g->image + (tile->a_from + list->next) * sizeof(float);
        tile->next_step = list->next_step;
    }
    return same;
}
