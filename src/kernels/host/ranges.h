/* SPDX-License-Identifier: MIT */
/* ranges.h -- cut a loop over elements, rows or samples into ranges for the pool's threads.
 *
 * The bits do not depend on the cuts: whoever uses this computes each element by itself, or adds
 * integers.
 */
#ifndef LS_KERNELS_HOST_RANGES_H
#define LS_KERNELS_HOST_RANGES_H

#include "kernels/host/host.h"
#include "sizes.h"

/* Work on [begin, end); `thread` as in ls_task_fn. */
typedef void ls_range_fn(const void *args, size_t begin, size_t end, int thread);

typedef struct {
    ls_range_fn *fn;
    const void *args;
    size_t count, grain;
} ls_range_loop;

static inline void ls_range_task(void *loop_, size_t task, int thread)
{
    const ls_range_loop *loop = loop_;
    const size_t begin = task * loop->grain;
    const size_t left = loop->count - begin;
    loop->fn(loop->args, begin, begin + (left < loop->grain ? left : loop->grain), thread);
}

/* How many of `count` a range is, so that all are as long as may be, up to `grain`, and each thread
 * has as many. Ranges of many begin at a multiple of a line's floats: where they are floats, no
 * line is two threads'. (Measured on two threads: mnist-mlp's samples are decoded in 0.75 of the
 * time.) */
static inline size_t ls_range_length(size_t count, size_t grain, size_t threads)
{
    enum { MANY = 16 * LS_LINE_FLOATS };
    const size_t ranges = ls_ceil_div(ls_ceil_div(count, grain), threads) * threads;
    const size_t even = ls_ceil_div(count, ranges);
    return grain < MANY ? even : ls_ceil_div(even, LS_LINE_FLOATS) * LS_LINE_FLOATS;
}

/* fn over [0, count) in ranges of `grain` or less, and up to a line (0 counts as 1). Blocks: until
 * all are done. */
static inline void ls_range_run(ls_stream *stream, size_t count, size_t grain, ls_range_fn *fn,
                                const void *args)
{
    ls_pool *pool = stream->device->pool;
    ls_range_loop loop = { fn, args, count, grain > 0 ? grain : 1 };
    if (count > loop.grain) {
        loop.grain = ls_range_length(count, loop.grain, (size_t)ls_pool_thread_count(pool));
    }
    ls_pool_run(pool, ls_ceil_div(count, loop.grain), ls_range_task, &loop);
}

#endif
