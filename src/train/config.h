/* SPDX-License-Identifier: MIT */
/* config.h -- everything a run was told, as one struct and one table of names.
 *
 * The table is the single place that knows an option's name, type, default, range and help. The
 * command line, config.txt, `--help`, and the configuration inside a checkpoint are all made from
 * it.
 *
 * Order of use: ls_config_init, ls_config_set or ls_config_parse per option, ls_config_check
 * (what the user said makes sense), ls_config_fill (what he did not say is decided).
 *
 * Pure, but for the text of failures.
 */
#ifndef LS_TRAIN_CONFIG_H
#define LS_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/all_reduce.h"
#include "device/topology.h"
#include "io/augment.h"
#include "kernels/kernels.h"
#include "nearest.h"
#include "status.h"

typedef enum { LS_BATCHNORM_SYNC, LS_BATCHNORM_SHARD } ls_batchnorm_mode;
typedef enum { LS_NONFINITE_STOP, LS_NONFINITE_SKIP, LS_NONFINITE_ROLLBACK } ls_nonfinite_policy;
typedef enum { LS_REDUCTION_MEAN, LS_REDUCTION_WEIGHTED_MEAN, LS_REDUCTION_SUM } ls_reduction;
typedef enum {
    LS_SCHEDULE_CONSTANT,
    LS_SCHEDULE_STEP,
    LS_SCHEDULE_COSINE,
    LS_SCHEDULE_EXPONENTIAL,
    LS_SCHEDULE_POLYNOMIAL,
    LS_SCHEDULE_TABLE
} ls_schedule_kind;
typedef enum { LS_LR_SCALE_NONE, LS_LR_SCALE_LINEAR } ls_lr_scale;
typedef enum {
    LS_PRECISION_F32,
    LS_PRECISION_BF16,
    LS_PRECISION_F16,
    LS_PRECISION_TF32  /* a known name, refused by ls_config_check */
} ls_precision;

/* From update `step` on, counted after the warm-up, the learning rate is `rate`. */
typedef struct {
    uint64_t step;
    double rate;
} ls_rate_entry;

enum { LS_RATE_ENTRIES_MAX = 64 };

/* --schedule constant | step:EVERY,FACTOR | cosine[:STEPS[,FINAL]]
 *            | exponential:STEPS,RATE[,staircase] | polynomial:STEPS,END[,POWER]
 *            | table:0=R0,S1=R1,... | table:R0,R1,R2,...
 * EVERY, STEPS and the S of a table count updates; --warmup N updates come before all of them and
 * are not counted. */
typedef struct {
    ls_schedule_kind kind;
    uint64_t every;      /* step: updates between two drops */
    double factor;       /* step: lr *= factor; exponential: RATE */
    uint64_t steps;      /* cosine, exponential, polynomial: STEPS; of a cosine 0 = to the run's
                            end, fixed by ls_schedule_fill */
    double final;        /* cosine: last lr as a fraction of the first; polynomial: END, a rate */
    double power;        /* polynomial */
    bool staircase;      /* exponential: whole powers only */
    int entry_count;     /* table */
    ls_rate_entry entry[LS_RATE_ENTRIES_MAX]; /* by ascending step, the first 0 */
    uint64_t warmup;     /* updates of linear warm-up before all of them */
} ls_schedule;

/* --until val_accuracy>=0.97 */
typedef struct {
    char metric[32];     /* a column of history.csv; "" = none */
    bool at_least;       /* >= or <= */
    double value;
} ls_until;

enum { LS_TEXT_BYTES = 1024, LS_OPTIONS_MAX = 96 };

typedef struct {
    char model[LS_TEXT_BYTES], data[LS_TEXT_BYTES], devices[LS_TEXT_BYTES];
    char class_weights[LS_TEXT_BYTES]; /* class_weights.h */
    char metrics[LS_TEXT_BYTES];       /* metrics.h; "auto" */
    uint64_t global_batch;   /* 0: replica_batch * N, or the default 32 */
    uint64_t replica_batch;  /* 0: not given */
    uint64_t epochs;         /* 0: until `steps`; both: whichever comes first */
    uint64_t steps;          /* 0: until `epochs`; applied updates in all */
    ls_optimizer optimizer;
    double lr;               /* 0: not given, the optimizer's default */
    ls_lr_scale lr_scale;
    uint64_t base_batch;     /* 0: not given; linear scaling multiplies by global_batch / this */
    double momentum, beta1, beta2, rho, epsilon;
    double l1, l2;
    double weight_decay;     /* decoupled, of kernels */
    double clip_value, clip_norm, clip_global_norm; /* 0: off; at most one is not */
    double ema;              /* 0: no average of the weights is kept */
    char rules[LS_TEXT_BYTES]; /* --rules (rules.h), "": none */
    int shards, accumulate;
    ls_algorithm allreduce;
    ls_order order;
    ls_precision precision;
    ls_reduction reduction;
    ls_batchnorm_mode batchnorm; /* statistics of the whole global batch, or of each shard */
    ls_nonfinite_policy nonfinite; /* what follows a step whose numbers are not finite: guard.h */
    uint64_t bucket_bytes;
    uint64_t seed;
    int threads;             /* compute threads per replica; 0: cores / N, at least 1 */
    int readers;             /* input reader threads */
    uint64_t cache_bytes;    /* of decoded samples to keep; 0: none */
    ls_schedule schedule;
    ls_p2p p2p;
    bool shuffle, drop_remainder;
    ls_augment augment;
    char out[LS_TEXT_BYTES], resume[LS_TEXT_BYTES], init[LS_TEXT_BYTES]; /* "": not given */
    char init_only[LS_TEXT_BYTES]; /* patterns of what is taken of init's file; "": all */
    ls_until until;
    char monitor[32];        /* a column of history.csv, or "auto": callbacks.h, as are the next */
    uint64_t early_stop;     /* epochs; 0: off */
    double min_delta;
    bool restore_best;       /* the run's result is its best epoch, however it ended */
    uint64_t plateau, plateau_cooldown; /* epochs; 0: off */
    double plateau_factor, plateau_delta, plateau_min;
    uint64_t keep;           /* step-N checkpoints that are kept; 0: all */
    double time_limit_s;     /* seconds after which the run saves and ends; 0: none */
    uint64_t check_every;    /* compare the weights' digests every K steps; 0 = off */
    uint64_t save_every;     /* step-N checkpoints and last every K steps; 0: last at epoch ends */
    double timeout_s;
    uint64_t explain_step;   /* 0 = none */
    bool given[LS_OPTIONS_MAX]; /* entry i of the table was set by ls_config_set */
} ls_config;

/* How an option may change between a checkpoint and its resumption. */
typedef enum {
    LS_OPTION_FREE,      /* devices, threads, out ...: any time, never changes a bit; also model
                            and data, whose contents are compared and may have moved */
    LS_OPTION_EXTEND,    /* epochs, steps, until: a longer run */
    LS_OPTION_BITS       /* part of the numerics class or of the run: an error on resume unless
                            equal, after ls_config_fill on both sides */
} ls_option_change;

typedef struct {
    const char *name;        /* "global-batch" */
    const char *value;       /* placeholder in help: "B", "ring|tree|root"; "yes|no": the value may
                                be left out and means yes */
    const char *help;        /* a sentence without its full stop */
    const char *group;       /* heading in help: "Batch", "Optimizer"; "" for MODEL, which stands
                                on the command line without a name */
    ls_option_change change;
    size_t offset;           /* of the field in ls_config: what table code reads and writes */
    int type;                /* LS_VALUE_TEXT ...: config_value.h */
    double low, high;        /* accepted range of numbers */
    const char *zero;        /* the word that stands for the number 0, "auto"; NULL: no such word */
    const char *otherwise;   /* the default in words; NULL: the default value itself */
    const char *const *choice; /* enumerations: their names by value, NULL-terminated; else NULL */
} ls_option;

/* The table, ended by a NULL name; its order is the order of --help and of config.txt. */
const ls_option *ls_option_table(void);
const ls_option *ls_option_find(const char *name); /* or NULL */

void ls_config_init(ls_config *config); /* the defaults */

/* Set one option from text; `text` NULL is the flag form, yes. Errors: ARGUMENT: unknown name (with
 * the nearest), malformed or out of range value; the message names `--name`, the text and what was
 * expected; `config` is then unchanged. */
LS_MUST_USE ls_status ls_config_set(ls_config *config, const char *name, const char *text);

/* Was it set, or is it a default? */
bool ls_config_is_given(const ls_config *config, const ls_option *option);

/* The value as text that ls_config_set accepts; "" for a path that was not given. Numbers come back
 * with the same bits. */
void ls_config_value(const ls_config *config, const ls_option *option, char *out, size_t bytes);

/* A "name value" line per option, and back. A line that starts with # is a comment: so are paths
 * not given, and `out` and `resume`, which say where a run was, not how to repeat it. `file` is the
 * name in messages. Errors: MEMORY; ARGUMENT with the line number. */
LS_MUST_USE ls_status ls_config_write(const ls_config *config, char **text); /* owned by caller */
LS_MUST_USE ls_status ls_config_parse(ls_config *config, const char *file, const char *text);

/* The names of the table's choices. */
const char *ls_optimizer_name(ls_optimizer optimizer);
const char *ls_reduction_name(ls_reduction reduction);
const char *ls_batchnorm_name(ls_batchnorm_mode mode);
const char *ls_order_name(ls_order order);
const char *ls_precision_name(ls_precision precision);

/* What does not depend on data or devices: no MODEL or --data, global-batch and replica-batch
 * together, accumulate > shards, order fast without the ring, two kinds of clipping, linear scaling
 * without a base, rules that do not parse. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_config_check(const ls_config *config);

/* Decide what was not given: lr by the optimizer (Keras': adam, adamw and rmsprop 0.001, else
 * 0.01), weight decay (adamw 0.004, else 0), the global batch from the replica batch (which becomes
 * 0) or 32, 5 epochs if neither epochs nor steps. threads stays 0: it is the machine's matter.
 * Filling twice changes nothing more. */
void ls_config_fill(ls_config *config, int world_size);

/* Fix the length of a cosine without STEPS: what is left of the run after the warm-up. */
void ls_schedule_fill(ls_schedule *schedule, uint64_t run_steps);

/* "cosine over 1000 updates to 0 of lr, after 10 of warm-up". */
void ls_schedule_describe(const ls_schedule *schedule, char *out, size_t bytes);

/* Learning rate of update number `step` (0-based), a function of the step alone. Pure.
 *   step < warmup           first * ((step + 1) / warmup), a quotient of doubles; `first` is the
 *                           table's first rate, and lr otherwise
 *   then, t = step - warmup
 *     constant              lr
 *     step:EVERY,FACTOR     lr * FACTOR * FACTOR ..., floor(t / EVERY) times, left to right
 *     cosine:STEPS,FINAL    lr * (FINAL + (1 - FINAL) * (0.5 * (1 + cos(pi * (t / STEPS))))),
 *                           t at most STEPS; cos is ls_cos
 *     exponential:STEPS,RATE  lr * RATE * RATE ..., floor(t / STEPS) times, left to right, and
 *                           unless staircase times exp(log(RATE) * ((t mod STEPS) / STEPS)) where
 *                           that is not 0
 *     polynomial:STEPS,END,POWER  END + (lr - END) * (1 - t / STEPS)^POWER, t at most STEPS; a
 *                           whole POWER is a product, left to right, another one
 *                           exp(POWER * log(1 - t / STEPS)), and 0 at the end
 *     table                 the rate of the last entry whose step is at most t: so after its end
 *                           the last one; lr is not looked at
 * all in double; exp and log are ls_exp and ls_log. The cosine's length must be fixed
 * (ls_schedule_fill). */
double ls_schedule_rate(const ls_schedule *schedule, double lr, uint64_t step);

/* The same of a run: times ls_config_lr_factor. Pure; after ls_config_fill. */
double ls_config_rate(const ls_config *config, uint64_t step);

/* What --lr-scale multiplies every rate by: 1, or global batch / base batch. Pure. */
double ls_config_lr_factor(const ls_config *config);

#endif
