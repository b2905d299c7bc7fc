/* SPDX-License-Identifier: MIT */
/* tiles.h -- extents of the tiles of products, for the launcher and the device code.
 *
 * A block computes M x N elements and steps DEPTH columns of k at a time. What they are made of, in
 * warps and threads, is tile.cuh's.
 */
#ifndef LS_KERNELS_CUDA_TILES_H
#define LS_KERNELS_CUDA_TILES_H

enum {
    LS_LARGE_M = 128, LS_LARGE_N = 128, LS_LARGE_THREADS = 256,
    LS_MEDIUM_M = 64, LS_MEDIUM_N = 64, LS_MEDIUM_THREADS = 64,
    LS_SMALL_M = 64, LS_SMALL_N = 32, LS_SMALL_THREADS = 64
};

/* Weight gradients: one tile, and copies of it in registers, PLANES of them, that hold unfinished
 * sums: few in the usual kernel, many in one with smaller shares and more threads. */
enum {
    LS_DW_TILE = 64,
    LS_DW_FEW_PLANES = 3, LS_DW_FEW_THREADS = 128,
    LS_DW_MANY_PLANES = 8, LS_DW_MANY_THREADS = 256
};

#endif
