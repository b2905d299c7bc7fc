/* SPDX-License-Identifier: MIT */
/* config.h -- everything a run was told, as one struct and one table of names.
 *
 * The table is the single place that knows an option's name, type, default, range and help. The command
 * line, config.txt, `--help`, and the configuration inside a checkpoint are all made from it.
 */
#ifndef LS_TRAIN_CONFIG_H
#define LS_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/all_reduce.h"
#include "device/topology.h"
#include "kernels/kernels.h"
#include "nearest.h"
#include "status.h"

typedef enum { LS_REDUCTION_MEAN, LS_REDUCTION_WEIGHTED_MEAN, LS_REDUCTION_SUM } ls_reduction;
typedef enum { LS_SCHEDULE_CONSTANT, LS_SCHEDULE_STEP, LS_SCHEDULE_COSINE } ls_schedule_kind;

/* --schedule constant | step:EVERY,FACTOR (EVERY steps) | cosine:STEPS[,FINAL] ; --warmup N steps. */
typedef struct {
    ls_schedule_kind kind;
    uint64_t every;      /* step: updates between two drops */
    double factor;       /* step: lr *= factor */
    uint64_t steps;      /* cosine: length; 0 = the run's steps, fixed at start */
    double final;        /* cosine: last lr as a fraction of the first */
    uint64_t warmup;     /* updates of linear warm-up before all of them */
} ls_schedule;

/* --until val_accuracy>=0.97 */
typedef struct {
    char metric[32];     /* a column of history.csv; "" = none */
    bool at_least;       /* >= or <= */
    double value;
} ls_until;

enum { LS_TEXT_BYTES = 1024 };

typedef struct {
    char model[LS_TEXT_BYTES], data[LS_TEXT_BYTES], devices[LS_TEXT_BYTES];
    uint64_t global_batch;   /* 0: replica_batch * N, or the default 32 */
    uint64_t replica_batch;  /* 0: not given */
    uint64_t epochs;         /* 0: until `steps` */
    uint64_t steps;          /* 0: until `epochs`; applied updates in all */
    ls_optimizer optimizer;
    double lr, momentum, beta1, beta2, epsilon;
    double l1, l2;
    int shards, accumulate;
    ls_algorithm allreduce;
    ls_order order;
    ls_reduction reduction;
    uint64_t bucket_bytes;
    uint64_t seed;
    int threads;             /* compute threads per replica; 0: cores / N, at least 1 */
    int readers;             /* input reader threads */
    ls_schedule schedule;
    ls_p2p p2p;
    bool shuffle, drop_remainder;
    char out[LS_TEXT_BYTES], resume[LS_TEXT_BYTES], init[LS_TEXT_BYTES];
    ls_until until;
    uint64_t check_every;    /* compare the weights' digests every K steps; 0 = off */
    uint64_t save_every;     /* step-N checkpoints and last every K steps; 0: last at epoch ends */
    double timeout_s;
    uint64_t explain_step;   /* 0 = none */
} ls_config;

/* How an option may change between a checkpoint and its resumption. */
typedef enum {
    LS_OPTION_FREE,      /* devices, threads, out ...: any time, never changes a bit */
    LS_OPTION_EXTEND,    /* epochs, steps, until: a longer run */
    LS_OPTION_BITS       /* part of the numerics class or of the run: an error on resume unless equal */
} ls_option_change;

typedef struct {
    const char *name;        /* "global-batch" */
    const char *value;       /* placeholder in help: "B", "ring|tree|root" */
    const char *help;        /* one line */
    const char *group;       /* heading in help: "Batch", "Optimizer" */
    ls_option_change change;
    size_t offset;           /* of the field in ls_config: what table code reads and writes */
    int type;                /* config.c's own */
    double low, high;        /* accepted range of numbers */
} ls_option;

/* The table, ended by a NULL name; its order is the order of --help and of config.txt. */
const ls_option *ls_option_table(void);
const ls_option *ls_option_find(const char *name); /* or NULL */

void ls_config_init(ls_config *config); /* the defaults */

/* Set one option from text. Errors: ARGUMENT: unknown name (with the nearest), malformed or out of
 * range value; the message names `--name`, the text and what was expected. */
LS_MUST_USE ls_status ls_config_set(ls_config *config, const char *name, const char *text);

/* The value as text that ls_config_set accepts. */
void ls_config_value(const ls_config *config, const ls_option *option, char *out, size_t bytes);

/* "name value" lines of every option (comments: #), and back. Errors: ARGUMENT with the line number. */
LS_MUST_USE ls_status ls_config_write(const ls_config *config, char **text); /* owned by the caller */
LS_MUST_USE ls_status ls_config_parse(ls_config *config, const char *file, const char *text);

/* What does not depend on data or devices: batch and replica-batch together, accumulate > shards,
 * epochs and steps both 0 ... Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_config_check(const ls_config *config);

/* Learning rate of update number `step` (0-based), a function of the step alone. Pure. */
double ls_schedule_rate(const ls_schedule *schedule, double lr, uint64_t step);

#endif
