/* SPDX-License-Identifier: MIT */
/* pooled_gradient.c -- host: gradients of a convolution's parameters, from under a max pooling.
 *
 * Three quarters and more of the gradient between the two are zeros, and there is much of it: to
 * write it, read it for the weights and read it again for the bias takes longer than to make it. So
 * a slice of it is made where the weight gradient needs it (weight_gradient.h), which also sums it
 * for the bias:
 *
 *     slice of dy    rows of max_pool_gradient (pool.h)        -> scratch memory of the thread, or
 *                    a word at a time in registers, where filter_rows.h takes it so
 *     weights        as weight_gradient.c does it
 *     bias           chain over the slice's places             -> sums[slice], in pool.dx
 *     at the end     the tree over each leaf's slices, then the fold (fold_rows.h)
 *
 * What is left of pool.dx can hold the weights' sums of all leaves, for the threads to share them.
 *
 * Windows that overlap make no rows by themselves: there, one op follows the other.
 */
#include "kernels/host/fold_rows.h"
#include "kernels/host/pool.h"
#include "kernels/host/weight_gradient.h"
#include "kernels/pooled.h"

typedef struct {
    const ls_pooled_weight_gradient_args *args;
    size_t slice[LS_SHARD_MAX + 1]; /* number of a leaf's first slice */
    float *sums;                    /* [slices][filters] */
} job;

static size_t leaf_row(const job *j, int leaf)
{
    return j->args->conv.fold->sample[leaf] * j->args->conv.shape.out_height;
}

static float *make_slice(const void *job_, const ls_slice_part *part, float *to)
{
    const job *j = job_;
    const size_t all_filters = j->args->conv.shape.filters;
    LS_HOST(max_pool_gradient_rows)(&j->args->pool, part->row, part->rows, part->filter,
                                    part->filters, to);
    if (j->args->db == NULL || !part->is_first) return NULL;
    return j->sums + (j->slice[part->leaf] + part->index) * all_filters + part->filter;
}

/* The sum of a leaf's slices; NULL: it has none. */
static const float *leaf_sum(const job *j, int leaf)
{
    const size_t filters = j->args->conv.shape.filters, first = j->slice[leaf];
    const size_t count = j->slice[leaf + 1] - first;
    return count > 0 ? ls_tree_rows(j->sums + first * filters, count, filters) : NULL;
}

/* The bias' gradient, some filters at a time. */
static void fold_bias(const job *j, float *rows)
{
    const ls_conv_weight_gradient_args *conv = &j->args->conv;
    const size_t filters = conv->shape.filters, leaves = (size_t)conv->fold->leaf_count;
    const size_t fits = LS_SCRATCH_BYTES / sizeof(float) / leaves;
    const float *sum[LS_SHARD_MAX];
    for (size_t leaf = 0; leaf < leaves; leaf++) sum[leaf] = leaf_sum(j, (int)leaf);
    for (size_t first = 0; first < filters; first += fits) {
        const size_t count = filters - first < fits ? filters - first : fits;
        for (size_t leaf = 0; leaf < leaves; leaf++) {
            float *row = rows + leaf * count;
            if (sum[leaf] == NULL) memset(row, 0, count * sizeof *row);
            else memcpy(row, sum[leaf] + first, count * sizeof *row);
        }
        ls_fold_rows(conv->fold, rows, count, j->args->db + first, conv->piece_stride);
    }
}

/* What of pool.dx the bias' sums leave, if it is enough for a dw for each leaf. */
static float *room(const job *j)
{
    const ls_conv_shape *s = &j->args->conv.shape;
    const size_t leaves = (size_t)j->args->conv.fold->leaf_count, slices = j->slice[leaves];
    const size_t columns = s->kernel_height * s->kernel_width * s->channels;
    const size_t places = s->samples * s->out_height * s->out_width;
    return places >= slices + leaves * columns ? j->sums + slices * s->filters : NULL;
}

ls_status LS_HOST(pooled_weight_gradient)(ls_stream *stream,
                                          const ls_pooled_weight_gradient_args *args)
{
    const ls_conv_shape *shape = &args->conv.shape;
    const ls_fold *fold = args->conv.fold;
    const size_t rows = ls_slice_rows(shape->out_width);
    if (ls_max_pool_windows_overlap(&args->pool.shape) || shape->out_width > LS_SLICE_PLACES) {
        return ls_pooled_weight_gradient_in_turn(&LS_HOST(kernels), stream, args);
    }
    if (fold->leaf_count == 0) return LS_OK;
    job j = { .args = args, .sums = args->pool.dx };
    for (int leaf = 0; leaf < fold->leaf_count; leaf++) {
        const size_t count = leaf_row(&j, leaf + 1) - leaf_row(&j, leaf);
        j.slice[leaf + 1] = j.slice[leaf] + (count + rows - 1) / rows;
    }
    LS_TRY(LS_HOST(weight_gradient_of_slices)(stream, &args->conv, make_slice, &j, &args->pool,
                                              room(&j)));
    if (args->db != NULL) fold_bias(&j, ls_pool_scratch(stream->device->pool, 0));
    return LS_OK;
}
