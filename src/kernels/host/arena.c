/* SPDX-License-Identifier: MIT */
/* arena.c -- host: passes over the arena of parameters: finishing the gradient, sums of weights.
 *
 * Every tensor is walked by the blocks of its flat sum. The gradient's are walked in runs of 512
 * elements that stay in the first-level cache: one loop tests them, the next computes them, the
 * last squares them into the 64 double lanes of the flat sum; memory is read and written once, and
 * asked for 2 KiB ahead. (The optimizers' pass is in update.c.)
 *
 * A task is `group` blocks of a tensor, a power of two, counted from its start: a node of the
 * tensor's tree of blocks (the last one may be smaller, and is a node as well). Tasks leave their
 * sums in the scratch memory of the calling thread, which none of them uses otherwise; the caller
 * folds each tensor's by the tree. So neither the group nor the number of threads shows.
 *
 *     tensor 0: |block|block|block|block|block|bl    tensor 1: |block|
 *     group 2:  |   task 0  |   task 1  |  task 2|             | task 3
 */
#include <string.h>

#include "kernels/host/arena_blocks.h"
#include "kernels/host/digest.h"
#include "kernels/host/lanes.h"
#include "sizes.h"

enum { RUN = 512, GROUP = 2, WORDS_AT_ONCE = 8 };

/* -- a pass ------------------------------------------------------------------------------------ */

typedef struct {
    const ls_arena_pass *pass;
    size_t group;         /* blocks of a task */
    ls_arena_part *parts; /* [tasks] */
} job;

static size_t tasks_of(const ls_arena_tensor *tensor, size_t group)
{
    return ls_ceil_div(tensor->count, group * LS_FLAT_BLOCK);
}

static size_t task_count(const ls_arena_table *tensors, size_t group)
{
    size_t tasks = 0;
    for (int t = 0; t < tensors->count; t++) tasks += tasks_of(&tensors->host[t], group);
    return tasks;
}

static void pass_task(void *job_, size_t task, int thread)
{
    (void)thread;
    const job *j = job_;
    const ls_arena_tensor *tensor = j->pass->tensors->host;
    size_t number = task; /* of the task in its tensor */
    for (; number >= tasks_of(tensor, j->group); tensor++) number -= tasks_of(tensor, j->group);
    ls_arena_part found = { .nonfinite = LS_ALL_FINITE };
    ls_tree_f64 squares = { .depth = 0 }, magnitudes = { .depth = 0 };
    const size_t extent = j->group * LS_FLAT_BLOCK, left = tensor->count - number * extent;
    const size_t end = number * extent + (left < extent ? left : extent);
    for (size_t at = number * extent; at < end; at += LS_FLAT_BLOCK) {
        ls_arena_lanes lane = { { 0 }, { 0 } };
        j->pass->block(j->pass->args, tensor, at,
                       end - at < LS_FLAT_BLOCK ? end - at : LS_FLAT_BLOCK, &lane, &found);
        ls_tree_push_f64(&squares, ls_flat_lanes_f64(lane.square));
        if (j->pass->absolute) ls_tree_push_f64(&magnitudes, ls_flat_lanes_f64(lane.magnitude));
    }
    found.square_sum = ls_tree_root_f64(&squares);
    found.absolute_sum = ls_tree_root_f64(&magnitudes);
    j->parts[task] = found;
}

/* Combine the parts of a tensor, `count` of them. */
static ls_arena_part tensor_part(const ls_arena_part *parts, size_t count)
{
    ls_arena_part all = { .nonfinite = LS_ALL_FINITE };
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

void LS_HOST(arena_pass)(ls_stream *stream, const ls_arena_pass *pass)
{
    ls_pool *pool = stream->device->pool;
    job j = { .pass = pass, .group = GROUP, .parts = ls_pool_scratch(pool, 0) };
    while (task_count(pass->tensors, j.group) > LS_SCRATCH_BYTES / sizeof *j.parts) j.group *= 2;
    ls_pool_run(pool, task_count(pass->tensors, j.group), pass_task, &j);
    const ls_arena_part *parts = j.parts;
    for (int t = 0; t < pass->tensors->count; t++) {
        const size_t count = tasks_of(&pass->tensors->host[t], j.group);
        const ls_arena_part all = tensor_part(parts, count);
        pass->store(pass->args, t, &all);
        parts += count;
    }
}

/* Some words of lanes at a time, which stay in registers while the run passes by. */
static void add_squares(double *restrict lane, const float *restrict x, size_t count)
{
    const size_t whole = count / LS_FLAT_LANES * LS_FLAT_LANES;
    for (size_t l = 0; l < LS_FLAT_LANES; l += WORDS_AT_ONCE * LS_DOUBLES) {
        ls_doubles sum[WORDS_AT_ONCE];
        memcpy(sum, lane + l, sizeof sum);
        for (size_t i = l; i < whole; i += LS_FLAT_LANES) {
            for (size_t k = 0; k < WORDS_AT_ONCE; k++)
                sum[k] = ls_doubles_add_squares(sum[k], x + i + k * LS_DOUBLES);
        }
        memcpy(lane + l, sum, sizeof sum);
    }
    ls_add_square_of_each(lane, x + whole, count - whole);
}

/* -- finishing the gradient -------------------------------------------------------------------- */

/* Is one of them a NaN or infinite? Times 0, added up, those make a NaN and nothing else does. */
static bool has_nonfinite(const float *x, size_t count)
{
    enum { SUMS = 4 }; /* as many as a sum takes cycles */
    const ls_vec zero = ls_vec_zero();
    ls_vec sum[SUMS] = { zero, zero, zero, zero };
    size_t i = 0;
    for (; i + SUMS * LS_LANES <= count; i += SUMS * LS_LANES) {
        for (size_t k = 0; k < SUMS; k++)
            sum[k] = ls_vec_fma(ls_vec_load(x + i + k * LS_LANES), zero, sum[k]);
    }
    for (; i < count; i += LS_LANES) {
        const size_t lanes = count - i < LS_LANES ? count - i : LS_LANES;
        sum[0] = ls_vec_fma(ls_vec_load_lanes(x + i, lanes), zero, sum[0]);
    }
    float all[LS_LANES];
    ls_vec_store(all, ls_vec_add(ls_vec_add(sum[0], sum[1]), ls_vec_add(sum[2], sum[3])));
    float found = 0.0f;
    for (size_t l = 0; l < LS_LANES; l++) found += all[l];
    return found != found;
}

/* g = g * scale. */
static void scale_run(float scale, float *g, size_t count)
{
    const ls_vec factor = ls_vec_set(scale);
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + LS_LANES <= count; i += LS_LANES) {
        ls_fetch_target(g + i);
        ls_vec_store(g + i, ls_vec_mul(ls_vec_load(g + i), factor));
    }
    for (; i < count; i++) g[i] = g[i] * scale;
}

static void regularise_run(const ls_arena_tensor *tensor, const float *restrict w,
                           float *restrict g, size_t count)
{
    const float l2_twice = tensor->l2_twice, l1 = tensor->l1;
    if (l2_twice != 0.0f) {
        for (size_t i = 0; i < count; i++) g[i] = ls_fmaf(l2_twice, w[i], g[i]);
    }
    if (l1 != 0.0f) {
        for (size_t i = 0; i < count; i++) {
            const float below = w[i] < 0.0f ? -1.0f : 0.0f;
            g[i] = g[i] + l1 * (w[i] > 0.0f ? 1.0f : below);
        }
    }
}

static void finish_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                         ls_arena_lanes *lane, ls_arena_part *found)
{
    const ls_gradient_finish_args *args = args_;
    const float *w = args->w + tensor->begin + at;
    float *g = args->g + tensor->begin + at;
    for (size_t i = 0; i < count; i += RUN) {
        const size_t n = count - i < RUN ? count - i : RUN;
        if (found->nonfinite == LS_ALL_FINITE && has_nonfinite(g + i, n))
            found->nonfinite = at + i + ls_nonfinite_at(g + i);
        scale_run(args->scale, g + i, n);
        regularise_run(tensor, w + i, g + i, n);
        add_squares(lane->square, g + i, n);
    }
}

static void finish_store(const void *args_, int t, const ls_arena_part *all)
{
    const ls_gradient_finish_args *args = args_;
    args->square_sum[t] = all->square_sum;
    args->nonfinite[t] = all->nonfinite;
}

ls_status LS_HOST(gradient_finish)(ls_stream *stream, const ls_gradient_finish_args *args)
{
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = finish_block, .store = finish_store });
    return LS_OK;
}

/* -- sums of the weights ----------------------------------------------------------------------- */

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

static void weights_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                          ls_arena_lanes *lane, ls_arena_part *found)
{
    (void)found;
    const ls_weight_sums_args *args = args_;
    const float *w = args->w + tensor->begin + at;
    for (size_t i = 0; i < count; i += RUN) {
        const size_t n = count - i < RUN ? count - i : RUN;
        add_squares(lane->square, w + i, n);
        add_magnitudes(lane->magnitude, w + i, n);
    }
}

static void weights_store(const void *args_, int t, const ls_arena_part *all)
{
    const ls_weight_sums_args *args = args_;
    args->square_sum[t] = all->square_sum;
    args->absolute_sum[t] = all->absolute_sum;
}

ls_status LS_HOST(weight_sums)(ls_stream *stream, const ls_weight_sums_args *args)
{
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = weights_block, .store = weights_store,
        .absolute = true });
    return LS_OK;
}
