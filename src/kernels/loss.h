/* SPDX-License-Identifier: MIT */
/* loss.h -- losses from a network's last layer, and their sums by shard; part of kernels.h's list
 * and under its common rules. The formulas, in fp32, are docs/numerics.md 5.
 *
 * Any output pointer may be NULL and is then not computed.
 *
 * weight        weighs a sample's gradient (and its loss, in shard_sums); `loss` is unweighted.
 * loss_scale    a power of two that the gradient is multiplied by: w = weight * loss_scale. 1 where
 *               nothing is in 16 bits; it must be given where a gradient is asked for.
 * smoothing     label smoothing e in [0, 1] draws the targets together: `smooth_hot` = (float)(1 -
 *               e), `smooth_all` = (float)(e / C) of C classes, or (float)(e / 2) for sigmoid_loss,
 *               both computed in double by the caller. smooth_all 0: no smoothing, and smooth_hot
 *               is not looked at. Errors and places are taken from the targets as they were.
 * place         how many classes rank before the label: their score is greater, or equal and their
 *               number lower. Place 0 is a right answer, place < k one among the first k. A row
 *               with a NaN: the number of classes, so it is never right.
 * predicted     the class of the largest score: the lowest of equals, the last NaN if there is one.
 */
#ifndef LS_KERNELS_LOSS_H
#define LS_KERNELS_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/fold.h"
#include "kernels/layout.h"

/* Softmax cross-entropy of each row. */
typedef struct {
    size_t samples, classes;
    float smooth_hot, smooth_all, loss_scale;
    const float *logits;  /* [samples,classes] */
    const int32_t *label; /* [samples], 0 .. classes-1; checked by the data set, not here */
    const float *weight;  /* [samples], or NULL: all 1 */
    float *loss;          /* [samples] */
    int32_t *place;       /* [samples] */
    int32_t *predicted;   /* [samples] */
    float *dlogits;       /* [samples,classes] gradient of the SUM of w * loss */
    float *probability;   /* [samples,classes] */
} ls_softmax_loss_args;

/* Sigmoid cross-entropy of each row, the mean over its outputs. The targets are given, or made from
 * labels: one output has the label itself, 0 or 1; several have 1 at the label, else 0. With one
 * output there are two classes, the scores 0 and z: z > 0 predicts 1, and a NaN's place is 2. */
typedef struct {
    size_t samples, outputs;
    float smooth_hot, smooth_all, loss_scale;
    const float *logits;   /* [samples,outputs] */
    const int32_t *label;  /* [samples]; or NULL: */
    const float *target;   /* [samples,outputs] */
    const float *weight;   /* [samples], or NULL: all 1 */
    float *loss;           /* [samples] */
    int32_t *place;        /* [samples]; needs labels */
    int32_t *predicted;    /* [samples] */
    float *absolute_error; /* [samples] mean of |p - y| */
    float *squared_error;  /* [samples] mean of (p - y)^2 */
    float *dlogits;        /* [samples,outputs] gradient of the sum of w * loss */
    float *probability;    /* [samples,outputs] */
} ls_sigmoid_loss_args;

/* Mean squared or mean absolute error of each row: flat sums (fp32) / outputs. */
typedef enum { LS_REGRESSION_SQUARED, LS_REGRESSION_ABSOLUTE } ls_regression;

typedef struct {
    ls_regression kind;
    size_t samples, outputs;
    float loss_scale;
    const float *prediction, *target; /* [samples,outputs] */
    const float *weight;              /* [samples], or NULL: all 1 */
    float *loss;                      /* [samples] one of the following */
    float *absolute_error;            /* [samples] mean of |p - y| */
    float *squared_error;             /* [samples] mean of (p - y)^2 */
    float *dprediction;               /* [samples,outputs] gradient of the sum of w * loss */
} ls_regression_loss_args;

/* out[s] = the sums of shard s, for the shards s that are leaves of the fold; no other row is
 * touched. */
typedef struct {
    const ls_fold *fold;
    int32_t top_k;               /* 0: nothing is counted in `top` */
    const float *loss;           /* [samples] */
    const float *weight;         /* [samples], or NULL: all 1 */
    const float *absolute_error; /* [samples], or NULL */
    const float *squared_error;  /* [samples], or NULL */
    const int32_t *place;        /* [samples], or NULL */
    ls_shard_sum *out;           /* [shards of the run], by the shard's number */
} ls_shard_sums_args;

#define LS_LOSS_KERNELS(X)                                                                        \
    X(softmax_loss)                                                                               \
    X(sigmoid_loss)                                                                               \
    X(regression_loss)                                                                            \
    X(shard_sums)

#endif
