/* SPDX-License-Identifier: MIT */
/* state_text.h -- how state.c has a run's texts written beside its tensors.
 *
 * Internal to state.c; reading them back is ls_saved_run_init.
 */
#ifndef LS_TRAIN_STATE_TEXT_H
#define LS_TRAIN_STATE_TEXT_H

#include "train/state.h"

/* Write the checkpoint: `count` tensors, and the state's texts. Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_state_text_save(const char *path, const ls_run_state *state,
                                         const ls_saved_tensor *tensor, int count);

#endif
