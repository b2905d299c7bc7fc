/* SPDX-License-Identifier: MIT */
/* activation.cu -- relu and its gradient, four elements a thread, and dropout, a quad a thread.
 *
 * In place is right: a thread reads its elements before it writes them, and nobody else's.
 */
#include "kernels/cuda/device.cuh"
#include "philox.h"

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_relu(const __grid_constant__ ls_cuda_relu p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    float4 q = load_quad(p.x, i, p.count, p.vector);
    q.x = relu_of(q.x), q.y = relu_of(q.y), q.z = relu_of(q.z), q.w = relu_of(q.w);
    store_quad(p.to, i, p.count, p.vector, q);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_relu_gradient(const __grid_constant__ ls_cuda_relu p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    const float4 y = load_quad(p.y, i, p.count, p.vector);
    float4 q = load_quad(p.x, i, p.count, p.vector);
    q.x = y.x > 0.0f ? q.x : 0.0f;
    q.y = y.y > 0.0f ? q.y : 0.0f;
    q.z = y.z > 0.0f ? q.z : 0.0f;
    q.w = y.w > 0.0f ? q.w : 0.0f;
    store_quad(p.to, i, p.count, p.vector, q);
}

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
