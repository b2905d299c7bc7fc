/* SPDX-License-Identifier: MIT */
/* idle.h -- what a run was told and what does nothing in it. */
#ifndef LS_TRAIN_IDLE_H
#define LS_TRAIN_IDLE_H

#include "train/trainer.h"

/* Warn, by the observer's note, of options without an effect, of a warm-up that the run does not
 * see the end of, and of steps [first, last) whose rate is 0. `config` is checked and filled, its
 * schedule's length fixed. */
void ls_idle_tell(const ls_config *config, uint64_t first, uint64_t last,
                  const ls_observer *observer);

#endif
