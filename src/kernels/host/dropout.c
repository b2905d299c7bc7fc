/* SPDX-License-Identifier: MIT */
/* dropout.c -- host: 64 Philox counters side by side.
 *
 * Philox (philox.h) of neighbouring quads differs in the first counter word only, so a loop over
 * quads inside each round is a loop over vector lanes. The words of 64 quads make 256 elements.
 */
#include "kernels/host/host.h"
#include "kernels/host/ranges.h"
#include "philox.h"

enum { QUADS = 64, GRAIN = 8192 };

/* word[4 q + i] = word i of quad first + q. The rounds are those of ls_philox. */
static void random_words(const ls_dropout_args *args, uint32_t sample, uint32_t first,
                         uint32_t *word)
{
    uint32_t c0[QUADS], c1[QUADS], c2[QUADS], c3[QUADS];
    uint32_t k0 = (uint32_t)args->seed, k1 = (uint32_t)(args->seed >> 32);
    for (uint32_t q = 0; q < QUADS; q++) {
        c0[q] = first + q;
        c1[q] = sample;
        c2[q] = args->epoch;
        c3[q] = (uint32_t)LS_RANDOM_DROPOUT << 16 | args->layer;
    }
    for (int round = 0; round < 10; round++) {
        for (int q = 0; q < QUADS; q++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0[q];
            const uint64_t b = (uint64_t)0xCD9E8D57u * c2[q];
            c0[q] = (uint32_t)(b >> 32) ^ c1[q] ^ k0;
            c1[q] = (uint32_t)b;
            c2[q] = (uint32_t)(a >> 32) ^ c3[q] ^ k1;
            c3[q] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int q = 0; q < QUADS; q++) {
        word[4 * q] = c0[q];
        word[4 * q + 1] = c1[q];
        word[4 * q + 2] = c2[q];
        word[4 * q + 3] = c3[q];
    }
}

/* y = x * scale where the word says so, else 0. */
static void keep(const ls_dropout_args *args, const uint32_t *word, size_t count, const float *x,
                 float *y)
{
    const float scale = args->scale;
    const uint32_t threshold = args->threshold;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float kept = x[i] * scale;
        y[i] = word[i] >= threshold ? kept : 0.0f;
    }
}

/* Channels dropped whole, one sample: the words of 4 * QUADS channels serve all places. */
static void dropout_channels(const ls_dropout_args *args, size_t n)
{
    const size_t C = args->channels, places = args->elements / C;
    uint32_t word[4 * QUADS];
    for (size_t first = 0; first < C; first += 4 * QUADS) {
        random_words(args, args->index[n], (uint32_t)(first / 4), word);
        const size_t count = C - first < 4 * QUADS ? C - first : 4 * QUADS;
        for (size_t p = 0; p < places; p++) {
            const size_t at = n * args->elements + p * C + first;
            keep(args, word, count, args->x + at, args->y + at);
        }
    }
}

static void dropout_samples(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_dropout_args *args = args_;
    uint32_t word[4 * QUADS];
    for (size_t n = begin; n < end; n++) {
        if (args->channels > 0) {
            dropout_channels(args, n);
            continue;
        }
        for (size_t e = 0; e < args->elements; e += 4 * QUADS) {
            random_words(args, args->index[n], (uint32_t)(e / 4), word);
            const size_t at = n * args->elements + e, left = args->elements - e;
            keep(args, word, left < 4 * QUADS ? left : 4 * QUADS, args->x + at, args->y + at);
        }
    }
}

ls_status LS_HOST(dropout)(ls_stream *stream, const ls_dropout_args *args)
{
    if (args->elements == 0) return LS_OK;
    ls_range_run(stream, args->samples, GRAIN / args->elements, dropout_samples, args);
    return LS_OK;
}
