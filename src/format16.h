/* SPDX-License-Identifier: MIT */
/* format16.h -- floats rounded to 16 bits, and back: bfloat16 and IEEE 754 binary16.
 *
 *   bfloat16   sign, 8 bits of exponent, 7 of fraction: the upper half of a float
 *   binary16   sign, 5 bits of exponent (bias 15), 10 of fraction; denormals are multiples of 2^-24
 *
 * To nearest, ties to even; what rounds beyond the largest becomes infinite; any NaN the quiet one
 * 0x7fc0 or 0x7e00. Back is exact. Integers and one exact float addition, no branches: the loops
 * over these vectorise, and every compiler gives the same bits.
 *
 * Pure. Valid C11, C++14 and device code (numerics.h).
 */
#ifndef LS_FORMAT16_H
#define LS_FORMAT16_H

#include "numerics.h"

LS_INLINE uint16_t ls_bf16_of_float(float x)
{
    const uint32_t bits = ls_float_bits(x);
    const uint32_t odd = (bits >> 16) & 1;
    const uint32_t rounded = (bits + 0x7fffu + odd) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

LS_INLINE float ls_float_of_bf16(uint16_t h) { return ls_float_of_bits((uint32_t)h << 16); }

/* Normal: the exponent's bias goes down by 112 and 13 bits are rounded off. Below 2^-14: adding
 * 0.5, whose last bit is 2^-24, rounds to a multiple of the denormals' unit. 65520 and more:
 * infinite. */
LS_INLINE uint16_t ls_f16_of_float(float x)
{
    const uint32_t bits = ls_float_bits(x), magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
    const uint32_t denormal = ls_float_bits(ls_float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t finite = magnitude < 0x38800000u ? denormal : normal;
    const uint32_t unsigned_h = magnitude >= 0x477ff000u ? 0x7c00u : finite;
    const uint32_t h = unsigned_h | ((bits >> 16) & 0x8000u);
    return (uint16_t)(magnitude > 0x7f800000u ? 0x7e00u : h);
}

LS_INLINE float ls_float_of_f16(uint16_t h)
{
    const uint32_t magnitude = h & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + 0x38000000u;
    const uint32_t denormal = ls_float_bits((float)magnitude * 0x1p-24f);
    const uint32_t finite = magnitude < 0x400u ? denormal : normal;
    const uint32_t special = (magnitude << 13) | 0x7f800000u; /* infinite, NaN */
    const uint32_t bits = magnitude >= 0x7c00u ? special : finite;
    return ls_float_of_bits(bits | ((uint32_t)(h & 0x8000u) << 16));
}

#endif
