/* SPDX-License-Identifier: MIT */
/* optimizer.c -- see optimizer.h. */
#include "train/optimizer.h"

#include <math.h>

int ls_optimizer_slot_count(ls_optimizer optimizer)
{
    switch (optimizer) {
    case LS_OPTIMIZER_SGD: return 0;
    case LS_OPTIMIZER_MOMENTUM: return 1;
    case LS_OPTIMIZER_ADAM: return 2;
    }
    return 0;
}

const char *ls_optimizer_slot_name(ls_optimizer optimizer, int slot)
{
    if (optimizer == LS_OPTIMIZER_MOMENTUM) return "momentum";
    return slot == 0 ? "m" : "v";
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

ls_update_args ls_optimizer_constants(const ls_optimizer_state *state, const ls_config *config,
                                      double lr)
{
    const bool adam = config->optimizer == LS_OPTIMIZER_ADAM;
    const double corrected = lr * sqrt(1 - state->beta2_power) / (1 - state->beta1_power);
    return (ls_update_args){
        .optimizer = config->optimizer,
        .rate = (float)(adam ? corrected : lr),
        .momentum = (float)config->momentum,
        .one_minus_beta1 = (float)(1 - config->beta1),
        .one_minus_beta2 = (float)(1 - config->beta2),
        .epsilon = (float)config->epsilon,
    };
}
