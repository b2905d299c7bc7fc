/* SPDX-License-Identifier: MIT */
/* probe.cu -- moves bytes by the loads and stores of a kernel, to find out whether they arrive.
 *
 * The kernels of a collective read and write a neighbour's memory in words of 16 bytes, and in
 * smaller ones at the ends. So does this: 16 bytes at a time while both sides are so aligned, then
 * one by one. Ordinary loads, because those of the read-only cache need not see what another GPU
 * wrote.
 */
#include "device/probe.h"

extern "C" __global__ void __launch_bounds__(LS_PROBE_THREADS)
ls_probe_copy(const __grid_constant__ ls_probe_params p)
{
    const unsigned long long thread = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long threads = gridDim.x * blockDim.x;
    const bool aligned = ((unsigned long long)p.from | (unsigned long long)p.to) % 16 == 0;
    const unsigned long long words = aligned ? p.bytes / 16 : 0;
    for (unsigned long long i = thread; i < words; i += threads)
        ((uint4 *)p.to)[i] = ((const uint4 *)p.from)[i];
    for (unsigned long long i = 16 * words + thread; i < p.bytes; i += threads)
        p.to[i] = p.from[i];
}
