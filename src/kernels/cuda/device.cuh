/* SPDX-License-Identifier: MIT */
/* device.cuh -- what all device code shares: the arithmetic of numerics.h, quads of floats, warps.
 *
 * Include this first: it says how functions of the shared headers are declared on a device.
 * Nothing is declared __restrict__: such pointers are read through a cache that does not see what
 * other devices write.
 */
#ifndef LS_KERNELS_CUDA_DEVICE_CUH
#define LS_KERNELS_CUDA_DEVICE_CUH

#define LS_INLINE static __device__ __forceinline__
#define LS_FMAF __fmaf_rn

#include "kernels/cuda/params.h"

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

LS_INLINE uint32_t divide(uint32_t n, ls_cuda_divisor by)
{
    return (uint32_t)(((uint64_t)n * by.multiplier) >> by.shift);
}

/* relu as docs/numerics.md 1.6 has it. */
LS_INLINE float relu_of(float x) { return x <= 0.0f ? 0.0f : x; }

/* Elements i .. i+3 of p[count], +0 beyond its end. `vector`: p is 16-byte aligned, i is a multiple
 * of 4. */
LS_INLINE float4 load_quad(const float *p, size_t i, size_t count, bool vector)
{
    if (vector && i + 3 < count) return *(const float4 *)(p + i);
    float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i < count) q.x = p[i];
    if (i + 1 < count) q.y = p[i + 1];
    if (i + 2 < count) q.z = p[i + 2];
    if (i + 3 < count) q.w = p[i + 3];
    return q;
}

LS_INLINE void store_quad(float *p, size_t i, size_t count, bool vector, float4 q)
{
    if (vector && i + 3 < count) {
        *(float4 *)(p + i) = q;
        return;
    }
    if (i < count) p[i] = q.x;
    if (i + 1 < count) p[i + 1] = q.y;
    if (i + 2 < count) p[i + 2] = q.z;
    if (i + 3 < count) p[i + 3] = q.w;
}

/* What elements i .. i+3 add to a digest; elements that are +0 add nothing. */
LS_INLINE uint64_t quad_digest(size_t i, float4 q)
{
    return ls_digest_term(i, q.x) + ls_digest_term(i + 1, q.y) + ls_digest_term(i + 2, q.z)
           + ls_digest_term(i + 3, q.w);
}

/* The index of this thread among all of a one-dimensional grid. */
LS_INLINE size_t thread_index(void) { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

/* Sum of all lanes modulo 2^64, in lane 0. */
LS_INLINE uint64_t warp_sum(uint64_t v)
{
    for (int half = WARP / 2; half > 0; half /= 2) v += __shfl_down_sync(ALL_LANES, v, half);
    return v;
}

LS_INLINE uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

LS_INLINE uint64_t warp_smallest(uint64_t v)
{
    for (int half = WARP / 2; half > 0; half /= 2) {
        v = smaller(v, __shfl_down_sync(ALL_LANES, v, half));
    }
    return v;
}

/* The last additions of a flat sum's block. Lane l comes with its flat lanes l and l + 32
 * added; the block's sum is in lane 0. */
LS_INLINE float flat_lanes(float v)
{
    for (int half = WARP / 2; half > 0; half /= 2) v += __shfl_down_sync(ALL_LANES, v, half);
    return v + 0.0f;
}

LS_INLINE double flat_lanes(double v)
{
    for (int half = WARP / 2; half > 0; half /= 2) v += __shfl_down_sync(ALL_LANES, v, half);
    return v + 0.0;
}

#endif
