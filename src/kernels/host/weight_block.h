/* SPDX-License-Identifier: MIT */
/* weight_block.h -- how a weight gradient is cut, and a block of it: what the rooms of
 * weight_gradient.c hand each other.
 *
 *     weight_plan.c       shape, fold, threads  ->  where operands come from, blocks, tasks
 *     weight_gradient.c   a block: the tree over a leaf's slices, the fold over leaves
 *     weight_slice.c      a slice's sum over a block, and what the tree adds to it
 *
 * A block's partial sums lie in PLANES of scratch memory, each as large as the block:
 *
 *     plane 0                    a chain that is not finished (places of a slice that follow)
 *     plane 1 .. stack           the slice stack
 *     then                       the fold's temporaries; its pieces are in dw itself, but for a
 *                                transposed block: then they come first here, and are copied from
 *                                dw before and to dw after the block's leaves
 */
#ifndef LS_KERNELS_HOST_WEIGHT_BLOCK_H
#define LS_KERNELS_HOST_WEIGHT_BLOCK_H

#include "kernels/host/product.h"
#include "kernels/host/split.h"
#include "kernels/host/weight_gradient.h"
#include "numerics.h"
#include "sizes.h"

/* Where the rows of B come from. */
typedef enum {
    LS_FROM_ROWS,    /* they are the rows of x: a run has any number of places */
    LS_FROM_TAPS,    /* of x, a run per output row */
    LS_FROM_PATCHES, /* copied */
    LS_FROM_GRADIENT /* dy: the block is transposed (filter_rows.h) */
} ls_weight_source;

typedef struct {
    const ls_conv_weight_gradient_args *args;
    ls_slice_fn *make;      /* NULL: dy is in memory */
    const void *context;    /* of make */
    const ls_max_pool_gradient_args *windows; /* what `make` makes dy of, or NULL */
    ls_pool *pool;
    size_t columns;         /* of dw */
    size_t slice_rows;      /* output rows of a slice */
    /* From here on set by weight_plan. */
    ls_weight_source source;
    size_t row_count;       /* of what blocks are cut from: filters, or filter rows (GRADIENT) */
    size_t row_unit;        /* rows of a plane for each of them */
    size_t column_tiles;    /* panels */
    size_t panel_columns;   /* LS_TILE_COLUMNS, or a word where panels are few (GRADIENT) */
    size_t span;            /* columns that a panel does not cross: a tap's, or all */
    size_t span_panels;
    size_t stretch_places;  /* at most; with TAPS whole output rows */
    int stack_planes;       /* entries of the slice stack */
    size_t scratch_floats;  /* in front of the planes: a panel, or chains and a band */
    size_t block_rows, block_panels; /* the largest block */
    float *leaf_sums;       /* [leaf][filters, columns], where threads share the leaves; or NULL */
    ls_split split;         /* into tasks, where they do not */
} ls_weight_job;

/* A block of dw and its memory. */
typedef struct {
    size_t first_row, rows, first_panel, panels;
    float *panel;
    float *made;            /* dy that is not in memory: a slice, or a part of one (GRADIENT) */
    float *planes;
    size_t plane_step, plane_floats;
    /* [slots] +0 everywhere, whatever the plane holds */
    bool is_zero[LS_SHARD_MAX + LS_FOLD_MERGE_MAX];
} ls_weight_block;

/* A matrix of the block's rows somewhere in memory: dw itself, or a plane. */
typedef struct {
    float *p;
    size_t step;
    bool is_dw; /* then p is at column 0 of dw, else of the block */
} ls_weight_plane;

/* Where the sum of one slice goes, and what is added to it on the way. */
typedef struct {
    size_t first_place, last_place;
    int leaf;
    size_t index; /* of the leaf's slices */
    int add_count;
    ls_weight_plane add[LS_TREE_DEPTH + LS_FOLD_MERGE_MAX];
    ls_weight_plane to;
} ls_weight_slice;

static inline ls_weight_plane ls_weight_scratch(const ls_weight_block *b, int plane)
{
    return (ls_weight_plane){b->planes + (size_t)plane * b->plane_floats, b->plane_step, false};
}

/* Filters [*first, *first + count) of a block. */
static inline size_t ls_weight_filters(const ls_weight_job *j, const ls_weight_block *b,
                                       size_t *first)
{
    *first = b->first_row;
    if (j->source != LS_FROM_GRADIENT) return b->rows;
    *first = b->first_panel * j->panel_columns;
    const size_t most = b->panels * j->panel_columns, left = j->args->shape.filters - *first;
    return left < most ? left : most;
}

/* Floats of dy that a block has room for, made for `filters` at once. */
static inline size_t ls_weight_made_floats(const ls_weight_job *j, size_t filters)
{
    return j->make == NULL ? 0 : j->slice_rows * j->args->shape.out_width * filters;
}

/* Parts of at most `part` that make up `length`; one empty part for 0. A division is worth avoiding
 * where a leaf is a handful of places. */
static inline size_t ls_weight_parts(size_t length, size_t part)
{
    return length <= part ? 1 : ls_ceil_div(length, part);
}

/* Set what follows slice_rows, for a dw that is not empty. `room` as in
 * weight_gradient_of_slices. */
void LS_HOST(weight_plan)(ls_weight_job *job, float *room);

/* Sum a slice over a block. */
void LS_HOST(weight_slice)(const ls_weight_job *job, const ls_weight_block *block,
                           const ls_weight_slice *slice);

#endif
