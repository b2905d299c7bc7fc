/* SPDX-License-Identifier: MIT */
/* sample_cache.h -- decoded training samples that stay in memory, before anything random is done to
 * them.
 *
 * Samples 0 .. as many as fit are kept, each when it is first read, and none is ever thrown out; in
 * an epoch each is read once, so which ones does not matter. What is found is what reading again
 * would give, to the bit.
 *
 * Thread rule: any number of threads find and keep.
 */
#ifndef LS_IO_SAMPLE_CACHE_H
#define LS_IO_SAMPLE_CACHE_H

#include <stddef.h>

#include "status.h"

typedef struct ls_sample_cache ls_sample_cache;

/* For samples 0 .. count-1 of `sample_bytes` bytes each, or for as many of them, from 0 on, as
 * `bytes` bytes hold. Memory is taken as samples come. Errors: MEMORY. */
LS_MUST_USE ls_status ls_sample_cache_create(size_t count, size_t sample_bytes, size_t bytes,
                                             ls_sample_cache **out);
void ls_sample_cache_destroy(ls_sample_cache *cache); /* accepts NULL */

/* The sample, if it has been kept, valid until the cache is destroyed; or NULL. */
const void *ls_sample_cache_find(const ls_sample_cache *cache, size_t index); /* NULL: NULL */

/* Copy sample `index` from x, if there is room for it and nobody has. */
void ls_sample_cache_keep(ls_sample_cache *cache, size_t index, const void *x); /* accepts NULL */

#endif
