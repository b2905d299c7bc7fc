/* SPDX-License-Identifier: MIT */
/* loss.cu -- softmax cross-entropy and squared error, a warp per row.
 *
 * The formulas are those of reference/loss.c. Lane l of the warp is lanes l and l + 32 of the
 * row's flat sums (docs/numerics.md 1.3); their last additions are shuffles, and lane 0 keeps the
 * tree over blocks of 4096 elements. Exponentials are computed twice, once for the sum and once
 * for the results, which is cheaper than a place to keep them.
 */
#include "kernels/cuda/device.cuh"

enum { WARPS = LS_CUDA_ROW_THREADS / WARP };

/* -- flat sums of a warp ---------------------------------------------------------------------- */

LS_INLINE void tree_open(ls_tree_f32 &tree)
{
    if (threadIdx.x % WARP == 0) tree.depth = 0, tree.leaves = 0;
}

/* All lanes, with the chains of flat lanes l and l + 32 over one block. */
LS_INLINE void tree_push(ls_tree_f32 &tree, float low, float high)
{
    const float block = flat_lanes(low + high);
    if (threadIdx.x % WARP == 0) ls_tree_push_f32(&tree, block);
}

/* The sum of all blocks, in every lane. */
LS_INLINE float tree_root(const ls_tree_f32 &tree)
{
    float sum = 0.0f;
    if (threadIdx.x % WARP == 0) sum = ls_tree_root_f32(&tree);
    return __shfl_sync(ALL_LANES, sum, 0);
}

/* -- softmax ---------------------------------------------------------------------------------- */

/* A class and its score; class NOBODY: none. */
enum { NOBODY = 0x7fffffff };
struct best {
    float score;
    int32_t at;
};

/* Which of two the scan over all classes keeps: a NaN before a number, the last NaN of several;
 * else the larger, the first of equals. */
LS_INLINE best better(best a, best b)
{
    if (b.at == NOBODY) return a;
    if (a.at == NOBODY) return b;
    const bool a_nan = a.score != a.score, b_nan = b.score != b.score;
    const bool b_wins = a_nan || b_nan ? b_nan && (!a_nan || b.at > a.at)
                                       : b.score > a.score || (b.score == a.score && b.at < a.at);
    return b_wins ? b : a;
}

LS_INLINE best row_best(const float *x, int32_t classes)
{
    best mine = {0.0f, NOBODY};
    for (int32_t i = threadIdx.x % WARP; i < classes; i += WARP) {
        const best next = {x[i], i};
        mine = better(mine, next);
    }
    for (int half = WARP / 2; half > 0; half /= 2) {
        best other;
        other.score = __shfl_xor_sync(ALL_LANES, mine.score, half);
        other.at = __shfl_xor_sync(ALL_LANES, mine.at, half);
        mine = better(mine, other);
    }
    return mine;
}

/* Flat sum of exp(x - m). */
LS_INLINE float exponential_sum(ls_tree_f32 &tree, const float *x, float m, int32_t classes)
{
    tree_open(tree);
    for (int32_t block = 0; block < classes; block += LS_FLAT_BLOCK) {
        const int32_t end = classes - block < LS_FLAT_BLOCK ? classes : block + LS_FLAT_BLOCK;
        float low = 0.0f, high = 0.0f;
        for (int32_t i = block + threadIdx.x % WARP; i < end; i += LS_FLAT_LANES) {
            low = ls_fmaf(ls_expf(x[i] - m), 1.0f, low);
            if (i + WARP < end) high = ls_fmaf(ls_expf(x[i + WARP] - m), 1.0f, high);
        }
        tree_push(tree, low, high);
    }
    return tree_root(tree);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_ROW_THREADS)
    ls_softmax_loss(const __grid_constant__ ls_cuda_softmax_loss p)
{
    __shared__ ls_tree_f32 tree[WARPS];
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= p.samples) return;
    const int32_t classes = (int32_t)p.classes;
    const size_t begin = row * p.classes;
    const float *x = p.logits + begin;
    const best top = row_best(x, classes);
    const float m = top.score;
    const float s = exponential_sum(tree[threadIdx.x / WARP], x, m, classes);
    const float w = p.weight ? p.weight[row] : 1.0f;
    const int32_t label = p.label ? p.label[row] : NOBODY;
    for (int32_t i = threadIdx.x % WARP; i < classes; i += WARP) {
        const float probability = ls_expf(x[i] - m) / s;
        if (p.probability) p.probability[begin + i] = probability;
        if (p.dlogits) p.dlogits[begin + i] = w * (probability - (i == label ? 1.0f : 0.0f));
    }
    if (threadIdx.x % WARP > 0) return;
    if (p.loss) p.loss[row] = ls_logf(s) - (x[label] - m);
    if (p.correct) p.correct[row] = top.at == label;
}

/* -- squared error ---------------------------------------------------------------------------- */

/* The two chains of a lane over one block. */
struct two_sums {
    float square, absolute;
};

LS_INLINE void add_difference(two_sums &sums, float d)
{
    sums.square = ls_fmaf(d, d, sums.square);
    sums.absolute = ls_fmaf(d < 0.0f ? -d : d, 1.0f, sums.absolute);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_ROW_THREADS)
    ls_squared_loss(const __grid_constant__ ls_cuda_squared_loss p)
{
    __shared__ ls_tree_f32 square[WARPS], absolute[WARPS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= p.samples) return;
    const size_t end = (row + 1) * p.outputs;
    const float C = (float)p.outputs;
    const float factor = (p.weight ? p.weight[row] : 1.0f) * (2.0f / C);
    tree_open(square[warp]), tree_open(absolute[warp]);
    for (size_t block = row * p.outputs; block < end; block += LS_FLAT_BLOCK) {
        const size_t last = end - block < LS_FLAT_BLOCK ? end : block + LS_FLAT_BLOCK;
        two_sums half[2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
        for (size_t first = block + lane; first < last; first += LS_FLAT_LANES) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const size_t i = first + h * WARP;
                if (i >= last) continue;
                const float d = p.prediction[i] - p.target[i];
                add_difference(half[h], d);
                if (p.dprediction) p.dprediction[i] = factor * d;
            }
        }
        tree_push(square[warp], half[0].square, half[1].square);
        tree_push(absolute[warp], half[0].absolute, half[1].absolute);
    }
    const float squares = tree_root(square[warp]), absolutes = tree_root(absolute[warp]);
    if (lane == 0 && p.loss) p.loss[row] = squares / C;
    if (lane == 0 && p.absolute_error) p.absolute_error[row] = absolutes / C;
}
