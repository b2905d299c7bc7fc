/* SPDX-License-Identifier: MIT */
/* machine.c -- what a run runs on: a device, a replica and events for each rank, the links between
 * them, the input pipeline.
 *
 *     devices -> topology -> buckets -> comm -> replicas -> pipeline
 *
 * Each is made from what stands before it, by the main thread, before a rank starts: how buckets
 * are cut decides how large the comm's slots are, and how many events a rank needs. From then on
 * nothing is allocated. What a rank's events mean: ready[b] is recorded when bucket b's sums are
 * complete, done[b] when their exchange is; behind those of the buckets stand a pair for the rows
 * of shard sums and one for the rows of batch normalisation (run.h).
 *
 * Cores. Where host replicas of several threads need all cores of the process, neither more nor
 * fewer, each has a part of them, in rank order: its rank's thread and its compute threads stay
 * there. The main thread opens its device and fills its memory while it is there itself (cores.c
 * says why). Otherwise the system places all threads; it also places the readers of samples,
 * always. A replica of one thread does not stay: when a reader wants its core it could not give way
 * to another, nor leave its work to a thread beside it (4 % of a step of `mnist-mlp`, on two
 * cores). Who wants fewer cores gives the process fewer (taskset).
 */
#include <stdlib.h>

#include "train/explain.h"
#include "train/memory.h"
#include "train/run.h"

enum { TEST_ROWS = 64 }; /* of the test part at a time, in memory beside that of a step */

/* -- cores ------------------------------------------------------------------------------------- */

static void plan_cores(ls_run *run)
{
    const int wanted = run->world_size * run->threads;
    ls_cores_read(&run->cores);
    run->stays = run->world_size > 1 && run->threads > 1
                 && run->list.device[0].kind == LS_DEVICE_HOST
                 && wanted == run->cores.count && wanted <= LS_CORE_MAX;
}

void ls_machine_enter(const ls_run *run, int rank)
{
    if (run->stays) (void)ls_cores_enter(&run->cores, rank * run->threads, run->threads);
}

/* Back to all cores. */
static void leave_cores(const ls_run *run)
{
    if (run->stays) (void)ls_cores_enter(&run->cores, 0, run->cores.count);
}

/* -- opening ----------------------------------------------------------------------------------- */

static ls_status open_device(ls_run *run, int rank)
{
    ls_rank *k = &run->rank[rank];
    const ls_observer *observer = run->observer;
    const bool spin = run->world_size * run->threads <= run->cores.count;
    if (observer->open_device)
        LS_TRY(observer->open_device(observer->context, rank, run->threads,
                                     ls_group_progress(run->group), &k->device));
    else
        LS_TRY(ls_device_open(&run->list.device[rank], run->threads, spin,
                              ls_group_progress(run->group), &k->device));
    return k->device->kernels ? LS_OK : ls_kernels_bind(k->device);
}

static ls_status open_devices(ls_run *run)
{
    ls_device *device[LS_WORLD_MAX];
    run->rank = calloc((size_t)run->world_size, sizeof *run->rank);
    run->diverged = calloc((size_t)run->world_size, sizeof *run->diverged);
    if (!run->rank || !run->diverged)
        return ls_fail(LS_ERR_MEMORY, "no memory for %d ranks", run->world_size);
    LS_TRY(ls_group_create(run->world_size, run->config.timeout_s, &run->group));
    plan_cores(run);
    for (int r = 0; r < run->world_size; r++) {
        run->rank[r].run = run;
        run->rank[r].rank = r;
        ls_machine_enter(run, r);
        const ls_status status = open_device(run, r);
        leave_cores(run);
        LS_TRY(status);
        device[r] = run->rank[r].device;
    }
    return ls_topology_init(&run->topology, device, run->world_size, run->config.p2p);
}

/* Buckets follow the arena: the tensors of the last layer first. */
static ls_status plan_buckets(ls_run *run)
{
    const ls_model *model = &run->model;
    const int count = model->parameter_count;
    size_t *end = calloc((size_t)count + 1, sizeof *end);
    run->bucket = calloc((size_t)count + 1, sizeof *run->bucket);
    if (!end || !run->bucket) {
        free(end);
        return ls_fail(LS_ERR_MEMORY, "no memory to plan %d tensors", count);
    }
    /* A tensor's end is the next begin in the arena. Count how many begin before or at it. */
    for (int p = 0; p < count; p++) {
        int place = 0;
        size_t next = model->arena_floats;
        for (int q = 0; q < count; q++) {
            const size_t begin = model->parameter[q].begin;
            place += begin < model->parameter[p].begin;
            if (begin > model->parameter[p].begin && begin < next) next = begin;
        }
        end[place] = next;
    }
    run->bucket_count = ls_bucket_plan(end, count, run->config.bucket_bytes, run->bucket);
    free(end);
    return LS_OK;
}

/* Bytes of the largest row that a step gathers: of sums, or of batch normalisation. */
static size_t largest_row(const ls_model *model)
{
    size_t most = sizeof(ls_shard_sum);
    for (int l = 0; l < model->layer_count; l++) {
        const ls_layer *layer = &model->layer[l];
        const size_t row = 2 * layer->out.channels * sizeof(float);
        if (layer->op == LS_OP_BATCHNORM && row > most) most = row;
    }
    return most;
}

static ls_status open_comm(ls_run *run)
{
    ls_device *device[LS_WORLD_MAX];
    size_t largest = 0;
    for (int r = 0; r < run->world_size; r++) device[r] = run->rank[r].device;
    LS_TRY(plan_buckets(run));
    for (int b = 0; b < run->bucket_count; b++)
        if (run->bucket[b].count > largest) largest = run->bucket[b].count;
    const ls_comm_config config = {
        .algorithm = run->config.allreduce,
        .order = run->config.order,
        .shard_count = run->config.shards,
        .bucket_floats_max = largest,
        .bucket_count_max = run->bucket_count + LS_EVENTS_OF_ROWS,
        .gather_bytes_max = largest_row(&run->model),
    };
    return ls_comm_create(run->group, device, &run->topology, &config, &run->comm);
}

static ls_status open_rank(ls_run *run, int rank)
{
    ls_rank *k = &run->rank[rank];
    const size_t events = (size_t)run->bucket_count + LS_EVENTS_OF_ROWS;
    LS_TRY(ls_replica_init(&k->replica, &run->replica_config, rank, k->device));
    k->replica.exchange = (ls_row_exchange){ ls_step_gather_rows, k };
    LS_TRY(ls_evaluation_staging_init(&k->staging, &k->replica));
    k->ready = calloc(events, sizeof *k->ready);
    k->done = calloc(events, sizeof *k->done);
    if (!k->ready || !k->done) return ls_fail(LS_ERR_MEMORY, "no memory for %zu events", events);
    for (size_t e = 0; e < events; e++) {
        LS_TRY(ls_event_init(&k->ready[e], k->device));
        LS_TRY(ls_event_init(&k->done[e], k->device));
    }
    return LS_OK;
}

static ls_pipeline_config pipeline_config(const ls_run *run, const ls_progress *start)
{
    const ls_config *config = &run->config;
    const uint64_t begin = start->epoch * run->steps_per_epoch + start->step_of_epoch;
    return (ls_pipeline_config){
        .dataset = run->dataset,
        .augment = config->augment,
        .seed = config->seed,
        .shuffle = config->shuffle,
        .drop_remainder = config->drop_remainder,
        .global_batch = config->global_batch,
        .class_weight = run->class_weight,
        .world_size = run->world_size,
        .shard_count = config->shards,
        .accumulate = config->accumulate,
        .reader_count = config->readers,
        .depth = LS_PIPELINE_DEPTH,
        .cache_bytes = config->cache_bytes,
        .first_epoch = (uint32_t)start->epoch,
        .first_step = start->step_of_epoch,
        .step_count = config->epochs > 0 ? config->epochs * run->steps_per_epoch - begin
                                         : UINT64_MAX,
        .group = run->group,
    };
}

static ls_status open_staging(ls_run *run, const ls_pipeline_config *pipeline)
{
    for (int r = 0; r < run->world_size; r++) {
        ls_rank *k = &run->rank[r];
        LS_TRY(ls_pinned_alloc(k->device, ls_pipeline_staging_bytes(pipeline, r),
                               &k->batch_memory));
    }
    return LS_OK;
}

static ls_status open_pipeline(ls_run *run, const ls_pipeline_config *pipeline)
{
    void *staging[LS_WORLD_MAX];
    for (int r = 0; r < run->world_size; r++) staging[r] = run->rank[r].batch_memory;
    return ls_pipeline_create(pipeline, staging, &run->pipeline);
}

/* The most samples that a batch can hold: no more than there are, where that is known. */
static size_t batch_samples_max(const ls_config *config, const ls_dataset_info *data)
{
    const size_t samples = data->count[LS_PART_TRAIN];
    return samples > 0 && samples < config->global_batch ? samples : config->global_batch;
}

static void plan_replicas(ls_run *run, const ls_dataset_info *data)
{
    const ls_config *config = &run->config;
    run->replica_config = (ls_replica_config){
        .model = &run->model,
        .data = data,
        .table = run->dataset ? ls_dataset_table(run->dataset) : NULL,
        .world_size = run->world_size,
        .shard_count = config->shards,
        .accumulate = config->accumulate,
        .global_batch = batch_samples_max(config, data),
        .capacity_min = TEST_ROWS,
        .top_k = run->metrics.top_k,
        .weighted = run->class_weight || data->weighted,
        .slot_count = ls_optimizer_slot_count(config->optimizer),
        .rule = run->rule,
        .average = config->ema > 0,
        .seed = config->seed,
        .training = true,
        .precision = config->precision,
        .keeps_good = config->nonfinite == LS_NONFINITE_ROLLBACK,
        .shard_statistics = config->batchnorm == LS_BATCHNORM_SHARD,
    };
}

/* All that takes memory, on devices that are open. */
static ls_status open_memory(ls_run *run, const ls_pipeline_config *pipeline)
{
    LS_TRY(open_comm(run));
    for (int r = 0; r < run->world_size; r++) {
        ls_machine_enter(run, r);
        const ls_status status = open_rank(run, r);
        leave_cores(run);
        LS_TRY(status);
    }
    return run->dataset ? open_staging(run, pipeline) : LS_OK;
}

ls_status ls_machine_open_memory(ls_run *run, const ls_dataset_info *data)
{
    plan_replicas(run, data);
    LS_TRY(open_devices(run));
    const ls_pipeline_config pipeline = pipeline_config(run, &(ls_progress){ .epoch = 0 });
    return open_memory(run, &pipeline);
}

ls_status ls_machine_open(ls_run *run, const ls_progress *start)
{
    plan_replicas(run, ls_dataset_describe(run->dataset));
    LS_TRY(open_devices(run));
    LS_TRY(ls_memory_check(run));
    const ls_pipeline_config pipeline = pipeline_config(run, start);
    LS_TRY(open_memory(run, &pipeline));
    if (run->config.explain_step > 0) LS_TRY(ls_explanation_create(run));
    LS_TRY(ls_evaluation_job_init(&run->test, run->dataset, LS_PART_TEST, run->world_size,
                                  run->group, ls_model_outputs(&run->model),
                                  ls_evaluation_needs_rows(&run->metrics)));
    return open_pipeline(run, &pipeline);
}

/* -- closing ----------------------------------------------------------------------------------- */

bool ls_machine_is_drained(ls_run *run)
{
    for (int r = 0; r < run->world_size; r++) {
        if (!ls_comm_drain(run->comm, r, LS_SETTLE_SECONDS)) return false;
        if (!ls_stream_settles(&run->rank[r].replica.compute, LS_SETTLE_SECONDS)) return false;
    }
    return true;
}

static void close_rank(ls_run *run, ls_rank *k)
{
    const size_t events = (size_t)run->bucket_count + LS_EVENTS_OF_ROWS;
    for (size_t e = 0; e < events; e++) {
        if (k->ready) ls_event_free(&k->ready[e]);
        if (k->done) ls_event_free(&k->done[e]);
    }
    free(k->done);
    free(k->ready);
    ls_evaluation_staging_free(&k->staging);
    ls_replica_free(&k->replica);
    if (k->device) ls_pinned_release(k->device, k->batch_memory);
}

void ls_machine_close(ls_run *run)
{
    ls_pipeline_destroy(run->pipeline);
    ls_evaluation_job_free(&run->test);
    ls_explanation_free(run->explanation);
    for (int r = run->world_size - 1; run->rank && r >= 0; r--) close_rank(run, &run->rank[r]);
    ls_comm_destroy(run->comm);
    for (int r = run->world_size - 1; r >= 0; r--) {
        if (run->rank) ls_device_close(run->rank[r].device);
        if (run->diverged) free(run->diverged[r]);
    }
    ls_group_destroy(run->group);
    free(run->bucket);
    free(run->diverged);
    free(run->rank);
}
