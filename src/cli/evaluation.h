/* SPDX-License-Identifier: MIT */
/* evaluation.h -- what `eval` and `predict` do alike: a CHECKPOINT argument is evaluated. */
#ifndef LS_CLI_EVALUATION_H
#define LS_CLI_EVALUATION_H

#include "cli/options.h"
#include "train/trainer.h"

typedef struct {
    char checkpoint[LS_TEXT_BYTES * 2]; /* the file */
    char data[LS_TEXT_BYTES];           /* --data, or what it was trained on */
    ls_evaluation result;               /* the caller frees it */
} ls_evaluated;

/* "test" or "train": the part that was evaluated. */
const char *ls_evaluated_part(const ls_evaluated *evaluated);

/* The command's flags --part and --weights. */
enum { LS_EVALUATION_PART, LS_EVALUATION_WEIGHTS, LS_EVALUATION_FLAGS };
#define LS_EVALUATION_FLAG_LIST                                                                   \
    [LS_EVALUATION_PART] = { "part", "test|train", "which part of the data (default test)" },     \
    [LS_EVALUATION_WEIGHTS] = { "weights", "average|raw",                                         \
                                "of a run with --ema: their moving average (default), or as "     \
                                "they are" }

/* A note about the data goes to standard error. `out_path`: as the request's `out`. Errors: any. */
LS_MUST_USE ls_status ls_evaluate_argument(const ls_invocation *invocation, bool want_classes,
                                           bool want_rows, const char *out_path,
                                           ls_evaluated *out);

#endif
