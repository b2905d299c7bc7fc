/* SPDX-License-Identifier: MIT */
/* whole.cu -- digest, finite test and merge of whole buffers.
 *
 * Digests are sums modulo 2^64 and the finite test is a minimum: no order matters, so each block
 * makes a partial of the elements it meets and ls_fold_words combines them. A grid is as large as
 * a GPU is wide, and its blocks stride through the buffer.
 *
 * Sources and outputs of a merge may be another device's memory: plain loads and stores, which the
 * events around the launch order.
 */
#include "kernels/cuda/device.cuh"

/* Combine a block's words, in thread 0; all threads call. `part` is shared, a word per warp. */
LS_INLINE uint64_t block_words(uint64_t v, uint64_t *part, bool smallest)
{
    v = smallest ? warp_smallest(v) : warp_sum(v);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    for (uint32_t i = 1; i < blockDim.x / WARP; i++) {
        if (threadIdx.x == 0) v = smallest ? smaller(v, part[i]) : v + part[i];
    }
    return v;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_digest(const __grid_constant__ ls_cuda_whole p)
{
    __shared__ uint64_t part[LS_CUDA_THREADS / WARP];
    const size_t step = (size_t)gridDim.x * LS_CUDA_THREADS * 4;
    uint64_t digest = 0;
    for (size_t i = thread_index() * 4; i < p.count; i += step) {
        digest += quad_digest(i, load_quad(p.x, i, p.count, p.vector));
    }
    digest = block_words(digest, part, false);
    if (threadIdx.x == 0) p.partial[blockIdx.x] = digest;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_nonfinite(const __grid_constant__ ls_cuda_whole p)
{
    __shared__ uint64_t part[LS_CUDA_THREADS / WARP];
    const size_t step = (size_t)gridDim.x * LS_CUDA_THREADS * 4;
    uint64_t first = LS_ALL_FINITE;
    for (size_t i = thread_index() * 4; i < p.count && first == LS_ALL_FINITE; i += step) {
        const float4 q = load_quad(p.x, i, p.count, p.vector);
        if (!ls_is_finite(q.w)) first = i + 3;
        if (!ls_is_finite(q.z)) first = i + 2;
        if (!ls_is_finite(q.y)) first = i + 1;
        if (!ls_is_finite(q.x)) first = i;
    }
    first = block_words(first, part, true);
    if (threadIdx.x == 0) p.partial[blockIdx.x] = first;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_fold_words(const __grid_constant__ ls_cuda_fold_words p)
{
    __shared__ uint64_t part[LS_CUDA_THREADS / WARP];
    const uint64_t *word = p.partial + (size_t)blockIdx.x * p.parts;
    uint64_t all = p.smallest ? LS_ALL_FINITE : 0;
    for (uint32_t i = threadIdx.x; i < p.parts; i += LS_CUDA_THREADS) {
        all = p.smallest ? smaller(all, word[i]) : all + word[i];
    }
    all = block_words(all, part, p.smallest);
    if (threadIdx.x == 0) p.out[blockIdx.x] = p.smallest ? all : LS_DIGEST_START + all;
}

/* -- merge ------------------------------------------------------------------------------------ */

LS_INLINE float4 add_quads(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* Digests of what the block met: a word per source, and one for the output, for each warp. */
template <int THREADS> struct merge_digests {
    uint64_t word[THREADS / WARP][LS_SHARD_MAX + 1];
};

/* All lanes: what the warp's elements add to digest `which`. */
template <int THREADS>
LS_INLINE void add_digest(merge_digests<THREADS> &d, int which, size_t i, float4 q)
{
    const uint64_t sum = warp_sum(quad_digest(i, q));
    if (threadIdx.x % WARP == 0) d.word[threadIdx.x / WARP][which] += sum;
}

/* The merge program for elements i .. i+3, run by whole warps. The stack's top is in registers,
 * what is below it in `below`, a column of shared memory for each thread. */
template <int THREADS>
LS_INLINE float4 merged(const ls_cuda_merge &p, size_t i, float4 (*below)[THREADS],
                        merge_digests<THREADS> &digests)
{
    float4 top = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 next = load_quad(p.source[0], i, p.count, p.vector);
    int depth = 0; /* entries below the top */
    for (int s = 0; s < p.source_count; s++) {
        const float4 q = next;
        if (s + 1 < p.source_count) next = load_quad(p.source[s + 1], i, p.count, p.vector);
        if (p.source_partial) add_digest(digests, s, i, q);
        if (s > 0) below[depth++][threadIdx.x] = top;
        top = q;
        for (int add = 0; add < p.adds[s]; add++) {
            top = add_quads(below[--depth][threadIdx.x], top);
        }
    }
    if (p.out_partial) add_digest(digests, LS_SHARD_MAX, i, top);
    return top;
}

template <int THREADS, int BELOW> LS_INLINE void merge(const ls_cuda_merge &p)
{
    __shared__ __align__(16) float4 below[BELOW][THREADS];
    __shared__ merge_digests<THREADS> digests;
    uint64_t *word = digests.word[threadIdx.x / WARP];
    for (int s = threadIdx.x % WARP; s <= LS_SHARD_MAX; s += WARP) word[s] = 0;
    __syncwarp();
    const size_t step = (size_t)gridDim.x * THREADS * 4;
    const size_t first = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    /* A warp goes on while its first element is there: its lanes shuffle. */
    for (size_t i = first; i - threadIdx.x % WARP * 4 < p.count; i += step) {
        const float4 sum = merged<THREADS>(p, i, below, digests);
        for (int o = 0; o < p.out_count; o++) store_quad(p.out[o], i, p.count, p.vector, sum);
    }
    __syncthreads();
    for (int s = threadIdx.x; s <= LS_SHARD_MAX; s += THREADS) {
        uint64_t all = 0;
        for (int w = 0; w < THREADS / WARP; w++) all += digests.word[w][s];
        if (s == LS_SHARD_MAX) {
            if (p.out_partial) p.out_partial[blockIdx.x] = all;
        } else if (s < p.source_count && p.source_partial) {
            p.source_partial[(size_t)s * gridDim.x + blockIdx.x] = all;
        }
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_MERGE_THREADS)
    ls_merge_shallow(const __grid_constant__ ls_cuda_merge p)
{
    merge<LS_CUDA_MERGE_THREADS, LS_CUDA_SHALLOW>(p);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_DEEP_THREADS)
    ls_merge_deep(const __grid_constant__ ls_cuda_merge p)
{
    merge<LS_CUDA_DEEP_THREADS, LS_CUDA_DEEP>(p);
}
