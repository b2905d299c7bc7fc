/* SPDX-License-Identifier: MIT */
/* naive.h -- test data, comparison of bits, and the definitions written down a second time.
 *
 * Shares no code with src/: a mistake there is not repeated here. The naive ops compute in double
 * and in the most obvious order; the canonical sums are recursive, as docs/numerics.md states
 * them, where src/ works with stacks.
 */
#ifndef TEST_SUPPORT_NAIVE_H
#define TEST_SUPPORT_NAIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- data -------------------------------------------------------------------------------------- */

/* Reproducible random numbers; a test prints the seed where it matters. */
typedef struct {
    uint64_t state;
} naive_random;

uint64_t naive_next(naive_random *random);
size_t naive_below(naive_random *random, size_t limit); /* 0 .. limit-1 */
float naive_unit(naive_random *random);                 /* (-1, 1) */

/* What naive_values mixes into ordinary numbers. With NAIVE_SMALL no sum of products overflows. */
enum {
    NAIVE_ZEROS = 1, NAIVE_TINY = 2, NAIVE_HUGE = 4, NAIVE_INFINITE = 8, NAIVE_NAN = 16,
    NAIVE_SMALL = NAIVE_ZEROS | NAIVE_TINY,
    NAIVE_ALL = NAIVE_SMALL | NAIVE_HUGE | NAIVE_INFINITE | NAIVE_NAN
};

/* A new array of `count` values in (-1, 1), up to an eighth of them of the kinds in `mix`: zeros of
 * either sign, denormals and what is near them, 1e30, infinities, NaN. The caller frees it. */
float *naive_values(naive_random *random, size_t count, int mix);

/* -- comparison -------------------------------------------------------------------------------- */

/* Equal bits, a NaN equal to any NaN. On failure prints the place and both values. */
bool naive_same(const char *what, const char *who, const float *a, const float *b, size_t count);

/* |a - b| <= tolerance. On failure prints both. */
bool naive_near(const char *what, double a, double b, double tolerance);

/* -- canonical sums, from their definition ----------------------------------------------------- */

float naive_tree_f32(const float *leaf, size_t count);
double naive_tree_f64(const double *leaf, size_t count);

/* Flat sums of x[i] * y[i], fused, in float; of (double)x[i] * y[i] in double. */
float naive_flat_f32(const float *x, const float *y, size_t count);
double naive_flat_f64(const float *x, const float *y, size_t count);

/* The sum of a shard's rows of channel c: x [rows, width, channels], slices as numerics.md 2.2. */
float naive_shard_sum(const float *x, size_t rows, size_t width, size_t channels, size_t c);

#endif
