/* SPDX-License-Identifier: MIT */
/* model_describe.c -- a model in numbers: layers, shapes, parameters, work. (Memory: memory.h.)
 *
 * Work is counted in multiply-adds of one sample, one per tap of a window and per weight of a
 * dense layer, taps on padding included; each is two FLOPs. Forward does each once, backward twice
 * (for the gradient of the weights, and of the input), but once for the first layer with weights,
 * since nobody needs the gradient of the samples. Layers that the loss does not depend on are not
 * counted, nor is what costs far less: batch normalisation, activations, pooling, sums.
 */
#include <stdio.h>

#include "page.h"
#include "plural.h"
#include "train/model.h"
#include "train/model_parse.h"

/* Multiply-adds of one sample in one layer. */
static double layer_macs(const ls_layer *layer)
{
    const double out = (double)ls_shape_floats(layer->out);
    if (layer->op == LS_OP_DENSE) return out * (double)layer->in.channels;
    if (layer->op != LS_OP_CONV) return 0;
    const ls_conv_shape *conv = &layer->conv;
    return out * (double)(conv->kernel_height * conv->kernel_width) * (double)conv->channels;
}

void ls_model_macs(const ls_model *model, double *forward, double *step)
{
    *forward = *step = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const double macs = model->layer[i].is_used ? layer_macs(&model->layer[i]) : 0;
        const bool is_first = *forward == 0;
        *forward += macs;
        *step += macs * (is_first ? 2 : 3);
    }
}

/* -- the page ---------------------------------------------------------------------------------- */

/* 1234567 as "1,234,567". */
static const char *with_commas(size_t n, char out[32])
{
    char digits[24];
    const int count = snprintf(digits, sizeof digits, "%zu", n);
    char *to = out;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

/* What the layer does, as the model file says it. */
static void op_text(const ls_layer *layer, char out[96])
{
    static const char *const activations[] = { "relu", "leakyrelu", "sigmoid", "tanh", "gelu",
                                               "silu" };
    const ls_conv_shape *conv = &layer->conv;
    const ls_pool_shape *pool = &layer->pool;
    const char *relu = layer->relu ? " relu" : "";
    switch (layer->op) {
    case LS_OP_INPUT: snprintf(out, 96, "input"); break;
    case LS_OP_CONV:
        snprintf(out, 96, "conv %zux%zu stride %zux%zu%s", conv->kernel_height, conv->kernel_width,
                 conv->stride_height, conv->stride_width, relu);
        break;
    case LS_OP_DENSE: snprintf(out, 96, "dense%s", relu); break;
    case LS_OP_BATCHNORM: snprintf(out, 96, "batchnorm%s", relu); break;
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL:
        snprintf(out, 96, "%spool %zux%zu stride %zux%zu",
                 layer->op == LS_OP_MAX_POOL ? "max" : "avg", pool->window_height,
                 pool->window_width, pool->stride_height, pool->stride_width);
        break;
    case LS_OP_ZERO_PAD: snprintf(out, 96, "zeropad"); break;
    case LS_OP_FLATTEN: snprintf(out, 96, "flatten"); break;
    case LS_OP_ACTIVATION: snprintf(out, 96, "%s", activations[layer->activation]); break;
    case LS_OP_DROPOUT:
        snprintf(out, 96, "%sdropout %g", layer->is_spatial ? "spatial" : "", layer->rate);
        break;
    case LS_OP_ADD: snprintf(out, 96, "add%s", relu); break;
    case LS_OP_MULTIPLY: snprintf(out, 96, "multiply"); break;
    case LS_OP_CONCAT: snprintf(out, 96, "concat"); break;
    }
}

static size_t layer_parameters(const ls_model *model, const ls_layer *layer)
{
    int own[LS_LAYER_PARAMETERS_MAX];
    const int tensors = ls_layer_parameters(layer, own);
    size_t count = 0;
    for (int i = 0; i < tensors; i++) count += model->parameter[own[i]].count;
    return count;
}

/* Where the layer's inputs come from, if not from the line above alone. */
static void print_inputs(FILE *out, const ls_model *model, int l)
{
    const ls_layer *layer = &model->layer[l];
    if (layer->input_count == 0 || (layer->input_count == 1 && layer->input[0] == l - 1)) return;
    fputs("  from", out);
    for (int i = 0; i < layer->input_count; i++) {
        fprintf(out, " %s", model->layer[layer->input[i]].name);
    }
}

static void print_layers(FILE *out, const ls_model *model)
{
    fprintf(out, "%-16s %-32s %-14s %13s %13s\n", "layer", "op", "output", "parameters",
            "multiply-adds");
    for (int i = 0; i < model->layer_count; i++) {
        const ls_layer *layer = &model->layer[i];
        char op[96], shape[LS_SHAPE_TEXT_BYTES], parameters[32], macs[32];
        op_text(layer, op);
        with_commas(layer_parameters(model, layer), parameters);
        with_commas(layer->is_used ? (size_t)layer_macs(layer) : 0, macs);
        fprintf(out, "%-16s %-32s %-14s %13s %13s", layer->name, op,
                ls_shape_text(layer->out, shape), parameters, macs);
        print_inputs(out, model, i);
        fputs(layer->is_used ? "\n" : "  (unused: the loss does not depend on it)\n", out);
    }
    fprintf(out, "loss: %s", ls_model_loss_name(model->loss));
    if (model->smoothing > 0) fprintf(out, " smoothing=%g", model->smoothing);
    fputc('\n', out);
}

static void print_totals(FILE *out, const ls_model *model)
{
    size_t fixed = 0;
    char text[32];
    fprintf(out, "\nparameters  %s in %d tensor%s\n", with_commas(model->parameter_total, text),
            model->parameter_count, LS_PLURAL(model->parameter_count));
    for (int i = 0; i < model->statistic_count; i++) fixed += model->statistic[i].count;
    if (fixed > 0) {
        fprintf(out, "            %s in %d tensors that are not trained: moving means and "
                "variances\n", with_commas(fixed, text), model->statistic_count);
    }
}

ls_status ls_model_describe(const ls_model *model, char **text)
{
    ls_page page;
    double forward, step;
    ls_model_macs(model, &forward, &step);
    LS_TRY(ls_page_begin(&page));
    print_layers(page.out, model);
    print_totals(page.out, model);
    const bool giga = 2 * step >= 1e9;
    const double unit = giga ? 2e-9 : 2e-6; /* a multiply-add is two operations */
    fprintf(page.out, "work        %.4g %s a sample forward, %.4g %s with backward\n",
            unit * forward, giga ? "GFLOP" : "MFLOP", unit * step, giga ? "GFLOP" : "MFLOP");
    return ls_page_end(&page, text);
}
