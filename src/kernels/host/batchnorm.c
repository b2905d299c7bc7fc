/* SPDX-License-Identifier: MIT */
/* batchnorm.c -- host: merges of statistics, normalisation and its gradient.
 *
 * Normalisation is element by element and bound by memory. What depends on the channel alone is
 * computed once per shard that has statistics of its own, else once, into rows of constants; with
 * few channels, for several places one after the other, so that the inner loop is long:
 *
 *     x         c0 c1 c2 c0 c1 c2 c0 c1 c2 c0 c1 c2 | c0 c1 c2 ...
 *     constant  c0 c1 c2 c0 c1 c2 c0 c1 c2 c0 c1 c2   a unit of 4 places
 *
 * Sums over samples are in batchnorm_sums.c.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/host/lanes.h"
#include "kernels/host/ranges.h"
#include "kernels/row_merge.h"

/* -- merges ------------------------------------------------------------------------------------ */

enum { MERGE_BLOCK = 64, MERGE_GRAIN = 1024 };

typedef struct {
    const ls_batchnorm_merge_args *args;
    ls_row_merge plan;
} merge_job;

/* Shards of which everything is known, a block of channels each. */
typedef struct {
    float mean[LS_ROW_MERGE_DEPTH][MERGE_BLOCK], M2[LS_ROW_MERGE_DEPTH][MERGE_BLOCK];
    float variance[LS_ROW_MERGE_DEPTH][MERGE_BLOCK];
    int depth;
} merge_stack;

static void push_row(merge_stack *stack, const float *row, size_t channels, float n, size_t count)
{
    float *mean = stack->mean[stack->depth], *M2 = stack->M2[stack->depth];
    float *variance = stack->variance[stack->depth];
    for (size_t c = 0; c < count; c++) {
        mean[c] = row[c];
        M2[c] = row[channels + c];
        variance[c] = M2[c] / n;
    }
    stack->depth++;
}

/* The two topmost become one. */
static void merge_top(merge_stack *stack, float fraction, float weight, size_t count)
{
    const int b = --stack->depth, a = b - 1;
    for (size_t c = 0; c < count; c++) {
        const float delta = stack->mean[b][c] - stack->mean[a][c], va = stack->variance[a][c];
        stack->mean[a][c] = ls_fmaf(delta, fraction, stack->mean[a][c]);
        stack->M2[a][c] = ls_fmaf(delta * delta, weight, stack->M2[a][c] + stack->M2[b][c]);
        stack->variance[a][c] = ls_fmaf(stack->variance[b][c] - va, fraction, va);
    }
}

static void move(float *moving, float weight, const float *to, size_t count)
{
    for (size_t c = 0; c < count; c++) moving[c] = ls_fmaf(weight, to[c] - moving[c], moving[c]);
}

/* Channels first .. first + count - 1, a block at most. */
static void merge_block(const merge_job *job, size_t first, size_t count)
{
    const ls_batchnorm_merge_args *args = job->args;
    const ls_row_merge *plan = &job->plan;
    merge_stack stack;
    stack.depth = 0;
    for (int i = 0, j = 0; i < plan->row_count; i++) {
        const float *row = args->row + (size_t)plan->row[i] * 2 * args->channels + first;
        push_row(&stack, row, args->channels, plan->n[i], count);
        for (int k = plan->adds[i]; k > 0; k--, j++) {
            merge_top(&stack, plan->fraction[j], plan->weight[j], count);
        }
    }
    float *mean = args->merged + first, *M2 = mean + args->channels;
    if (stack.depth == 0) {
        memset(mean, 0, count * sizeof *mean);
        memset(M2, 0, count * sizeof *M2);
        return;
    }
    memcpy(mean, stack.mean[0], count * sizeof *mean);
    memcpy(M2, stack.M2[0], count * sizeof *M2);
    if (!args->by_shard) {
        for (size_t c = 0; c < count; c++) stack.variance[0][c] = M2[c] / plan->total;
    }
    move(args->moving_mean + first, args->one_minus_momentum, stack.mean[0], count);
    move(args->moving_variance + first, args->one_minus_momentum, stack.variance[0], count);
}

static void merge_channels(const void *job, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t c = begin; c < end; c += MERGE_BLOCK) {
        merge_block(job, c, end - c < MERGE_BLOCK ? end - c : MERGE_BLOCK);
    }
}

ls_status LS_HOST(batchnorm_merge)(ls_stream *stream, const ls_batchnorm_merge_args *args)
{
    merge_job job = { .args = args };
    ls_row_merge_init(&job.plan, args->shard_count, args->n);
    ls_range_run(stream, args->channels, MERGE_GRAIN, merge_channels, &job);
    return LS_OK;
}

typedef struct {
    const ls_batchnorm_merge_sums_args *args;
    ls_row_merge plan;
} merge_sums_job;

/* Elements first .. first + count - 1 of the rows, a block at most. */
static void merge_sums_block(const merge_sums_job *job, size_t first, size_t count)
{
    const ls_row_merge *plan = &job->plan;
    float stack[LS_ROW_MERGE_DEPTH][MERGE_BLOCK];
    int depth = 0;
    for (int i = 0; i < plan->row_count; i++) {
        const float *row = job->args->row + (size_t)plan->row[i] * 2 * job->args->channels + first;
        for (size_t c = 0; c < count; c++) stack[depth][c] = row[c];
        depth++;
        for (int k = plan->adds[i]; k > 0; k--) {
            depth--;
            for (size_t c = 0; c < count; c++) stack[depth - 1][c] += stack[depth][c];
        }
    }
    for (size_t c = 0; c < count; c++) job->args->merged[first + c] = depth > 0 ? stack[0][c] : 0;
}

static void merge_sums_elements(const void *job, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t c = begin; c < end; c += MERGE_BLOCK) {
        merge_sums_block(job, c, end - c < MERGE_BLOCK ? end - c : MERGE_BLOCK);
    }
}

ls_status LS_HOST(batchnorm_merge_sums)(ls_stream *stream,
                                        const ls_batchnorm_merge_sums_args *args)
{
    merge_sums_job job = { .args = args };
    ls_row_merge_init(&job.plan, args->shard_count, args->n);
    ls_range_run(stream, 2 * args->channels, MERGE_GRAIN, merge_sums_elements, &job);
    return LS_OK;
}

/* -- element by element ------------------------------------------------------------------------ */

enum {
    GRAIN = 32768,     /* elements of a task */
    UNIT = 512,        /* elements of a unit, or what one place has more */
    PART = 1 << 17,    /* channels at a time */
    CONSTANTS = 5,
};
static_assert(CONSTANTS * (PART + UNIT) * sizeof(float) <= LS_SCRATCH_BYTES, "scratch memory");

typedef struct element_loop element_loop;

/* constant[k][i] for channel first + i, i < channels, of the samples that read `shard`'s row. */
typedef void prepare_fn(const element_loop *loop, size_t shard);

/* Elements at .. at + count - 1; element at + i takes constant[k][i]. */
typedef void apply_fn(const element_loop *loop, size_t at, size_t count);

/* Some channels of the samples that share a row of statistics. */
struct element_loop {
    const void *args;
    const ls_batchnorm_statistics_of *statistics;
    prepare_fn *prepare;
    apply_fn *apply;
    size_t all_channels;
    size_t first, channels; /* those at hand */
    size_t repeat;          /* places of a unit; 1 unless all channels are at hand */
    size_t begin, end;      /* places */
    float *constant[CONSTANTS];
};

static void apply_units(const void *loop_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const element_loop *loop = loop_;
    for (size_t unit = begin; unit < end; unit++) {
        const size_t place = loop->begin + unit * loop->repeat, left = loop->end - place;
        const size_t places = left < loop->repeat ? left : loop->repeat;
        loop->apply(loop, place * loop->all_channels + loop->first, places * loop->channels);
    }
}

/* Places of a unit: a multiple of the lanes where there are so many. */
static size_t places_of_unit(size_t channels)
{
    const size_t places = UNIT / channels;
    if (places >= LS_LANES) return places / LS_LANES * LS_LANES;
    return places > 0 ? places : 1;
}

/* Places begin .. end-1, which read row `shard`. */
static void run_places(ls_stream *stream, element_loop *loop, size_t shard, size_t begin,
                       size_t end)
{
    float *scratch = ls_pool_scratch(stream->device->pool, 0);
    for (int k = 0; k < CONSTANTS; k++) loop->constant[k] = scratch + k * (PART + UNIT);
    loop->begin = begin;
    loop->end = end;
    for (loop->first = 0; loop->first < loop->all_channels; loop->first += loop->channels) {
        const size_t left = loop->all_channels - loop->first;
        loop->channels = left < PART ? left : PART;
        loop->repeat = loop->channels == loop->all_channels ? places_of_unit(loop->channels) : 1;
        loop->prepare(loop, shard);
        for (int k = 0; k < CONSTANTS; k++) {
            float *constant = loop->constant[k];
            for (size_t i = loop->channels; i < loop->repeat * loop->channels; i++) {
                constant[i] = constant[i - loop->channels];
            }
        }
        const size_t units = (end - begin + loop->repeat - 1) / loop->repeat;
        ls_range_run(stream, units, GRAIN / (loop->repeat * loop->channels), apply_units, loop);
    }
}

/* All samples, by the rows that they read. */
static void run_samples(ls_stream *stream, element_loop *loop, const ls_batchnorm_shape *shape,
                        const ls_fold *fold, size_t samples)
{
    const size_t places = shape->height * shape->width;
    loop->all_channels = shape->channels;
    if (loop->statistics->stride == 0) {
        if (samples > 0) run_places(stream, loop, 0, 0, samples * places);
        return;
    }
    for (int leaf = 0; leaf < fold->leaf_count; leaf++) {
        const size_t begin = fold->sample[leaf] * places, end = fold->sample[leaf + 1] * places;
        if (begin < end) run_places(stream, loop, (size_t)fold->shard[leaf], begin, end);
    }
}

enum { MEAN, INV, GAMMA, BETA };

/* Means and the reciprocals of the deviations. */
static void prepare_statistics(const element_loop *loop, size_t shard, float epsilon)
{
    const float *mean = loop->statistics->row + shard * loop->statistics->stride + loop->first;
    const float *M2 = mean + loop->all_channels, n = loop->statistics->n[shard];
    float *restrict to_mean = loop->constant[MEAN], *restrict inv = loop->constant[INV];
    for (size_t c = 0; c < loop->channels; c++) {
        to_mean[c] = mean[c];
        inv[c] = 1.0f / sqrtf(M2[c] / n + epsilon);
    }
}

static void prepare_normalise(const element_loop *loop, size_t shard)
{
    const ls_batchnorm_args *args = loop->args;
    prepare_statistics(loop, shard, args->epsilon);
    float *restrict gamma = loop->constant[GAMMA], *restrict beta = loop->constant[BETA];
    for (size_t c = 0; c < loop->channels; c++) {
        gamma[c] = args->gamma[loop->first + c];
        beta[c] = args->beta[loop->first + c];
    }
}

/* (x - mean) / deviation of the word of channels from `i` on. */
LS_ALWAYS_INLINE ls_vec normalised(const element_loop *loop, ls_vec x, size_t i)
{
    return ls_vec_mul(ls_vec_sub(x, ls_vec_load(loop->constant[MEAN] + i)),
                      ls_vec_load(loop->constant[INV] + i));
}

LS_ALWAYS_INLINE void normalise_word(const element_loop *loop, size_t at, size_t i, size_t lanes,
                                     bool relu)
{
    const ls_batchnorm_args *args = loop->args;
    float *to = args->y + at + i;
    const ls_vec x = ls_vec_load_lanes(args->x + at + i, lanes);
    const ls_vec xhat = normalised(loop, x, i);
    const ls_vec y = ls_vec_fma(ls_vec_load(loop->constant[GAMMA] + i), xhat,
                                ls_vec_load(loop->constant[BETA] + i));
    ls_fetch_target(to);
    ls_vec_store_lanes(to, relu ? ls_vec_relu(y) : y, lanes);
}

LS_ALWAYS_INLINE void normalise_words(const element_loop *loop, size_t at, size_t count, bool relu)
{
    size_t i = 0;
    for (; i + LS_LANES <= count; i += LS_LANES) normalise_word(loop, at, i, LS_LANES, relu);
    if (i < count) normalise_word(loop, at, i, count - i, relu);
}

static void normalise(const element_loop *loop, size_t at, size_t count)
{
    const ls_batchnorm_args *args = loop->args;
    if (args->relu) normalise_words(loop, at, count, true);
    else normalise_words(loop, at, count, false);
}

ls_status LS_HOST(batchnorm)(ls_stream *stream, const ls_batchnorm_args *args)
{
    element_loop loop = { .args = args, .statistics = &args->statistics,
                          .prepare = prepare_normalise, .apply = normalise };
    run_samples(stream, &loop, &args->shape, args->fold, args->samples);
    return LS_OK;
}

/* In the place of gamma and beta: gamma * inv, S1 / n, S2 / n. */
enum { SCALE = 2, MEAN_GRADIENT, MEAN_PRODUCT };

static void prepare_gradient(const element_loop *loop, size_t shard)
{
    const ls_batchnorm_gradient_args *args = loop->args;
    prepare_statistics(loop, shard, args->epsilon);
    const float *S1 = args->sums + shard * args->statistics.stride + loop->first;
    const float *S2 = S1 + loop->all_channels, n = args->statistics.n[shard];
    const float *gamma = args->gamma + loop->first, *inv = loop->constant[INV];
    float *restrict scale = loop->constant[SCALE];
    float *restrict mean_gradient = loop->constant[MEAN_GRADIENT];
    float *restrict mean_product = loop->constant[MEAN_PRODUCT];
    for (size_t c = 0; c < loop->channels; c++) {
        scale[c] = gamma[c] * inv[c];
        mean_gradient[c] = S1[c] / n;
        mean_product[c] = S2[c] / n;
    }
}

LS_ALWAYS_INLINE void gradient_word(const element_loop *loop, size_t at, size_t i, size_t lanes)
{
    const ls_batchnorm_gradient_args *args = loop->args;
    float *to = args->dx + at + i;
    const ls_vec x = ls_vec_load_lanes(args->x + at + i, lanes);
    const ls_vec dy = ls_vec_load_lanes(args->dy + at + i, lanes);
    const ls_vec xhat = normalised(loop, x, i);
    const ls_vec centred = ls_vec_fma(
        ls_vec_negate(xhat), ls_vec_load(loop->constant[MEAN_PRODUCT] + i),
        ls_vec_sub(dy, ls_vec_load(loop->constant[MEAN_GRADIENT] + i)));
    ls_fetch_target(to);
    ls_vec_store_lanes(to, ls_vec_mul(ls_vec_load(loop->constant[SCALE] + i), centred), lanes);
}

static void gradient(const element_loop *loop, size_t at, size_t count)
{
    size_t i = 0;
    for (; i + LS_LANES <= count; i += LS_LANES) gradient_word(loop, at, i, LS_LANES);
    if (i < count) gradient_word(loop, at, i, count - i);
}

ls_status LS_HOST(batchnorm_gradient)(ls_stream *stream, const ls_batchnorm_gradient_args *args)
{
    element_loop loop = { .args = args, .statistics = &args->statistics,
                          .prepare = prepare_gradient, .apply = gradient };
    run_samples(stream, &loop, &args->shape, args->fold, args->samples);
    return LS_OK;
}
