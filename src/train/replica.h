/* SPDX-License-Identifier: MIT */
/* replica.h -- one full copy of the model on one device: memory, forward, loss, backward.
 *
 * A replica knows its rank only to know its shards. It computes SUMS over samples and never
 * divides (docs/semantics.md); what crosses ranks is the trainer's business.
 *
 * Memory is allocated once and carved: device memory (weights, gradient pieces, slots,
 * activations, the pass's samples) and pinned host memory (what is read back).
 *
 *   weights | slots | average | gradient pieces 0 .. P-1 | statistics | activation of each layer |
 *   slots of activations' gradients | input, labels ... | one shard-sum row per shard | per-tensor
 *   results
 *
 * replica_layout.c lays memory out, replica.c fills it and reads it back, forward.c and backward.c
 * run the layers on it, loss.c what follows the last, normalize.c is what batch normalisation adds
 * to both passes, storage.c how numbers are kept.
 *
 * Thread rule: used by its rank's thread, after the main thread has made it.
 */
#ifndef LS_TRAIN_REPLICA_H
#define LS_TRAIN_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/bucket.h"
#include "device/device.h"
#include "io/dataset.h"
#include "io/pipeline.h"
#include "kernels/kernels.h"
#include "train/config.h"
#include "train/gradient_plan.h"
#include "train/model.h"
#include "train/rules.h"

enum { LS_SCRATCH_COUNT = 3 };

/* What every replica of a run shares; built by the trainer, read-only. */
typedef struct {
    const ls_model *model;
    const ls_dataset_info *data;
    const float *table;   /* ls_dataset_table: borrowed, host memory; NULL where data are f32 */
    int world_size, shard_count, accumulate;
    size_t global_batch;  /* the most samples of a batch */
    size_t capacity_min;  /* rows that evaluation wants, if they are small; 0: none */
    bool weighted;        /* batches come with weights */
    int slot_count;       /* 0 .. LS_SLOT_MAX */
    int top_k;            /* a label among the first top_k classes counts as `top`; 0: none does */
    const ls_parameter_rule *rule; /* [parameters] */
    bool average;         /* keep a moving average of the weights */
    bool keeps_good;      /* keep a copy of the state, to go back to (guard.h) */
    uint64_t seed;
    bool training;        /* false: no gradients, no slots (evaluate, predict) */
    ls_precision precision; /* F32, or how activations and kernels are rounded (docs/numerics.md) */
    bool shard_statistics; /* batch normalisation by shard; false: by the whole global batch */
} ls_replica_config;

/* What a forward pass is for: with which statistics batch normalisation works, and whether dropout
 * drops. */
typedef enum {
    LS_PASS_INFERENCE, /* moving statistics, nothing dropped */
    LS_PASS_TRAINING,  /* the batch's own, which are exchanged with the other ranks */
    LS_PASS_REPEATED   /* some shards of the last training pass again: its statistics are kept */
} ls_pass_kind;

/* The samples that one pass looks at, in device memory. */
typedef struct {
    ls_pass_kind kind;
    int pass;               /* number of the pass: which shards take part, on all ranks */
    size_t samples;
    const uint8_t *bytes;   /* the same as x, before forward makes x of them; or NULL */
    float *x;               /* [samples, height, width, channels] */
    const int32_t *label;   /* [samples], or NULL */
    const float *target;    /* [samples, outputs], or NULL */
    const float *weight;    /* [samples], or NULL: all 1 */
    const uint32_t *index;  /* [samples] places in the data set: address dropout */
    uint32_t epoch;
} ls_pass_input;

/* How a rank comes by the rows of all shards: rows[s] is valid for its own shards before and for
 * all V after (ls_gather, enqueued on the compute stream). */
typedef struct {
    ls_status (*gather)(void *context, float *rows, size_t row_bytes);
    void *context;
} ls_row_exchange;

/* Numbers of a pass as they are kept: floats, or the 16-bit format of the run's precision. */
typedef struct {
    void *at;
    bool is_narrow;
} ls_stored;

/* What batch normalisation keeps of a layer, in device memory. The rows of a pass stay until the
 * next training pass: the backward pass and LS_PASS_REPEATED read them. */
typedef struct {
    float *rows;       /* [V, 2 * channels] mean, M2 of each shard */
    float *merged;     /* [2 * channels] of the whole batch */
    float *sum_rows;   /* [V, 2 * channels] S1, S2 of each shard */
    float *merged_sums; /* [2 * channels] */
} ls_batchnorm_rows;

/* Results that ops leave on the device for the host, side by side: read back by one copy. */
typedef struct {
    double *gradient_square;   /* [parameters] */
    double *update_square;     /* [parameters] */
    double *weight_square;     /* [parameters] */
    double *weight_absolute;   /* [parameters] */
    uint64_t *nonfinite;       /* [parameters + 1] the last: of the moving statistics */
    uint64_t *digest;          /* [2] of the weights, of the moving statistics */
    uint64_t *sums_digest;     /* [1] of the reduced sums that the update was made of */
    ls_shard_sum *shard_sum;   /* [shard_count] rows of all shards, own ones first computed here */
} ls_results;

/* Bytes of a replica's device memory by what they are for; they sum to the whole. */
typedef struct {
    size_t weights, slots, gradients; /* arenas */
    size_t activations, activation_gradients;
    size_t samples;                   /* and what the loss makes of them */
    size_t other;                     /* tables and results */
} ls_replica_parts;

typedef struct {
    int rank;
    const ls_replica_config *config; /* borrowed */
    ls_device *device;               /* borrowed */
    ls_stream compute;
    size_t capacity;                 /* rows that the activations hold */
    ls_fold_plan plan;               /* of the current batch */
    size_t batch_samples;            /* of the current global batch */
    uint32_t epoch;                  /* that the loaded batch is of */
    ls_gradient_plan backward;       /* owned */
    float loss_scale;                /* of the gradient; 1, or the trainer's with 16-bit floats */
    ls_row_exchange exchange;        /* borrowed; set by the trainer before the first pass */

    void *memory;                    /* owned; device memory, everything below points into it */
    float *weights;                  /* arena */
    float *slot[LS_SLOT_MAX];        /* arenas, NULL where the optimizer has none */
    float *average;                  /* arena, NULL unless it is kept */
    float *gradients;                /* piece p at gradients + p * arena_floats */
    float *good;                     /* copy of weights, slots, average, statistics; or NULL */
    float *statistics;               /* arena: moving mean and variance of batch normalisation */
    float *moved;                    /* arena: what they become if this step is committed */
    ls_batchnorm_rows *batchnorm;    /* owned host array [layers] */
    ls_stored *activation;           /* owned host array [layers]; at NULL: the layer makes none */
    uint8_t **place;                 /* owned host array [layers]; max pool's choice */
    ls_stored *view;                 /* owned host array [layers]; a layer's output in this pass */
    ls_stored *gradient_slot;        /* owned host array [backward.slot_count] */
    float *scratch[LS_SCRATCH_COUNT]; /* 16-bit precisions: one layer's numbers in fp32 */
    float *kernel_scratch;           /* 16-bit precisions: one layer's rounded kernel */
    uint16_t *narrow_weights;        /* 16-bit precisions: arena, the rounded kernels */
    uint8_t *bytes;                  /* U8 data: [batch rows, sample] as they came; else NULL */
    float *table;                    /* U8 data: [channels, 256] what a byte becomes */
    float *x;                        /* [rows, sample] of the batch, or of the pass if U8 */
    int32_t *label;
    float *target;
    uint32_t *index;
    float *weight;                   /* [batch rows] */
    float *loss, *absolute_error, *squared_error; /* [capacity] */
    int32_t *label_place, *predicted; /* [capacity] as ops of loss.h have them */
    float *probability;              /* [capacity, outputs] */
    ls_results results;              /* on the device */
    size_t results_bytes;
    ls_arena_tensor *table_device;   /* [parameters] */
    ls_tensor_step *step_device;     /* [parameters] */
    ls_replica_parts parts;

    void *pinned;                    /* owned; pinned host memory */
    ls_results results_host;         /* the same layout in `pinned` */
    ls_tensor_step *step_host;       /* owned; pinned [parameters] what the update is to do */
    void *bounce;                    /* owned; pinned: where arenas pass on their way */
    ls_arena_tensor *table_host;     /* owned host array [parameters] */
    ls_arena_table tensors;
} ls_replica;

/* `replica` is all zero before. Errors: MEMORY, DEVICE; ls_replica_free releases what was made. */
LS_MUST_USE ls_status ls_replica_init(ls_replica *replica, const ls_replica_config *config,
                                      int rank, ls_device *device);
void ls_replica_free(ls_replica *replica); /* accepts all-zero */

/* Compute threads of each of `world_size` replicas: what was asked for, or if that is 0 its share
 * of the cores, at least 1. */
int ls_replica_threads(int asked, int world_size);

/* Host arena -> weights (and back). Blocks until the copy has run. */
LS_MUST_USE ls_status ls_replica_store(ls_replica *replica, float *to, const float *from_host,
                                       ls_group *group);
LS_MUST_USE ls_status ls_replica_fetch(ls_replica *replica, float *to_host, const float *from,
                                       ls_group *group);

/* From here on, until called again, weights and their average have changed places: what an
 * evaluation between two steps looks at. Does nothing where no average is kept. */
LS_MUST_USE ls_status ls_replica_exchange_average(ls_replica *replica);

/* Copy a step's batch of this rank to the device and plan its folds. */
LS_MUST_USE ls_status ls_replica_load(ls_replica *replica, const ls_batch *batch);

/* The part of the loaded batch that pass `pass` looks at, for training. */
ls_pass_input ls_replica_pass(const ls_replica *replica, int pass);

/* Where samples go that are copied to the device: bytes or x. */
void *ls_replica_samples(const ls_replica *replica);

/* input->x from input->bytes, if there are any. */
LS_MUST_USE ls_status ls_replica_decode(ls_replica *replica, const ls_pass_input *input);

/* Forward through all layers; `fold`: of the pass; NULL for inference. Collective where the model
 * has batch normalisation and the pass is a training pass. */
LS_MUST_USE ls_status ls_replica_forward(ls_replica *replica, const ls_pass_input *input,
                                         const ls_fold *fold);

/* The output of the last forward pass, in fp32: [samples, outputs]. */
const float *ls_replica_output(const ls_replica *replica);

/* Dropout's mask on x: the same op forward (x -> y) and backward (dy -> dx). */
LS_MUST_USE ls_status ls_replica_dropout(ls_replica *replica, const ls_layer *layer,
                                         const ls_pass_input *input, const float *x, float *y);

/* Loss of the forward pass's output: loss, label_place and predicted or the errors per sample;
 * `gradient` also dlogits, `probability` also the class probabilities. */
LS_MUST_USE ls_status ls_replica_loss(ls_replica *replica, const ls_pass_input *input,
                                      bool gradient, bool probability);

/* Sums of the shards of `fold`, the pass that `input` is, into their rows of results.shard_sum. */
LS_MUST_USE ls_status ls_replica_sum(ls_replica *replica, const ls_pass_input *input,
                                     const ls_fold *fold);

/* The regulariser of the weights: by the tree over parameters in the order of the model
 * file, l1 * sum |w| + l2 * sum w^2 of each with its own l1 and l2. Blocks. */
LS_MUST_USE ls_status ls_replica_regularizer(ls_replica *replica, ls_group *group, double *out);

/* Backward from the loss's gradient; parameter gradients go to the pieces that `fold` says,
 * zeros to those of layers that are not trained. Collective as forward is. After each layer that
 * completes parameters, `layer_done` (may be NULL) is told how many tensors of the arena, from
 * its front, are complete. */
typedef ls_status ls_layer_done_fn(void *context, int tensors_done);
LS_MUST_USE ls_status ls_replica_backward(ls_replica *replica, const ls_pass_input *input,
                                          const ls_fold *fold, ls_layer_done_fn *layer_done,
                                          void *context);

/* Make what the passes of a step did to the moving statistics last (`applied`), or forget it. */
LS_MUST_USE ls_status ls_replica_commit_statistics(ls_replica *replica, bool applied);

/* Where the sums over all shards of a step's batch are: the arena of its first final piece. */
float *ls_replica_sums(const ls_replica *replica);

/* Of weights and statistics, from the results read last: equal on all replicas, or they have
 * diverged. Pure. */
uint64_t ls_replica_digest(const ls_replica *replica);

/* Round the kernels for 16-bit precisions: after the weights have changed. */
LS_MUST_USE ls_status ls_replica_weights_changed(ls_replica *replica);

/* Host arena -> moving statistics (and back). Blocks until the copy has run. */
LS_MUST_USE ls_status ls_replica_store_statistics(ls_replica *replica, const float *from_host,
                                                  ls_group *group);
LS_MUST_USE ls_status ls_replica_fetch_statistics(ls_replica *replica, float *to_host,
                                                  ls_group *group);

/* *y = the output of layer `l` in the last pass, in fp32; what was not kept is made again. It holds
 * until the next op. Async: on the compute stream. */
LS_MUST_USE ls_status ls_replica_layer_output(ls_replica *replica, int l, size_t samples,
                                              const float **y);

/* The 4 bytes at `from`, in device memory, into *out. Overwrites the first of results_host.
 * Blocks. */
LS_MUST_USE ls_status ls_replica_read_word(ls_replica *replica, const void *from, void *out,
                                           ls_group *group, const char *what);

/* results -> results_host, and wait for it. Blocks. */
LS_MUST_USE ls_status ls_replica_read_results(ls_replica *replica, ls_group *group,
                                              const char *what);

#endif
