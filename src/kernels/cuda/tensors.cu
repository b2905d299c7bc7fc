/* SPDX-License-Identifier: MIT */
/* tensors.cu -- sums and products of tensors, runs of columns, borders of zeros: memory's speed.
 *
 * A thread has a unit of the result: four floats where addresses and lengths allow, else one, or
 * for sums and products the last few. These may be in place, as in activation.cu.
 */
#include "kernels/cuda/device.cuh"

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_add(const __grid_constant__ ls_cuda_pair p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    const float4 a = load_quad(p.a, i, p.count, p.vector);
    const float4 b = load_quad(p.b, i, p.count, p.vector);
    float4 q = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    if (p.relu) q = make_float4(relu_of(q.x), relu_of(q.y), relu_of(q.z), relu_of(q.w));
    store_quad(p.y, i, p.count, p.vector, q);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_multiply(const __grid_constant__ ls_cuda_pair p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    const float4 a = load_quad(p.a, i, p.count, p.vector);
    const float4 b = load_quad(p.b, i, p.count, p.vector);
    store_quad(p.y, i, p.count, p.vector,
               make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w));
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_copy_columns(const __grid_constant__ ls_cuda_copy_columns p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const uint32_t row = divide(e, p.by_columns);
    const size_t column = e - row * p.by_columns.divisor;
    const size_t from = row * p.from_stride + column, to = row * p.to_stride + column;
    if (p.vector) {
        ((float4 *)p.to)[to] = ((const float4 *)p.from)[from];
    } else {
        p.to[to] = p.from[from];
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_pad(const __grid_constant__ ls_cuda_pad p)
{
    const uint32_t e = (uint32_t)thread_index();
    if (e >= p.count) return;
    const uint32_t channels = p.by_channels.divisor;
    const uint32_t column = divide(e, p.by_channels), row = divide(column, p.by_width);
    const uint32_t sample = divide(row, p.by_height);
    /* Above and left of x the subtraction wraps: beyond any extent as well. */
    const uint32_t h = row - sample * p.by_height.divisor - (uint32_t)p.top;
    const uint32_t w = column - row * p.by_width.divisor - (uint32_t)p.left;
    const bool inside = h < p.height && w < p.width;
    const size_t from = ((size_t)(sample * p.height + h) * p.width + w) * channels
                        + (e - column * channels);
    if (p.vector) {
        const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        ((float4 *)p.y)[e] = inside ? ((const float4 *)p.x)[from] : zero;
    } else {
        p.y[e] = inside ? p.x[from] : 0.0f;
    }
}
