/* SPDX-License-Identifier: MIT */
/* launch.c -- ls_<op>_cuda: arguments to parameters, a grid, a launch; and the table of them.
 *
 * Nothing here computes. Each op fills its kernel's parameter struct (params.h), says how many
 * blocks cover the result, and enqueues. Products are in launch_product.c, sums over samples in
 * launch_batch.c, the arena and whole buffers in launch_arena.c, element-wise ops in
 * launch_elements.c; here are the other ops that take one launch.
 * Without elements nothing is launched.
 *
 * Which tile, and how many blocks, is chosen by shape and changes no bit.
 */
#include "kernels/cuda/launch.h"

#include <limits.h>

#include "kernels/cuda/table.h"
#include "kernels/pooled.h"

#define SLOT(op) .op = ls_##op##_cuda,
static const ls_kernels table = { .name = "cuda", LS_KERNELS(SLOT) };
#undef SLOT

/* Every kernel that a file launch*.c names. */
static const char *const kernels[] = {
    "ls_gemm_large_nn", "ls_gemm_large_nt", "ls_gemm_large_tn", "ls_gemm_large_tt",
    "ls_gemm_medium_nn", "ls_gemm_medium_nt", "ls_gemm_medium_tn", "ls_gemm_medium_tt",
    "ls_gemm_small_nn", "ls_gemm_small_nt", "ls_gemm_small_tn", "ls_gemm_small_tt",
    "ls_conv_forward_large", "ls_conv_forward_medium", "ls_conv_forward_small",
    "ls_conv_input_gradient_large", "ls_conv_input_gradient_medium",
    "ls_conv_input_gradient_small",
    "ls_weight_gradient_few", "ls_weight_gradient_many", "ls_weight_gradient_fold",
    "ls_batchnorm", "ls_batchnorm_gradient", "ls_batchnorm_gradient_slices", "ls_batchnorm_merge",
    "ls_batchnorm_merge_sums", "ls_batchnorm_rows", "ls_batchnorm_squares",
    "ls_batch_sum", "ls_batch_fold", "ls_shard_sums",
    "ls_max_pool", "ls_max_pool_gradient",
    "ls_average_pool", "ls_average_pool_gradient",
    "ls_activate", "ls_activate_gradient", "ls_dropout", "ls_dropout_channels",
    "ls_add", "ls_multiply", "ls_copy_columns", "ls_pad", "ls_decode",
    "ls_narrow", "ls_widen",
    "ls_softmax_loss", "ls_sigmoid_loss", "ls_regression_loss",
    "ls_gradient_finish", "ls_weight_sums", "ls_update", "ls_arena_fold",
    "ls_digest", "ls_nonfinite", "ls_fold_words", "ls_merge_shallow", "ls_merge_deep",
};

ls_status ls_kernels_cuda_table(ls_device *device, const ls_kernels **out)
{
    *out = NULL;
    LS_TRY(ls_cuda_kernels_load(device, kernels, (int)(sizeof kernels / sizeof kernels[0])));
    *out = &table;
    return LS_OK;
}

/* -- shared by all ----------------------------------------------------------------------------- */

ls_status ls_cuda_enqueue(ls_stream *stream, const char *kernel, size_t blocks_x, size_t blocks_y,
                          unsigned threads, const void *params, size_t param_bytes)
{
    if (blocks_x == 0 || blocks_y == 0) return LS_OK;
    if (blocks_x > INT_MAX || blocks_y > LS_CUDA_GRID_Y_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu x %zu blocks: a GPU takes at most %d x %d", kernel,
                       blocks_x, blocks_y, INT_MAX, LS_CUDA_GRID_Y_MAX);
    }
    return ls_cuda_launch(stream, &(ls_cuda_launch_args){
        .kernel = kernel,
        .grid = { (unsigned)blocks_x, (unsigned)blocks_y, 1 },
        .block = threads,
        .params = params,
        .param_bytes = param_bytes });
}

ls_status ls_cuda_fits(const char *op, const char *what, size_t count)
{
    if (count <= INT_MAX) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: %zu %s: on a GPU at most %d", op, count, what, INT_MAX);
}

ls_cuda_divisor ls_cuda_divisor_of(size_t divisor)
{
    unsigned log2 = 0; /* rounded up */
    while ((size_t)1 << log2 < divisor) log2++;
    const uint64_t power = UINT64_C(1) << (31 + log2);
    return (ls_cuda_divisor){ (uint32_t)divisor, (uint32_t)((power + divisor - 1) / divisor),
                              31 + log2 };
}

bool ls_cuda_moves_quads(const void *memory, size_t row_floats)
{
    return (uintptr_t)memory % 16 == 0 && row_floats % 4 == 0;
}

ls_status ls_decode_cuda(ls_stream *stream, const ls_decode_args *a)
{
    LS_TRY(ls_cuda_fits("decode", "elements", a->count));
    LS_TRY(ls_cuda_fits("decode", "entries of tables", a->channels * 256));
    const ls_cuda_decode p = {
        .count = (uint32_t)a->count,
        .vector = (uintptr_t)a->x % 4 == 0 && ls_cuda_moves_quads(a->y, 0),
        .by_channels = ls_cuda_divisor_of(a->channels),
        .x = a->x,
        .table = a->table,
        .y = a->y,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_decode", ls_ceil_div(a->count, 4 * LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

/* -- pooling ---------------------------------------------------------------------------------- */

/* All but the pointers; the result is [samples, height, width, channels]. */
static ls_status pool_params(const char *op, const ls_pool_shape *s, size_t height, size_t width,
                             ls_cuda_pool *p)
{
    LS_TRY(ls_cuda_fits(op, "inputs", s->samples * s->height * s->width * s->channels));
    LS_TRY(ls_cuda_fits(op, "outputs", s->samples * s->out_height * s->out_width * s->channels));
    /* A window's corner, and the end of one, as 32-bit numbers with a sign. */
    LS_TRY(ls_cuda_fits(op, "rows", s->out_height * s->stride_height + s->window_height));
    LS_TRY(ls_cuda_fits(op, "columns", s->out_width * s->stride_width + s->window_width));
    *p = (ls_cuda_pool){
        .count = (uint32_t)(s->samples * height * width * s->channels),
        .height = (uint32_t)s->height,
        .width = (uint32_t)s->width,
        .out_height = (uint32_t)s->out_height,
        .out_width = (uint32_t)s->out_width,
        .window_height = (int32_t)s->window_height,
        .window_width = (int32_t)s->window_width,
        .stride_height = (int32_t)s->stride_height,
        .stride_width = (int32_t)s->stride_width,
        .pad_top = (int32_t)s->pad_top,
        .pad_left = (int32_t)s->pad_left,
        .by_channels = ls_cuda_divisor_of(s->channels),
        .by_width = ls_cuda_divisor_of(width),
        .by_height = ls_cuda_divisor_of(height),
    };
    return LS_OK;
}

ls_status ls_max_pool_cuda(ls_stream *stream, const ls_max_pool_args *a)
{
    ls_cuda_pool p;
    LS_TRY(pool_params("max_pool", &a->shape, a->shape.out_height, a->shape.out_width, &p));
    p.from = a->x;
    p.to = a->y;
    p.place = a->place;
    return LS_CUDA_ENQUEUE(stream, "ls_max_pool", ls_ceil_div(p.count, LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

ls_status ls_max_pool_gradient_cuda(ls_stream *stream, const ls_max_pool_gradient_args *a)
{
    ls_cuda_pool p;
    LS_TRY(pool_params("max_pool_gradient", &a->shape, a->shape.height, a->shape.width, &p));
    p.from = a->dy;
    p.to = a->dx;
    p.chosen = a->place;
    p.relu_y = a->relu_y;
    return LS_CUDA_ENQUEUE(stream, "ls_max_pool_gradient", ls_ceil_div(p.count, LS_CUDA_THREADS),
                           1, LS_CUDA_THREADS, p);
}

ls_status ls_average_pool_cuda(ls_stream *stream, const ls_average_pool_args *a)
{
    ls_cuda_pool p;
    LS_TRY(pool_params("average_pool", &a->shape, a->shape.out_height, a->shape.out_width, &p));
    p.from = a->x;
    p.to = a->y;
    return LS_CUDA_ENQUEUE(stream, "ls_average_pool", ls_ceil_div(p.count, LS_CUDA_THREADS), 1,
                           LS_CUDA_THREADS, p);
}

ls_status ls_average_pool_gradient_cuda(ls_stream *stream, const ls_average_pool_gradient_args *a)
{
    ls_cuda_pool p;
    LS_TRY(pool_params("average_pool_gradient", &a->shape, a->shape.height, a->shape.width, &p));
    p.from = a->dy;
    p.to = a->dx;
    return LS_CUDA_ENQUEUE(stream, "ls_average_pool_gradient",
                           ls_ceil_div(p.count, LS_CUDA_THREADS), 1, LS_CUDA_THREADS, p);
}

ls_status ls_pooled_conv_forward_cuda(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    return ls_pooled_conv_forward_in_turn(&table, stream, args);
}

ls_status ls_pooled_weight_gradient_cuda(ls_stream *stream,
                                         const ls_pooled_weight_gradient_args *args)
{
    return ls_pooled_weight_gradient_in_turn(&table, stream, args);
}

/* -- losses ----------------------------------------------------------------------------------- */

enum { ROWS_PER_BLOCK = LS_CUDA_ROW_THREADS / 32 };

ls_status ls_softmax_loss_cuda(ls_stream *stream, const ls_softmax_loss_args *a)
{
    LS_TRY(ls_cuda_fits("softmax_loss", "classes", a->classes));
    const ls_cuda_softmax_loss p = {
        .samples = a->samples,
        .classes = (uint32_t)a->classes,
        .smooth_hot = a->smooth_hot,
        .target_hot = a->smooth_all == 0.0f ? 1.0f : a->smooth_all + a->smooth_hot,
        .target_rest = a->smooth_all,
        .loss_scale = a->loss_scale,
        .logits = a->logits,
        .weight = a->weight,
        .label = a->label,
        .loss = a->loss,
        .place = a->place,
        .predicted = a->predicted,
        .dlogits = a->dlogits,
        .probability = a->probability,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_softmax_loss", ls_ceil_div(a->samples, ROWS_PER_BLOCK), 1,
                           LS_CUDA_ROW_THREADS, p);
}

ls_status ls_sigmoid_loss_cuda(ls_stream *stream, const ls_sigmoid_loss_args *a)
{
    LS_TRY(ls_cuda_fits("sigmoid_loss", "outputs", a->outputs));
    const ls_cuda_sigmoid_loss p = {
        .samples = a->samples,
        .outputs = (uint32_t)a->outputs,
        .smooth_hot = a->smooth_hot,
        .smooth_all = a->smooth_all,
        .loss_scale = a->loss_scale,
        .logits = a->logits,
        .target = a->target,
        .weight = a->weight,
        .label = a->label,
        .loss = a->loss,
        .place = a->place,
        .predicted = a->predicted,
        .absolute_error = a->absolute_error,
        .squared_error = a->squared_error,
        .dlogits = a->dlogits,
        .probability = a->probability,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_sigmoid_loss", ls_ceil_div(a->samples, ROWS_PER_BLOCK), 1,
                           LS_CUDA_ROW_THREADS, p);
}

ls_status ls_regression_loss_cuda(ls_stream *stream, const ls_regression_loss_args *a)
{
    LS_TRY(ls_cuda_fits("regression_loss", "outputs", a->outputs));
    const ls_cuda_regression_loss p = {
        .samples = a->samples,
        .outputs = (uint32_t)a->outputs,
        .absolute = a->kind == LS_REGRESSION_ABSOLUTE,
        .loss_scale = a->loss_scale,
        .prediction = a->prediction,
        .target = a->target,
        .weight = a->weight,
        .loss = a->loss,
        .absolute_error = a->absolute_error,
        .squared_error = a->squared_error,
        .dprediction = a->dprediction,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_regression_loss", ls_ceil_div(a->samples, ROWS_PER_BLOCK),
                           1, LS_CUDA_ROW_THREADS, p);
}

ls_status ls_shard_sums_cuda(ls_stream *stream, const ls_shard_sums_args *a)
{
    const ls_cuda_shard_sums p = {
        .fold = *a->fold,
        .top_k = a->top_k,
        .loss = a->loss,
        .weight = a->weight,
        .absolute_error = a->absolute_error,
        .squared_error = a->squared_error,
        .place = a->place,
        .out = a->out,
    };
    return LS_CUDA_ENQUEUE(stream, "ls_shard_sums", (size_t)a->fold->leaf_count, 1,
                           LS_CUDA_FLAT_THREADS, p);
}
