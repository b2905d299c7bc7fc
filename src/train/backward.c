/* SPDX-License-Identifier: MIT */
/* backward.c -- a replica's backward pass, layer by layer, from the loss's gradient.
 *
 * A layer turns the gradient of its output, dy, into the sums of its parameters' gradients (into
 * the arena, as the fold says) and into gradients of its inputs. Where each lies, which may be
 * overwritten and which are added is planned (gradient_plan.h); where nobody needs a gradient, none
 * is computed.
 */
#include "kernels/activation.h"
#include "train/normalize.h"
#include "train/storage.h"

/* What the functions below work on: one layer's place in the pass. */
typedef struct {
    ls_replica *r;
    const ls_pass_input *input;
    const ls_fold *fold;
    int l;
    const ls_layer *layer;
    const ls_gradient_step *step;
} visit;

static size_t floats_out(const visit *v)
{
    return v->input->samples * ls_shape_floats(v->layer->out);
}

static size_t floats_in(const visit *v, int i)
{
    const ls_model *model = v->r->config->model;
    return v->input->samples * ls_shape_floats(model->layer[v->layer->input[i]].out);
}

static ls_status read_input(const visit *v, int i, int which, const float **x)
{
    return ls_storage_read(v->r, v->r->view[v->layer->input[i]], floats_in(v, i), which, x);
}

/* The gradient of the layer's output, after its own relu. */
static ls_status read_gradient(const visit *v, int which, const float **dy)
{
    return ls_storage_read(v->r, v->r->gradient_slot[v->step->masked], floats_out(v), which, dy);
}

/* -- parameters -------------------------------------------------------------------------------- */

static float *gradient_of(const ls_replica *r, int parameter)
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

static ls_conv_weight_gradient_args weight_gradient_args(const visit *v)
{
    const ls_replica *r = v->r;
    const ls_layer *layer = v->layer;
    ls_conv_weight_gradient_args args = {
        .shape = layer->op == LS_OP_CONV ? layer->conv : dense_as_conv(layer),
        .fold = v->fold,
        .dw = gradient_of(r, layer->kernel),
        .piece_stride = r->config->model->arena_floats,
    };
    args.shape.samples = v->input->samples;
    return args;
}

/* Are the gradients of the parameters of layer `l` made from that of the pooling after it? In the
 * classes of 16 bits dy is made, so that the op has room in fp32. */
static bool skips_pooling(const ls_replica *r, int l)
{
    return r->backward.step[l].feeds_pooling && r->config->precision == LS_PRECISION_F32
           && ls_gradient_plan_trains(&r->backward, r->config->model, r->config->rule, l);
}

/* A max pooling's, all but dy and dx. */
static ls_status pooling_args(const visit *v, ls_max_pool_gradient_args *args)
{
    *args = (ls_max_pool_gradient_args){ .shape = v->layer->pool, .place = v->r->place[v->l] };
    args->shape.samples = v->input->samples;
    if (!v->r->backward.step[v->layer->input[0]].comes_masked) return LS_OK;
    return ls_storage_read(v->r, v->r->view[v->l], floats_out(v), LS_SCRATCH_A, &args->relu_y);
}

/* The next layer's gradient has left its slot to be read: it is visited just before this one, and
 * wrote nothing. */
static ls_status pooled_parameter_gradients(const visit *v)
{
    ls_replica *r = v->r;
    const visit pooling = { .r = r, .input = v->input, .fold = v->fold, .l = v->l + 1,
                            .layer = v->layer + 1, .step = v->step + 1 };
    ls_pooled_weight_gradient_args args = { .conv = weight_gradient_args(v) };
    LS_TRY(read_input(v, 0, LS_SCRATCH_A, &args.conv.x));
    LS_TRY(pooling_args(&pooling, &args.pool));
    LS_TRY(read_gradient(&pooling, LS_SCRATCH_B, &args.pool.dy));
    args.pool.dx = r->gradient_slot[v->step->dy].at;
    args.conv.dy = args.pool.dx;
    if (v->layer->bias >= 0) args.db = gradient_of(r, v->layer->bias);
    return ls_pooled_weight_gradient(&r->compute, &args);
}

/* Sums of the kernel's and the bias's gradients over the pass's samples. */
static ls_status parameter_gradients(const visit *v)
{
    ls_replica *r = v->r;
    const ls_layer *layer = v->layer;
    if (skips_pooling(r, v->l)) return pooled_parameter_gradients(v);
    ls_conv_weight_gradient_args args = weight_gradient_args(v);
    LS_TRY(read_input(v, 0, LS_SCRATCH_A, &args.x));
    LS_TRY(read_gradient(v, LS_SCRATCH_B, &args.dy));
    LS_TRY(ls_conv_weight_gradient(&r->compute, &args));
    if (layer->bias < 0) return LS_OK;
    return ls_batch_sum(&r->compute, &(ls_batch_sum_args){
        .height = args.shape.out_height,
        .width = args.shape.out_width,
        .channels = args.shape.filters,
        .fold = v->fold,
        .x = args.dy,
        .out = gradient_of(r, layer->bias),
        .piece_stride = r->config->model->arena_floats,
    });
}

/* Nothing reaches these parameters in this step: their sums are zero. */
static ls_status no_gradient(const visit *v)
{
    const ls_model *model = v->r->config->model;
    int parameter[LS_LAYER_PARAMETERS_MAX];
    const int count = ls_layer_parameters(v->layer, parameter);
    for (int i = 0; i < count; i++) {
        float *g = gradient_of(v->r, parameter[i]);
        for (int p = 0; p < v->r->plan.piece_count; p++)
            LS_TRY(ls_fill(&v->r->compute, g + (size_t)p * model->arena_floats, 0,
                           model->parameter[parameter[i]].count * sizeof *g));
    }
    return LS_OK;
}

/* -- inputs ------------------------------------------------------------------------------------ */

static ls_status conv_input(const visit *v, const float *dy, float *dx)
{
    ls_conv_input_gradient_args args = { .shape = v->layer->conv, .dy = dy, .dx = dx };
    args.shape.samples = v->input->samples;
    LS_TRY(ls_storage_parameter(v->r, v->layer->kernel, &args.w));
    return ls_conv_input_gradient(&v->r->compute, &args);
}

static ls_status dense_input(const visit *v, const float *dy, float *dx)
{
    ls_gemm_args args = { .M = v->input->samples, .N = ls_shape_floats(v->layer->in),
                          .K = ls_shape_floats(v->layer->out), .A = dy, .C = dx };
    LS_TRY(ls_storage_parameter(v->r, v->layer->kernel, &args.B));
    return ls_gemm(&v->r->compute, &args);
}

static ls_status pool_input(const visit *v, const float *dy, float *dx)
{
    if (v->layer->op == LS_OP_MAX_POOL) {
        if (skips_pooling(v->r, v->layer->input[0])) return LS_OK;
        ls_max_pool_gradient_args args;
        LS_TRY(pooling_args(v, &args));
        args.dy = dy;
        args.dx = dx;
        return ls_max_pool_gradient(&v->r->compute, &args);
    }
    ls_average_pool_gradient_args args = { .shape = v->layer->pool, .dy = dy, .dx = dx };
    args.shape.samples = v->input->samples;
    return ls_average_pool_gradient(&v->r->compute, &args);
}

/* Zero padding's gradient crops. */
static ls_status pad_input(const visit *v, const float *dy, float *dx)
{
    const ls_layer *layer = v->layer;
    return ls_pad(&v->r->compute, &(ls_pad_args){
        .samples = v->input->samples,
        .height = layer->out.height,
        .width = layer->out.width,
        .channels = layer->out.channels,
        .top = -(ptrdiff_t)layer->pad_top,
        .left = -(ptrdiff_t)layer->pad_left,
        .out_height = layer->in.height,
        .out_width = layer->in.width,
        .x = dy,
        .y = dx,
    });
}

static ls_status activation_input(const visit *v, const float *dy, float *dx)
{
    const ls_activation kind = v->layer->activation;
    const bool from_y = ls_activation_derives_from_y(kind);
    const float *value;
    LS_TRY(ls_storage_read(v->r, v->r->view[from_y ? v->l : v->layer->input[0]], floats_out(v),
                           LS_SCRATCH_A, &value));
    return ls_activate_gradient(&v->r->compute, &(ls_activate_gradient_args){
        .kind = kind, .slope = (float)v->layer->slope, .count = floats_out(v),
        .x = from_y ? NULL : value, .y = from_y ? value : NULL, .dy = dy, .dx = dx });
}

/* dy times all the other inputs, from the left. */
static ls_status multiply_input(const visit *v, int i, const float *dy, float *dx)
{
    for (int j = 0; j < v->layer->input_count; j++) {
        if (j == i) continue;
        const float *x;
        LS_TRY(read_input(v, j, LS_SCRATCH_A, &x));
        LS_TRY(ls_multiply(&v->r->compute, &(ls_multiply_args){
            .count = floats_out(v), .a = dy, .b = x, .y = dx }));
        dy = dx;
    }
    return LS_OK;
}

/* The input's own channels of dy. */
static ls_status concat_input(const visit *v, int i, const float *dy, float *dx)
{
    const ls_model *model = v->r->config->model;
    for (int j = 0; j < i; j++) dy += model->layer[v->layer->input[j]].out.channels;
    const size_t columns = model->layer[v->layer->input[i]].out.channels;
    return ls_copy_columns(&v->r->compute, &(ls_copy_columns_args){
        .rows = v->input->samples * v->layer->out.height * v->layer->out.width,
        .columns = columns, .from = dy, .from_stride = v->layer->out.channels,
        .to = dx, .to_stride = columns });
}

/* The gradient of input i, from dy into dx. Batch normalisation makes that of its parameters
 * too, and is called without dx where only those are wanted. */
static ls_status run_gradient(const visit *v, int i, const float *dy, float *dx)
{
    const float *x;
    switch (v->layer->op) {
    case LS_OP_CONV: return conv_input(v, dy, dx);
    case LS_OP_DENSE: return dense_input(v, dy, dx);
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL: return pool_input(v, dy, dx);
    case LS_OP_ZERO_PAD: return pad_input(v, dy, dx);
    case LS_OP_BATCHNORM:
        LS_TRY(read_input(v, 0, LS_SCRATCH_A, &x));
        return ls_normalize_backward(v->r, v->l, v->input, v->fold, x, dy, dx);
    case LS_OP_ACTIVATION: return activation_input(v, dy, dx);
    case LS_OP_DROPOUT: return ls_replica_dropout(v->r, v->layer, v->input, dy, dx);
    case LS_OP_MULTIPLY: return multiply_input(v, i, dy, dx);
    case LS_OP_CONCAT: return concat_input(v, i, dy, dx);
    case LS_OP_INPUT:
    case LS_OP_FLATTEN:
    case LS_OP_ADD: break; /* no input, or dy is its gradient */
    }
    return LS_OK;
}

/* sum = old + write: what later consumers gave, then this one's. */
static ls_status add_to_old(const visit *v, int i)
{
    const ls_gradient_move *move = &v->step->input[i];
    ls_replica *r = v->r;
    const size_t count = floats_in(v, i);
    const ls_stored sum = r->gradient_slot[move->sum];
    ls_add_args args = { .count = count, .y = ls_storage_draft(r, sum) };
    LS_TRY(ls_storage_read(r, r->gradient_slot[move->old], count, LS_SCRATCH_A, &args.a));
    LS_TRY(ls_storage_read(r, r->gradient_slot[move->write], count, LS_SCRATCH_B, &args.b));
    LS_TRY(ls_add(&r->compute, &args));
    return ls_storage_write(r, sum, count);
}

static ls_status input_gradient(const visit *v, int i)
{
    const ls_gradient_move *move = &v->step->input[i];
    const ls_op op = v->layer->op;
    if (move->write < 0 && op != LS_OP_BATCHNORM) return LS_OK;
    if (op != LS_OP_ADD && op != LS_OP_FLATTEN) {
        const float *dy;
        float *dx = NULL;
        LS_TRY(read_gradient(v, LS_SCRATCH_B, &dy));
        if (move->write >= 0) dx = ls_storage_draft(v->r, v->r->gradient_slot[move->write]);
        LS_TRY(run_gradient(v, i, dy, dx));
        if (dx) LS_TRY(ls_storage_write(v->r, v->r->gradient_slot[move->write], floats_in(v, i)));
    }
    return move->old < 0 ? LS_OK : add_to_old(v, i);
}

/* -- the pass ---------------------------------------------------------------------------------- */

/* What the layer's own relu lets through. */
static ls_status mask(const visit *v)
{
    if (!v->layer->relu || v->step->comes_masked) return LS_OK;
    ls_replica *r = v->r;
    const ls_stored masked = r->gradient_slot[v->step->masked];
    ls_activate_gradient_args args = { .kind = LS_ACTIVATION_RELU, .count = floats_out(v),
                                       .dx = ls_storage_draft(r, masked) };
    LS_TRY(ls_storage_read(r, r->view[v->l], args.count, LS_SCRATCH_A, &args.y));
    LS_TRY(ls_storage_read(r, r->gradient_slot[v->step->dy], args.count, LS_SCRATCH_B, &args.dy));
    LS_TRY(ls_activate_gradient(&r->compute, &args));
    return ls_storage_write(r, masked, args.count);
}

static ls_status visit_layer(const visit *v)
{
    const ls_replica *r = v->r;
    const bool trains = ls_gradient_plan_trains(&r->backward, r->config->model, r->config->rule,
                                                v->l);
    if (!trains) LS_TRY(no_gradient(v));
    if (v->step->dy < 0) return LS_OK;
    LS_TRY(mask(v));
    if (trains && v->layer->kernel >= 0) LS_TRY(parameter_gradients(v));
    for (int i = 0; i < v->layer->input_count; i++) LS_TRY(input_gradient(v, i));
    return LS_OK;
}

ls_status ls_replica_backward(ls_replica *replica, const ls_pass_input *input,
                              const ls_fold *fold, ls_layer_done_fn *layer_done, void *context)
{
    ls_replica *r = replica;
    const ls_model *model = r->config->model;
    int tensors_done = 0;
    for (int l = model->layer_count - 1; l >= 0; l--) {
        const visit v = { .r = r, .input = input, .fold = fold, .l = l,
                          .layer = &model->layer[l], .step = &r->backward.step[l] };
        LS_TRY(visit_layer(&v));
        int parameter[LS_LAYER_PARAMETERS_MAX];
        const int parameters = ls_layer_parameters(v.layer, parameter);
        tensors_done += parameters;
        if (parameters > 0 && layer_done) LS_TRY(layer_done(context, tensors_done));
    }
    return LS_OK;
}
