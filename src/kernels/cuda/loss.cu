/* SPDX-License-Identifier: MIT */
/* loss.cu -- softmax and sigmoid cross-entropy, squared and absolute error, a warp per row.
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

/* Classes that rank before the label, whose score is `own`, in lane 0; no score is a NaN. */
LS_INLINE int32_t row_place(const float *x, int32_t classes, int32_t label, float own)
{
    int32_t before = 0;
    for (int32_t i = threadIdx.x % WARP; i < classes; i += WARP) {
        before += x[i] > own || (x[i] == own && i < label);
    }
    return (int32_t)warp_sum((uint64_t)before);
}

/* Flat sum of x - m, or of exp(x - m). */
template <bool EXPONENTIAL>
LS_INLINE float distance_sum(ls_tree_f32 &tree, const float *x, float m, int32_t classes)
{
    tree_open(tree);
    for (int32_t block = 0; block < classes; block += LS_FLAT_BLOCK) {
        const int32_t end = classes - block < LS_FLAT_BLOCK ? classes : block + LS_FLAT_BLOCK;
        float low = 0.0f, high = 0.0f;
        for (int32_t i = block + threadIdx.x % WARP; i < end; i += LS_FLAT_LANES) {
            const float d = x[i] - m;
            low += EXPONENTIAL ? ls_expf(d) : d;
            if (i + WARP >= end) continue;
            const float d_high = x[i + WARP] - m;
            high += EXPONENTIAL ? ls_expf(d_high) : d_high;
        }
        tree_push(tree, low, high);
    }
    return tree_root(tree);
}

/* x_y - m, or with smoothing the mean of all x - m that the targets weigh. */
LS_INLINE float target_distance(const ls_cuda_softmax_loss &p, ls_tree_f32 &tree, const float *x,
                                float m, float hot)
{
    if (p.target_rest == 0.0f) return hot;
    const float sum = distance_sum<false>(tree, x, m, (int32_t)p.classes);
    return ls_fmaf(p.smooth_hot, hot, p.target_rest * sum);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_ROW_THREADS)
    ls_softmax_loss(const __grid_constant__ ls_cuda_softmax_loss p)
{
    __shared__ ls_tree_f32 trees[WARPS];
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= p.samples) return;
    ls_tree_f32 &tree = trees[threadIdx.x / WARP];
    const bool first = threadIdx.x % WARP == 0;
    const int32_t classes = (int32_t)p.classes;
    const size_t begin = row * p.classes;
    const float *x = p.logits + begin;
    const int32_t label = p.label ? p.label[row] : NOBODY;
    const best top = row_best(x, classes);
    const float m = top.score;
    if (first && p.predicted) p.predicted[row] = top.at;
    if (p.place) {
        const int32_t place = m == m ? row_place(x, classes, label, x[label]) : classes;
        if (first) p.place[row] = place;
    }
    const float s = distance_sum<true>(tree, x, m, classes);
    if (p.loss) {
        const float distance = target_distance(p, tree, x, m, x[label] - m);
        if (first) p.loss[row] = ls_logf(s) - distance;
    }
    const float w = (p.weight ? p.weight[row] : 1.0f) * p.loss_scale;
    for (int32_t i = threadIdx.x % WARP; i < classes; i += WARP) {
        const float probability = ls_expf(x[i] - m) / s;
        if (p.probability) p.probability[begin + i] = probability;
        if (p.dlogits) {
            p.dlogits[begin + i] = w * (probability - (i == label ? p.target_hot : p.target_rest));
        }
    }
}

/* -- sigmoid ---------------------------------------------------------------------------------- */

/* The two chains of a lane over one block: of its flat lanes l and l + 32. */
struct three_sums {
    float loss, square, absolute;
};

LS_INLINE void add_difference(three_sums &sums, float d)
{
    sums.square = ls_fmaf(d, d, sums.square);
    sums.absolute += d < 0.0f ? -d : d;
}

LS_INLINE float sigmoid_target(const ls_cuda_sigmoid_loss &p, size_t row, uint32_t output)
{
    if (p.label) return (uint32_t)p.label[row] == (p.outputs == 1 ? 1 : output) ? 1.0f : 0.0f;
    return p.target ? p.target[row * p.outputs + output] : 0.0f;
}

/* One output: its results, and what it adds to the row's sums. */
LS_INLINE void sigmoid_output(const ls_cuda_sigmoid_loss &p, size_t row, uint32_t i, float factor,
                              three_sums &sums)
{
    const size_t at = row * p.outputs + i;
    const float z = p.logits[at], y = sigmoid_target(p, row, i);
    const float t = p.smooth_all == 0.0f ? y : ls_fmaf(p.smooth_hot, y, p.smooth_all);
    const float e = ls_expf(z < 0.0f ? z : -z);
    const float probability = (z < 0.0f ? e : 1.0f) / (1.0f + e);
    sums.loss += ls_fmaf(-z, t, relu_of(z)) + ls_logf(1.0f + e);
    add_difference(sums, probability - y);
    if (p.dlogits) p.dlogits[at] = factor * (probability - t);
    if (p.probability) p.probability[at] = probability;
}

/* Place and prediction of a row with several outputs. */
LS_INLINE void sigmoid_places(const ls_cuda_sigmoid_loss &p, size_t row)
{
    const float *z = p.logits + row * p.outputs;
    const int32_t classes = (int32_t)p.outputs;
    const bool first = threadIdx.x % WARP == 0;
    const best top = row_best(z, classes);
    if (first && p.predicted) p.predicted[row] = top.at;
    if (p.place == nullptr) return;
    const int32_t label = p.label[row];
    const int32_t place = top.score == top.score ? row_place(z, classes, label, z[label]) : classes;
    if (first) p.place[row] = place;
}

/* The same with one, whose classes score 0 and z. Lane 0. */
LS_INLINE void sigmoid_answer(const ls_cuda_sigmoid_loss &p, size_t row)
{
    const float z = p.logits[row];
    const int32_t answer = z > 0.0f;
    if (p.predicted) p.predicted[row] = answer;
    if (p.place) p.place[row] = z == z ? answer != p.label[row] : 2;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_ROW_THREADS)
    ls_sigmoid_loss(const __grid_constant__ ls_cuda_sigmoid_loss p)
{
    __shared__ ls_tree_f32 loss[WARPS], square[WARPS], absolute[WARPS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= p.samples) return;
    const float C = (float)p.outputs;
    const float factor = (p.weight ? p.weight[row] : 1.0f) * p.loss_scale / C;
    tree_open(loss[warp]), tree_open(square[warp]), tree_open(absolute[warp]);
    for (uint32_t block = 0; block < p.outputs; block += LS_FLAT_BLOCK) {
        const uint32_t end = p.outputs - block < LS_FLAT_BLOCK ? p.outputs : block + LS_FLAT_BLOCK;
        three_sums half[2] = {{0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f}};
        for (uint32_t i = block + lane; i < end; i += LS_FLAT_LANES) {
            sigmoid_output(p, row, i, factor, half[0]);
            if (i + WARP < end) sigmoid_output(p, row, i + WARP, factor, half[1]);
        }
        tree_push(loss[warp], half[0].loss, half[1].loss);
        tree_push(square[warp], half[0].square, half[1].square);
        tree_push(absolute[warp], half[0].absolute, half[1].absolute);
    }
    if (p.outputs > 1 && (p.place || p.predicted)) sigmoid_places(p, row);
    if (lane > 0) return;
    if (p.outputs == 1) sigmoid_answer(p, row);
    if (p.loss) p.loss[row] = ls_tree_root_f32(&loss[warp]) / C;
    if (p.squared_error) p.squared_error[row] = ls_tree_root_f32(&square[warp]) / C;
    if (p.absolute_error) p.absolute_error[row] = ls_tree_root_f32(&absolute[warp]) / C;
}

/* -- errors ----------------------------------------------------------------------------------- */

/* What the gradient is proportional to. */
LS_INLINE float regression_slope(const ls_cuda_regression_loss &p, float d)
{
    if (!p.absolute) return d;
    return d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_ROW_THREADS)
    ls_regression_loss(const __grid_constant__ ls_cuda_regression_loss p)
{
    __shared__ ls_tree_f32 square[WARPS], absolute[WARPS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const size_t row = (size_t)blockIdx.x * WARPS + warp;
    if (row >= p.samples) return;
    const size_t end = (row + 1) * p.outputs;
    const float C = (float)p.outputs;
    const float w = (p.weight ? p.weight[row] : 1.0f) * p.loss_scale;
    const float factor = p.absolute ? w / C : w * (2.0f / C);
    tree_open(square[warp]), tree_open(absolute[warp]);
    for (size_t block = row * p.outputs; block < end; block += LS_FLAT_BLOCK) {
        const size_t last = end - block < LS_FLAT_BLOCK ? end : block + LS_FLAT_BLOCK;
        three_sums half[2] = {{0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f}};
        for (size_t first = block + lane; first < last; first += LS_FLAT_LANES) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const size_t i = first + h * WARP;
                if (i >= last) continue;
                const float d = p.prediction[i] - p.target[i];
                add_difference(half[h], d);
                if (p.dprediction) p.dprediction[i] = factor * regression_slope(p, d);
            }
        }
        tree_push(square[warp], half[0].square, half[1].square);
        tree_push(absolute[warp], half[0].absolute, half[1].absolute);
    }
    if (lane > 0) return;
    const float squares = ls_tree_root_f32(&square[warp]) / C;
    const float absolutes = ls_tree_root_f32(&absolute[warp]) / C;
    if (p.loss) p.loss[row] = p.absolute ? absolutes : squares;
    if (p.squared_error) p.squared_error[row] = squares;
    if (p.absolute_error) p.absolute_error[row] = absolutes;
}
