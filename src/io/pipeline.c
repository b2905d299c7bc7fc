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
 * shares nothing else but the data set, which nobody writes, and a cache of samples that were read
 * from it. What augmenting draws for a sample is addressed too (augment.h).
 *
 * A reader's sleep has no deadline of its own: it ends by a release or by ls_pipeline_destroy,
 * which wakes all readers; only ranks wait for readers, and they do it through ls_wait.
 */
#include "io/pipeline.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/batch_slot.h"
#include "io/sampler.h"

enum { STACK_BYTES = 1 << 20 }; /* of a reader */

typedef struct {
    unsigned char *staging; /* borrowed: depth slots */
    ls_slot_layout layout;  /* written before spawn */
    atomic_ullong *filled;  /* owned, [depth]: turn + 1 of the batch that the slot holds */
    uint64_t taken;         /* the rank's own: turns that next returned */
    uint64_t released;      /* lock: turns that the rank is done with */
    atomic_ullong waited_ns; /* in ls_pipeline_next; the rank's own to write */
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
    ls_sample_cache *cache;    /* owned; NULL: none */
    int started;               /* reader threads that run */
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* a slot was released, or stopping was set */
    uint64_t next_job;         /* lock */
    bool stopping;             /* lock */
    atomic_ullong busy_ns, bytes; /* ls_input_counts, but for what ranks count */
};

static uint64_t nanoseconds(double seconds) { return (uint64_t)(seconds * 1e9); }

size_t ls_pipeline_staging_bytes(const ls_pipeline_config *config, int rank)
{
    return ls_slot_layout_of(config, rank).bytes * (size_t)config->depth;
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

/* The slot of `rank` that holds `turn`. */
static ls_slot slot_at(const ls_pipeline *p, int rank, uint64_t turn)
{
    const rank_queue *queue = &p->queue[rank];
    const size_t slot = (size_t)(turn % (uint64_t)p->config.depth);
    return ls_slot_at(&p->config, &queue->layout, queue->staging + slot * queue->layout.bytes);
}

/* Samples of the global batch of `turn`. */
static size_t turn_samples(const ls_pipeline *p, uint64_t turn)
{
    const size_t count = ls_dataset_describe(p->config.dataset)->count[LS_PART_TRAIN];
    return ls_sampler_step_samples(count, p->config.global_batch, turn_step(p, turn));
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

static void fill_turn(reader *me, int rank, uint64_t turn)
{
    ls_pipeline *p = me->pipeline;
    const ls_slot slot = slot_at(p, rank, turn);
    const size_t samples = turn_samples(p, turn);
    const double begin = ls_clock();
    prepare_order(me, turn_epoch(p, turn));
    const size_t read = ls_slot_fill(&p->config, rank, me->epoch,
                                     me->order + turn_step(p, turn) * p->config.global_batch,
                                     samples, p->cache, me->scratch, &slot);
    const uint64_t bytes = (uint64_t)read * ls_dataset_stored_bytes(p->config.dataset);
    atomic_fetch_add_explicit(&p->busy_ns, nanoseconds(ls_clock() - begin), memory_order_relaxed);
    atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
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
    ls_thread_give_way(); /* there are batches in stock; a rank that is stopped stops all ranks */
    while (take_job(p, &rank, &turn)) {
        fill_turn(me, rank, turn);
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
        queue->layout = ls_slot_layout_of(&p->config, r);
        queue->filled = calloc((size_t)p->config.depth, sizeof *queue->filled);
        if (!queue->filled) return ls_fail(LS_ERR_MEMORY, "no memory for the input queues");
        for (int d = 0; d < p->config.depth; d++) atomic_init(&queue->filled[d], 0);
        atomic_init(&queue->waited_ns, 0);
    }
    return LS_OK;
}

static ls_status start_readers(ls_pipeline *p)
{
    const size_t count = ls_dataset_describe(p->config.dataset)->count[LS_PART_TRAIN];
    for (int i = 0; i < p->config.reader_count; i++) {
        reader *me = &p->reader[i];
        me->pipeline = p;
        me->order = malloc(count * sizeof(uint32_t));
        me->scratch = malloc(ls_augment_scratch_bytes(ls_dataset_describe(p->config.dataset)));
        if (!me->order || !me->scratch) {
            return ls_fail(LS_ERR_MEMORY, "no memory for the order of %zu samples", count);
        }
        const int failed = ls_thread_start(&me->thread, STACK_BYTES, reader_main, me);
        if (failed != 0) {
            return ls_fail(LS_ERR_MEMORY, "reader thread %d of %d not started: %s", i + 1,
                           p->config.reader_count, strerror(failed));
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
    atomic_init(&p->busy_ns, 0);
    atomic_init(&p->bytes, 0);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);

    ls_status status = alloc_queues(p, staging);
    if (status == LS_OK && config->cache_bytes > 0) {
        status = ls_sample_cache_create(
            count, ls_dataset_raw_bytes(ls_dataset_describe(config->dataset)),
            config->cache_bytes, &p->cache);
    }
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
    ls_sample_cache_destroy(p->cache);
    free(p->reader);
    free(p->queue);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* -- taking ---------------------------------------------------------------------------------- */

static bool is_filled(const ls_pipeline *p, const rank_queue *queue, uint64_t turn)
{
    atomic_ullong *filled = &queue->filled[turn % (uint64_t)p->config.depth];
    return atomic_load_explicit(filled, memory_order_acquire) == turn + 1;
}

/* How many batches, from `turn` on, are filled. */
static int count_ready(const ls_pipeline *p, const rank_queue *queue, uint64_t turn)
{
    int ready = 0;
    while (ready < p->config.depth && is_filled(p, queue, turn + (uint64_t)ready)) ready++;
    return ready;
}

static ls_status wait_filled(ls_pipeline *p, int rank, uint64_t turn)
{
    rank_queue *queue = &p->queue[rank];
    const double begin = ls_clock();
    ls_status status = LS_OK;
    ls_wait wait = ls_wait_begin(p->config.group);
    while (status == LS_OK && !is_filled(p, queue, turn)) status = ls_wait_poll(&wait);
    atomic_fetch_add_explicit(&queue->waited_ns, nanoseconds(ls_clock() - begin),
                              memory_order_relaxed);
    if (status != LS_ERR_TIMEOUT) return status;
    return ls_fail(status, "rank %d: the input batch of epoch %u, step %zu did not come", rank,
                   turn_epoch(p, turn) + 1, turn_step(p, turn) + 1);
}

ls_status ls_pipeline_next(ls_pipeline *p, int rank, ls_batch *out)
{
    rank_queue *queue = &p->queue[rank];
    const uint64_t turn = queue->taken;
    if (turn >= p->config.step_count) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d asks for batch %llu of %llu", rank,
                       (unsigned long long)turn + 1, (unsigned long long)p->config.step_count);
    }
    const int ready = count_ready(p, queue, turn);
    if (ready == 0) LS_TRY(wait_filled(p, rank, turn));
    const ls_slot slot = slot_at(p, rank, turn);
    const size_t samples = turn_samples(p, turn);
    *out = (ls_batch){
        .epoch = turn_epoch(p, turn),
        .step = turn_step(p, turn),
        .batch_samples = samples,
        .samples = ls_slot_samples(&p->config, rank, samples),
        .ready = ready,
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

uint64_t ls_pipeline_waited_ns(const ls_pipeline *p, int rank)
{
    return atomic_load_explicit(&p->queue[rank].waited_ns, memory_order_relaxed);
}

ls_input_counts ls_pipeline_counts(const ls_pipeline *p)
{
    ls_input_counts counts = {
        .busy_ns = atomic_load_explicit(&p->busy_ns, memory_order_relaxed),
        .bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed),
    };
    for (int r = 0; r < p->config.world_size; r++) {
        const uint64_t waited = ls_pipeline_waited_ns(p, r);
        if (waited > counts.waited_ns) counts.waited_ns = waited;
    }
    return counts;
}
