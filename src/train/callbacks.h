/* SPDX-License-Identifier: MIT */
/* callbacks.h -- what the end of an epoch decides: which is the best, whether to stop, whether to
 * learn slower.
 *
 * All look at one column of history.csv, --monitor. Every rank decides from the same combined value
 * and holds the same state, which is part of every checkpoint: a run that was interrupted has
 * forgotten nothing. A NaN is never better than anything.
 *
 *   best             the first value, then every one that is strictly better; best.safetensors
 *   --early-stop P   an epoch that is not better than the stopper's best by more than --min-delta
 *                    waits; P such epochs in a row end the run
 *   --plateau P      likewise with --plateau-delta; P such epochs in a row multiply the schedule's
 *                    rate by --plateau-factor, not below --plateau-min; then --plateau-cooldown
 *                    epochs pass before waiting is counted again
 *
 * Only whole epochs wait. These are Keras' ModelCheckpoint, EarlyStopping and ReduceLROnPlateau.
 *
 * Pure.
 */
#ifndef LS_TRAIN_CALLBACKS_H
#define LS_TRAIN_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/config.h"
#include "train/metrics.h"

/* Values are NaN before the first epoch. */
typedef struct {
    double best;               /* of --monitor */
    double stop_best;          /* what --early-stop compares with */
    uint64_t stop_wait;        /* whole epochs in a row that were not better */
    double plateau_best;
    uint64_t plateau_wait, plateau_cooldown;
    double rate_factor;        /* of the schedule's learning rate */
} ls_callback_state;

ls_callback_state ls_callbacks_first(void);

/* The column that decides: --monitor, or val_loss where there is a test part, or loss. */
const char *ls_callbacks_monitor(const ls_config *config, bool has_test);

typedef struct {
    bool best;    /* this epoch is the best so far */
    bool slower;  /* the learning rate has been reduced */
} ls_callback_verdict;

/* The end of an epoch whose monitored column is `value`; `whole`: all its steps have been taken.
 * `rate`: the schedule's learning rate now. */
ls_callback_verdict ls_callbacks_epoch(ls_callback_state *state, const ls_config *config,
                                       const char *column, double value, bool whole, double rate);

/* Has --early-stop's patience run out? */
bool ls_callbacks_stops(const ls_callback_state *state, const ls_config *config);

/* The rate of an update for which the schedule says `rate`. */
double ls_callbacks_rate(const ls_callback_state *state, const ls_config *config, double rate);

#endif
