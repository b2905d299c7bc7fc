/* SPDX-License-Identifier: MIT */
/* batch_slot.h -- one rank's batch in staging memory: where its arrays lie, and what fills them.
 *
 *     x [samples, raw bytes] | labels or targets | weights | index      each from a multiple of 64
 *
 * Who fills which slot when, and how a slot gets from a reader to a rank, is pipeline.c's.
 *
 * Thread rule: a slot belongs to one thread at a time.
 */
#ifndef LS_IO_BATCH_SLOT_H
#define LS_IO_BATCH_SLOT_H

#include "io/pipeline.h"
#include "io/sample_cache.h"

/* Where the arrays of a slot begin, in bytes; the slot's own extent is `bytes`. */
typedef struct {
    size_t x, answer, weight, index, bytes;
} ls_slot_layout;

typedef struct {
    char *x;         /* [capacity, ls_dataset_raw_bytes] */
    int32_t *label;  /* [capacity] CLASSIFY, else NULL */
    float *target;   /* [capacity, outputs] REGRESS, else NULL */
    float *weight;   /* [capacity], or NULL: all 1 */
    uint32_t *index; /* [capacity] */
} ls_slot;

/* Of `rank`, with room for its largest batch. Pure. */
ls_slot_layout ls_slot_layout_of(const ls_pipeline_config *config, int rank);

/* The arrays of a slot whose memory begins at `base`. */
ls_slot ls_slot_at(const ls_pipeline_config *config, const ls_slot_layout *layout, void *base);

/* Samples of a global batch of `batch_samples` that `rank` owns. Pure. */
size_t ls_slot_samples(const ls_pipeline_config *config, int rank, size_t batch_samples);

/* Write what `rank` gets of a global batch: the samples order[0 .. batch_samples-1] of the training
 * part, as `epoch` sees them. Returns how many of them were read from the data set.
 *   cache     what has been read before, and takes what is read now; or NULL
 *   scratch   ls_augment_scratch_bytes, the caller's own */
size_t ls_slot_fill(const ls_pipeline_config *config, int rank, uint32_t epoch,
                    const uint32_t *order, size_t batch_samples, ls_sample_cache *cache,
                    void *scratch, const ls_slot *slot);

#endif
