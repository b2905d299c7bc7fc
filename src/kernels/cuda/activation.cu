/* SPDX-License-Identifier: MIT */
/* activation.cu -- the activations and their gradients, four elements a thread.
 *
 * The kind is one for a whole launch, so no warp is divided by it. In place is right: a thread
 * reads its elements before it writes them, and nobody else's.
 */
#include "kernels/cuda/device.cuh"

#include "kernels/activation.h"

/* All four of one kind: a switch for the four, not one for each. */
template <ls_activation kind> LS_INLINE float4 activated(float slope, float4 q)
{
    q.x = ls_activation_of(kind, slope, q.x), q.y = ls_activation_of(kind, slope, q.y);
    q.z = ls_activation_of(kind, slope, q.z), q.w = ls_activation_of(kind, slope, q.w);
    return q;
}

template <ls_activation kind> LS_INLINE float4 derived(float slope, float4 v, float4 dy)
{
    dy.x = ls_activation_gradient_of(kind, slope, v.x, dy.x);
    dy.y = ls_activation_gradient_of(kind, slope, v.y, dy.y);
    dy.z = ls_activation_gradient_of(kind, slope, v.z, dy.z);
    dy.w = ls_activation_gradient_of(kind, slope, v.w, dy.w);
    return dy;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_activate(const __grid_constant__ ls_cuda_activate p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    float4 q = load_quad(p.v, i, p.count, p.vector);
    switch (p.kind) {
    case LS_ACTIVATION_RELU: q = activated<LS_ACTIVATION_RELU>(p.slope, q); break;
    case LS_ACTIVATION_LEAKY_RELU: q = activated<LS_ACTIVATION_LEAKY_RELU>(p.slope, q); break;
    case LS_ACTIVATION_SIGMOID: q = activated<LS_ACTIVATION_SIGMOID>(p.slope, q); break;
    case LS_ACTIVATION_TANH: q = activated<LS_ACTIVATION_TANH>(p.slope, q); break;
    case LS_ACTIVATION_GELU: q = activated<LS_ACTIVATION_GELU>(p.slope, q); break;
    case LS_ACTIVATION_SILU: q = activated<LS_ACTIVATION_SILU>(p.slope, q); break;
    }
    store_quad(p.to, i, p.count, p.vector, q);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_activate_gradient(const __grid_constant__ ls_cuda_activate p)
{
    const size_t i = thread_index() * 4;
    if (i >= p.count) return;
    const float4 v = load_quad(p.v, i, p.count, p.vector);
    float4 q = load_quad(p.dy, i, p.count, p.vector);
    switch (p.kind) {
    case LS_ACTIVATION_RELU: q = derived<LS_ACTIVATION_RELU>(p.slope, v, q); break;
    case LS_ACTIVATION_LEAKY_RELU: q = derived<LS_ACTIVATION_LEAKY_RELU>(p.slope, v, q); break;
    case LS_ACTIVATION_SIGMOID: q = derived<LS_ACTIVATION_SIGMOID>(p.slope, v, q); break;
    case LS_ACTIVATION_TANH: q = derived<LS_ACTIVATION_TANH>(p.slope, v, q); break;
    case LS_ACTIVATION_GELU: q = derived<LS_ACTIVATION_GELU>(p.slope, v, q); break;
    case LS_ACTIVATION_SILU: q = derived<LS_ACTIVATION_SILU>(p.slope, v, q); break;
    }
    store_quad(p.to, i, p.count, p.vector, q);
}
