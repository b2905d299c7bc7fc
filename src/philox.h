/* SPDX-License-Identifier: MIT */
/* philox.h -- Philox4x32-10: random numbers as a pure function of what they are for.
 *
 * [J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
 *  1, 2, 3", SC'11, 2011.]  A counter of four 32-bit words and a key of two go through ten rounds
 * of   (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))
 * with M0 = 0xD2511F53, M1 = 0xCD9E8D57; after each round k0 += 0x9E3779B9, k1 += 0xBB67AE85.
 *
 * lockstep has no generator state. A number is addressed: key = (low, high) word of the seed,
 * counter = (element / 4, sample index, epoch, purpose << 16 | layer ordinal), and element e takes
 * word e mod 4. So it depends on nothing that changes with the number of replicas or threads.
 *
 * Valid C11, C++14 and device code; the includer may define LS_INLINE.
 */
#ifndef LS_PHILOX_H
#define LS_PHILOX_H

#include <stdint.h>

#ifndef LS_INLINE
#define LS_INLINE static inline
#endif

typedef enum {
    LS_RANDOM_INIT = 1,
    LS_RANDOM_SHUFFLE = 2,
    LS_RANDOM_DROPOUT = 3,
    LS_RANDOM_AUGMENT = 4
} ls_random_purpose;

/* out = the four words for (counter, key). Pure. */
LS_INLINE void ls_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Words 4*quad .. 4*quad+3 of the stream of (seed, purpose, layer, epoch, sample). Pure. */
LS_INLINE void ls_random_words(uint64_t seed, ls_random_purpose purpose, uint32_t layer,
                               uint32_t epoch, uint32_t sample, uint32_t quad, uint32_t out[4])
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    const uint32_t counter[4] = { quad, sample, epoch, (uint32_t)purpose << 16 | layer };
    ls_philox(counter, key, out);
}

#endif
