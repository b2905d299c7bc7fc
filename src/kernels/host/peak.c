/* SPDX-License-Identifier: MIT */
/* peak.c -- multiply-adds as fast as they go: what a kernel's speed is measured against.
 *
 * Nothing is loaded or stored in the loop, and CHAINS words wait for nobody but themselves. A
 * processor that starts two fused multiply-adds per clock, each of which takes four, is busy with
 * eight; twelve leave room, and with their two operands still fit sixteen registers.
 */
#include <assert.h>

#include "kernels/host/host.h"

#include LS_SIMD

enum { CHAINS = 12 };

static_assert(CHAINS * LS_LANES <= LS_PEAK_FLOATS, "a word per chain");

double LS_HOST(peak)(float *x, size_t rounds)
{
    /* x = x / 2 + 1 goes to 2: no denormals, no infinities. */
    const ls_vec half = ls_vec_set(0.5f), one = ls_vec_set(1.0f);
    ls_vec word[CHAINS];
    for (int i = 0; i < CHAINS; i++) word[i] = ls_vec_load(x + i * LS_LANES);
    for (size_t k = 0; k < rounds; k++) {
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) word[i] = ls_vec_fma(word[i], half, one);
    }
    for (int i = 0; i < CHAINS; i++) ls_vec_store(x + i * LS_LANES, word[i]);
    return (double)rounds * CHAINS * LS_LANES;
}
