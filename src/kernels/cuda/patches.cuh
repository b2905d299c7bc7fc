/* SPDX-License-Identifier: MIT */
/* patches.cuh -- where an element of the matrix of patches lies, which is never stored.
 *
 * See ls_cuda_patches: row = place of a grid, column = tap and channel. SIGN is + where the taps go
 * right and down from the place's corner (patches of an image), - where they go left and up (the
 * outputs that an input took part in).
 */
#ifndef LS_KERNELS_CUDA_PATCHES_CUH
#define LS_KERNELS_CUDA_PATCHES_CUH

#include "kernels/cuda/device.cuh"

/* A place: the source row and column under tap (0, 0), and where that element is or would be. */
struct corner {
    const float *at;
    int32_t h, w;
};

/* Far enough outside that no tap reaches the source, near enough that nothing overflows. */
enum { NOWHERE = -(1 << 30) };

LS_INLINE corner corner_at(const ls_cuda_patches &p, uint32_t place)
{
    const uint32_t sample = divide(place, p.by_sample);
    const uint32_t within = place - sample * p.by_sample.divisor;
    const uint32_t i = divide(within, p.by_row), j = within - i * p.by_row.divisor;
    corner c;
    c.h = (int32_t)i * p.stride_h + p.first_h;
    c.w = (int32_t)j * p.stride_w + p.first_w;
    c.at = p.source + (size_t)sample * (p.height * p.width * p.channels)
           + (ptrdiff_t)(c.h * (int32_t)p.width + c.w) * (int32_t)p.channels;
    if (place >= p.places) c.h = NOWHERE;
    return c;
}

/* A column: row and column of its tap, and how far its elements are from those of column 0. */
struct tap {
    int32_t r, s, distance;
};

template <int SIGN> LS_INLINE tap tap_at(const ls_cuda_patches &p, uint32_t column)
{
    const uint32_t number = divide(column, p.by_tap), r = divide(number, p.by_tap_row);
    tap t;
    t.r = SIGN * (int32_t)r;
    t.s = SIGN * (int32_t)(number - r * p.by_tap_row.divisor);
    t.distance = (t.r * (int32_t)p.width + t.s) * (int32_t)p.channels
                 + (int32_t)(column - number * p.by_tap.divisor);
    return t;
}

/* The address of an element, or NULL where it is the zero around the source. */
LS_INLINE const float *patch_at(const ls_cuda_patches &p, const corner &c, const tap &t)
{
    const bool inside = (uint32_t)(c.h + t.r) < p.height && (uint32_t)(c.w + t.s) < p.width;
    return inside ? c.at + t.distance : NULL;
}

#endif
