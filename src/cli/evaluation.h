/* SPDX-License-Identifier: MIT */
/* evaluation.h -- what `eval` and `predict` do alike: a CHECKPOINT argument is evaluated. */
#ifndef LS_CLI_EVALUATION_H
#define LS_CLI_EVALUATION_H

#include "cli/options.h"
#include "train/trainer.h"

typedef struct {
    char checkpoint[LS_TEXT_BYTES * 2]; /* the file */
    char data[LS_TEXT_BYTES];           /* --data, or what it was trained on */
    bool train_part;                    /* --part train */
    ls_config stored;                   /* the checkpoint's */
    ls_evaluation result;
} ls_evaluated;

/* `part_flag`: the command's flag --part. rows, columns: as ls_evaluate. A note about the data goes
 * to standard error. Errors: any. */
LS_MUST_USE ls_status ls_evaluate_argument(const ls_invocation *invocation, int part_flag,
                                           ls_evaluated *out, float **rows, size_t *columns);

#endif
