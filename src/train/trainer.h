/* SPDX-License-Identifier: MIT */
/* trainer.h -- one run: train, evaluate, predict. What the command line calls.
 *
 * ls_train opens data and model, devices and links, starts a thread per replica and takes
 * synchronous steps until the run is done, stopped or broken. It prints nothing: an observer is
 * told what happens and decides what to show.
 *
 * Thread rule: called from the main thread. Observer functions are called on rank 0's thread (plan:
 * on the caller's), one at a time.
 */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/run_folder.h"
#include "train/config.h"
#include "train/model.h"

/* All that is decided before step 0; valid during the call. */
typedef struct {
    const ls_config *config;          /* effective: every default filled in */
    const ls_model *model;
    const ls_dataset *dataset;
    const ls_device_list *devices;
    char *const *device_name;         /* [world size] */
    const ls_topology *topology;
    const char *kernels;              /* "avx512" */
    const char *numerics_class;       /* the text stored in checkpoints */
    const char *algorithm;            /* "ring: host devices" */
    const char *schedule;             /* ls_schedule_describe's */
    const char *resume;               /* "" or the line that says what continues */
    int world_size, threads, bucket_count;
    const ls_cores *cores;            /* replica r's threads stay on [r * threads, (r + 1) *
                                         threads) of these; NULL: the system places them */
    size_t global_batch;
    uint64_t steps_per_epoch, first_step, last_step; /* applied updates before and after this run */
    bool nothing_to_do;               /* continued, and as many steps or epochs had been done */
    size_t device_bytes;              /* memory of the fullest replica */
    const char *out;                  /* run folder */
} ls_train_plan;

/* After each step, on rank 0. */
typedef struct {
    uint64_t epoch, epochs;           /* 1-based; epochs 0 if the run is counted in steps */
    uint64_t step_of_epoch, steps_per_epoch; /* 1-based */
    double epoch_loss, epoch_metric;  /* over the epoch so far */
    const char *metric_name;          /* "accuracy", "mae" */
    double seconds;                   /* of this epoch so far */
    const ls_log_line *line;
} ls_step_report;

typedef void ls_stuck_fn(void);

typedef struct {
    void (*plan)(void *context, const ls_train_plan *plan);
    void (*step)(void *context, const ls_step_report *report);
    void (*epoch)(void *context, const ls_history_line *line, uint64_t epochs);
    void (*explain)(void *context, const char *text); /* --explain-step's page */
    void (*note)(void *context, const char *text);    /* a warning or a line worth reading */
    bool (*should_stop)(void *context);               /* polled by rank 0 after every step */
    /* How rank `rank`'s device is opened; NULL: as --devices says. Tests give devices that fail. A
     * device that comes with kernels keeps them. */
    ls_status (*open_device)(void *context, int rank, int threads, atomic_ulong *progress,
                             ls_device **out);
    /* Some thread answers no abort and holds memory that cannot be freed: must write ls_last_error
     * and end the process with code 5. */
    ls_stuck_fn *stuck;
    void *context;
} ls_observer; /* any function but `stuck` may be NULL */

/* Where rank 0's time went, seconds; they sum to the steps' time. */
typedef struct {
    double input_wait, copy, forward, backward, exchange, update, steps, evaluation, saving;
} ls_time_split;

/* How the input kept up with the steps. */
typedef struct {
    int readers, depth;               /* reader threads; batches that they read ahead */
    double ready;                     /* batches that were ready when a step asked, on average */
    double reader_seconds;            /* in which readers were at work, all added up */
    uint64_t bytes;                   /* of samples that they read */
    double waited;                    /* seconds without input, of the rank that waited longest */
} ls_input_summary;

typedef struct {
    uint64_t epochs, steps;           /* done in all, earlier runs included */
    uint64_t step_of_epoch, steps_per_epoch; /* done of the next epoch, of how many */
    ls_history_line last, best;       /* best as --monitor says; epoch 0: none */
    uint64_t samples;                 /* trained in this run */
    double seconds, samples_per_second; /* of training steps alone */
    ls_time_split time;
    ls_input_summary input;
    char weights_sha256[65], optimizer_sha256[65], statistics_sha256[65]; /* or "" */
    char checkpoint[1200];            /* last.safetensors; "" if none was written */
    bool reached_until, stopped_by_signal, stopped_early, out_of_time;
    bool restored_best;               /* weights, statistics and checkpoint are the best epoch's */
} ls_train_result;

/* Errors: any class; the first cause. On failure nothing that was saved is lost. */
LS_MUST_USE ls_status ls_train(const ls_config *config, const ls_observer *observer,
                               ls_train_result *result);

/* What to evaluate, on what. */
typedef struct {
    const char *checkpoint, *data, *devices;
    int threads;                      /* of each device; 0: auto */
    double timeout_s;
    bool train_part;                  /* the training part, also if there is a test part */
    bool test_part;                   /* the test part, and no other if there is none */
    bool raw_weights;                 /* the weights, not their moving average */
    const char *metrics;              /* as --metrics; NULL: those of the run */
    bool want_classes, want_rows,     /* arrays of the result; without them it owns nothing */
        want_warnings;
    const char *out;                  /* where the results will be written: no file of the data; or
                                         NULL */
    ls_stuck_fn *stuck;               /* as the observer's */
} ls_evaluation_request;

typedef struct {
    bool is_train_part;               /* of the data; else the test part */
    size_t samples;
    double loss;
    int metric_count;
    char metric_name[LS_METRIC_MAX][LS_METRIC_NAME_BYTES];
    double metric[LS_METRIC_MAX];
    char data_note[2 * LS_TEXT_BYTES + 512]; /* "" or that the data differ from those trained on,
                                         and whose scale they were given; one line */
    char *warnings;                   /* owned: a line per warning of how the data were read
                                         (ls_dataset_reading_warnings), and of results that are not
                                         finite; "" if there is none, NULL unless wanted */
    size_t classes;                   /* that labels and predictions are below; 0: numbers */
    int32_t *label, *predicted;       /* owned, [samples]; NULL for numbers, or unless wanted;
                                         label also where the data have no answers */
    size_t named;                     /* classes that have a name; 0: the data have no names */
    char *class_names;                /* owned: these names, one after another, each with its
                                         zero byte; NULL if there are none, or unless wanted */
    float *rows;                      /* owned, [samples, columns] probabilities or predictions:
                                         what predict prints; NULL unless wanted */
    size_t *place;                    /* owned, [samples] where a sample lies in its part of the
                                         data (ls_dataset_place); NULL unless rows are wanted */
    float *target;                    /* owned, [samples, columns] what the predictions should be;
                                         NULL for classes, for data without answers, or unless
                                         rows are wanted */
    size_t columns;
} ls_evaluation;

/* Evaluate a checkpoint on the test part of `data` (the training part if there is no test part),
 * scaled as the training run's were unless its spec names another scale,
 * with the moving average of its weights where it holds one. Samples are not weighted. The same
 * bits for any N, batch and thread count. */
LS_MUST_USE ls_status ls_evaluate(const ls_evaluation_request *request, ls_evaluation *result);
void ls_evaluation_free(ls_evaluation *evaluation); /* accepts all-zero */

/* Class `label`'s name, or NULL where it has none or none is wanted. Pure. */
const char *ls_evaluation_class_name(const ls_evaluation *evaluation, size_t label);

/* The configuration stored in a checkpoint. Errors: FORMAT. */
LS_MUST_USE ls_status ls_checkpoint_config(const char *checkpoint, ls_config *config);

/* The file that a checkpoint's FILE or a run's DIR means: itself, or the folder's last one; it need
 * not be a checkpoint. Errors: FORMAT (DIR has none). */
LS_MUST_USE ls_status ls_checkpoint_find(const char *argument, char *path, size_t bytes);

#endif
