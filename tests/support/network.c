/* SPDX-License-Identifier: MIT */
/* network.c -- see network.h. */
#include "support/network.h"

#include <math.h>
#include <stdlib.h>

#include "philox.h"

/* What the layers of one evaluation share. */
typedef struct {
    const network *n;
    const double *weights, *statistics;
    double **y; /* [layers] outputs, [samples, height, width, channels] */
} evaluation;

static double *new_numbers(size_t count)
{
    double *x = calloc(count + 1, sizeof *x);
    if (!x) abort();
    return x;
}

static const double *input_of(const evaluation *v, const ls_layer *layer, int i)
{
    return v->y[layer->input[i]];
}

static const double *weight_of(const evaluation *v, int parameter)
{
    return v->weights + v->n->model->parameter[parameter].begin;
}

/* Element h, w, c of sample s of an image; NULL outside it. */
static const double *pixel(const double *x, ls_shape shape, size_t s, long h, long w, size_t c)
{
    if (h < 0 || w < 0 || h >= (long)shape.height || w >= (long)shape.width) return NULL;
    return &x[((s * shape.height + (size_t)h) * shape.width + (size_t)w) * shape.channels + c];
}

/* -- layers with weights ----------------------------------------------------------------------- */

static double conv_at(const evaluation *v, const ls_layer *layer, size_t s, size_t oh, size_t ow,
                      size_t f)
{
    const ls_conv_shape *k = &layer->conv;
    const double *x = input_of(v, layer, 0);
    const double *kernel = weight_of(v, layer->kernel);
    double sum = layer->bias >= 0 ? weight_of(v, layer->bias)[f] : 0.0;
    for (size_t i = 0; i < k->kernel_height; i++) {
        for (size_t j = 0; j < k->kernel_width; j++) {
            for (size_t c = 0; c < layer->in.channels; c++) {
                const double *p = pixel(x, layer->in, s,
                                        (long)(oh * k->stride_height + i) - (long)k->pad_top,
                                        (long)(ow * k->stride_width + j) - (long)k->pad_left, c);
                const size_t tap = (f * k->kernel_height + i) * k->kernel_width + j;
                if (p) sum += *p * kernel[tap * layer->in.channels + c];
            }
        }
    }
    return sum;
}

static void dense(const evaluation *v, const ls_layer *layer, double *y)
{
    const double *x = input_of(v, layer, 0), *kernel = weight_of(v, layer->kernel);
    const size_t in = ls_shape_floats(layer->in), out = layer->out.channels;
    for (size_t o = 0; o < v->n->samples * out; o++) {
        y[o] = layer->bias >= 0 ? weight_of(v, layer->bias)[o % out] : 0.0;
        for (size_t i = 0; i < in; i++) y[o] += x[o / out * in + i] * kernel[o % out * in + i];
    }
}

/* Mean and variance of channel c over the samples of a group. */
static void moments(const evaluation *v, const ls_layer *layer, int group, size_t c, double *mean,
                    double *variance)
{
    const size_t pixels = layer->in.height * layer->in.width;
    const double *x = input_of(v, layer, 0);
    double sum = 0.0, square = 0.0, count = 0.0;
    for (int round = 0; round < 2; round++) {
        for (size_t p = 0; p < v->n->samples * pixels; p++) {
            if (v->n->group[p / pixels] != group) continue;
            const double at = x[p * layer->in.channels + c];
            if (round == 0) count += 1;
            if (round == 0) sum += at;
            else square += (at - sum / count) * (at - sum / count);
        }
    }
    *mean = sum / count;
    *variance = square / count;
}

/* Channel c of the samples of a group. */
static void normalise(const evaluation *v, const ls_layer *layer, int group, size_t c, double *y)
{
    const ls_model *model = v->n->model;
    const size_t pixels = layer->in.height * layer->in.width, channels = layer->in.channels;
    const double *x = input_of(v, layer, 0);
    double mean, variance;
    moments(v, layer, group, c, &mean, &variance);
    if (v->statistics) {
        mean = v->statistics[model->statistic[layer->mean].begin + c];
        variance = v->statistics[model->statistic[layer->variance].begin + c];
    }
    for (size_t p = 0; p < v->n->samples * pixels; p++) {
        if (v->n->group[p / pixels] != group) continue;
        const double unit = (x[p * channels + c] - mean) / sqrt(variance + layer->epsilon);
        y[p * channels + c] = weight_of(v, layer->gamma)[c] * unit + weight_of(v, layer->beta)[c];
    }
}

/* -- layers without ---------------------------------------------------------------------------- */

static double pool_at(const evaluation *v, const ls_layer *layer, size_t s, size_t oh, size_t ow,
                      size_t c)
{
    const ls_pool_shape *k = &layer->pool;
    double most = -INFINITY, sum = 0.0, count = 0.0;
    for (size_t i = 0; i < k->window_height; i++) {
        for (size_t j = 0; j < k->window_width; j++) {
            const double *p = pixel(input_of(v, layer, 0), layer->in, s,
                                    (long)(oh * k->stride_height + i) - (long)k->pad_top,
                                    (long)(ow * k->stride_width + j) - (long)k->pad_left, c);
            if (!p) continue;
            most = fmax(most, *p);
            sum += *p;
            count += 1.0;
        }
    }
    return layer->op == LS_OP_MAX_POOL ? most : sum / count;
}

static double concat_at(const evaluation *v, const ls_layer *layer, size_t s, size_t h, size_t w,
                        size_t c)
{
    int i = 0;
    for (; c >= v->n->model->layer[layer->input[i]].out.channels; i++)
        c -= v->n->model->layer[layer->input[i]].out.channels;
    return *pixel(input_of(v, layer, i), v->n->model->layer[layer->input[i]].out, s, (long)h,
                  (long)w, c);
}

/* One element of an image that each op makes alone. */
static double place_at(const evaluation *v, const ls_layer *layer, size_t s, size_t h, size_t w,
                       size_t c)
{
    if (layer->op == LS_OP_CONV) return conv_at(v, layer, s, h, w, c);
    if (layer->op == LS_OP_CONCAT) return concat_at(v, layer, s, h, w, c);
    if (layer->op != LS_OP_ZERO_PAD) return pool_at(v, layer, s, h, w, c);
    const double *p = pixel(input_of(v, layer, 0), layer->in, s, (long)h - (long)layer->pad_top,
                            (long)w - (long)layer->pad_left, c);
    return p ? *p : 0.0;
}

static void places(const evaluation *v, const ls_layer *layer, double *y)
{
    const ls_shape out = layer->out;
    for (size_t o = 0; o < v->n->samples * ls_shape_floats(out); o++) {
        const size_t row = o / out.channels / out.width;
        y[o] = place_at(v, layer, row / out.height, row % out.height,
                        o / out.channels % out.width, o % out.channels);
    }
}

static double activated(const ls_layer *layer, double x)
{
    switch (layer->activation) {
    case LS_ACTIVATION_RELU: return x > 0 ? x : 0;
    case LS_ACTIVATION_LEAKY_RELU: return x > 0 ? x : layer->slope * x;
    case LS_ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case LS_ACTIVATION_TANH: return tanh(x);
    case LS_ACTIVATION_GELU: return x * 0.5 * erfc(-x / sqrt(2));
    case LS_ACTIVATION_SILU: return x / (1 + exp(-x));
    }
    return NAN;
}

static double dropped(const evaluation *v, const ls_layer *layer, size_t element, double x)
{
    if (v->statistics) return x;
    const size_t floats = ls_shape_floats(layer->out), e = element % floats;
    const size_t drawn = layer->is_spatial ? e % layer->out.channels : e;
    uint32_t word[4];
    ls_random_words(v->n->seed, LS_RANDOM_DROPOUT, (uint32_t)layer->ordinal, 0,
                    (uint32_t)(element / floats), (uint32_t)(drawn / 4), word);
    return word[drawn % 4] >= layer->rate * 0x1p32 ? x / (1 - layer->rate) : 0;
}

/* Ops whose output has the places of their inputs. */
static double element_at(const evaluation *v, const ls_layer *layer, size_t e)
{
    double x = v->y[layer->input[0]][e];
    for (int i = 1; i < layer->input_count; i++) {
        const double other = v->y[layer->input[i]][e];
        x = layer->op == LS_OP_ADD ? x + other : x * other;
    }
    if (layer->op == LS_OP_ACTIVATION) return activated(layer, x);
    return layer->op == LS_OP_DROPOUT ? dropped(v, layer, e, x) : x;
}

static void run_layer(const evaluation *v, const ls_layer *layer, double *y)
{
    const size_t count = v->n->samples * ls_shape_floats(layer->out);
    switch (layer->op) {
    case LS_OP_INPUT:
        for (size_t e = 0; e < count; e++) y[e] = (double)v->n->x[e];
        break;
    case LS_OP_DENSE: dense(v, layer, y); break;
    case LS_OP_BATCHNORM:
        for (size_t c = 0; c < layer->in.channels; c++)
            for (int group = 0; group < v->n->group_count; group++)
                normalise(v, layer, group, c, y);
        break;
    case LS_OP_CONV:
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL:
    case LS_OP_ZERO_PAD:
    case LS_OP_CONCAT: places(v, layer, y); break;
    case LS_OP_FLATTEN:
    case LS_OP_ACTIVATION:
    case LS_OP_DROPOUT:
    case LS_OP_ADD:
    case LS_OP_MULTIPLY:
        for (size_t e = 0; e < count; e++) y[e] = element_at(v, layer, e);
        break;
    }
    for (size_t e = 0; layer->relu && e < count; e++) y[e] = y[e] > 0 ? y[e] : 0;
}

/* -- the loss ---------------------------------------------------------------------------------- */

static double softmax_loss(const double *z, size_t classes, size_t label, double smoothing)
{
    double sum = 0.0, loss = 0.0;
    for (size_t c = 0; c < classes; c++) sum += exp(z[c]);
    for (size_t c = 0; c < classes; c++) {
        const double wanted = smoothing / (double)classes + (c == label ? 1 - smoothing : 0);
        loss -= wanted * (z[c] - log(sum));
    }
    return loss;
}

/* Loss of output i with score z. */
static double output_loss(const network *n, size_t i, double z, size_t outputs)
{
    const double t = n->target ? (double)n->target[i] : 0;
    if (n->model->loss == LS_LOSS_MSE) return (z - t) * (z - t);
    if (n->model->loss == LS_LOSS_MAE) return fabs(z - t);
    const bool hot = outputs == 1 ? n->label[i] == 1 : (size_t)n->label[i / outputs] == i % outputs;
    const double wanted = n->model->smoothing / 2 + (hot ? 1 - n->model->smoothing : 0);
    return log(1 + exp(z)) - wanted * z;
}

static double batch_loss(const network *n, const double *z)
{
    const size_t outputs = ls_model_outputs(n->model);
    double loss = 0.0;
    for (size_t s = 0; s < n->samples; s++) {
        if (n->model->loss == LS_LOSS_SOFTMAX_CROSSENTROPY)
            loss += softmax_loss(z + s * outputs, outputs, (size_t)n->label[s],
                                 n->model->smoothing);
        else
            for (size_t i = s * outputs; i < (s + 1) * outputs; i++)
                loss += output_loss(n, i, z[i], outputs) / (double)outputs;
    }
    return loss / (double)n->samples;
}

double network_loss(const network *n, const double *weights, const double *statistics)
{
    const ls_model *model = n->model;
    evaluation v = { n, weights, statistics, calloc((size_t)model->layer_count, sizeof *v.y) };
    if (!v.y) abort();
    for (int l = 0; l < model->layer_count; l++) {
        v.y[l] = new_numbers(n->samples * ls_shape_floats(model->layer[l].out));
        run_layer(&v, &model->layer[l], v.y[l]);
    }
    const double loss = batch_loss(n, v.y[model->layer_count - 1]);
    for (int l = 0; l < model->layer_count; l++) free(v.y[l]);
    free(v.y);
    return loss;
}
