/* SPDX-License-Identifier: MIT */
/* decode.cu -- bytes to numbers by a table per channel, four elements a thread.
 *
 * A thread moves four bytes in and four floats out. It divides once, for the channel of its first
 * element; the next three follow by counting. The tables (1 KiB a channel) stay in the cache.
 */
#include "kernels/cuda/device.cuh"

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_decode(const __grid_constant__ ls_cuda_decode p)
{
    const uint32_t i = (blockIdx.x * LS_CUDA_THREADS + threadIdx.x) * 4;
    if (i >= p.count) return;
    const bool whole = p.count - i >= 4;
    uint32_t bytes = 0;
    if (p.vector && whole) {
        bytes = *(const uint32_t *)(p.x + i);
    } else {
        for (uint32_t k = 0; k < 4; k++) {
            if (i + k < p.count) bytes |= (uint32_t)p.x[i + k] << (8 * k);
        }
    }
    uint32_t c = i - divide(i, p.by_channels) * p.by_channels.divisor;
    float y[4];
    for (int k = 0; k < 4; k++) {
        y[k] = p.table[c * 256 + (bytes >> (8 * k) & 255)];
        if (++c == p.by_channels.divisor) c = 0;
    }
    store_quad(p.y, i, p.count, p.vector, make_float4(y[0], y[1], y[2], y[3]));
}
