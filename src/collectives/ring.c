/* SPDX-License-Identifier: MIT */
/* ring.c -- which chunk each rank sends, receives and adds at each ring step.
 *
 * Pure arithmetic: no memory, no threads, no device. reduce_ring.c asks this file what to move and
 * a link moves it, so the algorithm can be read, printed (`lockstep show ring N`) and tested for
 * every (rank, step, world size) on its own.
 *
 * N ranks stand in a ring and the buffer is cut into N chunks. Rank r only ever sends to r+1 and
 * receives from r-1 (mod N). Chunk sent by each rank, N = 4:
 *
 *     step        r0  r1  r2  r3
 *      0    ADD    3   0   1   2   \
 *      1    ADD    2   3   0   1    } reduce-scatter: then rank r owns chunk r
 *      2    ADD    1   2   3   0   /
 *      3    COPY   0   1   2   3   \
 *      4    COPY   3   0   1   2    } all-gather: then every rank owns them all
 *      5    COPY   2   3   0   1   /
 *
 * Both halves are one rotation, r-1-step (mod N); only the action changes. A rank sends at step+1
 * exactly the chunk it received at step.
 *
 * Order of addition: chunk c starts at rank c+1 and ends at rank c, whatever the timing; its sum is
 * computed once, on rank c, and then copied. This is why all replicas stay bit-identical. What
 * travels is pieces (tree.c), so that the sum is also the canonical tree's, for every N.
 *
 * Chunks and slices, count = 200, N = 3, slices of 32:
 *
 *     units      |0---|1---|2---|3---|4---|5---|6|        7 units, the last one short
 *     chunk      0 = units 0 1   1 = units 2 3   2 = units 4 5 6
 *     slices     2 of 2          2, 1 empty      3 = those of the largest chunk: each has 3
 *
 * A chunk or a slice that is empty is still a step: it is neither skipped nor padded, so every rank
 * counts the same transfers.
 *
 * Cost: with one running sum each rank sends 2(N-1)/N of the buffer, the least that any all-reduce
 * can (P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", Journal of Parallel and Distributed Computing 69(2), 2009: a rank must send what
 * N-1 others need of its own 1/N, and as much to bring the sums back). Pieces cost more in the
 * first half: see tree.c.
 */
#include "collectives/ring.h"

#include <assert.h>

#include "sizes.h"

/* i mod n in 0 .. n-1, also for negative i (C's % keeps the sign). */
static int wrap(int i, int n)
{
    return (i % n + n) % n;
}

int ls_ring_step_count(int world_size)
{
    assert(world_size >= 1);
    return 2 * (world_size - 1);
}

ls_ring_move ls_ring_move_at(int rank, int step, int world_size)
{
    assert(0 <= rank && rank < world_size);
    assert(0 <= step && step < ls_ring_step_count(world_size));
    return (ls_ring_move){
        .send_to = wrap(rank + 1, world_size),
        .recv_from = wrap(rank - 1, world_size),
        .send_chunk = wrap(rank - 1 - step, world_size),
        .recv_chunk = wrap(rank - 2 - step, world_size),
        .action = step < world_size - 1 ? LS_RING_ADD : LS_RING_COPY,
    };
}

static size_t unit_count(size_t count)
{
    return count / LS_CHUNK_UNIT + (count % LS_CHUNK_UNIT != 0);
}

ls_span ls_ring_chunk_span(size_t count, int chunk, int world_size)
{
    assert(0 <= chunk && chunk < world_size);
    const size_t c = (size_t)chunk, n = (size_t)world_size, units = unit_count(count);
    const size_t begin = ls_min_size(count, units * c / n * LS_CHUNK_UNIT);
    const size_t end = ls_min_size(count, units * (c + 1) / n * LS_CHUNK_UNIT);
    return (ls_span){ .begin = begin, .count = end - begin };
}

int ls_ring_slice_count(size_t count, int world_size, size_t slice_floats)
{
    assert(slice_floats > 0 && slice_floats % LS_CHUNK_UNIT == 0);
    const size_t n = (size_t)world_size, units = unit_count(count);
    const size_t largest = (units + n - 1) / n; /* the floors differ by at most this */
    const size_t slice_units = slice_floats / LS_CHUNK_UNIT;
    const size_t slices = (largest + slice_units - 1) / slice_units;
    return slices > 0 ? (int)slices : 1;
}

ls_span ls_ring_slice_span(ls_span chunk, int slice, size_t slice_floats)
{
    const size_t skip = ls_min_size(chunk.count, (size_t)slice * slice_floats);
    return (ls_span){ .begin = chunk.begin + skip,
                      .count = ls_min_size(chunk.count - skip, slice_floats) };
}
