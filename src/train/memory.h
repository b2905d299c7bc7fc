/* SPDX-License-Identifier: MIT */
/* memory.h -- how much memory a run takes, and whether it is there, before any of it is allocated.
 *
 * Measured, not computed: the run is opened on paper devices (device/paper.h) by the code that
 * opens the real one, so there is no second formula that could be wrong. What is measured is what
 * is asked for, and all of that is taken: on the host, too, it is written when it is allocated
 * (device/host.c).
 */
#ifndef LS_TRAIN_MEMORY_H
#define LS_TRAIN_MEMORY_H

#include "device/topology.h"
#include "train/replica.h"
#include "train/run.h"

/* What one rank takes. */
typedef struct {
    ls_replica_parts parts;
    size_t exchange; /* device memory of its links and ledgers */
    size_t device;   /* device memory: the parts and the exchange */
    size_t streams;  /* device memory that a GPU's streams take besides */
    size_t pinned;   /* host memory: batches under way, results */
} ls_rank_memory;

/* out[0 .. list->count - 1]. `config` is effective (ls_config_fill). `dataset` may be NULL, then
 * `data` says what is known of one, and pinned memory is without batches.
 * Errors: MEMORY, ARGUMENT, DEVICE (as opening the run has). */
LS_MUST_USE ls_status ls_memory_measure(const ls_config *config, const ls_model *model,
                                        const ls_dataset_info *data, const ls_dataset *dataset,
                                        const ls_device_list *list, ls_rank_memory *out);

/* The fullest of `count` ranks by device memory. Pure. */
const ls_rank_memory *ls_memory_fullest(const ls_rank_memory *rank, int count);

/* A part's name and bytes: part 0, 1 ... LS_MEMORY_PARTS - 1 of device memory. Pure. */
enum { LS_MEMORY_PARTS = 7 };
const char *ls_memory_part(const ls_rank_memory *rank, int part, size_t *bytes);

/* Does what a place needs fit? `place` is "host" or a GPU's name, `why` says what `room` is left
 * of. Errors: MEMORY, with what is needed, what is there, and what to change. */
LS_MUST_USE ls_status ls_memory_compare(const ls_config *config, const ls_model *model,
                                        const ls_rank_memory *fullest, const char *place,
                                        bool is_gpu, size_t needed, size_t room,
                                        const char *why);

/* Will a run whose devices are open fit on them, and into this machine? Errors: MEMORY, DEVICE. */
LS_MUST_USE ls_status ls_memory_check(ls_run *run);

#endif
