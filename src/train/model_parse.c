/* SPDX-License-Identifier: MIT */
/* model_parse.c -- from the text of a model file to a list of layers, without shapes.
 *
 *     line  := [ NAME "=" ] OP argument* option* [ "from" NAME* ]        ("#" starts a comment)
 *
 * model_ops.c knows the ops and their arguments, model_options.c the options. Here lines get their
 * names and are connected.
 *
 * Without `from` a line reads the line before it; add, multiply and concat name two or more layers.
 * A layer may feed any number of later ones, or none: it is then computed by nobody and its weights
 * stay as they are (ls_layer.is_used). The loss reads the last layer.
 */
#include "train/model_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

typedef struct {
    ls_model_line line;
    bool is_finished;      /* the loss has been read */
    ls_parsed_model *out;
} parser;

/* In the order of ls_loss. */
static const char *const loss_names[] = { "softmax-crossentropy", "sigmoid-crossentropy", "mse",
                                          "mae", "auto", NULL };
enum { LOSS_AUTO = 4 };
static const char loss_usage[] =
    "loss softmax-crossentropy|sigmoid-crossentropy|mse|mae|auto [smoothing=E]";

const char *ls_model_loss_name(ls_loss loss) { return loss_names[loss]; }

/* -- names and connections ------------------------------------------------------------------- */

static int find_layer(const ls_parsed_model *m, const char *name)
{
    for (int i = 0; i < m->layer_count; i++) {
        if (strcmp(m->layer[i].layer.name, name) == 0) return i;
    }
    return -1;
}

/* The layer above that the word w names. */
static ls_status named_layer(const parser *p, const ls_model_word *w, int *out)
{
    const ls_parsed_model *m = p->out;
    *out = find_layer(m, w->text);
    if (*out >= 0) return LS_OK;
    const char *names[LS_MODEL_LAYERS_MAX + 1];
    int count = 0;
    for (; count < m->layer_count; count++) names[count] = m->layer[count].layer.name;
    names[count] = NULL;
    char hint[LS_MODEL_HINT_BYTES];
    return ls_model_fail(p->line.file, w->place, "no layer above is called '%.60s'%s", w->text,
                         ls_model_hint(w->text, names, hint));
}

/* The names after `from`, as inputs of `x`. */
static ls_status read_names(parser *p, ls_parsed_layer *x, const char *op, int most)
{
    const char *file = p->line.file;
    ls_layer *layer = &x->layer;
    const ls_model_word *w;
    LS_TRY(ls_model_need(&p->line, "the name of a layer", "from NAME", &w));
    for (; w; w = ls_model_next(&p->line)) {
        if (layer->input_count == most && most == 1) {
            return ls_model_fail(file, w->place, "found '%.60s', expected the end of the line: %s "
                                 "has one input", w->text, op);
        }
        if (layer->input_count == most) {
            return ls_model_fail(file, w->place, "found '%.60s', expected the end of the line: %s "
                                 "has at most %d inputs", w->text, op, most);
        }
        int input = 0;
        LS_TRY(named_layer(p, w, &input));
        for (int i = 0; i < layer->input_count; i++) {
            if (layer->input[i] != input) continue;
            return ls_model_fail(file, w->place, "found '%.60s' a second time; the inputs of %s "
                                 "are different layers", w->text, op);
        }
        x->from[layer->input_count] = w->place;
        layer->input[layer->input_count++] = input;
    }
    return LS_OK;
}

/* What the rest of the line ("from NAME ...", or nothing) says that `x` reads. */
static ls_status read_from(parser *p, ls_parsed_layer *x, const ls_model_word *from,
                           const char *op, const char *usage)
{
    const bool joins = x->kind && x->kind->joins;
    if (from) LS_TRY(read_names(p, x, op, joins ? LS_LAYER_INPUTS_MAX : 1));
    if (joins && x->layer.input_count < 2) {
        return ls_model_fail(p->line.file, p->line.end, "found the end of the line, expected the "
                             "%s name of a layer: %s has 2 to %d inputs (%s)",
                             x->layer.input_count == 0 ? "word from and the" : "second", op,
                             LS_LAYER_INPUTS_MAX, usage);
    }
    if (from || p->out->layer_count == 0) return LS_OK;
    x->layer.input_count = 1;
    x->layer.input[0] = p->out->layer_count - 1;
    x->from[0] = x->op;
    return LS_OK;
}

/* Options, then "from". */
static ls_status read_tail(parser *p, ls_parsed_layer *x, const char *op, unsigned takes,
                           const char *usage)
{
    const ls_model_word *w;
    while ((w = ls_model_next(&p->line)) && strcmp(w->text, "from") != 0) {
        LS_TRY(ls_model_read_option(&p->line, w, takes, usage, &x->option));
    }
    return read_from(p, x, w, op, usage);
}

/* Give `x` the name that its line says, or its op and number: "conv2". */
static ls_status name_layer(const parser *p, ls_parsed_layer *x, const ls_model_word *given)
{
    const ls_parsed_model *m = p->out;
    int number = 1;
    for (int i = 0; i < m->layer_count; i++) number += m->layer[i].kind == x->kind;
    if (given) {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s", given->text);
    } else if (x->layer.op == LS_OP_INPUT) {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s", x->kind->name);
    } else {
        snprintf(x->layer.name, LS_NAME_BYTES, "%s%d", x->kind->name, number);
    }
    const int other = find_layer(m, x->layer.name);
    if (other < 0) return LS_OK;
    return ls_model_fail(p->line.file, given ? given->place : x->op,
                         "the name '%s' already belongs to line %d", x->layer.name,
                         m->layer[other].layer.line);
}

/* -- lines ------------------------------------------------------------------------------------ */

static ls_status read_loss(parser *p)
{
    const ls_model_word *w;
    ls_parsed_model *m = p->out;
    ls_parsed_layer x = { .option = ls_model_default_options }; /* its input and options */
    int choice = 0;
    LS_TRY(ls_model_need(&p->line, "the kind of loss", loss_usage, &w));
    LS_TRY(ls_model_need_choice(&p->line, w, w->text, loss_names, loss_usage, &choice));
    LS_TRY(read_tail(p, &x, "loss", LS_TAKES_SMOOTHING, loss_usage));
    const int last = m->layer_count - 1;
    if (x.layer.input[0] != last) {
        return ls_model_fail(p->line.file, x.from[0], "found '%s', which is not the last layer; "
                             "the loss reads the last one, '%s'",
                             m->layer[x.layer.input[0]].layer.name, m->layer[last].layer.name);
    }
    m->loss_kind = w->place;
    m->loss_is_auto = choice == LOSS_AUTO;
    m->loss = m->loss_is_auto ? LS_LOSS_SOFTMAX_CROSSENTROPY : (ls_loss)choice;
    m->smoothing = x.option.smoothing;
    m->smoothing_at = x.option.smoothing_at;
    p->is_finished = true;
    return LS_OK;
}

/* What the options mean for the layer itself. */
static void apply_options(ls_parsed_layer *x)
{
    ls_layer *layer = &x->layer;
    const ls_model_options *o = &x->option;
    const bool strides = o->given & LS_TAKES_STRIDE;
    ls_conv_shape *conv = &layer->conv;
    ls_pool_shape *pool = &layer->pool;
    layer->relu = o->relu;
    layer->activation = x->kind->activation;
    if (layer->op == LS_OP_ACTIVATION) layer->slope = o->slope;
    if (layer->op == LS_OP_CONV || layer->op == LS_OP_DENSE) layer->has_bias = o->has_bias;
    if (layer->op == LS_OP_BATCHNORM) {
        layer->momentum = o->momentum;
        layer->epsilon = o->epsilon;
    }
    if (layer->op == LS_OP_CONV) {
        conv->stride_height = strides ? o->stride[0] : 1;
        conv->stride_width = strides ? o->stride[1] : 1;
    }
    if (layer->op == LS_OP_MAX_POOL || layer->op == LS_OP_AVERAGE_POOL) {
        pool->stride_height = strides ? o->stride[0] : pool->window_height;
        pool->stride_width = strides ? o->stride[1] : pool->window_width;
    }
}

/* Append the layer of `kind`, whose op word is `op`. */
static ls_status read_layer(parser *p, const ls_model_word *name, const ls_model_word *op,
                            const ls_model_op *kind)
{
    ls_parsed_model *m = p->out;
    if (m->layer_count == LS_MODEL_LAYERS_MAX) {
        return ls_model_fail(p->line.file, op->place, "more than %d layers", LS_MODEL_LAYERS_MAX);
    }
    ls_parsed_layer x = { .layer = { .op = kind->op, .line = op->place.line,
                                     .ordinal = m->layer_count, .input = { -1 },
                                     .kernel = -1, .bias = -1, .gamma = -1, .beta = -1,
                                     .mean = -1, .variance = -1 },
                          .kind = kind, .option = ls_model_default_options, .op = op->place };
    LS_TRY(name_layer(p, &x, name));
    LS_TRY(ls_model_read_arguments(&p->line, &x));
    LS_TRY(read_tail(p, &x, op->text, kind->takes, kind->usage));
    apply_options(&x);
    m->layer[m->layer_count++] = x;
    return LS_OK;
}

static ls_status unknown_op(const parser *p, const ls_model_word *op)
{
    char hint[LS_MODEL_HINT_BYTES], all[256] = "";
    const char *names[LS_MODEL_OPS_MAX + 2];
    if (strchr(op->text, '=')) {
        return ls_model_fail(p->line.file, op->place, "found '%.60s', expected an op; a name is "
                             "followed by ' = ', with blanks around it", op->text);
    }
    const char *loss_hint = ls_model_loss_hint(op->text);
    if (loss_hint[0])
        return ls_model_fail(p->line.file, op->place, "found '%.60s', expected an op%s", op->text,
                             loss_hint);
    ls_model_op_names(names);
    for (int i = 0; names[i]; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    return ls_model_fail(p->line.file, op->place, "found '%.60s', expected an op (%s)%s", op->text,
                         all, ls_model_hint(op->text, names, hint));
}

static ls_status read_line(parser *p)
{
    const ls_parsed_model *m = p->out;
    ls_model_line *line = &p->line;
    const ls_model_word *name = NULL;
    if (p->is_finished) {
        return ls_model_fail(line->file, line->word[0].place, "found '%.60s' after the loss, "
                             "expected the end of the file", line->word[0].text);
    }
    if (line->count >= 2 && strcmp(line->word[1].text, "=") == 0) {
        name = &line->word[0];
        line->next = 2;
        if (!ls_model_is_name(name->text)) {
            return ls_model_fail(line->file, name->place, "found '%.60s', expected a name: a "
                                 "letter, then letters, digits, '_', '-', '.'; at most %d",
                                 name->text, LS_NAME_BYTES - 1);
        }
    }
    const ls_model_word *op;
    LS_TRY(ls_model_need(line, "an op", "NAME = OP ...", &op));
    const bool is_loss = strcmp(op->text, "loss") == 0;
    const ls_model_op *kind = ls_model_find_op(op->text);
    if (!kind && !is_loss) return unknown_op(p, op);
    const bool is_input = kind && kind->op == LS_OP_INPUT;
    if (is_input != (m->layer_count == 0)) {
        return ls_model_fail(line->file, op->place, "found '%s', expected %s%s", op->text,
                             is_input ? "a layer: the input is the first line, and the only one"
                                      : "the input first: ",
                             is_input ? "" : ls_model_find_op("input")->usage);
    }
    return is_loss ? read_loss(p) : read_layer(p, name, op, kind);
}

/* A checkpoint keeps the text, comments too, as JSON: bytes that are no UTF-8 would come back
 * changed, and the run could not be resumed. */
static ls_status check_utf8(const char *file, const char *text, size_t bytes)
{
    ls_model_place place = { .line = 1, .column = 1 };
    while (place.begin < bytes) {
        const unsigned char *p = (const unsigned char *)text + place.begin;
        const size_t count = ls_utf8_bytes_at(p, bytes - place.begin);
        if (count == 0) {
            return ls_model_fail(file, place, "found byte 0x%02x, which begins no UTF-8 character; "
                                 "a model file is UTF-8 text", *p);
        }
        place.column += (int)count;
        place.begin += count;
        if (*p == '\n') place = (ls_model_place){ place.line + 1, 1, place.begin, 0 };
    }
    return LS_OK;
}

ls_status ls_model_parse(const char *name, const char *text, ls_parsed_model *out)
{
    *out = (ls_parsed_model){ 0 };
    const size_t bytes = strlen(text);
    if (bytes > LS_MODEL_TEXT_BYTES_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: %zu bytes; a model file has at most %d", name, bytes,
                       LS_MODEL_TEXT_BYTES_MAX);
    }
    LS_TRY(check_utf8(name, text, bytes));
    parser p = { .line = { .file = name }, .out = out };
    char *copy = malloc(bytes + 1);
    out->layer = calloc(LS_MODEL_LAYERS_MAX, sizeof *out->layer);
    ls_status status = LS_OK;
    if (!copy || !out->layer) {
        status = ls_fail(LS_ERR_MEMORY, "%s: no memory for %zu bytes of model", name, bytes);
        goto done;
    }
    memcpy(copy, text, bytes + 1);
    int line = 1;
    size_t begin = strncmp(copy, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a UTF-8 byte order mark */
    for (; begin <= bytes && status == LS_OK; line++) {
        const size_t end = begin + strcspn(copy + begin, "\n");
        status = ls_model_split(&p.line, copy, begin, end, line);
        if (status == LS_OK && p.line.count > 0) status = read_line(&p);
        begin = end + 1;
    }
    if (status == LS_OK && !p.is_finished) {
        const ls_model_place end = { .line = line - 1, .column = 1 };
        const char *usage = out->layer_count == 0 ? ls_model_find_op("input")->usage : loss_usage;
        status = ls_model_fail(name, end, "found the end of the file, expected %s", usage);
    }
done:
    free(copy);
    return status;
}

void ls_parsed_model_free(ls_parsed_model *parsed)
{
    free(parsed->layer);
    *parsed = (ls_parsed_model){ 0 };
}
