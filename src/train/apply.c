/* SPDX-License-Identifier: MIT */
/* apply.c -- a checkpoint put to use: evaluated, and what it predicts.
 *
 * The same replicas as in training, without gradients and slots: any number of them, every sample
 * exactly once, in order; its numbers scaled as those that the checkpoint was trained on.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "train/evaluate.h"
#include "train/state.h"
#include "train/trainer.h"

enum { APPLIED_ROWS = 256 }; /* samples at a time: there is no step beside them in memory */

ls_status ls_checkpoint_config(const char *checkpoint, ls_config *config)
{
    ls_checkpoint *file = NULL;
    ls_saved_run saved = { .text = { NULL } };
    ls_status status = ls_checkpoint_open(checkpoint, &file);
    if (status == LS_OK) status = ls_saved_run_init(&saved, file, checkpoint);
    if (status == LS_OK) *config = saved.config;
    ls_saved_run_free(&saved);
    ls_checkpoint_close(file);
    return status;
}

/* One evaluation; all owned. */
typedef struct {
    ls_checkpoint *checkpoint;
    ls_saved_run saved;
    ls_dataset *dataset;
    bool is_answered;                /* the data say what the results should be */
    ls_model model;
    ls_device_list list;
    ls_group *group;
    ls_replica_config replica_config;
    ls_device *device[LS_WORLD_MAX];
    ls_replica *replica;             /* [list.count] */
    ls_evaluation_staging *staging;  /* [list.count] */
    ls_evaluation_job job;
    ls_parameter_rule *rule;
    ls_metric_list metrics;
    float *weights;                  /* host arena */
    float *statistics;               /* host arena */
    double regularizer;              /* written by rank 0 */
} applied;

/* An ls_rank_fn. */
static ls_status evaluate_rank(int rank, void *arg)
{
    applied *a = arg;
    ls_replica *r = &a->replica[rank];
    double regularizer;
    LS_TRY(ls_replica_store(r, r->weights, a->weights, a->group));
    LS_TRY(ls_replica_store_statistics(r, a->statistics, a->group));
    LS_TRY(ls_replica_weights_changed(r));
    LS_TRY(ls_replica_regularizer(r, a->group, &regularizer));
    if (rank == 0) a->regularizer = regularizer;
    return ls_evaluation_run(&a->job, r, &a->staging[rank]);
}

/* Has a sample as many numbers as the network takes? */
static ls_status check_width(const applied *a, const char *data, const ls_model *model)
{
    const ls_dataset_info *info = ls_dataset_describe(a->dataset);
    const size_t wanted = ls_shape_floats(model->layer[0].out);
    const size_t found = info->height * info->width * info->channels;
    if (found == wanted) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: a sample has %zu number%s, expected %zu, as the network "
                   "takes%s", data, found, LS_PLURAL(found), wanted,
                   ls_dataset_width_hint(info, wanted));
}

/* Data without answers take those that the network would have: of classes under softmax, else
 * numbers. */
static ls_status assume_answers(applied *a, const ls_model *model)
{
    const ls_task task = model->loss == LS_LOSS_SOFTMAX_CROSSENTROPY ? LS_TASK_CLASSIFY
                                                                     : LS_TASK_REGRESS;
    return ls_dataset_assume_answers(a->dataset, task, ls_model_outputs(model));
}

/* The network, and whether the data are for it. */
static ls_status open_model(applied *a, const ls_evaluation_request *request)
{
    const char *name = a->saved.text[LS_SAVED_MODEL_NAME], *text = a->saved.text[LS_SAVED_MODEL];
    ls_model model; /* without the data: its text tells all sizes */
    LS_TRY(ls_model_init(&model, name, text, NULL));
    ls_status status = check_width(a, request->data, &model);
    a->is_answered = ls_dataset_describe(a->dataset)->task != LS_TASK_NONE;
    if (status == LS_OK && !a->is_answered && request->want_rows)
        status = assume_answers(a, &model);
    ls_model_free(&model);
    LS_TRY(status);
    return ls_model_init(&a->model, name, text, ls_dataset_describe(a->dataset));
}

static ls_status open_files(applied *a, const ls_evaluation_request *request)
{
    const char *checkpoint = request->checkpoint;
    LS_TRY(ls_checkpoint_open(checkpoint, &a->checkpoint));
    LS_TRY(ls_saved_run_init(&a->saved, a->checkpoint, checkpoint));
    LS_TRY(ls_device_list_parse(request->devices, LS_P2P_OFF, &a->list)); /* nothing is exchanged */
    LS_TRY(ls_dataset_open_scaled(request->data, a->saved.has_scale ? &a->saved.scale : NULL,
                                  &a->dataset));
    if (request->out && ls_dataset_reads(a->dataset, request->out))
        return ls_fail(LS_ERR_ARGUMENT, "--out %s: the samples are read from that file: name "
                       "another", request->out);
    LS_TRY(open_model(a, request));
    a->weights = calloc(a->model.arena_floats + 1, sizeof *a->weights);
    a->statistics = calloc(a->model.statistic_floats + 1, sizeof *a->statistics);
    if (!a->weights || !a->statistics)
        return ls_fail(LS_ERR_MEMORY, "no memory for the weights of %s", checkpoint);
    LS_TRY(ls_rules_create(&a->saved.config, &a->model, &a->rule));
    const bool averaged = a->saved.config.ema > 0 && !request->raw_weights;
    return ls_run_weights_load(a->checkpoint, checkpoint, &a->model, averaged, a->weights,
                               a->statistics);
}

static ls_status open_replicas(applied *a, int threads, double timeout_s)
{
    const int world_size = a->list.count;
    const int per_rank = ls_replica_threads(threads, world_size);
    a->replica_config = (ls_replica_config){
        .model = &a->model, .data = ls_dataset_describe(a->dataset),
        .table = ls_dataset_table(a->dataset), .world_size = world_size,
        .shard_count = world_size, .accumulate = 1, .global_batch = 0,
        .capacity_min = APPLIED_ROWS, .rule = a->rule,
        .training = false,
        .precision = a->saved.config.precision,
    };
    a->replica = calloc((size_t)world_size, sizeof *a->replica);
    a->staging = calloc((size_t)world_size, sizeof *a->staging);
    if (!a->replica || !a->staging)
        return ls_fail(LS_ERR_MEMORY, "no memory for %d replicas", world_size);
    LS_TRY(ls_group_create(world_size, timeout_s, &a->group));
    for (int r = 0; r < world_size; r++) {
        LS_TRY(ls_device_open(&a->list.device[r], per_rank,
                              world_size * per_rank <= ls_core_count(),
                              ls_group_progress(a->group), &a->device[r]));
        LS_TRY(ls_kernels_bind(a->device[r]));
        LS_TRY(ls_replica_init(&a->replica[r], &a->replica_config, r, a->device[r]));
        LS_TRY(ls_evaluation_staging_init(&a->staging[r], &a->replica[r]));
    }
    return LS_OK;
}

static ls_status open_job(applied *a, const ls_evaluation_request *request)
{
    const ls_dataset_info *data = ls_dataset_describe(a->dataset);
    const bool train = request->train_part || data->count[LS_PART_TEST] == 0;
    if (train && request->test_part)
        return ls_fail(LS_ERR_ARGUMENT, "--part test: %s has no test part", request->data);
    const char *metrics = !a->is_answered    ? "auto" /* nobody looks at them */
                          : request->metrics ? request->metrics
                                             : a->saved.config.metrics;
    LS_TRY(ls_metric_list_init(&a->metrics, metrics, data, ls_model_outputs(&a->model),
                               a->model.loss));
    return ls_evaluation_job_init(&a->job, a->dataset, train ? LS_PART_TRAIN : LS_PART_TEST,
                                  a->list.count, a->group, ls_model_outputs(&a->model),
                                  request->want_rows || ls_evaluation_needs_rows(&a->metrics));
}

static ls_status take_class_names(const ls_dataset *dataset, ls_evaluation *result)
{
    if (!ls_dataset_class_name(dataset, 0)) return LS_OK;
    const size_t classes = ls_dataset_describe(dataset)->classes;
    size_t bytes = 0;
    for (size_t c = 0; c < classes; c++) bytes += strlen(ls_dataset_class_name(dataset, c)) + 1;
    char *to = result->class_names = malloc(bytes);
    if (!to) return ls_fail(LS_ERR_MEMORY, "no memory for %zu class names", classes);
    for (size_t c = 0; c < classes; c++) {
        const char *name = ls_dataset_class_name(dataset, c);
        memcpy(to, name, strlen(name) + 1);
        to += strlen(name) + 1;
    }
    result->named = classes;
    return LS_OK;
}

/* Labels and predictions of classes, out of the job. */
static ls_status take_classes(applied *a, ls_evaluation *result)
{
    const ls_dataset_info *data = ls_dataset_describe(a->dataset);
    if (data->task != LS_TASK_CLASSIFY) return LS_OK;
    result->classes = ls_evaluation_classes(&a->job);
    if (a->is_answered) LS_TRY(ls_evaluation_labels(&a->job, &result->label));
    result->predicted = a->job.predicted;
    a->job.predicted = NULL;
    return take_class_names(a->dataset, result);
}

static ls_status take_places(const applied *a, ls_evaluation *result)
{
    result->place = malloc(result->samples * sizeof *result->place);
    if (!result->place) return ls_fail(LS_ERR_MEMORY, "no memory for %zu places", result->samples);
    for (size_t i = 0; i < result->samples; i++)
        result->place[i] = ls_dataset_place(a->dataset, a->job.part, i);
    return LS_OK;
}

/* Predictions out of the job, of what, and what they should have been. */
static ls_status take_rows(applied *a, ls_evaluation *result)
{
    result->rows = a->job.rows;
    a->job.rows = NULL;
    LS_TRY(take_places(a, result));
    const bool classify = ls_dataset_describe(a->dataset)->task == LS_TASK_CLASSIFY;
    if (classify || !a->is_answered) return LS_OK;
    return ls_evaluation_targets(&a->job, &result->target);
}

/* -- what the user should know of the data ---------------------------------------------------- */

/* Where the scale is from, unless that goes without saying. */
static void note_scale(const applied *a, bool same_data, char *out, size_t bytes)
{
    const ls_scale_rule ours = ls_dataset_scale_rule(a->dataset);
    const ls_scale_origin origin = ls_dataset_scale_origin(a->dataset);
    const bool standard = ours.kind == LS_SCALE_STANDARD;
    char name[LS_SCALE_NAME_BYTES], trained[LS_SCALE_NAME_BYTES];
    ls_scale_name(&ours, name);
    ls_scale_name(&a->saved.scale, trained);
    out[0] = '\0';
    if (!a->saved.has_scale) {
        if (!same_data && strstr(a->saved.text[LS_SAVED_DATA], "scale=standard"))
            snprintf(out, bytes, "it was trained with scale=standard, and the checkpoint, "
                     "of an earlier version, holds no mean and deviation: these results are right "
                     "only with the training file as the data, these as its test=, and "
                     "scale=standard");
    } else if (origin == LS_SCALE_DIFFERS) {
        snprintf(out, bytes, "scale=%s is given, but the training run had scale=%s; without a "
                 "scale key that is taken", name, trained);
    } else if (origin == LS_SCALE_TAKEN || (standard && !same_data)) {
        snprintf(out, bytes, "%sscale=%s of the training run is taken%s",
                 origin == LS_SCALE_TAKEN ? "no scale key is given: " : "", name,
                 standard ? ", with its mean and deviation" : "");
    }
}

/* How many samples' losses are not finite, and the first. Those of a network that learned are: the
 * numbers of a sample, or what it makes of them, are beyond a float. */
static size_t count_lost(const applied *a, size_t *first)
{
    size_t count = 0;
    for (size_t i = a->job.count; i-- > 0;) {
        if (isfinite(a->job.loss[i])) continue;
        *first = i;
        count++;
    }
    return count;
}

/* What opening the data warned of, and what came out. */
static ls_status take_warnings(const applied *a, ls_evaluation *result)
{
    enum { LINE_BYTES = 200 };
    const size_t chars = ls_dataset_reading_warnings(a->dataset);
    size_t first = 0;
    char *to = result->warnings = malloc(chars + LINE_BYTES);
    if (!to) return ls_fail(LS_ERR_MEMORY, "no memory for the warnings of the data");
    memcpy(to, ls_dataset_warnings(a->dataset), chars);
    to[chars] = '\0';
    const size_t count = count_lost(a, &first);
    if (count == 0) return LS_OK;
    snprintf(to + chars, LINE_BYTES, "%zu of %zu samples have results that are not finite, the "
             "first is that of index %zu\n", count, a->job.count,
             ls_dataset_place(a->dataset, a->job.part, first));
    return LS_OK;
}

static void note_data(const applied *a, const char *data, ls_evaluation *result)
{
    const char *identity = a->saved.text[LS_SAVED_IDENTITY];
    const bool same = strcmp(ls_dataset_identity(a->dataset), identity) == 0;
    char differs[2 * LS_TEXT_BYTES + 64] = "", scale[320];
    const bool differ = !same && a->is_answered; /* others are new ones, of course */
    if (differ && strcmp(data, a->saved.text[LS_SAVED_DATA]) == 0)
        snprintf(differs, sizeof differs, "%s is not what it was in the training run", data);
    else if (differ)
        snprintf(differs, sizeof differs, "%s is not the data of the training run (%s)", data,
                 a->saved.text[LS_SAVED_DATA]);
    note_scale(a, same, scale, sizeof scale);
    const bool warns = differ || ls_dataset_scale_origin(a->dataset) == LS_SCALE_DIFFERS;
    snprintf(result->data_note, sizeof result->data_note, "%s%s%s%s", warns ? "warning: " : "",
             differs, differs[0] && scale[0] ? "; " : "", scale);
}

static ls_status report(applied *a, const ls_evaluation_request *request, ls_evaluation *result)
{
    const ls_metric_list *metrics = &a->metrics;
    const ls_epoch_sums sums = ls_evaluation_sums(&a->job, metrics->top_k);
    *result = (ls_evaluation){
        .is_train_part = a->job.part == LS_PART_TRAIN,
        .samples = a->job.count,
        .loss = sums.loss / (double)sums.samples + a->regularizer,
        .metric_count = metrics->count,
        .columns = a->job.columns,
    };
    memcpy(result->metric_name, metrics->name, sizeof result->metric_name);
    LS_TRY(ls_evaluation_metrics(&a->job, metrics, &sums, result->metric));
    if (request->want_classes) LS_TRY(take_classes(a, result));
    if (request->want_rows) LS_TRY(take_rows(a, result));
    if (request->want_warnings) LS_TRY(take_warnings(a, result));
    note_data(a, request->data, result);
    return LS_OK;
}

void ls_evaluation_free(ls_evaluation *evaluation)
{
    free(evaluation->warnings);
    free(evaluation->place);
    free(evaluation->label);
    free(evaluation->predicted);
    free(evaluation->class_names);
    free(evaluation->rows);
    free(evaluation->target);
    *evaluation = (ls_evaluation){ 0 };
}

const char *ls_evaluation_class_name(const ls_evaluation *evaluation, size_t label)
{
    const char *name = evaluation->class_names;
    if (label >= evaluation->named) return NULL;
    for (; label > 0; label--) name += strlen(name) + 1;
    return name;
}

/* After a failure, may memory be freed? Not while a device may still write into it. */
static bool is_drained(applied *a)
{
    for (int r = 0; r < a->list.count; r++)
        if (!ls_stream_settles(&a->replica[r].compute, LS_SETTLE_SECONDS)) return false;
    return true;
}

static void close_applied(applied *a)
{
    for (int r = 0; r < a->list.count; r++) {
        if (a->staging) ls_evaluation_staging_free(&a->staging[r]);
        if (a->replica) ls_replica_free(&a->replica[r]);
        ls_device_close(a->device[r]);
    }
    ls_evaluation_job_free(&a->job);
    ls_group_destroy(a->group);
    free(a->staging);
    free(a->replica);
    free(a->statistics);
    free(a->weights);
    free(a->rule);
    ls_model_free(&a->model);
    ls_dataset_close(a->dataset);
    ls_saved_run_free(&a->saved);
    ls_checkpoint_close(a->checkpoint);
}

ls_status ls_evaluate(const ls_evaluation_request *request, ls_evaluation *result)
{
    ls_record cause;
    applied *a = calloc(1, sizeof *a);
    *result = (ls_evaluation){ 0 };
    if (!a) return ls_fail(LS_ERR_MEMORY, "no memory for an evaluation");
    ls_status status = open_files(a, request);
    if (status == LS_OK) status = open_replicas(a, request->threads, request->timeout_s);
    if (status == LS_OK) status = open_job(a, request);
    if (status == LS_OK) {
        status = ls_group_run(a->group, evaluate_rank, a, request->stuck);
        ls_record_keep(&cause);
        const bool drained = status == LS_OK || is_drained(a);
        ls_record_restore(&cause);
        if (!drained) request->stuck();
    }
    if (status == LS_OK) status = report(a, request, result);
    ls_record_keep(&cause);
    close_applied(a);
    if (status != LS_OK) ls_evaluation_free(result);
    ls_record_restore(&cause);
    free(a);
    return status;
}
