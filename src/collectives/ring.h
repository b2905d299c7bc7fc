/* SPDX-License-Identifier: MIT */
/* ring.h -- the ring's schedule: who sends which part of a buffer to whom, at each ring step.
 *
 * Ranks here are places in the ring, 0 .. N-1; where the ring is not 0, 1, 2, ... the caller maps
 * places to ranks. ring.c has the picture and the reason.
 *
 * Pure: arithmetic on small integers.
 */
#ifndef LS_COLLECTIVES_RING_H
#define LS_COLLECTIVES_RING_H

#include <stddef.h>

#include "status.h"

/* Chunks are cut in units of 32 floats, so that each starts on 128 bytes if the buffer does. */
enum { LS_CHUNK_UNIT = 32 };

/* A part of a buffer: elements [begin, begin + count). */
typedef struct {
    size_t begin;
    size_t count;
} ls_span;

typedef enum {
    LS_RING_ADD, /* reduce-scatter: the receiver adds what is its own */
    LS_RING_COPY /* all-gather: the receiver keeps what it gets */
} ls_ring_action;

typedef struct {
    int send_to;
    int recv_from;
    int send_chunk;
    int recv_chunk;
    ls_ring_action action;
} ls_ring_move;

/* Ring steps in one all-reduce; 0 when there is nobody to talk to. */
int ls_ring_step_count(int world_size);

/* What `rank` does at `step`, 0 <= step < ls_ring_step_count(world_size). */
ls_ring_move ls_ring_move_at(int rank, int step, int world_size);

/* The part of a buffer of `count` elements that is `chunk`. Every chunk but the last that is not
 * empty is whole units; with few units some chunks are empty. */
ls_span ls_ring_chunk_span(size_t count, int chunk, int world_size);

/* Slices that every chunk of a buffer of `count` elements is moved in: those that the largest
 * chunk needs, at least 1. `slice_floats` is a multiple of LS_CHUNK_UNIT. */
int ls_ring_slice_count(size_t count, int world_size, size_t slice_floats);

/* Slice `slice` of `chunk`; empty past the chunk's end. */
ls_span ls_ring_slice_span(ls_span chunk, int slice, size_t slice_floats);

/* The schedule as a page of text: the table of ring.c's head for `world_size` ranks, then what
 * travels over each link at each ring step of the reduce-scatter half, as pieces of `shard_count`
 * shards, and what the receiver adds (tree.h).
 * Owns: *text is the caller's to free().  Errors: ARGUMENT (world_size < 1 or > shard_count,
 * shard_count > LS_SHARD_MAX), MEMORY. */
LS_MUST_USE ls_status ls_ring_describe(int world_size, int shard_count, char **text);

#endif
