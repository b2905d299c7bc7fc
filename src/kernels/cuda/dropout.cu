/* SPDX-License-Identifier: MIT */
/* dropout.cu -- dropout, the four elements of one draw a thread; and of whole channels.
 *
 * In place is right, as in activation.cu.
 */
#include "kernels/cuda/device.cuh"
#include "philox.h"

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_dropout(const __grid_constant__ ls_cuda_dropout p)
{
    const uint32_t quad = blockIdx.x * LS_CUDA_THREADS + threadIdx.x;
    if (quad >= p.quads) return;
    const size_t i = (size_t)quad * 4;
    for (uint32_t n = blockIdx.y; n < p.samples; n += gridDim.y) {
        uint32_t word[4];
        ls_random_words(p.seed, LS_RANDOM_DROPOUT, p.layer, p.epoch, p.index[n], quad, word);
        float4 q = load_quad(p.x + n * p.elements, i, p.elements, p.vector);
        q.x = word[0] >= p.threshold ? q.x * p.scale : 0.0f;
        q.y = word[1] >= p.threshold ? q.y * p.scale : 0.0f;
        q.z = word[2] >= p.threshold ? q.z * p.scale : 0.0f;
        q.w = word[3] >= p.threshold ? q.w * p.scale : 0.0f;
        store_quad(p.y + n * p.elements, i, p.elements, p.vector, q);
    }
}

/* Word i mod 4, without indexing registers. */
LS_INLINE uint32_t word_of(const uint32_t word[4], uint32_t i)
{
    const uint32_t low = i & 1 ? word[1] : word[0], high = i & 1 ? word[3] : word[2];
    return i & 2 ? high : low;
}

/* Four elements a thread, as above, but they may belong to channels of two draws or more. */
extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_dropout_channels(const __grid_constant__ ls_cuda_dropout p)
{
    const uint32_t quad = blockIdx.x * LS_CUDA_THREADS + threadIdx.x;
    if (quad >= p.quads) return;
    const uint32_t e = quad * 4;
    for (uint32_t n = blockIdx.y; n < p.samples; n += gridDim.y) {
        float4 q = load_quad(p.x + n * p.elements, e, p.elements, p.vector);
        float *const at[4] = { &q.x, &q.y, &q.z, &q.w };
        uint32_t channel = e - divide(e, p.by_channels) * p.by_channels.divisor;
        uint32_t word[4];
        ls_random_words(p.seed, LS_RANDOM_DROPOUT, p.layer, p.epoch, p.index[n], channel / 4,
                        word);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            *at[i] = word_of(word, channel) >= p.threshold ? *at[i] * p.scale : 0.0f;
            channel = channel + 1 < p.by_channels.divisor ? channel + 1 : 0;
            if (i < 3 && channel % 4 == 0) {
                ls_random_words(p.seed, LS_RANDOM_DROPOUT, p.layer, p.epoch, p.index[n],
                                channel / 4, word);
            }
        }
        store_quad(p.y + n * p.elements, e, p.elements, p.vector, q);
    }
}
