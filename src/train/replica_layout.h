/* SPDX-License-Identifier: MIT */
/* replica_layout.h -- a replica's memory is measured and carved. Internal to replica.c. */
#ifndef LS_TRAIN_REPLICA_LAYOUT_H
#define LS_TRAIN_REPLICA_LAYOUT_H

#include "train/replica.h"

/* Rows of the largest pass of this rank, in training or evaluation. Pure. */
size_t ls_replica_capacity(const ls_replica_config *config, int rank);

/* Bytes of the table that says what a byte of a sample becomes: [channels, 256]. Pure. */
size_t ls_replica_table_bytes(const ls_replica_config *config);

/* Give every array of device memory its place from `base` on; NULL: only count. `piece_count` of
 * gradients. The replica's rank, config, gradient plan and host arrays are there. Returns the bytes
 * and leaves what they are for in `parts`. */
size_t ls_replica_layout(ls_replica *replica, char *base, int piece_count);

/* Places of the results one after another, on either side of the read-back copy. Returns the
 * bytes. */
size_t ls_results_layout(ls_results *results, const ls_replica_config *config, char *base);

#endif
