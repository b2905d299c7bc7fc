/* SPDX-License-Identifier: MIT */
/* tile.cuh -- the inner part of every product: a block's tile of C, k in ascending order.
 *
 *            N                      A block has WARPS_M x WARPS_N warps, a warp 4 x 8 lanes, a lane
 *        +-------+ k                THREAD_M x THREAD_N elements of C in registers. They lie in
 *      B |       | DEPTH            quads of 4 rows and 4 columns, a warp's quads side by side:
 *        +-------+
 *      A |       |                    rows     4 lanes x 4, then 16 below for the second quad
 *    M   |   C   |                    columns  8 lanes x 4, then 32 right for the second quad
 *        |       |
 *        +-------+                  so that the 16 bytes that each lane reads of A or B for one k
 *      DEPTH                        are neighbours of the next lane's: no bank is asked twice.
 *
 * Both operands go from memory into registers, and from there into one of two stages of shared
 * memory, [k][row] and [k][column]. While the block multiplies from one stage, its next operands
 * are on their way; they are put into the other stage after it, and one barrier a step separates
 * them: who writes stage s has passed the barrier behind which everybody had finished reading it.
 *
 * A row of a stage has 4 floats more than the tile, so that an operand whose k lie side by side in
 * memory, and which is therefore turned while it is stored, hits different banks.
 *
 * An operand is opened by X_open, which finds the addresses of the thread's quads, and fetched by
 * `fetch` for the next DEPTH values of k; `put` stores it. Two kinds are here, a stored matrix
 * with k side by side (row_operand) and one with rows side by side (column_operand); conv.cu and
 * weight_gradient.cu add theirs.
 *
 * Bits: element (m, n) is one chain over k ascending, in one register, whatever the tile. Beyond
 * the last k both operands are +0, and fma(+0, +0, acc) leaves acc as it is but for the sign of a
 * zero, which + 0.0f settles at the end (docs/numerics.md 1.2).
 */
#ifndef LS_KERNELS_CUDA_TILE_CUH
#define LS_KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/tiles.h"

/* Lanes of a warp, and columns (rows) of a quad. */
enum { LANES_M = 4, LANES_N = 8, QUAD = 4 };

template <int WARPS_M, int WARPS_N, int MINE_M, int MINE_N, int K_STEP> struct tile {
    enum {
        THREADS = WARP * WARPS_M * WARPS_N,
        M = WARPS_M * LANES_M * MINE_M,
        N = WARPS_N * LANES_N * MINE_N,
        DEPTH = K_STEP,
        THREAD_M = MINE_M,
        THREAD_N = MINE_N,
        ACROSS = WARPS_N, /* warps */
        PITCH_A = M + QUAD,
        PITCH_B = N + QUAD,
        SLOTS_A = M * DEPTH / QUAD / THREADS, /* quads that a thread fetches */
        SLOTS_B = N * DEPTH / QUAD / THREADS,
        STAGE = DEPTH * (PITCH_A + PITCH_B), /* floats of A, then B */
        SHARED = 2 * STAGE
    };
    static_assert(M * DEPTH % (QUAD * THREADS) == 0, "A is fetched in whole quads");
    static_assert(N * DEPTH % (QUAD * THREADS) == 0, "B is fetched in whole quads");
    static_assert(MINE_M % QUAD == 0 && MINE_N % QUAD == 0, "a thread has whole quads");
    static_assert(K_STEP % QUAD == 0, "k is fetched in quads");
};

typedef tile<4, 2, 8, 8, 8> large_tile;
typedef tile<2, 1, 8, 8, 8> medium_tile;
typedef tile<2, 1, 8, 4, 16> small_tile;

/* Row of the tile that is the thread's i-th, and the first column of its j-th quad. */
template <class T> LS_INLINE uint32_t thread_row(int i)
{
    const uint32_t warp = threadIdx.x / WARP / T::ACROSS, lane = threadIdx.x % WARP;
    const uint32_t across = (lane / 16) * 2 + lane % 2;
    return warp * LANES_M * T::THREAD_M + (i / QUAD) * LANES_M * QUAD + across * QUAD + i % QUAD;
}

template <class T> LS_INLINE uint32_t thread_column(int quad)
{
    const uint32_t warp = threadIdx.x / WARP % T::ACROSS, lane = threadIdx.x % WARP;
    return warp * LANES_N * T::THREAD_N + quad * LANES_N * QUAD + lane % 16 / 2 * QUAD;
}

/* -- operands ---------------------------------------------------------------------------------- */

/* Slot i of a thread, of an operand ROWS wide whose k lie side by side: its row, and its first
 * k. */
template <int ROWS, int DEPTH, int THREADS> struct turned {
    enum { SLOTS = ROWS * DEPTH / QUAD / THREADS, QUADS = DEPTH / QUAD };
    static_assert(THREADS % QUADS == 0, "all slots of a thread have the same k");
};

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void put_turned(const float4 *in, float *stage)
{
    typedef turned<ROWS, DEPTH, THREADS> T;
    for (int i = 0; i < T::SLOTS; i++) {
        const uint32_t slot = threadIdx.x + i * THREADS;
        float *to = stage + slot % T::QUADS * QUAD * (ROWS + QUAD) + slot / T::QUADS;
        to[0 * (ROWS + QUAD)] = in[i].x;
        to[1 * (ROWS + QUAD)] = in[i].y;
        to[2 * (ROWS + QUAD)] = in[i].z;
        to[3 * (ROWS + QUAD)] = in[i].w;
    }
}

/* The same where rows lie side by side: its k, and its first row. */
template <int ROWS, int DEPTH, int THREADS> struct straight {
    enum { SLOTS = ROWS * DEPTH / QUAD / THREADS, QUADS = ROWS / QUAD };
};

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void put_straight(const float4 *in, float *stage)
{
    typedef straight<ROWS, DEPTH, THREADS> S;
    for (int i = 0; i < S::SLOTS; i++) {
        const uint32_t slot = threadIdx.x + i * THREADS;
        *(float4 *)(stage + slot / S::QUADS * (ROWS + QUAD) + slot % S::QUADS * QUAD) = in[i];
    }
}

/* Rows first_row .. of a stored matrix [rows, depth], k side by side. */
template <int ROWS, int DEPTH, int THREADS> struct row_operand {
    const float *at; /* of the thread's first slot, k0 = 0 */
    uint32_t k;      /* of that slot, and of the others */
    uint32_t left;   /* rows from there on */
    uint32_t depth;
    bool vector;
};

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void open(row_operand<ROWS, DEPTH, THREADS> &o, const float *matrix, uint32_t rows,
                    uint32_t depth, uint32_t first_row, bool vector)
{
    typedef turned<ROWS, DEPTH, THREADS> T;
    const uint32_t row = first_row + threadIdx.x / T::QUADS;
    o.k = threadIdx.x % T::QUADS * QUAD;
    o.left = row < rows ? rows - row : 0;
    o.at = matrix + (size_t)row * depth + o.k;
    o.depth = depth;
    o.vector = vector;
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void fetch(const row_operand<ROWS, DEPTH, THREADS> &o, uint32_t k0, float4 *out)
{
    typedef turned<ROWS, DEPTH, THREADS> T;
    const uint32_t left = k0 + o.k < o.depth ? o.depth - k0 - o.k : 0;
    for (int i = 0; i < T::SLOTS; i++) {
        const uint32_t row = i * (THREADS / T::QUADS);
        out[i] = load_quad(o.at + ((size_t)row * o.depth + k0), 0, row < o.left ? left : 0,
                           o.vector);
    }
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void put(const row_operand<ROWS, DEPTH, THREADS> &, const float4 *in, float *stage)
{
    put_turned<ROWS, DEPTH, THREADS>(in, stage);
}

/* Columns first .. of a stored matrix [depth, columns]: rows of the operand side by side. */
template <int ROWS, int DEPTH, int THREADS> struct column_operand {
    const float *at; /* of the thread's first slot, k = 0 */
    uint32_t k;      /* of that slot */
    uint32_t left;   /* columns from there on */
    uint32_t step, depth;
    bool vector;
};

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void open(column_operand<ROWS, DEPTH, THREADS> &o, const float *matrix, uint32_t columns,
                    uint32_t depth, uint32_t first, bool vector)
{
    typedef straight<ROWS, DEPTH, THREADS> S;
    static_assert(THREADS % S::QUADS == 0, "all slots of a thread are the same columns");
    const uint32_t column = first + threadIdx.x % S::QUADS * QUAD;
    o.k = threadIdx.x / S::QUADS;
    o.left = column < columns ? columns - column : 0;
    o.at = matrix + column;
    o.step = columns;
    o.depth = depth;
    o.vector = vector;
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void fetch(const column_operand<ROWS, DEPTH, THREADS> &o, uint32_t k0, float4 *out)
{
    typedef straight<ROWS, DEPTH, THREADS> S;
    for (int i = 0; i < S::SLOTS; i++) {
        const uint32_t k = k0 + o.k + i * (THREADS / S::QUADS);
        out[i] = load_quad(o.at + (size_t)k * o.step, 0, k < o.depth ? o.left : 0, o.vector);
    }
}

template <int ROWS, int DEPTH, int THREADS>
LS_INLINE void put(const column_operand<ROWS, DEPTH, THREADS> &, const float4 *in, float *stage)
{
    put_straight<ROWS, DEPTH, THREADS>(in, stage);
}

/* -- multiplication ---------------------------------------------------------------------------- */

/* acc += the products of one stage, k ascending. */
template <class T>
LS_INLINE void multiply_stage(const float *stage, float (&acc)[T::THREAD_M][T::THREAD_N])
{
    const float *a_at = stage + thread_row<T>(0);
    const float *b_at = stage + T::DEPTH * T::PITCH_A + thread_column<T>(0);
#pragma unroll 2
    for (int k = 0; k < T::DEPTH; k++) {
        float a[T::THREAD_M], b[T::THREAD_N];
#pragma unroll
        for (int i = 0; i < T::THREAD_M; i += QUAD) {
            *(float4 *)(a + i) = *(const float4 *)(a_at + k * T::PITCH_A + i * LANES_M);
        }
#pragma unroll
        for (int j = 0; j < T::THREAD_N; j += QUAD) {
            *(float4 *)(b + j) = *(const float4 *)(b_at + k * T::PITCH_B + j * LANES_N);
        }
#pragma unroll
        for (int i = 0; i < T::THREAD_M; i++) {
#pragma unroll
            for (int j = 0; j < T::THREAD_N; j++) acc[i][j] = __fmaf_rn(a[i], b[j], acc[i][j]);
        }
    }
}

template <class T> LS_INLINE void clear(float (&acc)[T::THREAD_M][T::THREAD_N])
{
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i++) {
#pragma unroll
        for (int j = 0; j < T::THREAD_N; j++) acc[i][j] = 0.0f;
    }
}

/* acc = the chains over k = 0 .. K-1. `shared` is [T::SHARED], 16-byte aligned. */
template <class T, class A, class B>
LS_INLINE void multiply(const A &a, const B &b, uint32_t K, float *shared,
                        float (&acc)[T::THREAD_M][T::THREAD_N])
{
    float4 next_a[T::SLOTS_A], next_b[T::SLOTS_B];
    uint32_t stage = 0;
    clear<T>(acc);
    fetch(a, 0, next_a);
    fetch(b, 0, next_b);
    for (uint32_t k0 = 0; k0 < K; k0 += T::DEPTH, stage ^= 1) {
        float *at = shared + stage * T::STAGE;
        put(a, next_a, at);
        put(b, next_b, at + T::DEPTH * T::PITCH_A);
        __syncthreads();
        if (k0 + T::DEPTH < K) {
            fetch(a, k0 + T::DEPTH, next_a);
            fetch(b, k0 + T::DEPTH, next_b);
        }
        multiply_stage<T>(at, acc);
    }
}

/* -- results ----------------------------------------------------------------------------------- */

/* Store the tile's columns first_column .. of a matrix `columns` wide. row[i] is where the thread's
 * i-th row begins; NULL: it has none. `relu` and `accumulate` as in ls_gemm_args. */
template <class T>
LS_INLINE void store_tile(const float (&acc)[T::THREAD_M][T::THREAD_N],
                          float *const (&row)[T::THREAD_M], uint32_t first_column,
                          uint32_t columns, const float *bias, bool relu, bool accumulate,
                          bool vector)
{
#pragma unroll
    for (int j = 0; j < T::THREAD_N; j += QUAD) {
        const uint32_t column = first_column + thread_column<T>(j / QUAD);
        float4 b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (bias != NULL) b = load_quad(bias, column, columns, false);
#pragma unroll
        for (int i = 0; i < T::THREAD_M; i++) {
            float4 q = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            if (bias != NULL) {
                q.x += b.x, q.y += b.y, q.z += b.z, q.w += b.w;
            }
            q.x += 0.0f, q.y += 0.0f, q.z += 0.0f, q.w += 0.0f;
            if (relu) {
                q.x = relu_of(q.x), q.y = relu_of(q.y), q.z = relu_of(q.z), q.w = relu_of(q.w);
            }
            if (row[i] == NULL) continue;
            if (accumulate) {
                const float4 c = load_quad(row[i], column, columns, vector);
                q.x = c.x + q.x, q.y = c.y + q.y, q.z = c.z + q.z, q.w = c.w + q.w;
            }
            store_quad(row[i], column, columns, vector, q);
        }
    }
}

/* The tile that a block of a one-dimensional grid computes. Tiles are taken in bands 8 high, down a
 * band's columns: blocks that run at a time share rows of A and columns of B in the cache. */
LS_INLINE void tile_at(uint32_t tiles_m, uint32_t tiles_n, uint32_t *m, uint32_t *n)
{
    enum { BAND = 8 };
    const uint32_t band = blockIdx.x / (BAND * tiles_n), within = blockIdx.x % (BAND * tiles_n);
    const uint32_t left = tiles_m - band * BAND;
    const uint32_t height = left < BAND ? left : (uint32_t)BAND;
    *m = band * BAND + within % height;
    *n = within / height;
}

#endif
