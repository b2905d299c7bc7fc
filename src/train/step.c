/* SPDX-License-Identifier: MIT */
/* step.c -- one synchronous update of one logical model, seen from one rank.
 *
 * ls_step_take is docs/semantics.md in code, sentence by sentence: each replica computes sums over
 * its shards; the sums of all ranks are combined; then, once, they are divided; then every replica
 * makes the same update; then the replicas compare what they have. No number is averaged on a
 * replica, and none is rounded in an order that depends on how many replicas there are.
 *
 * The sums of a bucket are exchanged as soon as the backward pass has completed it, while earlier
 * layers are still to come (in the last pass; with --accumulate the earlier ones only add). The
 * rows of batch normalisation cross ranks within a pass (ls_step_gather_rows). A step whose numbers
 * are not finite goes the way that guard.h says; nonfinite.c finds out where they are not.
 */
#include <math.h>

#include "printable.h"
#include "train/explain.h"
#include "train/guard.h"
#include "train/run.h"

/* Seconds since `*mark`; moves the mark. */
static double lap(double *mark)
{
    const double now = ls_clock(), seconds = now - *mark;
    *mark = now;
    return seconds;
}

/* -- this rank's shards of the global batch ---------------------------------------------------- */

static ls_status load_batch(ls_rank *k)
{
    ls_batch batch;
    double mark = ls_clock();
    LS_TRY(ls_pipeline_next(k->run->pipeline, k->rank, &batch));
    k->line.input_wait = lap(&mark);
    k->line.queue = batch.ready;
    LS_TRY(ls_replica_load(&k->replica, &batch));
    LS_TRY(ls_stream_drain(&k->replica.compute, k->run->group, "copying a batch"));
    ls_pipeline_release(k->run->pipeline, k->rank);
    k->line.copy = lap(&mark);
    return LS_OK;
}

/* -- sums over this rank's shards -------------------------------------------------------------- */

/* Is the gradient finished in the update's own pass? Not where an update depends on what is found
 * of the gradient: its length, or that there is to be none. */
static bool finishes_in_update(const ls_run *run)
{
    return !ls_optimizer_needs_norm(&run->config) && ls_guard_stops(&run->config);
}

/* Does that pass read the reduced sums for their digest as well, which the replicas compare? On the
 * host that saves the collectives a pass over them. */
static bool compares_in_update(const ls_run *run)
{
    return run->world_size > 1 && finishes_in_update(run);
}

/* Exchange every bucket whose tensors are complete. An ls_layer_done_fn. */
static ls_status exchange_buckets(void *context, int tensors_done)
{
    ls_rank *k = context;
    const ls_run *run = k->run;
    const ls_fold_plan *plan = &k->replica.plan;
    double mark = ls_clock();
    for (; k->next_bucket < run->bucket_count; k->next_bucket++) {
        const ls_bucket *bucket = &run->bucket[k->next_bucket];
        if (bucket->last_tensor >= tensors_done) break;
        float *piece[LS_FOLD_MERGE_MAX * 2];
        for (int p = 0; p < plan->final_count; p++)
            piece[p] = k->replica.gradients
                       + (size_t)plan->final_slot[p] * run->model.arena_floats + bucket->begin;
        LS_TRY(ls_event_record(&k->ready[k->next_bucket], &k->replica.compute));
        LS_TRY(ls_all_reduce(run->comm, k->rank, &(ls_pieces){
            .bucket = k->next_bucket,
            .count = bucket->count,
            .piece_count = plan->final_count,
            .node = plan->final_node,
            .piece = piece,
            .result = piece[0],
            .ready = &k->ready[k->next_bucket],
            .done = &k->done[k->next_bucket],
            .unnoted = compares_in_update(run) }));
    }
    k->line.exchange += lap(&mark);
    return LS_OK;
}

ls_status ls_step_gather_rows(void *rank, float *rows, size_t row_bytes)
{
    ls_rank *k = rank;
    const int place = k->run->bucket_count + LS_EVENT_NORMALIZE;
    ls_event *ready = &k->ready[place], *done = &k->done[place];
    double mark = ls_clock();
    LS_TRY(ls_event_record(ready, &k->replica.compute));
    LS_TRY(ls_gather(k->run->comm, k->rank, rows, row_bytes, ready, done));
    LS_TRY(ls_stream_wait(&k->replica.compute, done));
    k->line.exchange += lap(&mark);
    return LS_OK;
}

/* Forward, loss and backward over every pass: sums of losses by shard, of gradients by piece. */
static ls_status compute_sums(ls_rank *k)
{
    ls_replica *r = &k->replica;
    const int passes = r->plan.pass_count;
    k->next_bucket = 0;
    for (int pass = 0; pass < passes; pass++) {
        double mark = ls_clock(), exchange_before = k->line.exchange;
        const ls_pass_input input = ls_replica_pass(r, pass);
        const ls_fold *fold = &r->plan.pass[pass];
        LS_TRY(ls_replica_forward(r, &input, fold));
        LS_TRY(ls_replica_loss(r, &input, true, false));
        LS_TRY(ls_replica_sum(r, &input, fold));
        k->line.forward += lap(&mark) - (k->line.exchange - exchange_before);
        exchange_before = k->line.exchange;
        LS_TRY(ls_replica_backward(r, &input, fold,
                                   pass == passes - 1 ? exchange_buckets : NULL, k));
        k->line.backward += lap(&mark) - (k->line.exchange - exchange_before);
    }
    return LS_OK;
}

/* -- the sums of all ranks --------------------------------------------------------------------- */

static ls_status combine_sums(ls_rank *k)
{
    ls_run *run = k->run;
    ls_replica *r = &k->replica;
    const int place = run->bucket_count + LS_EVENT_SUMS;
    ls_event *rows_ready = &k->ready[place], *rows_done = &k->done[place];
    double mark = ls_clock();
    LS_TRY(ls_event_record(rows_ready, &r->compute));
    LS_TRY(ls_gather(run->comm, k->rank, r->results.shard_sum, sizeof(ls_shard_sum), rows_ready,
                     rows_done));
    for (int b = 0; b <= place; b++) LS_TRY(ls_stream_wait(&r->compute, &k->done[b]));
    LS_TRY(ls_comm_verify(run->comm, k->rank));
    LS_TRY(ls_replica_read_results(r, run->group, "combining the sums of a step"));
    k->numbers.totals = ls_batch_totals(r->results_host.shard_sum, run->config.shards);
    k->line.exchange += lap(&mark);
    return LS_OK;
}

/* -- divide, once ------------------------------------------------------------------------------ */

/* How the reduced gradient is divided by D and by the loss scale that it was formed with,
 * regularised, measured, tested. */
static ls_gradient_finish_args finish_args(const ls_rank *k)
{
    const ls_replica *r = &k->replica;
    return (ls_gradient_finish_args){
        .tensors = &r->tensors,
        .scale = k->numbers.scale,
        .w = r->weights,
        .g = ls_replica_sums(r),
        .square_sum = r->results.gradient_square,
        .nonfinite = r->results.nonfinite };
}

/* Once the results of finishing the gradient have been read. */
static ls_status judge_gradient(ls_rank *k)
{
    k->numbers.grad_norm = ls_printable(ls_trained_norm(
        k->run->rule, k->replica.results_host.gradient_square, k->run->model.parameter_count));
    return ls_nonfinite_check(k);
}

static ls_status finish_gradient(ls_rank *k)
{
    const ls_gradient_finish_args args = finish_args(k);
    LS_TRY(ls_gradient_finish(&k->replica.compute, &args));
    LS_TRY(ls_replica_read_results(&k->replica, k->run->group, "finishing the gradient"));
    return judge_gradient(k);
}

/* The loss, and the reduced gradient. */
static ls_status divide(ls_rank *k)
{
    ls_run *run = k->run;
    ls_step_numbers *n = &k->numbers;
    double mark = ls_clock();
    n->denominator = ls_denominator(run->config.reduction, &n->totals);
    n->skipped = n->denominator == 0;
    LS_TRY(ls_replica_regularizer(&k->replica, run->group, &n->regularizer));
    n->data_loss = n->skipped ? 0 : n->totals.loss / n->denominator;
    n->loss = ls_printable(n->data_loss + n->regularizer);
    if (!isfinite(n->loss)) return ls_nonfinite_loss(k);
    if (n->skipped) return LS_OK;
    n->scale = (float)(1 / (n->denominator * k->progress.guard.loss_scale));
    LS_TRY(ls_nonfinite_look(k));
    if (!finishes_in_update(run)) LS_TRY(finish_gradient(k));
    k->line.update += lap(&mark);
    return LS_OK;
}

/* -- the same update on every replica ---------------------------------------------------------- */

/* Tell the device what this update does to each tensor. step_host is free to be written: the last
 * copy from it has been waited for, with the results of its step. */
static ls_status upload_steps(ls_rank *k)
{
    ls_replica *r = &k->replica;
    const ls_run *run = k->run;
    const int count = run->model.parameter_count;
    ls_optimizer_steps(&k->optimizer, &run->config, k->numbers.lr, run->rule,
                       r->results_host.gradient_square, k->numbers.grad_norm, count, r->step_host);
    return ls_copy_to_device(&r->compute, r->step_device, r->step_host,
                             (size_t)count * sizeof *r->step_host);
}

static ls_status refuse_update(const ls_rank *k)
{
    return ls_fail(LS_ERR_NONFINITE, "the update of the weights is not finite: its length is %g, "
                   "the gradient's was %g; a smaller learning rate may help, or --nonfinite "
                   "rollback", k->numbers.update_norm, k->numbers.grad_norm);
}

/* The update made weights that are not finite: as if it had not been, where a copy of the state
 * allows that. */
static ls_status take_back(ls_rank *k, const ls_optimizer_state *before)
{
    if (!k->replica.good || !ls_guard_tolerates(k)) return refuse_update(k);
    k->optimizer = *before;
    k->numbers.digest = 0;
    return ls_guard_undo(k);
}

static ls_status update(ls_rank *k)
{
    ls_run *run = k->run;
    ls_replica *r = &k->replica;
    ls_step_numbers *n = &k->numbers;
    double mark = ls_clock();
    n->lr = ls_callbacks_rate(&k->progress.callbacks, &run->config,
                              ls_config_rate(&run->config, k->progress.step));
    if (n->failed) return ls_guard_undo(k);
    if (n->skipped) return ls_replica_commit_statistics(r, false);
    const ls_optimizer_state before = k->optimizer;
    const ls_gradient_finish_args finish = finish_args(k);
    ls_optimizer_advance(&k->optimizer, &run->config);
    LS_TRY(upload_steps(k));
    ls_update_args args = ls_optimizer_constants(&k->optimizer, &run->config);
    args.tensors = &r->tensors;
    args.step_host = r->step_host;
    args.step_device = r->step_device;
    args.finish = finishes_in_update(run) ? &finish : NULL;
    args.g = finish.g;
    args.w = r->weights;
    args.slot0 = r->slot[0];
    args.slot1 = r->slot[1];
    args.average = r->average;
    args.update_square_sum = r->results.update_square;
    args.digest = r->results.digest;
    args.sums_digest = compares_in_update(run) ? r->results.sums_digest : NULL;
    LS_TRY(ls_update(&r->compute, &args));
    LS_TRY(ls_replica_weights_changed(r));
    LS_TRY(ls_replica_commit_statistics(r, true));
    LS_TRY(ls_replica_read_results(r, run->group, "updating the weights"));
    n->update_norm = ls_printable(sqrt(ls_tree_sum(r->results_host.update_square,
                                                   (size_t)run->model.parameter_count)));
    n->digest = ls_replica_digest(r);
    if (compares_in_update(run)) n->sums_digest = *r->results_host.sums_digest;
    if (!finishes_in_update(run) && !isfinite(n->update_norm)) return take_back(k, &before);
    LS_TRY(ls_guard_keep(k));
    k->line.update += lap(&mark);
    return LS_OK;
}

/* Where the update finished its gradient, both are judged here: not before the sums have been
 * compared, as a damaged one may be what is not finite. */
static ls_status judge_update(ls_rank *k)
{
    if (!finishes_in_update(k->run) || k->numbers.skipped) return LS_OK;
    LS_TRY(judge_gradient(k));
    return isfinite(k->numbers.update_norm) ? LS_OK : refuse_update(k);
}

/* -- the replicas compare what they have ------------------------------------------------------- */

/* Rank 0 alone hears of signals and of the time; everybody learns of it here. */
static ls_status agree(ls_rank *k)
{
    const ls_observer *observer = k->run->observer;
    const uint64_t every = k->run->config.check_every, step = k->progress.step + 1;
    const bool checked = every > 0 && step % every == 0;
    const double limit = k->run->config.time_limit_s;
    k->out_of_time = k->rank == 0 && limit > 0 && ls_clock() - k->run->begin >= limit;
    const bool signalled = k->rank == 0 && observer->should_stop
                           && observer->should_stop(observer->context);
    const bool want_stop = signalled || k->out_of_time;
    k->out_of_time = k->out_of_time && !signalled;
    double mark = ls_clock();
    LS_TRY(ls_weights_compare(k, checked ? k->numbers.digest : 0, want_stop));
    const double seconds = lap(&mark);
    k->line.exchange += seconds;
    k->line.exchange_wait += seconds; /* a few bytes a rank: it is a meeting */
    return LS_OK;
}

/* -- the step ---------------------------------------------------------------------------------- */

/* Move the run's place in time. A skipped step consumes data but is no update. */
static void advance(ls_rank *k, double begin)
{
    ls_progress *p = &k->progress;
    const ls_step_numbers *n = &k->numbers;
    if (!n->skipped) p->step++;
    p->step_of_epoch++;
    if (!n->failed) ls_epoch_sums_add(&p->sums, &n->totals, n->loss);
    k->line.loss_scale = p->guard.loss_scale;
    ls_guard_end(k);
    k->line.epoch = p->epoch + 1;
    k->line.step = p->step;
    k->line.loss = n->loss;
    k->line.regularizer = n->regularizer;
    k->line.grad_norm = n->grad_norm;
    k->line.update_norm = n->update_norm;
    k->line.lr = n->lr;
    k->line.samples = (uint64_t)n->totals.samples;
    k->line.skipped = n->skipped;
    k->line.seconds = ls_clock() - begin;
}

ls_status ls_step_take(ls_rank *rank)
{
    ls_rank *k = rank;
    const double begin = ls_clock();
    const bool explain = k->run->explanation
                         && k->progress.step + 1 == k->run->config.explain_step;
    k->line = (ls_log_line){ 0 };
    k->numbers = (ls_step_numbers){ 0 };
    const double waited = ls_comm_waited(k->run->comm, k->rank);
    ls_guard_begin(k);
    LS_TRY(load_batch(k));
    LS_TRY(compute_sums(k));
    LS_TRY(combine_sums(k));
    if (explain) LS_TRY(ls_explain_begin(k));
    LS_TRY(divide(k));
    LS_TRY(update(k));
    k->line.exchange_wait = ls_comm_waited(k->run->comm, k->rank) - waited;
    LS_TRY(agree(k));
    LS_TRY(judge_update(k));
    if (explain) LS_TRY(ls_explain_end(k));
    advance(k, begin);
    return LS_OK;
}
