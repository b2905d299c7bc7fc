/* SPDX-License-Identifier: MIT */
/* kernels.c -- a device is given its table; the checked entries of kernels.h's own ops (check.h).
 *
 * Thread rule: as kernels.h: the thread that owns the stream's device.
 */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/check.h"
#include "kernels/cuda/table.h"
#include "kernels/host/host.h"

ls_status ls_kernels_bind(ls_device *device)
{
    if (device->kind == LS_DEVICE_CUDA) return ls_kernels_cuda_table(device, &device->kernels);
    const char *isa = getenv("LOCKSTEP_ISA");
    if (isa != NULL && strcmp(isa, "reference") == 0) {
        device->kernels = &ls_kernels_reference;
        return LS_OK;
    }
    const ls_kernels *table = NULL;
    LS_TRY(ls_kernels_host_table(&table));
    device->kernels = table;
    return LS_OK;
}

/* -- matrix product, convolution, batch sums --------------------------------------------------- */

/* A window's last place must begin inside the input, and the padding be less than the window:
 * then every window holds at least one element of the input. */
static ls_status check_window(const char *op, const char *direction, size_t extent, size_t window,
                              size_t stride, size_t pad, size_t out)
{
    if (extent == 0 || window == 0 || stride == 0 || out == 0) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "%s: %s: extent %zu, window %zu, stride %zu, output %zu: none may be 0", op,
                       direction, extent, window, stride, out);
    }
    if (pad >= window || (out - 1) * stride >= extent + pad) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "%s: %s: %zu places of a window of %zu, stride %zu, padding %zu, do not fit "
                       "an extent of %zu",
                       op, direction, out, window, stride, pad, extent);
    }
    return LS_OK;
}

ls_status ls_gemm(ls_stream *stream, const ls_gemm_args *args)
{
    const bool some = args->M > 0 && args->N > 0;
    LS_CHECK_POINTER("gemm", some && args->K > 0, A);
    LS_CHECK_POINTER("gemm", some && args->K > 0, B);
    LS_CHECK_POINTER("gemm", some, C);
    if (args->accumulate && (args->bias != NULL || args->relu)) {
        return ls_fail(LS_ERR_ARGUMENT, "gemm: accumulate goes with neither bias nor relu");
    }
    return ls_enqueued(stream, ls_kernels_of(stream)->gemm(stream, args));
}

static ls_status check_conv(const char *op, const ls_conv_shape *shape)
{
    if (shape->channels == 0 || shape->filters == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu channels, %zu filters: none may be 0", op,
                       shape->channels, shape->filters);
    }
    LS_TRY(check_window(op, "height", shape->height, shape->kernel_height, shape->stride_height,
                        shape->pad_top, shape->out_height));
    return check_window(op, "width", shape->width, shape->kernel_width, shape->stride_width,
                        shape->pad_left, shape->out_width);
}

static ls_status check_conv_forward(const char *op, const ls_conv_forward_args *args)
{
    LS_TRY(check_conv(op, &args->shape));
    LS_CHECK_POINTER(op, args->shape.samples > 0, x);
    LS_CHECK_POINTER(op, args->shape.samples > 0, w);
    LS_CHECK_POINTER(op, args->shape.samples > 0, y);
    return LS_OK;
}

ls_status ls_conv_forward(ls_stream *stream, const ls_conv_forward_args *args)
{
    LS_TRY(check_conv_forward("conv_forward", args));
    return ls_enqueued(stream, ls_kernels_of(stream)->conv_forward(stream, args));
}

ls_status ls_conv_input_gradient(ls_stream *stream, const ls_conv_input_gradient_args *args)
{
    LS_TRY(check_conv("conv_input_gradient", &args->shape));
    LS_CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, dy);
    LS_CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, w);
    LS_CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, dx);
    return ls_enqueued(stream, ls_kernels_of(stream)->conv_input_gradient(stream, args));
}

static ls_status check_weight_gradient(const char *op, const ls_conv_weight_gradient_args *args)
{
    const ls_conv_shape *shape = &args->shape;
    LS_TRY(check_conv(op, shape));
    const size_t floats =
        shape->filters * shape->kernel_height * shape->kernel_width * shape->channels;
    LS_TRY(ls_check_fold(op, args->fold, floats, args->piece_stride));
    const size_t samples = args->fold->sample[args->fold->leaf_count];
    if (args->fold->leaf_count > 0 && shape->samples != samples) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu samples, the fold has %zu", op, shape->samples,
                       samples);
    }
    LS_CHECK_POINTER(op, shape->samples > 0, x);
    LS_CHECK_POINTER(op, shape->samples > 0, dy);
    LS_CHECK_POINTER(op, args->fold->leaf_count > 0, dw);
    return LS_OK;
}

ls_status ls_conv_weight_gradient(ls_stream *stream, const ls_conv_weight_gradient_args *args)
{
    LS_TRY(check_weight_gradient("conv_weight_gradient", args));
    return ls_enqueued(stream, ls_kernels_of(stream)->conv_weight_gradient(stream, args));
}

ls_status ls_batch_sum(ls_stream *stream, const ls_batch_sum_args *args)
{
    if (args->height == 0 || args->width == 0 || args->channels == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "batch_sum: samples of %zu x %zu x %zu: none may be 0",
                       args->height, args->width, args->channels);
    }
    LS_TRY(ls_check_fold("batch_sum", args->fold, args->channels, args->piece_stride));
    LS_CHECK_POINTER("batch_sum", args->fold->sample[args->fold->leaf_count] > 0, x);
    LS_CHECK_POINTER("batch_sum", args->fold->leaf_count > 0, out);
    return ls_enqueued(stream, ls_kernels_of(stream)->batch_sum(stream, args));
}

/* -- pooling and activations ------------------------------------------------------------------- */

static ls_status check_pool(const char *op, const ls_pool_shape *shape)
{
    if (shape->channels == 0) return ls_fail(LS_ERR_ARGUMENT, "%s: 0 channels", op);
    LS_TRY(check_window(op, "height", shape->height, shape->window_height, shape->stride_height,
                        shape->pad_top, shape->out_height));
    return check_window(op, "width", shape->width, shape->window_width, shape->stride_width,
                        shape->pad_left, shape->out_width);
}

/* `place` has 8 bits. */
static ls_status check_max_pool(const char *op, const ls_pool_shape *shape)
{
    LS_TRY(check_pool(op, shape));
    if (shape->window_height > 256 || shape->window_width > 256 ||
        shape->window_height * shape->window_width > 256) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: a window of %zu x %zu: want at most 256 places", op,
                       shape->window_height, shape->window_width);
    }
    return LS_OK;
}

static ls_status check_max_pool_forward(const char *op, const ls_max_pool_args *args)
{
    LS_TRY(check_max_pool(op, &args->shape));
    LS_CHECK_POINTER(op, args->shape.samples > 0, x);
    LS_CHECK_POINTER(op, args->shape.samples > 0, y);
    LS_CHECK_POINTER(op, args->shape.samples > 0, place);
    return LS_OK;
}

ls_status ls_max_pool(ls_stream *stream, const ls_max_pool_args *args)
{
    LS_TRY(check_max_pool_forward("max_pool", args));
    return ls_enqueued(stream, ls_kernels_of(stream)->max_pool(stream, args));
}

static ls_status check_max_pool_gradient(const char *op, const ls_max_pool_gradient_args *args)
{
    LS_TRY(check_max_pool(op, &args->shape));
    LS_CHECK_POINTER(op, args->shape.samples > 0, dy);
    LS_CHECK_POINTER(op, args->shape.samples > 0, place);
    LS_CHECK_POINTER(op, args->shape.samples > 0, dx);
    return LS_OK;
}

ls_status ls_max_pool_gradient(ls_stream *stream, const ls_max_pool_gradient_args *args)
{
    LS_TRY(check_max_pool_gradient("max_pool_gradient", args));
    return ls_enqueued(stream, ls_kernels_of(stream)->max_pool_gradient(stream, args));
}

/* `between`: the tensor that they share, as each has it. */
static ls_status check_pooled(const char *op, const ls_conv_shape *conv, const ls_pool_shape *pool,
                              const float *const between[2])
{
    if (conv->samples == pool->samples && conv->out_height == pool->height &&
        conv->out_width == pool->width && conv->filters == pool->channels &&
        between[0] == between[1]) {
        return LS_OK;
    }
    return ls_fail(LS_ERR_ARGUMENT, "%s: the pooling's input is not the convolution's output", op);
}

ls_status ls_pooled_conv_forward(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    static const char op[] = "pooled_conv_forward";
    LS_TRY(check_conv_forward(op, &args->conv));
    LS_TRY(check_max_pool_forward(op, &args->pool));
    LS_TRY(check_pooled(op, &args->conv.shape, &args->pool.shape,
                        (const float *[2]){ args->conv.y, args->pool.x }));
    return ls_enqueued(stream, ls_kernels_of(stream)->pooled_conv_forward(stream, args));
}

ls_status ls_pooled_weight_gradient(ls_stream *stream, const ls_pooled_weight_gradient_args *args)
{
    static const char op[] = "pooled_weight_gradient";
    LS_TRY(check_weight_gradient(op, &args->conv));
    LS_TRY(check_max_pool_gradient(op, &args->pool));
    LS_TRY(check_pooled(op, &args->conv.shape, &args->pool.shape,
                        (const float *[2]){ args->conv.dy, args->pool.dx }));
    return ls_enqueued(stream, ls_kernels_of(stream)->pooled_weight_gradient(stream, args));
}

ls_status ls_average_pool(ls_stream *stream, const ls_average_pool_args *args)
{
    LS_TRY(check_pool("average_pool", &args->shape));
    LS_CHECK_POINTER("average_pool", args->shape.samples > 0, x);
    LS_CHECK_POINTER("average_pool", args->shape.samples > 0, y);
    return ls_enqueued(stream, ls_kernels_of(stream)->average_pool(stream, args));
}

ls_status ls_average_pool_gradient(ls_stream *stream, const ls_average_pool_gradient_args *args)
{
    LS_TRY(check_pool("average_pool_gradient", &args->shape));
    LS_CHECK_POINTER("average_pool_gradient", args->shape.samples > 0, dy);
    LS_CHECK_POINTER("average_pool_gradient", args->shape.samples > 0, dx);
    return ls_enqueued(stream, ls_kernels_of(stream)->average_pool_gradient(stream, args));
}

/* -- whole buffers ----------------------------------------------------------------------------- */

ls_status ls_digest(ls_stream *stream, const ls_digest_args *args)
{
    LS_CHECK_POINTER("digest", args->count > 0, x);
    LS_CHECK_POINTER("digest", true, out);
    return ls_enqueued(stream, ls_kernels_of(stream)->digest(stream, args));
}

ls_status ls_nonfinite(ls_stream *stream, const ls_nonfinite_args *args)
{
    LS_CHECK_POINTER("nonfinite", args->count > 0, x);
    LS_CHECK_POINTER("nonfinite", true, out);
    return ls_enqueued(stream, ls_kernels_of(stream)->nonfinite(stream, args));
}

/* The stack must never run dry and end with one entry. */
static ls_status check_merge_program(const ls_merge_args *args)
{
    int depth = 0;
    for (int i = 0; i < args->source_count; i++) {
        depth += 1 - (int)args->adds[i];
        if (depth < 1) {
            return ls_fail(LS_ERR_ARGUMENT,
                           "merge: %d additions after source %d of %d leave nothing to add",
                           (int)args->adds[i], i, args->source_count);
        }
    }
    if (depth == 1) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "merge: %d sources end as %d sums, not one",
                   args->source_count, depth);
}

ls_status ls_merge(ls_stream *stream, const ls_merge_args *args)
{
    if (args->source_count < 1 || args->source_count > LS_MERGE_MAX || args->out_count < 1 ||
        args->out_count > LS_MERGE_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "merge: %d sources, %d outputs: want 1 .. %d",
                       args->source_count, args->out_count, LS_MERGE_MAX);
    }
    LS_TRY(check_merge_program(args));
    for (int i = 0; i < args->source_count; i++) {
        LS_CHECK_POINTER("merge", args->count > 0, source[i]);
    }
    for (int o = 0; o < args->out_count; o++) {
        LS_CHECK_POINTER("merge", args->count > 0, out[o]);
        for (int i = 0; i < args->source_count; i++) {
            LS_TRY(ls_check_in_place("merge", args->count, args->out[o], args->source[i]));
        }
    }
    return ls_enqueued(stream, ls_kernels_of(stream)->merge(stream, args));
}
