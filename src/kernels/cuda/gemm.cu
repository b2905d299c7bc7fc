/* SPDX-License-Identifier: MIT */
/* gemm.cu -- the matrix product: three tiles, four ways to store the operands.
 *
 * A block computes one tile of C (tile.cuh). Op(A) has k side by side unless A is transposed, op(B)
 * only if B is: a letter for each in a kernel's name, n or t. The launcher takes the large tile
 * where there are enough of them to fill a GPU, else a smaller one; no choice changes a bit.
 */
#include "kernels/cuda/tile.cuh"

template <class T, class A, class B>
LS_INLINE void gemm(const ls_cuda_gemm &p, A &a, B &b)
{
    __shared__ __align__(16) float shared[T::SHARED];
    float acc[T::THREAD_M][T::THREAD_N];
    uint32_t m, n;
    tile_at(p.tiles_m, p.tiles_n, &m, &n);
    open(a, p.A, p.M, p.K, m * T::M, p.vector_a);
    open(b, p.B, p.N, p.K, n * T::N, p.vector_b);
    multiply<T>(a, b, p.K, shared, acc);
    float *row[T::THREAD_M];
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
        const uint32_t at = m * T::M + thread_row<T>(i);
        row[i] = at < p.M ? p.C + (size_t)at * p.N : NULL;
    }
    store_tile<T>(acc, row, n * T::N, p.N, p.bias, p.relu, p.accumulate, p.vector_c);
}

#define OPERAND(kind, T, side) kind##_operand<T::side, T::DEPTH, T::THREADS>

#define GEMM(size, letters, a_kind, b_kind, blocks)                                               \
    extern "C" __global__ void __launch_bounds__(size##_tile::THREADS, blocks)                    \
        ls_gemm_##size##_##letters(const __grid_constant__ ls_cuda_gemm p)                        \
    {                                                                                             \
        OPERAND(a_kind, size##_tile, M) a;                                                        \
        OPERAND(b_kind, size##_tile, N) b;                                                        \
        gemm<size##_tile>(p, a, b);                                                               \
    }

#define GEMMS(size, blocks)                                                                       \
    GEMM(size, nn, row, column, blocks)                                                           \
    GEMM(size, nt, row, row, blocks)                                                              \
    GEMM(size, tn, column, column, blocks)                                                        \
    GEMM(size, tt, column, row, blocks)

GEMMS(large, 2)
GEMMS(medium, 6)
GEMMS(small, 8)
