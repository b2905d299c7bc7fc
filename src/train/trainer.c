/* SPDX-License-Identifier: MIT */
/* trainer.c -- a run is opened, trained, and closed.
 *
 * Opening goes from what costs nothing to what costs much, so that a mistake is told before
 * anything is made: the checkpoint to continue, configuration, devices, data, model; then memory,
 * links, threads (machine.c); last the run folder, so that a start that fails leaves none. Closing
 * frees in reverse. Everything between is rank.c's.
 */
#include "train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/sampler.h"
#include "plural.h"
#include "train/class_weights.h"
#include "train/guard.h"
#include "train/notes.h"
#include "train/run.h"

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
        return ls_fail(LS_ERR_ARGUMENT, "--devices %s: %d replicas, but only %d shard%s to share "
                       "out; use --shards %d or more (it is part of the numerics class)",
                       config->devices, run->world_size, config->shards, LS_PLURAL(config->shards),
                       run->world_size);
    ls_config_fill(config, run->world_size);
    run->threads = ls_replica_threads(config->threads, run->world_size);
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

/* Can this program give the bits that the run would have had? With --order fast the number of
 * ranks is part of the class, at its end, and another number is the user's choice. */
static ls_status check_class(const ls_run *run, const ls_saved_run *saved)
{
    const char *stored = saved->text[LS_SAVED_CLASS], *ours = run->numerics_class;
    const char *stored_end = strstr(stored, " N="), *our_end = strstr(ours, " N=");
    const size_t count = stored_end ? (size_t)(stored_end - stored) : strlen(stored);
    const size_t our_count = our_end ? (size_t)(our_end - ours) : strlen(ours);
    if (count == our_count && strncmp(stored, ours, count) == 0) return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: numerics class \"%.120s\", expected \"%s\": the run would "
                   "not continue with the same bits; --init starts a new one from its weights",
                   run->resume_path, stored, ours);
}

/* Has this run the column of history.csv that an option names? */
static ls_status check_column(const ls_run *run, const char *option, const char *column,
                              bool has_test)
{
    const ls_metric_list *list = &run->metrics;
    char names[LS_METRIC_MAX * (LS_METRIC_NAME_BYTES + 2)] = "";
    if (ls_history_has(column, list, has_test)) return LS_OK;
    for (int m = 0; m < list->count; m++) {
        const size_t used = strlen(names);
        if (has_test && strcmp(column, list->name[m]) == 0)
            return ls_fail(LS_ERR_ARGUMENT, "--%s %s: it is made for the test part alone, as "
                           "val_%s", option, column, column);
        if (ls_metric_needs_all(list->kind[m]) && !has_test) continue;
        snprintf(names + used, sizeof names - used, ", %s", list->name[m]);
    }
    return ls_fail(LS_ERR_ARGUMENT, "--%s %s: this run has no such column (loss%s%s)", option,
                   column, names, has_test ? ", and all with val_" : "; there is no test part");
}

/* Under a sigmoid crossentropy a target is a probability: for others the loss falls for ever. */
static ls_status check_targets(const ls_run *run, ls_part part)
{
    const ls_dataset_info *data = ls_dataset_describe(run->dataset);
    if (data->task != LS_TASK_REGRESS || run->model.loss != LS_LOSS_SIGMOID_CROSSENTROPY)
        return LS_OK;
    ls_status status = LS_OK;
    float *y = malloc(data->outputs * sizeof *y);
    if (!y) return ls_fail(LS_ERR_MEMORY, "no memory for %zu targets", data->outputs);
    for (size_t i = 0; status == LS_OK && i < data->count[part]; i++) {
        ls_dataset_target(run->dataset, part, i, y);
        for (size_t k = 0; status == LS_OK && k < data->outputs; k++) {
            if (y[k] >= 0 && y[k] <= 1) continue;
            status = ls_fail(LS_ERR_FORMAT, "--data %s: %s sample %zu, target %zu: %g, expected "
                             "0 to 1 under sigmoid-crossentropy", run->config.data,
                             part == LS_PART_TEST ? "test" : "training",
                             ls_dataset_place(run->dataset, part, i) + 1, k + 1, (double)y[k]);
        }
    }
    free(y);
    return status;
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
    LS_TRY(ls_augment_check(&config->augment, data));
    LS_TRY(open_model(run, resumed ? saved->text[LS_SAVED_MODEL] : NULL));
    for (int part = 0; part < LS_PART_COUNT; part++) LS_TRY(check_targets(run, (ls_part)part));
    ls_numerics_class(config, &run->model, run->world_size, run->numerics_class,
                      sizeof run->numerics_class);
    if (resumed) LS_TRY(check_class(run, saved));
    LS_TRY(ls_metric_list_init(&run->metrics, config->metrics, data,
                               ls_model_outputs(&run->model), run->model.loss));
    LS_TRY(ls_class_weights_create(config->class_weights, run->dataset, &run->class_weight));
    LS_TRY(ls_rules_create(config, &run->model, &run->rule));
    const bool has_test = data->count[LS_PART_TEST] > 0;
    run->monitor = ls_callbacks_monitor(config, has_test);
    LS_TRY(check_column(run, "monitor", run->monitor, has_test));
    if (config->until.metric[0])
        LS_TRY(check_column(run, "until", config->until.metric, has_test));
    return LS_OK;
}

/* A run's place in time, against the length of its epochs. */
static ls_status check_progress(const ls_run *run, const ls_progress *start)
{
    if (start->epoch <= UINT32_MAX && start->step_of_epoch < run->steps_per_epoch &&
        start->step <= start->epoch * run->steps_per_epoch + start->step_of_epoch)
        return LS_OK;
    return ls_fail(LS_ERR_FORMAT, "%s: step %" PRIu64 ", epoch %" PRIu64 ", step_of_epoch %" PRIu64
                   ": expected no more than the data have, with %" PRIu64 " step%s an epoch",
                   run->resume_path, start->step, start->epoch, start->step_of_epoch,
                   run->steps_per_epoch, LS_PLURAL(run->steps_per_epoch));
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
        return ls_fail(LS_ERR_ARGUMENT, "--drop-remainder: %zu training sample%s not fill one "
                       "batch of %" PRIu64, samples, samples == 1 ? " does" : "s do",
                       config->global_batch);
    if (run->resume_path[0]) LS_TRY(check_progress(run, start));
    run->nothing_to_do = run->resume_path[0]
                         && ((config->epochs > 0 && start->epoch >= config->epochs)
                             || (config->steps > 0 && start->step >= config->steps));
    run->last_step = config->epochs > 0 ? config->epochs * run->steps_per_epoch : UINT64_MAX;
    if (config->steps > 0) run->last_step = min_u64(run->last_step, config->steps);
    if (config->explain_step > run->last_step && !run->nothing_to_do)
        return ls_fail(LS_ERR_ARGUMENT, "--explain-step %" PRIu64 ": the run ends with step %"
                       PRIu64, config->explain_step, run->last_step);
    ls_schedule_fill(&config->schedule, run->last_step);
    ls_schedule_describe(&config->schedule, run->schedule, sizeof run->schedule);
    if (run->resume_path[0])
        snprintf(run->resume_line, sizeof run->resume_line,
                 "continues %.200s at step %" PRIu64 ", epoch %" PRIu64 ", sample %" PRIu64
                 ", lr %g", run->resume_path, start->step, start->epoch + 1,
                 start->step_of_epoch * config->global_batch,
                 ls_config_rate(config, start->step));
    return LS_OK;
}

/* -- where the run starts ---------------------------------------------------------------------- */

/* The first contents of all arenas of the state: slots are zero, the average is the weights. */
static ls_status load_state(ls_run *run, const ls_checkpoint *resumed)
{
    const size_t floats = run->model.arena_floats;
    const size_t arenas = (size_t)ls_state_arena_count(&run->config);
    run->arena_host = calloc(floats * arenas + 1, sizeof *run->arena_host);
    run->statistics_host = calloc(run->model.statistic_floats + 1, sizeof(float));
    if (!run->arena_host || !run->statistics_host)
        return ls_fail(LS_ERR_MEMORY, "no memory for %zu weights", floats);
    if (resumed)
        return ls_run_state_load(resumed, run->resume_path, &run->model, &run->config,
                                 run->arena_host, run->statistics_host);
    LS_TRY(ls_first_weights(run));
    if (run->config.ema > 0)
        memcpy(run->arena_host + (arenas - 1) * floats, run->arena_host,
               floats * sizeof *run->arena_host);
    return LS_OK;
}

/* What a new run's steps and epochs count from. */
static void start_counting(ls_progress *p, ls_precision precision)
{
    p->guard.loss_scale = ls_first_loss_scale(precision);
    p->callbacks = ls_callbacks_first();
}

static void set_progress(ls_run *run, const ls_progress *start)
{
    for (int r = 0; r < run->world_size; r++) {
        ls_progress *p = &run->rank[r].progress;
        *p = *start;
        if (!run->resume_path[0]) start_counting(p, run->config.precision);
        ls_history_name(&p->best, &run->metrics);
        ls_history_name(&p->last, &run->metrics);
        run->rank[r].optimizer = ls_optimizer_state_at(&run->config, start->step);
    }
}

/* -- what the user is told --------------------------------------------------------------------- */

static void tell_plan(ls_run *run, const ls_progress *start)
{
    const ls_observer *observer = run->observer;
    char *name[LS_WORLD_MAX];
    size_t most = 0;
    if (!observer->plan) return;
    for (int r = 0; r < run->world_size; r++) {
        ls_device *device = run->rank[r].device;
        name[r] = device->name;
        if (device->allocated_bytes > most) most = device->allocated_bytes;
    }
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
        .cores = run->stays ? &run->cores : NULL,
        .bucket_count = run->bucket_count,
        .global_batch = run->config.global_batch,
        .steps_per_epoch = run->steps_per_epoch,
        .first_step = start->step,
        .last_step = run->last_step,
        .nothing_to_do = run->nothing_to_do,
        .device_bytes = most,
        .out = run->config.out });
}

/* -- closing ----------------------------------------------------------------------------------- */

static void close_run(ls_run *run)
{
    ls_machine_close(run);
    free(run->statistics_host);
    free(run->arena_host);
    free(run->rule);
    ls_run_folder_close(run->folder);
    free(run->class_weight);
    ls_model_free(&run->model);
    ls_dataset_close(run->dataset);
}

/* -- the run ----------------------------------------------------------------------------------- */

/* Everything up to the first step. The folder is opened last: what fails before leaves no trace of
 * a run in it, and the same command can be given again. */
static ls_status open_run(ls_run *run)
{
    ls_checkpoint *checkpoint = NULL;
    ls_saved_run saved = { .text = { NULL } };
    ls_status status = open_resumed(run, &checkpoint, &saved);
    if (status == LS_OK) status = resolve_config(run);
    if (status == LS_OK) status = open_data_and_model(run, &saved);
    if (status == LS_OK) status = plan_steps(run, &saved.progress);
    if (status == LS_OK) status = ls_machine_open(run, &saved.progress);
    if (status == LS_OK) status = load_state(run, checkpoint);
    if (status == LS_OK) status = ls_folder_open(run, &saved.progress, checkpoint);
    if (status == LS_OK) {
        if (checkpoint) {
            const size_t used = strlen(run->resume_line);
            snprintf(run->resume_line + used, sizeof run->resume_line - used,
                     "; was %s, now %s; data identity ok", saved.text[LS_SAVED_WORLD],
                     run->world);
        }
        set_progress(run, &saved.progress);
        status = ls_folder_describe(run);
    }
    if (status == LS_OK) {
        tell_plan(run, &saved.progress);
        ls_note_begin(run, saved.progress.step);
    }
    ls_saved_run_free(&saved);
    ls_checkpoint_close(checkpoint);
    return status;
}

ls_status ls_train(const ls_config *config, const ls_observer *observer, ls_train_result *result)
{
    ls_record cause;
    ls_run *run = calloc(1, sizeof *run);
    if (!run) return ls_fail(LS_ERR_MEMORY, "no memory for a run");
    *result = (ls_train_result){ .epochs = 0 };
    run->config = *config;
    run->observer = observer;
    run->begin = ls_clock();
    run->result = result;
    ls_status status = open_run(run);
    if (status == LS_OK) {
        status = ls_group_run(run->group, ls_rank_run, run, observer->stuck);
        ls_record_keep(&cause);
        const bool drained = status == LS_OK || ls_machine_is_drained(run);
        ls_record_restore(&cause);
        if (!drained) observer->stuck();
    }
    ls_record_keep(&cause);
    close_run(run);
    ls_record_restore(&cause);
    free(run);
    return status;
}
