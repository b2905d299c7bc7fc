/* SPDX-License-Identifier: MIT */
/* model_parameters.c -- which tensors each layer has, their places, and what they start from.
 *
 * The arena holds the last layer's parameters first (within a layer kernel, bias, gamma, beta), so
 * that the backward pass completes gradients from its front:
 *
 *     dense2/kernel | dense2/bias | dense1/kernel | dense1/bias | conv1/kernel | conv1/bias
 *
 * each at a multiple of 32 floats; the gaps are zero and no gradient ever reaches them. The moving
 * mean and variance of batch normalisation have an arena of their own, in the order of the file and
 * without gaps.
 *
 * How a kernel starts is named as in Keras and scaled by its fans: of dense inputs and outputs, of
 * a convolution its window times its channels, and its window times its filters.
 *
 *              variance       uniform in +-         normal, deviation
 *     glorot   2 / (in + out)
 *     he       2 / in         sqrt(3 variance)      sqrt(variance) / 0.87962566103423978
 *     lecun    1 / in
 *
 * The divisor is the deviation of a standard normal number that is kept only within +-2, so that
 * what is drawn has the variance [X. Glorot, Y. Bengio, "Understanding the difficulty of training
 * deep feedforward neural networks", AISTATS 2010; K. He and others, "Delving deep into
 * rectifiers", ICCV 2015; Y. LeCun and others, "Efficient backprop", 1998]. All else starts at a
 * constant: biases and beta 0, gamma 1, moving mean 0, moving variance 1.
 *
 * Random numbers are those of docs/numerics.md 7, addressed by layer and element.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numerics.h"
#include "philox.h"
#include "train/model_parse.h"

enum { ARENA_UNIT = 32 }; /* floats: a tensor begins on 128 bytes */

/* -- tensors ----------------------------------------------------------------------------------- */

/* Append "<layer>/<what>" to a list; returns its index. */
static int add_tensor(const ls_model *model, ls_parameter *list, int *count, int layer,
                      const char *what, int dims, const size_t shape[4], ls_init init,
                      double init_scale)
{
    ls_parameter *p = &list[*count];
    *p = (ls_parameter){ .layer = layer, .dims = dims, .count = 1, .init = init,
                         .init_scale = init_scale, .is_kernel = dims > 1 };
    snprintf(p->name, sizeof p->name, "%s/%s", model->layer[layer].name, what);
    for (int d = 0; d < dims; d++) {
        p->shape[d] = shape[d];
        p->count *= shape[d];
    }
    return (*count)++;
}

static int add_parameter(ls_model *model, int layer, const char *what, int dims,
                         const size_t shape[4], ls_init init, double init_scale)
{
    const int index = add_tensor(model, model->parameter, &model->parameter_count, layer, what,
                                 dims, shape, init, init_scale);
    model->parameter_total += model->parameter[index].count;
    return index;
}

/* The distribution that an `init=` stands for, with the layer's fans. */
static ls_init start_of(const ls_model_options *option, double fan_in, double fan_out,
                        double *scale)
{
    static const double kept_deviation = 0.87962566103423978;
    *scale = option->start_value;
    switch (option->start) {
    case LS_START_CONSTANT: return LS_INIT_CONSTANT;
    case LS_START_UNIFORM: return LS_INIT_UNIFORM;
    case LS_START_NORMAL: return LS_INIT_NORMAL;
    case LS_START_GLOROT_UNIFORM: *scale = sqrt(6 / (fan_in + fan_out)); return LS_INIT_UNIFORM;
    case LS_START_HE_UNIFORM: *scale = sqrt(6 / fan_in); return LS_INIT_UNIFORM;
    case LS_START_LECUN_UNIFORM: *scale = sqrt(3 / fan_in); return LS_INIT_UNIFORM;
    case LS_START_GLOROT_NORMAL: *scale = sqrt(2 / (fan_in + fan_out)); break;
    case LS_START_HE_NORMAL: *scale = sqrt(2 / fan_in); break;
    case LS_START_LECUN_NORMAL: *scale = sqrt(1 / fan_in); break;
    }
    *scale /= kept_deviation;
    return LS_INIT_NORMAL;
}

static ls_status add_kernel(const char *file, ls_model *model, const ls_parsed_layer *x, int i)
{
    ls_layer *layer = &model->layer[i];
    const ls_conv_shape *conv = &layer->conv;
    size_t kernel[4] = { layer->out.channels, layer->in.channels, 1, 1 };
    int dims = 2;
    double window = 1;
    if (layer->op == LS_OP_CONV) {
        kernel[1] = conv->kernel_height;
        kernel[2] = conv->kernel_width;
        kernel[3] = conv->channels;
        dims = 4;
        window = (double)conv->kernel_height * (double)conv->kernel_width;
    }
    if (ls_product_within(LS_MODEL_FLOATS_MAX, kernel[0], kernel[1], kernel[2], kernel[3]) == 0) {
        return ls_model_fail(file, x->op, "the kernel of '%s' would be %zux%zux%zux%zu, more than "
                             "the %zu weights that a layer may have", layer->name, kernel[0],
                             kernel[1], kernel[2], kernel[3], LS_MODEL_FLOATS_MAX);
    }
    double scale;
    const ls_init init = start_of(&x->option, window * (double)layer->in.channels,
                                  window * (double)layer->out.channels, &scale);
    layer->kernel = add_parameter(model, i, "kernel", dims, kernel, init, scale);
    if (layer->has_bias)
        layer->bias = add_parameter(model, i, "bias", 1, kernel, LS_INIT_CONSTANT, 0);
    return LS_OK;
}

static void add_batchnorm(ls_model *model, int i)
{
    ls_layer *layer = &model->layer[i];
    const size_t shape[4] = { layer->out.channels, 1, 1, 1 };
    layer->gamma = add_parameter(model, i, "gamma", 1, shape, LS_INIT_CONSTANT, 1);
    layer->beta = add_parameter(model, i, "beta", 1, shape, LS_INIT_CONSTANT, 0);
    layer->mean = add_tensor(model, model->statistic, &model->statistic_count, i, "mean", 1, shape,
                             LS_INIT_CONSTANT, 0);
    layer->variance = add_tensor(model, model->statistic, &model->statistic_count, i, "variance",
                                 1, shape, LS_INIT_CONSTANT, 1);
}

int ls_layer_parameters(const ls_layer *layer, int out[LS_LAYER_PARAMETERS_MAX])
{
    const int all[LS_LAYER_PARAMETERS_MAX] = { layer->kernel, layer->bias, layer->gamma,
                                               layer->beta };
    int count = 0;
    for (int i = 0; i < LS_LAYER_PARAMETERS_MAX; i++)
        if (all[i] >= 0) out[count++] = all[i];
    return count;
}

/* -- places ------------------------------------------------------------------------------------ */

static void place(ls_parameter *p, size_t *floats)
{
    p->begin = *floats;
    *floats += (p->count + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
}

static void place_all(ls_model *model)
{
    for (int i = model->layer_count - 1; i >= 0; i--) {
        int own[LS_LAYER_PARAMETERS_MAX];
        const int count = ls_layer_parameters(&model->layer[i], own);
        for (int k = 0; k < count; k++) place(&model->parameter[own[k]], &model->arena_floats);
    }
    /* Back to back: a layer's mean and variance are one row of kernels/batchnorm.h. */
    for (int i = 0; i < model->statistic_count; i++) {
        model->statistic[i].begin = model->statistic_floats;
        model->statistic_floats += model->statistic[i].count;
    }
}

ls_status ls_model_add_parameters(const char *file, ls_model *model, const ls_parsed_model *m)
{
    for (int i = 0; i < model->layer_count; i++) {
        const ls_op op = model->layer[i].op;
        if (op == LS_OP_CONV || op == LS_OP_DENSE)
            LS_TRY(add_kernel(file, model, &m->layer[i], i));
        if (op == LS_OP_BATCHNORM) add_batchnorm(model, i);
        if (model->parameter_total > LS_MODEL_ARENA_MAX) {
            return ls_model_fail(file, m->layer[i].op, "with '%s' the model has %zu weights, more "
                                 "than %zu", model->layer[i].name, model->parameter_total,
                                 LS_MODEL_ARENA_MAX);
        }
    }
    place_all(model);
    return LS_OK;
}

/* -- initial values ---------------------------------------------------------------------------- */

static void fill_uniform(const ls_parameter *p, uint64_t seed, uint32_t ordinal, float *out)
{
    uint32_t random[4];
    for (size_t e = 0; e < p->count; e++) {
        if (e % 4 == 0)
            ls_random_words(seed, LS_RANDOM_INIT, ordinal, 0, 0, (uint32_t)(e / 4), random);
        const double unit = (double)random[e % 4] * 0x1p-31 - 1;
        out[e] = (float)(p->init_scale * unit);
    }
}

/* A standard normal number from two words, by the transform of G. E. P. Box and M. E. Muller, "A
 * note on the generation of random normal deviates", 1958. Half a turn of the cosine suffices: it
 * takes each of its values as often as the whole. */
static double normal_of(uint32_t a, uint32_t b)
{
    const double pi = 3.14159265358979312;
    const double radius = sqrt(-2 * ls_log(((double)a + 1) * 0x1p-32));
    return radius * ls_cos(pi * (((double)b + 0.5) * 0x1p-32));
}

/* Attempt k of element e takes words 2 (k mod 2) and the next of the block whose element field is e
 * and whose sample field is k / 2; the first within two deviations counts. */
static double truncated_normal(uint64_t seed, uint32_t ordinal, uint32_t e)
{
    for (uint32_t sample = 0;; sample++) {
        uint32_t random[4];
        ls_random_words(seed, LS_RANDOM_INIT, ordinal, 0, sample, e, random);
        for (int k = 0; k < 4; k += 2) {
            const double x = normal_of(random[k], random[k + 1]);
            if (x >= -2 && x <= 2) return x;
        }
    }
}

static void fill(const ls_model *model, const ls_parameter *p, uint64_t seed, float *out)
{
    const uint32_t ordinal = (uint32_t)model->layer[p->layer].ordinal;
    switch (p->init) {
    case LS_INIT_UNIFORM: fill_uniform(p, seed, ordinal, out); break;
    case LS_INIT_NORMAL:
        for (size_t e = 0; e < p->count; e++) {
            out[e] = (float)(p->init_scale * truncated_normal(seed, ordinal, (uint32_t)e));
        }
        break;
    case LS_INIT_CONSTANT:
        for (size_t e = 0; e < p->count; e++) out[e] = (float)p->init_scale;
        break;
    }
}

void ls_model_init_weights(const ls_model *model, uint64_t seed, float *arena)
{
    memset(arena, 0, model->arena_floats * sizeof *arena);
    for (int i = 0; i < model->parameter_count; i++) {
        fill(model, &model->parameter[i], seed, arena + model->parameter[i].begin);
    }
}

void ls_model_init_statistics(const ls_model *model, float *arena)
{
    memset(arena, 0, model->statistic_floats * sizeof *arena);
    for (int i = 0; i < model->statistic_count; i++) {
        fill(model, &model->statistic[i], 0, arena + model->statistic[i].begin);
    }
}
