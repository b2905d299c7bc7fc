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
#include "kernels/kernels.h"
#include "nearest.h"
#include "status.h"

typedef enum { LS_REDUCTION_MEAN, LS_REDUCTION_WEIGHTED_MEAN, LS_REDUCTION_SUM } ls_reduction;
typedef enum { LS_SCHEDULE_CONSTANT, LS_SCHEDULE_STEP, LS_SCHEDULE_COSINE } ls_schedule_kind;
typedef enum {
    LS_PRECISION_F32,
    LS_PRECISION_BF16, /* this and the next two: known names, refused by ls_config_set */
    LS_PRECISION_F16,
    LS_PRECISION_TF32
} ls_precision;

/* --schedule constant | step:EVERY,FACTOR (EVERY updates) | cosine[:STEPS[,FINAL]]; --warmup N
 * updates come before all of them and are not counted in EVERY and STEPS. */
typedef struct {
    ls_schedule_kind kind;
    uint64_t every;      /* step: updates between two drops */
    double factor;       /* step: lr *= factor */
    uint64_t steps;      /* cosine: length; 0 = to the run's end, fixed by ls_schedule_fill */
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
    char class_weights[LS_TEXT_BYTES]; /* class_weights.h */
    char metrics[LS_TEXT_BYTES];       /* metrics.h; "auto" */
    uint64_t global_batch;   /* 0: replica_batch * N, or the default 32 */
    uint64_t replica_batch;  /* 0: not given */
    uint64_t epochs;         /* 0: until `steps`; both: whichever comes first */
    uint64_t steps;          /* 0: until `epochs`; applied updates in all */
    ls_optimizer optimizer;
    double lr;               /* 0: not given, the optimizer's default */
    double momentum, beta1, beta2, epsilon;
    double l1, l2;
    int shards, accumulate;
    ls_algorithm allreduce;
    ls_order order;
    ls_precision precision;
    ls_reduction reduction;
    uint64_t bucket_bytes;
    uint64_t seed;
    int threads;             /* compute threads per replica; 0: cores / N, at least 1 */
    int readers;             /* input reader threads */
    ls_schedule schedule;
    ls_p2p p2p;
    bool shuffle, drop_remainder;
    char out[LS_TEXT_BYTES], resume[LS_TEXT_BYTES], init[LS_TEXT_BYTES]; /* "": not given */
    ls_until until;
    uint64_t check_every;    /* compare the weights' digests every K steps; 0 = off */
    uint64_t save_every;     /* step-N checkpoints and last every K steps; 0: last at epoch ends */
    double timeout_s;
    uint64_t explain_step;   /* 0 = none */
    uint64_t given;          /* bit i: entry i of the table was set by ls_config_set */
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
    const char *help;        /* one line */
    const char *group;       /* heading in help: "Batch", "Optimizer"; "" for MODEL, which stands
                                on the command line without a name */
    ls_option_change change;
    size_t offset;           /* of the field in ls_config: what table code reads and writes */
    int type;                /* config.c's own */
    double low, high;        /* accepted range of numbers */
    const char *zero;        /* the word that stands for the number 0, "auto"; NULL: no such word */
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
const char *ls_order_name(ls_order order);

/* What does not depend on data or devices: no MODEL or --data, global-batch and replica-batch
 * together, accumulate > shards, order fast without the ring. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_config_check(const ls_config *config);

/* Decide what was not given: lr by the optimizer (Keras': adam 0.001, else 0.01), the global batch
 * from the replica batch (which becomes 0) or 32, 5 epochs if neither epochs nor steps. threads
 * stays 0: it is the machine's matter. Filling twice changes nothing more. */
void ls_config_fill(ls_config *config, int world_size);

/* Fix the length of a cosine without STEPS: what is left of the run after the warm-up. */
void ls_schedule_fill(ls_schedule *schedule, uint64_t run_steps);

/* "cosine over 1000 updates to 0 of lr, after 10 of warm-up". */
void ls_schedule_describe(const ls_schedule *schedule, char *out, size_t bytes);

/* Learning rate of update number `step` (0-based), a function of the step alone. Pure.
 *   step < warmup           lr * ((step + 1) / warmup), a quotient of doubles
 *   then, t = step - warmup
 *     constant              lr
 *     step:EVERY,FACTOR     lr * FACTOR * FACTOR ..., floor(t / EVERY) times, left to right
 *     cosine:STEPS,FINAL    lr * (FINAL + (1 - FINAL) * (0.5 * (1 + cos(pi * (t / STEPS))))),
 *                           t at most STEPS; cos is ls_cos
 * all in double. The cosine's length must be fixed (ls_schedule_fill). */
double ls_schedule_rate(const ls_schedule *schedule, double lr, uint64_t step);

#endif
