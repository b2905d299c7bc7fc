/* SPDX-License-Identifier: MIT */
/* notes.h -- what a run says by the way, a line at a time, to its observer.
 *
 * Sentences about what a user should know and the logs tell only to who looks. Steps that are not
 * finite are told of the first, then when their count is a power of ten, and at the end; batches
 * without weight of the first. A run that continues tells of its own first again, and the count is
 * that of the whole run.
 *
 * Thread rule: ls_note_begin before the ranks start; the others in rank 0's thread.
 */
#ifndef LS_TRAIN_NOTES_H
#define LS_TRAIN_NOTES_H

#include "train/run.h"

/* Before the first step, which is `first`: what is odd in data, options and model, and what
 * --init-only took. */
void ls_note_begin(const ls_run *run, uint64_t first);

/* The learning rate has become smaller, as --plateau asked for. */
void ls_note_slower(const ls_rank *rank);

/* After a step: if it made no update, why, and which it was. */
void ls_note_step(ls_rank *rank);

/* The run is over. */
void ls_note_end(const ls_rank *rank);

#endif
