/* SPDX-License-Identifier: MIT */
/* arena_blocks.h -- a pass over all tensors of the arena, by blocks of the flat sum (arena.c). */
#ifndef LS_KERNELS_HOST_ARENA_BLOCKS_H
#define LS_KERNELS_HOST_ARENA_BLOCKS_H

#include "kernels/host/host.h"
#include LS_SIMD

/* Doubles in a vector word, and words that hold a block's lanes. */
enum { LS_DOUBLES = LS_LANES / 2, LS_SQUARE_WORDS = LS_FLAT_LANES / LS_DOUBLES };

/* The lanes of a block's flat sums: of squares, and of what else the pass adds up. */
typedef struct {
    double square[LS_FLAT_LANES], other[LS_FLAT_LANES];
} ls_arena_lanes;

/* What was found in a part of a tensor. */
typedef struct {
    double square_sum, other_sum;
    uint64_t digest, sums_digest;
    uint64_t nonfinite; /* index in the tensor; LS_ALL_FINITE */
} ls_arena_part;

/* Work on elements [at, at + count) of a tensor, at most LS_FLAT_BLOCK. `lane`s are +0 before;
 * digests and nonfinite of `found` are those of earlier blocks. */
typedef void ls_arena_block_fn(const void *args, const ls_arena_tensor *tensor, size_t at,
                               size_t count, ls_arena_lanes *lane, ls_arena_part *found);

typedef struct {
    const ls_arena_table *tensors;
    const void *args;
    ls_arena_block_fn *block;
    void (*store)(const void *args, int tensor, const ls_arena_part *all); /* a tensor's sums */
    bool two_sums; /* `other` is summed as well */
} ls_arena_pass;

/* Blocks: until every tensor's sums are stored. */
void LS_HOST(arena_pass)(ls_stream *stream, const ls_arena_pass *pass);

/* lane[l] += x[l] squared, for count <= LS_FLAT_LANES elements. */
static inline void ls_add_square_of_each(double *restrict lane, const float *restrict x,
                                         size_t count)
{
    for (size_t l = 0; l < count; l++) lane[l] += (double)x[l] * (double)x[l];
}

#endif
