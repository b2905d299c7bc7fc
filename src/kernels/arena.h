/* SPDX-License-Identifier: MIT */
/* arena.h -- the ops on the parameter arena (docs/numerics.md 6), part of kernels.h's list.
 *
 * Weights, gradients, optimizer slots and the average of the weights are arenas of one layout:
 * tensor t is [begin, begin + count). Tables are in the order of the model file (the order of
 * norms). A step calls them in this order:
 *
 *   gradient_finish   the reduced sums become the gradient: divided, regularised, measured
 *   (the caller)      norms -> clip factors; rates and decays: a ls_tensor_step per tensor
 *   update            clip, decay, optimizer, flush, average: weights and slots of the next step
 *
 * Where nothing that the update does depends on what the first finds, the two are one pass: update
 * takes the first one's arguments.
 *
 * What is one number for all tensors is in the arguments; what may differ between them (learning
 * rate, decay, clip factor, frozen) is a table of its own, which the caller writes anew each step.
 */
#ifndef LS_KERNELS_ARENA_H
#define LS_KERNELS_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/layout.h"

typedef struct {
    int count;
    const ls_arena_tensor *host;   /* [count] host memory */
    const ls_arena_tensor *device; /* [count] the same on the device */
} ls_arena_table;

/* For every tensor, in this order: finite test of g as it comes; g = g * scale; g = fmaf(l2_twice,
 * w, g) unless l2_twice is 0; g = g + l1 * sign(w) unless l1 is 0 (sign(0) = 0); norm = flat sum
 * (double) of g squared. */
typedef struct {
    const ls_arena_table *tensors;
    float scale;
    const float *w; /* arena */
    float *g;            /* arena, in place */
    double *square_sum;  /* [tensors] */
    uint64_t *nonfinite; /* [tensors] index in the tensor of the first element that is not finite,
                            or LS_ALL_FINITE */
} ls_gradient_finish_args;

/* Flat sums (double) of w squared and of |w|, per tensor: norms and the regulariser's loss. */
typedef struct {
    const ls_arena_table *tensors;
    const float *w;
    double *square_sum;   /* [tensors] */
    double *absolute_sum; /* [tensors] */
} ls_weight_sums_args;

/* One update of every tensor (docs/numerics.md 6), after ls_gradient_finish, or with `finish` on
 * the way: then its results are stored, and g afterwards is as it came or finished, which of the
 * two is left open. Constants are computed in double and rounded once by the caller. With rate,
 * decay, clip and frozen of the tensor's ls_tensor_step, for each of its elements:
 *
 *   frozen    nothing changes, slots and average neither; the rest only where it is not
 *   clip      g = g * clip; and unless clip_value is 0: g = g > clip_value ? clip_value
 *             : g < -clip_value ? -clip_value : g (a NaN passes)
 *   decay     w = fmaf(-decay, w, w) unless decay is 0
 *   SGD       w = fmaf(-rate, g, w)
 *   MOMENTUM  slot0 = fmaf(momentum, slot0, -(rate * g));  w = w + slot0
 *   NESTEROV  slot0 as there;  w = w + fmaf(momentum, slot0, -(rate * g))
 *   ADAM      slot0 = fmaf(one_minus_beta1, g - slot0, slot0)
 *             slot1 = fmaf(one_minus_beta2, fmaf(g, g, -slot1), slot1)
 *             w = fmaf(-rate, slot0 / (sqrt(slot1) + epsilon), w),  rate = numerics.md's `a`
 *   ADAMW     the same: what it differs in is decay
 *   RMSPROP   slot0 = fmaf(one_minus_rho, fmaf(g, g, -slot0), slot0)
 *             w = fmaf(-rate, g / sqrt(slot0 + epsilon), w)
 *   flush     a slot with |x| < 2^-100 is stored as +0; w was made of the unflushed one
 *   average   = fmaf(one_minus_ema, w - average, average), where there is one
 *
 * update_square_sum: per tensor, flat sum (double) of the square of (new w - old w), old being what
 * it was before the decay, the difference in float.
 * digest: of the new weights, frozen ones too, as ls_digest of the whole arena (whose padding is
 * zero).
 * sums_digest: the same of g as it came. */
typedef struct {
    const ls_arena_table *tensors;
    const ls_tensor_step *step_host;   /* [tensors] host memory */
    const ls_tensor_step *step_device; /* [tensors] the same on the device */
    ls_optimizer optimizer;
    float momentum;                         /* MOMENTUM, NESTEROV */
    float one_minus_beta1, one_minus_beta2; /* ADAM, ADAMW */
    float one_minus_rho;                    /* RMSPROP */
    float epsilon;                          /* ADAM, ADAMW, RMSPROP */
    float clip_value;                       /* 0: none */
    float one_minus_ema;
    const ls_gradient_finish_args *finish;  /* of these tensors, w and g; or NULL */
    const float *g;
    float *w;
    float *slot0, *slot1;      /* arenas; NULL where the optimizer has none */
    float *average;            /* arena, or NULL: none is kept */
    double *update_square_sum; /* [tensors] */
    uint64_t *digest;          /* [1] */
    uint64_t *sums_digest;     /* [1], or NULL; only with `finish` */
} ls_update_args;

/* Arenas of state that an optimizer keeps: slot0, slot1. */
enum { LS_SLOT_MAX = 2 };

/* ADAM or ADAMW? They differ in the decay alone. */
static inline bool ls_optimizer_is_adam(ls_optimizer optimizer)
{
    return optimizer == LS_OPTIMIZER_ADAM || optimizer == LS_OPTIMIZER_ADAMW;
}

#define LS_ARENA_KERNELS(X)                                                                       \
    X(gradient_finish)                                                                            \
    X(weight_sums)                                                                                \
    X(update)

#endif
