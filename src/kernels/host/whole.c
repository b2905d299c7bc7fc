/* SPDX-License-Identifier: MIT */
/* whole.c -- host: digest, finite test and merge of whole buffers.
 *
 * Digests are integer sums, which may be added in any order: each thread keeps its own in its
 * scratch memory and the caller adds them up. The merge runs its program on runs of 1024 elements
 * that stay in the first-level cache, so that every source is read from memory once, for its
 * digest and its sum, and every output is written once.
 *
 * A merge of two, the only one that two replicas have, needs no stack: word by word, it makes all
 * of that at once. What it reads and writes is in part another core's, so lines are asked for
 * ahead. (Measured on an Emerald Rapids: an all-reduce of 1.8 MB of two replicas takes 0.88 of the
 * time that it takes with runs, of 0.46 MB 0.82.)
 */
#include <assert.h>
#include <string.h>

#include "kernels/host/digest.h"
#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 65536, RUN = 1024 };

typedef struct {
    uint64_t source_digest[LS_MERGE_MAX];
    uint64_t digest;    /* of the buffer, or of the merge's output */
    uint64_t nonfinite; /* the lowest index found */
} findings;

/* A thread's scratch memory. */
typedef struct {
    float sum[LS_MERGE_MAX][RUN]; /* what a stack entry that is a sum points to */
    findings found;               /* by this thread so far */
} scratch;

static_assert(sizeof(scratch) <= LS_SCRATCH_BYTES, "a merge must fit the scratch memory");

typedef struct {
    const void *args;
    ls_pool *pool;
} whole_loop;

static scratch *scratch_of(ls_pool *pool, int thread) { return ls_pool_scratch(pool, thread); }

/* Run fn, which gets a whole_loop, over [0, count); what all threads found, combined. */
static findings whole_run(ls_stream *stream, size_t count, ls_range_fn *fn, const void *args)
{
    const whole_loop loop = { args, stream->device->pool };
    const findings nothing = { .nonfinite = LS_ALL_FINITE };
    const int threads = ls_pool_thread_count(loop.pool);
    for (int t = 0; t < threads; t++) scratch_of(loop.pool, t)->found = nothing;
    ls_range_run(stream, count, GRAIN, fn, &loop);
    findings all = { .digest = LS_DIGEST_START, .nonfinite = LS_ALL_FINITE };
    for (int s = 0; s < LS_MERGE_MAX; s++) all.source_digest[s] = LS_DIGEST_START;
    for (int t = 0; t < threads; t++) {
        const findings *found = &scratch_of(loop.pool, t)->found;
        for (int s = 0; s < LS_MERGE_MAX; s++) all.source_digest[s] += found->source_digest[s];
        all.digest += found->digest;
        if (found->nonfinite < all.nonfinite) all.nonfinite = found->nonfinite;
    }
    return all;
}

static void digest_range(const void *loop_, size_t begin, size_t end, int thread)
{
    const whole_loop *loop = loop_;
    const ls_digest_args *args = loop->args;
    scratch_of(loop->pool, thread)->found.digest +=
        ls_digest_run(args->x + begin, begin, end - begin);
}

ls_status LS_HOST(digest)(ls_stream *stream, const ls_digest_args *args)
{
    *args->out = whole_run(stream, args->count, digest_range, args).digest;
    return LS_OK;
}

static void nonfinite_range(const void *loop_, size_t begin, size_t end, int thread)
{
    const whole_loop *loop = loop_;
    const ls_nonfinite_args *args = loop->args;
    if (!ls_has_nonfinite(args->x + begin, end - begin)) return;
    const uint64_t at = begin + ls_nonfinite_at(args->x + begin);
    findings *found = &scratch_of(loop->pool, thread)->found;
    if (at < found->nonfinite) found->nonfinite = at;
}

ls_status LS_HOST(nonfinite)(ls_stream *stream, const ls_nonfinite_args *args)
{
    *args->out = whole_run(stream, args->count, nonfinite_range, args).nonfinite;
    return LS_OK;
}

/* to may be a. */
static void add_run(float *to, const float *a, const float *b, size_t count)
{
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) to[i] = a[i] + b[i];
}

/* The merge program on elements first .. first + count - 1, count <= RUN. */
static void merge_run(const ls_merge_args *args, scratch *mine, size_t first, size_t count)
{
    const float *stack[LS_MERGE_MAX]; /* sources where they lie, sums in mine->sum */
    int depth = 0;
    for (int s = 0; s < args->source_count; s++) {
        const float *source = args->source[s] + first;
        if (args->source_digest) {
            mine->found.source_digest[s] += ls_digest_run(source, first, count);
        }
        stack[depth++] = source;
        const bool last = s + 1 == args->source_count;
        for (int add = 0; add < args->adds[s]; add++) {
            depth--;
            /* The root goes where it belongs; that may be a source's place, read for the last time
             * in this addition. */
            float *sum = last && depth == 1 ? args->out[0] + first : mine->sum[depth - 1];
            add_run(sum, stack[depth - 1], stack[depth], count);
            stack[depth - 1] = sum;
        }
    }
    if (args->out_digest) mine->found.digest += ls_digest_run(stack[0], first, count);
    for (int o = 0; o < args->out_count; o++) {
        float *out = args->out[o] + first;
        if (out != stack[0]) memcpy(out, stack[0], count * sizeof *out);
    }
}

/* The merge of two sources, of all whole words of elements begin .. end - 1. Returns where the
 * others begin. */
static size_t merge_two(const ls_merge_args *args, findings *found, size_t begin, size_t end)
{
    const float *a = args->source[0], *b = args->source[1];
    const bool reads = args->source_digest != NULL, writes = args->out_digest != NULL;
    ls_digest_rows rows_a = { { 0 }, { 0 }, { 0 }, { 0 } }, rows_b = rows_a, rows_sum = rows_a;
    size_t i = begin;
    for (; i + LS_LANES <= end; i += LS_LANES) {
        const ls_vec sum = ls_vec_add(ls_vec_load(a + i), ls_vec_load(b + i));
        ls_fetch_source(a + i);
        ls_fetch_source(b + i);
        if (reads) {
            ls_digest_add_row(&rows_a, a + i);
            ls_digest_add_row(&rows_b, b + i);
        }
        for (int o = 0; o < args->out_count; o++) {
            ls_fetch_target(args->out[o] + i);
            ls_vec_store(args->out[o] + i, sum);
        }
        if (writes) ls_digest_add_row(&rows_sum, args->out[0] + i);
    }
    found->source_digest[0] += ls_digest_of_rows(&rows_a, i);
    found->source_digest[1] += ls_digest_of_rows(&rows_b, i);
    found->digest += ls_digest_of_rows(&rows_sum, i);
    return i;
}

static void merge_range(const void *loop_, size_t begin, size_t end, int thread)
{
    const whole_loop *loop = loop_;
    const ls_merge_args *args = loop->args;
    scratch *mine = scratch_of(loop->pool, thread);
    size_t first = begin;
    if (args->source_count == 2) first = merge_two(args, &mine->found, begin, end);
    for (; first < end; first += RUN) {
        merge_run(args, mine, first, end - first < RUN ? end - first : RUN);
    }
}

ls_status LS_HOST(merge)(ls_stream *stream, const ls_merge_args *args)
{
    const findings found = whole_run(stream, args->count, merge_range, args);
    if (args->source_digest) {
        memcpy(args->source_digest, found.source_digest,
               (size_t)args->source_count * sizeof *args->source_digest);
    }
    if (args->out_digest) *args->out_digest = found.digest;
    return LS_OK;
}
