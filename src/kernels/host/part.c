/* SPDX-License-Identifier: MIT */
/* part.c -- one part of C and one block of k: the tiles, in the order that suits the caches.
 *
 *     pack B[block, the part's columns] into panels of LS_TILE_COLUMNS         second level cache
 *     for each tile of rows
 *         take the rows of A                 where they lie, or a copy in the first level cache
 *         for each panel: the micro-kernel, from C's partial sums to C's partial sums
 *
 * or, of a few rows, a panel at a time: then it is packed where that before it was, and the tiles
 * that pass by it are described once. Of groups whose chains are short, a tile is described once
 * for several of them and run for each in turn.
 *
 * Partial sums that are kept apart, because C holds a value that is needed at the end or is the
 * transposed product, lie in scratch memory. Those of a product that is turned are transposed on
 * their way from there to C, square by square, with bias and the rest.
 */
#include "kernels/host/lanes.h"
#include "kernels/host/part.h"

static float *row_of_c(const ls_cut *cut, const ls_row_at *at)
{
    const ls_product *p = cut->product;
    if (p->place == NULL) return p->C + at->row * p->step;
    return p->place(p->operands, at->group) + at->within * p->step;
}

static void pack_panels(const ls_product *p, const ls_cut_part *a, size_t k, size_t depth)
{
    float *panel = a->panels;
    for (size_t n = a->first_column; n < a->last_column; n += LS_TILE_COLUMNS) {
        p->pack(p->operands, k, depth, n, ls_min_size(LS_TILE_COLUMNS, a->last_column - n), panel);
        panel += depth * LS_TILE_COLUMNS;
    }
}

/* The tile of group after group that is described for the first, `count` of them. */
static void run_groups(ls_tile tile, size_t count, size_t a_step, size_t c_step)
{
    for (size_t i = 0; i < count; i++) {
        LS_HOST(tile)(&tile);
        tile.a_from += a_step;
        if (tile.next != 0) tile.next += a_step * sizeof(float);
        if (tile.from.p != NULL) tile.from.p += c_step;
        tile.to += c_step;
    }
}

/* A tile as it is described, and what the description points to. */
typedef struct {
    ls_tile tile;
    ls_tile_run whole;
    ls_tile_source old;
} described_tile;

/* The tile of `rows` rows at `at` and the part's first panel, for block [k, k + depth). */
LS_ALWAYS_INLINE void describe(const ls_cut *cut, const ls_cut_part *a, const ls_row_at *at,
                               size_t rows, size_t k, size_t depth, described_tile *d)
{
    const ls_product *p = cut->product;
    const bool first = k == 0, last = k + depth == p->depth && !p->turned;
    float *apart = a->partial + (at->row - a->first_row) * LS_PART_COLUMNS;
    float *C = p->turned ? apart : row_of_c(cut, at) + a->first_column;
    float *unfinished = ls_is_kept_apart(p) ? apart : C;
    const size_t unfinished_step = ls_is_kept_apart(p) ? LS_PART_COLUMNS : p->step;
    d->old = (ls_tile_source){C, p->step};
    d->whole = (ls_tile_run){0, 0, depth, LS_RUN_ALL};
    d->tile = (ls_tile){
        .rows = (int)rows,
        .run = &d->whole,
        .runs = 1,
        .b = p->b != NULL ? p->b + k * p->b_step + a->first_column : a->panels,
        .b_step = p->b != NULL ? p->b_step : LS_TILE_COLUMNS,
        .from = {first ? NULL : unfinished, unfinished_step},
        .finish = last,
        .bias = p->bias == NULL || p->turned ? NULL : p->bias + a->first_column,
        .add_count = p->accumulate ? 1 : 0,
        .add = &d->old,
        .relu = p->relu,
        .to = last ? C : unfinished,
        .to_step = last ? p->step : unfinished_step,
    };
    a->memory->groups = 1;
    p->take_rows(p->operands, at, k, depth, a->memory, &d->tile);
}

/* One tile of rows against all panels of block [k, k + depth), and those of as many groups after it
 * as can be treated the same. Returns how many groups that were. */
static size_t run_rows(const ls_cut *cut, const ls_cut_part *a, const ls_row_at *at, size_t rows,
                       size_t k, size_t depth)
{
    const ls_product *p = cut->product;
    described_tile d;
    describe(cut, a, at, rows, k, depth, &d);
    ls_tile *tile = &d.tile;
    const size_t panel_step = p->b != NULL ? LS_TILE_COLUMNS : depth * LS_TILE_COLUMNS;
    const size_t groups = a->memory->groups;
    const ls_row_at below = {at->row + cut->group, at->group + 1, at->within, 1};
    const size_t c_step = groups > 1 ? (size_t)(row_of_c(cut, &below) - row_of_c(cut, at)) : 0;
    for (size_t n = a->first_column; n < a->last_column; n += LS_TILE_COLUMNS) {
        tile->columns = ls_min_size(LS_TILE_COLUMNS, a->last_column - n);
        if (groups > 1) run_groups(*tile, groups, a->memory->group_step, c_step);
        else LS_HOST(tile)(tile);
        tile->b += panel_step;
        tile->next = 0;
        if (tile->from.p != NULL) tile->from.p += LS_TILE_COLUMNS;
        if (tile->bias != NULL) tile->bias += LS_TILE_COLUMNS;
        d.old.p += LS_TILE_COLUMNS;
        tile->to += LS_TILE_COLUMNS;
    }
    return groups;
}

/* All tiles of rows against one panel: they differ in addresses alone, and are described once. The
 * lines of the next panel are asked for meanwhile: of one that is read in place by the first tiles,
 * each of which takes one of every row of B, of one that is packed by all tiles evenly. */
static void run_panel(const ls_cut *cut, const ls_cut_part *a, size_t k, size_t depth)
{
    const ls_product *p = cut->product;
    const ls_row_at at = {a->first_row, 0, a->first_row, 1};
    described_tile d;
    describe(cut, a, &at, 0, k, depth, &d);
    ls_tile *tile = &d.tile;
    tile->columns = a->last_column - a->first_column;
    const size_t share = a->next_floats * sizeof(float) / (a->last_tile - a->first_tile);
    tile->next_step = share > 0 ? ls_ceil_div(share, depth) : p->b_step * sizeof(float);
    const size_t lines = p->fetch_b && a->last_column < p->columns ? LS_TILE_COLUMNS : 0;
    for (size_t t = a->first_tile; t < a->last_tile; t++) {
        const size_t rows = ls_row_in_group(cut, t + 1) - ls_row_in_group(cut, t);
        const size_t line = (t - a->first_tile) * LS_LINE_FLOATS;
        tile->rows = (int)rows;
        tile->next = line < lines ? (uintptr_t)(tile->b + LS_TILE_COLUMNS + line) : 0;
        if (share > 0) tile->next = (uintptr_t)a->next + (t - a->first_tile) * share;
        LS_HOST(tile)(tile);
        tile->a_from += rows * tile->a_row_step;
        if (tile->from.p != NULL) tile->from.p += rows * tile->from.step;
        d.old.p += rows * d.old.step;
        tile->to += rows * tile->to_step;
    }
}

/* Tile `tile` of a group and of up to `groups` - 1 groups after it. Returns for how many. */
static size_t run_tile(const ls_cut *cut, const ls_cut_part *a, size_t group, size_t tile,
                       size_t groups, size_t k, size_t depth)
{
    const size_t within = ls_row_in_group(cut, tile);
    const ls_row_at at = {group * cut->group + within, group, within, groups};
    return run_rows(cut, a, &at, ls_row_in_group(cut, tile + 1) - within, k, depth);
}

/* Groups whose tiles at one place are taken one after another, at most: so many that to describe a
 * tile costs little beside its terms, and not more, so that what is read twice is still near. */
enum { TERMS_AT_ONCE = 4096 };

static size_t groups_at_once(size_t terms)
{
    return terms < TERMS_AT_ONCE && terms > 0 ? TERMS_AT_ONCE / terms : 1;
}

/* Whole groups, up to `groups` of them, place by place: as many as the first place's tiles can be
 * treated the same, so a sample at most. Returns how many. */
static size_t run_whole_groups(const ls_cut *cut, const ls_cut_part *a, size_t group, size_t groups,
                               size_t k, size_t depth)
{
    const size_t count = run_tile(cut, a, group, 0, groups, k, depth);
    for (size_t tile = 1; tile < cut->group_tiles; tile++) {
        for (size_t done = 0; done < count;) {
            done += run_tile(cut, a, group + done, tile, count - done, k, depth);
        }
    }
    return count;
}

/* All tiles of a part for one block of k. */
static void run_tiles(const ls_cut *cut, const ls_cut_part *a, size_t k, size_t depth)
{
    const size_t panels = ls_ceil_div(a->last_column - a->first_column, LS_TILE_COLUMNS);
    const bool alone = ls_is_kept_apart(cut->product) || cut->product->group == 0;
    const size_t most = alone ? 1 : groups_at_once(depth * panels);
    for (size_t t = a->first_tile; t < a->last_tile;) {
        const size_t group = ls_group_of(cut, t), tile = t - group * cut->group_tiles;
        const size_t whole = tile > 0 || most == 1
                                 ? 0 : ls_min_size((a->last_tile - t) / cut->group_tiles, most);
        if (whole > 1) {
            t += run_whole_groups(cut, a, group, whole, k, depth) * cut->group_tiles;
        } else {
            (void)run_tile(cut, a, group, tile, 1, k, depth);
            t++;
        }
    }
}

/* Do all threads read all columns of B, each for its part of a layer's outputs? Then they begin
 * with those that they have probably written themselves, and ask for the others meanwhile.
 * (Measured on two threads: 0.90 of the time for 64 samples of 784 numbers and 128 outputs, 0.97 if
 * both begin with the first ones.) */
static bool is_shared(const ls_cut *cut)
{
    return cut->product->b_columns != NULL && cut->split.row_parts > 1
           && cut->split.column_parts == 1;
}

/* All tiles of a part for one block of k, panel by panel. */
static void run_panels(const ls_cut *cut, const ls_cut_part *a, size_t k, size_t depth)
{
    const ls_product *p = cut->product;
    ls_cut_part panel = *a;
    const size_t panels = ls_ceil_div(a->last_column - a->first_column, LS_TILE_COLUMNS);
    const bool shared = is_shared(cut);
    const size_t begin = shared ? panels * a->first_tile / cut->row_tiles : 0;
    for (size_t i = 0; i < panels; i++) {
        const size_t n = a->first_column + (begin + i) % panels * LS_TILE_COLUMNS;
        const size_t next = a->first_column + (begin + i + 1) % panels * LS_TILE_COLUMNS;
        panel.first_column = n;
        panel.last_column = ls_min_size(n + LS_TILE_COLUMNS, a->last_column);
        panel.partial = a->partial + (n - a->first_column);
        panel.next_floats = 0;
        if (shared && i + 1 < panels) {
            panel.next = p->b_columns + next * depth;
            panel.next_floats = ls_min_size(LS_TILE_COLUMNS, a->last_column - next) * depth;
        }
        if (p->b == NULL) pack_panels(p, &panel, k, depth);
        run_panel(cut, &panel, k, depth);
    }
}

void LS_HOST(part_block)(const ls_cut *cut, const ls_cut_part *a, size_t k, size_t depth)
{
    if (cut->product->by_panel) {
        run_panels(cut, a, k, depth);
    } else {
        if (cut->product->b == NULL) pack_panels(cut->product, a, k, depth);
        run_tiles(cut, a, k, depth);
    }
}

/* The part's sums [row.., column..) of a square of a word each way, transposed. */
static void take_square(const ls_cut_part *a, size_t row, size_t rows, size_t column,
                        ls_vec square[LS_LANES])
{
    const float *from = a->partial + (row - a->first_row) * LS_PART_COLUMNS
                        + (column - a->first_column);
    for (size_t i = 0; i < LS_LANES; i++) {
        square[i] = i < rows ? ls_vec_load(from + i * LS_PART_COLUMNS) : ls_vec_zero();
    }
    ls_vec_transpose(square);
}

void LS_HOST(part_turn)(const ls_cut *cut, const ls_cut_part *a)
{
    const ls_product *p = cut->product;
    const size_t last_row = ls_tile_row(cut, a->last_tile);
    for (size_t row = a->first_row; row < last_row; row += LS_LANES) {
        const size_t rows = ls_min_size(LS_LANES, last_row - row);
        const ls_vec bias = p->bias != NULL ? ls_vec_load_lanes(p->bias + row, rows)
                                            : ls_vec_zero();
        for (size_t n = a->first_column; n < a->last_column; n += LS_LANES) {
            ls_vec square[LS_LANES];
            take_square(a, row, rows, n, square);
            for (size_t i = 0; i < ls_min_size(LS_LANES, a->last_column - n); i++) {
                float *to = p->C + (n + i) * p->step + row;
                ls_vec x = ls_vec_add(ls_vec_add(square[i], bias), ls_vec_zero());
                if (p->accumulate) x = ls_vec_add(ls_vec_load_lanes(to, rows), x);
                ls_vec_store_lanes(to, p->relu ? ls_vec_relu(x) : x, rows);
            }
        }
    }
}
