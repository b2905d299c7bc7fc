/* SPDX-License-Identifier: MIT */
/* evaluate.c -- see evaluate.h. */
#include "train/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "sizes.h"
#include "train/scores.h"

ls_status ls_evaluation_job_init(ls_evaluation_job *job, const ls_dataset *dataset, ls_part part,
                                 int world_size, ls_group *group, size_t columns, bool want_rows)
{
    const size_t n = ls_dataset_describe(dataset)->count[part];
    *job = (ls_evaluation_job){ .dataset = dataset, .part = part, .count = n,
                                .world_size = world_size, .group = group, .columns = columns };
    job->loss = calloc(n + 1, sizeof *job->loss);
    job->error = calloc(n + 1, sizeof *job->error);
    job->square = calloc(n + 1, sizeof *job->square);
    job->place = calloc(n + 1, sizeof *job->place);
    job->predicted = calloc(n + 1, sizeof *job->predicted);
    if (want_rows) job->rows = calloc(n * columns + 1, sizeof *job->rows);
    const bool errors = job->error && job->square, places = job->place && job->predicted;
    if (job->loss && errors && places && (job->rows || !want_rows)) return LS_OK;
    return ls_fail(LS_ERR_MEMORY, "no memory for the results of %zu samples", n);
}

void ls_evaluation_job_free(ls_evaluation_job *job)
{
    free(job->rows);
    free(job->predicted);
    free(job->place);
    free(job->square);
    free(job->error);
    free(job->loss);
    *job = (ls_evaluation_job){ 0 };
}

ls_status ls_evaluation_staging_init(ls_evaluation_staging *staging, const ls_replica *replica)
{
    const ls_model *model = replica->config->model;
    const size_t rows = replica->capacity;
    const size_t samples_bytes = rows * ls_dataset_raw_bytes(replica->config->data);
    const size_t outputs = ls_model_outputs(model), targets = replica->config->data->outputs;
    const size_t words = rows * (targets + outputs + 7);
    staging->device = replica->device;
    LS_TRY(ls_pinned_alloc(replica->device, words * sizeof(float) + samples_bytes,
                           &staging->memory));
    float *next = staging->memory;
    staging->target = next;
    next += rows * targets;
    staging->rows = next;
    next += rows * outputs;
    staging->loss = next;
    next += rows;
    staging->error = next;
    next += rows;
    staging->square = next;
    next += rows;
    staging->label = (int32_t *)next;
    staging->place = staging->label + rows;
    staging->predicted = staging->place + rows;
    staging->index = (uint32_t *)(staging->predicted + rows);
    staging->x = (char *)(staging->index + rows);
    return LS_OK;
}

void ls_evaluation_staging_free(ls_evaluation_staging *staging)
{
    if (staging->device) ls_pinned_release(staging->device, staging->memory);
    *staging = (ls_evaluation_staging){ 0 };
}

/* Samples [begin, begin + count) of the part, read and copied to the device. */
static ls_status load_chunk(const ls_evaluation_job *job, ls_replica *r,
                            ls_evaluation_staging *staging, size_t begin, size_t count)
{
    const ls_dataset_info *data = ls_dataset_describe(job->dataset);
    const size_t sample_bytes = ls_dataset_raw_bytes(data);
    const bool classify = data->task == LS_TASK_CLASSIFY;
    for (size_t i = 0; i < count; i++) {
        ls_dataset_read_raw(job->dataset, job->part, begin + i, staging->x + i * sample_bytes);
        staging->index[i] = (uint32_t)(begin + i);
        if (classify)
            staging->label[i] = ls_dataset_label(job->dataset, job->part, begin + i);
        else
            ls_dataset_target(job->dataset, job->part, begin + i,
                              staging->target + i * data->outputs);
    }
    LS_TRY(ls_copy_to_device(&r->compute, ls_replica_samples(r), staging->x,
                             count * sample_bytes));
    LS_TRY(ls_copy_to_device(&r->compute, r->index, staging->index, count * sizeof(uint32_t)));
    if (classify)
        return ls_copy_to_device(&r->compute, r->label, staging->label, count * sizeof(int32_t));
    return ls_copy_to_device(&r->compute, r->target, staging->target,
                             count * data->outputs * sizeof(float));
}

/* What a sample's four bytes of a result come from, pass through, and end in. */
typedef struct {
    const void *device;
    void *staging, *job;
} result_array;

/* Two results of each sample besides its loss: what a class, or what a number, is compared by. */
static void list_results(const ls_evaluation_job *job, const ls_replica *r,
                         const ls_evaluation_staging *staging, result_array out[3])
{
    const bool classify = r->config->data->task == LS_TASK_CLASSIFY;
    out[0] = (result_array){ r->loss, staging->loss, job->loss };
    if (classify) {
        out[1] = (result_array){ r->label_place, staging->place, job->place };
        out[2] = (result_array){ r->predicted, staging->predicted, job->predicted };
    } else {
        out[1] = (result_array){ r->absolute_error, staging->error, job->error };
        out[2] = (result_array){ r->squared_error, staging->square, job->square };
    }
}

/* Results of a chunk, from the device into their places in the job's arrays. */
static ls_status store_chunk(const ls_evaluation_job *job, ls_replica *r,
                             ls_evaluation_staging *staging, size_t begin, size_t count)
{
    const ls_model *model = r->config->model;
    const size_t outputs = ls_model_outputs(model), word = sizeof(float);
    const bool crossentropy = model->loss == LS_LOSS_SOFTMAX_CROSSENTROPY ||
                              model->loss == LS_LOSS_SIGMOID_CROSSENTROPY;
    const float *rows = crossentropy ? r->probability : ls_replica_output(r);
    result_array result[3];
    list_results(job, r, staging, result);
    for (int i = 0; i < 3; i++)
        LS_TRY(ls_copy_to_host(&r->compute, result[i].staging, result[i].device, count * word));
    if (job->rows)
        LS_TRY(ls_copy_to_host(&r->compute, staging->rows, rows, count * outputs * word));
    LS_TRY(ls_stream_drain(&r->compute, job->group, "evaluating"));
    for (int i = 0; i < 3; i++)
        memcpy((char *)result[i].job + begin * word, result[i].staging, count * word);
    if (job->rows)
        memcpy(job->rows + begin * outputs, staging->rows, count * outputs * word);
    return LS_OK;
}

ls_status ls_evaluation_run(const ls_evaluation_job *job, ls_replica *replica,
                            ls_evaluation_staging *staging)
{
    const size_t ranks = (size_t)job->world_size, rank = (size_t)replica->rank;
    const size_t end = (rank + 1) * job->count / ranks;
    const bool classify = replica->config->data->task == LS_TASK_CLASSIFY;
    for (size_t begin = rank * job->count / ranks; begin < end;) {
        const size_t count = ls_min_size(end - begin, replica->capacity);
        LS_TRY(load_chunk(job, replica, staging, begin, count));
        const ls_pass_input input = { .kind = LS_PASS_INFERENCE, .samples = count,
                                      .bytes = replica->bytes, .x = replica->x,
                                      .label = classify ? replica->label : NULL,
                                      .target = classify ? NULL : replica->target,
                                      .index = replica->index };
        LS_TRY(ls_replica_forward(replica, &input, NULL));
        LS_TRY(ls_replica_loss(replica, &input, false, job->rows != NULL));
        LS_TRY(store_chunk(job, replica, staging, begin, count));
        begin += count;
    }
    return ls_barrier_wait(job->group, replica->rank, "the end of an evaluation");
}

static double flat_sum(const float *x, size_t count)
{
    ls_flat_f64 sum;
    ls_flat_init_f64(&sum);
    for (size_t i = 0; i < count; i++) ls_flat_add_f64(&sum, (double)x[i]);
    return ls_flat_end_f64(&sum);
}

ls_epoch_sums ls_evaluation_sums(const ls_evaluation_job *job, int top_k)
{
    ls_epoch_sums sums = { .samples = (int64_t)job->count };
    sums.loss = flat_sum(job->loss, job->count);
    sums.square = flat_sum(job->square, job->count);
    sums.error = flat_sum(job->error, job->count);
    for (size_t i = 0; i < job->count; i++) {
        sums.correct += job->place[i] == 0;
        sums.top += job->place[i] < top_k;
    }
    return sums;
}

bool ls_evaluation_needs_rows(const ls_metric_list *list)
{
    for (int m = 0; m < list->count; m++)
        if (list->kind[m] == LS_METRIC_R2) return true;
    return false;
}

static bool needs_classes(const ls_metric_list *list)
{
    for (int m = 0; m < list->count; m++)
        if (ls_metric_needs_all(list->kind[m]) && list->kind[m] != LS_METRIC_R2) return true;
    return false;
}

size_t ls_evaluation_classes(const ls_evaluation_job *job)
{
    return ls_class_count(ls_dataset_describe(job->dataset), job->columns);
}

ls_status ls_evaluation_labels(const ls_evaluation_job *job, int32_t **out)
{
    int32_t *label = *out = malloc((job->count + 1) * sizeof *label);
    if (!label) return ls_fail(LS_ERR_MEMORY, "no memory for %zu labels", job->count);
    for (size_t i = 0; i < job->count; i++)
        label[i] = ls_dataset_label(job->dataset, job->part, i);
    return LS_OK;
}

ls_status ls_evaluation_targets(const ls_evaluation_job *job, float **out)
{
    const size_t outputs = ls_dataset_describe(job->dataset)->outputs;
    float *target = *out = malloc((job->count * outputs + 1) * sizeof *target);
    if (!target) return ls_fail(LS_ERR_MEMORY, "no memory for %zu targets", job->count);
    for (size_t i = 0; i < job->count; i++)
        ls_dataset_target(job->dataset, job->part, i, target + i * outputs);
    return LS_OK;
}

static ls_status class_scores(const ls_evaluation_job *job, bool binary, ls_class_scores *out)
{
    int32_t *label;
    LS_TRY(ls_evaluation_labels(job, &label));
    const ls_status status = ls_class_scores_of(label, job->predicted, job->count,
                                                ls_evaluation_classes(job), binary, out);
    free(label);
    return status;
}

static ls_status r_squared(const ls_evaluation_job *job, double *out)
{
    float *target;
    LS_TRY(ls_evaluation_targets(job, &target));
    *out = ls_r_squared(job->rows, target, job->count, job->columns);
    free(target);
    return LS_OK;
}

ls_status ls_evaluation_metrics(const ls_evaluation_job *job, const ls_metric_list *list,
                                const ls_epoch_sums *sums, double *value)
{
    ls_class_scores scores = { 0 };
    ls_metric_values(list, sums, value);
    if (needs_classes(list)) LS_TRY(class_scores(job, list->binary, &scores));
    for (int m = 0; m < list->count; m++) {
        switch (list->kind[m]) {
        case LS_METRIC_PRECISION: value[m] = scores.precision; break;
        case LS_METRIC_RECALL: value[m] = scores.recall; break;
        case LS_METRIC_F1: value[m] = scores.f1; break;
        case LS_METRIC_R2: LS_TRY(r_squared(job, &value[m])); break;
        case LS_METRIC_ACCURACY:
        case LS_METRIC_TOP:
        case LS_METRIC_MSE:
        case LS_METRIC_MAE: break; /* of sums: they are there */
        }
    }
    return LS_OK;
}
