/* SPDX-License-Identifier: MIT */
/* evaluate.h -- a part of a data set through the network: every sample exactly once.
 *
 * Rank r takes samples [r n / N, (r+1) n / N), in chunks that fit its activations. Per-sample
 * losses land in one array in the order of the data set; only then are they summed, as one flat
 * sum in double. So neither the chunk, nor N, nor V enters the result.
 *
 * Thread rule: a job is shared; ls_evaluation_run is collective; ranks write disjoint ranges.
 */
#ifndef LS_TRAIN_EVALUATE_H
#define LS_TRAIN_EVALUATE_H

#include "io/dataset.h"
#include "thread.h"
#include "train/metrics.h"
#include "train/replica.h"

typedef struct {
    const ls_dataset *dataset; /* borrowed */
    ls_part part;
    size_t count;              /* samples of the part */
    int world_size;
    ls_group *group;           /* borrowed */
    float *loss;               /* owned; [count] unweighted, without regulariser */
    float *error, *square;     /* owned; [count] mean absolute, squared error; 0 for classes */
    int32_t *place, *predicted; /* owned; [count] of loss.h; 0 for regression */
    float *rows;               /* owned; [count, columns] network outputs, or NULL: not wanted */
    size_t columns;
} ls_evaluation_job;

LS_MUST_USE ls_status ls_evaluation_job_init(ls_evaluation_job *job, const ls_dataset *dataset,
                                             ls_part part, int world_size, ls_group *group,
                                             size_t columns, bool want_rows);
void ls_evaluation_job_free(ls_evaluation_job *job); /* accepts all-zero */

/* One rank's pinned memory for a chunk of samples and its results. */
typedef struct {
    ls_device *device;
    void *memory; /* owned, pinned */
    char *x;      /* as ls_dataset_read_raw gives them */
    int32_t *label;
    float *target;
    uint32_t *index;
    float *loss, *error, *square, *rows;
    int32_t *place, *predicted;
} ls_evaluation_staging;

LS_MUST_USE ls_status ls_evaluation_staging_init(ls_evaluation_staging *staging,
                                                 const ls_replica *replica);
void ls_evaluation_staging_free(ls_evaluation_staging *staging); /* accepts all-zero */

/* This rank's samples, then all ranks meet: afterwards the job's arrays are complete for all of
 * them. Collective. Blocks. */
LS_MUST_USE ls_status ls_evaluation_run(const ls_evaluation_job *job, ls_replica *replica,
                                        ls_evaluation_staging *staging);

/* Sums over the whole part, in the order of the data set. Pure. */
ls_epoch_sums ls_evaluation_sums(const ls_evaluation_job *job, int top_k);

/* The metrics of the whole part: value[list->count]. R squared needs the job's rows.
 * Errors: MEMORY. */
LS_MUST_USE ls_status ls_evaluation_metrics(const ls_evaluation_job *job,
                                            const ls_metric_list *list,
                                            const ls_epoch_sums *sums, double *value);

/* What the data say of each sample of the part: labels [count], where they are classes; else
 * targets [count, outputs]. The array is the caller's. Errors: MEMORY. */
LS_MUST_USE ls_status ls_evaluation_labels(const ls_evaluation_job *job, int32_t **out);
LS_MUST_USE ls_status ls_evaluation_targets(const ls_evaluation_job *job, float **out);

/* What labels and predictions of the job are below: the data may have fewer classes than the
 * network has outputs, and one sigmoid output predicts two. Pure. */
size_t ls_evaluation_classes(const ls_evaluation_job *job);

/* Does a metric of the list need the job's rows? Then the job is made with want_rows. Pure. */
bool ls_evaluation_needs_rows(const ls_metric_list *list);

#endif
