/* SPDX-License-Identifier: MIT */
/* normalize.c -- see normalize.h.
 *
 *                    own shards' rows --gather--> V rows --merge--> one row
 *     forward        mean, M2                                       mean, M2: normalise; move
 *     backward       S1, S2                                         S1, S2: the gradient of x
 *
 * With statistics by shard a shard reads its own row. The rows are gathered all the same, for the
 * moving statistics, in the last pass of a step; sums of the backward pass are not.
 *
 * n of a shard is a matter of counting: its samples (0 if it is not in this pass) times the places
 * of the layer's output. Every rank knows it for all shards.
 */
#include "train/normalize.h"

static ls_batchnorm_shape shape_of(const ls_layer *layer)
{
    return (ls_batchnorm_shape){ layer->out.height, layer->out.width, layer->out.channels };
}

enum { ALL_PASSES = -1 };

/* n of every shard that takes part in `pass`. */
static void count_values(const ls_replica *r, const ls_layer *layer, int pass, size_t *n)
{
    const ls_replica_config *config = r->config;
    const size_t places = layer->out.height * layer->out.width;
    for (int s = 0; s < config->shard_count; s++) {
        const size_t begin = ls_shard_begin(s, r->batch_samples, config->shard_count);
        const size_t end = ls_shard_begin(s + 1, r->batch_samples, config->shard_count);
        const bool takes_part = pass == ALL_PASSES || s % config->accumulate == pass;
        n[s] = takes_part ? (end - begin) * places : 0;
    }
}

/* With which row of statistics a sample is normalised. */
static ls_batchnorm_statistics_of statistics_of(const ls_replica *r, const ls_layer *layer, int l,
                                                const ls_pass_input *input)
{
    const ls_replica_config *config = r->config;
    if (input->kind == LS_PASS_INFERENCE) {
        const float *moving = r->statistics + config->model->statistic[layer->mean].begin;
        return (ls_batchnorm_statistics_of){ .row = moving, .n = { 1 } };
    }
    size_t n[LS_SHARD_MAX], total = 0;
    ls_batchnorm_statistics_of of = { .row = r->batchnorm[l].merged };
    count_values(r, layer, input->pass, n);
    for (int s = 0; s < config->shard_count; s++) total += n[s];
    of.n[0] = (float)total;
    if (!config->shard_statistics) return of;
    of.row = r->batchnorm[l].rows;
    of.stride = 2 * layer->out.channels;
    for (int s = 0; s < config->shard_count; s++) of.n[s] = (float)n[s];
    return of;
}

/* Merge the rows of the shards of `pass`; `mean` and `variance` move. */
static ls_status merge_rows(ls_replica *r, const ls_layer *layer, const ls_batchnorm_rows *kept,
                            int pass, float *mean, float *variance)
{
    ls_batchnorm_merge_args merge = {
        .channels = layer->out.channels,
        .shard_count = r->config->shard_count,
        .row = kept->rows,
        .by_shard = r->config->shard_statistics,
        .one_minus_momentum = (float)(1 - layer->momentum),
        .merged = kept->merged,
        .moving_mean = mean,
        .moving_variance = variance,
    };
    count_values(r, layer, pass, merge.n);
    return ls_batchnorm_merge(&r->compute, &merge);
}

/* This rank's rows, then all ranks', then their merge; and the moving statistics move. By shard a
 * pass needs its own rows only, so they move once, with those of all passes. */
static ls_status take_statistics(ls_replica *r, const ls_layer *layer,
                                 const ls_batchnorm_rows *kept, const ls_pass_input *input,
                                 const ls_fold *fold, const float *x)
{
    const ls_model *model = r->config->model;
    const bool by_shard = r->config->shard_statistics;
    LS_TRY(ls_batchnorm_statistics(&r->compute, &(ls_batchnorm_statistics_args){
        .shape = shape_of(layer), .fold = fold, .x = x, .row = kept->rows }));
    if (by_shard && input->pass < r->config->accumulate - 1) return LS_OK;
    LS_TRY(r->exchange.gather(r->exchange.context, kept->rows,
                              2 * layer->out.channels * sizeof(float)));
    return merge_rows(r, layer, kept, by_shard ? ALL_PASSES : input->pass,
                      r->moved + model->statistic[layer->mean].begin,
                      r->moved + model->statistic[layer->variance].begin);
}

/* The merged row of a pass that is repeated, which may not be the last one; all rows are still
 * here. Nothing moves but memory that the backward pass writes anew. */
static ls_status retake_statistics(ls_replica *r, const ls_layer *layer,
                                   const ls_batchnorm_rows *kept, const ls_pass_input *input)
{
    const size_t channels = layer->out.channels;
    if (r->config->shard_statistics) return LS_OK;
    LS_TRY(ls_fill(&r->compute, kept->merged_sums, 0, 2 * channels * sizeof(float)));
    return merge_rows(r, layer, kept, input->pass, kept->merged_sums,
                      kept->merged_sums + channels);
}

ls_status ls_normalize_forward(ls_replica *r, int l, const ls_pass_input *input,
                               const ls_fold *fold, const float *x, float *y)
{
    const ls_layer *layer = &r->config->model->layer[l];
    if (input->kind == LS_PASS_TRAINING)
        LS_TRY(take_statistics(r, layer, &r->batchnorm[l], input, fold, x));
    if (input->kind == LS_PASS_REPEATED)
        LS_TRY(retake_statistics(r, layer, &r->batchnorm[l], input));
    const ls_model *model = r->config->model;
    return ls_batchnorm(&r->compute, &(ls_batchnorm_args){
        .shape = shape_of(layer),
        .samples = input->samples,
        .fold = fold,
        .statistics = statistics_of(r, layer, l, input),
        .epsilon = (float)layer->epsilon,
        .relu = layer->relu,
        .gamma = r->weights + model->parameter[layer->gamma].begin,
        .beta = r->weights + model->parameter[layer->beta].begin,
        .x = x,
        .y = y,
    });
}

/* Merge the sums of all ranks' shards; in a pass that is repeated their rows are here already. */
static ls_status merge_gradient_sums(ls_replica *r, const ls_layer *layer,
                                     const ls_batchnorm_rows *kept, const ls_pass_input *input)
{
    ls_batchnorm_merge_sums_args merge = {
        .channels = layer->out.channels,
        .shard_count = r->config->shard_count,
        .row = kept->sum_rows,
        .merged = kept->merged_sums,
    };
    if (input->kind == LS_PASS_TRAINING)
        LS_TRY(r->exchange.gather(r->exchange.context, kept->sum_rows,
                                  2 * layer->out.channels * sizeof(float)));
    count_values(r, layer, input->pass, merge.n);
    return ls_batchnorm_merge_sums(&r->compute, &merge);
}

ls_status ls_normalize_backward(ls_replica *r, int l, const ls_pass_input *input,
                                const ls_fold *fold, const float *x, const float *dy, float *dx)
{
    const ls_model *model = r->config->model;
    const ls_layer *layer = &model->layer[l];
    const ls_batchnorm_rows *kept = &r->batchnorm[l];
    const ls_batchnorm_statistics_of statistics = statistics_of(r, layer, l, input);
    const bool by_shard = r->config->shard_statistics;
    LS_TRY(ls_batchnorm_gradient_sums(&r->compute, &(ls_batchnorm_gradient_sums_args){
        .shape = shape_of(layer),
        .fold = fold,
        .statistics = statistics,
        .epsilon = (float)layer->epsilon,
        .x = x,
        .dy = dy,
        .row = kept->sum_rows,
        .dgamma = r->gradients + model->parameter[layer->gamma].begin,
        .dbeta = r->gradients + model->parameter[layer->beta].begin,
        .piece_stride = model->arena_floats,
    }));
    if (!dx) return LS_OK;
    if (!by_shard) LS_TRY(merge_gradient_sums(r, layer, kept, input));
    return ls_batchnorm_gradient(&r->compute, &(ls_batchnorm_gradient_args){
        .shape = shape_of(layer),
        .samples = input->samples,
        .fold = fold,
        .statistics = statistics,
        .sums = by_shard ? kept->sum_rows : kept->merged_sums,
        .epsilon = (float)layer->epsilon,
        .gamma = r->weights + model->parameter[layer->gamma].begin,
        .x = x,
        .dy = dy,
        .dx = dx,
    });
}
