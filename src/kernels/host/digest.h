/* SPDX-License-Identifier: MIT */
/* digest.h -- the digest (ls_digest_term in numerics.h) of a short run of elements, vectorised.
 *
 * With j counted from the run's first element, sum (2 (first + j) + 1) w_j =
 * 2 first * sum w_j + sum (2 j + 1) w_j: the factors of the second sum fit 32 bits, and a product
 * of two 32-bit words is an instruction that every vector unit has; one of 64-bit words is not.
 */
#ifndef LS_KERNELS_HOST_DIGEST_H
#define LS_KERNELS_HOST_DIGEST_H

#include "kernels/host/host.h"

enum { LS_DIGEST_RUN_MAX = 1 << 20 };

/* What elements first .. first + count - 1, at x, add to a digest; count <= LS_DIGEST_RUN_MAX. */
static inline uint64_t ls_digest_run(const float *x, size_t first, size_t count)
{
    uint64_t words = 0, odd = 0;
    for (uint32_t j = 0; j < (uint32_t)count; j++) {
        const uint32_t word = ls_digest_word(x[j]), factor = 2 * j + 1;
        words += word;
        odd += (uint64_t)word * factor;
    }
    return 2 * (uint64_t)first * words + odd;
}

/* Is one of them a NaN or infinite? */
static inline bool ls_has_nonfinite(const float *x, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) found |= (uint32_t)!ls_is_finite(x[i]);
    return found != 0;
}

/* The first of them that is, which there must be. */
static inline size_t ls_nonfinite_at(const float *x)
{
    size_t i = 0;
    while (ls_is_finite(x[i])) i++;
    return i;
}

#endif
