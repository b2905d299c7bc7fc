/* SPDX-License-Identifier: MIT */
/* layers.c -- a replica's passes: forward, loss, backward, layer by layer.
 *
 * Forward goes through the layers in order; view[l] is layer l's output in this pass. Flatten, and
 * dropout when nothing is dropped, only rename their input's memory.
 *
 * Backward walks from the loss to the first layer that has parameters. The gradient of a layer's
 * output is in `dy`; a layer turns it into the sums of its parameters' gradients (into the
 * arena, as the fold says) and into the gradient of its input. Element-wise layers work in place;
 * the others write into the one of two buffers that dy is not in. Below the first layer with
 * parameters nobody needs a gradient, so none is computed.
 */
#include "train/replica.h"

/* -- forward ----------------------------------------------------------------------------------- */

static const float *weights_of(const ls_replica *r, int parameter)
{
    return parameter < 0 ? NULL : r->weights + r->config->model->parameter[parameter].begin;
}

static ls_status conv_forward(ls_replica *r, const ls_layer *layer, size_t samples, const float *x,
                              float *y)
{
    ls_conv_forward_args args = {
        .shape = layer->conv,
        .relu = layer->relu,
        .x = x,
        .w = weights_of(r, layer->kernel),
        .bias = weights_of(r, layer->bias),
        .y = y,
    };
    args.shape.samples = samples;
    return ls_conv_forward(&r->compute, &args);
}

static ls_status dense_forward(ls_replica *r, const ls_layer *layer, size_t samples,
                               const float *x, float *y)
{
    return ls_gemm(&r->compute, &(ls_gemm_args){
        .M = samples,
        .N = ls_shape_floats(layer->out),
        .K = ls_shape_floats(layer->in),
        .transpose_b = true,
        .relu = layer->relu,
        .A = x,
        .B = weights_of(r, layer->kernel),
        .bias = weights_of(r, layer->bias),
        .C = y,
    });
}

static ls_status pool_forward(ls_replica *r, const ls_layer *layer, size_t samples, const float *x,
                              float *y, uint8_t *place)
{
    ls_max_pool_args args = { .shape = layer->pool, .x = x, .y = y, .place = place };
    args.shape.samples = samples;
    return ls_max_pool(&r->compute, &args);
}

/* The same op forward (x -> y) and backward (dy -> dx): the mask is addressed, not stored. */
static ls_status dropout(ls_replica *r, const ls_layer *layer, const ls_pass_input *input,
                         const float *x, float *y)
{
    return ls_dropout(&r->compute, &(ls_dropout_args){
        .samples = input->samples,
        .elements = ls_shape_floats(layer->out),
        .index = input->index,
        .seed = r->config->seed,
        .epoch = input->epoch,
        .layer = (uint32_t)layer->ordinal,
        .threshold = (uint32_t)(layer->rate * 4294967296.0),
        .scale = (float)(1 / (1 - layer->rate)),
        .x = x,
        .y = y,
    });
}

ls_status ls_replica_forward(ls_replica *replica, const ls_pass_input *input, bool training)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    const size_t samples = input->samples;
    LS_TRY(ls_replica_decode(r, input));
    for (int l = 0; l < model->layer_count; l++) {
        const ls_layer *layer = &model->layer[l];
        const float *x = layer->input_count == 0 ? input->x : r->view[layer->input[0]];
        float *y = r->activation[l];
        r->view[l] = y;
        switch (layer->op) {
        case LS_OP_INPUT:
        case LS_OP_FLATTEN: r->view[l] = x; break;
        case LS_OP_CONV: LS_TRY(conv_forward(r, layer, samples, x, y)); break;
        case LS_OP_DENSE: LS_TRY(dense_forward(r, layer, samples, x, y)); break;
        case LS_OP_MAX_POOL: LS_TRY(pool_forward(r, layer, samples, x, y, r->place[l])); break;
        case LS_OP_ACTIVATION:
            LS_TRY(ls_activate(&r->compute, &(ls_activate_args){
                .count = samples * ls_shape_floats(layer->out), .x = x, .y = y }));
            break;
        case LS_OP_DROPOUT:
            if (training) LS_TRY(dropout(r, layer, input, x, y));
            else r->view[l] = x;
            break;
        default: break;
        }
    }
    return LS_OK;
}

/* -- loss -------------------------------------------------------------------------------------- */

/* The label that is hot keeps 1 - e of its target; e spreads over `classes`. */
static void smoothing_of(const ls_model *model, size_t classes, float *hot, float *all)
{
    *hot = (float)(1 - model->smoothing);
    *all = (float)(model->smoothing / (double)classes);
}

static ls_status softmax_loss(ls_replica *r, const ls_pass_input *input, bool gradient,
                              bool probability)
{
    const ls_model *model = r->config->model;
    ls_softmax_loss_args args = {
        .samples = input->samples,
        .classes = ls_model_outputs(model),
        .loss_scale = 1.0f,
        .logits = r->view[model->layer_count - 1],
        .label = input->label,
        .weight = input->weight,
        .loss = r->loss,
        .place = r->label_place,
        .predicted = r->predicted,
        .dlogits = gradient ? r->dlogits : NULL,
        .probability = probability ? r->probability : NULL,
    };
    smoothing_of(model, args.classes, &args.smooth_hot, &args.smooth_all);
    return ls_softmax_loss(&r->compute, &args);
}

static ls_status sigmoid_loss(ls_replica *r, const ls_pass_input *input, bool gradient,
                              bool probability)
{
    const ls_model *model = r->config->model;
    ls_sigmoid_loss_args args = {
        .samples = input->samples,
        .outputs = ls_model_outputs(model),
        .loss_scale = 1.0f,
        .logits = r->view[model->layer_count - 1],
        .label = input->label,
        .target = input->target,
        .weight = input->weight,
        .loss = r->loss,
        .place = input->label ? r->label_place : NULL,
        .predicted = input->label ? r->predicted : NULL,
        .absolute_error = r->absolute_error,
        .squared_error = r->squared_error,
        .dlogits = gradient ? r->dlogits : NULL,
        .probability = probability ? r->probability : NULL,
    };
    smoothing_of(model, 2, &args.smooth_hot, &args.smooth_all);
    return ls_sigmoid_loss(&r->compute, &args);
}

static ls_status regression_loss(ls_replica *r, const ls_pass_input *input, bool gradient)
{
    const ls_model *model = r->config->model;
    return ls_regression_loss(&r->compute, &(ls_regression_loss_args){
        .kind = model->loss == LS_LOSS_MSE ? LS_REGRESSION_SQUARED : LS_REGRESSION_ABSOLUTE,
        .samples = input->samples,
        .outputs = ls_model_outputs(model),
        .loss_scale = 1.0f,
        .prediction = r->view[model->layer_count - 1],
        .target = input->target,
        .weight = input->weight,
        .loss = r->loss,
        .absolute_error = r->absolute_error,
        .squared_error = r->squared_error,
        .dprediction = gradient ? r->dlogits : NULL,
    });
}

ls_status ls_replica_loss(ls_replica *replica, const ls_pass_input *input, bool gradient,
                          bool probability)
{
    switch (replica->config->model->loss) {
    case LS_LOSS_SOFTMAX_CROSSENTROPY: return softmax_loss(replica, input, gradient, probability);
    case LS_LOSS_SIGMOID_CROSSENTROPY: return sigmoid_loss(replica, input, gradient, probability);
    case LS_LOSS_MSE:
    case LS_LOSS_MAE: break;
    }
    return regression_loss(replica, input, gradient);
}

ls_status ls_replica_sum(ls_replica *replica, const ls_pass_input *input, const ls_fold *fold)
{
    const bool classify = replica->config->data->task == LS_TASK_CLASSIFY;
    return ls_shard_sums(&replica->compute, &(ls_shard_sums_args){
        .fold = fold,
        .top_k = replica->config->top_k,
        .loss = replica->loss,
        .weight = input->weight,
        .absolute_error = classify ? NULL : replica->absolute_error,
        .squared_error = classify ? NULL : replica->squared_error,
        .place = classify ? replica->label_place : NULL,
        .out = replica->results.shard_sum,
    });
}

/* -- backward ---------------------------------------------------------------------------------- */

static float *gradient_of(ls_replica *r, int parameter)
{
    return r->gradients + r->config->model->parameter[parameter].begin;
}

/* The geometry of a dense layer's weight gradient: one place, a 1x1 kernel. */
static ls_conv_shape dense_as_conv(const ls_layer *layer)
{
    return (ls_conv_shape){
        .height = 1, .width = 1, .channels = ls_shape_floats(layer->in),
        .filters = ls_shape_floats(layer->out),
        .kernel_height = 1, .kernel_width = 1, .stride_height = 1, .stride_width = 1,
        .out_height = 1, .out_width = 1,
    };
}

/* Sums of the kernel's and the bias's gradients over the pass's samples. */
static ls_status parameter_gradients(ls_replica *r, const ls_layer *layer, size_t samples,
                                     const float *dy, const ls_fold *fold)
{
    ls_conv_weight_gradient_args args = {
        .shape = layer->op == LS_OP_CONV ? layer->conv : dense_as_conv(layer),
        .fold = fold,
        .x = r->view[layer->input[0]],
        .dy = dy,
        .dw = gradient_of(r, layer->kernel),
        .piece_stride = r->config->model->arena_floats,
    };
    args.shape.samples = samples;
    LS_TRY(ls_conv_weight_gradient(&r->compute, &args));
    if (layer->bias < 0) return LS_OK;
    return ls_batch_sum(&r->compute, &(ls_batch_sum_args){
        .height = args.shape.out_height,
        .width = args.shape.out_width,
        .channels = args.shape.filters,
        .fold = fold,
        .x = dy,
        .out = gradient_of(r, layer->bias),
        .piece_stride = r->config->model->arena_floats,
    });
}

static ls_status input_gradient(ls_replica *r, const ls_layer *layer, size_t samples,
                                const float *dy, const uint8_t *place, float *dx)
{
    if (layer->op == LS_OP_MAX_POOL) {
        ls_max_pool_gradient_args args = { .shape = layer->pool, .dy = dy, .place = place,
                                           .dx = dx };
        args.shape.samples = samples;
        return ls_max_pool_gradient(&r->compute, &args);
    }
    if (layer->op == LS_OP_CONV) {
        ls_conv_input_gradient_args args = { .shape = layer->conv, .dy = dy,
                                             .w = weights_of(r, layer->kernel), .dx = dx };
        args.shape.samples = samples;
        return ls_conv_input_gradient(&r->compute, &args);
    }
    return ls_gemm(&r->compute, &(ls_gemm_args){
        .M = samples,
        .N = ls_shape_floats(layer->in),
        .K = ls_shape_floats(layer->out),
        .A = dy,
        .B = weights_of(r, layer->kernel),
        .C = dx,
    });
}

static ls_status relu_gradient(ls_replica *r, const ls_layer *layer, int l, size_t samples,
                               float *dy)
{
    return ls_activate_gradient(&r->compute, &(ls_activate_gradient_args){
        .count = samples * ls_shape_floats(layer->out), .y = r->view[l], .dy = dy, .dx = dy });
}

static int first_layer_with_parameters(const ls_model *model)
{
    for (int l = 0; l < model->layer_count; l++)
        if (model->layer[l].kernel >= 0) return l;
    return model->layer_count;
}

ls_status ls_replica_backward(ls_replica *replica, const ls_pass_input *input,
                              const ls_fold *fold, ls_layer_done_fn *layer_done, void *context)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    const size_t samples = input->samples;
    const int first = first_layer_with_parameters(model);
    float *dy = r->dlogits;
    int tensors_done = 0;
    for (int l = model->layer_count - 1; l >= first; l--) {
        const ls_layer *layer = &model->layer[l];
        const bool has_relu = layer->op == LS_OP_ACTIVATION || layer->relu;
        if (has_relu) LS_TRY(relu_gradient(r, layer, l, samples, dy));
        if (layer->op == LS_OP_DROPOUT) LS_TRY(dropout(r, layer, input, dy, dy));
        if (layer->kernel >= 0) {
            LS_TRY(parameter_gradients(r, layer, samples, dy, fold));
            tensors_done += layer->bias >= 0 ? 2 : 1;
        }
        const bool moves = layer->op == LS_OP_MAX_POOL || layer->kernel >= 0;
        if (moves && l > first) {
            float *dx = r->gradient_of[dy == r->gradient_of[0]];
            LS_TRY(input_gradient(r, layer, samples, dy, r->place[l], dx));
            dy = dx;
        }
        if (layer->kernel >= 0 && layer_done) LS_TRY(layer_done(context, tensors_done));
    }
    return LS_OK;
}

/* -- diagnosis --------------------------------------------------------------------------------- */

ls_status ls_replica_find_nonfinite(ls_replica *replica, size_t samples, ls_group *group,
                                    int *layer, uint64_t *element)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    *layer = -1;
    for (int l = 0; l < model->layer_count; l++) {
        LS_TRY(ls_nonfinite(&r->compute, &(ls_nonfinite_args){
            .count = samples * ls_shape_floats(model->layer[l].out),
            .x = r->view[l],
            .out = r->results.nonfinite }));
        LS_TRY(ls_replica_read_results(r, group, "looking for a value that is not finite"));
        if (r->results_host.nonfinite[0] == LS_ALL_FINITE) continue;
        *layer = l;
        *element = r->results_host.nonfinite[0];
        return LS_OK;
    }
    return LS_OK;
}
