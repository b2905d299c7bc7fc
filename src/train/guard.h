/* SPDX-License-Identifier: MIT */
/* guard.h -- what a step does whose numbers are not finite, and the loss scale of class f16.
 *
 * A step is tested four times, on numbers that all ranks have alike, so all decide alike: its loss,
 * the reduced gradient, what the moving statistics would become, and the length of the update.
 * --nonfinite says what follows a step that fails:
 *
 *   stop      the run ends, and names what was not finite first
 *   skip      no update; weights, slots and statistics stay as they were. Not possible after an
 *             update, which ends the run
 *   rollback  as skip, and every replica goes back to the copy that it keeps of the state after the
 *             last good step: of use where the weights themselves have gone bad
 *
 * With skip and rollback a step that failed has consumed its samples, has not counted as an update,
 * and its loss does not enter the epoch's. After LS_GUARD_PATIENCE such steps in a row the run ends
 * as with stop.
 *
 * Class f16 multiplies the loss's gradient by a scale, so that small gradients of activations do
 * not vanish in 16 bits, and divides the reduced gradient by it. It starts at 2^15, is doubled
 * after LS_SCALE_CLEAN_STEPS good steps and halved by a step that fails, which is skipped whatever
 * --nonfinite says: too large a scale is how such a step is expected to come about. It stays within
 * [1, 2^24]. (P. Micikevicius et al., "Mixed Precision Training", ICLR 2018.)
 */
#ifndef LS_TRAIN_GUARD_H
#define LS_TRAIN_GUARD_H

#include "train/run.h"

enum { LS_GUARD_PATIENCE = 100, LS_SCALE_CLEAN_STEPS = 2000 };

/* The scale of a run's first step: 2^15 in class f16, else 1. Pure. */
double ls_first_loss_scale(ls_precision precision);

/* Before a step's passes: the replica works with the run's loss scale. */
void ls_guard_begin(ls_rank *rank);

/* Does any step that fails end the run? Then it does not matter what an update made of the weights
 * before the failure was seen: nobody looks at them again. Pure. */
bool ls_guard_stops(const ls_config *config);

/* Something of this step is not finite. True: the step counts as failed, and the run goes on;
 * false: it is to end. */
bool ls_guard_tolerates(ls_rank *rank);

/* nonfinite.c: the loss of this step is not finite. LS_OK: tolerated.
 * Collective. Errors: NONFINITE, naming the weight in which it began, or layer and record, or the
 * record whose loss it is: the same for any number of ranks and of passes. */
LS_MUST_USE ls_status ls_nonfinite_loss(ls_rank *rank);

/* nonfinite.c: have the device look at the moving statistics that this step would commit; what it
 * finds comes with the results. Async: on the compute stream. */
LS_MUST_USE ls_status ls_nonfinite_look(ls_rank *rank);

/* nonfinite.c: are the gradient and those statistics finite, as the results that were read last
 * tell of them? Asked before the update; where a failure ends the run (ls_guard_stops), perhaps
 * right after it. LS_OK: they are, or the failure is tolerated.
 * Errors: NONFINITE, naming tensor and element. */
LS_MUST_USE ls_status ls_nonfinite_check(ls_rank *rank);

/* After a good update: keep a copy of the state, if the run is one that goes back. */
LS_MUST_USE ls_status ls_guard_keep(ls_rank *rank);

/* In place of an update: forget what the step did to the statistics, and go back to the copy. */
LS_MUST_USE ls_status ls_guard_undo(ls_rank *rank);

/* The step is over: the loss scale and the count of failures in a row move on. */
void ls_guard_end(ls_rank *rank);

#endif
