/* SPDX-License-Identifier: MIT */
/* meetings.cu -- threads, blocks and devices that wait for each other, for tests of the virtual
 * GPU.
 *
 *     tree_sum      shared memory, then shuffles: sum of 256 elements per block by a tree
 *     chain         block b adds its number to what block b + 1 left: the blocks wait for each
 *                   other against the order in which they start
 *     early_return  threads beyond the count leave; the others still meet at a barrier
 *     turn_taking   lanes of one warp wait for each other: lane l for lane l + 1
 *     ring          one block per device: a value goes round, by remote stores and flags
 *     local_array   an array per thread in local memory, indexed at run time
 */
struct sum_params {
    int count;
    const float *x;
    float *sums;
};

extern "C" __global__ void __launch_bounds__(256) tree_sum(const __grid_constant__ sum_params p)
{
    __shared__ float s[256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < p.count ? p.x[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half >= 32; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t >= 32) return;
    float v = s[t];
    for (int half = 16; half > 0; half /= 2) v += __shfl_down_sync(0xffffffff, v, half);
    if (t == 0) p.sums[blockIdx.x] = v;
}

struct chain_params {
    unsigned *flags; /* one per block, and one behind: 0, the last one 1 */
    unsigned *values;
};

__device__ static unsigned load_acquire_gpu(const unsigned *flag)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
    return v;
}

__device__ static void store_release_gpu(unsigned *flag, unsigned v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(v) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) chain(const __grid_constant__ chain_params p)
{
    const unsigned b = blockIdx.x;
    if (threadIdx.x == 0) {
        while (load_acquire_gpu(p.flags + b + 1) == 0) __nanosleep(50);
        p.values[b] = p.values[b + 1] + b;
        store_release_gpu(p.flags + b, 1);
    }
}

struct return_params {
    unsigned count;
    unsigned *out;
};

extern "C" __global__ void __launch_bounds__(128)
early_return(const __grid_constant__ return_params p)
{
    __shared__ unsigned s[128];
    const unsigned t = threadIdx.x;
    if (t >= p.count) return;
    s[t] = t;
    __syncthreads();
    p.out[t] = s[p.count - 1 - t];
}

extern "C" __global__ void __launch_bounds__(32)
turn_taking(const __grid_constant__ return_params p)
{
    __shared__ volatile unsigned turn;
    const unsigned t = threadIdx.x;
    if (t == 0) turn = p.count;
    __syncwarp();
    if (t >= p.count) return;
    while (turn != t + 1) {}
    p.out[t] = p.count - t;
    turn = t;
}

struct ring_params {
    unsigned *mine;  /* flag, then value */
    unsigned *right; /* the same, on the next device */
    unsigned rounds;
    int starts;
};

extern "C" __global__ void __launch_bounds__(32) ring(const __grid_constant__ ring_params p)
{
    if (threadIdx.x != 0) return;
    for (unsigned round = 1; round <= p.rounds; round++) {
        unsigned flag = 0;
        if (!(p.starts && round == 1)) {
            const unsigned want = p.starts ? round - 1 : round;
            do {
                asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                             : "=r"(flag) : "l"(p.mine) : "memory");
            } while (flag < want);
        }
        p.right[1] = p.mine[1] + 1;
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p.right), "r"(round) : "memory");
    }
}

struct array_params {
    const int *index; /* 0..7 per thread */
    const float *x;   /* 8 per thread */
    float *out;
};

extern "C" __global__ void __launch_bounds__(64)
local_array(const __grid_constant__ array_params p)
{
    float a[8];
    for (int i = 0; i < 8; i++) a[i] = p.x[threadIdx.x * 8 + i] * 2.0f;
    p.out[threadIdx.x] = a[p.index[threadIdx.x]];
}
