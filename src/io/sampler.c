/* SPDX-License-Identifier: MIT */
/* sampler.c -- Fisher-Yates from the top, addressed random numbers, and step arithmetic.
 *
 * [R. Durstenfeld, "Algorithm 235: Random permutation", Communications of the ACM 7, 1964]:
 * for i = count-1 down to 1, swap order[i] with order[j], j uniform in 0 .. i. Here
 *
 *     j = (u * (i + 1)) >> 64        u = 64 random bits of position i
 *
 * u's low word is element 2i of the stream (seed, SHUFFLE, epoch), its high word element 2i + 1.
 * A quad of the stream has four elements, so positions 2q and 2q + 1 share quad q: words 0 and 1
 * belong to the even position, 2 and 3 to the odd one. The order is computed afresh from the
 * identity for each epoch: a resumed run needs the epoch's number and nothing else.
 */
#include "io/sampler.h"

#include "philox.h"

__extension__ typedef unsigned __int128 wide; /* 64 x 64 -> 128 bits; gcc and clang have it */

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

void ls_sampler_order(uint64_t seed, uint32_t epoch, bool shuffle, size_t count, uint32_t *order)
{
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    if (!shuffle) return;

    uint32_t word[4];
    size_t drawn = SIZE_MAX; /* the quad that `word` holds */
    for (size_t i = count; i-- > 1;) {
        const size_t quad = i / 2;
        if (quad != drawn) {
            ls_random_words(seed, LS_RANDOM_SHUFFLE, 0, epoch, 0, (uint32_t)quad, word);
            drawn = quad;
        }
        const size_t low = 2 * (i % 2);
        const uint64_t u = (uint64_t)word[low + 1] << 32 | word[low];
        swap(&order[i], &order[(size_t)((wide)u * (i + 1) >> 64)]);
    }
}

size_t ls_sampler_step_count(size_t count, size_t global_batch, bool drop_remainder)
{
    const size_t full = count / global_batch;
    return full + (!drop_remainder && count % global_batch != 0 ? 1 : 0);
}

size_t ls_sampler_step_samples(size_t count, size_t global_batch, size_t step)
{
    const size_t left = count - step * global_batch;
    return left < global_batch ? left : global_batch;
}
