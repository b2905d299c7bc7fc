/* SPDX-License-Identifier: MIT */
/* pooled_forward.c -- host: a convolution and the max pooling over it, a few samples at a time.
 *
 * The convolution's output is larger than the pooling's by the window, and nobody else reads it. So
 * the convolution writes some samples of it, which stay in the cache, the pooling reads them there,
 * and the next samples come to the same place: the rest of conv.y is not touched.
 *
 * Such a chunk is a task, of which each of the two ops runs on one thread, so threads need not meet
 * between them; a thread has a place of its own. With fewer whole chunks than threads, the threads
 * share each op instead.
 *
 * A first layer's does not go by way of memory at all (pooled_tile.h).
 */
#include <stdatomic.h>

#include "kernels/host/pooled_tile.h"

/* Elements of the convolution's output between the two ops, for each thread: a quarter of a cache
 * of the second level. */
enum { CHUNK_FLOATS = 1 << 16 };

typedef struct {
    const ls_pooled_conv_forward_args *args;
    ls_pool *pool;
    size_t chunk;         /* samples of one */
    size_t between;       /* floats of a sample of conv.y */
    atomic_int failed;    /* an ls_status */
} job;

/* Chunk `index`, by way of the place of chunk `place` in conv.y. */
static ls_status run_chunk(ls_stream *stream, const job *j, size_t index, size_t place)
{
    const ls_conv_shape *s = &j->args->conv.shape;
    const ls_pool_shape *p = &j->args->pool.shape;
    const size_t first = index * j->chunk, left = s->samples - first;
    const size_t to = first * p->out_height * p->out_width * p->channels;
    ls_conv_forward_args conv = j->args->conv;
    ls_max_pool_args pool = j->args->pool;
    conv.shape.samples = pool.shape.samples = left < j->chunk ? left : j->chunk;
    conv.x += first * s->height * s->width * s->channels;
    conv.y += place * j->chunk * j->between;
    pool.x = conv.y;
    pool.y += to;
    pool.place += to;
    LS_TRY(LS_HOST(conv_forward)(stream, &conv));
    return LS_HOST(max_pool)(stream, &pool);
}

static void chunk_task(void *job_, size_t index, int thread)
{
    job *j = job_;
    ls_device device = { .pool = ls_pool_of_thread(j->pool, thread) };
    ls_stream stream = { .device = &device };
    const ls_status status = run_chunk(&stream, j, index, (size_t)thread);
    if (status != LS_OK) atomic_store(&j->failed, (int)status);
}

ls_status LS_HOST(pooled_conv_forward)(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    const ls_pool_shape *p = &args->pool.shape;
    if (LS_HOST(pools_in_tile)(args)) return LS_HOST(pool_in_tile)(stream, args);
    job j = { .args = args, .pool = stream->device->pool,
              .between = p->height * p->width * p->channels };
    const size_t threads = (size_t)ls_pool_thread_count(j.pool), fits = CHUNK_FLOATS / j.between;
    j.chunk = fits > 0 ? fits : 1;
    const size_t chunks = (p->samples + j.chunk - 1) / j.chunk;
    if (p->samples / j.chunk < threads) {
        for (size_t i = 0; i < chunks; i++) LS_TRY(run_chunk(stream, &j, i, 0));
        return LS_OK;
    }
    ls_pool_run(j.pool, chunks, chunk_task, &j);
    return (ls_status)atomic_load(&j.failed);
}
