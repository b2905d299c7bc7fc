/* SPDX-License-Identifier: MIT */
/* weight_slice.c -- the sum of one slice over a block of a weight gradient. See weight_gradient.c.
 *
 *     for each stretch of some hundred places of the slice
 *         for each panel of the block: lay out B, for each tile of filters: the micro-kernel
 *
 * Neither operand is copied as a rule. Element (filter, place) of A is dy[place * filters +
 * filter], and the micro-kernel reads rows of A that lie across k too. B's row for a place is its
 * patch, and a panel is at most LS_TILE_COLUMNS channels of ONE tap (r, s): these lie in x where
 * the place's window has the tap, and those of the next place of an output row a constant step
 * further on. So a stretch is a run per output row, without the places whose tap is padding. With
 * many tiles of filters a panel is copied to scratch memory once, to be read at a short step, and
 * so is one that ends in part of a word, as whole words are read. With channels that make poor
 * words a panel is LS_TILE_COLUMNS columns of copied patches (patch.h), whatever their taps. dy may
 * also be made slice by slice (weight_gradient.h), the block's filters of it.
 *
 * With few channels and filters that fill words, a block is TRANSPOSED: rows are floats of filter
 * rows, columns are filters, of which a word goes through the slice at a time (filter_rows.h). A dy
 * that is made is made for that word, and in parts.
 */
#include "kernels/host/chain_rows.h"
#include "kernels/host/filter_rows.h"
#include "kernels/host/pack.h"
#include "kernels/host/patch.h"
#include "kernels/host/weight_block.h"
#include "sizes.h"

/* Tiles of filters from which on a copy of a panel is worth its cost. */
enum { TILES_PER_COPY = 11 };
/* Floats of dy that are made at once for a word of filters, unless two rows are more: 16 KiB, half
 * of the smallest first level cache that is common. */
enum { PART_FLOATS = 4096 };

/* A panel: columns [column, column + count) of dw, `place` of the block's planes. */
typedef struct {
    size_t column, count, place;
} panel;

static panel panel_at(const ls_weight_job *j, const ls_weight_block *b, size_t i)
{
    const size_t index = b->first_panel + i, span = index / j->span_panels;
    const size_t within = (index - span * j->span_panels) * LS_TILE_COLUMNS;
    return (panel){span * j->span + within, ls_min_size(LS_TILE_COLUMNS, j->span - within),
                   i * LS_TILE_COLUMNS};
}

static float *panel_in(ls_weight_plane p, const panel *at)
{
    return p.p + (p.is_dw ? at->column : at->place);
}

/* The places of a slice that are multiplied at once; dy at the first one, for the block's first
 * filter, and the floats from a place's to the next one's. */
typedef struct {
    size_t place, depth;
    bool first, last; /* of the slice */
    const float *dy;
    size_t dy_step;
} stretch;

/* Output columns [*first, *last) whose tap column is inside the image. */
static void find_columns(const ls_conv_shape *s, size_t tap, size_t *first, size_t *last)
{
    const size_t limit = s->width + s->pad_left;
    *first = tap < s->pad_left ? ls_ceil_div(s->pad_left - tap, s->stride_width) : 0;
    *last = tap < limit ? ls_min_size(s->out_width, (limit - tap - 1) / s->stride_width + 1) : 0;
}

/* The runs of a stretch for a tap: `a` from t.dy, `b` from the tap's first channel in x. */
static size_t list_runs(const ls_weight_job *j, stretch t, size_t tap, ls_tile_run *run)
{
    const ls_conv_shape *s = &j->args->shape;
    if (j->source == LS_FROM_ROWS) {
        run[0] = (ls_tile_run){0, t.place * s->channels, t.depth, LS_RUN_ALL};
        return 1;
    }
    const size_t r = tap / s->kernel_width, c = tap % s->kernel_width;
    size_t first_q, last_q, runs = 0;
    find_columns(s, c, &first_q, &last_q);
    if (first_q >= last_q) return 0;
    const size_t first = t.place / s->out_width, count = t.depth / s->out_width;
    const size_t b_step = s->stride_width * s->channels;
    size_t n = first / s->out_height, p = first % s->out_height;
    for (size_t i = 0; i < count; i++) {
        const size_t h = p * s->stride_height + r - s->pad_top; /* above the image it is huge */
        if (h < s->height) {
            const size_t q = first_q * s->stride_width + c - s->pad_left;
            const ls_tile_run next = {(i * s->out_width + first_q) * t.dy_step,
                                      ((n * s->height + h) * s->width + q) * s->channels,
                                      last_q - first_q, LS_RUN_ALL};
            ls_tile_run *before = runs > 0 ? &run[runs - 1] : NULL;
            if (before != NULL && before->a + before->depth * t.dy_step == next.a
                && before->b + before->depth * b_step == next.b) {
                before->depth += next.depth;
            } else {
                run[runs++] = next;
            }
        }
        if (++p < s->out_height) continue;
        p = 0;
        n++;
    }
    return runs;
}

/* Tiles of a panel. */
static size_t tile_count(const ls_weight_block *b, const panel *at)
{
    return ls_ceil_div(b->rows, at->count <= LS_LANES ? LS_NARROW_ROWS : LS_TILE_ROWS);
}

/* Give the tile its B: in x, or in the block's panel after copying. In the last panel of PATCHES,
 * columns that dw does not have keep what scratch memory held: multiplied, and never stored. */
static void lay_out(const ls_weight_job *j, const ls_weight_block *b, stretch t, const panel *at,
                    ls_tile_run *run, ls_tile *tile)
{
    const ls_conv_weight_gradient_args *a = j->args;
    const ls_conv_shape *s = &a->shape;
    tile->run = run;
    tile->b = b->panel;
    tile->b_step = LS_TILE_COLUMNS;
    tile->runs = 0;
    if (t.depth == 0) return; /* no samples: x may be NULL */
    if (j->source == LS_FROM_PATCHES) {
        LS_HOST(patch_copy)(s, a->x, at->column, at->column + at->count, t.place, t.depth, b->panel,
                            LS_TILE_COLUMNS);
        run[0] = (ls_tile_run){0, 0, t.depth, LS_RUN_ALL};
        tile->runs = 1;
        return;
    }
    const size_t tap = at->column / s->channels, channel = at->column % s->channels;
    const size_t b_step = s->stride_width * s->channels;
    tile->runs = list_runs(j, t, tap, run);
    if (tile_count(b, at) < TILES_PER_COPY && at->count % LS_LANES == 0) {
        tile->b = a->x + channel;
        tile->b_step = b_step;
        return;
    }
    size_t done = 0;
    for (size_t i = 0; i < tile->runs; i++) {
        ls_pack_rows(b->panel + done, a->x + run[i].b + channel, b_step, run[i].depth, at->count);
        run[i].b = done;
        done += run[i].depth * LS_TILE_COLUMNS;
    }
}

/* Ask for part i of n of a stretch's words of x for the panel to the right, in the second level
 * cache: the first has none to spare. Only where x is read by rows, in place: a line of each is no
 * pattern that the processor would follow by itself. */
LS_ALWAYS_INLINE void fetch_panel(const ls_weight_job *j, stretch t, const panel *next, size_t i,
                                  size_t n)
{
    enum { SECOND_LEVEL = 2 };
    const size_t step = j->args->shape.channels;
    const float *x = j->args->x + next->column;
    for (size_t k = t.place + i * t.depth / n; k < t.place + (i + 1) * t.depth / n; k++) {
        for (size_t c = 0; c < next->count; c += LS_LANES) {
            __builtin_prefetch(x + k * step + c, 0, SECOND_LEVEL);
        }
    }
}

/* The tiles of one panel, from the top row down: rows are dealt to them as evenly as may be. */
static void run_panel(const ls_weight_job *j, const ls_weight_block *b, const ls_weight_slice *s,
                      stretch t, size_t index)
{
    const panel at = panel_at(j, b, index);
    const ls_weight_plane unfinished = ls_weight_scratch(b, 0), to = t.last ? s->to : unfinished;
    ls_tile_run run[LS_TILE_RUNS_MAX];
    ls_tile_source add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    for (int m = 0; m < s->add_count; m++) {
        add[m] = (ls_tile_source){panel_in(s->add[m], &at), s->add[m].step};
    }
    ls_tile tile = {
        .columns = at.count,
        .a = t.dy,
        .a_row_step = 1,
        .a_step = t.dy_step,
        .from = {t.first ? NULL : panel_in(unfinished, &at), unfinished.step},
        .finish = t.last,
        .add_count = s->add_count,
        .add = add,
        .to = panel_in(to, &at),
        .to_step = to.step,
    };
    lay_out(j, b, t, &at, run, &tile);
    const size_t tiles = tile_count(b, &at);
    const bool fetches = j->source == LS_FROM_ROWS && tile.b != b->panel && index + 1 < b->panels;
    const panel next = panel_at(j, b, index + fetches);
    for (size_t i = 0, row = 0; i < tiles; i++) {
        if (fetches) fetch_panel(j, t, &next, i, tiles);
        const size_t rows = (i + 1) * b->rows / tiles - row;
        tile.rows = (int)rows;
        LS_HOST(tile)(&tile);
        row += rows;
        tile.a += rows;
        tile.to += rows * tile.to_step;
        if (tile.from.p != NULL) tile.from.p += rows * tile.from.step;
        for (int m = 0; m < s->add_count; m++) add[m].p += rows * add[m].step;
    }
}

/* Make output rows [row, row + rows) of the slice's dy for `filters` filters from `filter` on. */
static float *make_rows(const ls_weight_job *j, const ls_weight_block *b, const ls_weight_slice *s,
                        size_t row, size_t rows, size_t filter, size_t filters)
{
    const ls_slice_part part = {
        .leaf = s->leaf,
        .index = s->index,
        .row = s->first_place / j->args->shape.out_width + row,
        .rows = rows,
        .filter = filter,
        .filters = filters,
        .is_first = (j->source == LS_FROM_GRADIENT ? b->first_row : b->first_panel) == 0,
    };
    return j->make(j->context, &part, b->made);
}

/* The whole slice as one stretch; its dy is made, or where it lies. */
static stretch take_gradient(const ls_weight_job *j, const ls_weight_block *b,
                             const ls_weight_slice *s)
{
    const ls_conv_shape *shape = &j->args->shape;
    stretch all = {.place = s->first_place, .depth = s->last_place - s->first_place};
    if (all.depth == 0) { /* dy may be NULL: steps through it, where nothing is read, need memory */
        all.dy = b->panel;
        return all;
    }
    if (j->make == NULL) {
        all.dy = j->args->dy + s->first_place * shape->filters + b->first_row;
        all.dy_step = shape->filters;
        return all;
    }
    float *sum = make_rows(j, b, s, 0, all.depth / shape->out_width, b->first_row, b->rows);
    if (sum != NULL) LS_HOST(chain_rows)(b->made, all.depth, b->rows, b->rows, sum);
    all.dy = b->made;
    all.dy_step = b->rows;
    return all;
}

/* A word of a transposed block's filters, from `f` of the block on. dy is made in parts that stay
 * in the first level cache until they are multiplied. */
static void run_filter_word(const ls_weight_job *j, const ls_weight_block *b,
                            const ls_weight_slice *s, const ls_filter_rows *rows,
                            size_t first_filter, size_t f)
{
    const ls_conv_shape *shape = &j->args->shape;
    /* Rows are made in pairs: a window of 2 x 2 has both. */
    const size_t pairs = ls_ceil_div(rows->count, 2);
    const size_t fits = ls_max_size(PART_FLOATS / (2 * shape->out_width * LS_LANES), 1);
    const size_t parts = j->make == NULL ? 1 : ls_weight_parts(pairs, fits);
    ls_filter_part part = {.dy = b->made, .dy_step = LS_LANES, .filter = f};
    if (LS_HOST(filter_rows_take_windows)(rows, j->windows)) {
        part.rows = rows->count;
        part.pool = j->windows;
        part.pool_filter = first_filter + f;
        part.sum = make_rows(j, b, s, 0, 0, first_filter + f, LS_LANES);
        LS_HOST(filter_rows_run)(rows, &part);
        return;
    }
    for (size_t i = 0; i < parts; i++, part.row += part.rows) {
        part.rows = ls_min_size(2 * ((i + 1) * pairs / parts), rows->count) - part.row;
        if (j->make == NULL && rows->count > 0) {
            part.dy = j->args->dy + s->first_place * shape->filters + first_filter + f;
            part.dy_step = shape->filters;
        } else if (rows->count > 0) {
            part.sum = make_rows(j, b, s, part.row, part.rows, first_filter + f, LS_LANES);
        }
        LS_HOST(filter_rows_run)(rows, &part);
    }
}

/* A transposed block, whose panels are filters. */
static void run_filter_rows(const ls_weight_job *j, const ls_weight_block *b,
                            const ls_weight_slice *s)
{
    const ls_conv_weight_gradient_args *a = j->args;
    const size_t width = a->shape.out_width;
    ls_tile_source add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    for (int m = 0; m < s->add_count; m++) {
        add[m] = (ls_tile_source){s->add[m].p, s->add[m].step};
    }
    ls_filter_rows rows; /* set field by field: `run` is long */
    rows.shape = &a->shape;
    rows.x = a->x;
    rows.first = s->first_place / width;
    rows.count = s->last_place / width - rows.first;
    rows.first_filter_row = b->first_row;
    rows.filter_rows = b->rows;
    rows.scratch = b->panel;
    rows.add_count = s->add_count;
    rows.add = add;
    rows.to = s->to.p;
    rows.to_step = s->to.step;
    LS_HOST(filter_rows_begin)(&rows);
    size_t first_filter;
    const size_t filters = ls_weight_filters(j, b, &first_filter);
    for (size_t f = 0; f < filters; f += LS_LANES) {
        run_filter_word(j, b, s, &rows, first_filter, f);
    }
}

void LS_HOST(weight_slice)(const ls_weight_job *j, const ls_weight_block *b,
                           const ls_weight_slice *s)
{
    if (j->source == LS_FROM_GRADIENT) {
        run_filter_rows(j, b, s);
        return;
    }
    const stretch all = take_gradient(j, b, s);
    const size_t unit = j->source == LS_FROM_TAPS ? j->args->shape.out_width : 1;
    const size_t count = ls_weight_parts(all.depth, j->stretch_places);
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t end = i + 1 == count ? all.depth
                                          : (i + 1) * (all.depth / unit) / count * unit;
        const stretch t = {all.place + begin,
                           end - begin,
                           i == 0,
                           i + 1 == count,
                           all.dy + begin * all.dy_step,
                           all.dy_step};
        begin = end;
        for (size_t k = 0; k < b->panels; k++) run_panel(j, b, s, t, k);
    }
}
