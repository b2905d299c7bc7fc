/* SPDX-License-Identifier: MIT */
/* arena.c -- host: finishing the gradient, the optimizers' update, norms of the weights.
 *
 * Every tensor is walked in runs of 512 elements that stay in the first-level cache: one vectorised
 * loop computes them, the next squares them into the 64 double lanes of the flat sum; memory is
 * read and written once. An update, which is bound by its divisions and roots, divides, squares and
 * digests 64 elements at a time instead.
 *
 * A task is `group` blocks of a tensor, a power of two, counted from its start: a node of the
 * tensor's tree of blocks (the last one may be smaller, and is a node as well). Tasks leave their
 * sums in the scratch memory of the calling thread, which none of them uses otherwise; the caller
 * folds each tensor's by the tree. So neither the group nor the number of threads shows.
 *
 *     tensor 0: |block|block|block|block|block|bl    tensor 1: |block|
 *     group 2:  |   task 0  |   task 1  |  task 2|             | task 3
 */
#include <math.h>
#include <string.h>

#include "kernels/host/digest.h"
#include "kernels/host/host.h"
#include "sizes.h"

enum { RUN = 512, GROUP = 2, SQUARE_WORDS = 8, WORD = LS_LANES / 2 };

/* What a task finds in its part of a tensor. */
typedef struct {
    double square_sum, absolute_sum;
    uint64_t digest;
    uint64_t nonfinite; /* index in the tensor */
} part;

/* Work on elements [at, at + count) of a tensor, count <= RUN. Returns the values whose squares are
 * summed, or NULL: it has added them to the block's `lane`s itself. */
typedef const float *run_fn(const void *args, const ls_arena_tensor *tensor, size_t at,
                            size_t count, double *lane, part *found);

typedef struct {
    const ls_arena_table *tensors;
    const void *args;
    run_fn *run;
    bool absolute; /* sum the values' magnitudes as well */
    size_t group;  /* blocks of a task */
    part *parts;   /* [tasks] */
} arena_loop;

static size_t task_count(const ls_arena_table *tensors, size_t group)
{
    size_t tasks = 0;
    for (int t = 0; t < tensors->count; t++) {
        tasks += ls_ceil_div(tensors->host[t].count, group * LS_FLAT_BLOCK);
    }
    return tasks;
}

/* lane[l] += x[l] squared, for count <= LS_FLAT_LANES elements. */
static void add_square_of_each(double *restrict lane, const float *restrict x, size_t count)
{
    for (size_t l = 0; l < count; l++) lane[l] += (double)x[l] * (double)x[l];
}

/* Eight words of lanes at a time, which stay in registers while the run passes by. */
static void add_squares(double *restrict lane, const float *restrict x, size_t count)
{
    const size_t whole = count / LS_FLAT_LANES * LS_FLAT_LANES;
    for (size_t l = 0; l < LS_FLAT_LANES; l += SQUARE_WORDS * WORD) {
        ls_doubles sum[SQUARE_WORDS];
        memcpy(sum, lane + l, sizeof sum);
        for (size_t i = l; i < whole; i += LS_FLAT_LANES) {
            for (size_t k = 0; k < SQUARE_WORDS; k++)
                sum[k] = ls_doubles_add_squares(sum[k], x + i + k * WORD);
        }
        memcpy(lane + l, sum, sizeof sum);
    }
    add_square_of_each(lane, x + whole, count - whole);
}

static void add_magnitudes(double *restrict lane, const float *restrict x, size_t count)
{
    size_t i = 0;
    for (; i + LS_FLAT_LANES <= count; i += LS_FLAT_LANES) {
        for (size_t l = 0; l < LS_FLAT_LANES; l++) {
            lane[l] += (double)(x[i + l] < 0.0f ? -x[i + l] : x[i + l]);
        }
    }
    for (size_t l = 0; i + l < count; l++) {
        lane[l] += (double)(x[i + l] < 0.0f ? -x[i + l] : x[i + l]);
    }
}

/* One block of a tensor: its flat sums go to the trees. */
static void arena_block(const arena_loop *loop, const ls_arena_tensor *tensor, size_t begin,
                        size_t end, part *found, ls_tree_f64 *squares, ls_tree_f64 *magnitudes)
{
    double square[LS_FLAT_LANES] = { 0 }, magnitude[LS_FLAT_LANES] = { 0 };
    for (size_t at = begin; at < end; at += RUN) {
        const size_t count = end - at < RUN ? end - at : RUN;
        const float *x = loop->run(loop->args, tensor, at, count, square, found);
        if (x != NULL) add_squares(square, x, count);
        if (loop->absolute) add_magnitudes(magnitude, x, count);
    }
    ls_tree_push_f64(squares, ls_flat_lanes_f64(square));
    if (loop->absolute) ls_tree_push_f64(magnitudes, ls_flat_lanes_f64(magnitude));
}

static void arena_task(void *loop_, size_t task, int thread)
{
    (void)thread;
    const arena_loop *loop = loop_;
    const ls_arena_tensor *tensor = loop->tensors->host;
    const size_t extent = loop->group * LS_FLAT_BLOCK;
    size_t number = task; /* of the task in its tensor */
    for (; number >= ls_ceil_div(tensor->count, extent); tensor++) {
        number -= ls_ceil_div(tensor->count, extent);
    }
    part *found = &loop->parts[task];
    *found = (part){ .nonfinite = LS_ALL_FINITE };
    ls_tree_f64 squares = { .depth = 0 }, magnitudes = { .depth = 0 };
    const size_t left = tensor->count - number * extent;
    const size_t end = number * extent + (left < extent ? left : extent);
    for (size_t at = number * extent; at < end; at += LS_FLAT_BLOCK) {
        arena_block(loop, tensor, at, end - at < LS_FLAT_BLOCK ? end : at + LS_FLAT_BLOCK, found,
                    &squares, &magnitudes);
    }
    found->square_sum = ls_tree_root_f64(&squares);
    found->absolute_sum = ls_tree_root_f64(&magnitudes);
}

/* Combine the parts of a tensor, `count` of them. */
static part tensor_part(const part *parts, size_t count)
{
    part all = { .nonfinite = LS_ALL_FINITE };
    ls_tree_f64 squares = { .depth = 0 }, magnitudes = { .depth = 0 };
    for (size_t i = 0; i < count; i++) {
        ls_tree_push_f64(&squares, parts[i].square_sum);
        ls_tree_push_f64(&magnitudes, parts[i].absolute_sum);
        all.digest += parts[i].digest;
        if (parts[i].nonfinite < all.nonfinite) all.nonfinite = parts[i].nonfinite;
    }
    all.square_sum = ls_tree_root_f64(&squares);
    all.absolute_sum = ls_tree_root_f64(&magnitudes);
    return all;
}

/* Run the loop over all tensors and pass each tensor's combined part to `store`. */
static void arena_run(ls_stream *stream, arena_loop *loop,
                      void (*store)(const void *args, int tensor, const part *all))
{
    ls_pool *pool = stream->device->pool;
    loop->group = GROUP;
    while (task_count(loop->tensors, loop->group) > LS_SCRATCH_BYTES / sizeof(part)) {
        loop->group *= 2;
    }
    loop->parts = ls_pool_scratch(pool, 0);
    ls_pool_run(pool, task_count(loop->tensors, loop->group), arena_task, loop);
    const part *parts = loop->parts;
    for (int t = 0; t < loop->tensors->count; t++) {
        const size_t count =
            ls_ceil_div(loop->tensors->host[t].count, loop->group * LS_FLAT_BLOCK);
        const part all = tensor_part(parts, count);
        store(loop->args, t, &all);
        parts += count;
    }
}

/* -- finishing the gradient -------------------------------------------------------------------- */

static const float *finish_run(const void *args_, const ls_arena_tensor *tensor, size_t at,
                               size_t count, double *lane, part *found)
{
    (void)lane;
    const ls_gradient_finish_args *args = args_;
    const float scale = args->scale, l2_twice = tensor->l2_twice, l1 = tensor->l1;
    const float *restrict w = args->w + tensor->begin + at;
    float *restrict g = args->g + tensor->begin + at;
    if (found->nonfinite == LS_ALL_FINITE && ls_has_nonfinite(g, count)) {
        found->nonfinite = at + ls_nonfinite_at(g);
    }
    for (size_t i = 0; i < count; i++) g[i] = g[i] * scale;
    if (l2_twice != 0.0f) {
        for (size_t i = 0; i < count; i++) g[i] = ls_fmaf(l2_twice, w[i], g[i]);
    }
    if (l1 != 0.0f) {
        for (size_t i = 0; i < count; i++) {
            const float below = w[i] < 0.0f ? -1.0f : 0.0f;
            g[i] = g[i] + l1 * (w[i] > 0.0f ? 1.0f : below);
        }
    }
    return g;
}

static void finish_store(const void *args_, int t, const part *all)
{
    const ls_gradient_finish_args *args = args_;
    args->square_sum[t] = all->square_sum;
    args->nonfinite[t] = all->nonfinite;
}

ls_status LS_HOST(gradient_finish)(ls_stream *stream, const ls_gradient_finish_args *args)
{
    arena_loop loop = { .tensors = args->tensors, .args = args, .run = finish_run };
    arena_run(stream, &loop, finish_store);
    return LS_OK;
}

/* -- sums of the weights ----------------------------------------------------------------------- */

static const float *weights_run(const void *args_, const ls_arena_tensor *tensor, size_t at,
                                size_t count, double *lane, part *found)
{
    (void)count;
    (void)lane;
    (void)found;
    const ls_weight_sums_args *args = args_;
    return args->w + tensor->begin + at;
}

static void weights_store(const void *args_, int t, const part *all)
{
    const ls_weight_sums_args *args = args_;
    args->square_sum[t] = all->square_sum;
    args->absolute_sum[t] = all->absolute_sum;
}

ls_status LS_HOST(weight_sums)(ls_stream *stream, const ls_weight_sums_args *args)
{
    arena_loop loop = {
        .tensors = args->tensors, .args = args, .run = weights_run, .absolute = true
    };
    arena_run(stream, &loop, weights_store);
    return LS_OK;
}

/* -- update ------------------------------------------------------------------------------------ */

/* A group of weights on which an optimizer works: `from`, the decayed ones, which may be w itself,
 * become w, which holds the old ones before; `change` gets the difference. With the gradient and
 * the optimizer's slots, NULL where it has none. */
typedef struct {
    const float *g, *from;
    float *w, *change, *slot0, *slot1;
} weights;

static inline void replace(const weights *x, size_t i, float next)
{
    x->change[i] = next - x->w[i];
    x->w[i] = next;
}

/* The optimizers, by the formulas of arena.h, for `count` elements. */
typedef void optimize_fn(const ls_update_args *args, float rate, weights x, size_t count);

LS_ALWAYS_INLINE void sgd(const ls_update_args *args, float rate, weights x, size_t count)
{
    (void)args;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) replace(&x, i, ls_fmaf(-rate, x.g[i], x.from[i]));
}

LS_ALWAYS_INLINE void momentum(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float factor = args->momentum;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float u = ls_fmaf(factor, x.slot0[i], -(rate * x.g[i]));
        x.slot0[i] = ls_slot_flush(u);
        replace(&x, i, x.from[i] + u);
    }
}

LS_ALWAYS_INLINE void nesterov(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float factor = args->momentum;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float u = ls_fmaf(factor, x.slot0[i], -(rate * x.g[i]));
        x.slot0[i] = ls_slot_flush(u);
        replace(&x, i, x.from[i] + ls_fmaf(factor, u, -(rate * x.g[i])));
    }
}

LS_ALWAYS_INLINE void adam(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float epsilon = args->epsilon;
    const float beta1 = args->one_minus_beta1, beta2 = args->one_minus_beta2;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float g = x.g[i];
        const float m = ls_fmaf(beta1, g - x.slot0[i], x.slot0[i]);
        const float v = ls_fmaf(beta2, ls_fmaf(g, g, -x.slot1[i]), x.slot1[i]);
        x.slot0[i] = ls_slot_flush(m);
        x.slot1[i] = ls_slot_flush(v);
        replace(&x, i, ls_fmaf(-rate, m / (sqrtf(v) + epsilon), x.from[i]));
    }
}

LS_ALWAYS_INLINE void rmsprop(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float epsilon = args->epsilon, rho = args->one_minus_rho;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float g = x.g[i];
        const float v = ls_fmaf(rho, ls_fmaf(g, g, -x.slot0[i]), x.slot0[i]);
        x.slot0[i] = ls_slot_flush(v);
        replace(&x, i, ls_fmaf(-rate, g / sqrtf(v + epsilon), x.from[i]));
    }
}

static weights weights_from(weights x, size_t i)
{
    return (weights){ x.g + i, x.from + i, x.w + i, x.change,
                      x.slot0 != NULL ? x.slot0 + i : NULL, x.slot1 != NULL ? x.slot1 + i : NULL };
}

/* `count` elements, numbers `first` on of the arena, 64 at a time: while a core divides and takes
 * roots for the next ones, it squares the changes of these and adds up their digest. */
LS_ALWAYS_INLINE void walk(const ls_update_args *args, float rate, weights x, size_t first,
                           size_t count, double *restrict lane, part *found, optimize_fn *optimize)
{
    const size_t whole = count / LS_FLAT_LANES * LS_FLAT_LANES;
    float change[LS_FLAT_LANES];
    ls_doubles square[LS_FLAT_LANES / WORD];
    ls_digest_rows rows = { { 0 }, { 0 }, { 0 }, { 0 } };
    x.change = change;
    memcpy(square, lane, sizeof square);
    for (size_t i = 0; i < whole; i += LS_FLAT_LANES) {
        optimize(args, rate, weights_from(x, i), LS_FLAT_LANES);
        for (size_t k = 0; k < LS_FLAT_LANES / WORD; k++)
            square[k] = ls_doubles_add_squares(square[k], change + k * WORD);
        for (size_t e = 0; e < LS_FLAT_LANES; e += LS_LANES)
            ls_digest_add_row(&rows, x.w + i + e);
    }
    memcpy(lane, square, sizeof square);
    found->digest += ls_digest_of_rows(&rows, first + whole);
    if (whole == count) return;
    optimize(args, rate, weights_from(x, whole), count - whole);
    add_square_of_each(lane, change, count - whole);
    for (size_t i = whole; i < count; i++) found->digest += ls_digest_term(first + i, x.w[i]);
}

/* to[i] = g[i], clipped. */
static void clip_run(float factor, float most, const float *restrict g, float *restrict to,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = g[i] * factor;
    if (most == 0.0f) return;
    for (size_t i = 0; i < count; i++) {
        const float above = to[i] < -most ? -most : to[i];
        to[i] = to[i] > most ? most : above;
    }
}

static void decay_run(float decay, const float *restrict w, float *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = ls_fmaf(-decay, w[i], w[i]);
}

static void average_run(float gain, const float *restrict w, float *restrict average, size_t count)
{
    for (size_t i = 0; i < count; i++) average[i] = ls_fmaf(gain, w[i] - average[i], average[i]);
}

static void optimize_run(const ls_update_args *args, float rate, weights x, size_t first,
                         size_t count, double *lane, part *found)
{
    switch (args->optimizer) {
    case LS_OPTIMIZER_SGD: walk(args, rate, x, first, count, lane, found, sgd); return;
    case LS_OPTIMIZER_MOMENTUM: walk(args, rate, x, first, count, lane, found, momentum); return;
    case LS_OPTIMIZER_NESTEROV: walk(args, rate, x, first, count, lane, found, nesterov); return;
    case LS_OPTIMIZER_RMSPROP: walk(args, rate, x, first, count, lane, found, rmsprop); return;
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: walk(args, rate, x, first, count, lane, found, adam); return;
    }
}

static const float *update_run(const void *args_, const ls_arena_tensor *tensor, size_t at,
                               size_t count, double *lane, part *found)
{
    const ls_update_args *args = args_;
    const size_t first = tensor->begin + at;
    const ls_tensor_step *step = &args->step_host[tensor - args->tensors->host];
    float *w = args->w + first;
    if (step->frozen) { /* no change to square */
        found->digest += ls_digest_run(w, first, count);
        return NULL;
    }
    float gradient[RUN], decayed[RUN];
    weights x = { .g = args->g + first, .from = w, .w = w,
                  .slot0 = args->slot0 ? args->slot0 + first : NULL,
                  .slot1 = args->slot1 ? args->slot1 + first : NULL };
    if (step->clip != 1.0f || args->clip_value != 0.0f) {
        clip_run(step->clip, args->clip_value, x.g, gradient, count);
        x.g = gradient;
    }
    if (step->decay != 0.0f) {
        decay_run(step->decay, w, decayed, count);
        x.from = decayed;
    }
    optimize_run(args, step->rate, x, first, count, lane, found);
    if (args->average) average_run(args->one_minus_ema, w, args->average + first, count);
    return NULL;
}

static void update_store(const void *args_, int t, const part *all)
{
    const ls_update_args *args = args_;
    args->update_square_sum[t] = all->square_sum;
    *args->digest += all->digest;
}

ls_status LS_HOST(update)(ls_stream *stream, const ls_update_args *args)
{
    *args->digest = LS_DIGEST_START;
    arena_loop loop = { .tensors = args->tensors, .args = args, .run = update_run };
    arena_run(stream, &loop, update_store);
    return LS_OK;
}
