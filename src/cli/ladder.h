/* SPDX-License-Identifier: MIT */
/* ladder.h -- what the rungs of `lockstep verify` share: runs with a record, and checks.
 *
 * A rung is a function of the ladder: it trains or evaluates, prints its paragraph, and leaves what
 * later rungs look at. verify.c climbs them in this order:
 *
 *     rung_bits.c    1  one replica: train, save, reload, evaluate
 *                    2  N replicas at the same global batch: every number, bit for bit
 *     rung_speed.c   3  where the time went, side by side
 *                    4  throughput over the repeated runs of each
 *     rung_batch.c   5  another training: a larger global batch, the rate scaled and warmed up
 *     rung_speed.c   6  the environment in which all this was measured
 *
 * Nothing is compared with a tolerance. A check that does not hold is counted and told; it stops no
 * climb. A signal does: the rung that sees it sets `stopped`.
 *
 * Thread rule: the main thread's; ls_train's observer writes a run's record while it trains.
 */
#ifndef LS_CLI_LADDER_H
#define LS_CLI_LADDER_H

#include <stdbool.h>
#include <stddef.h>

#include "train/trainer.h"

enum { LS_REPEAT_MAX = 100, LS_SCALE_BATCH_MAX = 1024 };

/* Everything that a run produced and that must not depend on the number of replicas. */
typedef struct {
    ls_train_result result;
    ls_history_line *epoch;      /* owned */
    double *step_loss;           /* owned */
    size_t epoch_count, step_count;
    size_t global_batch, samples; /* of an update; of the training part */
    uint64_t steps_per_epoch, warmup; /* updates */
    double highest_lr;           /* of its steps */
    int threads, shards;
    char kernels[16];
    bool is_short;               /* of memory for the records */
} ls_recorded_run;

typedef struct {
    ls_config config;            /* devices and out are set for each run */
    char one[32], many[LS_TEXT_BYTES]; /* --devices of the two sides */
    int world_size;
    bool is_host;
    int repeat;                  /* runs of each side that rung 4 times; the first are rungs 1, 2 */
    int scale_batch;             /* rung 5: times the global batch; 0: left out */
    char folder[LS_TEXT_BYTES / 2];
    int run_count;               /* so far: names their folders */
    int check_count, failed_count;
    char first_failure[256];
    ls_recorded_run of_one, of_many; /* owned: rungs 1 and 2 */
    ls_evaluation evaluation;    /* of rung 1 */
    bool stopped;                /* by a signal */
} ls_ladder;

/* Train as `config` says, but on `devices` and into a new folder of the ladder's. Sets `stopped`.
 * `run` must be freed also after an error. Errors: as ls_train. */
LS_MUST_USE ls_status ls_ladder_train(ls_ladder *ladder, const ls_config *config,
                                      const char *devices, ls_recorded_run *run);
void ls_recorded_run_free(ls_recorded_run *run); /* accepts all-zero */

/* One check of the ladder, a line of its own. */
void ls_ladder_check(ls_ladder *ladder, bool holds, const char *what);

/* The same losses, of all steps or of all epochs with their metrics. Pure. */
bool ls_recorded_same_steps(const ls_recorded_run *a, const ls_recorded_run *b);
bool ls_recorded_same_epochs(const ls_recorded_run *a, const ls_recorded_run *b);

/* Equal bits; NaNs too. Pure. */
bool ls_same_bits(double a, double b);
bool ls_same_metrics(const double *a, const double *b, int count);

typedef ls_status ls_rung(ls_ladder *ladder);
ls_rung ls_rung_one, ls_rung_many, ls_rung_times, ls_rung_throughput, ls_rung_batch,
    ls_rung_environment;

#endif
