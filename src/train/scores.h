/* SPDX-License-Identifier: MIT */
/* scores.h -- metrics that all samples of a part make at once: precision, recall, F1, R squared.
 *
 * Of class c: hits h samples that are c and predicted so, a that are c, b that are predicted so.
 *
 *     precision_c = h / b     recall_c = h / a     f1_c = 2 h / (a + b)
 *
 * where a quotient by 0 is 0; and each score is the mean over the classes that occur, as a label or
 * as a prediction (macro averaging, as scikit-learn's). With two classes under sigmoid
 * cross-entropy it is that of class 1 alone, as Keras' Precision and Recall. Counts are integers.
 *
 * R squared of an output: 1 - sum (p - y)^2 / sum (y - mean y)^2. Where the targets are all equal
 * the divisor is 0: then 1 if the predictions equal them, else 0. The mean over the outputs. In
 * double; sums over samples are flat sums in the order of the data set.
 *
 * NaN over no sample. Pure, but for the text of failures.
 */
#ifndef LS_TRAIN_SCORES_H
#define LS_TRAIN_SCORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct {
    double precision, recall, f1;
} ls_class_scores;

/* label, predicted: [count], each below `classes`. Errors: MEMORY. */
LS_MUST_USE ls_status ls_class_scores_of(const int32_t *label, const int32_t *predicted,
                                         size_t count, size_t classes, bool binary,
                                         ls_class_scores *out);

/* prediction, target: [count, outputs]. */
double ls_r_squared(const float *prediction, const float *target, size_t count, size_t outputs);

#endif
