/* SPDX-License-Identifier: MIT */
/* weight_gradient.c -- the gradient of a convolution's (or a dense layer's) weights.
 *
 * dw is a matrix [filters, columns], columns = (r, s, channel). It is a batch sum: for every slice
 * of a shard a product dy^T patches over the slice's output places, slices added by the tree,
 * shards by the fold (docs/numerics.md 2.2, fold.h). dw is cut into blocks, a block belongs to one
 * thread, and the block stays in cache while the sum runs over all places:
 *
 *     for each leaf of the fold, for each slice of it
 *         for each LS_BLOCK_DEPTH places of the slice
 *             pack the patches of these places, the block's columns (patch.h)
 *             for each panel, for each tile of filters: the micro-kernel
 *
 * dy needs no packing: element (filter, place) is dy[place * filters + filter], and the
 * micro-kernel reads A at any two steps.
 *
 * Additions of the tree cost no pass of their own. The sum of a slice leaves the registers only
 * after all that is to be added to it at this point was added: the entries of the slice stack, by
 * ls_tree_adds_after, and after a shard's last slice the slots that the fold names. So a block has
 * several PLANES of scratch memory, each as large as the block:
 *
 *     plane 0                    a chain that is not finished (places of a slice that follow)
 *     plane 1 .. stack           the slice stack
 *     then                       the fold's temporaries; its pieces are in dw itself
 *
 * A dense layer of a small batch has a leaf of few places and a huge dw: the planes' traffic, not
 * the multiplications, would set the pace. There a block is a few tiles, its planes stay in the
 * first level cache or near it, and a patch is a contiguous row of x that needs no packing either.
 */
#include "kernels/host/pack.h"
#include "kernels/host/patch.h"
#include "kernels/host/product.h"
#include "numerics.h"

/* Places up to which a dense layer's x is read where it lies, again for every tile of filters. */
enum { DIRECT_PLACES = 2048 };
/* The largest block, and that where x is read directly. */
enum { BLOCK_ROWS = 256, BLOCK_PANELS = 256 / LS_TILE_COLUMNS };
enum { DIRECT_ROWS = 42, DIRECT_PANELS = 64 / LS_TILE_COLUMNS };

enum { SCRATCH_FLOATS = LS_SCRATCH_BYTES / sizeof(float) };

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
    ls_pool *pool;
    size_t columns;         /* of dw */
    size_t slice_rows;      /* output rows of a slice */
    bool is_direct;         /* panels are read from x */
    int stack_planes;       /* entries of the slice stack */
    size_t column_tiles;
    size_t block_rows, block_panels; /* the largest block */
    ls_split split;         /* into tasks */
} job;

/* A block of dw and its memory. Its rows are dealt to its tiles as evenly as may be. */
typedef struct {
    size_t first_row, rows, row_tiles, first_column, columns;
    float *panels;
    float *planes;
    size_t plane_step, plane_floats;
} block;

/* A matrix of the block's shape somewhere in memory. */
typedef struct {
    float *p;
    size_t step;
} plane;

static plane scratch_plane(const block *b, int index)
{
    return (plane){b->planes + (size_t)index * b->plane_floats, b->plane_step};
}

/* Slot `slot` of the fold: a piece in dw, or a temporary. */
static plane slot_plane(const job *j, const block *b, int slot)
{
    const ls_conv_weight_gradient_args *a = j->args;
    if (slot >= a->fold->piece_count) {
        return scratch_plane(b, 1 + j->stack_planes + slot - a->fold->piece_count);
    }
    float *piece = a->dw + (size_t)slot * a->piece_stride;
    return (plane){piece + b->first_row * j->columns + b->first_column, j->columns};
}

/* -- one slice -------------------------------------------------------------------------------- */

/* Where the sum of one slice goes, and what is added to it on the way. */
typedef struct {
    size_t first_place, last_place;
    int add_count;
    plane add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    plane to;
} slice;

/* The places of a slice that are multiplied at once. */
typedef struct {
    size_t place, depth;
    bool first, last; /* of the slice */
} stretch;

/* The tiles of one panel, from the top row down. */
static void run_panel(const job *j, const block *b, const slice *s, stretch t, size_t column)
{
    const ls_conv_weight_gradient_args *a = j->args;
    const plane unfinished = scratch_plane(b, 0);
    const plane to = t.last ? s->to : unfinished;
    ls_tile_source add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    for (int m = 0; m < s->add_count; m++) {
        add[m] = (ls_tile_source){s->add[m].p + column, s->add[m].step};
    }
    const ls_tile_run run = {0, 0, t.depth, LS_RUN_ALL};
    ls_tile tile = {
        .columns = min_size(LS_TILE_COLUMNS, b->columns - column),
        .run = &run,
        .runs = 1,
        .a = a->dy + t.place * a->shape.filters + b->first_row,
        .a_row_step = 1,
        .a_step = a->shape.filters,
        .b = b->panels + column * t.depth,
        .b_step = LS_TILE_COLUMNS,
        .from = {t.first ? NULL : unfinished.p + column, unfinished.step},
        .finish = t.last,
        .add_count = s->add_count,
        .add = add,
        .to = to.p + column,
        .to_step = to.step,
    };
    if (j->is_direct && tile.columns == LS_TILE_COLUMNS) {
        tile.b = a->x + t.place * j->columns + b->first_column + column;
        tile.b_step = j->columns;
    }
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

/* In the last panel of dw, columns that dw does not have keep what the scratch memory held: they
 * are multiplied, and never stored. */
static void pack_panels(const job *j, const block *b, stretch t)
{
    const ls_conv_weight_gradient_args *a = j->args;
    for (size_t column = 0; column < b->columns; column += LS_TILE_COLUMNS) {
        const size_t count = min_size(LS_TILE_COLUMNS, b->columns - column);
        if (j->is_direct && count == LS_TILE_COLUMNS) continue;
        const size_t begin = b->first_column + column;
        LS_HOST(patch_copy)(&a->shape, a->x, begin, begin + count, t.place, t.depth,
                            b->panels + column * t.depth, LS_TILE_COLUMNS);
    }
}

static void run_slice(const job *j, const block *b, const slice *s)
{
    const size_t places = s->last_place - s->first_place;
    const size_t count = part_count(places, LS_BLOCK_DEPTH);
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t end = i + 1 == count ? places : (i + 1) * places / count;
        const stretch t = {s->first_place + begin, end - begin, i == 0, i + 1 == count};
        begin = end;
        pack_panels(j, b, t);
        for (size_t column = 0; column < b->columns; column += LS_TILE_COLUMNS) {
            run_panel(j, b, s, t, column);
        }
    }
}

/* -- the tree and the fold -------------------------------------------------------------------- */

/* Add what the fold adds to leaf `leaf`, and say where the sum goes. */
static void end_leaf(const job *j, const block *b, int leaf, slice *s)
{
    const ls_fold *fold = j->args->fold;
    for (int m = 0; m < fold->merge_count[leaf]; m++) {
        s->add[s->add_count++] = slot_plane(j, b, fold->merge[leaf][m]);
    }
    s->to = slot_plane(j, b, fold->store[leaf]);
}

static void run_leaf(const job *j, const block *b, int leaf)
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
        s.add_count = 0;
        for (int adds = ls_tree_adds_after(i, count); adds > 0; adds--) {
            s.add[s.add_count++] = scratch_plane(b, top--);
        }
        if (i + 1 == count) end_leaf(j, b, leaf, &s);
        else s.to = scratch_plane(b, ++top);
        run_slice(j, b, &s);
    }
}

/* -- blocks and tasks ------------------------------------------------------------------------- */

static void run_block(const job *j, size_t first_row, size_t rows, size_t first_panel,
                      size_t panels, float *scratch)
{
    const size_t width = panels * LS_TILE_COLUMNS, first_column = first_panel * LS_TILE_COLUMNS;
    const block b = {
        .first_row = first_row,
        .rows = rows,
        .row_tiles = ceil_div(rows, LS_TILE_ROWS),
        .first_column = first_column,
        .columns = min_size(width, j->columns - first_column),
        .panels = scratch,
        .planes = scratch + width * LS_BLOCK_DEPTH,
        .plane_step = width,
        .plane_floats = rows * width,
    };
    for (int leaf = 0; leaf < j->args->fold->leaf_count; leaf++) run_leaf(j, &b, leaf);
}

static void run_task(void *arg, size_t task, int thread)
{
    const job *j = arg;
    float *scratch = ls_pool_scratch(j->pool, thread);
    const size_t r = task / j->split.column_parts, c = task % j->split.column_parts;
    const size_t first_row = r * j->args->shape.filters / j->split.row_parts;
    const size_t last_row = (r + 1) * j->args->shape.filters / j->split.row_parts;
    const size_t first_panel = c * j->column_tiles / j->split.column_parts;
    const size_t last_panel = (c + 1) * j->column_tiles / j->split.column_parts;
    for (size_t panel = first_panel; panel < last_panel; panel += j->block_panels) {
        const size_t panels = min_size(j->block_panels, last_panel - panel);
        for (size_t row = first_row; row < last_row; row += j->block_rows) {
            run_block(j, row, min_size(j->block_rows, last_row - row), panel, panels, scratch);
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

/* The largest block that fits into scratch memory with all its planes. */
static void choose_block(job *j)
{
    const ls_fold *fold = j->args->fold;
    const size_t planes = (size_t)(1 + j->stack_planes + fold->slot_count - fold->piece_count);
    j->block_rows = j->is_direct ? DIRECT_ROWS : BLOCK_ROWS;
    j->block_panels = j->is_direct ? DIRECT_PANELS : BLOCK_PANELS;
    while (j->block_panels * LS_TILE_COLUMNS * (LS_BLOCK_DEPTH + planes * j->block_rows)
           > SCRATCH_FLOATS) {
        if (j->block_panels > 1) j->block_panels /= 2;
        else j->block_rows /= 2;
    }
}

ls_status LS_HOST(conv_weight_gradient)(ls_stream *stream, const ls_conv_weight_gradient_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const size_t places = s->samples * s->out_height * s->out_width;
    job j = {
        .args = a,
        .pool = stream->device->pool,
        .columns = s->kernel_height * s->kernel_width * s->channels,
        .slice_rows = ls_slice_rows(s->out_width),
        .is_direct = patches_are_rows(s) && places <= DIRECT_PLACES,
    };
    if (a->fold->leaf_count == 0 || s->filters == 0 || j.columns == 0) return LS_OK;
    const size_t row_tiles = ceil_div(s->filters, LS_TILE_ROWS);
    j.column_tiles = ceil_div(j.columns, LS_TILE_COLUMNS);
    j.stack_planes = stack_planes(&j);
    choose_block(&j);
    const ls_split_problem problem = {
        .row_tiles = row_tiles,
        .column_tiles = j.column_tiles,
        .depth = places,
        .row_tiles_max = row_tiles,
        .column_tiles_max = j.column_tiles,
        .pack_cost = j.is_direct ? 0.05 : 0.3,
    };
    j.split = LS_HOST(split)(&problem, ls_pool_thread_count(j.pool));
    ls_pool_run(j.pool, j.split.row_parts * j.split.column_parts, run_task, &j);
    return LS_OK;
}
