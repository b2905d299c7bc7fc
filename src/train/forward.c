/* SPDX-License-Identifier: MIT */
/* forward.c -- a replica's forward pass, layer by layer.
 *
 * view[l] is layer l's output in this pass. Flatten, and dropout when nothing is dropped, only
 * rename their input's memory. A layer on which the loss does not depend is left out.
 */
#include "train/normalize.h"
#include "train/storage.h"

/* -- layers ------------------------------------------------------------------------------------ */

static ls_status conv_args(ls_replica *r, const ls_layer *layer, size_t samples, const float *x,
                           float *y, ls_conv_forward_args *args)
{
    *args = (ls_conv_forward_args){ .shape = layer->conv, .relu = layer->relu, .x = x, .y = y };
    args->shape.samples = samples;
    LS_TRY(ls_storage_parameter(r, layer->kernel, &args->w));
    return ls_storage_parameter(r, layer->bias, &args->bias);
}

static ls_status conv_forward(ls_replica *r, const ls_layer *layer, size_t samples, const float *x,
                              float *y)
{
    ls_conv_forward_args args;
    LS_TRY(conv_args(r, layer, samples, x, y, &args));
    return ls_conv_forward(&r->compute, &args);
}

static ls_status dense_forward(ls_replica *r, const ls_layer *layer, size_t samples,
                               const float *x, float *y)
{
    ls_gemm_args args = {
        .M = samples,
        .N = ls_shape_floats(layer->out),
        .K = ls_shape_floats(layer->in),
        .transpose_b = true,
        .relu = layer->relu,
        .A = x,
        .C = y,
    };
    LS_TRY(ls_storage_parameter(r, layer->kernel, &args.B));
    LS_TRY(ls_storage_parameter(r, layer->bias, &args.bias));
    return ls_gemm(&r->compute, &args);
}

static ls_status max_pool_forward(ls_replica *r, const ls_layer *layer, size_t samples,
                                  const float *x, float *y, uint8_t *place)
{
    ls_max_pool_args args = { .shape = layer->pool, .x = x, .y = y, .place = place };
    args.shape.samples = samples;
    return ls_max_pool(&r->compute, &args);
}

static ls_status average_pool_forward(ls_replica *r, const ls_layer *layer, size_t samples,
                                      const float *x, float *y)
{
    ls_average_pool_args args = { .shape = layer->pool, .x = x, .y = y };
    args.shape.samples = samples;
    return ls_average_pool(&r->compute, &args);
}

static ls_status zero_pad(ls_replica *r, const ls_layer *layer, size_t samples, const float *x,
                          float *y)
{
    return ls_pad(&r->compute, &(ls_pad_args){
        .samples = samples,
        .height = layer->in.height,
        .width = layer->in.width,
        .channels = layer->in.channels,
        .top = (ptrdiff_t)layer->pad_top,
        .left = (ptrdiff_t)layer->pad_left,
        .out_height = layer->out.height,
        .out_width = layer->out.width,
        .x = x,
        .y = y,
    });
}

ls_status ls_replica_dropout(ls_replica *r, const ls_layer *layer, const ls_pass_input *input,
                             const float *x, float *y)
{
    return ls_dropout(&r->compute, &(ls_dropout_args){
        .samples = input->samples,
        .elements = ls_shape_floats(layer->out),
        .channels = layer->is_spatial ? layer->out.channels : 0,
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

/* The layers of one input; x and y in fp32. */
static ls_status run_layer(ls_replica *r, int l, const ls_pass_input *input, const ls_fold *fold,
                           const float *x, float *y)
{
    const ls_layer *layer = &r->config->model->layer[l];
    const size_t samples = input->samples;
    switch (layer->op) {
    case LS_OP_CONV: return conv_forward(r, layer, samples, x, y);
    case LS_OP_DENSE: return dense_forward(r, layer, samples, x, y);
    case LS_OP_MAX_POOL: return max_pool_forward(r, layer, samples, x, y, r->place[l]);
    case LS_OP_AVERAGE_POOL: return average_pool_forward(r, layer, samples, x, y);
    case LS_OP_ZERO_PAD: return zero_pad(r, layer, samples, x, y);
    case LS_OP_BATCHNORM: return ls_normalize_forward(r, l, input, fold, x, y);
    case LS_OP_DROPOUT: return ls_replica_dropout(r, layer, input, x, y);
    case LS_OP_ACTIVATION:
        return ls_activate(&r->compute, &(ls_activate_args){
            .kind = layer->activation, .slope = (float)layer->slope,
            .count = samples * ls_shape_floats(layer->out), .x = x, .y = y });
    case LS_OP_INPUT: return ls_copy_within(&r->compute, y, x, samples * ls_shape_floats(layer->out)
                                                                   * sizeof *y);
    case LS_OP_FLATTEN:
    case LS_OP_ADD:
    case LS_OP_MULTIPLY:
    case LS_OP_CONCAT: break; /* forward_layer's own */
    }
    return LS_OK;
}

/* -- layers of several inputs ------------------------------------------------------------------ */

/* y = x0 op x1 op x2 ..., from the left; add's relu comes with the last. */
static ls_status combine(ls_replica *r, const ls_layer *layer, size_t samples, float *y)
{
    const size_t count = samples * ls_shape_floats(layer->out);
    const float *a, *b;
    LS_TRY(ls_storage_read(r, r->view[layer->input[0]], count, LS_SCRATCH_A, &a));
    for (int i = 1; i < layer->input_count; i++) {
        LS_TRY(ls_storage_read(r, r->view[layer->input[i]], count, LS_SCRATCH_B, &b));
        if (layer->op == LS_OP_ADD)
            LS_TRY(ls_add(&r->compute, &(ls_add_args){
                .count = count, .relu = layer->relu && i == layer->input_count - 1,
                .a = a, .b = b, .y = y }));
        else
            LS_TRY(ls_multiply(&r->compute, &(ls_multiply_args){
                .count = count, .a = a, .b = b, .y = y }));
        a = y;
    }
    return LS_OK;
}

/* The inputs' channels side by side. */
static ls_status concatenate(ls_replica *r, const ls_layer *layer, size_t samples, float *y)
{
    const ls_model *model = r->config->model;
    const size_t rows = samples * layer->out.height * layer->out.width;
    for (int i = 0; i < layer->input_count; i++) {
        const size_t columns = model->layer[layer->input[i]].out.channels;
        const float *x;
        LS_TRY(ls_storage_read(r, r->view[layer->input[i]], rows * columns, LS_SCRATCH_A, &x));
        LS_TRY(ls_copy_columns(&r->compute, &(ls_copy_columns_args){
            .rows = rows, .columns = columns, .from = x, .from_stride = columns,
            .to = y, .to_stride = layer->out.channels }));
        y += columns;
    }
    return LS_OK;
}

/* -- the pass ---------------------------------------------------------------------------------- */

static ls_status forward_layer(ls_replica *r, int l, const ls_pass_input *input,
                               const ls_fold *fold)
{
    const ls_model *model = r->config->model;
    const ls_layer *layer = &model->layer[l];
    const bool is_input = layer->op == LS_OP_INPUT;
    const ls_stored from = is_input ? (ls_stored){ .at = input->x }
                                    : r->view[layer->input[0]];
    const bool drops = layer->op == LS_OP_DROPOUT && input->kind != LS_PASS_INFERENCE;
    r->view[l] = r->activation[l];
    if (!r->activation[l].at || (layer->op == LS_OP_DROPOUT && !drops)) {
        r->view[l] = from;
        return LS_OK;
    }
    float *y = ls_storage_draft(r, r->view[l]);
    if (layer->op == LS_OP_CONCAT) {
        LS_TRY(concatenate(r, layer, input->samples, y));
    } else if (layer->input_count > 1) {
        LS_TRY(combine(r, layer, input->samples, y));
    } else {
        const float *x;
        LS_TRY(ls_storage_read(r, from, input->samples * ls_shape_floats(layer->in), LS_SCRATCH_A,
                               &x));
        LS_TRY(run_layer(r, l, input, fold, x, y));
    }
    return ls_storage_write(r, r->view[l], input->samples * ls_shape_floats(layer->out));
}

/* Are layer `l`, a convolution, and the pooling that alone reads it one op? Then the convolution's
 * output is not kept. In the classes of 16 bits it is rounded on its way, and they are two. */
static bool is_pooled_at_once(const ls_replica *r, int l)
{
    const ls_layer *layer = &r->config->model->layer[l];
    return layer->op == LS_OP_CONV && layer->pooling == l + 1 && !r->activation[l].is_narrow;
}

/* A convolution and the next layer. */
static ls_status forward_pooled(ls_replica *r, int l, const ls_pass_input *input)
{
    const ls_layer *layer = &r->config->model->layer[l];
    const float *x;
    ls_pooled_conv_forward_args args = { 0 };
    r->view[l] = r->activation[l];
    r->view[l + 1] = r->activation[l + 1];
    LS_TRY(ls_storage_read(r, r->view[layer->input[0]],
                           input->samples * ls_shape_floats(layer->in), LS_SCRATCH_A, &x));
    LS_TRY(conv_args(r, layer, input->samples, x, r->view[l].at, &args.conv));
    args.pool = (ls_max_pool_args){ .shape = layer[1].pool, .x = args.conv.y,
                                    .y = ls_storage_draft(r, r->view[l + 1]),
                                    .place = r->place[l + 1] };
    args.pool.shape.samples = input->samples;
    LS_TRY(ls_pooled_conv_forward(&r->compute, &args));
    return ls_storage_write(r, r->view[l + 1], input->samples * ls_shape_floats(layer[1].out));
}

ls_status ls_replica_forward(ls_replica *replica, const ls_pass_input *input,
                             const ls_fold *fold)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    LS_TRY(ls_replica_decode(r, input));
    for (int l = 0; l < model->layer_count; l++) {
        if (!model->layer[l].is_used) continue;
        if (is_pooled_at_once(r, l)) LS_TRY(forward_pooled(r, l++, input));
        else LS_TRY(forward_layer(r, l, input, fold));
    }
    return LS_OK;
}

const float *ls_replica_output(const ls_replica *replica)
{
    return replica->view[replica->config->model->layer_count - 1].at;
}

/* -- diagnosis --------------------------------------------------------------------------------- */

ls_status ls_replica_layer_output(ls_replica *replica, int l, size_t samples, const float **y)
{
    ls_replica *r = replica;
    const ls_layer *layer = &r->config->model->layer[l];
    const size_t count = samples * ls_shape_floats(layer->out);
    if (is_pooled_at_once(r, l)) {
        const float *x;
        LS_TRY(ls_storage_read(r, r->view[layer->input[0]], samples * ls_shape_floats(layer->in),
                               LS_SCRATCH_A, &x));
        LS_TRY(conv_forward(r, layer, samples, x, r->view[l].at));
    }
    return ls_storage_read(r, r->view[l], count, LS_SCRATCH_A, y);
}
