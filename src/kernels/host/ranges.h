/* SPDX-License-Identifier: MIT */
/* ranges.h -- cut a loop over elements, rows or samples into ranges for the pool's threads.
 *
 * The cuts depend on the loop's length and `grain` alone, and the bits do not depend on the cuts:
 * whoever uses this computes each element by itself, or adds integers.
 */
#ifndef LS_KERNELS_HOST_RANGES_H
#define LS_KERNELS_HOST_RANGES_H

#include "kernels/host/host.h"

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

/* fn over [0, count) in ranges of `grain` (0 counts as 1). Blocks: until all are done. */
static inline void ls_range_run(ls_stream *stream, size_t count, size_t grain, ls_range_fn *fn,
                                const void *args)
{
    ls_range_loop loop = { fn, args, count, grain > 0 ? grain : 1 };
    const size_t tasks = (count + loop.grain - 1) / loop.grain;
    ls_pool_run(stream->device->pool, tasks, ls_range_task, &loop);
}

#endif
