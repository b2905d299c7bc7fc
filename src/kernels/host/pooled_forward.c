/* SPDX-License-Identifier: MIT */
/* pooled_forward.c -- host: a convolution and the max pooling over it, a few samples at a time.
 *
 * The convolution's output is larger than the pooling's by the window, and nobody else reads it. So
 * the convolution writes some samples of it, which stay in the cache, the pooling reads them there,
 * and the next samples come to the same place: the rest of conv.y is not touched.
 */
#include "kernels/host/host.h"

/* Elements of the convolution's output between the two ops, for each thread: a quarter of a cache
 * of the second level. */
enum { CHUNK_FLOATS = 1 << 16 };

ls_status LS_HOST(pooled_conv_forward)(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    const ls_conv_shape *s = &args->conv.shape;
    const ls_pool_shape *p = &args->pool.shape;
    const size_t from = s->height * s->width * s->channels;
    const size_t between = p->height * p->width * p->channels;
    const size_t to = p->out_height * p->out_width * p->channels;
    const size_t threads = (size_t)ls_pool_thread_count(stream->device->pool);
    const size_t fits = threads * CHUNK_FLOATS / between, chunk = fits > 0 ? fits : 1;
    for (size_t n = 0; n < s->samples; n += chunk) {
        ls_conv_forward_args conv = args->conv;
        ls_max_pool_args pool = args->pool;
        conv.shape.samples = pool.shape.samples = s->samples - n < chunk ? s->samples - n : chunk;
        conv.x += n * from;
        pool.y += n * to;
        pool.place += n * to;
        LS_TRY(LS_HOST(conv_forward)(stream, &conv));
        LS_TRY(LS_HOST(max_pool)(stream, &pool));
    }
    return LS_OK;
}
