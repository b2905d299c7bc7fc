/* SPDX-License-Identifier: MIT */
/* config_table.c -- the table of options, and their defaults.
 *
 * One row per option; how a value of its type is read and written is config_value.c's matter.
 * Adding an option is adding a field, a row, and a default in ls_config_init.
 */
#include "train/config.h"

#include <assert.h>
#include <string.h>

#include "train/config_value.h"

static const char *const optimizers[] = { "sgd", "momentum", "nesterov", "adam", "adamw",
                                          "rmsprop", NULL };
static const char *const lr_scales[] = { "none", "linear", NULL };
static const char *const algorithms[] = { "auto", "ring", "tree", "root", NULL };
static const char *const orders[] = { "exact", "fast", NULL };
static const char *const precisions[] = { "f32", "bf16", "f16", "tf32", NULL };
static const char *const batchnorms[] = { "sync", "shard", NULL };
static const char *const nonfinites[] = { "stop", "skip", "rollback", NULL };
static const char *const reductions[] = { "mean", "weighted-mean", "sum", NULL };
static const char *const p2p_choices[] = { "auto", "on", "off", NULL };

/* Choices are copied to their fields as int. */
static_assert(sizeof(ls_optimizer) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_lr_scale) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_algorithm) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_order) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_precision) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_batchnorm_mode) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_nonfinite_policy) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_reduction) == sizeof(int), "an enumeration is as wide as int");
static_assert(sizeof(ls_p2p) == sizeof(int), "an enumeration is as wide as int");

#define FIELD(f) .offset = offsetof(ls_config, f)
#define TEXT(f) FIELD(f), .type = LS_VALUE_TEXT
#define COUNT(f, a, b) FIELD(f), .type = LS_VALUE_COUNT, .low = (a), .high = (b)
#define INT(f, a, b) FIELD(f), .type = LS_VALUE_INT, .low = (a), .high = (b)
#define REAL(f, a, b) FIELD(f), .type = LS_VALUE_REAL, .low = (a), .high = (b)
#define FRACTION(f) FIELD(f), .type = LS_VALUE_FRACTION
#define FLAG(f) FIELD(f), .type = LS_VALUE_FLAG
/* `last`: the last name that this build can do. */
#define CHOICE(f, names, last) \
    FIELD(f), .type = LS_VALUE_CHOICE, .choice = (names), .high = (last)

/* Counts are read into doubles' exact range; only the seed may use all of 64 bits. */
#define STEPS_MAX 1e15
#define SEED_MAX 18446744073709551615.0

static const ls_option options[] = {
    { "model", "MODEL", "a built-in model's name, or a model file", "",
      LS_OPTION_FREE, TEXT(model) },
    { "data", "SPEC", "digits, cifar10:DIR, cifar100:DIR, idx:DIR, csv:FILE or npy:X,Y", "Data",
      LS_OPTION_FREE, TEXT(data) },
    { "shuffle", "yes|no", "deal the samples of each epoch in a new order", "Data",
      LS_OPTION_BITS, FLAG(shuffle) },
    { "augment", "LIST", "change each sample: any of crop:P, flip, vflip, brightness:X, "
      "contrast:X, cutout:S", "Data", LS_OPTION_BITS, FIELD(augment), .type = LS_VALUE_AUGMENT },
    { "drop-remainder", "yes|no", "leave out an epoch's last batch if it is short", "Data",
      LS_OPTION_BITS, FLAG(drop_remainder) },
    { "class-weights", "0=1,3=2.5|balanced|none", "what a sample weighs by its class", "Data",
      LS_OPTION_BITS, TEXT(class_weights) },
    { "readers", "R", "threads that read samples", "Data",
      LS_OPTION_FREE, INT(readers, 1, 64) },
    { "cache", "BYTES", "keep decoded samples in memory, up to so many bytes", "Data",
      LS_OPTION_FREE, FIELD(cache_bytes), .type = LS_VALUE_BYTES,
      .low = 1024, .high = 0x1p50, .zero = "off" },

    { "devices", "LIST", "auto, host:N, cuda, cuda:0,1, cuda:0*2", "Replicas",
      LS_OPTION_FREE, TEXT(devices) },
    { "threads", "T", "compute threads of each replica", "Replicas",
      LS_OPTION_FREE, INT(threads, 1, 256), .zero = "auto", .otherwise = "auto: cores / replicas" },
    { "allreduce", "auto|ring|tree|root", "how gradients are exchanged", "Replicas",
      LS_OPTION_FREE, CHOICE(allreduce, algorithms, LS_ALGORITHM_ROOT) },
    { "bucket", "BYTES", "gradients are exchanged in buckets of at least this many bytes",
      "Replicas", LS_OPTION_FREE, FIELD(bucket_bytes), .type = LS_VALUE_BYTES,
      .low = 1024, .high = 4294967296.0 },
    { "p2p", "auto|on|off", "direct copies between devices; LOCKSTEP_P2P is the same", "Replicas",
      LS_OPTION_FREE, CHOICE(p2p, p2p_choices, LS_P2P_OFF) },

    { "global-batch", "B", "samples of one update, over all replicas", "Batch",
      LS_OPTION_BITS, COUNT(global_batch, 1, 1e9), .zero = "auto", .otherwise = "auto: 32" },
    { "replica-batch", "B", "samples per replica instead: the global batch is N times that",
      "Batch", LS_OPTION_FREE, COUNT(replica_batch, 1, 1e9), .zero = "none" },
    { "accumulate", "A", "take the shards in A passes, to save memory; same bits but with "
      "batchnorm sync", "Batch",
      LS_OPTION_FREE, INT(accumulate, 1, LS_SHARD_MAX) },

    { "epochs", "E", "passes over the data", "Length",
      LS_OPTION_EXTEND, COUNT(epochs, 1, 1e9), .zero = "auto",
      .otherwise = "auto: 5 unless --steps" },
    { "steps", "S", "updates in all; with --epochs, whichever comes first", "Length",
      LS_OPTION_EXTEND, COUNT(steps, 1, STEPS_MAX), .zero = "none" },
    { "until", "METRIC>=X", "stop after the epoch in which this holds; also <=", "Length",
      LS_OPTION_EXTEND, FIELD(until), .type = LS_VALUE_UNTIL, .zero = "none" },

    { "time-limit", "SECONDS", "save and end after the step in which this time has passed",
      "Length", LS_OPTION_FREE, REAL(time_limit_s, 0.001, 1e9), .zero = "none" },
    { "early-stop", "P", "stop after P epochs in a row in which --monitor is not better",
      "Length", LS_OPTION_EXTEND, COUNT(early_stop, 1, 1e9), .zero = "off" },
    { "min-delta", "X", "how much better an epoch must be for --early-stop", "Length",
      LS_OPTION_EXTEND, REAL(min_delta, 0, 1e9) },
    { "restore-best", "yes|no", "the run's result is the best epoch's, however it ends", "Length",
      LS_OPTION_FREE, FLAG(restore_best) },

    { "monitor", "COLUMN", "the column of history.csv that tells which epoch is best, when to "
      "stop, when to slow down", "Metrics", LS_OPTION_BITS, FIELD(monitor), .type = LS_VALUE_COLUMN,
      .otherwise = "auto: val_loss; loss without a test part" },
    { "metrics", "LIST", "of classes: accuracy, topK, precision, recall, f1; of numbers: mse, "
      "mae, r2", "Metrics", LS_OPTION_BITS, TEXT(metrics),
      .otherwise = "auto: accuracy, or mse,mae" },

    { "optimizer", "sgd|momentum|nesterov|adam|adamw|rmsprop", "the update rule", "Optimizer",
      LS_OPTION_BITS, CHOICE(optimizer, optimizers, LS_OPTIMIZER_RMSPROP) },
    { "momentum", "X", "of momentum and nesterov", "Optimizer",
      LS_OPTION_BITS, FRACTION(momentum) },
    { "beta1", "X", "adam's decay of the mean", "Optimizer",
      LS_OPTION_BITS, FRACTION(beta1) },
    { "beta2", "X", "adam's decay of the square", "Optimizer",
      LS_OPTION_BITS, FRACTION(beta2) },
    { "rho", "X", "rmsprop's decay of the square", "Optimizer",
      LS_OPTION_BITS, FRACTION(rho) },
    { "epsilon", "X", "adam's and rmsprop's guard against division by zero", "Optimizer",
      LS_OPTION_BITS, REAL(epsilon, 1e-20, 1) },
    { "clip-value", "X", "gradients are cut to -X .. X", "Optimizer",
      LS_OPTION_BITS, REAL(clip_value, 1e-30, 1e30), .zero = "off" },
    { "clip-norm", "X", "each tensor's gradient is scaled down to at most this length",
      "Optimizer", LS_OPTION_BITS, REAL(clip_norm, 1e-30, 1e30), .zero = "off" },
    { "clip-global-norm", "X", "the whole gradient is scaled down to at most this length",
      "Optimizer", LS_OPTION_BITS, REAL(clip_global_norm, 1e-30, 1e30), .zero = "off" },
    { "l1", "X", "sum of |w| of the kernels, times X, added to the loss", "Optimizer",
      LS_OPTION_BITS, REAL(l1, 0, 1e6) },
    { "l2", "X", "sum of w^2 of the kernels, times X, added to the loss", "Optimizer",
      LS_OPTION_BITS, REAL(l2, 0, 1e6) },
    { "weight-decay", "X", "kernels shrink by the rate times X before each update", "Optimizer",
      LS_OPTION_BITS, REAL(weight_decay, 0, 1e3), .otherwise = "0; adamw 0.004" },
    { "ema", "D", "keep a moving average of the weights, of momentum D, and evaluate that",
      "Optimizer", LS_OPTION_BITS, FRACTION(ema), .zero = "off" },
    { "rules", "LIST", "by parameter: 'PATTERN=freeze;PATTERN=lr:X,decay:X,l1:X,l2:X'",
      "Optimizer", LS_OPTION_BITS, TEXT(rules) },

    { "lr", "X", "the rate that --schedule begins with", "Learning rate",
      LS_OPTION_BITS, REAL(lr, 1e-12, 1e6), .zero = "auto",
      .otherwise = "auto: 0.001; sgd, momentum, nesterov 0.01" },
    { "lr-scale", "none|linear", "linear: all rates times global batch / --base-batch",
      "Learning rate", LS_OPTION_BITS, CHOICE(lr_scale, lr_scales, LS_LR_SCALE_LINEAR) },
    { "base-batch", "B", "the global batch that --lr is meant for", "Learning rate",
      LS_OPTION_BITS, COUNT(base_batch, 1, 1e9), .zero = "none" },
    { "schedule", "S", "constant, step:EVERY,FACTOR, cosine[:STEPS[,FINAL]], "
      "exponential:STEPS,RATE[,staircase], polynomial:STEPS,END[,POWER], table:0=R,STEP=R,...",
      "Learning rate", LS_OPTION_BITS, FIELD(schedule), .type = LS_VALUE_SCHEDULE },
    { "warmup", "N", "updates over which the rate rises linearly first", "Learning rate",
      LS_OPTION_BITS, COUNT(schedule.warmup, 0, STEPS_MAX) },
    { "plateau", "P", "lower the rate after P epochs in a row in which --monitor is not better",
      "Learning rate", LS_OPTION_BITS, COUNT(plateau, 1, 1e9), .zero = "off" },
    { "plateau-factor", "X", "what it is multiplied by then", "Learning rate",
      LS_OPTION_BITS, FRACTION(plateau_factor) },
    { "plateau-delta", "X", "how much better an epoch must be for --plateau", "Learning rate",
      LS_OPTION_BITS, REAL(plateau_delta, 0, 1e9) },
    { "plateau-cooldown", "E", "epochs after that which do not count", "Learning rate",
      LS_OPTION_BITS, COUNT(plateau_cooldown, 0, 1e9) },
    { "plateau-min", "X", "the rate below which --plateau does not go", "Learning rate",
      LS_OPTION_BITS, REAL(plateau_min, 0, 1e6) },

    { "shards", "V", "fixed parts of a global batch; at least as many as replicas", "Numerics",
      LS_OPTION_BITS, INT(shards, 1, LS_SHARD_MAX) },
    { "reduction", "mean|weighted-mean|sum", "what the summed loss is divided by", "Numerics",
      LS_OPTION_BITS, CHOICE(reduction, reductions, LS_REDUCTION_SUM) },
    { "batchnorm", "sync|shard", "statistics of the whole batch (of a pass), or of each shard",
      "Numerics", LS_OPTION_BITS, CHOICE(batchnorm, batchnorms, LS_BATCHNORM_SHARD) },
    { "order", "exact|fast", "exact: the same bits for any number of replicas", "Numerics",
      LS_OPTION_BITS, CHOICE(order, orders, LS_ORDER_FAST) },
    { "precision", "f32|bf16|f16", "how activations and kernels are kept", "Numerics",
      LS_OPTION_BITS, CHOICE(precision, precisions, LS_PRECISION_F16) },
    { "nonfinite", "stop|skip|rollback", "what follows a step with a NaN or an infinity",
      "Numerics", LS_OPTION_FREE, CHOICE(nonfinite, nonfinites, LS_NONFINITE_ROLLBACK) },
    { "seed", "S", "of initial weights, shuffling, augmentation and dropout", "Numerics",
      LS_OPTION_BITS, COUNT(seed, 0, SEED_MAX) },

    { "out", "DIR", "the run's folder", "Files",
      LS_OPTION_FREE, TEXT(out), .otherwise = "runs/MODEL-TIME" },
    { "resume", "auto|DIR|FILE", "continue from a checkpoint; auto: from --out's, if any",
      "Files", LS_OPTION_FREE, TEXT(resume) },
    { "init", "DIR|FILE", "take the first weights from this checkpoint, or a run's last", "Files",
      LS_OPTION_BITS, TEXT(init) },
    { "init-only", "PATTERN,PATTERN",
      "of --init's tensors take those named so; the others begin anew", "Files",
      LS_OPTION_BITS, TEXT(init_only), .otherwise = "all" },
    { "save-every", "K", "save a checkpoint every K updates, besides those of epochs", "Files",
      LS_OPTION_FREE, COUNT(save_every, 0, STEPS_MAX), .zero = "off" },
    { "keep", "K", "how many of --save-every's checkpoints stay: the newest K", "Files",
      LS_OPTION_FREE, COUNT(keep, 1, 1e6), .zero = "all" },

    { "check-every", "K", "compare the replicas' weights every K updates; off: never", "Checks",
      LS_OPTION_FREE, COUNT(check_every, 0, STEPS_MAX), .zero = "off" },
    { "timeout", "SECONDS", "the run fails after so long without progress of any replica", "Checks",
      LS_OPTION_FREE, REAL(timeout_s, 0.1, 86400) },
    { "explain-step", "K", "print how update K came about", "Checks",
      LS_OPTION_FREE, COUNT(explain_step, 0, STEPS_MAX), .zero = "off" },
    { 0 }
};

static_assert(sizeof options / sizeof options[0] <= LS_OPTIONS_MAX, "ls_config.given has room");

const ls_option *ls_option_table(void) { return options; }

const ls_option *ls_option_find(const char *name)
{
    for (const ls_option *o = options; o->name; o++) {
        if (strcmp(o->name, name) == 0) return o;
    }
    return NULL;
}

void ls_config_init(ls_config *config)
{
    *config = (ls_config){
        .devices = "auto",
        .class_weights = "none",
        .metrics = "auto",
        .monitor = "auto",
        .plateau_factor = 0.1,
        .plateau_delta = 1e-4,
        .optimizer = LS_OPTIMIZER_ADAM,
        .momentum = 0.9,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .rho = 0.9,
        .epsilon = 1e-7,
        .shards = 8,
        .accumulate = 1,
        .bucket_bytes = (uint64_t)4 << 20,
        .seed = 1,
        .readers = 2,
        .schedule.factor = 1,
        .shuffle = true,
        .check_every = 1,
        .timeout_s = 60,
    };
}

const char *ls_optimizer_name(ls_optimizer optimizer) { return optimizers[optimizer]; }
const char *ls_batchnorm_name(ls_batchnorm_mode mode) { return batchnorms[mode]; }
const char *ls_reduction_name(ls_reduction reduction) { return reductions[reduction]; }
const char *ls_precision_name(ls_precision precision) { return precisions[precision]; }
const char *ls_order_name(ls_order order) { return orders[order]; }
