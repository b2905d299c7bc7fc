/* SPDX-License-Identifier: MIT */
/* metrics.h -- which numbers are shown beside the loss, and how they come from sums over samples.
 *
 * Everything is kept as sums and counts until the moment it is shown, so a short batch weighs what
 * it holds. Counts are counted, never taken from a configuration. Metrics are not weighted.
 *
 *     accuracy               right answers / samples
 *     topK                   samples whose label is among the first K classes / samples
 *     precision recall f1    of all samples of a part at once: scores.h
 *     mse mae                sum of the samples' mean squared, absolute errors / samples
 *     r2                     of all samples of a part at once: scores.h
 *
 * Those of all samples at once are made for the test part and by `lockstep eval`; the training
 * part, whose samples meet changing weights, has none: NaN. Over no sample, all are NaN.
 *
 * Pure, but for the text of failures.
 */
#ifndef LS_TRAIN_METRICS_H
#define LS_TRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "io/dataset.h"
#include "io/run_folder.h"
#include "kernels/kernels.h"
#include "train/config.h"
#include "train/model.h"

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

/* -- the list ---------------------------------------------------------------------------------- */

typedef enum {
    LS_METRIC_ACCURACY,
    LS_METRIC_TOP,
    LS_METRIC_PRECISION,
    LS_METRIC_RECALL,
    LS_METRIC_F1,
    LS_METRIC_MSE,
    LS_METRIC_MAE,
    LS_METRIC_R2
} ls_metric_kind;

/* In the order of history.csv. */
typedef struct {
    int count;
    ls_metric_kind kind[LS_METRIC_MAX];
    char name[LS_METRIC_MAX][LS_METRIC_NAME_BYTES]; /* "accuracy", "top5" */
    int top_k;   /* of topK; 0: it is not in the list */
    bool binary; /* precision, recall and f1 are those of class 1 */
} ls_metric_list;

/* How many classes there are: of the labels, or of what a model with so many outputs can predict,
 * of which data that it is evaluated on may show fewer. One output tells two classes apart. */
size_t ls_class_count(const ls_dataset_info *data, size_t outputs);

/* --metrics TEXT: names separated by commas; "auto": accuracy of classes, mse and mae of numbers.
 * `outputs` are the model's.
 * Errors: ARGUMENT (unknown, twice, not for this data; a second topK, a K beyond the classes). */
LS_MUST_USE ls_status ls_metric_list_init(ls_metric_list *list, const char *text,
                                          const ls_dataset_info *data, size_t outputs,
                                          ls_loss loss);

/* Is it made of all samples of a part at once? */
bool ls_metric_needs_all(ls_metric_kind kind);

/* value[count] of sums; NaN over no sample, and for what needs all samples at once. */
void ls_metric_values(const ls_metric_list *list, const ls_epoch_sums *sums, double *value);

/* -- lines of history.csv ---------------------------------------------------------------------- */

/* The list's names become the line's. */
void ls_history_name(ls_history_line *line, const ls_metric_list *list);

/* Column `name` of a line ("val_loss", "accuracy"), or NaN if the line has none. */
double ls_history_value(const ls_history_line *line, const char *name);

/* Is `name` a column that --until may watch: one that has values in this run? */
bool ls_history_has(const char *name, const ls_metric_list *list, bool has_test);

#endif
