/* SPDX-License-Identifier: MIT */
/* batchnorm.cu -- batch normalisation: sums of slices, rows of statistics, merges, and what is done
 * element by element.
 *
 *     x [places, channels]       partial [groups, channels]      row [shards, 2 * channels]
 *       slice ---- a chain -->     tree of a leaf's groups  -->    of each leaf
 *
 * Sums of slices: a warp has 32 neighbouring channels of one slice, a lane one chain, as in
 * batch_sum.cu, which sums x itself. Element by element: a thread keeps a channel, or four, for a
 * chunk of places, so that what depends on the channel alone is computed once for all of them. In
 * place is right: a thread reads its elements before it writes them, and nobody else's.
 */
#include "kernels/cuda/groups.cuh"

LS_INLINE float inverse_deviation(float M2, float n, float epsilon)
{
    return 1.0f / __fsqrt_rn(M2 / n + epsilon);
}

/* -- sums of slices --------------------------------------------------------------------------- */

/* Where a thread of a slice kernel works: a channel, and `places` places of a slice, the first of
 * which is element `first` of x. */
struct slice_task {
    uint32_t group, leaf, channel, places;
    size_t first;
};

/* False where there is nothing to do. */
LS_INLINE bool find_slice(const ls_cuda_batchnorm_sums &p, slice_task &task)
{
    const ls_cuda_groups &g = p.groups;
    task.group = blockIdx.x * (LS_CUDA_THREADS / WARP) + threadIdx.x / WARP;
    task.channel = blockIdx.y * WARP + threadIdx.x % WARP;
    if (task.group >= g.first[g.fold.leaf_count] || task.channel >= p.channel_count) return false;
    task.leaf = leaf_of_group(g, task.group);
    const uint32_t row = leaf_row(g, task.leaf)
                         + (task.group - g.first[task.leaf]) * g.slice_rows;
    const uint32_t left = leaf_row(g, task.leaf + 1) - row;
    task.places = (left < g.slice_rows ? left : g.slice_rows) * p.width;
    task.first = (size_t)row * p.width * p.channels + p.first_channel + task.channel;
    return true;
}

/* The shard whose row of statistics a leaf reads. */
LS_INLINE int shard_of(const ls_fold &fold, uint64_t row_stride, uint32_t leaf)
{
    return row_stride == 0 ? 0 : fold.shard[leaf];
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_batchnorm_squares(const __grid_constant__ ls_cuda_batchnorm_sums p)
{
    enum { FLYING = 16 }; /* elements on their way at a time */
    slice_task task;
    if (!find_slice(p, task)) return;
    const float mean = p.row[shard_of(p.groups.fold, p.row_stride, task.leaf) * p.row_stride
                             + p.first_channel + task.channel];
    const float *at = p.x + task.first;
    uint32_t left = task.places;
    float sum = 0.0f;
    for (; left >= FLYING; left -= FLYING, at += FLYING * (size_t)p.channels) {
        float x[FLYING];
#pragma unroll
        for (int i = 0; i < FLYING; i++) x[i] = at[i * (size_t)p.channels];
#pragma unroll
        for (int i = 0; i < FLYING; i++) sum = ls_fmaf(x[i] - mean, x[i] - mean, sum);
    }
    for (; left > 0; left--, at += p.channels) sum = ls_fmaf(*at - mean, *at - mean, sum);
    p.partial[(size_t)task.group * p.channel_count + task.channel] = sum + 0.0f;
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_batchnorm_gradient_slices(const __grid_constant__ ls_cuda_batchnorm_sums p)
{
    enum { FLYING = 8 }; /* of x, and of dy */
    slice_task task;
    if (!find_slice(p, task)) return;
    const int shard = shard_of(p.groups.fold, p.row_stride, task.leaf);
    const float *row = p.row + shard * p.row_stride + p.first_channel + task.channel;
    const float mean = row[0], inv = inverse_deviation(row[p.channels], p.n[shard], p.epsilon);
    const float *x_at = p.x + task.first, *dy_at = p.dy + task.first;
    const size_t step = p.channels;
    uint32_t left = task.places;
    float sum = 0.0f, product = 0.0f;
    for (; left >= FLYING; left -= FLYING, x_at += FLYING * step, dy_at += FLYING * step) {
        float x[FLYING], dy[FLYING];
#pragma unroll
        for (int i = 0; i < FLYING; i++) x[i] = x_at[i * step], dy[i] = dy_at[i * step];
#pragma unroll
        for (int i = 0; i < FLYING; i++) {
            sum += dy[i];
            product = ls_fmaf(dy[i], (x[i] - mean) * inv, product);
        }
    }
    for (; left > 0; left--, x_at += step, dy_at += step) {
        sum += *dy_at;
        product = ls_fmaf(*dy_at, (*x_at - mean) * inv, product);
    }
    float *partial = p.partial + (size_t)task.group * p.channel_count + task.channel;
    const uint32_t groups = p.groups.first[p.groups.fold.leaf_count];
    partial[0] = sum + 0.0f;
    partial[(size_t)groups * p.channel_count] = product + 0.0f;
}

/* -- rows of statistics ----------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(LS_CUDA_FOLD_THREADS)
    ls_batchnorm_rows(const __grid_constant__ ls_cuda_batchnorm_rows p)
{
    __shared__ waiting_column stack[WAITING];
    const uint32_t e = (uint32_t)thread_index(), leaf = blockIdx.y;
    if (e >= p.count) return;
    float sum = leaf_sum(p.partial + e, p.count, p.groups.first[leaf], p.groups.first[leaf + 1],
                         stack);
    const uint32_t places = (leaf_row(p.groups, leaf + 1) - leaf_row(p.groups, leaf)) * p.width;
    if (p.divides && places > 0) sum = sum / (float)places;
    p.row[p.groups.fold.shard[leaf] * p.row_stride + e] = sum;
}

/* -- merges ----------------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(LS_CUDA_FOLD_THREADS)
    ls_batchnorm_merge(const __grid_constant__ ls_cuda_batchnorm_merge p)
{
    __shared__ waiting_column means[LS_ROW_MERGE_DEPTH], squares[LS_ROW_MERGE_DEPTH];
    __shared__ waiting_column variances[LS_ROW_MERGE_DEPTH];
    const uint32_t c = (uint32_t)thread_index(), t = threadIdx.x;
    if (c >= p.channels) return;
    float mean = 0.0f, M2 = 0.0f, variance = 0.0f; /* the topmost entry, once there is one */
    for (int i = 0, j = 0, depth = 0; i < p.plan.row_count; i++) {
        const float *row = p.row + (size_t)p.plan.row[i] * 2 * p.channels + c;
        mean = row[0];
        M2 = row[p.channels];
        variance = M2 / p.plan.n[i];
        for (int adds = p.plan.adds[i]; adds > 0; adds--, j++) {
            depth--;
            const float f = p.plan.fraction[j], left = means[depth][t];
            const float left_variance = variances[depth][t], delta = mean - left;
            mean = ls_fmaf(delta, f, left);
            M2 = ls_fmaf(delta * delta, p.plan.weight[j], squares[depth][t] + M2);
            variance = ls_fmaf(variance - left_variance, f, left_variance);
        }
        means[depth][t] = mean;
        squares[depth][t] = M2;
        variances[depth][t] = variance;
        depth++;
    }
    p.merged[c] = mean;
    p.merged[p.channels + c] = M2;
    if (p.plan.row_count == 0) return;
    if (!p.by_shard) variance = M2 / p.plan.total;
    const float old_mean = p.moving_mean[c], old_variance = p.moving_variance[c];
    p.moving_mean[c] = ls_fmaf(p.one_minus_momentum, mean - old_mean, old_mean);
    p.moving_variance[c] = ls_fmaf(p.one_minus_momentum, variance - old_variance, old_variance);
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_FOLD_THREADS)
    ls_batchnorm_merge_sums(const __grid_constant__ ls_cuda_batchnorm_merge p)
{
    __shared__ waiting_column stack[LS_ROW_MERGE_DEPTH];
    const uint32_t e = (uint32_t)thread_index();
    if (e >= 2 * p.channels) return;
    float sum = 0.0f;
    for (int i = 0, depth = 0; i < p.plan.row_count; i++) {
        sum = p.row[(size_t)p.plan.row[i] * 2 * p.channels + e];
        for (int adds = p.plan.adds[i]; adds > 0; adds--) sum = stack[--depth][threadIdx.x] + sum;
        stack[depth++][threadIdx.x] = sum;
    }
    p.merged[e] = sum;
}

/* -- element by element ----------------------------------------------------------------------- */

/* A thread's part: N channels from `channel` on, of every abreast-th place in [place, end). */
struct places_task {
    uint32_t channel, place, end;
    int shard;
};

template <int N>
LS_INLINE bool find_places(const ls_cuda_batchnorm_elements &p, places_task &task)
{
    const ls_cuda_groups &g = p.chunks;
    const uint32_t units = p.channels / N, chunk = blockIdx.x;
    const bool wide = units >= LS_CUDA_THREADS;
    const uint32_t beside = wide ? 0 : threadIdx.x / units;
    const uint32_t unit = wide ? blockIdx.y * LS_CUDA_THREADS + threadIdx.x : threadIdx.x % units;
    if (beside >= p.abreast || unit >= units) return false;
    const uint32_t leaf = leaf_of_group(g, chunk), end = leaf_row(g, leaf + 1);
    const uint32_t first = leaf_row(g, leaf) + (chunk - g.first[leaf]) * g.slice_rows;
    task.channel = unit * N;
    task.place = first + beside;
    task.end = end - first < g.slice_rows ? end : first + g.slice_rows;
    task.shard = shard_of(g.fold, p.row_stride, leaf);
    return true;
}

/* N channels of a place. */
template <int N> struct floats {
    float v[N];
};

LS_INLINE void load(floats<1> &f, const float *p) { f.v[0] = *p; }

LS_INLINE void load(floats<4> &f, const float *p)
{
    const float4 q = *(const float4 *)p;
    f.v[0] = q.x, f.v[1] = q.y, f.v[2] = q.z, f.v[3] = q.w;
}

LS_INLINE void store(float *p, const floats<1> &f) { *p = f.v[0]; }

LS_INLINE void store(float *p, const floats<4> &f)
{
    *(float4 *)p = make_float4(f.v[0], f.v[1], f.v[2], f.v[3]);
}

/* What depends on the channel alone. */
template <int N> struct constants {
    floats<N> mean, inv;
    floats<N> gamma, beta;                         /* ls_batchnorm */
    floats<N> scale, mean_gradient, mean_product; /* ls_batchnorm_gradient */
};

template <int N>
LS_INLINE void load_statistics(const ls_cuda_batchnorm_elements &p, const places_task &task,
                               constants<N> &k)
{
    const float *row = p.row + task.shard * p.row_stride + task.channel;
#pragma unroll
    for (int i = 0; i < N; i++) {
        k.mean.v[i] = row[i];
        k.inv.v[i] = inverse_deviation(row[p.channels + i], p.n[task.shard], p.epsilon);
    }
}

template <int N>
LS_INLINE floats<N> normalise(const constants<N> &k, const floats<N> &x, bool relu)
{
    floats<N> y;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float v = ls_fmaf(k.gamma.v[i], (x.v[i] - k.mean.v[i]) * k.inv.v[i], k.beta.v[i]);
        y.v[i] = relu ? relu_of(v) : v;
    }
    return y;
}

/* Several places' elements are on their way before the first is needed. */
template <int N> LS_INLINE void normalise_places(const ls_cuda_batchnorm_elements &p)
{
    places_task task;
    constants<N> k;
    if (!find_places<N>(p, task)) return;
    load_statistics(p, task, k);
#pragma unroll
    for (int i = 0; i < N; i++) {
        k.gamma.v[i] = p.gamma[task.channel + i];
        k.beta.v[i] = p.beta[task.channel + i];
    }
    const size_t step = (size_t)p.abreast * p.channels;
    size_t at = (size_t)task.place * p.channels + task.channel;
    uint32_t place = task.place;
    for (; place + (LS_BATCHNORM_FLYING - 1) * p.abreast < task.end;
         place += LS_BATCHNORM_FLYING * p.abreast, at += LS_BATCHNORM_FLYING * step) {
        floats<N> x[LS_BATCHNORM_FLYING];
#pragma unroll
        for (int i = 0; i < LS_BATCHNORM_FLYING; i++) load(x[i], p.x + at + i * step);
#pragma unroll
        for (int i = 0; i < LS_BATCHNORM_FLYING; i++) {
            store(p.to + at + i * step, normalise(k, x[i], p.relu));
        }
    }
    for (; place < task.end; place += p.abreast, at += step) {
        floats<N> x;
        load(x, p.x + at);
        store(p.to + at, normalise(k, x, p.relu));
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_batchnorm(const __grid_constant__ ls_cuda_batchnorm_elements p)
{
    if (p.vector) {
        normalise_places<4>(p);
    } else {
        normalise_places<1>(p);
    }
}

template <int N>
LS_INLINE floats<N> gradient(const constants<N> &k, const floats<N> &x, const floats<N> &dy)
{
    floats<N> dx;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float xhat = (x.v[i] - k.mean.v[i]) * k.inv.v[i];
        dx.v[i] = k.scale.v[i]
                  * ls_fmaf(-xhat, k.mean_product.v[i], dy.v[i] - k.mean_gradient.v[i]);
    }
    return dx;
}

template <int N> LS_INLINE void gradient_places(const ls_cuda_batchnorm_elements &p)
{
    enum { FLYING = LS_BATCHNORM_FLYING / 2 }; /* of x, and of dy */
    places_task task;
    constants<N> k;
    if (!find_places<N>(p, task)) return;
    load_statistics(p, task, k);
    const float n = p.n[task.shard];
    const float *sums = p.sums + task.shard * p.row_stride + task.channel;
#pragma unroll
    for (int i = 0; i < N; i++) {
        k.scale.v[i] = p.gamma[task.channel + i] * k.inv.v[i];
        k.mean_gradient.v[i] = sums[i] / n;
        k.mean_product.v[i] = sums[p.channels + i] / n;
    }
    const size_t step = (size_t)p.abreast * p.channels;
    size_t at = (size_t)task.place * p.channels + task.channel;
    uint32_t place = task.place;
    for (; place + (FLYING - 1) * p.abreast < task.end;
         place += FLYING * p.abreast, at += FLYING * step) {
        floats<N> x[FLYING], dy[FLYING];
#pragma unroll
        for (int i = 0; i < FLYING; i++) {
            load(x[i], p.x + at + i * step);
            load(dy[i], p.dy + at + i * step);
        }
#pragma unroll
        for (int i = 0; i < FLYING; i++) {
            store(p.to + at + i * step, gradient(k, x[i], dy[i]));
        }
    }
    for (; place < task.end; place += p.abreast, at += step) {
        floats<N> x, dy;
        load(x, p.x + at);
        load(dy, p.dy + at);
        store(p.to + at, gradient(k, x, dy));
    }
}

extern "C" __global__ void __launch_bounds__(LS_CUDA_THREADS)
    ls_batchnorm_gradient(const __grid_constant__ ls_cuda_batchnorm_elements p)
{
    if (p.vector) {
        gradient_places<4>(p);
    } else {
        gradient_places<1>(p);
    }
}
