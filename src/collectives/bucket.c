/* SPDX-License-Identifier: MIT */
/* bucket.c -- where the gradient arena is cut.
 *
 * Greedy, front to back: a bucket takes tensors until it has its bytes. The backward pass fills the
 * arena in the same direction, so a bucket is whole as soon as its last tensor is, and its exchange
 * runs while the layers below are still being differentiated. Example, bucket_bytes = 400:
 *
 *     tensor     0        1            2     3
 *     floats     64       96           32    32      (padding included)
 *     bucket     [0, 160) last_tensor 1      [160, 224) last_tensor 3: what is left
 */
#include "collectives/bucket.h"

#include <assert.h>

int ls_bucket_plan(const size_t *end, int tensor_count, size_t bucket_bytes, ls_bucket *out)
{
    int bucket_count = 0;
    size_t begin = 0;
    for (int t = 0; t < tensor_count; t++) {
        assert(end[t] >= begin);
        const size_t count = end[t] - begin;
        if (count * sizeof(float) < bucket_bytes && t + 1 < tensor_count) continue;
        out[bucket_count++] = (ls_bucket){ .begin = begin, .count = count, .last_tensor = t };
        begin = end[t];
    }
    return bucket_count;
}
