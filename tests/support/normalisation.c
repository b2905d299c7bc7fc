/* SPDX-License-Identifier: MIT */
/* normalisation.c -- one training pass of batch normalisation. See normalisation.h. */
#include "support/normalisation.h"

#include "support/test.h"

#define RUN(call) assert_int_equal(call, LS_OK)

size_t normalisation_samples(const normalisation *n)
{
    size_t samples = 0;
    for (int s = 0; s < n->shard_count; s++) samples += n->count[s];
    return samples;
}

static size_t sample_floats(const normalisation *n)
{
    return n->shape.height * n->shape.width * n->shape.channels;
}

size_t normalisation_floats(const normalisation *n)
{
    return normalisation_samples(n) * sample_floats(n);
}

void normalisation_deal(normalisation *n, size_t samples)
{
    for (int s = 0; s < n->shard_count; s++) {
        n->count[s] = ls_shard_begin(s + 1, samples, n->shard_count)
                      - ls_shard_begin(s, samples, n->shard_count);
    }
}

/* A rank's fold over the counts at hand. Returns its first sample of all. */
static size_t fold_of(const normalisation *n, int rank, ls_fold *fold)
{
    ls_fold_plan plan;
    ls_fold_plan_init(&plan, n->shard_count, n->world, rank, 1, 0);
    *fold = plan.pass[0];
    assert_true(fold->piece_count <= NORMALISED_PIECES);
    for (int i = 0; i < fold->leaf_count; i++) {
        fold->sample[i + 1] = fold->sample[i] + n->count[fold->shard[i]];
    }
    size_t begin = 0;
    for (int s = 0; s < ls_rank_shard_begin(rank, n->shard_count, n->world); s++) {
        begin += n->count[s];
    }
    return begin;
}

static float *take(float **at, size_t count)
{
    float *out = *at;
    *at += count;
    return out;
}

static void open_arrays(const normalisation *n, normalised *out)
{
    const size_t C = n->shape.channels, rows = (size_t)n->shard_count * 2 * C;
    const size_t pieces = (size_t)n->world * NORMALISED_PIECES * C, x = normalisation_floats(n);
    out->float_count = 2 * rows + 6 * C + 2 * x + 2 * pieces;
    out->floats = malloc(out->float_count * sizeof(float));
    assert_non_null(out->floats);
    for (size_t i = 0; i < out->float_count; i++) out->floats[i] = 7.0f;
    float *at = out->floats;
    out->row = take(&at, rows);
    out->sums = take(&at, rows);
    out->merged = take(&at, 2 * C);
    out->merged_sums = take(&at, 2 * C);
    out->moving_mean = take(&at, C);
    out->moving_variance = take(&at, C);
    out->y = take(&at, x);
    out->dx = take(&at, x);
    out->dgamma = take(&at, pieces);
    out->dbeta = take(&at, pieces);
    for (size_t c = 0; c < C; c++) {
        out->moving_mean[c] = n->moving_mean;
        out->moving_variance[c] = n->moving_variance;
    }
}

/* The rows that samples are normalised with. */
static ls_batchnorm_statistics_of statistics_of(const normalisation *n, const normalised *out)
{
    const size_t places = n->shape.height * n->shape.width;
    ls_batchnorm_statistics_of s = { .row = n->by_shard ? out->row : out->merged,
                                     .stride = n->by_shard ? 2 * n->shape.channels : 0 };
    s.n[0] = (float)(normalisation_samples(n) * places);
    for (int i = 0; n->by_shard && i < n->shard_count; i++) {
        s.n[i] = (float)(n->count[i] * places);
    }
    return s;
}

static void run_forward(ls_stream *stream, const normalisation *n, normalised *out)
{
    const size_t floats = sample_floats(n);
    ls_batchnorm_merge_args merge = {
        .channels = n->shape.channels, .shard_count = n->shard_count, .row = out->row,
        .by_shard = n->by_shard, .one_minus_momentum = n->one_minus_momentum,
        .merged = out->merged, .moving_mean = out->moving_mean,
        .moving_variance = out->moving_variance };
    for (int s = 0; s < n->shard_count; s++) {
        merge.n[s] = n->count[s] * n->shape.height * n->shape.width;
    }
    ls_fold fold;
    for (int rank = 0; rank < n->world; rank++) {
        const size_t first = fold_of(n, rank, &fold);
        RUN(ls_batchnorm_statistics(stream, &(ls_batchnorm_statistics_args){
            n->shape, &fold, n->x + first * floats, out->row }));
    }
    RUN(ls_batchnorm_merge(stream, &merge));
    for (int rank = 0; rank < n->world; rank++) {
        const size_t first = fold_of(n, rank, &fold);
        RUN(ls_batchnorm(stream, &(ls_batchnorm_args){
            .shape = n->shape, .samples = fold.sample[fold.leaf_count],
            .fold = n->by_shard ? &fold : NULL, .statistics = statistics_of(n, out),
            .epsilon = n->epsilon, .relu = n->relu, .gamma = n->gamma, .beta = n->beta,
            .x = n->x + first * floats, .y = out->y + first * floats }));
    }
}

static void run_backward(ls_stream *stream, const normalisation *n, normalised *out)
{
    const size_t floats = sample_floats(n), C = n->shape.channels;
    ls_batchnorm_merge_sums_args merge = { .channels = C, .shard_count = n->shard_count,
                                           .row = out->sums, .merged = out->merged_sums };
    for (int s = 0; s < n->shard_count; s++) {
        merge.n[s] = n->count[s] * n->shape.height * n->shape.width;
    }
    ls_fold fold;
    for (int rank = 0; rank < n->world; rank++) {
        const size_t first = fold_of(n, rank, &fold);
        const size_t pieces = (size_t)rank * NORMALISED_PIECES * C;
        RUN(ls_batchnorm_gradient_sums(stream, &(ls_batchnorm_gradient_sums_args){
            .shape = n->shape, .fold = &fold, .statistics = statistics_of(n, out),
            .epsilon = n->epsilon, .x = n->x + first * floats, .dy = n->dy + first * floats,
            .row = out->sums, .dgamma = out->dgamma + pieces, .dbeta = out->dbeta + pieces,
            .piece_stride = C }));
    }
    RUN(ls_batchnorm_merge_sums(stream, &merge));
    for (int rank = 0; rank < n->world; rank++) {
        const size_t first = fold_of(n, rank, &fold);
        RUN(ls_batchnorm_gradient(stream, &(ls_batchnorm_gradient_args){
            .shape = n->shape, .samples = fold.sample[fold.leaf_count],
            .fold = n->by_shard ? &fold : NULL, .statistics = statistics_of(n, out),
            .sums = n->by_shard ? out->sums : out->merged_sums, .epsilon = n->epsilon,
            .gamma = n->gamma, .x = n->x + first * floats, .dy = n->dy + first * floats,
            .dx = out->dx + first * floats }));
    }
}

void normalisation_run(ls_stream *stream, const normalisation *n, normalised *out)
{
    open_arrays(n, out);
    run_forward(stream, n, out);
    run_backward(stream, n, out);
}

void normalised_free(normalised *out) { free(out->floats); }
