/* SPDX-License-Identifier: MIT */
/* digest.h -- the digest (ls_digest_term in numerics.h) of a short run of elements, vectorised.
 *
 * A run is read in rows of L = LS_LANES words. Element e is word (r, l), e = L r + l, and counts
 * 2 (first + e) + 1 times. Instead of multiplying each word by its factor, its row is counted by
 * adding up sums: after the last of R rows, the sum over r of (the sum of rows 0 .. r) holds row r
 * R - r times. Counted from the run's end, a word's factor is
 *
 *     2 (first + L R) + 2 l + 1  -  2 L (R - r)
 *
 * of which the first part belongs to a lane and the second to that sum of sums. So a row costs
 * additions only, and a run one multiplication per lane.
 *
 * Sums are of 64 bits, modulo 2^64 as the digest is, and lie over pairs of words: lane p of `pair`
 * adds the numbers low + 2^32 high of words 2 p and 2 p + 1, lane p of `high` their upper words
 * alone; the lower ones' sum is pair - 2^32 high.
 */
#ifndef LS_KERNELS_HOST_DIGEST_H
#define LS_KERNELS_HOST_DIGEST_H

#include "kernels/host/lanes.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lower word of a pair must be the one that comes first in memory"
#endif

typedef int32_t ls_digest_words __attribute__((vector_size(4 * LS_LANES)));
typedef uint64_t ls_digest_pairs __attribute__((vector_size(4 * LS_LANES)));

/* The words of a row, any NaN as 0x7fc00000. */
static inline ls_digest_words ls_digest_row(const float *x)
{
    const ls_vec v = ls_vec_load(x);
    const ls_digest_words nan = v != v;
    ls_digest_words words;
    memcpy(&words, &v, sizeof words);
    return (words & ~nan) | (nan & 0x7fc00000);
}

/* The rows of a run so far. */
typedef struct {
    ls_digest_pairs pair, high, pair_sums, high_sums;
} ls_digest_rows;

static inline void ls_digest_add_words(ls_digest_rows *rows, ls_digest_pairs row)
{
    rows->pair += row;
    rows->high += row >> 32;
    rows->pair_sums += rows->pair;
    rows->high_sums += rows->high;
}

static inline void ls_digest_add_row(ls_digest_rows *rows, const float *x)
{
    ls_digest_add_words(rows, (ls_digest_pairs)ls_digest_row(x));
}

/* The same for a row without a NaN. */
static inline void ls_digest_add_number_row(ls_digest_rows *rows, const float *x)
{
    ls_digest_pairs row;
    memcpy(&row, x, sizeof row);
    ls_digest_add_words(rows, row);
}

/* What rows add to a digest whose last element is `end` - 1. */
static inline uint64_t ls_digest_of_rows(const ls_digest_rows *rows, size_t end)
{
    const ls_digest_pairs low = rows->pair - (rows->high << 32);
    const ls_digest_pairs low_sums = rows->pair_sums - (rows->high_sums << 32);
    uint64_t digest = 0;
    for (size_t p = 0; p < LS_LANES / 2; p++) {
        const uint64_t factor = 2 * ((uint64_t)end + 2 * p) + 1; /* of word 2 p */
        digest += factor * low[p] + (factor + 2) * rows->high[p];
        digest -= 2 * LS_LANES * (low_sums[p] + rows->high_sums[p]);
    }
    return digest;
}

/* What elements first .. first + count - 1, at x, add to a digest. */
static inline uint64_t ls_digest_run(const float *x, size_t first, size_t count)
{
    const size_t whole = count / LS_LANES * LS_LANES;
    ls_digest_rows rows = { { 0 }, { 0 }, { 0 }, { 0 } };
    for (size_t e = 0; e < whole; e += LS_LANES) {
        ls_fetch_source(x + e);
        ls_digest_add_row(&rows, x + e);
    }
    uint64_t digest = ls_digest_of_rows(&rows, first + whole);
    for (size_t e = whole; e < count; e++) digest += ls_digest_term(first + e, x[e]);
    return digest;
}

/* Is one of them a NaN or infinite? Times 0, added up, those make a NaN and nothing else does. */
static inline bool ls_has_nonfinite(const float *x, size_t count)
{
    enum { SUMS = 4 }; /* as many as a sum takes cycles */
    const ls_vec zero = ls_vec_zero();
    ls_vec sum[SUMS] = { zero, zero, zero, zero };
    size_t i = 0;
    for (; i + SUMS * LS_LANES <= count; i += SUMS * LS_LANES) {
        for (size_t k = 0; k < SUMS; k++)
            sum[k] = ls_vec_fma(ls_vec_load(x + i + k * LS_LANES), zero, sum[k]);
    }
    for (; i < count; i += LS_LANES) {
        const size_t lanes = count - i < LS_LANES ? count - i : LS_LANES;
        sum[0] = ls_vec_fma(ls_vec_load_lanes(x + i, lanes), zero, sum[0]);
    }
    float all[LS_LANES];
    ls_vec_store(all, ls_vec_add(ls_vec_add(sum[0], sum[1]), ls_vec_add(sum[2], sum[3])));
    float found = 0.0f;
    for (size_t l = 0; l < LS_LANES; l++) found += all[l];
    return found != found;
}

/* The first of them that is, which there must be. */
static inline size_t ls_nonfinite_at(const float *x)
{
    size_t i = 0;
    while (ls_is_finite(x[i])) i++;
    return i;
}

#endif
