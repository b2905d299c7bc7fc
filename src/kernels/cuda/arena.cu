/* SPDX-License-Identifier: MIT */
/* arena.cu -- finishing the gradient, the update, norms of the weights: one pass over all tensors.
 *
 *     tensor 0        tensor 1                 tensors, one after the other in the arena
 *     [b][b][b][b]    [b][b][b][b][b][b]       blocks of 4096 elements, of the tensor's flat sum
 *     [    group  ]   [    group  ][group]     2^log2 blocks: a block of threads each
 *
 * For each block of its group, a block of threads first changes the elements, a quad at a time, and
 * leaves in shared memory what the norm is made of; then 64 of its threads chain these, a lane
 * each, in double. Groups are nodes of the tensor's tree; a second, small kernel (ls_arena_fold)
 * adds them, a block per tensor. Digests (modulo 2^64) and the smallest index of an element
 * that is not finite need no order and take the same way.
 */
#include "kernels/cuda/flat.cuh"

/* What a block of threads works on. */
struct group {
    ls_arena_tensor tensor;
    uint32_t place;    /* of the tensor among those of the launch */
    size_t begin, end; /* elements, counted from the tensor's start */
};

LS_INLINE group group_at(const ls_cuda_arena &a, uint32_t number)
{
    uint32_t low = 0, high = a.count; /* the tensor is in [low, high) */
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (a.first[middle] <= number) low = middle;
        else high = middle;
    }
    group g;
    const size_t elements = (size_t)LS_FLAT_BLOCK << a.log2;
    g.tensor = a.tensor[low];
    g.place = low;
    g.begin = (number - a.first[low]) * elements;
    g.end = g.tensor.count - g.begin < elements ? g.tensor.count : g.begin + elements;
    return g;
}

/* The end of the flat sum's block that begins at `block`. */
LS_INLINE size_t block_end(const group &g, size_t block)
{
    return g.end - block < LS_FLAT_BLOCK ? g.end : block + LS_FLAT_BLOCK;
}

LS_INLINE double square_of(float x) { return (double)x * (double)x; }

/* What one block of a flat sum is made of: a float per element, in shared memory. */
struct block_terms {
    float4 quad[LS_FLAT_BLOCK / 4];
};

/* The chain of lane threadIdx.x over the squares of `count` terms; +0 in threads without a lane. */
LS_INLINE double lane_squares(const block_terms &terms, uint32_t count)
{
    const float *term = &terms.quad[0].x;
    double sum = 0.0;
    if (threadIdx.x >= LS_FLAT_LANES) return sum;
    for (uint32_t i = threadIdx.x; i < count; i += LS_FLAT_LANES) sum += square_of(term[i]);
    return sum;
}

LS_INLINE double lane_absolutes(const block_terms &terms, uint32_t count)
{
    const float *term = &terms.quad[0].x;
    double sum = 0.0;
    if (threadIdx.x >= LS_FLAT_LANES) return sum;
    for (uint32_t i = threadIdx.x; i < count; i += LS_FLAT_LANES) {
        sum += (double)(term[i] < 0.0f ? -term[i] : term[i]);
    }
    return sum;
}

/* Combine the threads' words, in thread 0; all threads call. */
LS_INLINE uint64_t block_words(uint64_t v, bool smallest)
{
    __shared__ uint64_t part[LS_CUDA_THREADS / WARP];
    v = smallest ? warp_smallest(v) : warp_sum(v);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < LS_CUDA_THREADS / WARP; i++) {
        v = smallest ? smaller(v, part[i]) : v + part[i];
    }
    return v;
}

/* -- the gradient, divided and regularised ---------------------------------------------------- */

LS_INLINE float sign_of(float w) { return w > 0.0f ? 1.0f : w < 0.0f ? -1.0f : 0.0f; }

LS_INLINE float finished(const ls_arena_tensor &t, float scale, float g, float w)
{
    g = g * scale;
    if (t.l2_twice != 0.0f) g = ls_fmaf(t.l2_twice, w, g);
    if (t.l1 != 0.0f) g = g + t.l1 * sign_of(w);
    return g;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_gradient_finish(const __grid_constant__ ls_cuda_gradient_finish p)
{
    __shared__ block_terms terms;
    __shared__ flat_sum sum;
    const group at = group_at(p.arena, blockIdx.x);
    const float *w = p.w + at.tensor.begin;
    float *g = p.g + at.tensor.begin;
    const bool regularised = at.tensor.l2_twice != 0.0f || at.tensor.l1 != 0.0f;
    uint64_t first = LS_ALL_FINITE;
    flat_open(sum);
    for (size_t block = at.begin; block < at.end; block += LS_FLAT_BLOCK) {
        const size_t end = block_end(at, block);
        for (size_t i = block + threadIdx.x * 4; i < end; i += LS_CUDA_THREADS * 4) {
            float4 q = load_quad(g, i, end, p.arena.vector), v = q;
            if (regularised) v = load_quad(w, i, end, p.arena.vector);
            if (!ls_is_finite(q.w)) first = smaller(first, i + 3);
            if (!ls_is_finite(q.z)) first = smaller(first, i + 2);
            if (!ls_is_finite(q.y)) first = smaller(first, i + 1);
            if (!ls_is_finite(q.x)) first = smaller(first, i);
            q.x = finished(at.tensor, p.scale, q.x, v.x);
            q.y = finished(at.tensor, p.scale, q.y, v.y);
            q.z = finished(at.tensor, p.scale, q.z, v.z);
            q.w = finished(at.tensor, p.scale, q.w, v.w);
            store_quad(g, i, end, p.arena.vector, q);
            terms.quad[(i - block) / 4] = q;
        }
        __syncthreads();
        flat_push(sum, lane_squares(terms, (uint32_t)(end - block)));
    }
    first = block_words(first, true);
    if (threadIdx.x > 0) return;
    p.square[blockIdx.x] = ls_tree_root_f64(&sum.blocks);
    p.first[blockIdx.x] = first;
}

/* -- norms of the weights --------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_weight_sums(const __grid_constant__ ls_cuda_weight_sums p)
{
    __shared__ block_terms terms;
    __shared__ flat_sum squares, absolutes;
    const group at = group_at(p.arena, blockIdx.x);
    const float *w = p.w + at.tensor.begin;
    flat_open(squares), flat_open(absolutes);
    for (size_t block = at.begin; block < at.end; block += LS_FLAT_BLOCK) {
        const size_t end = block_end(at, block);
        for (size_t i = block + threadIdx.x * 4; i < end; i += LS_CUDA_THREADS * 4) {
            terms.quad[(i - block) / 4] = load_quad(w, i, end, p.arena.vector);
        }
        __syncthreads();
        flat_push(squares, lane_squares(terms, (uint32_t)(end - block)));
        flat_push(absolutes, lane_absolutes(terms, (uint32_t)(end - block)));
    }
    if (threadIdx.x > 0) return;
    p.square[blockIdx.x] = ls_tree_root_f64(&squares.blocks);
    p.absolute[blockIdx.x] = ls_tree_root_f64(&absolutes.blocks);
}

/* -- the update ------------------------------------------------------------------------------- */

LS_INLINE float clipped(const ls_cuda_update &p, const ls_tensor_step &step, float g)
{
    g = g * step.clip;
    if (p.clip_value == 0.0f) return g;
    return g > p.clip_value ? p.clip_value : g < -p.clip_value ? -p.clip_value : g;
}

/* The new weight, from the decayed one; the slots become the new ones, flushed. */
LS_INLINE float optimized(const ls_cuda_update &p, float rate, float g, float w, float &slot0,
                          float &slot1)
{
    if (p.optimizer == LS_OPTIMIZER_SGD) return ls_fmaf(-rate, g, w);
    if (p.optimizer == LS_OPTIMIZER_MOMENTUM || p.optimizer == LS_OPTIMIZER_NESTEROV) {
        const float u = ls_fmaf(p.momentum, slot0, -(rate * g));
        slot0 = ls_slot_flush(u);
        if (p.optimizer == LS_OPTIMIZER_MOMENTUM) return w + u;
        return w + ls_fmaf(p.momentum, u, -(rate * g));
    }
    if (p.optimizer == LS_OPTIMIZER_RMSPROP) {
        const float v = ls_fmaf(p.one_minus_rho, ls_fmaf(g, g, -slot0), slot0);
        slot0 = ls_slot_flush(v);
        return ls_fmaf(-rate, g / __fsqrt_rn(v + p.epsilon), w);
    }
    const float m = ls_fmaf(p.one_minus_beta1, g - slot0, slot0);
    const float v = ls_fmaf(p.one_minus_beta2, ls_fmaf(g, g, -slot1), slot1);
    slot0 = ls_slot_flush(m);
    slot1 = ls_slot_flush(v);
    return ls_fmaf(-rate, m / (__fsqrt_rn(v) + p.epsilon), w);
}

LS_INLINE float updated(const ls_cuda_update &p, const ls_tensor_step &step, float g, float w,
                        float &slot0, float &slot1, float &average)
{
    if (step.decay != 0.0f) w = ls_fmaf(-step.decay, w, w);
    w = optimized(p, step.rate, clipped(p, step, g), w, slot0, slot1);
    average = ls_fmaf(p.one_minus_ema, w - average, average);
    return w;
}

/* Elements i .. i+3 of the tensor that begins at `begin`. Returns the new weights. */
LS_INLINE float4 update_quad(const ls_cuda_update &p, const ls_tensor_step &step, size_t begin,
                             size_t i, size_t end, float4 w)
{
    const bool vector = p.arena.vector;
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 g = load_quad(p.g + begin, i, end, vector);
    float4 a = p.slot0 ? load_quad(p.slot0 + begin, i, end, vector) : zero;
    float4 b = p.slot1 ? load_quad(p.slot1 + begin, i, end, vector) : zero;
    float4 c = p.average ? load_quad(p.average + begin, i, end, vector) : zero;
    w.x = updated(p, step, g.x, w.x, a.x, b.x, c.x);
    w.y = updated(p, step, g.y, w.y, a.y, b.y, c.y);
    w.z = updated(p, step, g.z, w.z, a.z, b.z, c.z);
    w.w = updated(p, step, g.w, w.w, a.w, b.w, c.w);
    store_quad(p.w + begin, i, end, vector, w);
    if (p.slot0) store_quad(p.slot0 + begin, i, end, vector, a);
    if (p.slot1) store_quad(p.slot1 + begin, i, end, vector, b);
    if (p.average) store_quad(p.average + begin, i, end, vector, c);
    return w;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_update(const __grid_constant__ ls_cuda_update p)
{
    __shared__ block_terms terms;
    __shared__ flat_sum sum;
    const group at = group_at(p.arena, blockIdx.x);
    const size_t begin = at.tensor.begin;
    const ls_tensor_step step = p.step[at.place];
    uint64_t digest = 0;
    flat_open(sum);
    for (size_t block = at.begin; block < at.end; block += LS_FLAT_BLOCK) {
        const size_t end = block_end(at, block);
        for (size_t i = block + threadIdx.x * 4; i < end; i += LS_CUDA_THREADS * 4) {
            const float4 old = load_quad(p.w + begin, i, end, p.arena.vector);
            float4 w = old, change = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (!step.frozen) {
                w = update_quad(p, step, begin, i, end, old);
                change = make_float4(w.x - old.x, w.y - old.y, w.z - old.z, w.w - old.w);
            }
            terms.quad[(i - block) / 4] = change;
            if (i + 1 >= end) w.y = 0.0f; /* beyond the end: nothing to a digest */
            if (i + 2 >= end) w.z = 0.0f;
            if (i + 3 >= end) w.w = 0.0f;
            digest += quad_digest(begin + i, w);
        }
        __syncthreads();
        flat_push(sum, lane_squares(terms, (uint32_t)(end - block)));
    }
    digest = block_words(digest, false);
    if (threadIdx.x > 0) return;
    p.square[blockIdx.x] = ls_tree_root_f64(&sum.blocks);
    p.digest[blockIdx.x] = digest;
}

/* -- groups to tensors ------------------------------------------------------------------------ */

/* The tree over count sums, in place: after the pass with `step`, every 2 * step-th entry is the
 * node over as many leaves from there on. All threads call; the root is value[0]. */
LS_INLINE void tree_in_place(double *value, uint32_t count)
{
    for (uint32_t step = 1; step < count; step *= 2) {
        __syncthreads();
        const uint32_t pair = 2 * step;
        for (uint32_t i = threadIdx.x * pair; i + step < count; i += LS_CUDA_THREADS * pair) {
            value[i] += value[i + step];
        }
    }
    __syncthreads();
}

LS_INLINE void fold_sums(const double *sum, double *out, uint32_t count)
{
    __shared__ double value[LS_CUDA_TENSOR_GROUPS];
    __syncthreads(); /* the other sum may still be read */
    if (threadIdx.x == 0) value[0] = 0.0; /* the root of a tree without leaves */
    for (uint32_t i = threadIdx.x; i < count; i += LS_CUDA_THREADS) value[i] = sum[i];
    tree_in_place(value, count);
    if (threadIdx.x == 0) *out = value[0];
}

/* Words of groups begin .. end-1, combined in thread 0. */
LS_INLINE uint64_t fold_words(const uint64_t *word, uint32_t begin, uint32_t end, bool smallest)
{
    uint64_t all = smallest ? LS_ALL_FINITE : 0;
    for (uint32_t i = begin + threadIdx.x; i < end; i += LS_CUDA_THREADS) {
        all = smallest ? smaller(all, word[i]) : all + word[i];
    }
    return block_words(all, smallest);
}

/* A block per tensor, and one more for the digest. */
extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_arena_fold(const __grid_constant__ ls_cuda_arena_fold p)
{
    const uint32_t t = blockIdx.x;
    if (t == p.arena.count) {
        const uint64_t digest = fold_words(p.digest, 0, p.arena.first[t], false);
        if (threadIdx.x == 0) {
            *p.digest_out = (p.digest_continues ? *p.digest_out : LS_DIGEST_START) + digest;
        }
        return;
    }
    const uint32_t begin = p.arena.first[t], end = p.arena.first[t + 1];
    for (int k = 0; k < 2; k++) {
        if (p.sum_out[k]) fold_sums(p.sum[k] + begin, p.sum_out[k] + t, end - begin);
    }
    if (p.first_out) {
        const uint64_t first = fold_words(p.first, begin, end, true);
        if (threadIdx.x == 0) p.first_out[t] = first;
    }
}
