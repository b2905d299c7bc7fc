/* SPDX-License-Identifier: MIT */
/* model_describe.c -- a model in numbers: layers, shapes, parameters, work, memory.
 *
 * Work is counted in multiply-adds of one sample, one per tap of a window and per weight of a
 * dense layer, taps on padding included; each is two FLOPs. Forward does each once, backward twice
 * (for the gradient of the weights, and of the input), but once for the first layer with weights,
 * since nobody needs the gradient of the samples.
 *
 * Memory is what replica.h carves: weights, slots, one gradient arena per piece, the output of each
 * layer that makes one (flatten is a view), and two gradients of the largest output.
 */
#include <stdio.h>

#include "page.h"
#include "train/model.h"
#include "train/model_parse.h"
#include "unit.h"

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
        const double macs = layer_macs(&model->layer[i]);
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
    case LS_OP_MAX_POOL:
        snprintf(out, 96, "maxpool %zux%zu stride %zux%zu", pool->window_height,
                 pool->window_width, pool->stride_height, pool->stride_width);
        break;
    case LS_OP_FLATTEN: snprintf(out, 96, "flatten"); break;
    default: snprintf(out, 96, "relu"); break;
    case LS_OP_DROPOUT: snprintf(out, 96, "dropout %g", layer->rate); break;
    }
}

static size_t parameter_count(const ls_model *model, int index)
{
    return index < 0 ? 0 : model->parameter[index].count;
}

static void print_layers(FILE *out, const ls_model *model)
{
    fprintf(out, "%-16s %-32s %-14s %13s %13s\n", "layer", "op", "output", "parameters",
            "multiply-adds");
    for (int i = 0; i < model->layer_count; i++) {
        const ls_layer *layer = &model->layer[i];
        char op[96], shape[LS_SHAPE_TEXT_BYTES], parameters[32], macs[32];
        op_text(layer, op);
        with_commas(parameter_count(model, layer->kernel) + parameter_count(model, layer->bias),
                    parameters);
        with_commas((size_t)layer_macs(layer), macs);
        fprintf(out, "%-16s %-32s %-14s %13s %13s\n", layer->name, op,
                ls_shape_text(layer->out, shape), parameters, macs);
    }
    fprintf(out, "loss: %s\n", ls_model_loss_name(model->loss));
}

/* Floats per sample that a replica keeps: outputs, and the two gradients that pass back. */
static void count_activations(const ls_model *model, size_t *outputs, size_t *gradients)
{
    *outputs = *gradients = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const ls_layer *layer = &model->layer[i];
        const size_t floats = ls_shape_floats(layer->out);
        if (layer->op != LS_OP_FLATTEN) *outputs += floats;
        if (layer->op == LS_OP_MAX_POOL) *outputs += (floats + 3) / 4; /* a byte per place */
        if (floats > *gradients) *gradients = floats;
    }
    *gradients *= 2;
}

static void print_memory(FILE *out, const ls_model *model, size_t samples, int piece_count,
                         int slot_count)
{
    size_t outputs, gradients;
    count_activations(model, &outputs, &gradients);
    const double float_bytes = sizeof(float);
    const double arena = float_bytes * (double)model->arena_floats;
    const double rows = float_bytes * (double)samples;
    const struct {
        const char *what;
        double bytes;
    } part[] = { { "weights", arena },
                 { "optimizer", arena * slot_count },
                 { "gradients", arena * piece_count },
                 { "outputs of layers", rows * (double)outputs },
                 { "gradients of outputs", rows * (double)gradients } };
    double sum = 0;
    char text[LS_UNIT_BYTES];
    for (int i = 0; i < 5; i++) sum += part[i].bytes;
    fprintf(out, "memory      about %s a replica with %zu samples:\n", ls_with_unit(sum, text),
            samples);
    for (int i = 0; i < 5; i++) {
        fprintf(out, "            %10s  %s\n", ls_with_unit(part[i].bytes, text), part[i].what);
    }
}

ls_status ls_model_describe(const ls_model *model, size_t samples, int piece_count,
                            int slot_count, char **text)
{
    ls_page page;
    char total[32];
    double forward, step;
    ls_model_macs(model, &forward, &step);
    LS_TRY(ls_page_begin(&page));
    print_layers(page.out, model);
    fprintf(page.out, "\nparameters  %s in %d tensors\n",
            with_commas(model->parameter_total, total), model->parameter_count);
    fprintf(page.out, "work        %.4g MFLOP a sample forward, %.4g MFLOP with backward\n",
            2e-6 * forward, 2e-6 * step);
    print_memory(page.out, model, samples, piece_count, slot_count);
    return ls_page_end(&page, text);
}
