/* SPDX-License-Identifier: MIT */
/* naive.c -- test data, comparison of bits, and definitions written down again. See naive.h. */
#include "support/naive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014. */
uint64_t naive_next(naive_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t naive_below(naive_random *random, size_t limit)
{
    return (size_t)(naive_next(random) % limit);
}

float naive_unit(naive_random *random)
{
    return (float)((double)(naive_next(random) >> 40) / 8388608.0 - 1.0 + 1.0 / 16777216.0);
}

static float special_value(naive_random *random, int kind)
{
    static const float tiny[] = { 1e-45f, 1.1754942e-38f, 1.17549435e-38f, 7.8e-31f, 7.9e-31f };
    const float sign = naive_next(random) & 1 ? 1.0f : -1.0f;
    switch (kind) {
    case NAIVE_ZEROS: return sign * 0.0f;
    case NAIVE_TINY: return sign * tiny[naive_below(random, 5)];
    case NAIVE_HUGE: return sign * 1e30f;
    case NAIVE_INFINITE: return sign * INFINITY;
    default: return NAN;
    }
}

float *naive_values(naive_random *random, size_t count, int mix)
{
    float *x = malloc(count * sizeof *x);
    if (x == NULL && count > 0) abort();
    for (size_t i = 0; i < count; i++) {
        const size_t pick = naive_below(random, 40);
        const int kind = pick < 5 ? mix & 1 << pick : 0;
        x[i] = kind ? special_value(random, kind) : naive_unit(random);
    }
    return x;
}

bool naive_same(const char *what, const char *who, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((a[i] != a[i] && b[i] != b[i]) || memcmp(&a[i], &b[i], sizeof *a) == 0) continue;
        fprintf(stderr, "%s: %s: element %zu of %zu: %a, not %a\n", what, who, i, count,
                (double)b[i], (double)a[i]);
        return false;
    }
    return true;
}

bool naive_near(const char *what, double a, double b, double tolerance)
{
    if (fabs(a - b) <= tolerance) return true;
    fprintf(stderr, "%s: %.17g, not %.17g within %g\n", what, b, a, tolerance);
    return false;
}

/* The largest power of two strictly below count. */
static size_t left_leaves(size_t count)
{
    size_t power = 1;
    while (2 * power < count) power *= 2;
    return power;
}

float naive_tree_f32(const float *leaf, size_t count)
{
    if (count == 0) return 0.0f;
    if (count == 1) return leaf[0];
    const size_t left = left_leaves(count);
    return naive_tree_f32(leaf, left) + naive_tree_f32(leaf + left, count - left);
}

double naive_tree_f64(const double *leaf, size_t count)
{
    if (count == 0) return 0.0;
    if (count == 1) return leaf[0];
    const size_t left = left_leaves(count);
    return naive_tree_f64(leaf, left) + naive_tree_f64(leaf + left, count - left);
}

/* A block's lane l and those that are folded into it. */
static float lane_f32(const float *x, const float *y, size_t count, size_t l)
{
    float sum = 0.0f;
    for (size_t i = l; i < count; i += 64) sum = fmaf(x[i], y[i], sum);
    return sum + 0.0f;
}

static double lane_f64(const float *x, const float *y, size_t count, size_t l)
{
    double sum = 0.0;
    for (size_t i = l; i < count; i += 64) sum += (double)x[i] * (double)y[i];
    return sum + 0.0;
}

float naive_flat_f32(const float *x, const float *y, size_t count)
{
    if (count > 4096) {
        const size_t left = 4096 * left_leaves((count + 4095) / 4096);
        return naive_flat_f32(x, y, left) + naive_flat_f32(x + left, y + left, count - left);
    }
    float p[64];
    for (size_t l = 0; l < 64; l++) p[l] = lane_f32(x, y, count, l);
    for (size_t far = 32; far > 0; far /= 2) {
        for (size_t l = 0; l < far; l++) p[l] += p[l + far];
    }
    return p[0];
}

double naive_flat_f64(const float *x, const float *y, size_t count)
{
    if (count > 4096) {
        const size_t left = 4096 * left_leaves((count + 4095) / 4096);
        return naive_flat_f64(x, y, left) + naive_flat_f64(x + left, y + left, count - left);
    }
    double p[64];
    for (size_t l = 0; l < 64; l++) p[l] = lane_f64(x, y, count, l);
    for (size_t far = 32; far > 0; far /= 2) {
        for (size_t l = 0; l < far; l++) p[l] += p[l + far];
    }
    return p[0];
}

float naive_shard_sum(const float *x, size_t rows, size_t width, size_t channels, size_t c)
{
    const size_t height = width > 1024 ? 1 : 1024 / width;
    const size_t slices = (rows + height - 1) / height;
    if (slices == 0) return 0.0f;
    if (slices > 1) {
        const size_t left = height * left_leaves(slices);
        return naive_shard_sum(x, left, width, channels, c) +
               naive_shard_sum(x + left * width * channels, rows - left, width, channels, c);
    }
    float sum = 0.0f;
    for (size_t place = 0; place < rows * width; place++) sum += x[place * channels + c];
    return sum + 0.0f;
}
