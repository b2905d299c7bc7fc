/* SPDX-License-Identifier: MIT */
/* sample_cache.c -- an array of samples, and for each whether it is there.
 *
 *     state    EMPTY -- exchange --> BEING_KEPT -- store, release --> KEPT
 *                       by the one thread that then copies
 *
 * Happens-before: whoever finds KEPT (acquire) sees the copy that was made before it was stored
 * (release); a kept sample is never written again. A thread that comes while another copies goes
 * without: it has read the sample itself.
 */
#include "io/sample_cache.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY, BEING_KEPT, KEPT };

struct ls_sample_cache {
    size_t count, sample_bytes;
    unsigned char *sample; /* owned; [count][sample_bytes] */
    atomic_uchar *state;   /* owned; [count] */
};

ls_status ls_sample_cache_create(size_t count, size_t sample_bytes, size_t bytes,
                                 ls_sample_cache **out)
{
    const size_t fit = bytes / sample_bytes; /* so count * sample_bytes is at most `bytes` */
    *out = NULL;
    ls_sample_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return ls_fail(LS_ERR_MEMORY, "no memory for a cache");
    cache->count = fit < count ? fit : count;
    cache->sample_bytes = sample_bytes;
    cache->sample = malloc(cache->count > 0 ? cache->count * sample_bytes : 1);
    cache->state = calloc(cache->count + 1, sizeof *cache->state); /* EMPTY is 0 */
    if (!cache->sample || !cache->state) {
        const size_t wanted = cache->count * sample_bytes;
        ls_sample_cache_destroy(cache);
        return ls_fail(LS_ERR_MEMORY, "no memory for a cache of %zu bytes", wanted);
    }
    *out = cache;
    return LS_OK;
}

void ls_sample_cache_destroy(ls_sample_cache *cache)
{
    if (!cache) return;
    free(cache->state);
    free(cache->sample);
    free(cache);
}

const void *ls_sample_cache_find(const ls_sample_cache *cache, size_t index)
{
    if (!cache || index >= cache->count) return NULL;
    const bool is_kept =
        atomic_load_explicit(&cache->state[index], memory_order_acquire) == KEPT;
    return is_kept ? cache->sample + index * cache->sample_bytes : NULL;
}

void ls_sample_cache_keep(ls_sample_cache *cache, size_t index, const void *x)
{
    unsigned char empty = EMPTY;
    if (!cache || index >= cache->count) return;
    if (!atomic_compare_exchange_strong_explicit(&cache->state[index], &empty, BEING_KEPT,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return;
    }
    memcpy(cache->sample + index * cache->sample_bytes, x, cache->sample_bytes);
    atomic_store_explicit(&cache->state[index], KEPT, memory_order_release);
}
