/* SPDX-License-Identifier: MIT */
/* optimizer.c -- see optimizer.h. */
#include "train/optimizer.h"

#include <math.h>

#include "numerics.h"

int ls_optimizer_slot_count(ls_optimizer optimizer)
{
    switch (optimizer) {
    case LS_OPTIMIZER_SGD: return 0;
    case LS_OPTIMIZER_MOMENTUM:
    case LS_OPTIMIZER_NESTEROV:
    case LS_OPTIMIZER_RMSPROP: return 1;
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: return 2;
    }
    return 0;
}

const char *ls_optimizer_slot_name(ls_optimizer optimizer, int slot)
{
    if (ls_optimizer_is_adam(optimizer)) return slot == 0 ? "m" : "v";
    return optimizer == LS_OPTIMIZER_RMSPROP ? "square" : "momentum";
}

void ls_optimizer_advance(ls_optimizer_state *state, const ls_config *config)
{
    state->updates++;
    state->beta1_power *= config->beta1;
    state->beta2_power *= config->beta2;
}

ls_optimizer_state ls_optimizer_state_at(const ls_config *config, uint64_t updates)
{
    ls_optimizer_state state = { .beta1_power = 1, .beta2_power = 1 };
    while (state.updates < updates) ls_optimizer_advance(&state, config);
    return state;
}

double ls_trained_norm(const ls_parameter_rule *rule, const double *square, int count)
{
    ls_tree_f64 sum = { .depth = 0 };
    for (int p = 0; p < count; p++) {
        if (!rule[p].frozen) ls_tree_push_f64(&sum, square[p]);
    }
    return sqrt(ls_tree_root_f64(&sum));
}

bool ls_optimizer_needs_norm(const ls_config *config)
{
    return config->clip_norm > 0 || config->clip_global_norm > 0;
}

double ls_clip_factor(double most, double norm)
{
    return most > 0 && norm > most ? most / norm : 1;
}

void ls_optimizer_steps(const ls_optimizer_state *state, const ls_config *config, double lr,
                        const ls_parameter_rule *rule, const double *square, double norm,
                        int count, ls_tensor_step *out)
{
    const double global = ls_clip_factor(config->clip_global_norm, norm);
    for (int p = 0; p < count; p++) {
        const double own = lr * rule[p].lr;
        const double corrected =
            own * sqrt(1 - state->beta2_power) / (1 - state->beta1_power);
        const double clip = config->clip_norm > 0
                                ? ls_clip_factor(config->clip_norm, sqrt(square[p])) : global;
        out[p] = (ls_tensor_step){
            .rate = (float)(ls_optimizer_is_adam(config->optimizer) ? corrected : own),
            .decay = (float)(own * rule[p].decay),
            .clip = (float)clip,
            .frozen = rule[p].frozen,
        };
    }
}

ls_update_args ls_optimizer_constants(const ls_optimizer_state *state, const ls_config *config)
{
    return (ls_update_args){
        .optimizer = config->optimizer,
        .momentum = (float)config->momentum,
        .one_minus_beta1 = (float)(1 - config->beta1),
        .one_minus_beta2 = (float)(1 - config->beta2),
        .one_minus_rho = (float)(1 - config->rho),
        .epsilon = (float)config->epsilon,
        .clip_value = (float)config->clip_value,
        .one_minus_ema = (float)(state->updates == 1 ? 1 : 1 - config->ema),
    };
}
