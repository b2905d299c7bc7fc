/* SPDX-License-Identifier: MIT */
/* pipeline.h -- reads ahead: data set -> reader threads -> bounded queue -> staging of each rank.
 *
 * The training steps from (first_epoch, first_step) on are produced in order, `depth` of them
 * ahead. A step's batch of a rank holds that rank's samples in the order of its passes (fold.h
 * gives the same order): pass 0's shards ascending, then pass 1's. Any number of reader threads
 * fills the same bytes, since a slot's contents are a function of (seed, epoch, step, rank).
 *
 * Thread rule: ls_pipeline_next / _release of rank r are called by rank r's thread only.
 */
#ifndef LS_IO_PIPELINE_H
#define LS_IO_PIPELINE_H

#include "io/augment.h"
#include "io/dataset.h"
#include "status.h"
#include "thread.h"

typedef struct {
    const ls_dataset *dataset; /* borrowed */
    ls_augment augment;        /* accepted by ls_augment_check */
    uint64_t seed;
    bool shuffle, drop_remainder;
    size_t global_batch;
    const float *class_weight; /* borrowed, [classes], or NULL: all 1 */
    int world_size, shard_count, accumulate;
    int reader_count;          /* threads that fill slots, >= 1 */
    int depth;                 /* slots per rank, >= 2 */
    size_t cache_bytes;        /* keep decoded samples, so many bytes of them; 0: none */
    uint32_t first_epoch;      /* 0-based */
    size_t first_step;         /* of first_epoch, 0-based; its step count: the next epoch's 0 */
    uint64_t step_count;       /* stop after this many steps */
    ls_group *group;           /* borrowed: waits end with it; finished batches are its progress */
} ls_pipeline_config;

typedef struct {
    uint32_t epoch;
    size_t step;              /* of the epoch, 0-based */
    size_t batch_samples;     /* of the global batch, over all ranks */
    size_t samples;           /* of this rank */
    const void *x;            /* [samples, ls_dataset_raw_bytes] as ls_dataset_read_raw gives them,
                                 augmented */
    const int32_t *label;     /* [samples] CLASSIFY, else NULL */
    const float *target;      /* [samples, outputs] REGRESS, else NULL */
    const float *weight;      /* [samples] (the sample's * its class's), or NULL: all 1 */
    const uint32_t *index;    /* [samples] the sample's index in the training part */
    int ready;                /* batches of this rank, this one included, that were filled when it
                                 asked; 0: it waited */
} ls_batch;

/* What has been done since the start. */
typedef struct {
    uint64_t busy_ns;   /* in which readers filled batches, the times of all readers added up */
    uint64_t bytes;     /* as they are stored, of samples that were read for these batches */
    uint64_t waited_ns; /* in ls_pipeline_next, of the rank that has waited longest */
} ls_input_counts;

typedef struct ls_pipeline ls_pipeline;

/* Bytes of staging that one rank needs (all its slots). */
size_t ls_pipeline_staging_bytes(const ls_pipeline_config *config, int rank);

/* `staging[r]`: that many bytes for rank r, aligned to 64, borrowed, pinned if its device copies
 * asynchronously. Starts the readers.
 * Errors: ARGUMENT (drop_remainder leaves no step), MEMORY. */
LS_MUST_USE ls_status ls_pipeline_create(const ls_pipeline_config *config, void *const *staging,
                                         ls_pipeline **out);
void ls_pipeline_destroy(ls_pipeline *pipeline); /* accepts NULL; joins the readers */

/* The next step's batch of `rank`; valid until released. Batches are released in the order in
 * which they were taken; up to `depth` may be held.
 * Blocks: until it is filled.   Errors: TIMEOUT, ABORTED, ARGUMENT (after the last step). */
LS_MUST_USE ls_status ls_pipeline_next(ls_pipeline *pipeline, int rank, ls_batch *out);
void ls_pipeline_release(ls_pipeline *pipeline, int rank);

/* Any thread, at any time; numbers of batches that are being filled come later. */
ls_input_counts ls_pipeline_counts(const ls_pipeline *pipeline);

/* Nanoseconds that `rank` has waited in ls_pipeline_next since the start. Any thread, any time. */
uint64_t ls_pipeline_waited_ns(const ls_pipeline *pipeline, int rank);

#endif
