/* SPDX-License-Identifier: MIT */
/* format16.cu -- storage in 16 bits and back, four elements a thread. */
#include "kernels/cuda/device.cuh"
#include "format16.h"

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_narrow(const __grid_constant__ ls_cuda_format16 p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    const float4 q = load_quad(p.wide, i, p.count, p.vector);
    const float x[4] = { q.x, q.y, q.z, q.w };
    uint16_t h[4];
    for (int k = 0; k < 4; k++) h[k] = p.is_bf16 ? ls_bf16_of_float(x[k]) : ls_f16_of_float(x[k]);
    if (p.vector && i + 3 < p.count) {
        *(uint2 *)(p.narrow + i) = make_uint2(h[0] | (uint32_t)h[1] << 16,
                                              h[2] | (uint32_t)h[3] << 16);
        return;
    }
    for (int k = 0; k < 4; k++) {
        if (i + k < p.count) p.narrow[i + k] = h[k];
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_widen(const __grid_constant__ ls_cuda_format16 p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    uint16_t h[4] = { 0, 0, 0, 0 };
    if (p.vector && i + 3 < p.count) {
        const uint2 pair = *(const uint2 *)(p.narrow + i);
        h[0] = (uint16_t)pair.x, h[1] = (uint16_t)(pair.x >> 16);
        h[2] = (uint16_t)pair.y, h[3] = (uint16_t)(pair.y >> 16);
    } else {
        for (int k = 0; k < 4; k++) {
            if (i + k < p.count) h[k] = p.narrow[i + k];
        }
    }
    float y[4];
    for (int k = 0; k < 4; k++) y[k] = p.is_bf16 ? ls_float_of_bf16(h[k]) : ls_float_of_f16(h[k]);
    store_quad(p.wide, i, p.count, p.vector, make_float4(y[0], y[1], y[2], y[3]));
}
