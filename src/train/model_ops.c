/* SPDX-License-Identifier: MIT */
/* model_ops.c -- which ops there are, and what the words after each mean.
 *
 * One table says an op's name, what options it takes, and how it is written; its arguments are read
 * by a function per kind of op. relu and its kin are one op with an activation; globalavgpool is
 * the average pool whose window is the whole input, spatialdropout the dropout of whole channels.
 */
#include <assert.h>
#include <string.h>

#include "train/model_parse.h"

#define CONV_OPTIONS " [relu] [pad=valid|same|N] [stride=S|SHxSW] [bias=yes|no] [init=KIND]"
#define POOL_OPTIONS " [stride=S|SHxSW] [pad=valid|same|N]"

static const ls_model_op op_table[] = {
    { .name = "input", .op = LS_OP_INPUT, .usage = "input HxWxC | N | auto | auto:HxWxC" },
    { .name = "conv", .op = LS_OP_CONV,
      .takes = LS_TAKES_RELU | LS_TAKES_PAD | LS_TAKES_STRIDE | LS_TAKES_BIAS | LS_TAKES_INIT,
      .usage = "conv FILTERS KHxKW" CONV_OPTIONS },
    { .name = "dense", .op = LS_OP_DENSE,
      .takes = LS_TAKES_RELU | LS_TAKES_BIAS | LS_TAKES_INIT,
      .usage = "dense UNITS|auto|auto:UNITS [relu] [bias=yes|no] [init=KIND]" },
    { .name = "batchnorm", .op = LS_OP_BATCHNORM,
      .takes = LS_TAKES_RELU | LS_TAKES_MOMENTUM | LS_TAKES_EPSILON,
      .usage = "batchnorm [relu] [momentum=M] [epsilon=E]" },
    { .name = "maxpool", .op = LS_OP_MAX_POOL, .takes = LS_TAKES_PAD | LS_TAKES_STRIDE,
      .usage = "maxpool KHxKW" POOL_OPTIONS },
    { .name = "avgpool", .op = LS_OP_AVERAGE_POOL, .takes = LS_TAKES_PAD | LS_TAKES_STRIDE,
      .usage = "avgpool KHxKW" POOL_OPTIONS },
    { .name = "globalavgpool", .op = LS_OP_AVERAGE_POOL, .is_variant = true,
      .usage = "globalavgpool" },
    { .name = "zeropad", .op = LS_OP_ZERO_PAD, .usage = "zeropad N | HxW | TOP,BOTTOM,LEFT,RIGHT" },
    { .name = "flatten", .op = LS_OP_FLATTEN, .usage = "flatten" },
    { .name = "relu", .op = LS_OP_ACTIVATION, .usage = "relu",
      .activation = LS_ACTIVATION_RELU },
    { .name = "leakyrelu", .op = LS_OP_ACTIVATION, .takes = LS_TAKES_SLOPE,
      .usage = "leakyrelu [slope=S]", .activation = LS_ACTIVATION_LEAKY_RELU },
    { .name = "sigmoid", .op = LS_OP_ACTIVATION, .usage = "sigmoid",
      .activation = LS_ACTIVATION_SIGMOID },
    { .name = "tanh", .op = LS_OP_ACTIVATION, .usage = "tanh",
      .activation = LS_ACTIVATION_TANH },
    { .name = "gelu", .op = LS_OP_ACTIVATION, .usage = "gelu",
      .activation = LS_ACTIVATION_GELU },
    { .name = "silu", .op = LS_OP_ACTIVATION, .usage = "silu",
      .activation = LS_ACTIVATION_SILU },
    { .name = "dropout", .op = LS_OP_DROPOUT, .usage = "dropout RATE" },
    { .name = "spatialdropout", .op = LS_OP_DROPOUT, .is_variant = true,
      .usage = "spatialdropout RATE" },
    { .name = "add", .op = LS_OP_ADD, .takes = LS_TAKES_RELU, .joins = true,
      .usage = "add [relu] from NAME NAME ..." },
    { .name = "multiply", .op = LS_OP_MULTIPLY, .joins = true,
      .usage = "multiply from NAME NAME ..." },
    { .name = "concat", .op = LS_OP_CONCAT, .joins = true, .usage = "concat from NAME NAME ..." },
};
enum { OP_COUNT = sizeof op_table / sizeof op_table[0] };

static_assert((int)OP_COUNT <= (int)LS_MODEL_OPS_MAX, "a list of names has room");

void ls_model_op_names(const char *names[LS_MODEL_OPS_MAX + 2])
{
    for (int i = 0; i < OP_COUNT; i++) names[i] = op_table[i].name;
    names[OP_COUNT] = "loss";
    names[OP_COUNT + 1] = NULL;
}

const ls_model_op *ls_model_find_op(const char *name)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (strcmp(name, op_table[i].name) == 0) return &op_table[i];
    }
    return NULL;
}

/* "auto" or "auto:SIZE": *size is then what follows the colon, or NULL; else it is the text. */
static bool read_auto(const char *text, const char **size)
{
    *size = text;
    if (strncmp(text, "auto", 4) != 0 || (text[4] != '\0' && text[4] != ':')) return false;
    *size = text[4] == ':' ? text + 5 : NULL;
    return true;
}

static ls_status read_input(ls_model_line *line, ls_parsed_layer *x)
{
    const ls_model_word *w;
    LS_TRY(ls_model_need(line, "a size", x->kind->usage, &w));
    x->size = w->place;
    ls_shape *out = &x->layer.out;
    size_t part[3];
    const char *size;
    x->is_auto = read_auto(w->text, &size);
    if (!size) return LS_OK;
    x->has_default = x->is_auto;
    if (strchr(size, 'x')) {
        LS_TRY(ls_model_need_extents(line, w, size, part, 3,
                                     "HEIGHTxWIDTHxCHANNELS such as 32x32x3"));
        *out = (ls_shape){ .height = part[0], .width = part[1], .channels = part[2] };
    } else {
        LS_TRY(ls_model_need_extents(line, w, size, part, 1, "HxWxC, a number, or auto"));
        *out = (ls_shape){ .height = 1, .width = 1, .channels = part[0] };
    }
    return LS_OK;
}

static ls_status read_window(ls_model_line *line, ls_parsed_layer *x, size_t window[2])
{
    const ls_model_word *w;
    LS_TRY(ls_model_need(line, "a window such as 3x3", x->kind->usage, &w));
    x->size = w->place;
    return ls_model_need_extents(line, w, w->text, window, 2,
                                 "a window HEIGHTxWIDTH such as 3x3");
}

static ls_status read_conv(ls_model_line *line, ls_parsed_layer *x)
{
    const ls_model_word *w;
    size_t window[2];
    ls_conv_shape *conv = &x->layer.conv;
    LS_TRY(ls_model_need(line, "the number of filters", x->kind->usage, &w));
    LS_TRY(ls_model_need_extents(line, w, w->text, &conv->filters, 1, "a number of filters"));
    LS_TRY(read_window(line, x, window));
    conv->kernel_height = window[0];
    conv->kernel_width = window[1];
    return LS_OK;
}

static ls_status read_pool(ls_model_line *line, ls_parsed_layer *x)
{
    if (x->kind->is_variant) return LS_OK;
    size_t window[2];
    LS_TRY(read_window(line, x, window));
    x->layer.pool.window_height = window[0];
    x->layer.pool.window_width = window[1];
    if (x->layer.op == LS_OP_MAX_POOL && window[0] * window[1] > 256) {
        return ls_model_fail(line->file, x->size, "found a window of %zu places; max pooling has "
                             "at most 256", window[0] * window[1]);
    }
    return LS_OK;
}

static ls_status read_dense(ls_model_line *line, ls_parsed_layer *x)
{
    const ls_model_word *w;
    LS_TRY(ls_model_need(line, "the number of units", x->kind->usage, &w));
    x->size = w->place;
    const char *size;
    x->is_auto = read_auto(w->text, &size);
    if (!size) return LS_OK;
    x->has_default = x->is_auto;
    return ls_model_need_extents(line, w, size, &x->units, 1, "a number of units, or auto");
}

static ls_status read_dropout(ls_model_line *line, ls_parsed_layer *x)
{
    const ls_model_word *w;
    LS_TRY(ls_model_need(line, "a rate", x->kind->usage, &w));
    x->size = w->place;
    x->layer.is_spatial = x->kind->is_variant;
    const double below_one = 1 - 0x1p-53;
    return ls_model_need_number(line, w, w->text, 0, below_one, "a rate with 0 <= rate < 1",
                                &x->layer.rate);
}

static ls_status read_zero_pad(ls_model_line *line, ls_parsed_layer *x)
{
    const ls_model_word *w;
    size_t *edge = x->edge, both[2];
    LS_TRY(ls_model_need(line, "the width of the edge", x->kind->usage, &w));
    x->size = w->place;
    if (ls_model_read_extents(w->text, 'x', 0, edge, 1)) {
        edge[1] = edge[2] = edge[3] = edge[0];
    } else if (ls_model_read_extents(w->text, 'x', 0, both, 2)) {
        edge[0] = edge[1] = both[0];
        edge[2] = edge[3] = both[1];
    } else if (!ls_model_read_extents(w->text, ',', 0, edge, 4)) {
        return ls_model_fail(line->file, w->place, "found '%.60s', expected N, HxW or "
                             "TOP,BOTTOM,LEFT,RIGHT, each 0 to %zu", w->text, LS_MODEL_EXTENT_MAX);
    }
    return LS_OK;
}

ls_status ls_model_read_arguments(ls_model_line *line, ls_parsed_layer *x)
{
    switch (x->layer.op) {
    case LS_OP_INPUT: return read_input(line, x);
    case LS_OP_CONV: return read_conv(line, x);
    case LS_OP_DENSE: return read_dense(line, x);
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL: return read_pool(line, x);
    case LS_OP_DROPOUT: return read_dropout(line, x);
    case LS_OP_ZERO_PAD: return read_zero_pad(line, x);
    case LS_OP_FLATTEN:
    case LS_OP_BATCHNORM:
    case LS_OP_ACTIVATION:
    case LS_OP_ADD:
    case LS_OP_MULTIPLY:
    case LS_OP_CONCAT: break;
    }
    return LS_OK;
}
