/* SPDX-License-Identifier: MIT */
/* feed.h -- input pipelines over four small data sets, and whether a batch is the one it should be.
 *
 *     feed f;
 *     feed_create(&f, feed_config(feed_digits, 128, 3));    batches of 128, for 3 ranks
 *     feed_take_all(&f);
 *     feed_destroy(&f);
 */
#ifndef TEST_SUPPORT_FEED_H
#define TEST_SUPPORT_FEED_H

#include "io/pipeline.h"
#include "kernels/fold.h"

/* Opened and closed by a group's fixtures. */
extern ls_dataset *feed_digits;   /* classification, 1438 samples */
extern ls_dataset *feed_small;    /* regression, 16 samples, 2 targets */
extern ls_dataset *feed_wide;     /* regression, 21 samples of 30 numbers, 2 targets */
extern ls_dataset *feed_pictures; /* classification, 53 images of 5x3 bytes */
int open_feed_data(void **state);
int close_feed_data(void **state);

/* A pipeline and its staging. */
typedef struct {
    ls_pipeline_config config;
    void *staging[LS_SHARD_MAX];
    ls_pipeline *pipeline;
} feed;

/* 30 steps, 8 shards, 2 readers, 2 slots, shuffled. */
ls_pipeline_config feed_config(const ls_dataset *dataset, size_t global_batch, int world_size);

/* With staging that has been spoilt. Main thread only. */
void feed_create(feed *f, ls_pipeline_config config);
void feed_destroy(feed *f);

/* Do the batch's arrays hold the samples that its index names? */
bool feed_rows_match(const ls_pipeline_config *config, const ls_batch *batch);

/* Is the batch what fold.h plans for this rank, of the order of its epoch? */
bool feed_is_planned(const ls_pipeline_config *config, int rank, const ls_batch *batch);

/* Take every batch of every rank; all must be planned ones. Main thread only. */
void feed_take_all(feed *f);

#endif
