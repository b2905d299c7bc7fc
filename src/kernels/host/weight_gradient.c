/* SPDX-License-Identifier: MIT */
/* weight_gradient.c -- the gradient of a convolution's (or a dense layer's) weights.
 *
 * dw is a matrix [filters, columns], columns = (r, s, channel). It is a batch sum: for every slice
 * of a shard a product dy^T patches over the slice's output places, slices added by the tree,
 * shards by the fold (docs/numerics.md 2.2, fold.h). dw is cut into blocks (weight_plan.c), a block
 * belongs to one thread, and the block stays in cache while the sum runs over all places:
 *
 *     for each leaf of the fold, for each slice of it
 *         the slice's sum over the block (weight_slice.c)
 *
 * Additions of the tree cost no pass of their own. The sum of a slice leaves the registers only
 * after all that is to be added to it at this point was added: the entries of the slice stack, by
 * ls_tree_adds_after, and after a shard's last slice the slots that the fold names. All these are
 * planes of the block (weight_block.h).
 *
 * Where threads share the leaves instead of the blocks, the slices' tree is the same, and a leaf's
 * sum goes to a matrix of its own, which the fold then takes up (fold_rows.h).
 *
 * A shard without samples is +0, and so may be a whole slot. To add +0 changes nothing, so such a
 * slot is only marked, and neither written nor read.
 *
 * A dense layer's gradient of few samples is another file's (dense_gradient.h).
 */
#include "kernels/host/dense_gradient.h"
#include "kernels/host/fold_rows.h"
#include "kernels/host/weight_block.h"
#include "sizes.h"

/* Slot `slot` of the fold: a piece in dw, or a temporary. */
static ls_weight_plane slot_plane(const ls_weight_job *j, const ls_weight_block *b, int slot)
{
    const ls_conv_weight_gradient_args *a = j->args;
    if (j->source == LS_FROM_GRADIENT) return ls_weight_scratch(b, 1 + j->stack_planes + slot);
    if (slot >= a->fold->piece_count) {
        return ls_weight_scratch(b, 1 + j->stack_planes + slot - a->fold->piece_count);
    }
    float *piece = a->dw + (size_t)slot * a->piece_stride;
    return (ls_weight_plane){piece + b->first_row * j->columns, j->columns, true};
}

/* -- the tree and the fold -------------------------------------------------------------------- */

static float *leaf_sum(const ls_weight_job *j, int leaf)
{
    return j->leaf_sums + (size_t)leaf * j->args->shape.filters * j->columns;
}

/* Add what the fold adds to leaf `leaf`, and say where the sum goes. False: the sum is +0, or what
 * is there already. */
static bool end_leaf(const ls_weight_job *j, ls_weight_block *b, int leaf, ls_weight_slice *s)
{
    const ls_fold *fold = j->args->fold;
    const int to = fold->store[leaf];
    if (j->leaf_sums != NULL) {
        s->to = j->source == LS_FROM_GRADIENT
            ? slot_plane(j, b, 0)
            : (ls_weight_plane){leaf_sum(j, leaf) + b->first_row * j->columns, j->columns, true};
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

static void run_leaf(const ls_weight_job *j, ls_weight_block *b, int leaf)
{
    const ls_conv_shape *shape = &j->args->shape;
    const ls_fold *fold = j->args->fold;
    const size_t first = fold->sample[leaf] * shape->out_height;
    const size_t last = fold->sample[leaf + 1] * shape->out_height;
    const size_t count = ls_weight_parts(last - first, j->slice_rows);
    int top = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t row = first + i * j->slice_rows;
        ls_weight_slice s; /* set field by field: `add` is long and mostly unused */
        s.first_place = row * shape->out_width;
        s.last_place = ls_min_size(row + j->slice_rows, last) * shape->out_width;
        s.leaf = leaf;
        s.index = i;
        s.add_count = 0;
        for (int adds = ls_tree_adds_after(i, count); adds > 0; adds--) {
            s.add[s.add_count++] = ls_weight_scratch(b, top--);
        }
        if (i + 1 < count) s.to = ls_weight_scratch(b, ++top);
        else if (!end_leaf(j, b, leaf, &s)) return;
        LS_HOST(weight_slice)(j, b, &s);
    }
}

/* -- blocks and tasks ------------------------------------------------------------------------- */

/* Move a transposed block's part between a plane and a matrix like dw. */
static void transpose(const ls_weight_job *j, const ls_weight_block *b, ls_weight_plane p,
                      float *matrix, bool to_matrix)
{
    size_t first_filter;
    const size_t filters = ls_weight_filters(j, b, &first_filter);
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
static void move_pieces(const ls_weight_job *j, const ls_weight_block *b, bool to_dw)
{
    const ls_conv_weight_gradient_args *a = j->args;
    for (int piece = 0; piece < a->fold->piece_count; piece++) {
        transpose(j, b, slot_plane(j, b, piece), a->dw + (size_t)piece * a->piece_stride, to_dw);
    }
}

static ls_weight_block block_at(const ls_weight_job *j, size_t first_row, size_t rows,
                                size_t first_panel, size_t panels, float *scratch)
{
    const size_t width = panels * j->panel_columns;
    float *made = scratch + j->scratch_floats;
    return (ls_weight_block){
        .first_row = first_row,
        .rows = rows,
        .first_panel = first_panel,
        .panels = panels,
        .panel = scratch,
        .made = made,
        .planes = made + ls_weight_made_floats(j, j->source == LS_FROM_GRADIENT ? LS_LANES : rows),
        .plane_step = width,
        .plane_floats = rows * j->row_unit * width,
    };
}

static void run_block(const ls_weight_job *j, ls_weight_block b)
{
    if (j->source == LS_FROM_GRADIENT) move_pieces(j, &b, false);
    for (int leaf = 0; leaf < j->args->fold->leaf_count; leaf++) run_leaf(j, &b, leaf);
    if (j->source == LS_FROM_GRADIENT) move_pieces(j, &b, true);
}

/* Task: all of dw for one leaf. */
static void run_leaf_task(void *arg, size_t leaf, int thread)
{
    const ls_weight_job *j = arg;
    ls_weight_block b = block_at(j, 0, j->row_count, 0, j->column_tiles,
                                 ls_pool_scratch(j->pool, thread));
    run_leaf(j, &b, (int)leaf);
    if (j->source != LS_FROM_GRADIENT) return;
    transpose(j, &b, slot_plane(j, &b, 0), leaf_sum(j, (int)leaf), true);
}

static void run_task(void *arg, size_t task, int thread)
{
    const ls_weight_job *j = arg;
    float *scratch = ls_pool_scratch(j->pool, thread);
    const ls_split_part part = ls_split_part_at(j->split, task, j->row_count, j->column_tiles);
    for (size_t k = part.first_column; k < part.last_column; k += j->block_panels) {
        const size_t panels = ls_min_size(j->block_panels, part.last_column - k);
        for (size_t row = part.first_row; row < part.last_row; row += j->block_rows) {
            const size_t rows = ls_min_size(j->block_rows, part.last_row - row);
            run_block(j, block_at(j, row, rows, k, panels, scratch));
        }
    }
}

/* -- the op ---------------------------------------------------------------------------------- */

ls_status LS_HOST(weight_gradient_of_slices)(ls_stream *stream,
                                             const ls_conv_weight_gradient_args *a,
                                             ls_slice_fn *make, const void *context,
                                             const ls_max_pool_gradient_args *windows, float *room)
{
    const ls_conv_shape *s = &a->shape;
    ls_weight_job j = {
        .args = a,
        .make = make,
        .context = context,
        .windows = windows,
        .pool = stream->device->pool,
        .columns = s->kernel_height * s->kernel_width * s->channels,
        .slice_rows = ls_slice_rows(s->out_width),
    };
    if (a->fold->leaf_count == 0 || s->filters == 0 || j.columns == 0) return LS_OK;
    LS_HOST(weight_plan)(&j, room);
    if (j.leaf_sums != NULL) {
        ls_pool_run(j.pool, (size_t)a->fold->leaf_count, run_leaf_task, &j);
        ls_fold_rows(a->fold, j.leaf_sums, s->filters * j.columns, a->dw, a->piece_stride);
    } else {
        ls_pool_run(j.pool, ls_split_tasks(j.split), run_task, &j);
    }
    return LS_OK;
}

ls_status LS_HOST(conv_weight_gradient)(ls_stream *stream, const ls_conv_weight_gradient_args *a)
{
    if (LS_HOST(dense_gradient)(stream->device->pool, a)) return LS_OK;
    return LS_HOST(weight_gradient_of_slices)(stream, a, NULL, NULL, NULL, NULL);
}
