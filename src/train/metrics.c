/* SPDX-License-Identifier: MIT */
/* metrics.c -- see metrics.h. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
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

/* -- the list ---------------------------------------------------------------------------------- */

/* By kind. LS_METRIC_TOP's is followed by its K. */
static const struct {
    const char *name;
    ls_task task;
    bool needs_all;
} known[] = {
    [LS_METRIC_ACCURACY] = { "accuracy", LS_TASK_CLASSIFY, false },
    [LS_METRIC_TOP] = { "top", LS_TASK_CLASSIFY, false },
    [LS_METRIC_PRECISION] = { "precision", LS_TASK_CLASSIFY, true },
    [LS_METRIC_RECALL] = { "recall", LS_TASK_CLASSIFY, true },
    [LS_METRIC_F1] = { "f1", LS_TASK_CLASSIFY, true },
    [LS_METRIC_MSE] = { "mse", LS_TASK_REGRESS, false },
    [LS_METRIC_MAE] = { "mae", LS_TASK_REGRESS, false },
    [LS_METRIC_R2] = { "r2", LS_TASK_REGRESS, true },
};
enum { KNOWN = sizeof known / sizeof known[0] };

static ls_status unknown_metric(const char *name)
{
    const char *names[KNOWN + 1] = { NULL };
    for (int k = 0; k < KNOWN; k++) names[k] = k == LS_METRIC_TOP ? "top5" : known[k].name;
    const char *nearest = ls_nearest_name(name, names);
    return ls_fail(LS_ERR_ARGUMENT, "--metrics: found '%s', expected accuracy, topK, precision, "
                   "recall, f1, mse, mae or r2%s%s%s", name, nearest ? "; did you mean " : "",
                   nearest ? nearest : "", nearest ? "?" : "");
}

/* The kind that `name` says, with topK's K; KNOWN if it says none. */
static int kind_named(const char *name, int *k)
{
    const size_t digits = strncmp(name, "top", 3) == 0 ? strspn(name + 3, "0123456789") : 0;
    *k = 0;
    if (digits > 0 && digits <= 6 && name[3] != '0' && name[3 + digits] == '\0') {
        *k = (int)strtol(name + 3, NULL, 10);
        return LS_METRIC_TOP;
    }
    int kind = 0;
    while (kind < KNOWN && (kind == LS_METRIC_TOP || strcmp(known[kind].name, name) != 0)) kind++;
    return kind;
}

static ls_status add_metric(ls_metric_list *list, const char *name, const ls_dataset_info *data,
                            size_t outputs)
{
    int k;
    const int kind = kind_named(name, &k);
    if (kind == KNOWN) return unknown_metric(name);
    if (known[kind].task != data->task)
        return ls_fail(LS_ERR_ARGUMENT, "--metrics %s: it measures %s, the data have %s", name,
                       known[kind].task == LS_TASK_CLASSIFY ? "classes" : "numbers",
                       data->task == LS_TASK_CLASSIFY ? "classes" : "numbers");
    for (int m = 0; m < list->count; m++)
        if (list->kind[m] == (ls_metric_kind)kind)
            return ls_fail(LS_ERR_ARGUMENT, "--metrics: found %s after %s, expected each metric "
                           "once%s", name, list->name[m], k > 0 ? ", and one topK" : "");
    const size_t classes = ls_class_count(data, outputs);
    if (k > 0 && (size_t)k > classes)
        return ls_fail(LS_ERR_ARGUMENT, "--metrics %s: there %s %zu class%s", name,
                       classes == 1 ? "is" : "are", classes, classes == 1 ? "" : "es");
    list->kind[list->count] = (ls_metric_kind)kind;
    snprintf(list->name[list->count], LS_METRIC_NAME_BYTES, "%s", name);
    list->count++;
    if (k > 0) list->top_k = k;
    return LS_OK;
}

size_t ls_class_count(const ls_dataset_info *data, size_t outputs)
{
    const size_t predicted = outputs == 1 ? 2 : outputs;
    return data->classes > predicted ? data->classes : predicted;
}

ls_status ls_metric_list_init(ls_metric_list *list, const char *text, const ls_dataset_info *data,
                              size_t outputs, ls_loss loss)
{
    const bool classify = data->task == LS_TASK_CLASSIFY;
    *list = (ls_metric_list){ .binary = classify && ls_class_count(data, outputs) == 2
                                        && loss == LS_LOSS_SIGMOID_CROSSENTROPY };
    if (strcmp(text, "auto") == 0) text = classify ? "accuracy" : "mse,mae";
    for (bool more = true; more;) {
        char name[LS_METRIC_NAME_BYTES];
        const size_t chars = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", (int)(chars < sizeof name ? chars : sizeof name - 1),
                 text);
        LS_TRY(add_metric(list, name, data, outputs));
        more = text[chars] == ',';
        text += chars + 1;
    }
    return LS_OK;
}

bool ls_metric_needs_all(ls_metric_kind kind) { return known[kind].needs_all; }

static double value_of(ls_metric_kind kind, const ls_epoch_sums *sums)
{
    const double n = (double)sums->samples;
    if (sums->samples == 0) return (double)NAN;
    switch (kind) {
    case LS_METRIC_ACCURACY: return (double)sums->correct / n;
    case LS_METRIC_TOP: return (double)sums->top / n;
    case LS_METRIC_MSE: return sums->square / n;
    case LS_METRIC_MAE: return sums->error / n;
    case LS_METRIC_PRECISION:
    case LS_METRIC_RECALL:
    case LS_METRIC_F1:
    case LS_METRIC_R2: break; /* of all samples at once */
    }
    return (double)NAN;
}

void ls_metric_values(const ls_metric_list *list, const ls_epoch_sums *sums, double *value)
{
    for (int m = 0; m < list->count; m++) value[m] = value_of(list->kind[m], sums);
}

/* -- lines of history.csv ---------------------------------------------------------------------- */

void ls_history_name(ls_history_line *line, const ls_metric_list *list)
{
    line->metric_count = list->count;
    memcpy(line->metric_name, list->name, sizeof line->metric_name);
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

bool ls_history_has(const char *name, const ls_metric_list *list, bool has_test)
{
    const bool is_test = strncmp(name, "val_", 4) == 0;
    if (is_test && !has_test) return false;
    if (is_test) name += 4;
    if (strcmp(name, "loss") == 0) return true;
    for (int m = 0; m < list->count; m++)
        if (strcmp(name, list->name[m]) == 0) return is_test || !known[list->kind[m]].needs_all;
    return false;
}
