/* SPDX-License-Identifier: MIT */
/* optimizer.h -- the constants of one update, from the options and the number of the update.
 *
 * The arithmetic on tensors is the op ls_update (kernels.h). Constants are computed in double and
 * rounded once to float. Adam's beta^t is a repeated double product, never pow: the same bits on
 * every machine.
 *
 * Adam [D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015], in Keras'
 * form: the bias corrections are folded into the rate, a = lr sqrt(1 - beta2^t) / (1 - beta1^t),
 * and epsilon is added to sqrt(v) uncorrected.
 */
#ifndef LS_TRAIN_OPTIMIZER_H
#define LS_TRAIN_OPTIMIZER_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "train/config.h"

/* Arenas of state, and their names in a checkpoint ("momentum"; "m", "v"). Pure. */
int ls_optimizer_slot_count(ls_optimizer optimizer);
const char *ls_optimizer_slot_name(ls_optimizer optimizer, int slot);

typedef struct {
    uint64_t updates;                /* applied so far: t */
    double beta1_power, beta2_power; /* beta^t */
} ls_optimizer_state;

/* The state after `updates` updates: t products. */
ls_optimizer_state ls_optimizer_state_at(const ls_config *config, uint64_t updates);

/* One update further. */
void ls_optimizer_advance(ls_optimizer_state *state, const ls_config *config);

/* Constants of the update that makes `state.updates` (so: after ls_optimizer_advance) at learning
 * rate `lr`; arenas and outputs are left to the caller. */
ls_update_args ls_optimizer_constants(const ls_optimizer_state *state, const ls_config *config,
                                      double lr);

#endif
