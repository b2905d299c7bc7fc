/* SPDX-License-Identifier: MIT */
/* weight_plan.c -- how a weight gradient is cut: where its operands come from, how large a block of
 * dw is, and which thread does what. See weight_gradient.c. No choice here can change a bit.
 *
 * A block is as large as its planes let it be in scratch memory, up to a size at which dy and x are
 * read seldom enough, and with few filters all of dw: what a stretch brought from memory serves all
 * its taps. (A dense layer of a small batch has leaves of few places and a huge dw: the
 * planes' traffic, not the multiplications, would set the pace. It is dense_gradient.c's.)
 *
 * Threads share the blocks of dw. Where there are not enough, each would lay out the same B for a
 * few filters of its own; given the memory, they share the leaves instead, whose sums are then
 * folded one after the other.
 */
#include "kernels/host/dense_gradient.h"
#include "kernels/host/filter_rows.h"
#include "kernels/host/weight_block.h"
#include "sizes.h"

/* The largest block: filters, and elements of a plane; panels of a transposed one. */
enum { BLOCK_ROWS = 256, BLOCK_FLOATS = 1 << 16, TRANSPOSED_PANELS = 256 / LS_TILE_COLUMNS };
/* Elements of dy of a block and a stretch: a part of the second level cache. Of rows of x, which no
 * other tap reads again, so many that a panel's words of them, two lines each, fill at most the
 * first level cache: 4x56x56, 256 to 64, 0.77 of the peak against 0.72. */
enum { STRETCH_FLOATS = 1 << 16, STRETCH_MAX = 1024, STRETCH_ROWS_MAX = 256 };

/* Places of a leaf from which on to fold its sum is little work beside making it. */
enum { FOLDED_PLACES = 256 };

enum { SCRATCH_FLOATS = LS_SCRATCH_BYTES / sizeof(float) };

/* Entries that the slice stack needs for the leaf with the most slices: between two slices it holds
 * one per set bit of the number of slices done. */
static int stack_planes(const ls_weight_job *j)
{
    const ls_fold *fold = j->args->fold;
    size_t most = 1;
    for (int i = 0; i < fold->leaf_count; i++) {
        const size_t rows = (fold->sample[i + 1] - fold->sample[i]) * j->args->shape.out_height;
        const size_t slices = ls_weight_parts(rows, j->slice_rows);
        if (slices > most) most = slices;
    }
    int bits = 0;
    for (size_t done = most - 1; done > 0; done /= 2) bits++;
    return bits;
}

/* Planes of a block. */
static size_t plane_count(const ls_weight_job *j)
{
    const ls_fold *fold = j->args->fold;
    const int slots = fold->slot_count - (j->source == LS_FROM_GRADIENT ? 0 : fold->piece_count);
    return (size_t)(1 + j->stack_planes + slots);
}

/* The largest block that fits into scratch memory with all its planes. */
static void choose_block(ls_weight_job *j)
{
    j->block_rows = ls_min_size(j->row_count, BLOCK_ROWS);
    j->block_panels = BLOCK_FLOATS / LS_TILE_COLUMNS / j->block_rows;
    while (j->scratch_floats + LS_TILE_COLUMNS * j->block_panels * plane_count(j) * j->block_rows
           + ls_weight_made_floats(j, j->block_rows) > SCRATCH_FLOATS) {
        if (j->block_panels > 1) j->block_panels /= 2;
        else j->block_rows /= 2;
    }
}

/* A transposed block, if the shape allows it and one panel of all planes has room. */
static bool choose_filter_rows(ls_weight_job *j)
{
    const ls_conv_shape *s = &j->args->shape;
    j->source = LS_FROM_GRADIENT;
    j->scratch_floats = LS_HOST(filter_rows_floats)(s, j->slice_rows);
    if (j->scratch_floats == 0) return false;
    /* Threads share the filters, not the filter rows: then no slice of dy is made twice. */
    const size_t threads = (size_t)ls_pool_thread_count(j->pool);
    j->panel_columns = s->filters < threads * LS_TILE_COLUMNS ? LS_LANES : LS_TILE_COLUMNS;
    const size_t used = j->scratch_floats + ls_weight_made_floats(j, LS_LANES);
    if (used > SCRATCH_FLOATS) return false;
    j->block_panels = (SCRATCH_FLOATS - used) / (j->panel_columns * j->columns * plane_count(j));
    if (j->block_panels == 0) return false;
    j->block_panels = ls_min_size(j->block_panels, TRANSPOSED_PANELS);
    j->block_rows = j->row_count = s->kernel_height;
    j->row_unit = s->kernel_width * s->channels;
    j->column_tiles = ls_ceil_div(s->filters, j->panel_columns);
    return true;
}

/* Where B comes from, how many places at a time, and the block. */
static void choose_source(ls_weight_job *j)
{
    if (choose_filter_rows(j)) return;
    const ls_conv_shape *s = &j->args->shape;
    const size_t rows = ls_min_size(s->filters, BLOCK_ROWS);
    const size_t places = ls_min_size(STRETCH_FLOATS / rows, STRETCH_MAX);
    j->source = LS_FROM_PATCHES;
    j->stretch_places = LS_BLOCK_DEPTH;
    if (ls_patches_are_rows(s)) {
        j->source = LS_FROM_ROWS;
        j->stretch_places = ls_min_size(places, STRETCH_ROWS_MAX);
    } else if (s->channels >= LS_LANES && s->out_width > 0 && s->out_width <= LS_BLOCK_DEPTH) {
        j->source = LS_FROM_TAPS;
        j->stretch_places = ls_min_size(places / s->out_width, LS_TILE_RUNS_MAX) * s->out_width;
    }
    j->span = j->source == LS_FROM_PATCHES ? j->columns : s->channels;
    j->span_panels = ls_ceil_div(j->span, LS_TILE_COLUMNS);
    j->column_tiles = j->columns / j->span * j->span_panels;
    j->row_count = s->filters;
    j->row_unit = 1;
    j->panel_columns = LS_TILE_COLUMNS;
    j->scratch_floats = j->stretch_places * LS_TILE_COLUMNS;
    choose_block(j);
}

/* Are there leaves for all threads, but not blocks, and does folding cost little beside them? */
static bool shares_leaves(const ls_weight_job *j, size_t places)
{
    const size_t leaves = (size_t)j->args->fold->leaf_count;
    const size_t threads = (size_t)ls_pool_thread_count(j->pool);
    return threads > 1 && leaves >= threads && j->row_count <= j->block_rows
           && j->column_tiles <= j->block_panels && places >= leaves * FOLDED_PLACES;
}

/* The cut of dw into tasks. */
static ls_split split_blocks(const ls_weight_job *j, size_t places)
{
    const int threads = ls_pool_thread_count(j->pool);
    size_t row_tiles = ls_ceil_div(j->row_count, LS_TILE_ROWS);
    if (j->source == LS_FROM_GRADIENT && j->column_tiles < (size_t)threads) {
        row_tiles = j->row_count;
    }
    const ls_split_problem problem = {
        .tile_rows = LS_TILE_ROWS,
        .row_tiles = row_tiles,
        .column_tiles = j->column_tiles,
        .depth = places,
        .row_tiles_max = row_tiles,
        .column_tiles_max = j->column_tiles,
        .pack_cost = j->source == LS_FROM_PATCHES ? 0.3 : 0.05,
    };
    return LS_HOST(split)(&problem, threads);
}

void LS_HOST(weight_plan)(ls_weight_job *j, float *room)
{
    const ls_conv_shape *s = &j->args->shape;
    const size_t places = s->samples * s->out_height * s->out_width;
    j->stack_planes = stack_planes(j);
    choose_source(j);
    if (room != NULL && shares_leaves(j, places)) j->leaf_sums = room;
    else j->split = split_blocks(j, places);
}
