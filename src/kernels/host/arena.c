/* SPDX-License-Identifier: MIT */
/* arena.c -- host: passes over the arena of parameters: finishing the gradient, sums of weights.
 *
 * Every tensor is walked by the blocks of its flat sum. (What is done to a run of the gradient is
 * in finish_run.h, the optimizers' pass in update.c.)
 *
 * A part is some blocks of a tensor, a power of two of them, counted from its start: a node of the
 * tensor's tree of blocks (the last one may be smaller, and is a node as well). A task is the parts
 * that begin in its span of all tensors' elements, so threads have equally many of these. Tasks
 * leave their parts' sums in the scratch memory of the calling thread, which none of them uses
 * otherwise; the caller folds each tensor's by the tree. So neither the parts nor the number of
 * threads show.
 *
 *     tensor 0: |block|block|block|block|block|bl    tensor 1: |block|
 *     parts:    |   part 0  |   part 1  |  part 2|             | part 3
 *     spans:    |       task 0       |       task 1       |      task 2      |
 */
#include "kernels/host/finish_run.h"
#include "sizes.h"

enum { SPAN = 8192 };

/* -- a pass ------------------------------------------------------------------------------------ */

typedef struct {
    const ls_arena_pass *pass;
    size_t extent;        /* elements of a part */
    size_t span;          /* of a task, or about as many */
    ls_arena_part *parts; /* of all tensors, one after another */
} job;

static size_t part_count(const ls_arena_table *tensors, size_t extent)
{
    size_t parts = 0;
    for (int t = 0; t < tensors->count; t++) parts += ls_ceil_div(tensors->host[t].count, extent);
    return parts;
}

/* Part `number` of a tensor. */
static ls_arena_part run_part(const job *j, const ls_arena_tensor *tensor, size_t number)
{
    ls_arena_part found = { .nonfinite = LS_ALL_FINITE };
    ls_tree_f64 squares = { .depth = 0 }, others = { .depth = 0 };
    const size_t end = ls_min_size((number + 1) * j->extent, tensor->count);
    for (size_t at = number * j->extent; at < end; at += LS_FLAT_BLOCK) {
        ls_arena_lanes lane = { { 0 }, { 0 } };
        j->pass->block(j->pass->args, tensor, at, ls_min_size(end - at, LS_FLAT_BLOCK), &lane,
                       &found);
        ls_tree_push_f64(&squares, ls_flat_lanes_f64(lane.square));
        if (j->pass->two_sums) ls_tree_push_f64(&others, ls_flat_lanes_f64(lane.other));
    }
    found.square_sum = ls_tree_root_f64(&squares);
    found.other_sum = ls_tree_root_f64(&others);
    return found;
}

/* How many parts of a tensor begin before element `end` of all tensors', of which its first is
 * number `first`. */
static size_t parts_before(const job *j, const ls_arena_tensor *tensor, size_t first, size_t end)
{
    const size_t before = end > first ? ls_min_size(end - first, tensor->count) : 0;
    return ls_ceil_div(before, j->extent);
}

static void pass_task(void *job_, size_t task, int thread)
{
    (void)thread;
    const job *j = job_;
    const ls_arena_table *tensors = j->pass->tensors;
    const size_t begin = task * j->span, end = begin + j->span;
    ls_arena_part *parts = j->parts; /* of this tensor */
    for (size_t t = 0, first = 0; t < (size_t)tensors->count && first < end; t++) {
        const ls_arena_tensor *tensor = &tensors->host[t];
        const size_t last = parts_before(j, tensor, first, end);
        for (size_t p = parts_before(j, tensor, first, begin); p < last; p++) {
            parts[p] = run_part(j, tensor, p);
        }
        parts += ls_ceil_div(tensor->count, j->extent);
        first += tensor->count;
    }
}

/* Combine the parts of a tensor, `count` of them. */
static ls_arena_part tensor_part(const ls_arena_part *parts, size_t count)
{
    ls_arena_part all = { .nonfinite = LS_ALL_FINITE };
    ls_tree_f64 squares = { .depth = 0 }, others = { .depth = 0 };
    for (size_t i = 0; i < count; i++) {
        ls_tree_push_f64(&squares, parts[i].square_sum);
        ls_tree_push_f64(&others, parts[i].other_sum);
        all.digest += parts[i].digest;
        all.sums_digest += parts[i].sums_digest;
        if (parts[i].nonfinite < all.nonfinite) all.nonfinite = parts[i].nonfinite;
    }
    all.square_sum = ls_tree_root_f64(&squares);
    all.other_sum = ls_tree_root_f64(&others);
    return all;
}

void LS_HOST(arena_pass)(ls_stream *stream, const ls_arena_pass *pass)
{
    ls_pool *pool = stream->device->pool;
    const ls_arena_table *tensors = pass->tensors;
    const size_t threads = (size_t)ls_pool_thread_count(pool);
    size_t elements = 0;
    for (int t = 0; t < tensors->count; t++) elements += tensors->host[t].count;
    const size_t tasks = ls_ceil_div(ls_ceil_div(elements, SPAN), threads) * threads;
    job j = { .pass = pass, .extent = LS_FLAT_BLOCK, .parts = ls_pool_scratch(pool, 0) };
    while (part_count(tensors, j.extent) > LS_SCRATCH_BYTES / sizeof *j.parts) j.extent *= 2;
    if (tasks > 0) j.span = ls_ceil_div(elements, tasks);
    ls_pool_run(pool, tasks, pass_task, &j);
    const ls_arena_part *parts = j.parts;
    for (int t = 0; t < tensors->count; t++) {
        const size_t count = ls_ceil_div(tensors->host[t].count, j.extent);
        const ls_arena_part all = tensor_part(parts, count);
        pass->store(pass->args, t, &all);
        parts += count;
    }
}

/* -- finishing the gradient -------------------------------------------------------------------- */

static void finish_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                         ls_arena_lanes *lane, ls_arena_part *found)
{
    const ls_gradient_finish_args *args = args_;
    float *g = args->g + tensor->begin + at;
    for (size_t i = 0; i < count; i += LS_FINISH_RUN) {
        const size_t n = ls_min_size(count - i, LS_FINISH_RUN);
        ls_finish_run(args, tensor, at + i, n, g + i, g + i, lane->square, found);
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
    for (size_t i = 0; i < count; i += LS_FINISH_RUN) {
        const size_t n = ls_min_size(count - i, LS_FINISH_RUN);
        ls_add_squares(lane->square, w + i, n);
        add_magnitudes(lane->other, w + i, n);
    }
}

static void weights_store(const void *args_, int t, const ls_arena_part *all)
{
    const ls_weight_sums_args *args = args_;
    args->square_sum[t] = all->square_sum;
    args->absolute_sum[t] = all->other_sum;
}

ls_status LS_HOST(weight_sums)(ls_stream *stream, const ls_weight_sums_args *args)
{
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = weights_block, .store = weights_store,
        .two_sums = true });
    return LS_OK;
}
