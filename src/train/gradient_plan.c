/* SPDX-License-Identifier: MIT */
/* gradient_plan.c -- see gradient_plan.h.
 *
 * The walk of the backward pass, with counts of holders in place of numbers. A slot is held by
 * every tensor whose gradient lies in it, and by the layer that is being visited. It may be
 * overwritten only by its one holder, and is free when nobody holds it.
 */
#include "train/gradient_plan.h"

#include <stdlib.h>

typedef struct {
    const ls_model *model;
    ls_gradient_plan *plan;
    int *holders;  /* [layers + inputs of all layers], by slot */
    int *gradient; /* [layers] slot of the gradient of the layer's output so far, or -1 */
    bool *wanted;  /* [layers] some trained parameter lies at or above the layer */
} walk;

/* The smallest free slot that is large enough, or the largest free one, which grows, or a new one;
 * held once. */
static int take(walk *w, size_t floats)
{
    ls_gradient_plan *plan = w->plan;
    int best = -1;
    for (int s = 0; s < plan->slot_count; s++) {
        if (w->holders[s] > 0) continue;
        const size_t have = plan->slot_floats[s];
        const size_t best_has = best < 0 ? 0 : plan->slot_floats[best];
        const bool fits = have >= floats, best_fits = best_has >= floats;
        if (best < 0 || (fits && !best_fits) || (fits == best_fits && fits == (have < best_has)))
            best = s;
    }
    if (best < 0) best = plan->slot_count++;
    if (plan->slot_floats[best] < floats) plan->slot_floats[best] = floats;
    w->holders[best] = 1;
    return best;
}

/* How a layer gives its input the gradient. */
typedef enum { SAME_NUMBERS, IN_PLACE, ELSEWHERE } manner;

static manner manner_of(ls_op op)
{
    switch (op) {
    case LS_OP_FLATTEN:
    case LS_OP_ADD: return SAME_NUMBERS;
    case LS_OP_ACTIVATION:
    case LS_OP_DROPOUT:
    case LS_OP_BATCHNORM: return IN_PLACE;
    case LS_OP_INPUT:
    case LS_OP_CONV:
    case LS_OP_DENSE:
    case LS_OP_MAX_POOL:
    case LS_OP_AVERAGE_POOL:
    case LS_OP_ZERO_PAD:
    case LS_OP_MULTIPLY:
    case LS_OP_CONCAT: break;
    }
    return ELSEWHERE;
}

static void plan_input(walk *w, int l, int i)
{
    const ls_layer *layer = &w->model->layer[l];
    ls_gradient_step *step = &w->plan->step[l];
    ls_gradient_move *move = &step->input[i];
    const int t = layer->input[i], current = step->masked;
    const size_t floats = ls_shape_floats(w->model->layer[t].out);
    *move = (ls_gradient_move){ -1, -1, -1 };
    if (!w->wanted[t]) return;

    const manner how = manner_of(layer->op);
    if (how == SAME_NUMBERS || (how == IN_PLACE && w->holders[current] == 1)) {
        move->write = current;
        w->holders[current]++;
    } else {
        move->write = take(w, floats);
    }
    move->old = w->gradient[t];
    if (move->old < 0) {
        w->gradient[t] = move->write;
        return;
    }
    if (w->holders[move->old] == 1) move->sum = move->old;
    else if (w->holders[move->write] == 1) move->sum = move->write;
    else move->sum = take(w, floats);
    w->gradient[t] = move->sum;
    w->holders[move->old]--;
    w->holders[move->write]--;
    w->holders[move->sum] = 1;
}

static void plan_layer(walk *w, int l)
{
    const ls_layer *layer = &w->model->layer[l];
    ls_gradient_step *step = &w->plan->step[l];
    step->dy = step->masked = w->gradient[l];
    step->comes_masked = layer->relu && layer->pooling >= 0;
    for (int i = 0; i < LS_LAYER_INPUTS_MAX; i++)
        step->input[i] = (ls_gradient_move){ -1, -1, -1 };
    if (step->dy < 0) return;
    if (layer->relu && !step->comes_masked && w->holders[step->dy] > 1) {
        step->masked = take(w, ls_shape_floats(layer->out));
        w->holders[step->dy]--;
    }
    for (int i = 0; i < layer->input_count; i++) plan_input(w, l, i);
    step->feeds_pooling = layer->op == LS_OP_CONV && layer->pooling == l + 1
                          && step->input[0].write < 0;
    w->holders[step->masked]--;
}

static bool has_trained(const ls_layer *layer, const ls_parameter_rule *rule)
{
    int parameter[LS_LAYER_PARAMETERS_MAX];
    const int count = ls_layer_parameters(layer, parameter);
    for (int i = 0; i < count; i++)
        if (!rule || !rule[parameter[i]].frozen) return true;
    return false;
}

/* From the input downwards: what lies at or below a trained parameter, and feeds the loss. */
static void mark(walk *w, const ls_parameter_rule *rule)
{
    const ls_model *model = w->model;
    for (int l = 0; l < model->layer_count; l++) {
        const ls_layer *layer = &model->layer[l];
        bool wanted = has_trained(layer, rule);
        for (int i = 0; i < layer->input_count; i++)
            wanted = wanted || w->wanted[layer->input[i]];
        w->wanted[l] = wanted && layer->is_used;
        w->gradient[l] = -1;
    }
}

ls_status ls_gradient_plan_init(ls_gradient_plan *plan, const ls_model *model,
                                const ls_parameter_rule *rule)
{
    const size_t layers = (size_t)model->layer_count;
    const size_t slots_max = layers * (LS_LAYER_INPUTS_MAX + 2);
    *plan = (ls_gradient_plan){ .step = calloc(layers, sizeof *plan->step),
                                .slot_floats = calloc(slots_max, sizeof *plan->slot_floats) };
    walk w = { .model = model, .plan = plan,
               .holders = calloc(slots_max, sizeof *w.holders),
               .gradient = calloc(layers, sizeof *w.gradient),
               .wanted = calloc(layers, sizeof *w.wanted) };
    ls_status status = LS_OK;
    if (!plan->step || !plan->slot_floats || !w.holders || !w.gradient || !w.wanted) {
        status = ls_fail(LS_ERR_MEMORY, "no memory to plan the gradients of %zu layers", layers);
    } else {
        const int last = model->layer_count - 1;
        mark(&w, rule);
        if (w.wanted[last]) w.gradient[last] = take(&w, ls_shape_floats(model->layer[last].out));
        for (int l = last; l >= 0; l--) plan_layer(&w, l);
    }
    free(w.wanted);
    free(w.gradient);
    free(w.holders);
    return status;
}

void ls_gradient_plan_free(ls_gradient_plan *plan)
{
    free(plan->slot_floats);
    free(plan->step);
    *plan = (ls_gradient_plan){ 0 };
}

bool ls_gradient_plan_trains(const ls_gradient_plan *plan, const ls_model *model,
                             const ls_parameter_rule *rule, int layer)
{
    return plan->step[layer].dy >= 0 && has_trained(&model->layer[layer], rule);
}
