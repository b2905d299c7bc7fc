/* SPDX-License-Identifier: MIT */
/* bucket.h -- consecutive gradients of the arena that are reduced by one call.
 *
 * The arena holds tensors in reverse layer order, so that the backward pass completes it front to
 * back. A bucket is a range [begin, begin + count) of the arena that ends where a tensor ends (its
 * padding included); it may be exchanged when its last tensor's gradient is there. Where buckets
 * are cut never changes a bit: the tree is element-wise.
 *
 * Pure: arithmetic on offsets.
 */
#ifndef LS_COLLECTIVES_BUCKET_H
#define LS_COLLECTIVES_BUCKET_H

#include <stddef.h>

#include "status.h"

typedef struct {
    size_t begin, count; /* floats of the arena; begin is a multiple of 32 */
    int last_tensor;     /* in arena order: the bucket is complete when this one's gradient is */
} ls_bucket;

/* Cut an arena of `tensor_count` tensors (end[t] = the float after tensor t and its padding,
 * ascending) into buckets of at least `bucket_bytes` (the last may be smaller; a tensor is never
 * cut). `out` has room for tensor_count buckets. Returns how many. */
int ls_bucket_plan(const size_t *end, int tensor_count, size_t bucket_bytes, ls_bucket *out);

#endif
