/* SPDX-License-Identifier: MIT */
/* gradient_plan.h -- in which buffer each gradient of an activation lies, over the whole graph.
 *
 * The backward pass visits the layers from the last to the first. A layer takes the gradient of its
 * output and leaves one for each of its inputs. Where a tensor feeds several layers their
 * contributions are added, the last consumer's first (docs/numerics.md 3); so a tensor's gradient
 * is complete when the layer that made the tensor is visited. Buffers are slots that are used again
 * as soon as nobody holds them: a chain of layers needs two, a residual block three.
 *
 *       y = conv1(x)                      visit   reads   leaves
 *       z = conv2(y)                      add     slot 0  z: slot 0 (the same numbers), x: slot 0
 *       s = add(z, x)                     conv2   slot 0  y: slot 1
 *                                         conv1   slot 1  x: slot 2, then slot 2 = slot 0 + slot 2
 *
 * A relu under a max pooling: an output of the pooling is the number that it chose, so where that
 * one is not > 0, its gradient is as good as zero. The pooling, which has fewer outputs than
 * inputs, applies the mask, if nobody else reads the tensor.
 *
 * Pure: the plan depends on the model and on which parameters are trained, and is made once.
 */
#ifndef LS_TRAIN_GRADIENT_PLAN_H
#define LS_TRAIN_GRADIENT_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "train/model.h"
#include "train/rules.h"

/* What becomes of the gradient of one input. */
typedef struct {
    int write;  /* slot into which the layer writes it; -1: nobody needs it. Equal to `masked`: the
                   op runs in place, or the numbers are the output's own (flatten, add) */
    int old;    /* slot of what later consumers gave; -1: this is the first */
    int sum;    /* slot that gets old + write; may be one of the two; -1 without an old one */
} ls_gradient_move;

typedef struct {
    int dy;     /* slot of the gradient of the layer's output; -1: nobody needs it */
    int masked; /* slot of what the layer's own relu lets through; dy where it may be overwritten,
                   and where there is no relu */
    bool comes_masked; /* the relu's mask is applied by the max pooling that dy comes from */
    bool feeds_pooling; /* a convolution of which only the next layer, a max pooling, reads the
                           output, and whose input gets no gradient: its parameters' gradients can
                           be made from that of the pooling's output, and dy need not be */
    ls_gradient_move input[LS_LAYER_INPUTS_MAX];
} ls_gradient_step;

typedef struct {
    ls_gradient_step *step; /* owned; [layers] */
    size_t *slot_floats;    /* owned; [slot_count] of one sample */
    int slot_count;
} ls_gradient_plan;

/* `rule`: [parameters] says which are frozen; NULL: none is. Nothing is computed below the
 * first layer with a trained parameter. Errors: MEMORY. */
LS_MUST_USE ls_status ls_gradient_plan_init(ls_gradient_plan *plan, const ls_model *model,
                                            const ls_parameter_rule *rule);
void ls_gradient_plan_free(ls_gradient_plan *plan); /* accepts all-zero */

/* Does the plan train `layer`: has it parameters, and do they get a gradient? Pure. */
bool ls_gradient_plan_trains(const ls_gradient_plan *plan, const ls_model *model,
                             const ls_parameter_rule *rule, int layer);

#endif
