/* SPDX-License-Identifier: MIT */
/* state_scale.h -- the scale of a run's data in its checkpoints.
 *
 *   __metadata__ `scale`                 "none", "divide 255", or "standard 1": with the unit
 *   scale/mean, scale/deviation          F64 [channels], of a standard scale
 *
 * Internal to train/. Checkpoints that were written before there was such a text
 * have none.
 */
#ifndef LS_TRAIN_STATE_SCALE_H
#define LS_TRAIN_STATE_SCALE_H

#include "train/state.h"

enum { LS_SCALE_TENSORS = 2, LS_SCALE_TEXT_BYTES = 48 };

/* The text. Pure. */
void ls_state_scale_text(const ls_scale_rule *scale, char out[LS_SCALE_TEXT_BYTES]);

/* The tensors; returns how many, 0 or LS_SCALE_TENSORS. Pure. */
int ls_state_scale_tensors(const ls_scale_rule *scale, ls_saved_tensor out[LS_SCALE_TENSORS]);

bool ls_state_scale_has(const char *tensor); /* is it the name of one of those? Pure. */

/* What the checkpoint holds of it, borrowed from there; *has is false if that is nothing.
 * Errors: FORMAT (what no run could have saved). */
LS_MUST_USE ls_status ls_state_scale_load(const ls_checkpoint *checkpoint, const char *path,
                                          ls_scale_rule *out, bool *has);

#endif
