/* SPDX-License-Identifier: MIT */
/* kernels.c -- the one door to every op: check the arguments, call the device's table.
 *
 * ls_<op> refuses what no implementation could do right -- a missing pointer, an extent that does
 * not fit, buffers that overlap -- with a message that carries the values. Behind it, reference,
 * host and device code trust what they are given. Checks are of sizes and addresses only: nothing
 * here reads device memory (labels are checked by the data set, numbers by the finite test).
 *
 * Thread rule: as kernels.h: the thread that owns the stream's device.
 */
#include "kernels/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/activation.h"
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

static const ls_kernels *kernels_of(const ls_stream *stream)
{
    assert(stream->device->kernels != NULL); /* ls_kernels_bind comes before the first op */
    return stream->device->kernels;
}

/* An op that was accepted is progress: the group's deadlines start again. */
static ls_status enqueued(ls_stream *stream, ls_status status)
{
    if (status == LS_OK) ls_device_progress(stream->device);
    return status;
}

/* -- checks shared by several ops -------------------------------------------------------------- */

static ls_status missing(const char *op, const char *name)
{
    return ls_fail(LS_ERR_ARGUMENT, "%s: %s is NULL", op, name);
}

/* Fail unless args->field is there; `need` false: it may be missing. */
#define CHECK_POINTER(op, need, field)                                                            \
    do {                                                                                          \
        if ((need) && args->field == NULL) return missing(op, #field);                            \
    } while (0)

/* A buffer that an op writes is the same as one it reads, or apart from it. */
static ls_status check_in_place(const char *op, size_t count, const float *to, const float *from)
{
    const uintptr_t a = (uintptr_t)to, b = (uintptr_t)from, bytes = count * sizeof(float);
    if (a == b || a + bytes <= b || b + bytes <= a) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: output and input of %zu floats overlap by %zu bytes", op,
                   count, (size_t)(a < b ? a + bytes - b : b + bytes - a));
}

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

static ls_status check_fold(const char *op, const ls_fold *fold, size_t piece_floats,
                            size_t piece_stride)
{
    if (fold == NULL) return missing(op, "fold");
    if (fold->leaf_count < 0 || fold->leaf_count > LS_SHARD_MAX || fold->piece_count < 0 ||
        fold->slot_count < fold->piece_count) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: fold: %d leaves, %d pieces, %d slots", op,
                       fold->leaf_count, fold->piece_count, fold->slot_count);
    }
    for (int i = 0; i < fold->leaf_count; i++) {
        bool ok = fold->shard[i] >= 0 && fold->shard[i] < LS_SHARD_MAX &&
                  fold->sample[i] <= fold->sample[i + 1] && fold->store[i] < fold->slot_count &&
                  fold->merge_count[i] <= LS_FOLD_MERGE_MAX;
        for (int m = 0; ok && m < fold->merge_count[i]; m++) {
            ok = fold->merge[i][m] < fold->slot_count;
        }
        if (!ok) {
            return ls_fail(LS_ERR_ARGUMENT,
                           "%s: fold: leaf %d: shard %d, samples [%zu, %zu), %d merges, slot %d of "
                           "%d",
                           op, i, fold->shard[i], fold->sample[i], fold->sample[i + 1],
                           fold->merge_count[i], fold->store[i], fold->slot_count);
        }
    }
    if (fold->piece_count > 1 && piece_stride < piece_floats) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: pieces of %zu floats lie %zu apart", op, piece_floats,
                       piece_stride);
    }
    return LS_OK;
}

static ls_status check_arena(const char *op, const ls_arena_table *tensors)
{
    if (tensors == NULL) return missing(op, "tensors");
    if (tensors->count < 0 || (tensors->count > 0 && tensors->host == NULL)) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: a table of %d tensors at %p", op, tensors->count,
                       (const void *)tensors->host);
    }
    for (int t = 0; t < tensors->count; t++) {
        if (tensors->host[t].begin % 32 != 0) {
            return ls_fail(LS_ERR_ARGUMENT, "%s: tensor %d begins at %zu, no multiple of 32", op,
                           t, tensors->host[t].begin);
        }
    }
    return LS_OK;
}

/* -- matrix product, convolution, batch sums --------------------------------------------------- */

ls_status ls_gemm(ls_stream *stream, const ls_gemm_args *args)
{
    const bool some = args->M > 0 && args->N > 0;
    CHECK_POINTER("gemm", some && args->K > 0, A);
    CHECK_POINTER("gemm", some && args->K > 0, B);
    CHECK_POINTER("gemm", some, C);
    if (args->accumulate && (args->bias != NULL || args->relu)) {
        return ls_fail(LS_ERR_ARGUMENT, "gemm: accumulate goes with neither bias nor relu");
    }
    return enqueued(stream, kernels_of(stream)->gemm(stream, args));
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

ls_status ls_conv_forward(ls_stream *stream, const ls_conv_forward_args *args)
{
    LS_TRY(check_conv("conv_forward", &args->shape));
    CHECK_POINTER("conv_forward", args->shape.samples > 0, x);
    CHECK_POINTER("conv_forward", args->shape.samples > 0, w);
    CHECK_POINTER("conv_forward", args->shape.samples > 0, y);
    return enqueued(stream, kernels_of(stream)->conv_forward(stream, args));
}

ls_status ls_conv_input_gradient(ls_stream *stream, const ls_conv_input_gradient_args *args)
{
    LS_TRY(check_conv("conv_input_gradient", &args->shape));
    CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, dy);
    CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, w);
    CHECK_POINTER("conv_input_gradient", args->shape.samples > 0, dx);
    return enqueued(stream, kernels_of(stream)->conv_input_gradient(stream, args));
}

ls_status ls_conv_weight_gradient(ls_stream *stream, const ls_conv_weight_gradient_args *args)
{
    const ls_conv_shape *shape = &args->shape;
    LS_TRY(check_conv("conv_weight_gradient", shape));
    const size_t floats =
        shape->filters * shape->kernel_height * shape->kernel_width * shape->channels;
    LS_TRY(check_fold("conv_weight_gradient", args->fold, floats, args->piece_stride));
    const size_t samples = args->fold->sample[args->fold->leaf_count];
    if (args->fold->leaf_count > 0 && shape->samples != samples) {
        return ls_fail(LS_ERR_ARGUMENT, "conv_weight_gradient: %zu samples, the fold has %zu",
                       shape->samples, samples);
    }
    CHECK_POINTER("conv_weight_gradient", shape->samples > 0, x);
    CHECK_POINTER("conv_weight_gradient", shape->samples > 0, dy);
    CHECK_POINTER("conv_weight_gradient", args->fold->leaf_count > 0, dw);
    return enqueued(stream, kernels_of(stream)->conv_weight_gradient(stream, args));
}

ls_status ls_batch_sum(ls_stream *stream, const ls_batch_sum_args *args)
{
    if (args->height == 0 || args->width == 0 || args->channels == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "batch_sum: samples of %zu x %zu x %zu: none may be 0",
                       args->height, args->width, args->channels);
    }
    LS_TRY(check_fold("batch_sum", args->fold, args->channels, args->piece_stride));
    CHECK_POINTER("batch_sum", args->fold->sample[args->fold->leaf_count] > 0, x);
    CHECK_POINTER("batch_sum", args->fold->leaf_count > 0, out);
    return enqueued(stream, kernels_of(stream)->batch_sum(stream, args));
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

ls_status ls_max_pool(ls_stream *stream, const ls_max_pool_args *args)
{
    LS_TRY(check_max_pool("max_pool", &args->shape));
    CHECK_POINTER("max_pool", args->shape.samples > 0, x);
    CHECK_POINTER("max_pool", args->shape.samples > 0, y);
    CHECK_POINTER("max_pool", args->shape.samples > 0, place);
    return enqueued(stream, kernels_of(stream)->max_pool(stream, args));
}

ls_status ls_max_pool_gradient(ls_stream *stream, const ls_max_pool_gradient_args *args)
{
    LS_TRY(check_max_pool("max_pool_gradient", &args->shape));
    CHECK_POINTER("max_pool_gradient", args->shape.samples > 0, dy);
    CHECK_POINTER("max_pool_gradient", args->shape.samples > 0, place);
    CHECK_POINTER("max_pool_gradient", args->shape.samples > 0, dx);
    return enqueued(stream, kernels_of(stream)->max_pool_gradient(stream, args));
}

ls_status ls_average_pool(ls_stream *stream, const ls_average_pool_args *args)
{
    LS_TRY(check_pool("average_pool", &args->shape));
    CHECK_POINTER("average_pool", args->shape.samples > 0, x);
    CHECK_POINTER("average_pool", args->shape.samples > 0, y);
    return enqueued(stream, kernels_of(stream)->average_pool(stream, args));
}

ls_status ls_average_pool_gradient(ls_stream *stream, const ls_average_pool_gradient_args *args)
{
    LS_TRY(check_pool("average_pool_gradient", &args->shape));
    CHECK_POINTER("average_pool_gradient", args->shape.samples > 0, dy);
    CHECK_POINTER("average_pool_gradient", args->shape.samples > 0, dx);
    return enqueued(stream, kernels_of(stream)->average_pool_gradient(stream, args));
}

/* -- element-wise ops -------------------------------------------------------------------------- */

static ls_status check_kind(const char *op, ls_activation kind)
{
    if (kind >= LS_ACTIVATION_RELU && kind <= LS_ACTIVATION_SILU) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: activation %d", op, (int)kind);
}

ls_status ls_activate(ls_stream *stream, const ls_activate_args *args)
{
    LS_TRY(check_kind("activate", args->kind));
    CHECK_POINTER("activate", args->count > 0, x);
    CHECK_POINTER("activate", args->count > 0, y);
    LS_TRY(check_in_place("activate", args->count, args->y, args->x));
    return enqueued(stream, kernels_of(stream)->activate(stream, args));
}

ls_status ls_activate_gradient(ls_stream *stream, const ls_activate_gradient_args *args)
{
    LS_TRY(check_kind("activate_gradient", args->kind));
    const bool some = args->count > 0, uses_y = ls_activation_derives_from_y(args->kind);
    CHECK_POINTER("activate_gradient", some && !uses_y, x);
    CHECK_POINTER("activate_gradient", some && uses_y, y);
    CHECK_POINTER("activate_gradient", some, dy);
    CHECK_POINTER("activate_gradient", some, dx);
    LS_TRY(check_in_place("activate_gradient", args->count, args->dx, args->dy));
    return enqueued(stream, kernels_of(stream)->activate_gradient(stream, args));
}

ls_status ls_dropout(ls_stream *stream, const ls_dropout_args *args)
{
    const size_t count = args->samples * args->elements;
    CHECK_POINTER("dropout", count > 0, index);
    CHECK_POINTER("dropout", count > 0, x);
    CHECK_POINTER("dropout", count > 0, y);
    LS_TRY(check_in_place("dropout", count, args->y, args->x));
    if (args->layer > 0xffff || args->elements > (size_t)4 << 32) {
        return ls_fail(LS_ERR_ARGUMENT, "dropout: layer %lu, %zu elements: want at most 65535, "
                       "and 2^34",
                       (unsigned long)args->layer, args->elements);
    }
    if (args->channels > 0 && args->elements % args->channels != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "dropout: %zu elements are no multiple of %zu channels",
                       args->elements, args->channels);
    }
    return enqueued(stream, kernels_of(stream)->dropout(stream, args));
}

ls_status ls_add(ls_stream *stream, const ls_add_args *args)
{
    CHECK_POINTER("add", args->count > 0, a);
    CHECK_POINTER("add", args->count > 0, b);
    CHECK_POINTER("add", args->count > 0, y);
    LS_TRY(check_in_place("add", args->count, args->y, args->a));
    LS_TRY(check_in_place("add", args->count, args->y, args->b));
    return enqueued(stream, kernels_of(stream)->add(stream, args));
}

ls_status ls_multiply(ls_stream *stream, const ls_multiply_args *args)
{
    CHECK_POINTER("multiply", args->count > 0, a);
    CHECK_POINTER("multiply", args->count > 0, b);
    CHECK_POINTER("multiply", args->count > 0, y);
    LS_TRY(check_in_place("multiply", args->count, args->y, args->a));
    LS_TRY(check_in_place("multiply", args->count, args->y, args->b));
    return enqueued(stream, kernels_of(stream)->multiply(stream, args));
}

ls_status ls_copy_columns(ls_stream *stream, const ls_copy_columns_args *args)
{
    const bool some = args->rows > 0 && args->columns > 0;
    CHECK_POINTER("copy_columns", some, from);
    CHECK_POINTER("copy_columns", some, to);
    if (args->rows > 1 &&
        (args->from_stride < args->columns || args->to_stride < args->columns)) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "copy_columns: %zu columns of rows that lie %zu and %zu apart",
                       args->columns, args->from_stride, args->to_stride);
    }
    return enqueued(stream, kernels_of(stream)->copy_columns(stream, args));
}

ls_status ls_pad(ls_stream *stream, const ls_pad_args *args)
{
    const size_t images = args->samples * args->channels;
    CHECK_POINTER("pad", images * args->height * args->width > 0, x);
    CHECK_POINTER("pad", images * args->out_height * args->out_width > 0, y);
    return enqueued(stream, kernels_of(stream)->pad(stream, args));
}

ls_status ls_narrow(ls_stream *stream, const ls_narrow_args *args)
{
    CHECK_POINTER("narrow", args->count > 0, x);
    CHECK_POINTER("narrow", args->count > 0, y);
    return enqueued(stream, kernels_of(stream)->narrow(stream, args));
}

ls_status ls_widen(ls_stream *stream, const ls_widen_args *args)
{
    CHECK_POINTER("widen", args->count > 0, x);
    CHECK_POINTER("widen", args->count > 0, y);
    return enqueued(stream, kernels_of(stream)->widen(stream, args));
}

ls_status ls_decode(ls_stream *stream, const ls_decode_args *args)
{
    if (args->channels == 0 || args->count % args->channels != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "decode: %zu elements of %zu channels: want at least one "
                       "channel, and whole pixels",
                       args->count, args->channels);
    }
    CHECK_POINTER("decode", args->count > 0, x);
    CHECK_POINTER("decode", args->count > 0, table);
    CHECK_POINTER("decode", args->count > 0, y);
    return enqueued(stream, kernels_of(stream)->decode(stream, args));
}

/* -- losses ------------------------------------------------------------------------------------ */

/* A gradient of 0 would be no gradient: whoever asks for one gives the scale. */
static ls_status check_loss_scale(const char *op, const float *gradient, float scale)
{
    if (gradient == NULL || scale > 0.0f) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: a gradient with loss_scale %g: want more than 0", op,
                   (double)scale);
}

ls_status ls_softmax_loss(ls_stream *stream, const ls_softmax_loss_args *args)
{
    if (args->classes == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "softmax_loss: 0 classes");
    }
    const bool compares = args->loss != NULL || args->place != NULL || args->dlogits != NULL;
    CHECK_POINTER("softmax_loss", args->samples > 0, logits);
    CHECK_POINTER("softmax_loss", args->samples > 0 && compares, label);
    LS_TRY(check_loss_scale("softmax_loss", args->dlogits, args->loss_scale));
    return enqueued(stream, kernels_of(stream)->softmax_loss(stream, args));
}

ls_status ls_sigmoid_loss(ls_stream *stream, const ls_sigmoid_loss_args *args)
{
    if (args->outputs == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "sigmoid_loss: 0 outputs");
    }
    const bool compares = args->loss != NULL || args->dlogits != NULL ||
                          args->absolute_error != NULL || args->squared_error != NULL;
    CHECK_POINTER("sigmoid_loss", args->samples > 0, logits);
    CHECK_POINTER("sigmoid_loss", args->samples > 0 && compares && args->label == NULL, target);
    CHECK_POINTER("sigmoid_loss", args->samples > 0 && args->place != NULL, label);
    LS_TRY(check_loss_scale("sigmoid_loss", args->dlogits, args->loss_scale));
    return enqueued(stream, kernels_of(stream)->sigmoid_loss(stream, args));
}

ls_status ls_regression_loss(ls_stream *stream, const ls_regression_loss_args *args)
{
    if (args->outputs == 0 || args->kind > LS_REGRESSION_ABSOLUTE) {
        return ls_fail(LS_ERR_ARGUMENT, "regression_loss: kind %d of %zu outputs", (int)args->kind,
                       args->outputs);
    }
    CHECK_POINTER("regression_loss", args->samples > 0, prediction);
    CHECK_POINTER("regression_loss", args->samples > 0, target);
    LS_TRY(check_loss_scale("regression_loss", args->dprediction, args->loss_scale));
    return enqueued(stream, kernels_of(stream)->regression_loss(stream, args));
}

ls_status ls_shard_sums(ls_stream *stream, const ls_shard_sums_args *args)
{
    LS_TRY(check_fold("shard_sums", args->fold, 0, 0));
    CHECK_POINTER("shard_sums", args->fold->sample[args->fold->leaf_count] > 0, loss);
    CHECK_POINTER("shard_sums", args->fold->leaf_count > 0, out);
    return enqueued(stream, kernels_of(stream)->shard_sums(stream, args));
}

/* -- the parameter arena ----------------------------------------------------------------------- */

ls_status ls_gradient_finish(ls_stream *stream, const ls_gradient_finish_args *args)
{
    LS_TRY(check_arena("gradient_finish", args->tensors));
    const bool some = args->tensors->count > 0;
    CHECK_POINTER("gradient_finish", some, w);
    CHECK_POINTER("gradient_finish", some, g);
    CHECK_POINTER("gradient_finish", some, square_sum);
    CHECK_POINTER("gradient_finish", some, nonfinite);
    return enqueued(stream, kernels_of(stream)->gradient_finish(stream, args));
}

ls_status ls_weight_sums(ls_stream *stream, const ls_weight_sums_args *args)
{
    LS_TRY(check_arena("weight_sums", args->tensors));
    const bool some = args->tensors->count > 0;
    CHECK_POINTER("weight_sums", some, w);
    CHECK_POINTER("weight_sums", some, square_sum);
    CHECK_POINTER("weight_sums", some, absolute_sum);
    return enqueued(stream, kernels_of(stream)->weight_sums(stream, args));
}

ls_status ls_update(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(check_arena("update", args->tensors));
    const bool some = args->tensors->count > 0;
    const ls_optimizer optimizer = args->optimizer;
    if ((unsigned)optimizer > LS_OPTIMIZER_RMSPROP) {
        return ls_fail(LS_ERR_ARGUMENT, "update: optimizer %d", (int)optimizer);
    }
    const bool adam = optimizer == LS_OPTIMIZER_ADAM || optimizer == LS_OPTIMIZER_ADAMW;
    CHECK_POINTER("update", some, step_host);
    CHECK_POINTER("update", some, step_device);
    CHECK_POINTER("update", some, g);
    CHECK_POINTER("update", some, w);
    CHECK_POINTER("update", some && optimizer != LS_OPTIMIZER_SGD, slot0);
    CHECK_POINTER("update", some && adam, slot1);
    CHECK_POINTER("update", some, update_square_sum);
    CHECK_POINTER("update", true, digest);
    return enqueued(stream, kernels_of(stream)->update(stream, args));
}

/* -- whole buffers ----------------------------------------------------------------------------- */

ls_status ls_digest(ls_stream *stream, const ls_digest_args *args)
{
    CHECK_POINTER("digest", args->count > 0, x);
    CHECK_POINTER("digest", true, out);
    return enqueued(stream, kernels_of(stream)->digest(stream, args));
}

ls_status ls_nonfinite(ls_stream *stream, const ls_nonfinite_args *args)
{
    CHECK_POINTER("nonfinite", args->count > 0, x);
    CHECK_POINTER("nonfinite", true, out);
    return enqueued(stream, kernels_of(stream)->nonfinite(stream, args));
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
        CHECK_POINTER("merge", args->count > 0, source[i]);
    }
    for (int o = 0; o < args->out_count; o++) {
        CHECK_POINTER("merge", args->count > 0, out[o]);
        for (int i = 0; i < args->source_count; i++) {
            LS_TRY(check_in_place("merge", args->count, args->out[o], args->source[i]));
        }
    }
    return enqueued(stream, kernels_of(stream)->merge(stream, args));
}

/* -- batch normalisation ----------------------------------------------------------------------- */

static ls_status check_samples_of(const char *op, const ls_batchnorm_shape *shape)
{
    if (shape->height > 0 && shape->width > 0 && shape->channels > 0) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: samples of %zu x %zu x %zu: none may be 0", op,
                   shape->height, shape->width, shape->channels);
}

/* Statistics by shard need the fold of these samples; shards with samples have a count. */
static ls_status check_statistics(const char *op, const ls_batchnorm_statistics_of *statistics,
                                  size_t channels, const ls_fold *fold, size_t samples)
{
    if (samples > 0 && statistics->row == NULL) return missing(op, "statistics.row");
    if (statistics->stride == 0) {
        if (samples == 0 || statistics->n[0] > 0.0f) return LS_OK;
        return ls_fail(LS_ERR_ARGUMENT, "%s: statistics of %g values", op,
                       (double)statistics->n[0]);
    }
    LS_TRY(check_fold(op, fold, 0, 0));
    if (statistics->stride < 2 * channels || fold->sample[fold->leaf_count] != samples) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu samples, the fold has %zu; rows of statistics of "
                       "%zu channels lie %zu apart",
                       op, samples, fold->sample[fold->leaf_count], channels, statistics->stride);
    }
    for (int i = 0; i < fold->leaf_count; i++) {
        const float n = statistics->n[fold->shard[i]];
        if (fold->sample[i] < fold->sample[i + 1] && !(n > 0.0f)) {
            return ls_fail(LS_ERR_ARGUMENT, "%s: statistics of %g values for shard %d", op,
                           (double)n, fold->shard[i]);
        }
    }
    return LS_OK;
}

ls_status ls_batchnorm_statistics(ls_stream *stream, const ls_batchnorm_statistics_args *args)
{
    LS_TRY(check_samples_of("batchnorm_statistics", &args->shape));
    LS_TRY(check_fold("batchnorm_statistics", args->fold, 0, 0));
    CHECK_POINTER("batchnorm_statistics", args->fold->sample[args->fold->leaf_count] > 0, x);
    CHECK_POINTER("batchnorm_statistics", args->fold->leaf_count > 0, row);
    return enqueued(stream, kernels_of(stream)->batchnorm_statistics(stream, args));
}

static ls_status check_rows(const char *op, size_t channels, int shard_count)
{
    if (channels > 0 && shard_count >= 1 && shard_count <= LS_SHARD_MAX) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: rows of %d shards, %zu channels: want 1 .. %d, and at "
                   "least 1",
                   op, shard_count, channels, LS_SHARD_MAX);
}

ls_status ls_batchnorm_merge(ls_stream *stream, const ls_batchnorm_merge_args *args)
{
    LS_TRY(check_rows("batchnorm_merge", args->channels, args->shard_count));
    CHECK_POINTER("batchnorm_merge", true, row);
    CHECK_POINTER("batchnorm_merge", true, merged);
    CHECK_POINTER("batchnorm_merge", true, moving_mean);
    CHECK_POINTER("batchnorm_merge", true, moving_variance);
    return enqueued(stream, kernels_of(stream)->batchnorm_merge(stream, args));
}

ls_status ls_batchnorm(ls_stream *stream, const ls_batchnorm_args *args)
{
    const ls_batchnorm_shape *shape = &args->shape;
    LS_TRY(check_samples_of("batchnorm", shape));
    LS_TRY(check_statistics("batchnorm", &args->statistics, shape->channels, args->fold,
                            args->samples));
    CHECK_POINTER("batchnorm", args->samples > 0, gamma);
    CHECK_POINTER("batchnorm", args->samples > 0, beta);
    CHECK_POINTER("batchnorm", args->samples > 0, x);
    CHECK_POINTER("batchnorm", args->samples > 0, y);
    LS_TRY(check_in_place("batchnorm",
                          args->samples * shape->height * shape->width * shape->channels, args->y,
                          args->x));
    return enqueued(stream, kernels_of(stream)->batchnorm(stream, args));
}

ls_status ls_batchnorm_gradient_sums(ls_stream *stream, const ls_batchnorm_gradient_sums_args *args)
{
    const ls_fold *fold = args->fold;
    LS_TRY(check_samples_of("batchnorm_gradient_sums", &args->shape));
    LS_TRY(check_fold("batchnorm_gradient_sums", fold, args->shape.channels, args->piece_stride));
    const size_t samples = fold->sample[fold->leaf_count];
    LS_TRY(check_statistics("batchnorm_gradient_sums", &args->statistics, args->shape.channels,
                            fold, samples));
    CHECK_POINTER("batchnorm_gradient_sums", samples > 0, x);
    CHECK_POINTER("batchnorm_gradient_sums", samples > 0, dy);
    CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, row);
    CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, dgamma);
    CHECK_POINTER("batchnorm_gradient_sums", fold->leaf_count > 0, dbeta);
    return enqueued(stream, kernels_of(stream)->batchnorm_gradient_sums(stream, args));
}

ls_status ls_batchnorm_merge_sums(ls_stream *stream, const ls_batchnorm_merge_sums_args *args)
{
    LS_TRY(check_rows("batchnorm_merge_sums", args->channels, args->shard_count));
    CHECK_POINTER("batchnorm_merge_sums", true, row);
    CHECK_POINTER("batchnorm_merge_sums", true, merged);
    return enqueued(stream, kernels_of(stream)->batchnorm_merge_sums(stream, args));
}

ls_status ls_batchnorm_gradient(ls_stream *stream, const ls_batchnorm_gradient_args *args)
{
    const ls_batchnorm_shape *shape = &args->shape;
    const size_t count = args->samples * shape->height * shape->width * shape->channels;
    LS_TRY(check_samples_of("batchnorm_gradient", shape));
    LS_TRY(check_statistics("batchnorm_gradient", &args->statistics, shape->channels, args->fold,
                            args->samples));
    CHECK_POINTER("batchnorm_gradient", args->samples > 0, sums);
    CHECK_POINTER("batchnorm_gradient", args->samples > 0, gamma);
    CHECK_POINTER("batchnorm_gradient", args->samples > 0, x);
    CHECK_POINTER("batchnorm_gradient", args->samples > 0, dy);
    CHECK_POINTER("batchnorm_gradient", args->samples > 0, dx);
    LS_TRY(check_in_place("batchnorm_gradient", count, args->dx, args->dy));
    return enqueued(stream, kernels_of(stream)->batchnorm_gradient(stream, args));
}
