/* SPDX-License-Identifier: MIT */
/* metrics.h -- from sums over samples to the numbers that are shown: loss, accuracy, errors.
 *
 * Everything is kept as sums and counts until the moment it is shown, so a short batch weighs what
 * it holds. Counts are counted, never taken from a configuration.
 *
 * Pure.
 */
#ifndef LS_TRAIN_METRICS_H
#define LS_TRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "io/dataset.h"
#include "io/run_folder.h"
#include "kernels/kernels.h"
#include "train/config.h"

/* x[0 .. count-1] folded by the canonical tree; 0 of none. */
double ls_tree_sum(const double *x, size_t count);

/* The sums of a whole global batch from its shards' rows, by the tree. */
ls_shard_sum ls_batch_totals(const ls_shard_sum *row, int shard_count);

/* D of docs/semantics.md: samples, sum of weights, or 1. */
double ls_denominator(ls_reduction reduction, const ls_shard_sum *totals);

/* An epoch so far. Doubles are added in step order. */
typedef struct {
    double loss;     /* sum of samples * (loss of the step, regulariser included) */
    double error;    /* sum over samples of the mean absolute error */
    double square;   /* sum over samples of the mean squared error */
    int64_t samples, correct;
    int64_t top;     /* labels among the first k */
} ls_epoch_sums;

void ls_epoch_sums_add(ls_epoch_sums *sums, const ls_shard_sum *totals, double step_loss);

/* The metrics of a task, in the order of history.csv: "accuracy", or "mse" and "mae". */
int ls_metric_count(ls_task task);
const char *ls_metric_name(ls_task task, int metric);

/* value[ls_metric_count(task)] of sums; NaN over no sample. */
void ls_metric_values(ls_task task, const ls_epoch_sums *sums, double *value);

/* Column `name` of a line ("val_loss", "accuracy"), or NaN if the line has none. */
double ls_history_value(const ls_history_line *line, const char *name);

/* Is `name` a column that --until may watch, given the task and whether there is a test part? */
bool ls_history_has(const char *name, ls_task task, bool has_test);

#endif
