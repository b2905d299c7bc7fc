/* SPDX-License-Identifier: MIT */
/* rules.h -- what the optimizer does to each parameter: the options, and --rules on top of them.
 *
 *     --rules "conv1/k*=freeze;*bias=lr:2,l2:0.001"
 *
 * is a list of rules, separated by semicolons. A rule is a pattern, '=', and properties separated
 * by commas. A pattern picks parameters by name (pattern.h). Properties:
 *
 *     freeze   never changes: no gradient, no norm, no regularisation, no update
 *     train    the opposite, for what an earlier rule froze
 *     lr:X     its learning rate is X times that of the run
 *     decay:X  its decoupled weight decay, in place of --weight-decay
 *     l1:X     its L1, in place of --l1;  l2:X likewise
 *
 * Rules are taken in order, and for each property the last one that matches counts. Without rules
 * every parameter is trained, and decay, L1 and L2 act on kernels alone: not on biases, nor on the
 * scales and shifts of a normalisation. A rule that names one of these makes it act there.
 *
 * A frozen parameter takes no part in anything that the gradient's length decides, and the
 * regulariser that is reported is that of trained parameters, as in Keras: so the loss stays the
 * function that is descended.
 *
 * Pure.
 */
#ifndef LS_TRAIN_RULES_H
#define LS_TRAIN_RULES_H

#include <stdbool.h>

#include "status.h"
#include "train/config.h"
#include "train/model.h"

typedef struct {
    double lr;       /* factor of the run's learning rate */
    double decay;    /* lambda of the decoupled weight decay; 0: none */
    double l1, l2;   /* lambdas of the regulariser; 0: none */
    bool frozen;     /* also: the loss does not depend on it */
} ls_parameter_rule;

/* Is `text` a list of rules? Errors: ARGUMENT, which says where. */
LS_MUST_USE ls_status ls_rules_check(const char *text);

/* Rules of every parameter of the model, owned by the caller. Errors: ARGUMENT (a rule that does
 * not parse or matches no parameter, with the nearest name; nothing is left to train), MEMORY. */
LS_MUST_USE ls_status ls_rules_create(const ls_config *config, const ls_model *model,
                                      ls_parameter_rule **out);

#endif
