/* SPDX-License-Identifier: MIT */
/* report.h -- the page before a run, and the page after it.
 *
 * The first says everything that was decided before step 0 and why; the second what came out, where
 * the time went, and what to type next.
 */
#ifndef LS_CLI_REPORT_H
#define LS_CLI_REPORT_H

#include <stdio.h>

#include "train/trainer.h"

void ls_report_plan(FILE *out, const ls_train_plan *plan);

/* `program` (how this one was called) and `config` (the effective one) are for the commands that
 * evaluate the run and continue it. */
void ls_report_result(FILE *out, const char *program, const ls_config *config,
                      const ls_train_result *result);

/* One indented line per part of the steps' time: seconds and share. */
void ls_report_time(FILE *out, const ls_time_split *time);

/* "global 128 = 2 x 64", or "global 37 = 12 + 12 + 13": who takes how many, by the shards. */
enum { LS_SPLIT_BYTES = 512 };
void ls_batch_split(size_t global_batch, int shards, int world_size, char out[LS_SPLIT_BYTES]);

#endif
