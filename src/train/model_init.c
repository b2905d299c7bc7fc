/* SPDX-License-Identifier: MIT */
/* model_init.c -- a model from its text: parsed, given shapes and parameters, made whole.
 *
 *     model_parse.c       the text -> layers            model_shapes.c      shapes, the loss
 *     model_parameters.c  tensors, places, initial values
 *
 * Here: which layers the loss depends on, and the text with every `auto` replaced.
 */
#include <stdlib.h>
#include <string.h>

#include "train/model.h"
#include "train/model_parse.h"

size_t ls_model_outputs(const ls_model *model)
{
    return ls_shape_floats(model->layer[model->layer_count - 1].out);
}

const ls_parameter *ls_model_tensor(const ls_model *model, int i)
{
    const int s = i - model->parameter_count;
    return s < 0 ? &model->parameter[i] : &model->statistic[s];
}

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
                        ls_model_loss_name(model->loss));
    }
    append(&w, text + from, bytes - from);
    return LS_OK;
}

/* A layer is used if the last one is it, or reads it, or reads what reads it. */
static void mark_used(ls_model *model)
{
    model->layer[model->layer_count - 1].is_used = true;
    for (int i = model->layer_count - 1; i >= 0; i--) {
        const ls_layer *layer = &model->layer[i];
        for (int k = 0; layer->is_used && k < layer->input_count; k++) {
            model->layer[layer->input[k]].is_used = true;
        }
    }
}

static bool reads(const ls_layer *layer, int l)
{
    bool found = false;
    for (int k = 0; k < layer->input_count; k++) found = found || layer->input[k] == l;
    return found && layer->is_used;
}

/* See ls_layer.pooling. */
static int pooling_of(const ls_model *model, int l)
{
    int reader = -1, readers = 0;
    for (int i = l + 1; i < model->layer_count; i++) {
        if (!reads(&model->layer[i], l)) continue;
        reader = i;
        readers++;
    }
    return readers == 1 && model->layer[reader].op == LS_OP_MAX_POOL ? reader : -1;
}

static ls_status alloc_model(ls_model *model, const char *name, size_t layers)
{
    const size_t name_bytes = strlen(name) + 1;
    model->name = malloc(name_bytes);
    model->layer = calloc(layers, sizeof *model->layer);
    model->parameter = calloc(2 * layers, sizeof *model->parameter);
    model->statistic = calloc(2 * layers, sizeof *model->statistic);
    if (!model->name || !model->layer || !model->parameter || !model->statistic) {
        return ls_fail(LS_ERR_MEMORY, "%s: no memory for %zu layers", name, layers);
    }
    memcpy(model->name, name, name_bytes);
    return LS_OK;
}

static bool learns(const ls_model *model)
{
    for (int i = 0; i < model->parameter_count; i++) {
        if (model->layer[model->parameter[i].layer].is_used) return true;
    }
    return false;
}

static ls_status build(ls_model *model, const char *name, const char *text, ls_parsed_model *m,
                       const ls_dataset_info *data)
{
    if (data && data->task == LS_TASK_NONE)
        return ls_fail(LS_ERR_ARGUMENT, "--data: no answers (csv: label=none; npy: X.npy without "
                       "Y.npy), expected some: only `lockstep predict` goes without");
    LS_TRY(ls_model_infer_shapes(name, m, data));
    LS_TRY(ls_model_choose_loss(name, m, data, &model->loss));
    LS_TRY(alloc_model(model, name, (size_t)m->layer_count));
    for (int i = 0; i < m->layer_count; i++) model->layer[i] = m->layer[i].layer;
    model->layer_count = m->layer_count;
    model->smoothing = m->smoothing;
    mark_used(model);
    for (int i = 0; i < model->layer_count; i++) model->layer[i].pooling = pooling_of(model, i);
    LS_TRY(ls_model_add_parameters(name, model, m));
    if (!learns(model)) {
        return ls_model_fail(name, m->loss_kind, "no layer of this %s has weights; expected a conv "
                             "or a dense before the loss", "model");
    }
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
    free(model->statistic);
    *model = (ls_model){ 0 };
}
