/* SPDX-License-Identifier: MIT */
/* run_folder.h -- the files of one run, other than its checkpoints.
 *
 *   config.txt         "name value" lines; `lockstep train --config` runs it again
 *   environment.json   the machine
 *   history.csv        an epoch a line, Keras' column names (run_log.h)
 *   log.jsonl          a step a line
 *   checkpoints/       last, best, step-N (checkpoint.h)
 *
 * Opening makes the folder, proves that it can be written before step 0, and keeps other processes
 * out until it is closed. On resume, lines of epochs and steps that come after the checkpoint's are
 * cut off, so that a resumed run's files are those of an undisturbed one: write a step's line
 * before the checkpoint that counts the step. A run that starts where it was perhaps started before
 * overwrites what a run leaves that was killed before its first checkpoint, and nothing else.
 *
 * Thread rule: used by one thread, rank 0's.
 */
#ifndef LS_IO_RUN_FOLDER_H
#define LS_IO_RUN_FOLDER_H

#include <stdint.h>

#include "io/run_log.h"
#include "status.h"

typedef struct ls_run_folder ls_run_folder;

typedef enum {
    LS_RUN_NEW,     /* the folder must be absent or empty */
    LS_RUN_AGAIN,   /* or hold no more than a run left that was killed before its first checkpoint:
                       --resume auto without a checkpoint */
    LS_RUN_CONTINUE /* it holds the checkpoint that continues */
} ls_run_start;

/* Open `path`. `done` is what the checkpoint counts that the run continues from, all 0 without one:
 * lines of more are cut off the logs by ls_run_folder_begin. Temporary files that a killed process
 * left in it are removed.
 * Errors: ARGUMENT (what is in the folder, and what to do), IO (cannot be made or written: why;
 * another process has it open), MEMORY. */
LS_MUST_USE ls_status ls_run_folder_open(const char *path, ls_run_start start,
                                         ls_run_done done, ls_run_folder **out);
void ls_run_folder_close(ls_run_folder *folder); /* accepts NULL */

/* "<folder>/checkpoints/<name>.safetensors"; owned by the folder, valid until the next call.
 * `name` has fewer than 64 bytes. */
const char *ls_run_folder_checkpoint(ls_run_folder *folder, const char *name);

/* Of the checkpoints step-N remove all but the `keep` with the largest N (0: none is removed).
 * Errors: IO. */
LS_MUST_USE ls_status ls_run_folder_keep(ls_run_folder *folder, uint64_t keep);

/* Replace "<folder>/<name>" by `text`, atomically. For config.txt and environment.json. */
LS_MUST_USE ls_status ls_run_folder_write(ls_run_folder *folder, const char *name,
                                          const char *text);

/* A step is to come: cut lines of what was not `done` off the logs. A run that continues and takes
 * none leaves them as they are: its last epoch's line may be of part of an epoch. Errors: IO. */
LS_MUST_USE ls_status ls_run_folder_begin(ls_run_folder *folder);

/* Append a line. The first of history.csv writes the names of the columns before it. */
LS_MUST_USE ls_status ls_run_folder_history(ls_run_folder *folder, const ls_history_line *line);
LS_MUST_USE ls_status ls_run_folder_log(ls_run_folder *folder, const ls_log_line *line);

#endif
