/* SPDX-License-Identifier: MIT */
/* model_init.c -- shapes, parameters, their places in the arena, and initial weights.
 *
 * Shapes follow the layers. Along one axis, with window k, stride s and input extent n:
 *     valid   out = floor((n - k) / s) + 1,  no padding            (needs n >= k)
 *     same    out = ceil(n / s),  total padding = max((out - 1) s + k - n, 0),
 *             floor(total / 2) of it before the first row, the rest after the last
 * which is what TensorFlow and Keras do. Under `same` every window holds an element of the input:
 * the first starts at -floor(total/2) > -k, the last at (out - 1) s - floor(total/2) < n.
 *
 * The arena holds the last layer's parameters first (within a layer kernel, then bias), so that
 * the backward pass completes gradients from its front:
 *
 *     dense2/kernel | dense2/bias | dense1/kernel | dense1/bias | conv1/kernel | conv1/bias
 *
 * each at a multiple of 32 floats; the gaps are zero and no gradient ever reaches them.
 *
 * A kernel starts glorot-uniform in +-sqrt(6 / (fan_in + fan_out)), where a convolution's fans are
 * its window times its channels, and its window times its filters
 * [X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
 *  networks", AISTATS 2010]; a bias starts at zero. Element e of the kernel, as stored, takes word
 * e mod 4 of the Philox block (seed, init, ordinal of the layer, e / 4), philox.h.
 *
 * Sizes: every extent is at most 2^24 (model_parse.c), so a product of two fits in 64 bits; longer
 * products are formed with a check against a limit after each factor.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"
#include "train/model.h"
#include "train/model_parse.h"

enum { ARENA_UNIT = 32 }; /* floats: a tensor begins on 128 bytes */

size_t ls_shape_floats(ls_shape shape) { return shape.height * shape.width * shape.channels; }

/* a * b * c * d, or 0 if that exceeds `limit` (at most 2^40); factors are at most 2^24. */
static size_t product_within(size_t limit, size_t a, size_t b, size_t c, size_t d)
{
    size_t product = a * b;
    if (product > limit) return 0;
    product *= c;
    if (product > limit) return 0;
    product *= d;
    return product > limit ? 0 : product;
}

const char *ls_shape_text(ls_shape shape, char out[LS_SHAPE_TEXT_BYTES])
{
    if (shape.height == 1 && shape.width == 1) {
        snprintf(out, LS_SHAPE_TEXT_BYTES, "%zu", shape.channels);
    } else {
        snprintf(out, LS_SHAPE_TEXT_BYTES, "%zux%zux%zu", shape.height, shape.width,
                 shape.channels);
    }
    return out;
}

size_t ls_model_outputs(const ls_model *model)
{
    return ls_shape_floats(model->layer[model->layer_count - 1].out);
}

/* -- shapes ------------------------------------------------------------------------------------ */

static ls_status check_activation(const char *file, const ls_parsed_layer *x)
{
    const ls_shape s = x->layer.out;
    if (product_within(LS_MODEL_FLOATS_MAX, s.height, s.width, s.channels, 1) > 0) return LS_OK;
    char text[LS_SHAPE_TEXT_BYTES];
    ls_shape_text(s, text);
    return ls_model_fail(file, x->op, "the output of '%s' would be %s, more than the %zu numbers "
                         "that a layer may have", x->layer.name, text, LS_MODEL_FLOATS_MAX);
}

static ls_status infer_input(const char *file, ls_parsed_layer *x, const ls_dataset_info *data)
{
    ls_shape *shape = &x->layer.out;
    if (x->is_auto && !data) {
        return ls_model_fail(file, x->size, "input %s takes its size from the data: say --data",
                             "auto");
    }
    if (data) {
        const ls_shape given = { data->height, data->width, data->channels };
        if (x->is_auto) *shape = given;
        const bool is_same = shape->height == given.height && shape->width == given.width &&
                             shape->channels == given.channels;
        const bool is_row = shape->height * shape->width == 1 || given.height * given.width == 1;
        if (!is_same && !(is_row && ls_shape_floats(*shape) == ls_shape_floats(given))) {
            char wanted[LS_SHAPE_TEXT_BYTES], found[LS_SHAPE_TEXT_BYTES];
            ls_shape_text(*shape, wanted);
            ls_shape_text(given, found);
            return ls_model_fail(file, x->size, "the model's input is %s, a sample of the data is "
                                 "%s", wanted, found);
        }
    }
    x->layer.in = *shape;
    return LS_OK;
}

/* Output extent and leading padding along one axis; 0 if the window does not fit. */
static size_t window_out(size_t n, size_t k, size_t s, bool pad_same, size_t *pad_before)
{
    *pad_before = 0;
    if (!pad_same) return n < k ? 0 : (n - k) / s + 1;
    const size_t out = (n + s - 1) / s;
    const size_t covered = (out - 1) * s + k;
    *pad_before = covered > n ? (covered - n) / 2 : 0;
    return out;
}

static ls_status window_too_large(const char *file, const ls_parsed_layer *x, size_t height,
                                  size_t width)
{
    char in[LS_SHAPE_TEXT_BYTES];
    ls_shape_text(x->layer.in, in);
    return ls_model_fail(file, x->op, "the %zux%zu window of '%s' does not fit into its input, "
                         "which is %s; a smaller window, or pad=same", height, width,
                         x->layer.name, in);
}

static ls_status infer_conv(const char *file, ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    ls_conv_shape *conv = &layer->conv;
    conv->height = layer->in.height;
    conv->width = layer->in.width;
    conv->channels = layer->in.channels;
    conv->out_height = window_out(conv->height, conv->kernel_height, conv->stride_height,
                                  x->pad_same, &conv->pad_top);
    conv->out_width = window_out(conv->width, conv->kernel_width, conv->stride_width, x->pad_same,
                                 &conv->pad_left);
    if (conv->out_height == 0 || conv->out_width == 0) {
        return window_too_large(file, x, conv->kernel_height, conv->kernel_width);
    }
    layer->out = (ls_shape){ conv->out_height, conv->out_width, conv->filters };
    return LS_OK;
}

static ls_status infer_max_pool(const char *file, ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    ls_pool_shape *pool = &layer->pool;
    pool->height = layer->in.height;
    pool->width = layer->in.width;
    pool->channels = layer->in.channels;
    pool->out_height = window_out(pool->height, pool->window_height, pool->stride_height,
                                  x->pad_same, &pool->pad_top);
    pool->out_width = window_out(pool->width, pool->window_width, pool->stride_width, x->pad_same,
                                 &pool->pad_left);
    if (pool->out_height == 0 || pool->out_width == 0) {
        return window_too_large(file, x, pool->window_height, pool->window_width);
    }
    layer->out = (ls_shape){ pool->out_height, pool->out_width, pool->channels };
    return LS_OK;
}

/* `is_last`: of all layers; the data then say what `auto` is. */
static ls_status infer_dense(const char *file, ls_parsed_layer *x, bool is_last,
                             const ls_dataset_info *data)
{
    const ls_shape in = x->layer.in;
    if (in.height * in.width != 1) {
        char text[LS_SHAPE_TEXT_BYTES];
        ls_shape_text(in, text);
        return ls_model_fail(file, x->op, "dense needs a row of numbers, its input is %s: add "
                             "flatten before it", text);
    }
    if (x->is_auto && !is_last) {
        return ls_model_fail(file, x->size, "only the last layer can be dense %s", "auto");
    }
    if (x->is_auto && !data) {
        return ls_model_fail(file, x->size, "dense %s takes its size from the data: say --data",
                             "auto");
    }
    if (x->is_auto) x->units = data->task == LS_TASK_CLASSIFY ? data->classes : data->outputs;
    x->layer.out = (ls_shape){ 1, 1, x->units };
    return LS_OK;
}

static ls_status infer_shapes(const char *file, ls_parsed_model *m, const ls_dataset_info *data)
{
    for (int i = 0; i < m->layer_count; i++) {
        ls_parsed_layer *x = &m->layer[i];
        ls_layer *layer = &x->layer;
        if (layer->input_count > 0)
            layer->in = layer->out = m->layer[layer->input[0]].layer.out;
        switch (layer->op) {
        case LS_OP_INPUT: LS_TRY(infer_input(file, x, data)); break;
        case LS_OP_CONV: LS_TRY(infer_conv(file, x)); break;
        case LS_OP_DENSE: LS_TRY(infer_dense(file, x, i == m->layer_count - 1, data)); break;
        case LS_OP_MAX_POOL: LS_TRY(infer_max_pool(file, x)); break;
        case LS_OP_FLATTEN:
            layer->out = (ls_shape){ 1, 1, ls_shape_floats(layer->in) };
            break;
        default: break;
        }
        LS_TRY(check_activation(file, x));
    }
    return LS_OK;
}

/* -- the loss --------------------------------------------------------------------------------- */

static ls_status check_loss(const char *file, const ls_parsed_model *m,
                            const ls_dataset_info *data, ls_loss loss)
{
    const ls_layer *last = &m->layer[m->layer_count - 1].layer;
    if (last->out.height * last->out.width != 1) {
        char text[LS_SHAPE_TEXT_BYTES];
        ls_shape_text(last->out, text);
        return ls_model_fail(file, m->loss_kind, "the loss needs a row of numbers, the output of "
                             "'%s' is %s: add flatten", last->name, text);
    }
    if (!data) return LS_OK;
    const size_t outputs = last->out.channels;
    if (loss == LS_LOSS_SOFTMAX_CROSSENTROPY) {
        if (data->task != LS_TASK_CLASSIFY) {
            return ls_model_fail(file, m->loss_kind, "softmax-crossentropy needs class labels, the "
                                 "data have %zu target numbers a sample: loss mse", data->outputs);
        }
        if (data->classes > outputs) {
            return ls_model_fail(file, m->layer[m->layer_count - 1].op, "'%s' has %zu outputs, the "
                                 "data have %zu classes", last->name, outputs, data->classes);
        }
        return LS_OK;
    }
    if (data->task != LS_TASK_REGRESS) {
        return ls_model_fail(file, m->loss_kind, "mse needs target numbers, the data have labels "
                             "of %zu classes: loss softmax-crossentropy, or task=regress in --data",
                             data->classes);
    }
    if (data->outputs != outputs) {
        return ls_model_fail(file, m->layer[m->layer_count - 1].op, "'%s' has %zu outputs, the "
                             "data have %zu target numbers a sample", last->name, outputs,
                             data->outputs);
    }
    return LS_OK;
}

static ls_status choose_loss(const char *file, const ls_parsed_model *m,
                             const ls_dataset_info *data, ls_loss *loss)
{
    *loss = m->loss;
    if (m->loss_is_auto && !data) {
        return ls_model_fail(file, m->loss_kind, "loss %s takes its kind from the data: say --data",
                             "auto");
    }
    if (m->loss_is_auto) {
        *loss = data->task == LS_TASK_CLASSIFY ? LS_LOSS_SOFTMAX_CROSSENTROPY : LS_LOSS_MSE;
    }
    return check_loss(file, m, data, *loss);
}

/* -- parameters ------------------------------------------------------------------------------- */

/* Append "<layer>/<what>" with the given shape; returns its index. */
static int add_parameter(ls_model *model, int layer, const char *what, int dims,
                         const size_t shape[4], ls_init init, double init_scale)
{
    ls_parameter *p = &model->parameter[model->parameter_count];
    *p = (ls_parameter){ .layer = layer, .dims = dims, .count = 1, .init = init,
                         .init_scale = init_scale, .is_kernel = dims > 1 };
    snprintf(p->name, sizeof p->name, "%s/%s", model->layer[layer].name, what);
    for (int d = 0; d < dims; d++) {
        p->shape[d] = shape[d];
        p->count *= shape[d];
    }
    model->parameter_total += p->count;
    return model->parameter_count++;
}

static double glorot_limit(double fan_in, double fan_out) { return sqrt(6 / (fan_in + fan_out)); }

static ls_status add_parameters(const char *file, ls_model *model, const ls_parsed_layer *x, int i)
{
    ls_layer *layer = &model->layer[i];
    const ls_conv_shape *conv = &layer->conv;
    size_t kernel[4] = { layer->out.channels, layer->in.channels, 1, 1 };
    int dims = 2;
    double limit = glorot_limit((double)layer->in.channels, (double)layer->out.channels);
    if (layer->op == LS_OP_CONV) {
        kernel[1] = conv->kernel_height;
        kernel[2] = conv->kernel_width;
        kernel[3] = conv->channels;
        dims = 4;
        const double window = (double)conv->kernel_height * (double)conv->kernel_width;
        limit = glorot_limit(window * (double)conv->channels, window * (double)conv->filters);
    } else if (layer->op != LS_OP_DENSE) {
        return LS_OK;
    }
    if (product_within(LS_MODEL_FLOATS_MAX, kernel[0], kernel[1], kernel[2], kernel[3]) == 0) {
        return ls_model_fail(file, x->op, "the kernel of '%s' would be %zux%zux%zux%zu, more than "
                             "the %zu weights that a layer may have", layer->name, kernel[0],
                             kernel[1], kernel[2], kernel[3], LS_MODEL_FLOATS_MAX);
    }
    layer->kernel = add_parameter(model, i, "kernel", dims, kernel, LS_INIT_UNIFORM, limit);
    if (layer->has_bias) layer->bias = add_parameter(model, i, "bias", 1, kernel, LS_INIT_CONSTANT, 0);
    if (model->parameter_total > LS_MODEL_ARENA_MAX) {
        return ls_model_fail(file, x->op, "with '%s' the model has %zu weights, more than %zu",
                             layer->name, model->parameter_total, LS_MODEL_ARENA_MAX);
    }
    return LS_OK;
}

static void place_parameter(ls_model *model, int index)
{
    if (index < 0) return;
    ls_parameter *p = &model->parameter[index];
    p->begin = model->arena_floats;
    model->arena_floats += (p->count + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
}

static void place_parameters(ls_model *model)
{
    for (int i = model->layer_count - 1; i >= 0; i--) {
        place_parameter(model, model->layer[i].kernel);
        place_parameter(model, model->layer[i].bias);
    }
}

/* -- the whole -------------------------------------------------------------------------------- */

/* Text that grows; the room was counted before. */
typedef struct {
    char *out;
    size_t used;
} writer;

static void append(writer *w, const char *text, size_t bytes)
{
    memcpy(w->out + w->used, text, bytes);
    w->used += bytes;
    w->out[w->used] = '\0';
}

/* Append text[*from, place) and then `word` in its stead; go on after the place. */
static void append_replaced(writer *w, const char *text, size_t *from, ls_model_place place,
                            const char *word)
{
    append(w, text + *from, place.begin - *from);
    append(w, word, strlen(word));
    *from = place.begin + place.bytes;
}

/* The model's text with what was found in place of each `auto`: at most one input, one dense, and
 * the loss, in this order in the text. */
static ls_status resolve_text(ls_model *model, const char *text, const ls_parsed_model *m)
{
    enum { AUTO_MAX = 3, WORD_BYTES = LS_SHAPE_TEXT_BYTES };
    const size_t bytes = strlen(text), room = bytes + AUTO_MAX * WORD_BYTES + 1;
    model->text = calloc(room, 1);
    if (!model->text) return ls_fail(LS_ERR_MEMORY, "no memory for the model's %zu bytes", room);
    writer w = { .out = model->text };
    size_t from = 0;
    for (int i = 0; i < m->layer_count; i++) {
        if (!m->layer[i].is_auto) continue;
        char word[WORD_BYTES];
        ls_shape_text(m->layer[i].layer.out, word);
        append_replaced(&w, text, &from, m->layer[i].size, word);
    }
    if (m->loss_is_auto) {
        append_replaced(&w, text, &from, m->loss_kind,
                        model->loss == LS_LOSS_MSE ? "mse" : "softmax-crossentropy");
    }
    append(&w, text + from, bytes - from);
    return LS_OK;
}

static ls_status build(ls_model *model, const char *name, const char *text, ls_parsed_model *m,
                       const ls_dataset_info *data)
{
    LS_TRY(infer_shapes(name, m, data));
    LS_TRY(choose_loss(name, m, data, &model->loss));
    const size_t layers = (size_t)m->layer_count, name_bytes = strlen(name) + 1;
    model->name = malloc(name_bytes);
    model->layer = calloc(layers, sizeof *model->layer);
    model->parameter = calloc(2 * layers, sizeof *model->parameter);
    if (!model->name || !model->layer || !model->parameter) {
        return ls_fail(LS_ERR_MEMORY, "%s: no memory for %zu layers", name, layers);
    }
    memcpy(model->name, name, name_bytes);
    for (int i = 0; i < m->layer_count; i++) model->layer[i] = m->layer[i].layer;
    model->layer_count = m->layer_count;
    for (int i = 0; i < m->layer_count; i++) {
        LS_TRY(add_parameters(name, model, &m->layer[i], i));
    }
    if (model->parameter_count == 0) {
        return ls_model_fail(name, m->loss_kind, "no layer of this %s has weights; expected a conv "
                             "or a dense before the loss", "model");
    }
    place_parameters(model);
    return resolve_text(model, text, m);
}

ls_status ls_model_init(ls_model *model, const char *name, const char *text,
                        const ls_dataset_info *data)
{
    *model = (ls_model){ 0 };
    ls_parsed_model parsed;
    ls_status status = ls_model_parse(name, text, &parsed);
    if (status == LS_OK) status = build(model, name, text, &parsed, data);
    ls_parsed_model_free(&parsed);
    if (status != LS_OK) ls_model_free(model);
    return status;
}

void ls_model_free(ls_model *model)
{
    free(model->name);
    free(model->text);
    free(model->layer);
    free(model->parameter);
    *model = (ls_model){ 0 };
}

void ls_model_init_weights(const ls_model *model, uint64_t seed, float *arena)
{
    memset(arena, 0, model->arena_floats * sizeof *arena);
    for (int i = 0; i < model->parameter_count; i++) {
        const ls_parameter *p = &model->parameter[i];
        if (p->init != LS_INIT_UNIFORM) continue;
        const uint32_t ordinal = (uint32_t)model->layer[p->layer].ordinal;
        uint32_t random[4];
        for (size_t e = 0; e < p->count; e++) {
            if (e % 4 == 0) {
                ls_random_words(seed, LS_RANDOM_INIT, ordinal, 0, 0, (uint32_t)(e / 4), random);
            }
            const double unit = (double)random[e % 4] * 0x1p-31 - 1;
            arena[p->begin + e] = (float)(p->init_scale * unit);
        }
    }
}
