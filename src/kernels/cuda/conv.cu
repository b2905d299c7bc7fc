/* SPDX-License-Identifier: MIT */
/* conv.cu -- convolution and the gradient of its input, as products of matrices of which one is
 * never stored (implicit GEMM).
 *
 *   forward          y [places, filters] = patches(x) [places, taps * channels] * w^T
 *   input gradient   dx [inputs, channels] = patches(dy) [inputs, taps * filters] * w'
 *
 * A block computes a tile of the result (tile.cuh). A thread knows the corners of its rows and
 * turns the next k into a tap and a channel by two multiplications; where a quad of channels lies
 * side by side (channels a multiple of 4) that is one address for four numbers.
 *
 * An input (h, w) meets tap (r, s) in output ((h + pad - r) / stride, (w + pad - s) / stride), if
 * these are whole. For inputs of one class, h modulo the stride row and w modulo the stride
 * column, the same taps do: every stride-th row and column of the filter. So each class is a
 * launch of its own, whose grid is its inputs and whose window its taps; neighbours in the window
 * are neighbours in dy, the other way round, and no product with a zero between grid points is
 * made. The chain is the definition's, taps ascending as stored, then filters.
 *
 * Source of the name: S. Chetlur et al., "cuDNN: Efficient primitives for deep learning",
 * arXiv:1410.0759, 2014, section 3: the matrix of patches is formed in shared memory, tile by tile.
 */
#include "kernels/cuda/patches.cuh"
#include "kernels/cuda/tile.cuh"

/* Rows of the matrix of patches; k, that is the channels of a tap, side by side. */
template <int ROWS, int DEPTH, int THREADS, int SIGN> struct patch_operand {
    const ls_cuda_patches *p;
    corner row[turned<ROWS, DEPTH, THREADS>::SLOTS];
    uint32_t k, depth;
};

template <int ROWS, int DEPTH, int THREADS, int SIGN>
LS_INLINE void open_patches(patch_operand<ROWS, DEPTH, THREADS, SIGN> &o,
                            const ls_cuda_patches &p, uint32_t depth, uint32_t first_row)
{
    typedef turned<ROWS, DEPTH, THREADS> T;
    o.p = &p;
    o.k = threadIdx.x % T::QUADS * QUAD;
    o.depth = depth;
    for (int i = 0; i < T::SLOTS; i++) {
        o.row[i] = corner_at(p, first_row + (threadIdx.x + i * THREADS) / T::QUADS);
    }
}

template <int ROWS, int DEPTH, int THREADS, int SIGN>
LS_INLINE void fetch(const patch_operand<ROWS, DEPTH, THREADS, SIGN> &o, uint32_t k0, float4 *out)
{
    enum { SLOTS = turned<ROWS, DEPTH, THREADS>::SLOTS };
    const uint32_t k = k0 + o.k;
    if (o.p->vector) {
        const tap t = tap_at<SIGN>(*o.p, k);
        for (int i = 0; i < SLOTS; i++) {
            const float *at = patch_at(*o.p, o.row[i], t);
            out[i] = at == NULL || k >= o.depth ? make_float4(0.0f, 0.0f, 0.0f, 0.0f)
                                                : *(const float4 *)at;
        }
        return;
    }
    for (int j = 0; j < QUAD; j++) {
        const tap t = tap_at<SIGN>(*o.p, k + j);
        for (int i = 0; i < SLOTS; i++) {
            const float *at = patch_at(*o.p, o.row[i], t);
            (&out[i].x)[j] = at == NULL || k + j >= o.depth ? 0.0f : *at;
        }
    }
}

template <int ROWS, int DEPTH, int THREADS, int SIGN>
LS_INLINE void put(const patch_operand<ROWS, DEPTH, THREADS, SIGN> &, const float4 *in,
                   float *stage)
{
    put_turned<ROWS, DEPTH, THREADS>(in, stage);
}

/* -- forward ----------------------------------------------------------------------------------- */

template <class T> LS_INLINE void conv_forward(const ls_cuda_conv_forward &p)
{
    __shared__ __align__(16) float shared[T::SHARED];
    float acc[T::THREAD_M][T::THREAD_N];
    uint32_t m, n;
    tile_at(p.tiles_m, p.tiles_n, &m, &n);
    patch_operand<T::M, T::DEPTH, T::THREADS, 1> x;
    row_operand<T::N, T::DEPTH, T::THREADS> w;
    open_patches(x, p.x, p.columns, m * T::M);
    open(w, p.w, p.filters, p.columns, n * T::N, p.vector_w);
    multiply<T>(x, w, p.columns, shared, acc);
    float *row[T::THREAD_M];
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
        const uint32_t place = m * T::M + thread_row<T>(i);
        row[i] = place < p.x.places ? p.y + (size_t)place * p.filters : NULL;
    }
    store_tile<T>(acc, row, n * T::N, p.filters, p.bias, p.relu, false, p.vector_y);
}

/* -- gradient of the input -------------------------------------------------------------------- */

/* Channels first .. of the filters; k = (reaching tap, filter). */
template <int ROWS, int DEPTH, int THREADS> struct filter_operand {
    const ls_cuda_conv_input_gradient *p;
    const float *at;
    uint32_t k, left;
};

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void open_filters(filter_operand<ROWS, DEPTH, THREADS> &o,
                            const ls_cuda_conv_input_gradient &p, uint32_t first)
{
    typedef straight<ROWS, DEPTH, THREADS> S;
    const uint32_t channel = first + threadIdx.x % S::QUADS * QUAD;
    o.p = &p;
    o.k = threadIdx.x / S::QUADS;
    o.left = channel < p.channels ? p.channels - channel : 0;
    o.at = p.w + p.first_tap + channel;
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void fetch(const filter_operand<ROWS, DEPTH, THREADS> &o, uint32_t k0, float4 *out)
{
    typedef straight<ROWS, DEPTH, THREADS> S;
    for (int i = 0; i < S::SLOTS; i++) {
        const uint32_t k = k0 + o.k + i * (THREADS / S::QUADS);
        const uint32_t tap = divide(k, o.p->dy.by_tap), r = divide(tap, o.p->dy.by_tap_row);
        const uint32_t filter = k - tap * o.p->dy.by_tap.divisor;
        const uint32_t t = tap - r * o.p->dy.by_tap_row.divisor;
        const float *at = o.at + (size_t)filter * o.p->filter_floats + r * o.p->tap_row_step
                          + t * o.p->tap_step;
        out[i] = load_quad(at, 0, k < o.p->columns ? o.left : 0, o.p->vector_w);
    }
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void put(const filter_operand<ROWS, DEPTH, THREADS> &, const float4 *in, float *stage)
{
    put_straight<ROWS, DEPTH, THREADS>(in, stage);
}

/* Where input `place` of the class begins in dx. */
LS_INLINE float *input_at(const ls_cuda_conv_input_gradient &p, uint32_t place)
{
    if (place >= p.dy.places) return NULL;
    const uint32_t sample = divide(place, p.dy.by_sample);
    const uint32_t within = place - sample * p.dy.by_sample.divisor;
    const uint32_t i = divide(within, p.dy.by_row), j = within - i * p.dy.by_row.divisor;
    const uint32_t h = p.first_h + i * p.stride_h, w = p.first_w + j * p.stride_w;
    return p.dx + ((size_t)sample * (p.height * p.width) + (h * p.width + w)) * p.channels;
}

template <class T> LS_INLINE void conv_input_gradient(const ls_cuda_conv_input_gradient &p)
{
    __shared__ __align__(16) float shared[T::SHARED];
    float acc[T::THREAD_M][T::THREAD_N];
    uint32_t m, n;
    tile_at(p.tiles_m, p.tiles_n, &m, &n);
    patch_operand<T::M, T::DEPTH, T::THREADS, -1> dy;
    filter_operand<T::N, T::DEPTH, T::THREADS> w;
    open_patches(dy, p.dy, p.columns, m * T::M);
    open_filters(w, p, n * T::N);
    multiply<T>(dy, w, p.columns, shared, acc);
    float *row[T::THREAD_M];
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) row[i] = input_at(p, m * T::M + thread_row<T>(i));
    store_tile<T>(acc, row, n * T::N, p.channels, NULL, false, false, p.vector_dx);
}

#define CONVOLUTIONS(size, blocks)                                                                \
    extern "C" __global__ void __launch_bounds__(size##_tile::THREADS, blocks)                    \
        ls_conv_forward_##size(const __grid_constant__ ls_cuda_conv_forward p)                    \
    {                                                                                             \
        conv_forward<size##_tile>(p);                                                             \
    }                                                                                             \
    extern "C" __global__ void __launch_bounds__(size##_tile::THREADS, blocks)                    \
        ls_conv_input_gradient_##size(const __grid_constant__ ls_cuda_conv_input_gradient p)      \
    {                                                                                             \
        conv_input_gradient<size##_tile>(p);                                                      \
    }

CONVOLUTIONS(large, 2)
CONVOLUTIONS(medium, 6)
CONVOLUTIONS(small, 6)
