/* SPDX-License-Identifier: MIT */
/* run.h -- what one training run consists of, and what each of its ranks carries.
 *
 * Internal to train/: trainer.c builds and frees a run, folder.c finds its folder and best.c the
 * file of its best epoch, machine.c makes what it runs on, memory.c looks whether that fits, rank.c
 * lives through it, step.c takes one step, guard.c sees to steps that are not finite and
 * nonfinite.c says where they are not, compare.c compares the replicas, explain.c retells a
 * step, input.c watches the readers, notes.c says what is worth a line.
 *
 * Thread rule: an ls_run is written before the ranks start and read-only while they run, but for
 * the fields that say otherwise. An ls_rank belongs to its thread.
 */
#ifndef LS_TRAIN_RUN_H
#define LS_TRAIN_RUN_H

#include "collectives/all_reduce.h"
#include "collectives/bucket.h"
#include "device/topology.h"
#include "io/pipeline.h"
#include "io/run_folder.h"
#include "train/evaluate.h"
#include "train/optimizer.h"
#include "train/replica.h"
#include "train/state.h"
#include "train/trainer.h"

typedef struct ls_run ls_run;

enum { LS_PIPELINE_DEPTH = 3 }; /* batches of a rank that are read ahead */

/* The numbers of one step, equal on every rank. */
typedef struct {
    ls_shard_sum totals;          /* of the global batch */
    double denominator;           /* D of docs/semantics.md */
    float scale;                  /* of the gradient's sums: 1 / (D * loss scale) */
    double data_loss, regularizer, loss; /* loss is the sum of the two */
    double lr;                    /* of this step */
    double grad_norm;             /* L2 over the trained parameters, before clipping */
    double update_norm;           /* L2, over all parameters */
    uint64_t digest;              /* of the weights after the update */
    uint64_t sums_digest;         /* of the reduced sums that the update was made of; 0 where it
                                     does not tell (step.c), or there was none */
    bool failed;                  /* not finite, and tolerated (guard.h) */
    bool skipped;                 /* there is no update: it failed, or D is 0 */
} ls_step_numbers;

/* What has been seen of the input (input.c). */
typedef struct {
    ls_input_counts counts;       /* at the end of the last step */
    uint64_t epoch_waited_ns[LS_WORLD_MAX]; /* of each rank, at the end of the last epoch */
    uint64_t ready, steps;        /* batches that were ready, added up over so many steps */
} ls_input_notes;

/* A rank's events behind those of its buckets: for the shards' sums, for rows of batch
 * normalisation. */
enum { LS_EVENT_SUMS, LS_EVENT_NORMALIZE, LS_EVENTS_OF_ROWS };

typedef struct {
    ls_run *run;
    int rank;
    ls_device *device;            /* owned by the run */
    ls_replica replica;
    ls_evaluation_staging staging;
    int bad_layer;                /* nonfinite.c: the first of this rank's outputs that is not
                                     finite, after the last layer the loss, or -1; other ranks
                                     read it after a barrier */
    ls_event *ready, *done;       /* owned; [bucket_count + LS_EVENTS_OF_ROWS] */
    void *batch_memory;           /* owned, pinned: the pipeline's slots */
    ls_progress progress;         /* equal on every rank */
    ls_optimizer_state optimizer;
    ls_step_numbers numbers;
    int next_bucket;              /* of this step: the first that has not been exchanged */
    bool stop;                    /* shared decision: finish after this step */
    bool reached;                 /* --until holds */
    bool stopped_early;           /* --early-stop has run out of patience */
    bool out_of_time;             /* rank 0: --time-limit is why `stop` is set */
    uint64_t weightless;          /* steps in a row, in this run, in which D was 0 */
    bool has_saved;               /* rank 0: a checkpoint, in this run */
    bool told_skipped;            /* that batches without weight are skipped has been said */
    bool told_failed;             /* that a step was not finite has been said */
    double epoch_seconds;         /* of steps of this epoch, in this run */
    uint64_t epoch_samples, samples; /* trained in this epoch, and in all, in this run */
    ls_log_line line;             /* this step's seconds, and what log.jsonl gets */
    ls_time_split time;
    ls_input_notes input;         /* rank 0's */
} ls_rank;

struct ls_run {
    ls_config config;             /* effective */
    ls_metric_list metrics;
    float *class_weight;          /* owned; [classes] or NULL: all 1 */
    ls_model model;
    bool model_given;             /* the user named one; false: the checkpoint's */
    ls_dataset *dataset;
    ls_device_list list;
    int world_size, threads;
    ls_cores cores;               /* of the process */
    bool stays;                   /* each replica's threads stay on cores of their own */
    ls_topology topology;
    ls_group *group;
    ls_comm *comm;
    ls_pipeline *pipeline;
    ls_parameter_rule *rule;      /* owned; [parameters] */
    ls_replica_config replica_config;
    ls_rank *rank;                /* owned; [world_size] */
    ls_bucket *bucket;            /* owned; [bucket_count] */
    int bucket_count;
    uint64_t steps_per_epoch, last_step;
    ls_evaluation_job test;       /* count 0: no test part */
    float *arena_host;            /* owned; rank 0's copies of the state's arenas (state.h) */
    float *statistics_host;       /* owned; rank 0's copy of the moving statistics */
    float **diverged;             /* owned; [world_size] written when replicas disagree */
    ls_run_folder *folder;
    const char *monitor;          /* the column that decides (callbacks.h) */
    double begin;                 /* ls_clock when the run was opened */
    const ls_observer *observer;
    ls_train_result *result;
    bool nothing_to_do;           /* continued, and what is asked for had been done */
    char best_lost[800];          /* continued, and why the best epoch's file is not there; or "" */
    char init_scale[LS_SCALE_NAME_BYTES]; /* that of the data --init's weights were trained on, if
                                     only one of it and this run's is standard; or "" */
    char numerics_class[128], world[64], schedule[128], resume_line[512], resume_path[1200];
    struct ls_explanation *explanation; /* owned; NULL unless --explain-step */
};

/* machine.c: open devices, links, replicas and pipeline of a run whose configuration, data, model
 * and steps are decided; `start` is where its batches begin. After an error what was made is freed
 * by ls_machine_close, as after success. Errors: MEMORY, DEVICE, ARGUMENT. */
LS_MUST_USE ls_status ls_machine_open(ls_run *run, const ls_progress *start);

/* machine.c: only what takes memory on the way: for a run on paper (memory.c), which may have no
 * data set, only what is known of one. Errors and closing: as ls_machine_open. */
LS_MUST_USE ls_status ls_machine_open_memory(ls_run *run, const ls_dataset_info *data);

/* machine.c: the calling thread works for `rank`: from now on on that replica's cores, if they
 * stay. */
void ls_machine_enter(const ls_run *run, int rank);

void ls_machine_close(ls_run *run); /* accepts one of which nothing was opened */

/* machine.c: after a failure, may memory be freed? Not while a device may still write into it.
 * Blocks: a second per stream at most. */
bool ls_machine_is_drained(ls_run *run);

/* first_weights.c: what a new run begins with: weights and statistics as the model and the seed
 * say, or those of --init, or of some tensors; writes init_scale. Errors: FORMAT, IO, MEMORY;
 * ARGUMENT (--init-only has a pattern that no tensor matches, with the nearest name). */
LS_MUST_USE ls_status ls_first_weights(ls_run *run);

/* folder.c: choose and open the run folder (config.out says which it is), in a run that continues
 * from `start` as it was then; `resumed` is the checkpoint that says so, or NULL.
 * Errors: ARGUMENT, IO, FORMAT, MEMORY. */
LS_MUST_USE ls_status ls_folder_open(ls_run *run, const ls_progress *start,
                                     const ls_checkpoint *resumed);

/* folder.c: write config.txt and environment.json; in a folder where there is nothing to do they
 * stay. Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_folder_describe(const ls_run *run);

/* step.c: one synchronous update. Collective. */
LS_MUST_USE ls_status ls_step_take(ls_rank *rank);

/* step.c: ls_row_exchange's gather; the context is the ls_rank. */
LS_MUST_USE ls_status ls_step_gather_rows(void *rank, float *rows, size_t row_bytes);

/* input.c: after a step: complete its line with what the readers did meanwhile. Rank 0 only. */
void ls_input_note_step(ls_rank *rank);

/* input.c: the share of the epoch's steps, which took `seconds`, in which some rank had no input;
 * the next epoch begins. Rank 0 only; else 0. */
double ls_input_end_epoch(ls_rank *rank, double seconds);

/* input.c: what the input did in this run. Rank 0 only. */
ls_input_summary ls_input_summarize(const ls_rank *rank);

/* compare.c: compare digests over all ranks, those of numbers.sums_digest and `digest`, and share
 * rank 0's wish to stop. Collective.
 * Errors: DIVERGED, naming bucket and rank, or rank, tensor, first index and both values;
 * MEMORY. */
LS_MUST_USE ls_status ls_weights_compare(ls_rank *rank, uint64_t digest, bool want_stop);

/* rank.c: the whole run of one rank; an ls_rank_fn whose arg is the ls_run. Collective. */
LS_MUST_USE ls_status ls_rank_run(int rank, void *run);

/* resume.c: the checkpoint that --resume FILE|DIR|auto names ("" if auto and there is none yet).
 * Errors: ARGUMENT (auto without --out), FORMAT (DIR has none). */
LS_MUST_USE ls_status ls_resume_find(const ls_config *config, char *path, size_t bytes);

/* resume.c: fold the stored configuration of a run that continues into what the user asked for. */
LS_MUST_USE ls_status ls_resume_config(ls_config *config, const ls_saved_run *saved,
                                       int world_size);

/* best.c: is the file at `path` the checkpoint of the epoch that `best` is the line of? Errors: IO,
 * MEMORY; a file that is absent or damaged is not. */
LS_MUST_USE ls_status ls_best_is_at(const char *path, const ls_history_line *best, bool *is_at);

/* best.c: once the run's folder is open: take the best epoch's file along from the folder of the
 * checkpoint that continues, unless that is the same; writes best_lost. Errors: IO, MEMORY. */
LS_MUST_USE ls_status ls_best_carry(ls_run *run, const ls_progress *start, bool same_folder);

/* environment.c: environment.json's text, owned by the caller. */
LS_MUST_USE ls_status ls_environment_text(const ls_run *run, char **text);

#endif
