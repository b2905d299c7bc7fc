/* SPDX-License-Identifier: MIT */
/* training.h -- whole runs, small and remembered: what the tests of the trainer are made of.
 *
 *     training *t = training_create();               a temporary folder, defaults, a record
 *     training_write(t, "data.csv", "1,0\n2,0\n");    files in it
 *     training_set(t, "devices", "host:4");          options, by name
 *     training_run(t);                               LS_OK or the run's error; losses in t->loss
 *     training_destroy(t);                           removes the folder
 *
 * Every run writes to a new folder below the temporary one unless `out` or `resume` is set.
 */
#ifndef TEST_SUPPORT_TRAINING_H
#define TEST_SUPPORT_TRAINING_H

#include <stdbool.h>

#include "train/trainer.h"

enum { TRAINING_STEPS_MAX = 4096, TRAINING_EPOCHS_MAX = 64 };

typedef struct {
    char folder[256];
    ls_config config;
    ls_observer observer;
    /* of the latest run */
    int step_count, epoch_count;
    ls_log_line step[TRAINING_STEPS_MAX];
    ls_history_line epoch[TRAINING_EPOCHS_MAX];
    char explanation[16384], resume[512];
    ls_train_result result;
    uint64_t stop_after;   /* observer asks to stop after this step; 0: never */
    int runs;
} training;

training *training_create(void);
void training_destroy(training *t);

/* Path of `name` in the folder; valid until 8 further calls. */
const char *training_path(training *t, const char *name);
void training_write(training *t, const char *name, const char *text);

/* Set an option; a malformed one ends the test program. */
void training_set(training *t, const char *name, const char *value);
/* Back to the defaults, but for model and data. */
void training_reset(training *t);

ls_status training_run(training *t);

/* Run, and end the program with the error's text if it failed. */
void training_must_run(training *t);

/* A checkpoint named `name` in the folder with one tensor "weights/<tensor>" [out, in]; its
 * path. */
const char *training_weights(training *t, const char *name, const char *tensor, size_t out,
                             size_t in, const float *values);

/* A checkpoint named `name` in the folder with all weights and moving statistics of a model, from
 * arenas as model.h lays them out: what `init` takes. Its path. */
const char *training_start(training *t, const char *name, const ls_model *model,
                           const float *weights, const float *statistics);

/* An ls_stuck_fn: writes the error to stderr and ends the process with code 5. */
void training_stuck(void);

/* Path of a file of the latest run's folder, "history.csv"; valid until the next call. */
const char *training_run_file(const training *t, const char *name);

/* Tensor `tensor` of the latest run's last checkpoint, copied to x[count]. */
void training_tensor(training *t, const char *tensor, float *x, size_t count);

/* TINY: an MLP 4-8-3 on 37 lines, batch 8: five steps an epoch, the last with five samples; nine
 * lines are its test part. */
#define TRAINING_TINY_MODEL "input 4\ndense 8 relu\ndense 3\nloss softmax-crossentropy\n"
training *training_tiny(void);

/* LIN1: prediction w x, squared error, from w = 1, on `lines` of "x,y"; plain SGD. And its w. */
training *training_linear(const char *lines);
float training_linear_weight(training *t);

/* `count` records of synthetic pictures as data_batch_1.bin in the folder, in the layout of
 * CIFAR-10: noise on a brightness that tells the class, from Philox words
 * (tests/golden/make_golden.py makes the same). Returns the `cifar10:` spec; valid as a path is. */
const char *training_pictures(training *t, uint32_t count);

/* The bits of a run: what may not differ, however its work was shared out. */
typedef struct {
    char weights[65], optimizer[65], statistics[65];
    int step_count;
    double loss[TRAINING_STEPS_MAX], val_loss;
} training_bits;

void training_remember(const training *t, training_bits *bits);

/* Has the latest run the same bits? A resumed run is compared with the last steps. If not, says
 * on stderr where it differs; `what` names the run. */
bool training_same(const training *t, const training_bits *bits, const char *what);

/* `count` lines of `fields` numbers and a class below `classes`, from Philox, as CSV. The class
 * depends on the numbers, so it can be learned. The caller frees it. */
char *training_table(uint64_t seed, size_t count, size_t fields, size_t classes);

#endif
