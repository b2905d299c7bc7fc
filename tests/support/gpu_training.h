/* SPDX-License-Identifier: MIT */
/* gpu_training.h -- the program trains on virtual GPUs, a machine per run, beside host:1.
 *
 *     static work small = { .words = "digits-cnn --data ... --steps 3" };
 *     prepare(&small);                                     its bits, on host:1
 *     ... train(&small, "DEVICES=2", "--devices cuda")     on a machine of these settings
 *
 * The program is run as a user runs it (tests/vgpu/README.md). Runs are few steps of small batches,
 * because every instruction is interpreted. Main thread only: all functions assert.
 */
#ifndef TEST_SUPPORT_GPU_TRAINING_H
#define TEST_SUPPORT_GPU_TRAINING_H

#include "support/program.h"
#include "support/training.h"

enum { ARGUMENTS_BYTES = 1200 };

/* The digits without a test part: nothing to evaluate at the end. */
#define DIGITS_TRAIN "csv:src/data/digits.csv,header=no,test=none"

/* What is trained, but for the machine: `lockstep train <words> --out ...`. */
typedef struct {
    char words[700];
    program_run on_host; /* on host:1 */
} work;

/* A temporary folder for the life of a group of tests: its fixtures. */
extern training *files;
int make_files(void **state);
int remove_files(void **state);
const char *new_folder(void); /* name of one more, not made; valid as a path of training.h is */

/* Train on host:1, which must succeed, and keep what it said. */
void prepare(work *w);

/* Train `w` with further `options` on a machine of `settings`, without the LOCKSTEP_VGPU_. */
program_run train(const work *w, const char *settings, const char *options);

/* The run ended well, with the bits of `w` on host:1, and left nothing in the driver. */
void must_be_the_same(const work *w, const program_run *run, const char *what);

/* Runs that all must, up to one without settings. */
typedef struct {
    const char *settings, *options;
    const char *said; /* what the run must say besides, or NULL */
} variant;
void must_all_be_the_same(const work *w, const variant *v);

#endif
