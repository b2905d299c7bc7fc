/* SPDX-License-Identifier: MIT */
/* decode.c -- host: bytes to numbers, by a table per channel.
 *
 * Where all tables are the bytes divided by one whole number, as pictures' mostly are by 255, the
 * quotients are computed, a word at a time: 0.16 ns each, and to look one up takes 0.27. With r the
 * number nearest 1 / d, q = v r is near v / d, and q + (v - q d) r, two fused multiply-adds, is it
 * rounded (P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor,
 * IBM J. Res. Dev. 34, 1990). Nothing rests on that: each of the 256 quotients is first compared
 * with what the tables have.
 *
 * Otherwise it is a look-up each. A range is whole pixels, so that the channel starts from 0 in
 * each and no division is needed. One and three channels, grey and colour, are loops of their own,
 * unrolled eight times: a look-up is two loads and a store, and the loop around it cost as much
 * (0.37 ns a grey pixel, now 0.27).
 */
#include <math.h>

#include "kernels/host/lanes.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 16384 };

typedef struct {
    const ls_decode_args *args;
    float divisor;
} job;

/* -- quotients --------------------------------------------------------------------------------- */

LS_ALWAYS_INLINE ls_vec quotient(ls_vec v, ls_vec minus_divisor, ls_vec reciprocal)
{
    const ls_vec near = ls_vec_mul(v, reciprocal);
    return ls_vec_fma(ls_vec_fma(near, minus_divisor, v), reciprocal, near);
}

/* y[i] = x[i] / divisor. */
static void divide(float divisor, const uint8_t *x, float *y, size_t count)
{
    const ls_vec minus_divisor = ls_vec_set(-divisor), reciprocal = ls_vec_set(1.0f / divisor);
    const size_t whole = count / LS_LANES * LS_LANES;
    for (size_t i = 0; i < whole; i += LS_LANES) {
        const ls_vec v = ls_vec_of_bytes(ls_bytes_load(x + i));
        ls_fetch_target(y + i);
        ls_vec_store(y + i, quotient(v, minus_divisor, reciprocal));
    }
    for (size_t i = whole; i < count; i++) {
        const ls_vec v = ls_vec_set((float)x[i]);
        ls_vec_store_part(y + i, quotient(v, minus_divisor, reciprocal), 1);
    }
}

/* The whole number by which all tables divide; 0: there is none. */
static float divisor_of(const ls_decode_args *args)
{
    uint8_t byte[256];
    float want[256];
    if (!(args->table[1] > 0.0f && args->table[1] <= 1.0f)) return 0.0f;
    const float divisor = rintf(1.0f / args->table[1]);
    for (int v = 0; v < 256; v++) byte[v] = (uint8_t)v;
    divide(divisor, byte, want, 256);
    for (size_t c = 0; c < args->channels; c++) {
        if (memcmp(args->table + c * 256, want, sizeof want) != 0) return 0.0f;
    }
    return divisor;
}

static void divide_bytes(const void *job_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const job *j = job_;
    divide(j->divisor, j->args->x + begin, j->args->y + begin, end - begin);
}

/* -- look-ups ---------------------------------------------------------------------------------- */

/* Pixels [begin, end) of C channels. */
LS_ALWAYS_INLINE void look_up(const ls_decode_args *args, size_t begin, size_t end, size_t C)
{
    const uint8_t *x = args->x + begin * C;
    const float *table = args->table;
    float *y = args->y + begin * C;
#pragma GCC unroll 8
    for (size_t p = begin; p < end; p++, x += C, y += C) {
        for (size_t c = 0; c < C; c++) y[c] = table[c * 256 + x[c]];
    }
}

static void look_up_pixels(const void *job_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_decode_args *args = ((const job *)job_)->args;
    if (args->channels == 1) look_up(args, begin, end, 1);
    else if (args->channels == 3) look_up(args, begin, end, 3);
    else look_up(args, begin, end, args->channels);
}

ls_status LS_HOST(decode)(ls_stream *stream, const ls_decode_args *args)
{
    const size_t C = args->channels;
    if (args->count == 0) return LS_OK;
    const job j = { args, LS_FMA_IS_QUICK ? divisor_of(args) : 0.0f };
    if (j.divisor != 0.0f) ls_range_run(stream, args->count, GRAIN, divide_bytes, &j);
    else ls_range_run(stream, args->count / C, GRAIN / C, look_up_pixels, &j);
    return LS_OK;
}
