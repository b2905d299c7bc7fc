/* SPDX-License-Identifier: MIT */
/* row_merge.h -- the canonical tree over the shards' rows of statistics, as a list of steps.
 *
 * Statistics are merged pair by pair in the tree, and a shard without values is left out
 * (batchnorm.h). Which pairs meet, and with what factors, depends on the counts alone and is the
 * same for all channels; so it is computed once, and a kernel follows it with a stack:
 *
 *     for each row of the list: push row[i];
 *                               adds[i] times: b = pop, a = pop, push the merge of a and b
 *
 * The j-th merge of all has the factors fraction[j] and weight[j]. One entry is left, or, without
 * rows, none.
 *
 * Pure: nothing here touches data.
 */
#ifndef LS_KERNELS_ROW_MERGE_H
#define LS_KERNELS_ROW_MERGE_H

#include <stddef.h>

#include "numerics.h"

enum { LS_ROW_MERGE_DEPTH = 7 }; /* entries of the stack: log2(LS_SHARD_MAX) + 1 */

typedef struct {
    int row_count;                     /* shards with values */
    float total;                       /* values of all of them */
    float n[LS_SHARD_MAX];             /* [row_count] values of each */
    float fraction[LS_SHARD_MAX];      /* [row_count - 1] nb / (na + nb) */
    float weight[LS_SHARD_MAX];        /* [row_count - 1] na * fraction */
    unsigned char row[LS_SHARD_MAX];   /* [row_count] the shards' numbers, ascending */
    unsigned char adds[LS_SHARD_MAX];  /* [row_count] */
} ls_row_merge;

/* The steps for 1 <= shard_count <= LS_SHARD_MAX shards, n[s] values each. */
void ls_row_merge_init(ls_row_merge *merge, int shard_count, const size_t *n);

#endif
