/* SPDX-License-Identifier: MIT */
/* trainer.c -- a run is opened, trained, and closed.
 *
 * Opening goes from what costs nothing to what costs much, so that a mistake is told before
 * anything is made: configuration, devices, data, model, the checkpoint to continue; then the run
 * folder; then memory, links, threads. Closing frees in reverse. Everything between is rank.c's.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/sampler.h"
#include "train/explain.h"
#include "train/run.h"

enum { EVALUATION_ROWS = 64, PIPELINE_DEPTH = 3 };

static const double DRAIN_SECONDS = 1;

/* -- what the run is --------------------------------------------------------------------------- */

/* Read the checkpoint to continue, if any, into the configuration. *checkpoint stays NULL
 * without one. */
static ls_status open_resumed(ls_run *run, ls_checkpoint **checkpoint, ls_saved_run *saved)
{
    run->model_given = ls_config_is_given(&run->config, ls_option_find("model"));
    LS_TRY(ls_resume_find(&run->config, run->resume_path, sizeof run->resume_path));
    if (!run->resume_path[0]) return LS_OK;
    LS_TRY(ls_checkpoint_open(run->resume_path, checkpoint));
    LS_TRY(ls_saved_run_init(saved, *checkpoint, run->resume_path));
    const char *devices = ls_config_is_given(&run->config, ls_option_find("devices"))
                              ? run->config.devices : saved->config.devices;
    LS_TRY(ls_device_list_parse(devices, run->config.p2p, &run->list));
    return ls_resume_config(&run->config, saved, run->list.count);
}

static ls_status resolve_config(ls_run *run)
{
    ls_config *config = &run->config;
    LS_TRY(ls_config_check(config));
    LS_TRY(ls_device_list_parse(config->devices, config->p2p, &run->list));
    run->world_size = run->list.count;
    if (run->world_size > config->shards)
        return ls_fail(LS_ERR_ARGUMENT, "--devices %s: %d replicas, but only %d shards to share "
                       "out; use --shards %d or more (it is part of the numerics class)",
                       config->devices, run->world_size, config->shards, run->world_size);
    ls_config_fill(config, run->world_size);
    run->threads = ls_replica_threads(config->threads, run->world_size);
    ls_numerics_class(config, run->world_size, run->numerics_class, sizeof run->numerics_class);
    snprintf(run->world, sizeof run->world, "%dx%s", run->world_size,
             run->list.device[0].kind == LS_DEVICE_HOST ? "host" : "cuda");
    return LS_OK;
}

/* The model that the user names; a run that continues has its own, `stored`, which must be equal if
 * one is named at all. */
static ls_status open_model(ls_run *run, const char *stored)
{
    const ls_config *config = &run->config;
    const ls_dataset_info *data = ls_dataset_describe(run->dataset);
    char *text = NULL;
    if (stored && !run->model_given)
        return ls_model_init(&run->model, config->model, stored, data);
    LS_TRY(ls_model_text(config->model, &text));
    const ls_status status = ls_model_init(&run->model, config->model, text, data);
    free(text);
    LS_TRY(status);
    if (stored && strcmp(run->model.text, stored) != 0)
        return ls_fail(LS_ERR_ARGUMENT, "model %s differs from the text stored in %s",
                       config->model, run->resume_path);
    return LS_OK;
}

static ls_status open_data_and_model(ls_run *run, const ls_saved_run *saved)
{
    ls_config *config = &run->config;
    LS_TRY(ls_dataset_open(config->data, &run->dataset));
    const ls_dataset_info *data = ls_dataset_describe(run->dataset);
    const bool resumed = run->resume_path[0] != '\0';
    if (resumed && strcmp(ls_dataset_identity(run->dataset), saved->text[LS_SAVED_IDENTITY]) != 0)
        return ls_fail(LS_ERR_FORMAT, "--data %s: not the data of the run that continues: "
                       "identity %.16s..., expected %.16s... (%s)", config->data,
                       ls_dataset_identity(run->dataset), saved->text[LS_SAVED_IDENTITY],
                       saved->text[LS_SAVED_DATA]);
    LS_TRY(open_model(run, resumed ? saved->text[LS_SAVED_MODEL] : NULL));
    if (config->until.metric[0]
        && !ls_history_has(config->until.metric, data->task, data->count[LS_PART_TEST] > 0))
        return ls_fail(LS_ERR_ARGUMENT, "--until %s: this run has no such column (loss, %s%s)",
                       config->until.metric, ls_metric_name(data->task, 0),
                       data->count[LS_PART_TEST] > 0 ? ", and both with val_"
                                                     : "; there is no test part");
    return LS_OK;
}

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Steps of an epoch and of the whole run. */
static ls_status plan_steps(ls_run *run, const ls_progress *start)
{
    ls_config *config = &run->config;
    const size_t samples = ls_dataset_describe(run->dataset)->count[LS_PART_TRAIN];
    run->steps_per_epoch = ls_sampler_step_count(samples, config->global_batch,
                                                 config->drop_remainder);
    if (run->steps_per_epoch == 0)
        return ls_fail(LS_ERR_ARGUMENT, "--drop-remainder: %zu training samples do not fill one "
                       "batch of %" PRIu64, samples, config->global_batch);
    run->last_step = config->epochs > 0 ? config->epochs * run->steps_per_epoch : UINT64_MAX;
    if (config->steps > 0) run->last_step = min_u64(run->last_step, config->steps);
    ls_schedule_fill(&config->schedule, run->last_step);
    ls_schedule_describe(&config->schedule, run->schedule, sizeof run->schedule);
    if (run->resume_path[0])
        snprintf(run->resume_line, sizeof run->resume_line,
                 "continues %.200s at step %" PRIu64 ", epoch %" PRIu64 ", sample %" PRIu64
                 ", lr %g", run->resume_path, start->step, start->epoch + 1,
                 start->step_of_epoch * config->global_batch,
                 ls_schedule_rate(&config->schedule, config->lr, start->step));
    return LS_OK;
}

/* -- memory and machines ----------------------------------------------------------------------- */

static ls_status open_device(ls_run *run, int rank)
{
    ls_rank *k = &run->rank[rank];
    const ls_observer *observer = run->observer;
    const bool spin = run->world_size * run->threads <= ls_core_count();
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
    for (int r = 0; r < run->world_size; r++) {
        run->rank[r].run = run;
        run->rank[r].rank = r;
        LS_TRY(open_device(run, r));
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
        .bucket_count_max = run->bucket_count + 2,
        .gather_bytes_max = sizeof(ls_shard_sum),
    };
    return ls_comm_create(run->group, device, &run->topology, &config, &run->comm);
}

static ls_status open_rank(ls_run *run, int rank)
{
    ls_rank *k = &run->rank[rank];
    const size_t events = (size_t)run->bucket_count + 1;
    LS_TRY(ls_replica_init(&k->replica, &run->replica_config, rank, k->device));
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

static ls_status open_pipeline(ls_run *run, const ls_progress *start)
{
    const ls_config *config = &run->config;
    void *staging[LS_WORLD_MAX];
    const uint64_t begin = start->epoch * run->steps_per_epoch + start->step_of_epoch;
    const ls_pipeline_config pipeline = {
        .dataset = run->dataset,
        .seed = config->seed,
        .shuffle = config->shuffle,
        .drop_remainder = config->drop_remainder,
        .global_batch = config->global_batch,
        .world_size = run->world_size,
        .shard_count = config->shards,
        .accumulate = config->accumulate,
        .reader_count = config->readers,
        .depth = PIPELINE_DEPTH,
        .first_epoch = (uint32_t)start->epoch,
        .first_step = start->step_of_epoch,
        .step_count = config->epochs > 0 ? config->epochs * run->steps_per_epoch - begin
                                         : UINT64_MAX,
        .group = run->group,
    };
    for (int r = 0; r < run->world_size; r++) {
        ls_rank *k = &run->rank[r];
        LS_TRY(ls_pinned_alloc(k->device, ls_pipeline_staging_bytes(&pipeline, r),
                               &k->batch_memory));
        staging[r] = k->batch_memory;
    }
    return ls_pipeline_create(&pipeline, staging, &run->pipeline);
}

static ls_status open_machine(ls_run *run, const ls_progress *start)
{
    const ls_config *config = &run->config;
    run->replica_config = (ls_replica_config){
        .model = &run->model,
        .data = ls_dataset_describe(run->dataset),
        .world_size = run->world_size,
        .shard_count = config->shards,
        .accumulate = config->accumulate,
        .global_batch = config->global_batch,
        .capacity_min = EVALUATION_ROWS,
        .slot_count = ls_optimizer_slot_count(config->optimizer),
        .l1 = config->l1,
        .l2 = config->l2,
        .seed = config->seed,
        .training = true,
    };
    LS_TRY(open_devices(run));
    LS_TRY(open_comm(run));
    for (int r = 0; r < run->world_size; r++) LS_TRY(open_rank(run, r));
    if (config->explain_step > 0) LS_TRY(ls_explanation_create(run));
    LS_TRY(ls_evaluation_job_init(&run->test, run->dataset, LS_PART_TEST, run->world_size,
                                  run->group, 0, false));
    return open_pipeline(run, start);
}

/* -- where the run starts ---------------------------------------------------------------------- */

static ls_status load_weights(ls_run *run, const ls_checkpoint *resumed)
{
    const ls_config *config = &run->config;
    const int slots = run->replica_config.slot_count;
    const size_t floats = run->model.arena_floats;
    run->arena_host = calloc(floats * (size_t)(1 + slots) + 1, sizeof *run->arena_host);
    if (!run->arena_host) return ls_fail(LS_ERR_MEMORY, "no memory for %zu weights", floats);
    float *slot[LS_SLOT_MAX] = { NULL, NULL };
    for (int s = 0; s < slots; s++) slot[s] = run->arena_host + (size_t)(s + 1) * floats;
    if (resumed)
        return ls_run_state_load(resumed, run->resume_path, &run->model, config->optimizer, slots,
                                 run->arena_host, slot);
    if (!config->init[0]) {
        ls_model_init_weights(&run->model, config->seed, run->arena_host);
        return LS_OK;
    }
    ls_checkpoint *init = NULL;
    ls_status status = ls_checkpoint_open(config->init, &init);
    if (status == LS_OK)
        status = ls_run_state_load(init, config->init, &run->model, config->optimizer, 0,
                                   run->arena_host, slot);
    ls_checkpoint_close(init);
    return status;
}

static void set_progress(ls_run *run, const ls_progress *start)
{
    const ls_task task = ls_dataset_describe(run->dataset)->task;
    for (int r = 0; r < run->world_size; r++) {
        ls_progress *p = &run->rank[r].progress;
        *p = *start;
        p->best.metric_count = p->last.metric_count = ls_metric_count(task);
        for (int m = 0; m < ls_metric_count(task); m++)
            p->best.metric_name[m] = p->last.metric_name[m] = ls_metric_name(task, m);
        run->rank[r].optimizer = ls_optimizer_state_at(&run->config, start->step);
    }
}

/* --out, or runs/<model>-<time>; the model's name without folders and suffix. */
static void choose_folder(ls_config *config)
{
    if (config->out[0]) return;
    const char *slash = strrchr(config->model, '/');
    char name[64], stamp[32];
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : config->model);
    char *suffix = strstr(name, ".model");
    if (suffix) *suffix = '\0';
    const time_t now = time(NULL);
    struct tm utc;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", gmtime_r(&now, &utc));
    snprintf(config->out, sizeof config->out, "runs/%s-%s", name, stamp);
}

/* The run folder that a checkpoint lies in: what is before "/checkpoints/NAME"; "" if it lies
 * elsewhere. */
static void run_folder_of(const char *checkpoint, char out[LS_TEXT_BYTES])
{
    static const char tail[] = "/checkpoints";
    const char *slash = strrchr(checkpoint, '/');
    const size_t n = slash ? (size_t)(slash - checkpoint) : 0, t = strlen(tail);
    out[0] = '\0';
    if (n <= t || n - t >= LS_TEXT_BYTES || memcmp(checkpoint + n - t, tail, t) != 0) return;
    memcpy(out, checkpoint, n - t);
    out[n - t] = '\0';
}

/* Equal but for slashes at the end. */
static bool is_same_folder(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n > 1 && a[n - 1] == '/') n--;
    while (m > 1 && b[m - 1] == '/') m--;
    return n == m && memcmp(a, b, n) == 0;
}

/* A run that continues goes on in its own folder, unless --out names another, which then must be
 * as empty as a new run's. */
static ls_status open_folder(ls_run *run, const ls_progress *start)
{
    ls_config *config = &run->config;
    const bool resumed = run->resume_path[0] != '\0';
    char own[LS_TEXT_BYTES] = "";
    if (resumed) run_folder_of(run->resume_path, own);
    if (!config->out[0]) memcpy(config->out, own, sizeof own);
    choose_folder(config);
    const bool same = own[0] && is_same_folder(own, config->out);
    const bool automatic = strcmp(config->resume, "auto") == 0;
    LS_TRY(ls_run_folder_open(config->out, same || automatic, resumed ? start->epoch : 0,
                              resumed ? start->step : 0, &run->folder));
    ls_checkpoint_remove_stale(ls_run_folder_checkpoint(run->folder, "last"));
    return LS_OK;
}

static ls_status write_folder(ls_run *run)
{
    char *text = NULL;
    LS_TRY(ls_config_write(&run->config, &text));
    ls_status status = ls_run_folder_write(run->folder, "config.txt", text);
    free(text);
    LS_TRY(status);
    LS_TRY(ls_environment_text(run, &text));
    status = ls_run_folder_write(run->folder, "environment.json", text);
    free(text);
    return status;
}

static void tell_plan(ls_run *run, const ls_progress *start)
{
    const ls_observer *observer = run->observer;
    char *name[LS_WORLD_MAX];
    size_t most = 0;
    for (int r = 0; r < run->world_size; r++) {
        const ls_device *device = run->rank[r].device;
        name[r] = run->rank[r].device->name;
        if (device->allocated_bytes > most) most = device->allocated_bytes;
    }
    if (!observer->plan) return;
    observer->plan(observer->context, &(ls_train_plan){
        .config = &run->config,
        .model = &run->model,
        .dataset = run->dataset,
        .devices = &run->list,
        .device_name = name,
        .topology = &run->topology,
        .kernels = run->rank[0].device->kernels->name,
        .numerics_class = run->numerics_class,
        .algorithm = ls_comm_reason(run->comm),
        .schedule = run->schedule,
        .resume = run->resume_line,
        .world_size = run->world_size,
        .threads = run->threads,
        .bucket_count = run->bucket_count,
        .global_batch = run->config.global_batch,
        .steps_per_epoch = run->steps_per_epoch,
        .first_step = start->step,
        .last_step = run->last_step,
        .device_bytes = most,
        .out = run->config.out });
}

/* What opening the data found odd, or left out, a line at a time. */
static void tell_warnings(const ls_run *run)
{
    const ls_observer *observer = run->observer;
    const char *text = ls_dataset_warnings(run->dataset);
    while (*text && observer->note) {
        char line[LS_MESSAGE_BYTES];
        const size_t chars = strcspn(text, "\n");
        snprintf(line, sizeof line, "warning: %.*s", (int)chars, text);
        observer->note(observer->context, line);
        text += chars + (text[chars] == '\n');
    }
}

/* -- closing ----------------------------------------------------------------------------------- */

static void close_rank(ls_run *run, ls_rank *k)
{
    const size_t events = (size_t)run->bucket_count + 1;
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

static void close_run(ls_run *run)
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
    free(run->arena_host);
    free(run->diverged);
    free(run->rank);
    ls_run_folder_close(run->folder);
    ls_model_free(&run->model);
    ls_dataset_close(run->dataset);
}

/* -- the run ----------------------------------------------------------------------------------- */

/* Everything up to the first step. */
static ls_status open_run(ls_run *run)
{
    ls_checkpoint *checkpoint = NULL;
    ls_saved_run saved = { .text = { NULL } };
    ls_status status = open_resumed(run, &checkpoint, &saved);
    if (status == LS_OK) status = resolve_config(run);
    if (status == LS_OK) status = open_data_and_model(run, &saved);
    if (status == LS_OK) status = plan_steps(run, &saved.progress);
    if (status == LS_OK) status = open_folder(run, &saved.progress);
    if (status == LS_OK) status = open_machine(run, &saved.progress);
    if (status == LS_OK) status = load_weights(run, checkpoint);
    if (status == LS_OK) {
        if (checkpoint) {
            const size_t used = strlen(run->resume_line);
            snprintf(run->resume_line + used, sizeof run->resume_line - used,
                     "; was %s, now %s; data identity ok", saved.text[LS_SAVED_WORLD],
                     run->world);
        }
        set_progress(run, &saved.progress);
        status = write_folder(run);
    }
    if (status == LS_OK) {
        tell_plan(run, &saved.progress);
        tell_warnings(run);
    }
    ls_saved_run_free(&saved);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* After a failure, may memory be freed? Not while a device may still write into it. */
static bool is_drained(ls_run *run)
{
    for (int r = 0; r < run->world_size; r++) {
        if (!ls_comm_drain(run->comm, r, DRAIN_SECONDS)) return false;
        if (!ls_stream_settles(&run->rank[r].replica.compute, DRAIN_SECONDS)) return false;
    }
    return true;
}

ls_status ls_train(const ls_config *config, const ls_observer *observer, ls_train_result *result)
{
    ls_run *run = calloc(1, sizeof *run);
    if (!run) return ls_fail(LS_ERR_MEMORY, "no memory for a run");
    *result = (ls_train_result){ .epochs = 0 };
    run->config = *config;
    run->observer = observer;
    run->result = result;
    ls_status status = open_run(run);
    if (status == LS_OK) {
        status = ls_group_run(run->group, ls_rank_run, run, observer->stuck);
        if (status != LS_OK && !is_drained(run)) observer->stuck();
    }
    close_run(run);
    free(run);
    return status;
}
