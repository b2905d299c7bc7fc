/* SPDX-License-Identifier: MIT */
/* optimizer.h -- the constants of one update, from options, rules and the number of the update.
 *
 * The arithmetic on tensors is the op ls_update (kernels/arena.h). Constants are computed in double
 * and rounded once to float. Adam's beta^t is a repeated double product, never pow: the same bits
 * on every machine.
 *
 * Adam [D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015], in Keras'
 * form: the bias corrections are folded into the rate, a = lr sqrt(1 - beta2^t) / (1 - beta1^t),
 * and epsilon is added to sqrt(v) uncorrected. AdamW [I. Loshchilov, F. Hutter, "Decoupled weight
 * decay regularization", ICLR 2019] is Adam after w = w - lr lambda w. Nesterov's momentum as in
 * [I. Sutskever et al., "On the importance of initialization and momentum in deep learning", ICML
 * 2013]: the step is taken from where the momentum leads. RMSprop [T. Tieleman, G. Hinton, lecture
 * 6.5, 2012] divides by the root of a mean square.
 *
 * Clipping acts on the reduced gradient of the whole batch, regularised, so that neither its bound
 * nor its direction knows of replicas. By norm: the factor is max / norm where norm > max, else 1.
 */
#ifndef LS_TRAIN_OPTIMIZER_H
#define LS_TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "train/config.h"
#include "train/rules.h"

/* Arenas of state, and their names in a checkpoint ("momentum"; "m", "v"; "square"). Pure. */
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

/* Length of the gradient of all parameters that are not frozen, from the squares of each: by the
 * canonical tree, in the order of the model file. Pure. */
double ls_trained_norm(const ls_parameter_rule *rule, const double *square, int count);

/* Does an update depend on the gradient's length? Pure. */
bool ls_optimizer_needs_norm(const ls_config *config);

/* Clip factor of a gradient of length `norm` under --clip-norm or --clip-global-norm `most` (0:
 * off). Pure. */
double ls_clip_factor(double most, double norm);

/* What the update that makes `state.updates` (so: after ls_optimizer_advance) does to each
 * parameter at learning rate `lr`. square: of each parameter's finished gradient; norm: its length
 * over all; both are looked at only where ls_optimizer_needs_norm. Pure. */
void ls_optimizer_steps(const ls_optimizer_state *state, const ls_config *config, double lr,
                        const ls_parameter_rule *rule, const double *square, double norm,
                        int count, ls_tensor_step *out);

/* Its other constants; arenas, tables and outputs are left to the caller. The average of the
 * weights starts as the weights after the first update: as in Keras. */
ls_update_args ls_optimizer_constants(const ls_optimizer_state *state, const ls_config *config);

#endif
