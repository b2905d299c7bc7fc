/* SPDX-License-Identifier: MIT */
/* model_shapes.c -- what shape every layer's output has, and whether the loss fits the last.
 *
 * Shapes follow the layers. Along one axis, with window k, stride s and input extent n:
 *     valid   out = floor((n - k) / s) + 1,  no padding            (needs n >= k)
 *     same    out = ceil(n / s),  total padding = max((out - 1) s + k - n, 0),
 *             floor(total / 2) of it before the first row, the rest after the last
 *     N       out = floor((n + 2 N - k) / s) + 1,  N before and N after   (N < k, n + 2 N >= k)
 * which is what TensorFlow and Keras do (valid, same), and PyTorch (N). Under `same` every window
 * holds an element of the input: the first starts at -floor(total/2) > -k, the last at
 * (out - 1) s - floor(total/2) < n. Under N too: the first starts at -N > -k, the last at or before
 * n + N - k < n.
 *
 * Sizes: every extent that a model names is at most 2^24 (model_words.h), so a product of two fits
 * in 64 bits; longer products are formed with a check against a limit after each factor.
 */
#include <stdio.h>

#include "plural.h"
#include "train/model_parse.h"

size_t ls_shape_floats(ls_shape shape) { return shape.height * shape.width * shape.channels; }

size_t ls_product_within(size_t limit, size_t a, size_t b, size_t c, size_t d)
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

/* -- windows --------------------------------------------------------------------------------- */

/* Output extent and leading padding along one axis; 0 if the window does not fit. */
static size_t window_out(size_t n, size_t k, size_t s, const ls_model_options *option,
                         size_t *pad_before)
{
    *pad_before = option->padding == LS_PAD_FIXED ? option->pad : 0;
    if (option->padding != LS_PAD_SAME) {
        const size_t padded = n + 2 * *pad_before;
        return padded < k ? 0 : (padded - k) / s + 1;
    }
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

/* Every window must hold an element of its input. */
static ls_status check_pad(const char *file, const ls_parsed_layer *x, size_t height, size_t width)
{
    const size_t least = height < width ? height : width;
    if (x->option.padding != LS_PAD_FIXED || x->option.pad < least) return LS_OK;
    return ls_model_fail(file, x->op, "'%s' pads %zu on every side, its window is %zux%zu: "
                         "expected less than the window, or zeropad before it", x->layer.name,
                         x->option.pad, height, width);
}

static ls_status infer_conv(const char *file, ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    ls_conv_shape *conv = &layer->conv;
    conv->height = layer->in.height;
    conv->width = layer->in.width;
    conv->channels = layer->in.channels;
    LS_TRY(check_pad(file, x, conv->kernel_height, conv->kernel_width));
    conv->out_height = window_out(conv->height, conv->kernel_height, conv->stride_height,
                                  &x->option, &conv->pad_top);
    conv->out_width = window_out(conv->width, conv->kernel_width, conv->stride_width, &x->option,
                                 &conv->pad_left);
    if (conv->out_height == 0 || conv->out_width == 0) {
        return window_too_large(file, x, conv->kernel_height, conv->kernel_width);
    }
    layer->out = (ls_shape){ conv->out_height, conv->out_width, conv->filters };
    return LS_OK;
}

static ls_status infer_pool(const char *file, ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    ls_pool_shape *pool = &layer->pool;
    pool->height = layer->in.height;
    pool->width = layer->in.width;
    pool->channels = layer->in.channels;
    if (x->kind->is_variant) { /* the whole input */
        pool->window_height = pool->stride_height = pool->height;
        pool->window_width = pool->stride_width = pool->width;
    }
    LS_TRY(check_pad(file, x, pool->window_height, pool->window_width));
    pool->out_height = window_out(pool->height, pool->window_height, pool->stride_height,
                                  &x->option, &pool->pad_top);
    pool->out_width = window_out(pool->width, pool->window_width, pool->stride_width, &x->option,
                                 &pool->pad_left);
    if (pool->out_height == 0 || pool->out_width == 0) {
        return window_too_large(file, x, pool->window_height, pool->window_width);
    }
    layer->out = (ls_shape){ pool->out_height, pool->out_width, pool->channels };
    return LS_OK;
}

static void infer_zero_pad(ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    layer->pad_top = x->edge[0];
    layer->pad_left = x->edge[2];
    layer->out.height += x->edge[0] + x->edge[1];
    layer->out.width += x->edge[2] + x->edge[3];
}

/* -- several inputs ---------------------------------------------------------------------------- */

static ls_status unequal(const char *file, const ls_parsed_model *m, const ls_parsed_layer *x,
                         int i, const char *needs)
{
    const ls_layer *first = &m->layer[x->layer.input[0]].layer;
    const ls_layer *other = &m->layer[x->layer.input[i]].layer;
    char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
    ls_shape_text(first->out, a);
    ls_shape_text(other->out, b);
    return ls_model_fail(file, x->from[i], "'%s' is %s, '%s' is %s: %s needs inputs of equal %s",
                         first->name, a, other->name, b, x->kind->name, needs);
}

static ls_status infer_join(const char *file, const ls_parsed_model *m, ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    const bool concat = layer->op == LS_OP_CONCAT;
    for (int i = 1; i < layer->input_count; i++) {
        const ls_shape in = m->layer[layer->input[i]].layer.out;
        const bool same_place = in.height == layer->in.height && in.width == layer->in.width;
        if (!same_place || (!concat && in.channels != layer->in.channels)) {
            return unequal(file, m, x, i, concat ? "height and width" : "shapes");
        }
        if (concat) layer->out.channels += in.channels;
    }
    return LS_OK;
}

/* -- each layer -------------------------------------------------------------------------------- */

static ls_status check_activation(const char *file, const ls_parsed_layer *x)
{
    const ls_shape s = x->layer.out;
    if (ls_product_within(LS_MODEL_FLOATS_MAX, s.height, s.width, s.channels, 1) > 0) return LS_OK;
    char text[LS_SHAPE_TEXT_BYTES];
    ls_shape_text(s, text);
    return ls_model_fail(file, x->op, "the output of '%s' would be %s, more than the %zu numbers "
                         "that a layer may have", x->layer.name, text, LS_MODEL_FLOATS_MAX);
}

static ls_status infer_input(const char *file, ls_parsed_layer *x, const ls_dataset_info *data)
{
    ls_shape *shape = &x->layer.out;
    if (x->is_auto && !x->has_default && !data) {
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
    if (x->is_auto && !x->has_default && !data) {
        return ls_model_fail(file, x->size, "dense %s takes its size from the data: say --data",
                             "auto");
    }
    if (x->is_auto && data)
        x->units = data->task == LS_TASK_CLASSIFY ? data->classes : data->outputs;
    x->layer.out = (ls_shape){ 1, 1, x->units };
    return LS_OK;
}

static ls_status infer_layer(const char *file, ls_parsed_model *m, int i,
                             const ls_dataset_info *data)
{
    ls_parsed_layer *x = &m->layer[i];
    ls_layer *layer = &x->layer;
    switch (layer->op) {
    case LS_OP_INPUT: return infer_input(file, x, data);
    case LS_OP_CONV: return infer_conv(file, x);
    case LS_OP_DENSE: return infer_dense(file, x, i == m->layer_count - 1, data);
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL: return infer_pool(file, x);
    case LS_OP_ZERO_PAD: infer_zero_pad(x); break;
    case LS_OP_FLATTEN: layer->out = (ls_shape){ 1, 1, ls_shape_floats(layer->in) }; break;
    case LS_OP_ADD:
    case LS_OP_MULTIPLY:
    case LS_OP_CONCAT: return infer_join(file, m, x);
    case LS_OP_BATCHNORM:
    case LS_OP_ACTIVATION:
    case LS_OP_DROPOUT: break;
    }
    return LS_OK;
}

ls_status ls_model_infer_shapes(const char *file, ls_parsed_model *m, const ls_dataset_info *data)
{
    for (int i = 0; i < m->layer_count; i++) {
        ls_layer *layer = &m->layer[i].layer;
        if (layer->input_count > 0)
            layer->in = layer->out = m->layer[layer->input[0]].layer.out;
        LS_TRY(infer_layer(file, m, i, data));
        LS_TRY(check_activation(file, &m->layer[i]));
    }
    return LS_OK;
}

/* -- the loss --------------------------------------------------------------------------------- */

static bool is_crossentropy(ls_loss loss)
{
    return loss == LS_LOSS_SOFTMAX_CROSSENTROPY || loss == LS_LOSS_SIGMOID_CROSSENTROPY;
}

/* Labels against the last layer: softmax wants an output a class at least, sigmoid too, or one
 * output for two classes. */
static ls_status check_classes(const char *file, const ls_parsed_model *m,
                               const ls_dataset_info *data, ls_loss loss)
{
    const ls_parsed_layer *last = &m->layer[m->layer_count - 1];
    const size_t outputs = last->layer.out.channels;
    if (!is_crossentropy(loss)) {
        return ls_model_fail(file, m->loss_kind, "%s needs target numbers, the data have labels "
                             "of %zu class%s: loss softmax-crossentropy, or task=regress in --data",
                             ls_model_loss_name(loss), data->classes,
                             data->classes == 1 ? "" : "es");
    }
    if (data->classes <= outputs) return LS_OK;
    if (loss == LS_LOSS_SIGMOID_CROSSENTROPY && outputs == 1 && data->classes == 2) return LS_OK;
    return ls_model_fail(file, last->op, "'%s' has %zu output%s, the data have %zu classes",
                         last->layer.name, outputs, LS_PLURAL(outputs), data->classes);
}

static ls_status check_targets(const char *file, const ls_parsed_model *m,
                               const ls_dataset_info *data, ls_loss loss)
{
    const ls_parsed_layer *last = &m->layer[m->layer_count - 1];
    const size_t outputs = last->layer.out.channels;
    if (loss == LS_LOSS_SOFTMAX_CROSSENTROPY) {
        return ls_model_fail(file, m->loss_kind, "softmax-crossentropy needs class labels, the "
                             "data have %zu target number%s a sample: loss mse%s", data->outputs,
                             LS_PLURAL(data->outputs),
                             data->outputs > 1 ? ", or of one-hot rows save the labels, y.argmax(1)"
                                               : "");
    }
    if (data->outputs == outputs) return LS_OK;
    return ls_model_fail(file, last->op, "'%s' has %zu output%s, the data have %zu target number%s "
                         "a sample", last->layer.name, outputs, LS_PLURAL(outputs), data->outputs,
                         LS_PLURAL(data->outputs));
}

ls_status ls_model_choose_loss(const char *file, const ls_parsed_model *m,
                               const ls_dataset_info *data, ls_loss *loss)
{
    const ls_layer *last = &m->layer[m->layer_count - 1].layer;
    *loss = m->loss;
    if (m->loss_is_auto && !data) {
        return ls_model_fail(file, m->loss_kind, "loss %s takes its kind from the data: say --data",
                             "auto");
    }
    if (m->loss_is_auto) {
        *loss = data->task == LS_TASK_CLASSIFY ? LS_LOSS_SOFTMAX_CROSSENTROPY : LS_LOSS_MSE;
    }
    if (m->smoothing_at.line > 0 && !is_crossentropy(*loss)) {
        return ls_model_fail(file, m->smoothing_at, "label smoothing goes with a crossentropy, the "
                             "loss is %s", ls_model_loss_name(*loss));
    }
    if (last->out.height * last->out.width != 1) {
        char text[LS_SHAPE_TEXT_BYTES];
        ls_shape_text(last->out, text);
        return ls_model_fail(file, m->loss_kind, "the loss needs a row of numbers, the output of "
                             "'%s' is %s: add flatten", last->name, text);
    }
    if (!data) return LS_OK;
    return data->task == LS_TASK_CLASSIFY ? check_classes(file, m, data, *loss)
                                          : check_targets(file, m, data, *loss);
}
