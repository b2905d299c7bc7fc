/* SPDX-License-Identifier: MIT */
/* run_files.h -- a run's folder, in the folder of a test (command.h), and looks into its files.
 *
 *     write_run();                                        3 epochs of 2 steps, finished
 *     ls_run_folder_close(open_run(LS_RUN_CONTINUE, 1, 2));   go on after epoch 1
 *     assert_int_equal(line_count(RUN "/log.jsonl"), 2);
 *
 * Main thread only: all functions end the test if something is not as they expect.
 */
#ifndef TEST_SUPPORT_RUN_FILES_H
#define TEST_SUPPORT_RUN_FILES_H

#include "io/run_folder.h"

#define RUN "runs/one"

/* history.csv of epoch1: its first line, and its second. */
#define NAMES "epoch,step,lr,loss,accuracy,val_loss,val_accuracy,seconds,samples_per_second\n"
#define LINE1 "1,45,0.001,0.5,0.9,0.25,0.95,1.5,960\n"
extern const ls_history_line epoch1;

/* What log.jsonl gets of a step; every step has an update. */
ls_log_line log_line(uint64_t epoch, uint64_t step);

void make_empty_run(void); /* the folder, with nothing in it */
void write_run(void);
void write_steps(ls_run_folder *folder, uint64_t first); /* of them, to the last */

/* RUN, `epochs` and `steps` of it done, its logs cut after them. */
ls_run_folder *open_run(ls_run_start start, uint64_t epochs, uint64_t steps);

/* A run cannot begin there: this status, and a message with this part. */
void assert_run_refused(const char *path, ls_run_start start, ls_status want, const char *part);

const char *text_of(const char *path); /* valid until the next call */
int line_count(const char *path);

#endif
