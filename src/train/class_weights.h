/* SPDX-License-Identifier: MIT */
/* class_weights.h -- --class-weights: how much the samples of each class count in the loss.
 *
 *     none           all 1
 *     balanced       n / (classes * count) of the training part: every class weighs the same in
 *                    all, and the mean weight is 1; in double, rounded once
 *     0=1,3=2.5      these classes; a class that is not named weighs 1
 *
 * A sample's weight is its own, if the data has weights, times its class's, in float.
 *
 * Pure, but for the text of failures.
 */
#ifndef LS_TRAIN_CLASS_WEIGHTS_H
#define LS_TRAIN_CLASS_WEIGHTS_H

#include "io/dataset.h"
#include "status.h"

/* *out: [classes], owned by the caller; NULL for `none`. Checks that no training sample's weight
 * overflows. Errors: ARGUMENT (malformed, a class that is not there or named twice, a weight that
 * is negative or not finite, data without classes), MEMORY. */
LS_MUST_USE ls_status ls_class_weights_create(const char *text, const ls_dataset *dataset,
                                              float **out);

#endif
