/* SPDX-License-Identifier: MIT */
/* weight_gradient.c -- the gradient of a convolution's (or a dense layer's) weights.
 *
 * dw is a matrix [filters, columns], columns = (r, s, channel). It is a batch sum: for every slice
 * of a shard a product dy^T patches over the slice's output places, slices added by the tree,
 * shards by the fold (docs/numerics.md 2.2, fold.h). dw is cut into blocks, a block belongs to one
 * thread, and the block stays in cache while the sum runs over all places:
 *
 *     for each leaf of the fold, for each slice of it
 *         for each stretch of some hundred places of the slice
 *             for each panel of the block: lay out B, for each tile of filters: the micro-kernel
 *
 * Neither operand is copied as a rule. Element (filter, place) of A is
 * dy[place * filters + filter], and the micro-kernel reads A at any two steps. B's row for a place
 * is its patch, and a panel is at most LS_TILE_COLUMNS channels of ONE tap (r, s): these lie in x
 * where the place's window has the tap, and those of the next place of an output row a constant
 * step further on. So a stretch is a run per output row, without the places whose tap is padding.
 * With many tiles of filters a panel is copied to scratch memory once, to be read at a short step;
 * with channels that make poor vector words a panel is LS_TILE_COLUMNS columns of copied patches
 * (patch.h), whatever their taps. dy may also be made slice by slice (weight_gradient.h), the
 * block's filters of it. With few channels and filters that fill words, a block is TRANSPOSED: rows
 * are floats of filter rows, columns are filters, and a slice is one call of windows.h.
 *
 * Additions of the tree cost no pass of their own. The sum of a slice leaves the registers only
 * after all that is to be added to it at this point was added: the entries of the slice stack, by
 * ls_tree_adds_after, and after a shard's last slice the slots that the fold names. So a block has
 * several PLANES of scratch memory, each as large as the block:
 *
 *     plane 0                    a chain that is not finished (places of a slice that follow)
 *     plane 1 .. stack           the slice stack
 *     then                       the fold's temporaries; its pieces are in dw itself, but for a
 *                                transposed block: then they come first here, and are copied from
 *                                dw before and to dw after the block's leaves
 *
 * Threads share the blocks of dw. Where there are not enough, each would lay out the same B for a
 * few filters of its own; given the memory, they share the leaves instead, whose sums are then
 * folded one after the other.
 *
 * A shard without samples is +0, and so may be a whole slot. To add +0 changes nothing, so such a
 * slot is only marked, and neither written nor read.
 *
 * A dense layer of a small batch has a leaf of few places and a huge dw: the planes' traffic, not
 * the multiplications, would set the pace. There a block is a few tiles, and its planes stay in the
 * first level cache or near it.
 */
#include "kernels/host/fold_rows.h"
#include "kernels/host/pack.h"
#include "kernels/host/patch.h"
#include "kernels/host/product.h"
#include "kernels/host/windows.h"
#include "kernels/host/weight_gradient.h"
#include "numerics.h"

/* Places up to which a dense layer, or any other whose patches are rows, goes by small blocks. */
enum { SMALL_PLACES = 2048 };
/* The largest block, and the largest small one. */
enum { BLOCK_ROWS = 256, BLOCK_PANELS = 256 / LS_TILE_COLUMNS };
enum { SMALL_ROWS = 42, SMALL_PANELS = 64 / LS_TILE_COLUMNS };
/* Elements of dy of a block and a stretch: a part of the second level cache. */
enum { STRETCH_FLOATS = 1 << 16, STRETCH_MAX = 1024 };
/* Tiles of filters from which on a copy of a panel is worth its cost. */
enum { TILES_PER_COPY = 4 };

/* Places of a leaf from which on to fold its sum is little work beside making it. */
enum { FOLDED_PLACES = 256 };

enum { SCRATCH_FLOATS = LS_SCRATCH_BYTES / sizeof(float) };

/* Where the rows of B come from. */
typedef enum {
    ROWS,    /* they are the rows of x: a run has any number of places */
    TAPS,    /* of x, a run per output row */
    PATCHES, /* copied */
    WINDOWS  /* dy: the block is transposed */
} source;

static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Parts of at most `part` that make up `length`; one empty part for 0. A division is worth avoiding
 * where a leaf is a handful of places. */
static size_t part_count(size_t length, size_t part)
{
    return length <= part ? 1 : ceil_div(length, part);
}

typedef struct {
    const ls_conv_weight_gradient_args *args;
    ls_slice_fn *make;      /* NULL: dy is in memory */
    const void *context;    /* of make */
    ls_pool *pool;
    size_t columns;         /* of dw */
    size_t row_count;       /* of what blocks are cut from: filters, or filter rows (WINDOWS) */
    size_t row_unit;        /* rows of a plane for each of them */
    size_t panel_columns;   /* LS_TILE_COLUMNS, or a word where panels are few (WINDOWS) */
    size_t scratch_floats;  /* in front of the planes: a panel, or a band */
    source source;
    size_t span;            /* columns that a panel does not cross: a tap's, or all */
    size_t span_panels;
    size_t slice_rows;      /* output rows of a slice */
    size_t stretch_places;  /* at most; with TAPS whole output rows */
    int stack_planes;       /* entries of the slice stack */
    size_t column_tiles;    /* panels */
    size_t block_rows, block_panels; /* the largest block */
    float *leaf_sums;       /* [leaf][filters, columns], where threads share the leaves; or NULL */
    ls_split split;         /* into tasks */
} job;

/* A block of dw and its memory. Its rows are dealt to its tiles as evenly as may be. */
typedef struct {
    size_t first_row, rows, row_tiles, first_panel, panels;
    float *panel;
    float *made;            /* a slice of dy that is not in memory */
    float *planes;
    size_t plane_step, plane_floats;
    /* [slots] +0 everywhere, whatever the plane holds */
    bool is_zero[LS_SHARD_MAX + LS_FOLD_MERGE_MAX];
} block;

/* A matrix of the block's rows somewhere in memory: dw itself, or a plane. */
typedef struct {
    float *p;
    size_t step;
    bool is_dw; /* then p is at column 0 of dw, else of the block */
} plane;

static plane scratch_plane(const block *b, int index)
{
    return (plane){b->planes + (size_t)index * b->plane_floats, b->plane_step, false};
}

/* Slot `slot` of the fold: a piece in dw, or a temporary. */
static plane slot_plane(const job *j, const block *b, int slot)
{
    const ls_conv_weight_gradient_args *a = j->args;
    if (j->source == WINDOWS) return scratch_plane(b, 1 + j->stack_planes + slot);
    if (slot >= a->fold->piece_count) {
        return scratch_plane(b, 1 + j->stack_planes + slot - a->fold->piece_count);
    }
    float *piece = a->dw + (size_t)slot * a->piece_stride;
    return (plane){piece + b->first_row * j->columns, j->columns, true};
}

/* A panel: columns [column, column + count) of dw, `place` of the block's planes. */
typedef struct {
    size_t column, count, place;
} panel;

static panel panel_at(const job *j, const block *b, size_t i)
{
    const size_t index = b->first_panel + i, span = index / j->span_panels;
    const size_t within = (index - span * j->span_panels) * LS_TILE_COLUMNS;
    return (panel){span * j->span + within, min_size(LS_TILE_COLUMNS, j->span - within),
                   i * LS_TILE_COLUMNS};
}

static float *panel_in(plane p, const panel *at)
{
    return p.p + (p.is_dw ? at->column : at->place);
}

/* -- one slice -------------------------------------------------------------------------------- */

/* Where the sum of one slice goes, and what is added to it on the way. */
typedef struct {
    size_t first_place, last_place;
    int leaf;
    size_t index; /* of the leaf's slices */
    int add_count;
    plane add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    plane to;
} slice;

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
    *first = tap < s->pad_left ? ceil_div(s->pad_left - tap, s->stride_width) : 0;
    *last = tap < limit ? min_size(s->out_width, (limit - tap - 1) / s->stride_width + 1) : 0;
}

/* The runs of a stretch for a tap: `a` from t.dy, `b` from the tap's first channel in x. */
static size_t list_runs(const job *j, stretch t, size_t tap, ls_tile_run *run)
{
    const ls_conv_shape *s = &j->args->shape;
    if (j->source == ROWS) {
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

/* Give the tile its B: in x, or in the block's panel after copying. In the last panel of PATCHES,
 * columns that dw does not have keep what scratch memory held: multiplied, and never stored. */
static void lay_out(const job *j, const block *b, stretch t, const panel *at, ls_tile_run *run,
                    ls_tile *tile)
{
    const ls_conv_weight_gradient_args *a = j->args;
    const ls_conv_shape *s = &a->shape;
    tile->run = run;
    tile->b = b->panel;
    tile->b_step = LS_TILE_COLUMNS;
    tile->runs = 0;
    if (t.depth == 0) return; /* no samples: x may be NULL */
    if (j->source == PATCHES) {
        LS_HOST(patch_copy)(s, a->x, at->column, at->column + at->count, t.place, t.depth, b->panel,
                            LS_TILE_COLUMNS);
        run[0] = (ls_tile_run){0, 0, t.depth, LS_RUN_ALL};
        tile->runs = 1;
        return;
    }
    const size_t tap = at->column / s->channels, channel = at->column % s->channels;
    const size_t b_step = s->stride_width * s->channels;
    tile->runs = list_runs(j, t, tap, run);
    if (b->row_tiles < TILES_PER_COPY && at->count % LS_LANES == 0) {
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

/* The tiles of one panel, from the top row down. */
static void run_panel(const job *j, const block *b, const slice *s, stretch t, size_t index)
{
    const panel at = panel_at(j, b, index);
    const plane unfinished = scratch_plane(b, 0), to = t.last ? s->to : unfinished;
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
    for (size_t i = 0, row = 0; i < b->row_tiles; i++) {
        const size_t rows = (i + 1) * b->rows / b->row_tiles - row;
        tile.rows = (int)rows;
        LS_HOST(tile)(&tile);
        row += rows;
        tile.a += rows;
        tile.to += rows * tile.to_step;
        if (tile.from.p != NULL) tile.from.p += rows * tile.from.step;
        for (int m = 0; m < s->add_count; m++) add[m].p += rows * add[m].step;
    }
}

/* Filters [*first, *first + count) of a block. */
static size_t block_filters(const job *j, const block *b, size_t *first)
{
    *first = b->first_row;
    if (j->source != WINDOWS) return b->rows;
    *first = b->first_panel * j->panel_columns;
    return min_size(b->panels * j->panel_columns, j->args->shape.filters - *first);
}

/* The whole slice as one stretch; its dy is made, or where it lies. */
static stretch take_gradient(const job *j, const block *b, const slice *s)
{
    const ls_conv_shape *shape = &j->args->shape;
    stretch all = {.place = s->first_place, .depth = s->last_place - s->first_place};
    size_t first;
    const size_t filters = block_filters(j, b, &first);
    if (all.depth == 0) { /* dy may be NULL: steps through it, where nothing is read, need memory */
        all.dy = b->panel;
        return all;
    }
    if (j->make == NULL) {
        all.dy = j->args->dy + s->first_place * shape->filters + first;
        all.dy_step = shape->filters;
        return all;
    }
    const ls_slice_part part = {
        .leaf = s->leaf,
        .index = s->index,
        .row = s->first_place / shape->out_width,
        .rows = all.depth / shape->out_width,
        .filter = first,
        .filters = filters,
        .is_first = (j->source == WINDOWS ? b->first_row : b->first_panel) == 0,
    };
    j->make(j->context, &part, b->made);
    all.dy = b->made;
    all.dy_step = filters;
    return all;
}

/* A transposed block, whose panels are filters. */
static void run_windows(const job *j, const block *b, const slice *s)
{
    const ls_conv_weight_gradient_args *a = j->args;
    const size_t width = a->shape.out_width;
    ls_tile_source add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    for (int m = 0; m < s->add_count; m++) {
        add[m] = (ls_tile_source){s->add[m].p, s->add[m].step};
    }
    const stretch all = take_gradient(j, b, s);
    size_t first_filter;
    const ls_windows windows = {
        .shape = &a->shape,
        .x = a->x,
        .first = all.place / width,
        .count = all.depth / width,
        .first_filter_row = b->first_row,
        .filter_rows = b->rows,
        .dy = all.dy,
        .dy_step = all.dy_step,
        .filters = block_filters(j, b, &first_filter),
        .band = b->panel,
        .add_count = s->add_count,
        .add = add,
        .to = s->to.p,
        .to_step = s->to.step,
    };
    LS_HOST(windows_run)(&windows);
}

static void run_slice(const job *j, const block *b, const slice *s)
{
    if (j->source == WINDOWS) {
        run_windows(j, b, s);
        return;
    }
    const stretch all = take_gradient(j, b, s);
    const size_t unit = j->source == TAPS ? j->args->shape.out_width : 1;
    const size_t count = part_count(all.depth, j->stretch_places);
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

/* -- the tree and the fold -------------------------------------------------------------------- */

static float *leaf_sum(const job *j, int leaf)
{
    return j->leaf_sums + (size_t)leaf * j->args->shape.filters * j->columns;
}

/* Add what the fold adds to leaf `leaf`, and say where the sum goes. False: the sum is +0, or what
 * is there already. */
static bool end_leaf(const job *j, block *b, int leaf, slice *s)
{
    const ls_fold *fold = j->args->fold;
    const int to = fold->store[leaf];
    if (j->leaf_sums != NULL) {
        s->to = j->source == WINDOWS
            ? slot_plane(j, b, 0)
            : (plane){leaf_sum(j, leaf) + b->first_row * j->columns, j->columns, true};
        return true;
    }
    const bool is_empty = s->first_place == s->last_place;
    int only = -1;
    for (int m = 0; m < fold->merge_count[leaf]; m++) {
        const int slot = fold->merge[leaf][m];
        if (b->is_zero[slot]) continue;
        s->add[s->add_count++] = slot_plane(j, b, slot);
        only = slot;
    }
    s->to = slot_plane(j, b, to);
    if (is_empty && s->add_count == 1 && only == to) return false;
    b->is_zero[to] = is_empty && s->add_count == 0 && to >= fold->piece_count;
    return !b->is_zero[to];
}

static void run_leaf(const job *j, block *b, int leaf)
{
    const ls_conv_shape *shape = &j->args->shape;
    const ls_fold *fold = j->args->fold;
    const size_t first = fold->sample[leaf] * shape->out_height;
    const size_t last = fold->sample[leaf + 1] * shape->out_height;
    const size_t count = part_count(last - first, j->slice_rows);
    int top = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t row = first + i * j->slice_rows;
        slice s; /* set field by field: `add` is long and mostly unused */
        s.first_place = row * shape->out_width;
        s.last_place = min_size(row + j->slice_rows, last) * shape->out_width;
        s.leaf = leaf;
        s.index = i;
        s.add_count = 0;
        for (int adds = ls_tree_adds_after(i, count); adds > 0; adds--) {
            s.add[s.add_count++] = scratch_plane(b, top--);
        }
        if (i + 1 < count) s.to = scratch_plane(b, ++top);
        else if (!end_leaf(j, b, leaf, &s)) return;
        run_slice(j, b, &s);
    }
}

/* -- blocks and tasks ------------------------------------------------------------------------- */

/* Move a transposed block's part between a plane and a matrix like dw. */
static void transpose(const job *j, const block *b, plane p, float *matrix, bool to_matrix)
{
    size_t first_filter;
    const size_t filters = block_filters(j, b, &first_filter);
    float *part = matrix + first_filter * j->columns + b->first_row * j->row_unit;
    for (size_t f = 0; f < filters; f++) {
        for (size_t e = 0; e < b->rows * j->row_unit; e++) {
            float *in_plane = p.p + e * p.step + f, *in_matrix = part + f * j->columns + e;
            if (to_matrix) *in_matrix = *in_plane;
            else *in_plane = *in_matrix;
        }
    }
}

/* The pieces of a transposed block. */
static void move_pieces(const job *j, const block *b, bool to_dw)
{
    const ls_conv_weight_gradient_args *a = j->args;
    for (int piece = 0; piece < a->fold->piece_count; piece++) {
        transpose(j, b, slot_plane(j, b, piece), a->dw + (size_t)piece * a->piece_stride, to_dw);
    }
}

/* Places of dy that a block has room for. */
static size_t made_places(const job *j)
{
    return j->make == NULL ? 0 : j->slice_rows * j->args->shape.out_width;
}

static block block_at(const job *j, size_t first_row, size_t rows, size_t first_panel,
                      size_t panels, float *scratch)
{
    const size_t width = panels * j->panel_columns;
    float *made = scratch + j->scratch_floats;
    return (block){
        .first_row = first_row,
        .rows = rows,
        .row_tiles = ceil_div(rows, LS_TILE_ROWS),
        .first_panel = first_panel,
        .panels = panels,
        .panel = scratch,
        .made = made,
        .planes = made + made_places(j) * (j->source == WINDOWS ? width : rows),
        .plane_step = width,
        .plane_floats = rows * j->row_unit * width,
    };
}

static void run_block(const job *j, block b)
{
    if (j->source == WINDOWS) move_pieces(j, &b, false);
    for (int leaf = 0; leaf < j->args->fold->leaf_count; leaf++) run_leaf(j, &b, leaf);
    if (j->source == WINDOWS) move_pieces(j, &b, true);
}

/* Task: all of dw for one leaf. */
static void run_leaf_task(void *arg, size_t leaf, int thread)
{
    const job *j = arg;
    block b = block_at(j, 0, j->row_count, 0, j->column_tiles, ls_pool_scratch(j->pool, thread));
    run_leaf(j, &b, (int)leaf);
    if (j->source == WINDOWS) transpose(j, &b, slot_plane(j, &b, 0), leaf_sum(j, (int)leaf), true);
}

static void run_task(void *arg, size_t task, int thread)
{
    const job *j = arg;
    float *scratch = ls_pool_scratch(j->pool, thread);
    const size_t r = task / j->split.column_parts, c = task % j->split.column_parts;
    const size_t first_row = r * j->row_count / j->split.row_parts;
    const size_t last_row = (r + 1) * j->row_count / j->split.row_parts;
    const size_t first_panel = c * j->column_tiles / j->split.column_parts;
    const size_t last_panel = (c + 1) * j->column_tiles / j->split.column_parts;
    for (size_t k = first_panel; k < last_panel; k += j->block_panels) {
        const size_t panels = min_size(j->block_panels, last_panel - k);
        for (size_t row = first_row; row < last_row; row += j->block_rows) {
            run_block(j, block_at(j, row, min_size(j->block_rows, last_row - row), k, panels,
                                  scratch));
        }
    }
}

/* -- set-up ----------------------------------------------------------------------------------- */

/* Is the patch of place i simply row i of x? */
static bool patches_are_rows(const ls_conv_shape *s)
{
    return s->kernel_height == 1 && s->kernel_width == 1 && s->stride_height == 1
           && s->stride_width == 1 && s->pad_top == 0 && s->pad_left == 0
           && s->out_height == s->height && s->out_width == s->width;
}

/* Entries that the slice stack needs for the leaf with the most slices: between two slices it holds
 * one per set bit of the number of slices done. */
static int stack_planes(const job *j)
{
    const ls_fold *fold = j->args->fold;
    size_t most = 1;
    for (int i = 0; i < fold->leaf_count; i++) {
        const size_t rows = (fold->sample[i + 1] - fold->sample[i]) * j->args->shape.out_height;
        if (part_count(rows, j->slice_rows) > most) most = part_count(rows, j->slice_rows);
    }
    int bits = 0;
    for (size_t done = most - 1; done > 0; done /= 2) bits++;
    return bits;
}

/* Planes of a block. */
static size_t plane_count(const job *j)
{
    const ls_fold *fold = j->args->fold;
    const int slots = fold->slot_count - (j->source == WINDOWS ? 0 : fold->piece_count);
    return (size_t)(1 + j->stack_planes + slots);
}

/* The largest block that fits into scratch memory with all its planes. */
static void choose_block(job *j, bool is_small)
{
    j->block_rows = is_small ? SMALL_ROWS : BLOCK_ROWS;
    j->block_panels = is_small ? SMALL_PANELS : BLOCK_PANELS;
    while (j->scratch_floats + LS_TILE_COLUMNS * j->block_panels * plane_count(j) * j->block_rows
           + made_places(j) * j->block_rows > SCRATCH_FLOATS) {
        if (j->block_panels > 1) j->block_panels /= 2;
        else j->block_rows /= 2;
    }
}

/* A transposed block, if the shape allows it and one panel of all planes has room. */
static bool choose_windows(job *j)
{
    const ls_conv_shape *s = &j->args->shape;
    j->source = WINDOWS;
    j->scratch_floats = LS_HOST(windows_floats)(s, j->slice_rows);
    if (j->scratch_floats == 0) return false;
    /* Threads share the filters, not the filter rows: then no slice of dy is made twice. */
    const size_t threads = (size_t)ls_pool_thread_count(j->pool);
    j->panel_columns = s->filters < threads * LS_TILE_COLUMNS ? LS_LANES : LS_TILE_COLUMNS;
    const size_t panel_floats =
        j->panel_columns * (j->columns * plane_count(j) + made_places(j));
    j->block_panels = (SCRATCH_FLOATS - j->scratch_floats) / panel_floats;
    if (j->block_panels == 0) return false;
    j->block_panels = min_size(j->block_panels, BLOCK_PANELS);
    j->block_rows = j->row_count = s->kernel_height;
    j->row_unit = s->kernel_width * s->channels;
    j->column_tiles = ceil_div(s->filters, j->panel_columns);
    return true;
}

/* Where B comes from, how many places at a time, and the block. */
static void choose_source(job *j)
{
    if (choose_windows(j)) return;
    const ls_conv_shape *s = &j->args->shape;
    const size_t rows = min_size(s->filters, BLOCK_ROWS);
    const size_t places = min_size(STRETCH_FLOATS / rows, STRETCH_MAX);
    j->source = PATCHES;
    j->stretch_places = LS_BLOCK_DEPTH;
    if (patches_are_rows(s)) {
        j->source = ROWS;
        j->stretch_places = places;
    } else if (s->channels >= LS_LANES && s->out_width > 0 && s->out_width <= LS_BLOCK_DEPTH) {
        j->source = TAPS;
        j->stretch_places = min_size(places / s->out_width, LS_TILE_RUNS_MAX) * s->out_width;
    }
    j->span = j->source == PATCHES ? j->columns : s->channels;
    j->span_panels = ceil_div(j->span, LS_TILE_COLUMNS);
    j->column_tiles = j->columns / j->span * j->span_panels;
    j->row_count = s->filters;
    j->row_unit = 1;
    j->panel_columns = LS_TILE_COLUMNS;
    j->scratch_floats = j->stretch_places * LS_TILE_COLUMNS;
    choose_block(j, j->source == ROWS
                        && s->samples * s->out_height * s->out_width <= SMALL_PLACES);
}

/* Are there leaves for all threads, but not blocks, and does folding cost little beside them? */
static bool shares_leaves(const job *j, size_t places)
{
    const size_t leaves = (size_t)j->args->fold->leaf_count;
    const size_t threads = (size_t)ls_pool_thread_count(j->pool);
    return threads > 1 && leaves >= threads && j->row_count <= j->block_rows
           && j->column_tiles <= j->block_panels && places >= leaves * FOLDED_PLACES;
}

ls_status LS_HOST(weight_gradient_of_slices)(ls_stream *stream,
                                             const ls_conv_weight_gradient_args *a,
                                             ls_slice_fn *make, const void *context, float *room)
{
    const ls_conv_shape *s = &a->shape;
    const size_t places = s->samples * s->out_height * s->out_width;
    job j = {
        .args = a,
        .make = make,
        .context = context,
        .pool = stream->device->pool,
        .columns = s->kernel_height * s->kernel_width * s->channels,
        .slice_rows = ls_slice_rows(s->out_width),
    };
    if (a->fold->leaf_count == 0 || s->filters == 0 || j.columns == 0) return LS_OK;
    j.stack_planes = stack_planes(&j);
    choose_source(&j);
    if (room != NULL && shares_leaves(&j, places)) {
        j.leaf_sums = room;
        ls_pool_run(j.pool, (size_t)a->fold->leaf_count, run_leaf_task, &j);
        ls_fold_rows(a->fold, room, s->filters * j.columns, a->dw, a->piece_stride);
        return LS_OK;
    }
    size_t row_tiles = ceil_div(j.row_count, LS_TILE_ROWS);
    if (j.source == WINDOWS && j.column_tiles < (size_t)ls_pool_thread_count(j.pool)) {
        row_tiles = j.row_count;
    }
    const ls_split_problem problem = {
        .tile_rows = LS_TILE_ROWS,
        .row_tiles = row_tiles,
        .column_tiles = j.column_tiles,
        .depth = places,
        .row_tiles_max = row_tiles,
        .column_tiles_max = j.column_tiles,
        .pack_cost = j.source == PATCHES ? 0.3 : 0.05,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(j.pool));
    ls_pool_run(j.pool, j.split.row_parts * j.split.column_parts, run_task, &j);
    return LS_OK;
}

ls_status LS_HOST(conv_weight_gradient)(ls_stream *stream, const ls_conv_weight_gradient_args *a)
{
    return LS_HOST(weight_gradient_of_slices)(stream, a, NULL, NULL, NULL);
}
