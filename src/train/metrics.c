/* SPDX-License-Identifier: MIT */
/* metrics.c -- see metrics.h. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numerics.h"

double ls_tree_sum(const double *x, size_t count)
{
    ls_tree_f64 tree = { .depth = 0 };
    for (size_t i = 0; i < count; i++) ls_tree_push_f64(&tree, x[i]);
    return ls_tree_root_f64(&tree);
}

ls_shard_sum ls_batch_totals(const ls_shard_sum *row, int shard_count)
{
    double loss[LS_SHARD_MAX], weight[LS_SHARD_MAX], error[LS_SHARD_MAX];
    double square[LS_SHARD_MAX];
    ls_shard_sum totals = { 0 };
    for (int s = 0; s < shard_count; s++) {
        loss[s] = row[s].loss;
        weight[s] = row[s].weight;
        error[s] = row[s].error;
        square[s] = row[s].square;
        totals.samples += row[s].samples;
        totals.correct += row[s].correct;
        totals.top += row[s].top;
    }
    totals.loss = ls_tree_sum(loss, (size_t)shard_count);
    totals.weight = ls_tree_sum(weight, (size_t)shard_count);
    totals.error = ls_tree_sum(error, (size_t)shard_count);
    totals.square = ls_tree_sum(square, (size_t)shard_count);
    return totals;
}

double ls_denominator(ls_reduction reduction, const ls_shard_sum *totals)
{
    switch (reduction) {
    case LS_REDUCTION_MEAN: return (double)totals->samples;
    case LS_REDUCTION_WEIGHTED_MEAN: return totals->weight;
    case LS_REDUCTION_SUM: break;
    }
    return 1;
}

void ls_epoch_sums_add(ls_epoch_sums *sums, const ls_shard_sum *totals, double step_loss)
{
    sums->loss += (double)totals->samples * step_loss;
    sums->error += totals->error;
    sums->square += totals->square;
    sums->samples += totals->samples;
    sums->correct += totals->correct;
    sums->top += totals->top;
}

int ls_metric_count(ls_task task) { return task == LS_TASK_CLASSIFY ? 1 : 2; }

const char *ls_metric_name(ls_task task, int metric)
{
    if (task == LS_TASK_CLASSIFY) return "accuracy";
    return metric == 0 ? "mse" : "mae";
}

void ls_metric_values(ls_task task, const ls_epoch_sums *sums, double *value)
{
    const double n = sums->samples > 0 ? (double)sums->samples : (double)NAN;
    if (task == LS_TASK_CLASSIFY) {
        value[0] = (double)sums->correct / n;
    } else {
        value[0] = sums->square / n;
        value[1] = sums->error / n;
    }
}

double ls_history_value(const ls_history_line *line, const char *name)
{
    if (strcmp(name, "loss") == 0) return line->loss;
    if (strcmp(name, "val_loss") == 0) return line->val_loss;
    const bool is_test = strncmp(name, "val_", 4) == 0;
    for (int m = 0; m < line->metric_count; m++)
        if (strcmp(line->metric_name[m], name + (is_test ? 4 : 0)) == 0)
            return is_test ? line->val_metric[m] : line->metric[m];
    return (double)NAN;
}

bool ls_history_has(const char *name, ls_task task, bool has_test)
{
    if (strncmp(name, "val_", 4) == 0) {
        if (!has_test) return false;
        name += 4;
    }
    if (strcmp(name, "loss") == 0) return true;
    for (int m = 0; m < ls_metric_count(task); m++)
        if (strcmp(name, ls_metric_name(task, m)) == 0) return true;
    return false;
}
