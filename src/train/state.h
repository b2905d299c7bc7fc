/* SPDX-License-Identifier: MIT */
/* state.h -- what a checkpoint of a run means: tensors by name, and the run's place in time.
 *
 *   weights/<layer>/<name>           every parameter, in its own shape
 *   optimizer/<slot>/<layer>/<name>  momentum; m, v; square
 *   optimizer/ema/<layer>/<name>     with --ema: the moving average of the weights
 *   statistics/<layer>/<name>        batch normalisation's moving mean and variance
 *   scale/mean, scale/deviation      of data that are standardised: F64 [channels] (state_scale.h)
 *   __metadata__                     format, class, step, epoch, step_of_epoch, epoch_sums, guard,
 *                                    callbacks, best, last, world, data, data_identity, scale,
 *                                    model_name, model, config
 *
 * Nothing in it depends on how many replicas wrote it; `world` only tells who did.
 *
 * Thread rule: used by one thread at a time.
 */
#ifndef LS_TRAIN_STATE_H
#define LS_TRAIN_STATE_H

#include "io/checkpoint.h"
#include "train/callbacks.h"
#include "train/config.h"
#include "train/metrics.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/replica.h"

/* The bounds of a loss scale, which is a power of two. */
#define LS_LOSS_SCALE_LEAST 1.0
#define LS_LOSS_SCALE_MOST 0x1p24

/* How steps fared whose numbers may not be finite (guard.h). */
typedef struct {
    double loss_scale;         /* 1 but in class f16 */
    uint64_t clean_steps;      /* since it last changed */
    uint64_t failed_in_row;    /* up to now */
    uint64_t failed;           /* in all */
} ls_guard_state;

/* Where a run stands. Positions are normalised: a finished epoch is step 0 of the next. */
typedef struct {
    uint64_t step;             /* applied updates */
    uint64_t epoch;            /* 0-based */
    uint64_t step_of_epoch;    /* batches of this epoch that were consumed */
    ls_epoch_sums sums;        /* of this epoch so far */
    ls_guard_state guard;
    ls_callback_state callbacks;
    ls_history_line best;      /* epoch 0: none yet */
    ls_history_line last;      /* epoch 0: none yet */
} ls_progress;

/* The arenas of a run's state, in the order of its tensors: weights, the optimizer's slots, the
 * average of the weights. Pure. */
int ls_state_arena_count(const ls_config *config);

/* Everything of a run that is saved. All borrowed. */
typedef struct {
    const ls_config *config;   /* effective */
    const ls_model *model;
    const char *data, *data_identity, *numerics_class, *world;
    ls_scale_rule scale;       /* of the data */
    const ls_progress *progress;
    const float *arenas;       /* host memory: the state's arenas one after another */
    const float *statistics;   /* host memory */
} ls_run_state;

/* Refuses (NONFINITE, naming the tensor) to save a value that is not finite. Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_run_state_save(const char *path, const ls_run_state *state);

/* SHA-256 of the weights, of the optimizer's slots and of the statistics, as `show` prints them for
 * a checkpoint. */
typedef struct {
    char weights[65], optimizer[65], statistics[65];
} ls_run_digests;
LS_MUST_USE ls_status ls_run_state_sha256(const ls_run_state *state, ls_run_digests *out);

enum { LS_SAVED_MODEL, LS_SAVED_MODEL_NAME, LS_SAVED_DATA, LS_SAVED_IDENTITY, LS_SAVED_CLASS,
       LS_SAVED_WORLD, LS_SAVED_COUNT };

/* The text part of a checkpoint. */
typedef struct {
    ls_config config;
    char *text[LS_SAVED_COUNT]; /* owned */
    bool has_scale;             /* no: an earlier version wrote it */
    ls_scale_rule scale;        /* borrowed from the checkpoint: valid while that is open */
    ls_progress progress;
} ls_saved_run;

/* Errors: FORMAT; a file of weights alone is refused, and says that --init can use it. */
LS_MUST_USE ls_status ls_saved_run_init(ls_saved_run *saved, const ls_checkpoint *checkpoint,
                                        const char *path);
void ls_saved_run_free(ls_saved_run *saved); /* accepts all-zero */

/* All tensors of a run into the arenas of its state, which lie one after another, and into that of
 * its statistics. Strict: a missing, extra or misshapen tensor, or one with a value that is not
 * finite or cannot be (a variance below 0), is an error that lists names. */
LS_MUST_USE ls_status ls_run_state_load(const ls_checkpoint *checkpoint, const char *path,
                                        const ls_model *model, const ls_config *config,
                                        float *arenas, float *statistics);

/* Weights and statistics alone, as strict about them, without a look at the rest; `averaged`: the
 * weights' moving average in their place. */
LS_MUST_USE ls_status ls_run_weights_load(const ls_checkpoint *checkpoint, const char *path,
                                          const ls_model *model, bool averaged, float *weights,
                                          float *statistics);

/* Of the weights and statistics those alone whose names, as the model has them, match one of the
 * patterns `only` (pattern.h), as strict about them: each is in the file and in the model, and of
 * the same shape. The others' places are left as they are. */
LS_MUST_USE ls_status ls_run_weights_load_some(const ls_checkpoint *checkpoint, const char *path,
                                               const ls_model *model, const char *only,
                                               float *weights, float *statistics);

/* "f32/1 V=8 B=64 reduction=mean order=exact": the numerics class of a run. A model with batch
 * normalisation adds its mode and, where statistics are those of a pass, the number of passes. With
 * --order fast the ring's length is part of it, at the end. */
void ls_numerics_class(const ls_config *config, const ls_model *model, int world_size, char *out,
                       size_t bytes);

#endif
