/* SPDX-License-Identifier: MIT */
/* nonfinite.c -- a value that is not finite fails the step, or stops the run and says where it is.
 *
 * guard.h says which numbers a step is tested on and what a failure leads to; this file tests them,
 * and where the run is to end it looks for the cause as far upstream as it can see: weights before
 * layer outputs, layer outputs before the loss, statistics before gradients. For layer outputs and
 * the loss every rank runs the passes of the step again, one by one, as a pass keeps nothing of
 * those before it, and looks at its own samples. A layer comes before a record: one that is not
 * finite may spoil others behind a batch normalisation, but none in a layer before its own. So what
 * is named depends neither on the number of ranks nor on that of passes.
 *
 * Thread rule: an ls_rank belongs to its thread.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "train/guard.h"

/* -- the loss ---------------------------------------------------------------------------------- */

/* *at = the first of `count` numbers in device memory that is not finite, or LS_ALL_FINITE.
 * Blocks. */
static ls_status find_first(ls_rank *k, const float *x, size_t count, uint64_t *at)
{
    ls_replica *r = &k->replica;
    LS_TRY(ls_nonfinite(&r->compute, &(ls_nonfinite_args){
        .count = count, .x = x, .out = r->results.nonfinite }));
    LS_TRY(ls_replica_read_results(r, k->run->group, "looking for a value that is not finite"));
    *at = r->results_host.nonfinite[0];
    return LS_OK;
}

/* LS_OK: this rank's weights are finite. */
static ls_status search_weights(ls_rank *k)
{
    const ls_model *model = &k->run->model;
    for (int p = 0; p < model->parameter_count; p++) {
        const ls_parameter *parameter = &model->parameter[p];
        uint64_t at;
        LS_TRY(find_first(k, k->replica.weights + parameter->begin, parameter->count, &at));
        if (at != LS_ALL_FINITE)
            return ls_fail(LS_ERR_NONFINITE, "the loss is %g: weights/%s holds a value that is not "
                           "finite, element %" PRIu64, k->numbers.loss, parameter->name, at);
    }
    return LS_OK;
}

/* Run pass `pass` again: the first layer whose output is not finite, layer_count if only the loss
 * is not, -1 if all is; and the first row of which. */
static ls_status search_pass(ls_rank *k, int pass, int *layer, uint64_t *row)
{
    ls_replica *r = &k->replica;
    const ls_model *model = &k->run->model;
    ls_pass_input input = ls_replica_pass(r, pass);
    input.kind = LS_PASS_REPEATED;
    LS_TRY(ls_replica_forward(r, &input, &r->plan.pass[pass]));
    LS_TRY(ls_replica_loss(r, &input, false, false));
    for (*layer = 0; *layer < model->layer_count; ++*layer) {
        const size_t floats = ls_shape_floats(model->layer[*layer].out);
        const float *y;
        uint64_t at;
        if (!model->layer[*layer].is_used) continue;
        LS_TRY(ls_replica_layer_output(r, *layer, input.samples, &y));
        LS_TRY(find_first(k, y, input.samples * floats, &at));
        if (at == LS_ALL_FINITE) continue;
        *row = at / floats;
        return LS_OK;
    }
    LS_TRY(find_first(k, r->loss, input.samples, row));
    if (*row == LS_ALL_FINITE) *layer = -1;
    return LS_OK;
}

/* The place in the training part of row `row` of pass `pass`, counted from 1 as records are. */
static ls_status read_place(ls_rank *k, int pass, uint64_t row, uint64_t *place)
{
    ls_replica *r = &k->replica;
    const uint32_t *from = ls_replica_pass(r, pass).index + row;
    uint32_t index;
    LS_TRY(ls_replica_read_word(r, from, &index, k->run->group, "reading where a sample is"));
    *place = (uint64_t)index + 1;
    return LS_OK;
}

/* The rank's bad_layer, as search_pass has it, over all passes, and the place of the first sample
 * of which, in the order of the batch: a pass takes every A-th shard. */
static ls_status search_passes(ls_rank *k, uint64_t *place)
{
    const ls_replica *r = &k->replica;
    size_t first = 0;
    k->bad_layer = -1;
    for (int pass = 0; pass < r->plan.pass_count; pass++) {
        int layer;
        uint64_t row;
        LS_TRY(search_pass(k, pass, &layer, &row));
        if (layer < 0 || (k->bad_layer >= 0 && layer > k->bad_layer)) continue;
        const size_t sample = ls_fold_sample_at(&r->plan, pass, row, k->run->config.shards,
                                                r->batch_samples);
        if (layer == k->bad_layer && sample > first) continue;
        k->bad_layer = layer;
        first = sample;
        LS_TRY(read_place(k, pass, row, place));
    }
    return LS_OK;
}

/* The rank whose sample is the first, in the order of the batch, of which the first layer of all
 * ranks is not finite; -1: all are finite. Equal on all ranks, and the sample is the same for any
 * number of them: ranks share the batch out in order. After a barrier. */
static int first_bad_rank(const ls_run *run)
{
    int first = -1;
    for (int r = 0; r < run->world_size; r++) {
        const int layer = run->rank[r].bad_layer;
        if (layer >= 0 && (first < 0 || layer < run->rank[first].bad_layer)) first = r;
    }
    return first;
}

/* Does not return LS_OK. */
static ls_status explain_record(const ls_rank *k, uint64_t place)
{
    const ls_model *model = &k->run->model;
    if (k->bad_layer < model->layer_count)
        return ls_fail(LS_ERR_NONFINITE, "the loss is %g: the output of layer %s is the first that "
                       "is not finite, of record %" PRIu64 " of the training part",
                       k->numbers.loss, model->layer[k->bad_layer].name, place);
    return ls_fail(LS_ERR_NONFINITE, "the loss is %g, while weights and layer outputs are finite: "
                   "that of record %" PRIu64 " of the training part overflowed; a smaller learning "
                   "rate or scaled inputs may help", k->numbers.loss, place);
}

/* Are the sums of this rank's shards finite, as the step had them? */
static bool has_finite_sums(const ls_rank *k)
{
    const int shards = k->run->config.shards, world_size = k->run->world_size;
    for (int s = ls_rank_shard_begin(k->rank, shards, world_size);
         s < ls_rank_shard_begin(k->rank + 1, shards, world_size); s++)
        if (!isfinite(k->replica.results_host.shard_sum[s].loss)) return false;
    return true;
}

/* Every rank looks at its own weights, then at its own samples; whoever has the cause reports it,
 * and the others wait until that ends them. Does not return LS_OK.
 * The barrier is what makes every rank's bad_layer visible to the others. */
static ls_status explain_loss(ls_rank *k)
{
    const char *what = "the search for a value that is not finite";
    uint64_t place = 0;
    LS_TRY(search_weights(k));
    LS_TRY(search_passes(k, &place));
    LS_TRY(ls_barrier_wait(k->run->group, k->rank, what));
    const int first = first_bad_rank(k->run);
    if (first == k->rank) return explain_record(k, place);
    if (first >= 0 || has_finite_sums(k)) /* the rank that has the cause does not come */
        LS_TRY(ls_barrier_wait(k->run->group, k->rank, what));
    return ls_fail(LS_ERR_NONFINITE, "the loss is %g, while the weights are finite and so is all "
                   "that is computed from them again: the device or its memory has failed",
                   k->numbers.loss);
}

ls_status ls_nonfinite_loss(ls_rank *k)
{
    return ls_guard_tolerates(k) ? LS_OK : explain_loss(k);
}

/* -- gradients and statistics ------------------------------------------------------------------ */

/* Does the optimizer square the gradient as it is? A clipped one is small. */
static bool squares_gradient(const ls_config *config)
{
    return ls_optimizer_slot_count(config->optimizer) > 0
           && config->optimizer != LS_OPTIMIZER_MOMENTUM
           && config->optimizer != LS_OPTIMIZER_NESTEROV
           && config->clip_value == 0 && config->clip_norm == 0 && config->clip_global_norm == 0;
}

/* The first trained parameter whose reduced gradient is not finite, or so large that the mean of
 * its square might not be, which would stop this weight for ever without a sign; or -1. */
static int bad_gradient(const ls_rank *k)
{
    const ls_results *results = &k->replica.results_host;
    const bool squares = squares_gradient(&k->run->config);
    for (int p = 0; p < k->run->model.parameter_count; p++) {
        if (k->run->rule[p].frozen) continue;
        if (results->nonfinite[p] != LS_ALL_FINITE) return p;
        if (squares && results->gradient_square[p] > (double)FLT_MAX) return p;
    }
    return -1;
}

/* Where the moving statistics would not be finite; LS_ALL_FINITE: nowhere. A batch whose variance
 * is infinite is normalised to finite numbers, so that the loss tells nothing. */
static uint64_t bad_statistic(const ls_rank *k)
{
    const ls_model *model = &k->run->model;
    if (model->statistic_floats == 0) return LS_ALL_FINITE;
    return k->replica.results_host.nonfinite[model->parameter_count];
}

/* Does not return LS_OK. */
static ls_status explain_statistic(const ls_rank *k, uint64_t at)
{
    const ls_parameter *statistic = k->run->model.statistic;
    while (at >= statistic->begin + statistic->count) statistic++;
    return ls_fail(LS_ERR_NONFINITE, "statistics/%s would not be finite, element %" PRIu64
                   "; the loss was %g", statistic->name, at - statistic->begin, k->numbers.loss);
}

ls_status ls_nonfinite_look(ls_rank *k)
{
    const ls_model *model = &k->run->model;
    ls_replica *r = &k->replica;
    if (model->statistic_floats == 0) return LS_OK;
    return ls_nonfinite(&r->compute, &(ls_nonfinite_args){
        .count = model->statistic_floats, .x = r->moved,
        .out = r->results.nonfinite + model->parameter_count });
}

ls_status ls_nonfinite_check(ls_rank *k)
{
    const uint64_t at = bad_statistic(k);
    if (at != LS_ALL_FINITE)
        return ls_guard_tolerates(k) ? LS_OK : explain_statistic(k, at);
    const int p = bad_gradient(k);
    if (p < 0 || ls_guard_tolerates(k)) return LS_OK;
    if (k->replica.results_host.nonfinite[p] == LS_ALL_FINITE)
        return ls_fail(LS_ERR_NONFINITE, "the gradient of %s is %g long, too much for %s to square;"
                       " the loss was %g", k->run->model.parameter[p].name,
                       sqrt(k->replica.results_host.gradient_square[p]),
                       ls_optimizer_name(k->run->config.optimizer), k->numbers.loss);
    return ls_fail(LS_ERR_NONFINITE, "the gradient of %s is not finite, element %" PRIu64
                   "; the loss was %g", k->run->model.parameter[p].name,
                   k->replica.results_host.nonfinite[p], k->numbers.loss);
}
