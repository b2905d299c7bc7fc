/* SPDX-License-Identifier: MIT */
/* shard_sums.cu -- what each shard adds to a step's loss, metrics and counts.
 *
 * A block per shard, a thread per lane of its flat sums (docs/numerics.md 1.3, 2.4), in double.
 */
#include "kernels/cuda/flat.cuh"

/* Sum over the block's threads, in thread 0. *upper: shared memory for this call alone. */
LS_INLINE int64_t block_count(int64_t v, int64_t *upper)
{
    v = (int64_t)warp_sum((uint64_t)v);
    if (threadIdx.x == WARP) *upper = v;
    __syncthreads();
    return v + *upper;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_FLAT_THREADS)
    ls_shard_sums(const __grid_constant__ ls_cuda_shard_sums p)
{
    __shared__ flat_sum loss, weight, error, square;
    __shared__ int64_t upper[2];
    const size_t begin = p.fold.sample[blockIdx.x], end = p.fold.sample[blockIdx.x + 1];
    int64_t correct = 0, top = 0;
    flat_open(loss), flat_open(weight), flat_open(error), flat_open(square);
    for (size_t block = begin; block < end; block += LS_FLAT_BLOCK) {
        const size_t last = end - block < LS_FLAT_BLOCK ? end : block + LS_FLAT_BLOCK;
        double l = 0.0, w = 0.0, e = 0.0, q = 0.0;
        for (size_t i = block + threadIdx.x; i < last; i += LS_FLAT_LANES) {
            const double factor = p.weight ? (double)p.weight[i] : 1.0;
            w += factor;
            l += factor * (double)p.loss[i];
            if (p.absolute_error) e += (double)p.absolute_error[i];
            if (p.squared_error) q += (double)p.squared_error[i];
            if (p.place) correct += p.place[i] == 0, top += p.place[i] < p.top_k;
        }
        flat_push(loss, l), flat_push(weight, w);
        flat_push(error, e), flat_push(square, q);
    }
    const int64_t all_correct = block_count(correct, &upper[0]);
    const int64_t all_top = block_count(top, &upper[1]);
    if (threadIdx.x > 0) return;
    ls_shard_sum *out = &p.out[p.fold.shard[blockIdx.x]];
    out->loss = ls_tree_root_f64(&loss.blocks);
    out->weight = ls_tree_root_f64(&weight.blocks);
    out->error = ls_tree_root_f64(&error.blocks);
    out->square = ls_tree_root_f64(&square.blocks);
    out->samples = (int64_t)(end - begin);
    out->correct = all_correct;
    out->top = all_top;
}
