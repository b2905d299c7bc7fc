/* SPDX-License-Identifier: MIT */
/* pipeline.c -- reader threads fill slots in order; ranks take them in order.
 *
 * Work is numbered. Turn t (0 .. step_count-1) is the t-th step from the start; with P steps per
 * epoch it is step (first_step + t) mod P of epoch first_epoch + (first_step + t) / P. Job
 * t N + r fills rank r's batch of turn t into slot t mod depth of rank r.
 *
 *     reader                                            rank r
 *     take the next job (t, r)          [lock]
 *     sleep until released[r] + depth > t [lock]        poll until filled == t + 1    (acquire)
 *     write the samples into the slot                   use the batch
 *     filled = t + 1                    (release)       released[r] = t + 1, wake     [lock]
 *
 * Happens-before: the release store of `filled` makes the slot's contents visible to the rank
 * that reads t + 1 with acquire; the lock around `released` makes the rank's last read of a slot
 * precede the reader's next write to it.
 *
 * No deadlock: jobs are taken in order, so whenever a reader sleeps for rank r to release turn
 * t - depth, every batch of the turns before t is filled or being filled. Rank r needs nothing but
 * other ranks at turn t - depth to get on, and they need no batch that is not on its way.
 *
 * The bits of a slot are a function of (seed, epoch, step, rank): each reader keeps its own copy of
 * the order of the epoch it last worked in (its jobs ascend, so it computes each order once) and
 * shares nothing else but the data set, which nobody writes. What augmenting draws for a sample
 * is addressed too (augment.h).
 *
 * Order within a batch: with A passes, the rank's shards s with s mod A = 0 ascending, then those
 * with s mod A = 1, and so on; each shard's samples in the order of the epoch. This is the
 * order in which fold.h plans the rank's rows.
 *
 * A reader's sleep has no deadline of its own: it ends by a release or by ls_pipeline_destroy,
 * which wakes all readers; only ranks wait for readers, and they do it through ls_wait.
 */
#include "io/pipeline.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "io/sampler.h"
#include "numerics.h"

enum { SLOT_ALIGNMENT = 64 };

/* Where the arrays of one slot begin, in bytes; the slot's own extent is `bytes`. */
typedef struct {
    size_t x, answer, weight, index, bytes;
} slot_layout;

typedef struct {
    unsigned char *staging; /* borrowed: depth slots */
    slot_layout layout;     /* written before spawn */
    atomic_ullong *filled;  /* owned, [depth]: turn + 1 of the batch that the slot holds */
    uint64_t taken;         /* the rank's own: turns that next returned */
    uint64_t released;      /* lock: turns that the rank is done with */
} rank_queue;

typedef struct {
    ls_pipeline *pipeline;
    pthread_t thread;
    uint32_t *order; /* owned, [train samples] the order of `epoch` */
    void *scratch;   /* owned, a sample before it is augmented */
    uint32_t epoch;
    bool has_order;
} reader;

struct ls_pipeline {
    ls_pipeline_config config; /* written before spawn */
    size_t steps_per_epoch;    /* written before spawn */
    rank_queue *queue;         /* owned, [world_size] */
    reader *reader;            /* owned, [reader_count] */
    int started;               /* reader threads that run */
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* a slot was released, or stopping was set */
    uint64_t next_job;         /* lock */
    bool stopping;             /* lock */
};

static size_t round_up(size_t bytes)
{
    return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

/* Samples of a global batch of `samples` that `rank` owns. */
static size_t rank_samples(const ls_pipeline_config *config, int rank, size_t samples)
{
    const int begin = ls_rank_shard_begin(rank, config->shard_count, config->world_size);
    const int end = ls_rank_shard_begin(rank + 1, config->shard_count, config->world_size);
    return ls_shard_begin(end, samples, config->shard_count) -
           ls_shard_begin(begin, samples, config->shard_count);
}

/* The most samples that a batch of `rank` can have. A short batch can give a rank MORE than a full
 * one (V = 8: of 11 samples shard 3 gets one, of 10 two), so both that occur are asked. */
static size_t rank_capacity(const ls_pipeline_config *config, int rank)
{
    const size_t count = ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN];
    size_t most = 0;
    if (count >= config->global_batch) most = rank_samples(config, rank, config->global_batch);
    const size_t last = config->drop_remainder ? 0 : count % config->global_batch;
    const size_t in_last = rank_samples(config, rank, last);
    return in_last > most ? in_last : most;
}

static bool has_weights(const ls_pipeline_config *config)
{
    return config->class_weight || ls_dataset_describe(config->dataset)->weighted;
}

static slot_layout layout_of(const ls_pipeline_config *config, int rank)
{
    const ls_dataset_info *info = ls_dataset_describe(config->dataset);
    const size_t capacity = rank_capacity(config, rank);
    const size_t answer = info->task == LS_TASK_CLASSIFY ? sizeof(int32_t)
                                                         : info->outputs * sizeof(float);
    slot_layout at = { .x = 0 };
    at.answer = round_up(capacity * ls_dataset_raw_bytes(info));
    at.weight = at.answer + round_up(capacity * answer);
    at.index = at.weight + round_up(has_weights(config) ? capacity * sizeof(float) : 0);
    at.bytes = at.index + round_up(capacity * sizeof(uint32_t));
    if (at.bytes == 0) at.bytes = SLOT_ALIGNMENT; /* a rank without samples has slots too */
    return at;
}

size_t ls_pipeline_staging_bytes(const ls_pipeline_config *config, int rank)
{
    return layout_of(config, rank).bytes * (size_t)config->depth;
}

/* -- filling --------------------------------------------------------------------------------- */

static uint32_t turn_epoch(const ls_pipeline *p, uint64_t turn)
{
    return p->config.first_epoch +
           (uint32_t)((p->config.first_step + turn) / p->steps_per_epoch);
}

static size_t turn_step(const ls_pipeline *p, uint64_t turn)
{
    return (size_t)((p->config.first_step + turn) % p->steps_per_epoch);
}

/* The arrays of the slot that holds `turn`. */
typedef struct {
    char *x;         /* [capacity, ls_dataset_raw_bytes] */
    int32_t *label;  /* [capacity] CLASSIFY, else NULL */
    float *target;   /* [capacity, outputs] REGRESS, else NULL */
    float *weight;   /* [capacity], or NULL: all 1 */
    uint32_t *index; /* [capacity] */
} slot_arrays;

static slot_arrays slot_at(const ls_pipeline *p, int rank, uint64_t turn)
{
    const rank_queue *queue = &p->queue[rank];
    const size_t slot = (size_t)(turn % (uint64_t)p->config.depth);
    unsigned char *base = queue->staging + slot * queue->layout.bytes;
    void *answer = base + queue->layout.answer;
    const bool classify = ls_dataset_describe(p->config.dataset)->task == LS_TASK_CLASSIFY;
    return (slot_arrays){
        .x = (void *)(base + queue->layout.x),
        .label = classify ? answer : NULL,
        .target = classify ? NULL : answer,
        .weight = has_weights(&p->config) ? (void *)(base + queue->layout.weight) : NULL,
        .index = (void *)(base + queue->layout.index),
    };
}

/* Samples of the global batch of `turn`. */
static size_t turn_samples(const ls_pipeline *p, uint64_t turn)
{
    const size_t count = ls_dataset_describe(p->config.dataset)->count[LS_PART_TRAIN];
    return ls_sampler_step_samples(count, p->config.global_batch, turn_step(p, turn));
}

/* Write sample `index` of the training part as row `row`, as `epoch` sees it. */
static void fill_row(const reader *me, uint32_t epoch, const slot_arrays *slot, size_t row,
                     uint32_t index)
{
    const ls_pipeline_config *config = &me->pipeline->config;
    const ls_dataset *dataset = config->dataset;
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    char *x = slot->x + row * ls_dataset_raw_bytes(info);
    if (ls_augment_is_none(&config->augment)) {
        ls_dataset_read_raw(dataset, LS_PART_TRAIN, index, x);
    } else {
        ls_augment_read(&config->augment, dataset, LS_PART_TRAIN, index, config->seed, epoch,
                        me->scratch, x);
    }
    slot->index[row] = index;
    if (slot->label) {
        slot->label[row] = ls_dataset_label(dataset, LS_PART_TRAIN, index);
    } else {
        ls_dataset_target(dataset, LS_PART_TRAIN, index, slot->target + row * info->outputs);
    }
    if (slot->weight) {
        const float of_class = config->class_weight ? config->class_weight[slot->label[row]] : 1.0f;
        slot->weight[row] = ls_dataset_weight(dataset, index) * of_class;
    }
}

static void fill_slot(const reader *me, int rank, uint64_t turn)
{
    const ls_pipeline *p = me->pipeline;
    const slot_arrays slot = slot_at(p, rank, turn);
    const size_t samples = turn_samples(p, turn);
    const int shards = p->config.shard_count;
    const int first = ls_rank_shard_begin(rank, shards, p->config.world_size);
    const int end = ls_rank_shard_begin(rank + 1, shards, p->config.world_size);
    const uint32_t epoch = turn_epoch(p, turn);
    const uint32_t *step_order = me->order + turn_step(p, turn) * p->config.global_batch;
    size_t row = 0;
    for (int pass = 0; pass < p->config.accumulate; pass++) {
        for (int s = first; s < end; s++) {
            if (s % p->config.accumulate != pass) continue;
            const size_t stop = ls_shard_begin(s + 1, samples, shards);
            for (size_t i = ls_shard_begin(s, samples, shards); i < stop; i++) {
                fill_row(me, epoch, &slot, row++, step_order[i]);
            }
        }
    }
    assert(row == rank_samples(&p->config, rank, samples));
}

static void prepare_order(reader *me, uint32_t epoch)
{
    const ls_pipeline_config *config = &me->pipeline->config;
    if (me->has_order && me->epoch == epoch) return;
    ls_sampler_order(config->seed, epoch, config->shuffle,
                     ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN], me->order);
    me->epoch = epoch;
    me->has_order = true;
}

/* Take the next job and wait until its slot is free. False: nothing is left, or stopping. */
static bool take_job(ls_pipeline *p, int *rank, uint64_t *turn)
{
    const uint64_t world = (uint64_t)p->config.world_size;
    bool taken = false;
    pthread_mutex_lock(&p->lock);
    if (!p->stopping && p->next_job < p->config.step_count * world) {
        const uint64_t job = p->next_job++;
        *rank = (int)(job % world);
        *turn = job / world;
        while (!p->stopping &&
               p->queue[*rank].released + (uint64_t)p->config.depth <= *turn) {
            pthread_cond_wait(&p->changed, &p->lock);
        }
        taken = !p->stopping;
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

static void *reader_main(void *arg)
{
    reader *me = arg;
    ls_pipeline *p = me->pipeline;
    int rank = 0;
    uint64_t turn = 0;
    while (take_job(p, &rank, &turn)) {
        prepare_order(me, turn_epoch(p, turn));
        fill_slot(me, rank, turn);
        atomic_ullong *filled = &p->queue[rank].filled[turn % (uint64_t)p->config.depth];
        atomic_store_explicit(filled, turn + 1, memory_order_release);
        if (p->config.group) atomic_fetch_add(ls_group_progress(p->config.group), 1);
    }
    return NULL;
}

/* -- life ------------------------------------------------------------------------------------ */

static ls_status check_config(const ls_pipeline_config *config, size_t steps_per_epoch)
{
    assert(config->global_batch >= 1 && config->world_size >= 1 && config->reader_count >= 1);
    assert(config->depth >= 2 && config->accumulate >= 1);
    assert(config->world_size <= config->shard_count);
    if (steps_per_epoch == 0) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "no whole global batch: %zu training samples, global batch %zu, and the "
                       "remainder is dropped",
                       ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN],
                       config->global_batch);
    }
    return LS_OK;
}

static ls_status alloc_queues(ls_pipeline *p, void *const *staging)
{
    p->queue = calloc((size_t)p->config.world_size, sizeof *p->queue);
    p->reader = calloc((size_t)p->config.reader_count, sizeof *p->reader);
    if (!p->queue || !p->reader) return ls_fail(LS_ERR_MEMORY, "no memory for the input queues");
    for (int r = 0; r < p->config.world_size; r++) {
        rank_queue *queue = &p->queue[r];
        queue->staging = staging[r];
        queue->layout = layout_of(&p->config, r);
        queue->filled = calloc((size_t)p->config.depth, sizeof *queue->filled);
        if (!queue->filled) return ls_fail(LS_ERR_MEMORY, "no memory for the input queues");
        for (int d = 0; d < p->config.depth; d++) atomic_init(&queue->filled[d], 0);
    }
    return LS_OK;
}

static ls_status start_readers(ls_pipeline *p)
{
    const size_t count = ls_dataset_describe(p->config.dataset)->count[LS_PART_TRAIN];
    for (int i = 0; i < p->config.reader_count; i++) {
        p->reader[i].pipeline = p;
        p->reader[i].order = malloc(count * sizeof(uint32_t));
        p->reader[i].scratch =
            malloc(ls_augment_scratch_bytes(ls_dataset_describe(p->config.dataset)));
        if (!p->reader[i].order || !p->reader[i].scratch) {
            return ls_fail(LS_ERR_MEMORY, "no memory for the order of %zu samples", count);
        }
        if (pthread_create(&p->reader[i].thread, NULL, reader_main, &p->reader[i]) != 0) {
            return ls_fail(LS_ERR_MEMORY, "reader thread %d of %d did not start", i,
                           p->config.reader_count);
        }
        p->started++;
    }
    return LS_OK;
}

ls_status ls_pipeline_create(const ls_pipeline_config *config, void *const *staging,
                             ls_pipeline **out)
{
    const size_t count = ls_dataset_describe(config->dataset)->count[LS_PART_TRAIN];
    const size_t steps = ls_sampler_step_count(count, config->global_batch, config->drop_remainder);
    LS_TRY(check_config(config, steps));

    ls_pipeline *p = calloc(1, sizeof *p);
    if (!p) return ls_fail(LS_ERR_MEMORY, "no memory for the input pipeline");
    p->config = *config;
    p->steps_per_epoch = steps;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);

    ls_status status = alloc_queues(p, staging);
    if (status == LS_OK) status = start_readers(p);
    if (status == LS_OK) {
        *out = p;
        p = NULL;
    }
    ls_pipeline_destroy(p);
    return status;
}

void ls_pipeline_destroy(ls_pipeline *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->reader[i].thread, NULL);

    for (int i = 0; p->reader && i < p->config.reader_count; i++) {
        free(p->reader[i].order);
        free(p->reader[i].scratch);
    }
    for (int r = 0; p->queue && r < p->config.world_size; r++) free(p->queue[r].filled);
    free(p->reader);
    free(p->queue);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* -- taking ---------------------------------------------------------------------------------- */

ls_status ls_pipeline_next(ls_pipeline *p, int rank, ls_batch *out)
{
    rank_queue *queue = &p->queue[rank];
    const uint64_t turn = queue->taken;
    if (turn >= p->config.step_count) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d asks for batch %llu of %llu", rank,
                       (unsigned long long)turn + 1, (unsigned long long)p->config.step_count);
    }
    atomic_ullong *filled = &queue->filled[turn % (uint64_t)p->config.depth];
    if (atomic_load_explicit(filled, memory_order_acquire) != turn + 1) {
        ls_status status = LS_OK;
        ls_wait wait = ls_wait_begin(p->config.group);
        while (status == LS_OK &&
               atomic_load_explicit(filled, memory_order_acquire) != turn + 1) {
            status = ls_wait_poll(&wait);
        }
        if (status == LS_ERR_TIMEOUT) {
            return ls_fail(status, "rank %d: the input batch of epoch %u, step %zu did not come",
                           rank, turn_epoch(p, turn) + 1, turn_step(p, turn) + 1);
        }
        LS_TRY(status);
    }
    const slot_arrays slot = slot_at(p, rank, turn);
    const size_t samples = turn_samples(p, turn);
    *out = (ls_batch){
        .epoch = turn_epoch(p, turn),
        .step = turn_step(p, turn),
        .batch_samples = samples,
        .samples = rank_samples(&p->config, rank, samples),
        .x = slot.x,
        .label = slot.label,
        .target = slot.target,
        .weight = slot.weight,
        .index = slot.index,
    };
    queue->taken++;
    return LS_OK;
}

void ls_pipeline_release(ls_pipeline *p, int rank)
{
    pthread_mutex_lock(&p->lock);
    assert(p->queue[rank].released < p->queue[rank].taken);
    p->queue[rank].released++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
