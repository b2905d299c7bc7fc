/* SPDX-License-Identifier: MIT */
/* rank.c -- the life of one rank: start alike, take steps, end epochs, save, stop.
 *
 * Every rank carries the same progress and takes the same decisions from the same combined
 * numbers; what only one of them can know (a signal) is shared at the end of a step. Rank 0
 * alone writes files and talks to the observer; the others do not wait for it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/guard.h"
#include "train/notes.h"
#include "train/run.h"

/* -- the same weights everywhere, before step 0 ------------------------------------------------ */

static ls_status broadcast(ls_rank *k, float *x, size_t count)
{
    ls_run *run = k->run;
    ls_event *ready = &k->ready[0], *done = &k->done[0];
    LS_TRY(ls_event_record(ready, &k->replica.compute));
    LS_TRY(ls_broadcast(run->comm, k->rank, x, count, ready, done));
    LS_TRY(ls_stream_wait(&k->replica.compute, done));
    return ls_comm_verify(run->comm, k->rank);
}

/* Arena `a` of the state (state.h) in this rank's replica. */
static float *state_arena(const ls_rank *k, int a)
{
    const ls_replica *r = &k->replica;
    const int slots = k->run->replica_config.slot_count;
    if (a == 0) return r->weights;
    return a <= slots ? r->slot[a - 1] : r->average;
}

/* Rank 0's moving statistics to everybody. */
static ls_status share_statistics(ls_rank *k)
{
    ls_run *run = k->run;
    const size_t floats = run->model.statistic_floats;
    if (floats == 0) return LS_OK;
    if (k->rank == 0)
        LS_TRY(ls_replica_store_statistics(&k->replica, run->statistics_host, run->group));
    LS_TRY(broadcast(k, k->replica.moved, floats));
    return ls_replica_commit_statistics(&k->replica, true);
}

/* Rank 0 has the first state on the host; afterwards all replicas have it, and have compared what
 * counts. */
static ls_status start_alike(ls_rank *k)
{
    ls_run *run = k->run;
    ls_replica *r = &k->replica;
    const size_t floats = run->model.arena_floats;
    for (int a = 0; a < ls_state_arena_count(&run->config); a++) {
        float *arena = state_arena(k, a);
        if (k->rank == 0)
            LS_TRY(ls_replica_store(r, arena, run->arena_host + (size_t)a * floats, run->group));
        LS_TRY(broadcast(k, arena, floats));
    }
    LS_TRY(share_statistics(k));
    LS_TRY(ls_replica_weights_changed(r));
    LS_TRY(ls_guard_keep(k));
    LS_TRY(ls_digest(&r->compute, &(ls_digest_args){
        .count = floats, .x = r->weights, .out = r->results.digest }));
    LS_TRY(ls_replica_read_results(r, run->group, "comparing the first weights"));
    return ls_weights_compare(k, ls_replica_digest(r), false);
}

/* -- saving ------------------------------------------------------------------------------------ */

/* Device -> arena_host. Rank 0 only. */
static ls_status fetch_state(ls_rank *k)
{
    ls_run *run = k->run;
    const size_t floats = run->model.arena_floats;
    for (int a = 0; a < ls_state_arena_count(&run->config); a++)
        LS_TRY(ls_replica_fetch(&k->replica, run->arena_host + (size_t)a * floats,
                                state_arena(k, a), run->group));
    return ls_replica_fetch_statistics(&k->replica, run->statistics_host, run->group);
}

static ls_run_state describe_state(const ls_rank *k)
{
    const ls_run *run = k->run;
    return (ls_run_state){
        .config = &run->config,
        .model = &run->model,
        .data = ls_dataset_spec(run->dataset),
        .data_identity = ls_dataset_identity(run->dataset),
        .scale = ls_dataset_scale_rule(run->dataset),
        .numerics_class = run->numerics_class,
        .world = run->world,
        .progress = &k->progress,
        .arenas = run->arena_host,
        .statistics = run->statistics_host,
    };
}

/* Save `name` from what fetch_state brought. */
static ls_status save_as(ls_rank *k, const char *name)
{
    const ls_run_state state = describe_state(k);
    return ls_run_state_save(ls_run_folder_checkpoint(k->run->folder, name), &state);
}

/* last, and step-N where asked for, and best if this is it. Rank 0 only.
 *
 * last goes last, so that it counts no step whose other files are missing, but for the first of a
 * run: with any checkpoint but no last, --resume auto could neither go on nor start again. A kill
 * right after that one leaves no best, which the run that continues makes (best.c), and no step-N,
 * which it does not: last is a copy of it. */
static ls_status save(ls_rank *k, bool numbered, bool best)
{
    if (k->rank != 0) return LS_OK;
    const double begin = ls_clock();
    char name[40];
    snprintf(name, sizeof name, "step-%" PRIu64, k->progress.step);
    LS_TRY(fetch_state(k));
    const bool first = !k->run->resume_path[0] && !k->has_saved;
    if (first) LS_TRY(save_as(k, "last"));
    k->has_saved = true;
    if (numbered) {
        LS_TRY(save_as(k, name));
        LS_TRY(ls_run_folder_keep(k->run->folder, k->run->config.keep));
    }
    if (best) LS_TRY(save_as(k, "best"));
    if (!first) LS_TRY(save_as(k, "last"));
    k->time.saving += ls_clock() - begin;
    return LS_OK;
}

/* -- the end of an epoch ----------------------------------------------------------------------- */

/* The line of history.csv for the epoch so far; evaluates the test part, with the average of the
 * weights where one is kept. Collective. */
static ls_status summarize_epoch(ls_rank *k, ls_history_line *line)
{
    ls_run *run = k->run;
    const ls_epoch_sums *sums = &k->progress.sums;
    const ls_metric_list *metrics = &run->metrics;
    *line = (ls_history_line){
        .epoch = k->progress.epoch + 1,
        .step = k->progress.step,
        .lr = k->line.lr,
        .loss = sums->loss / (double)sums->samples,
        .val_loss = (double)NAN,
        .seconds = k->epoch_seconds,
        .samples_per_second = (double)k->epoch_samples / k->epoch_seconds,
        .input_share = ls_input_end_epoch(k, k->epoch_seconds),
    };
    ls_history_name(line, metrics);
    ls_metric_values(metrics, sums, line->metric);
    ls_metric_values(metrics, &(ls_epoch_sums){ .samples = 0 }, line->val_metric);
    if (run->test.count == 0) return LS_OK;
    const double begin = ls_clock();
    double regularizer;
    LS_TRY(ls_replica_exchange_average(&k->replica));
    LS_TRY(ls_replica_regularizer(&k->replica, run->group, &regularizer));
    LS_TRY(ls_evaluation_run(&run->test, &k->replica, &k->staging));
    LS_TRY(ls_replica_exchange_average(&k->replica));
    const ls_epoch_sums test = ls_evaluation_sums(&run->test, metrics->top_k);
    line->val_loss = test.loss / (double)test.samples + regularizer;
    LS_TRY(ls_evaluation_metrics(&run->test, metrics, &test, line->val_metric));
    k->time.evaluation += ls_clock() - begin;
    /* The job's arrays are shared: nobody starts the next evaluation before all have read. */
    return ls_barrier_wait(run->group, k->rank, "the end of an epoch");
}

static bool reached_until(const ls_until *until, const ls_history_line *line)
{
    if (!until->metric[0]) return false;
    const double value = ls_history_value(line, until->metric);
    return until->at_least ? value >= until->value : value <= until->value;
}

/* Does the run continue from where --until already held? Then nothing is left to do. */
static bool has_ended_well(const ls_rank *k)
{
    const ls_history_line *last = &k->progress.last;
    return last->epoch > 0 && last->step == k->progress.step
           && reached_until(&k->run->config.until, last);
}

/* Evaluate, decide, move on to the next epoch if this one is complete, save. */
static ls_status end_epoch(ls_rank *k, bool numbered)
{
    ls_run *run = k->run;
    ls_progress *p = &k->progress;
    ls_history_line line;
    LS_TRY(summarize_epoch(k, &line));
    const bool whole = p->step_of_epoch == run->steps_per_epoch;
    const ls_callback_verdict verdict = ls_callbacks_epoch(
        &p->callbacks, &run->config, run->monitor, ls_history_value(&line, run->monitor), whole,
        ls_config_rate(&run->config, p->step));
    if (verdict.best) p->best = line;
    p->last = line;
    k->reached = reached_until(&run->config.until, &line);
    k->stopped_early = ls_callbacks_stops(&p->callbacks, &run->config);
    if (whole) {
        p->epoch++;
        p->step_of_epoch = 0;
        p->sums = (ls_epoch_sums){ 0 };
    }
    k->epoch_seconds = 0;
    k->epoch_samples = 0;
    if (k->rank != 0) return LS_OK;
    LS_TRY(ls_run_folder_history(run->folder, &line));
    LS_TRY(save(k, numbered, verdict.best));
    if (run->observer->epoch)
        run->observer->epoch(run->observer->context, &line, run->config.epochs);
    if (verdict.slower) ls_note_slower(k);
    return LS_OK;
}

/* -- steps ------------------------------------------------------------------------------------- */

static void add_time(ls_time_split *time, const ls_log_line *line)
{
    time->input_wait += line->input_wait;
    time->copy += line->copy;
    time->forward += line->forward;
    time->backward += line->backward;
    time->exchange += line->exchange;
    time->update += line->update;
    time->steps += line->seconds;
}

/* Which metric the line of progress shows: the last that the training part has, if any. */
static int shown_metric(const ls_metric_list *list)
{
    int shown = list->count - 1;
    while (shown > 0 && ls_metric_needs_all(list->kind[shown])) shown--;
    return shown;
}

static ls_status report_step(ls_rank *k)
{
    const ls_run *run = k->run;
    const ls_progress *p = &k->progress;
    k->line.step_of_epoch = p->step_of_epoch;
    k->epoch_seconds += k->line.seconds;
    k->epoch_samples += k->line.samples;
    k->samples += k->line.samples;
    add_time(&k->time, &k->line);
    const bool weightless = k->numbers.skipped && !k->numbers.failed;
    k->weightless = weightless ? k->weightless + 1 : 0;
    if (k->rank != 0) return LS_OK;
    ls_input_note_step(k);
    LS_TRY(ls_run_folder_log(run->folder, &k->line));
    ls_note_step(k);
    if (!run->observer->step) return LS_OK;
    double metric[LS_METRIC_MAX];
    const int shown = shown_metric(&run->metrics);
    ls_metric_values(&run->metrics, &p->sums, metric);
    run->observer->step(run->observer->context, &(ls_step_report){
        .epoch = p->epoch + 1,
        .epochs = run->config.epochs,
        .step_of_epoch = p->step_of_epoch,
        .steps_per_epoch = run->steps_per_epoch,
        .epoch_loss = p->sums.loss / (double)p->sums.samples,
        .epoch_metric = metric[shown],
        .metric_name = run->metrics.name[shown],
        .seconds = k->epoch_seconds,
        .line = &k->line });
    return LS_OK;
}

/* A run that counts updates, over data that never bring one, would not end. */
static ls_status check_updates(const ls_rank *k)
{
    const ls_run *run = k->run;
    if (run->config.epochs > 0 || k->weightless < run->steps_per_epoch) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "--steps %" PRIu64 ": epoch %" PRIu64 " brought no update, as "
                   "all its samples have weight 0: say --epochs, or give other weights",
                   run->config.steps, k->progress.epoch);
}

static bool is_finished(const ls_rank *k)
{
    const ls_config *config = &k->run->config;
    const ls_progress *p = &k->progress;
    return k->stop || k->reached || k->stopped_early
           || (config->epochs > 0 && p->epoch >= config->epochs)
           || (config->steps > 0 && p->step >= config->steps);
}

/* The weights and statistics of the best epoch in place of the last's, on the host. */
static ls_status fetch_best(ls_rank *k, const char *path)
{
    ls_run *run = k->run;
    ls_checkpoint *best = NULL;
    ls_status status = ls_checkpoint_open(path, &best);
    if (status == LS_OK)
        status = ls_run_state_load(best, path, &run->model, &run->config, run->arena_host,
                                   run->statistics_host);
    ls_checkpoint_close(best);
    return status;
}

/* What the main thread returns to the caller. Rank 0 only. */
static ls_status fill_result(ls_rank *k)
{
    ls_run *run = k->run;
    ls_train_result *result = run->result;
    const char *best = ls_run_folder_checkpoint(run->folder, "best");
    ls_note_end(k);
    bool restore = false;
    if (run->config.restore_best) LS_TRY(ls_best_is_at(best, &k->progress.best, &restore));
    snprintf(result->checkpoint, sizeof result->checkpoint, "%s",
             ls_run_folder_checkpoint(run->folder, restore ? "best" : "last"));
    LS_TRY(restore ? fetch_best(k, result->checkpoint) : fetch_state(k));
    const ls_run_state state = describe_state(k);
    ls_run_digests digests;
    LS_TRY(ls_run_state_sha256(&state, &digests));
    memcpy(result->weights_sha256, digests.weights, sizeof digests.weights);
    memcpy(result->optimizer_sha256, digests.optimizer, sizeof digests.optimizer);
    memcpy(result->statistics_sha256, digests.statistics, sizeof digests.statistics);
    result->epochs = k->progress.epoch;
    result->steps = k->progress.step;
    result->step_of_epoch = k->progress.step_of_epoch;
    result->steps_per_epoch = run->steps_per_epoch;
    result->last = k->progress.last;
    result->best = k->progress.best;
    result->samples = k->samples;
    result->seconds = k->time.steps;
    result->samples_per_second = k->time.steps > 0 ? (double)k->samples / k->time.steps : 0;
    result->time = k->time;
    result->input = ls_input_summarize(k);
    result->reached_until = k->reached;
    result->stopped_early = k->stopped_early;
    result->stopped_by_signal = k->stop && !k->out_of_time;
    result->out_of_time = k->out_of_time;
    result->restored_best = restore;
    return LS_OK;
}

/* One step; what breaks it is told with its number, and a step that is not finite with how many
 * before it were not. */
static ls_status take_step(ls_rank *k)
{
    char where[128], before[64] = "";
    const uint64_t failed = k->progress.guard.failed_in_row;
    const ls_status status = ls_step_take(k);
    if (status == LS_OK || status == LS_ERR_ABORTED) return status;
    if (status == LS_ERR_NONFINITE && failed > 0)
        snprintf(before, sizeof before, "after %" PRIu64 " in a row that were not finite, ",
                 failed);
    snprintf(where, sizeof where, "step %" PRIu64 ": %s", k->progress.step + 1, before);
    return ls_fail_before(status, where);
}

ls_status ls_rank_run(int rank, void *run)
{
    ls_run *shared = run;
    ls_rank *k = &shared->rank[rank];
    const uint64_t every = shared->config.save_every;
    ls_machine_enter(shared, rank);
    LS_TRY(start_alike(k));
    k->stopped_early = ls_callbacks_stops(&k->progress.callbacks, &shared->config);
    k->reached = has_ended_well(k);
    if (rank == 0 && !is_finished(k)) LS_TRY(ls_run_folder_begin(shared->folder));
    while (!is_finished(k)) {
        LS_TRY(take_step(k));
        LS_TRY(report_step(k));
        const bool numbered = every > 0 && k->progress.step % every == 0 && !k->line.skipped;
        const bool epoch_done = k->progress.step_of_epoch == shared->steps_per_epoch;
        if (epoch_done || (is_finished(k) && !k->stop)) LS_TRY(end_epoch(k, numbered));
        else if (numbered || k->stop) LS_TRY(save(k, numbered, false));
        if (epoch_done && !is_finished(k)) LS_TRY(check_updates(k));
    }
    return rank == 0 ? fill_result(k) : LS_OK;
}
