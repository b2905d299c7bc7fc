/* SPDX-License-Identifier: MIT */
/* batchnorm_sums.c -- host: batch sums of batch normalisation, vectorised over channels.
 *
 * A task is one slice and one block of channels, whose chains are a row of partials in the scratch
 * memory of the calling thread. It walks through several places side by side and adds them, a word
 * of channels at a time, in order: memory is read in a few streams, and a partial is loaded and
 * stored once for all of them. The calling thread then adds the rows of each leaf by the tree, a
 * thousandth of the work:
 *
 *     task (slice, c)    places of a slice, channels c ..  -> partial[slice][sum][c ..]
 *     tree               partial rows of a leaf            -> one of them
 *
 * Statistics take two passes, the second with the mean of the first, and go through the leaves some
 * megabyte at a time, so that the second finds x in a cache. The gradient's two sums are made in
 * one pass.
 *
 * A limit: 2^19 slices of a shard, each of 1024 places or so.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/host/fold_rows.h"
#include "kernels/host/lanes.h"

enum {
    BLOCK = 256,                   /* channels of a task */
    STREAMS = 8,                   /* places met at a time */
    SUMS_MAX = 2,
    ROUND_FLOATS = 1 << 18,        /* elements of x of the leaves that are met together */
    SCRATCH_FLOATS = (1 << 20),
    FOLD_CHANNELS = SCRATCH_FLOATS / LS_SHARD_MAX
};
static_assert(SCRATCH_FLOATS * sizeof(float) <= LS_SCRATCH_BYTES, "partials");

/* -- chains ------------------------------------------------------------------------------------ */

/* What a task sums: `places` places, `stride` floats apart, n channels from the first of x on. */
typedef struct {
    const float *x, *dy;
    size_t places, stride, n;
    float minus_mean[BLOCK], inv[BLOCK]; /* of its channels, +0 beyond them */
    float *out[SUMS_MAX];
} slice;

/* Continue the sums of channels c .. c + lanes - 1, up to a word of them, with `count` places from
 * `at` on, counted in floats from the slice's first. */
typedef void chain_fn(const slice *s, size_t at, size_t count, size_t c, size_t lanes);

/* x */
LS_ALWAYS_INLINE void add_values(const slice *s, size_t at, size_t count, size_t c, size_t lanes)
{
    ls_vec sum = ls_vec_load_lanes(s->out[0] + c, lanes);
    for (size_t p = 0; p < count; p++) {
        sum = ls_vec_add(sum, ls_vec_load_lanes(s->x + at + p * s->stride + c, lanes));
    }
    ls_vec_store_lanes(s->out[0] + c, sum, lanes);
}

/* (x - mean) squared */
LS_ALWAYS_INLINE void add_squares(const slice *s, size_t at, size_t count, size_t c, size_t lanes)
{
    const ls_vec minus_mean = ls_vec_load(s->minus_mean + c);
    ls_vec sum = ls_vec_load_lanes(s->out[0] + c, lanes);
    for (size_t p = 0; p < count; p++) {
        const ls_vec x = ls_vec_load_lanes(s->x + at + p * s->stride + c, lanes);
        const ls_vec d = ls_vec_add(x, minus_mean);
        sum = ls_vec_fma(d, d, sum);
    }
    ls_vec_store_lanes(s->out[0] + c, sum, lanes);
}

/* dy, and dy * xhat */
LS_ALWAYS_INLINE void add_gradients(const slice *s, size_t at, size_t count, size_t c, size_t lanes)
{
    const ls_vec minus_mean = ls_vec_load(s->minus_mean + c), inv = ls_vec_load(s->inv + c);
    ls_vec sum = ls_vec_load_lanes(s->out[0] + c, lanes);
    ls_vec product = ls_vec_load_lanes(s->out[1] + c, lanes);
    for (size_t p = 0; p < count; p++) {
        const ls_vec dy = ls_vec_load_lanes(s->dy + at + p * s->stride + c, lanes);
        const ls_vec x = ls_vec_load_lanes(s->x + at + p * s->stride + c, lanes);
        const ls_vec d = ls_vec_add(x, minus_mean);
        sum = ls_vec_add(sum, dy);
        product = ls_vec_fma(dy, ls_vec_mul(d, inv), product);
    }
    ls_vec_store_lanes(s->out[0] + c, sum, lanes);
    ls_vec_store_lanes(s->out[1] + c, product, lanes);
}

/* `count` places, all channels, word by word: the words' chains overlap. */
LS_ALWAYS_INLINE void chain_places(const slice *s, size_t at, size_t count, chain_fn *chain)
{
    size_t c = 0;
    for (; c + LS_LANES <= s->n; c += LS_LANES) chain(s, at, count, c, LS_LANES);
    if (c < s->n) chain(s, at, count, c, s->n - c);
}

/* A single word stays in its register. */
LS_ALWAYS_INLINE void chain_slice(const slice *s, size_t sums, chain_fn *chain)
{
    for (size_t k = 0; k < sums; k++) memset(s->out[k], 0, s->n * sizeof(float));
    size_t p = 0;
    for (; s->n > LS_LANES && p + STREAMS <= s->places; p += STREAMS) {
        chain_places(s, p * s->stride, STREAMS, chain);
    }
    if (p < s->places) chain_places(s, p * s->stride, s->places - p, chain);
    for (size_t k = 0; k < sums; k++) {
        for (size_t c = 0; c < s->n; c++) s->out[k][c] += 0.0f;
    }
}

/* -- slices ------------------------------------------------------------------------------------ */

typedef enum { VALUES, SQUARES, GRADIENTS } summed;

/* Consecutive leaves, and some channels: what is summed in one go. */
typedef struct {
    ls_batchnorm_shape shape;
    const ls_fold *fold;
    summed what;
    size_t sums;                       /* of a channel: 1, or 2 gradients */
    const float *x, *dy;
    const float *row;                  /* of statistics, that of shard s at + s * row_stride */
    size_t row_stride;
    const float *n;                    /* GRADIENTS: of statistics, as row */
    float epsilon;
    int leaf, leaf_end;
    size_t slice[LS_SHARD_MAX + 1];    /* first slice of a leaf, from that of `leaf` on */
    size_t first, channels, blocks;    /* of channels */
    float *partial;                    /* [slices][sums][channels] */
} sum_loop;

static size_t row_begin(const sum_loop *loop, int leaf)
{
    return loop->fold->sample[leaf] * loop->shape.height;
}

/* The statistics that a leaf's places are taken with. */
static void load_statistics(const sum_loop *loop, int leaf, size_t c, size_t n, slice *s)
{
    const size_t shard = loop->row_stride == 0 ? 0 : (size_t)loop->fold->shard[leaf];
    const float *row = loop->row + shard * loop->row_stride + c;
    memset(s->minus_mean, 0, sizeof s->minus_mean);
    for (size_t i = 0; i < n; i++) s->minus_mean[i] = -row[i];
    if (loop->what != GRADIENTS) return;
    const float *M2 = row + loop->shape.channels, values = loop->n[shard];
    memset(s->inv, 0, sizeof s->inv);
    for (size_t i = 0; i < n; i++) s->inv[i] = 1.0f / sqrtf(M2[i] / values + loop->epsilon);
}

/* Task (slice, block). */
static void sum_slice(void *loop_, size_t task, int thread)
{
    (void)thread;
    const sum_loop *loop = loop_;
    const size_t index = task / loop->blocks, block = task % loop->blocks * BLOCK;
    const size_t n = loop->channels - block < BLOCK ? loop->channels - block : BLOCK;
    const size_t c = loop->first + block, rows = ls_slice_rows(loop->shape.width);
    int leaf = loop->leaf;
    while (loop->slice[leaf + 1] <= index) leaf++;
    const size_t begin = row_begin(loop, leaf) + (index - loop->slice[leaf]) * rows;
    const size_t end = row_begin(loop, leaf + 1);
    const size_t at = begin * loop->shape.width * loop->shape.channels + c;
    float *out = loop->partial + index * loop->sums * loop->channels + block;
    slice s;
    s.x = loop->x + at;
    s.places = (end - begin < rows ? end - begin : rows) * loop->shape.width;
    s.stride = loop->shape.channels;
    s.n = n;
    s.out[0] = out;
    s.out[1] = out + loop->channels;
    if (loop->what == VALUES) {
        chain_slice(&s, 1, add_values);
        return;
    }
    load_statistics(loop, leaf, c, n, &s);
    if (loop->what == SQUARES) {
        chain_slice(&s, 1, add_squares);
    } else {
        s.dy = loop->dy + at;
        chain_slice(&s, 2, add_gradients);
    }
}

/* The sums of a leaf with slices: [sums][channels], where one of its slices' were. */
static const float *leaf_sums(const sum_loop *loop, int leaf)
{
    const size_t floats = loop->sums * loop->channels, first = loop->slice[leaf];
    return ls_tree_rows(loop->partial + first * floats, loop->slice[leaf + 1] - first, floats);
}

/* -- rounds of leaves and channels ------------------------------------------------------------- */

/* Number the slices of leaves from loop->leaf on: of those that hold ROUND_FLOATS elements, or of
 * one. Returns how many slices that are. */
static size_t gather_leaves(sum_loop *loop)
{
    const size_t rows = ls_slice_rows(loop->shape.width);
    const size_t most = ROUND_FLOATS / (loop->shape.width * loop->shape.channels); /* rows */
    const size_t begin = row_begin(loop, loop->leaf);
    size_t slices = 0;
    int leaf = loop->leaf;
    do {
        loop->slice[leaf] = slices;
        slices += (row_begin(loop, leaf + 1) - row_begin(loop, leaf) + rows - 1) / rows;
        leaf++;
    } while (leaf < loop->fold->leaf_count && row_begin(loop, leaf + 1) - begin <= most);
    loop->slice[leaf] = slices;
    loop->leaf_end = leaf;
    return slices;
}

/* What becomes of a leaf's sums of the channels at hand; NULL: it has no samples. */
typedef void take_fn(const sum_loop *loop, int leaf, const float *sums, void *target);

/* All slices of the round, then each of its leaves. */
static void sum_round(ls_stream *stream, sum_loop *loop, summed what, take_fn *take, void *target)
{
    const size_t slices = loop->slice[loop->leaf_end];
    loop->what = what;
    ls_pool_run(stream->device->pool, slices * loop->blocks, sum_slice, loop);
    for (int leaf = loop->leaf; leaf < loop->leaf_end; leaf++) {
        const bool some = loop->slice[leaf] < loop->slice[leaf + 1];
        take(loop, leaf, some ? leaf_sums(loop, leaf) : NULL, target);
    }
}

typedef void round_fn(ls_stream *stream, sum_loop *loop, void *target);

/* Every leaf and channel once. `loop` comes with all but what belongs to a round. */
static ls_status run_rounds(ls_stream *stream, sum_loop *loop, round_fn *round, void *target)
{
    loop->partial = ls_pool_scratch(stream->device->pool, 0);
    for (loop->leaf = 0; loop->leaf < loop->fold->leaf_count; loop->leaf = loop->leaf_end) {
        const size_t slices = gather_leaves(loop);
        const size_t fits = SCRATCH_FLOATS / loop->sums / (slices > 0 ? slices : 1);
        if (fits == 0) {
            return ls_fail(LS_ERR_ARGUMENT, "batch normalisation: %zu slices of a shard: at most "
                           "%zu", slices, SCRATCH_FLOATS / loop->sums);
        }
        const size_t C = loop->shape.channels;
        for (loop->first = 0; loop->first < C; loop->first += loop->channels) {
            loop->channels = C - loop->first < fits ? C - loop->first : fits;
            loop->blocks = (loop->channels + BLOCK - 1) / BLOCK;
            round(stream, loop, target);
        }
    }
    return LS_OK;
}

/* -- statistics -------------------------------------------------------------------------------- */

static float *row_of(const sum_loop *loop, int leaf, float *rows)
{
    return rows + (size_t)loop->fold->shard[leaf] * 2 * loop->shape.channels + loop->first;
}

static void take_mean(const sum_loop *loop, int leaf, const float *sums, void *rows)
{
    float *restrict mean = row_of(loop, leaf, rows);
    const size_t values = (row_begin(loop, leaf + 1) - row_begin(loop, leaf)) * loop->shape.width;
    const float n = (float)values;
    for (size_t c = 0; c < loop->channels; c++) mean[c] = sums != NULL ? sums[c] / n : 0.0f;
}

static void take_M2(const sum_loop *loop, int leaf, const float *sums, void *rows)
{
    float *restrict M2 = row_of(loop, leaf, rows) + loop->shape.channels;
    for (size_t c = 0; c < loop->channels; c++) M2[c] = sums != NULL ? sums[c] : 0.0f;
}

static void statistics_round(ls_stream *stream, sum_loop *loop, void *rows)
{
    sum_round(stream, loop, VALUES, take_mean, rows);
    sum_round(stream, loop, SQUARES, take_M2, rows);
}

ls_status LS_HOST(batchnorm_statistics)(ls_stream *stream, const ls_batchnorm_statistics_args *args)
{
    sum_loop loop = { .shape = args->shape, .fold = args->fold, .sums = 1, .x = args->x,
                      .row = args->row, .row_stride = 2 * args->shape.channels };
    return run_rounds(stream, &loop, statistics_round, args->row);
}

/* -- gradients --------------------------------------------------------------------------------- */

static void take_gradients(const sum_loop *loop, int leaf, const float *sums, void *rows)
{
    float *restrict S1 = row_of(loop, leaf, rows), *restrict S2 = S1 + loop->shape.channels;
    for (size_t c = 0; c < loop->channels; c++) {
        S1[c] = sums != NULL ? sums[c] : 0.0f;
        S2[c] = sums != NULL ? sums[loop->channels + c] : 0.0f;
    }
}

static void gradients_round(ls_stream *stream, sum_loop *loop, void *rows)
{
    sum_round(stream, loop, GRADIENTS, take_gradients, rows);
}

/* The rows' floats from `offset` on -> pieces. */
static void fold_pieces(ls_stream *stream, const ls_batchnorm_gradient_sums_args *args,
                        size_t offset, float *out)
{
    const size_t C = args->shape.channels;
    float *sum = ls_pool_scratch(stream->device->pool, 0); /* the fold changes it */
    for (size_t c = 0; c < C; c += FOLD_CHANNELS) {
        const size_t count = C - c < FOLD_CHANNELS ? C - c : FOLD_CHANNELS;
        for (int i = 0; i < args->fold->leaf_count; i++) {
            memcpy(sum + (size_t)i * count,
                   args->row + (size_t)args->fold->shard[i] * 2 * C + offset + c,
                   count * sizeof *sum);
        }
        ls_fold_rows(args->fold, sum, count, out + c, args->piece_stride);
    }
}

ls_status LS_HOST(batchnorm_gradient_sums)(ls_stream *stream,
                                           const ls_batchnorm_gradient_sums_args *args)
{
    sum_loop loop = { .shape = args->shape, .fold = args->fold, .sums = 2, .x = args->x,
                      .dy = args->dy, .row = args->statistics.row,
                      .row_stride = args->statistics.stride, .n = args->statistics.n,
                      .epsilon = args->epsilon };
    LS_TRY(run_rounds(stream, &loop, gradients_round, args->row));
    fold_pieces(stream, args, 0, args->dbeta);
    fold_pieces(stream, args, args->shape.channels, args->dgamma);
    return LS_OK;
}
