/* SPDX-License-Identifier: MIT */
/* gemm.cu -- C[M,N] = A[M,K] B[K,N], one fmaf chain per element, for tests of the virtual GPU.
 *
 * A block of 256 threads owns 64 x 64 elements of C, a thread 4 x 4 of them. Tiles of 8 k lie in
 * two halves of shared memory: while one is used, the next is fetched. From compute capability 8.0
 * on the fetch is an asynchronous copy, zero-filled at the edges; before, it goes through
 * registers. test_vgpu_gemm.c takes barriers and waits out of the PTX and expects to be told.
 */
struct gemm_params {
    int M, N, K;
    const float *A, *B;
    float *C;
};

enum { TILE = 64, DEPTH = 8, HALVES = 2, THREADS = 256, EACH = 2 };

struct __align__(16) tile_pair {
    float A[HALVES][DEPTH][TILE]; /* transposed: rows of one k */
    float B[HALVES][DEPTH][TILE];
};

#if __CUDA_ARCH__ >= 800
__device__ static void fetch(float *shared, const float *global, bool inside)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    const int bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
}
__device__ static void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ static void wait_for_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
#else
__device__ static void fetch(float *shared, const float *global, bool inside)
{
    *shared = inside ? *global : 0.0f;
}
__device__ static void commit() {}
__device__ static void wait_for_all() {}
#endif

/* Thread t brings elements t and t + 256 of the 8 x 64 elements of either tile. */
__device__ static void fetch_tiles(const gemm_params *p, tile_pair *s, int half, int k0)
{
    for (int e = 0; e < EACH; e++) {
        const int at = threadIdx.x + e * THREADS;
        const int row = blockIdx.y * TILE + at / DEPTH, ka = k0 + at % DEPTH;
        const int kb = k0 + at / TILE, column = blockIdx.x * TILE + at % TILE;
        const bool a = row < p->M && ka < p->K, b = kb < p->K && column < p->N;
        fetch(&s->A[half][at % DEPTH][at / DEPTH], p->A + (a ? (size_t)row * p->K + ka : 0), a);
        fetch(&s->B[half][at / TILE][at % TILE], p->B + (b ? (size_t)kb * p->N + column : 0), b);
    }
    commit();
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm(const __grid_constant__ gemm_params p)
{
    __shared__ tile_pair s;
    const int m = threadIdx.x / 16 * 4, n = threadIdx.x % 16 * 4;
    float acc[4][4] = {};
    fetch_tiles(&p, &s, 0, 0);
    wait_for_all();
    __syncthreads();
    for (int k0 = 0, half = 0; k0 < p.K; k0 += DEPTH, half ^= 1) {
        if (k0 + DEPTH < p.K) fetch_tiles(&p, &s, half ^ 1, k0 + DEPTH);
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            const float4 a4 = *(const float4 *)&s.A[half][k][m];
            const float4 b4 = *(const float4 *)&s.B[half][k][n];
            const float a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
            }
        }
        wait_for_all();
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const int row = blockIdx.y * TILE + m + i, column = blockIdx.x * TILE + n + j;
            if (row < p.M && column < p.N) p.C[(size_t)row * p.N + column] = acc[i][j];
        }
    }
}
