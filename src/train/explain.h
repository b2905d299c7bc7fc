/* SPDX-License-Identifier: MIT */
/* explain.h -- --explain-step K: the arithmetic of one step, retold with its numbers.
 *
 * After the sums of step K are combined and before they are divided, every rank runs each of its
 * shards alone and keeps one gradient: that of the element of the first kernel whose combined
 * gradient is largest. A shard's sum does not depend on what else a pass holds, so these are the
 * very numbers that were combined; the page folds them again and shows that they give the same sum.
 * Batch normalisation meets the statistics of the shard's whole pass again (normalize.h).
 */
#ifndef LS_TRAIN_EXPLAIN_H
#define LS_TRAIN_EXPLAIN_H

#include "train/run.h"

/* Shared by the ranks: each writes its own shards' entries, rank 0 the rest. */
typedef struct ls_explanation {
    int parameter;                       /* index into model.parameter */
    size_t element;                      /* of that parameter */
    ls_shard_sum row[LS_SHARD_MAX];
    float shard_gradient[LS_SHARD_MAX];  /* sum over the shard's samples */
    float reduced;                       /* the combined sum */
    float before, after;                 /* the weight */
    float *saved;                        /* owned; [world size, arena] combined sums meanwhile */
} ls_explanation;

LS_MUST_USE ls_status ls_explanation_create(ls_run *run);
void ls_explanation_free(ls_explanation *explanation); /* accepts NULL */

/* Between the reduction and the division. Collective. Blocks. */
LS_MUST_USE ls_status ls_explain_begin(ls_rank *rank);

/* After the update: tell the observer. Collective. Blocks. */
LS_MUST_USE ls_status ls_explain_end(ls_rank *rank);

#endif
