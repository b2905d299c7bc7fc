/* SPDX-License-Identifier: MIT */
/* launch_arena.c -- the parameter arena and whole buffers on a GPU: one launch over the elements,
 * one over what its blocks left in the stream's workspace.
 */
#include <assert.h>

#include "kernels/cuda/launch.h"

/* -- the arena: tensors to groups ------------------------------------------------------------- */

enum { GROUPS_MAX = LS_CUDA_WORKSPACE_BYTES / (3 * sizeof(uint64_t)) };

/* What a launch's groups leave: a word or a double each, three kinds at most. */
typedef struct {
    double *sum[2];
    uint64_t *word;
} partials;

static partials partials_of(ls_stream *stream, size_t groups)
{
    double *at = ls_cuda_workspace(stream);
    return (partials){ { at, at + groups }, (uint64_t *)(at + 2 * groups) };
}

static size_t groups_of_tensor(const ls_arena_tensor *tensor, uint32_t log2)
{
    return ls_ceil_div(tensor->count, (size_t)LS_FLAT_BLOCK << log2);
}

/* Do groups of 2^log2 blocks keep every tensor, and the workspace, within bounds? */
static bool groups_fit(const ls_arena_table *tensors, uint32_t log2)
{
    size_t all = 0;
    for (int t = 0; t < tensors->count; t++) {
        const size_t groups = groups_of_tensor(&tensors->host[t], log2);
        if (groups > LS_CUDA_TENSOR_GROUPS) return false;
        all += groups;
    }
    return all <= GROUPS_MAX || log2 >= 30; /* at 2^42 elements a group, one group a tensor */
}

/* As many tensors from `begin` on as a launch takes. */
static ls_cuda_arena arena_from(const ls_arena_table *tensors, int begin, bool vector)
{
    ls_cuda_arena arena = { .tensor = tensors->device + begin, .vector = vector };
    while (!groups_fit(tensors, arena.log2)) arena.log2++;
    while (arena.count < LS_CUDA_TENSORS && begin + (int)arena.count < tensors->count) {
        const ls_arena_tensor *tensor = &tensors->host[begin + (int)arena.count];
        arena.first[arena.count + 1] =
            arena.first[arena.count] + (uint32_t)groups_of_tensor(tensor, arena.log2);
        arena.count++;
    }
    return arena;
}

static size_t group_count(const ls_cuda_arena *arena) { return arena->first[arena->count]; }

static ls_status fold_groups(ls_stream *stream, const ls_cuda_arena_fold *fold)
{
    return LS_CUDA_ENQUEUE(stream, "ls_arena_fold",
                           (size_t)fold->arena.count + (fold->digest_out != NULL), 1,
                           LS_CUDA_THREADS, *fold);
}

/* -- the arena: ops --------------------------------------------------------------------------- */

ls_status ls_gradient_finish_cuda(ls_stream *stream, const ls_gradient_finish_args *a)
{
    const bool vector = ls_cuda_moves_quads(a->w, 0) && ls_cuda_moves_quads(a->g, 0);
    for (int t = 0; t < a->tensors->count; t += LS_CUDA_TENSORS) {
        ls_cuda_gradient_finish p = {
            .arena = arena_from(a->tensors, t, vector), .scale = a->scale, .w = a->w, .g = a->g };
        const partials left = partials_of(stream, group_count(&p.arena));
        p.square = left.sum[0];
        p.first = left.word;
        LS_TRY(LS_CUDA_ENQUEUE(stream, "ls_gradient_finish", group_count(&p.arena), 1,
                               LS_CUDA_THREADS, p));
        LS_TRY(fold_groups(stream, &(ls_cuda_arena_fold){
            .arena = p.arena,
            .sum = { left.sum[0] },
            .sum_out = { a->square_sum + t },
            .first = left.word,
            .first_out = a->nonfinite + t }));
    }
    return LS_OK;
}

ls_status ls_weight_sums_cuda(ls_stream *stream, const ls_weight_sums_args *a)
{
    for (int t = 0; t < a->tensors->count; t += LS_CUDA_TENSORS) {
        ls_cuda_weight_sums p = {
            .arena = arena_from(a->tensors, t, ls_cuda_moves_quads(a->w, 0)), .w = a->w };
        const partials left = partials_of(stream, group_count(&p.arena));
        p.square = left.sum[0];
        p.absolute = left.sum[1];
        LS_TRY(LS_CUDA_ENQUEUE(stream, "ls_weight_sums", group_count(&p.arena), 1, LS_CUDA_THREADS,
                               p));
        LS_TRY(fold_groups(stream, &(ls_cuda_arena_fold){
            .arena = p.arena,
            .sum = { left.sum[0], left.sum[1] },
            .sum_out = { a->square_sum + t, a->absolute_sum + t } }));
    }
    return LS_OK;
}

/* Elements of an arena: tables are not in its order. */
static size_t arena_extent(const ls_arena_table *tensors)
{
    size_t extent = 0;
    for (int t = 0; t < tensors->count; t++) {
        const size_t end = tensors->host[t].begin + tensors->host[t].count;
        if (end > extent) extent = end;
    }
    return extent;
}

ls_status ls_update_cuda(ls_stream *stream, const ls_update_args *a)
{
    float *slot0 = a->optimizer == LS_OPTIMIZER_SGD ? NULL : a->slot0;
    float *slot1 = ls_optimizer_is_adam(a->optimizer) ? a->slot1 : NULL;
    const bool vector = ls_cuda_moves_quads(a->g, 0) && ls_cuda_moves_quads(a->w, 0)
                        && ls_cuda_moves_quads(slot0, 0) && ls_cuda_moves_quads(slot1, 0)
                        && ls_cuda_moves_quads(a->average, 0);
    if (a->sums_digest) {
        LS_TRY(ls_digest_cuda(stream, &(ls_digest_args){
            .count = arena_extent(a->tensors), .x = a->g, .out = a->sums_digest }));
    }
    if (a->tensors->count == 0) {
        return ls_fill(stream, a->digest, LS_DIGEST_BYTE, sizeof *a->digest);
    }
    if (a->finish) LS_TRY(ls_gradient_finish_cuda(stream, a->finish));
    for (int t = 0; t < a->tensors->count; t += LS_CUDA_TENSORS) {
        ls_cuda_update p = {
            .arena = arena_from(a->tensors, t, vector),
            .step = a->step_device + t,
            .optimizer = a->optimizer,
            .momentum = a->momentum,
            .one_minus_beta1 = a->one_minus_beta1,
            .one_minus_beta2 = a->one_minus_beta2,
            .one_minus_rho = a->one_minus_rho,
            .epsilon = a->epsilon,
            .clip_value = a->clip_value,
            .one_minus_ema = a->one_minus_ema,
            .g = a->g,
            .w = a->w,
            .slot0 = slot0,
            .slot1 = slot1,
            .average = a->average,
        };
        const partials left = partials_of(stream, group_count(&p.arena));
        p.square = left.sum[0];
        p.digest = left.word;
        LS_TRY(LS_CUDA_ENQUEUE(stream, "ls_update", group_count(&p.arena), 1, LS_CUDA_THREADS, p));
        LS_TRY(fold_groups(stream, &(ls_cuda_arena_fold){
            .arena = p.arena,
            .sum = { left.sum[0] },
            .sum_out = { a->update_square_sum + t },
            .digest = left.word,
            .digest_out = a->digest,
            .digest_continues = t > 0 }));
    }
    return LS_OK;
}

/* -- whole buffers ---------------------------------------------------------------------------- */

static_assert((int)LS_MERGE_MAX == (int)LS_SHARD_MAX, "ls_cuda_merge has room for all sources");
enum { WHOLE_BLOCKS = 1024, MERGE_BLOCKS = 2048 }; /* that fill a GPU */

static size_t blocks_for(size_t count, unsigned threads, size_t most)
{
    const size_t blocks = ls_ceil_div(count, 4 * (size_t)threads);
    return blocks < most ? blocks : most;
}

/* out[i] = what `parts` blocks left for i, combined. */
static ls_status fold_words(ls_stream *stream, const uint64_t *partial, size_t parts, uint64_t *out,
                            size_t count, bool smallest)
{
    const ls_cuda_fold_words p = {
        .partial = partial, .out = out, .parts = (uint32_t)parts, .smallest = smallest };
    return LS_CUDA_ENQUEUE(stream, "ls_fold_words", count, 1, LS_CUDA_THREADS, p);
}

static ls_status whole(ls_stream *stream, const char *kernel, size_t count, const float *x,
                       uint64_t *out, bool smallest)
{
    const ls_cuda_whole p = {
        .count = count,
        .vector = ls_cuda_moves_quads(x, 0),
        .x = x,
        .partial = ls_cuda_workspace(stream),
    };
    const size_t blocks = blocks_for(count, LS_CUDA_THREADS, WHOLE_BLOCKS);
    LS_TRY(LS_CUDA_ENQUEUE(stream, kernel, blocks, 1, LS_CUDA_THREADS, p));
    return fold_words(stream, p.partial, blocks, out, 1, smallest);
}

ls_status ls_digest_cuda(ls_stream *stream, const ls_digest_args *a)
{
    if (a->count == 0) return ls_fill(stream, a->out, LS_DIGEST_BYTE, sizeof *a->out);
    return whole(stream, "ls_digest", a->count, a->x, a->out, false);
}

ls_status ls_nonfinite_cuda(ls_stream *stream, const ls_nonfinite_args *a)
{
    if (a->count == 0) return ls_fill(stream, a->out, 0xff, sizeof *a->out); /* LS_ALL_FINITE */
    return whole(stream, "ls_nonfinite", a->count, a->x, a->out, true);
}

/* -- merge ------------------------------------------------------------------------------------ */

/* Entries below the top of the stack, at most. */
static int depth_of(const ls_merge_args *a)
{
    int depth = 0, most = 0;
    for (int s = 0; s < a->source_count; s++) {
        if (s > 0 && ++depth > most) most = depth;
        depth -= a->adds[s];
    }
    return most;
}

static ls_status merge_nothing(ls_stream *stream, const ls_merge_args *a)
{
    if (a->source_digest != NULL) {
        const size_t bytes = (size_t)a->source_count * sizeof(uint64_t);
        LS_TRY(ls_fill(stream, a->source_digest, LS_DIGEST_BYTE, bytes));
    }
    return a->out_digest == NULL
               ? LS_OK : ls_fill(stream, a->out_digest, LS_DIGEST_BYTE, sizeof(uint64_t));
}

ls_status ls_merge_cuda(ls_stream *stream, const ls_merge_args *a)
{
    if (a->count == 0) return merge_nothing(stream, a);
    const bool shallow = depth_of(a) <= LS_CUDA_SHALLOW;
    const unsigned threads = shallow ? LS_CUDA_MERGE_THREADS : LS_CUDA_DEEP_THREADS;
    const size_t blocks = blocks_for(a->count, threads, MERGE_BLOCKS);
    uint64_t *partial = ls_cuda_workspace(stream);
    uint64_t *out_partial = partial + (size_t)a->source_count * blocks;
    ls_cuda_merge p = {
        .count = a->count,
        .source_count = a->source_count,
        .out_count = a->out_count,
        .vector = true,
        .source_partial = a->source_digest == NULL ? NULL : partial,
        .out_partial = a->out_digest == NULL ? NULL : out_partial,
    };
    for (int s = 0; s < a->source_count; s++) {
        p.source[s] = a->source[s];
        p.adds[s] = a->adds[s];
        p.vector = p.vector && ls_cuda_moves_quads(a->source[s], 0);
    }
    for (int o = 0; o < a->out_count; o++) {
        p.out[o] = a->out[o];
        p.vector = p.vector && ls_cuda_moves_quads(a->out[o], 0);
    }
    LS_TRY(LS_CUDA_ENQUEUE(stream, shallow ? "ls_merge_shallow" : "ls_merge_deep", blocks, 1,
                           threads, p));
    if (a->source_digest != NULL) {
        LS_TRY(fold_words(stream, partial, blocks, a->source_digest, (size_t)a->source_count,
                          false));
    }
    return a->out_digest == NULL
               ? LS_OK : fold_words(stream, out_partial, blocks, a->out_digest, 1, false);
}
