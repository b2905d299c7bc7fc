/* SPDX-License-Identifier: MIT */
/* reduction.h -- a comm over host devices or GPUs, and all-reduces whose right answer is known.
 *
 * Shard s contributes shard_value(seed, s, i) to element i: numbers of mixed sign and size, so that
 * another order of addition gives other bits. What must come out is computed element by element, by
 * the recursion that defines the canonical tree (or, for FAST, by adding along the ring), from the
 * shards alone: nothing of src/collectives is used for it.
 *
 * Thread rule: open, close and the expectations belong to the main thread; what a rank does is done
 * on its thread, and returns a status. Buffers are the main thread's to free: when a rank fails,
 * the others may still be writing into its memory.
 */
#ifndef TEST_SUPPORT_REDUCTION_H
#define TEST_SUPPORT_REDUCTION_H

#include "collectives/all_reduce.h"
#include "support/faulty_device.h"

typedef enum {
    PAIRS_PEER,
    PAIRS_STAGED,
    PAIRS_MIXED, /* by the ranks' numbers, differently in the two directions of some pairs */
    PAIRS_LOCAL
} pair_pattern;

typedef struct {
    int world_size;
    int shard_count;
    ls_algorithm algorithm;
    ls_order order;
    pair_pattern pairs;
    bool turn_ring;      /* the ring visits 0, N-1, N-2, ... */
    bool in_place;       /* result is the first piece's buffer */
    bool unnoted;        /* ls_pieces has it */
    size_t slice_floats;
    size_t count_max;
    int calls_max;       /* all-reduces between checks; 0: 8 */
    double timeout_s;    /* 0: 60 */
    fault *fault;        /* of rank fault_rank's device; all devices are wrapped if not NULL */
    int fault_rank;
    ls_device *const *device; /* [world_size] borrowed, open, with kernels: GPUs, of which two
                                 ranks may share one and are LOCAL; NULL: host devices */
} reduction_settings;

/* A rank's buffers and events. Buffer p holds piece p; the last one the result. */
typedef struct {
    ls_stream compute;
    ls_event ready, done;
    int piece_count;
    ls_node node[16];
    void *memory[17];
    float *piece[16];
    float *result;
    float *host;         /* pinned, [count_max + 64]: contents of one buffer on their way */
} reduction_rank;

typedef struct {
    reduction_settings settings;
    ls_group *group;
    ls_device *device[LS_WORLD_MAX];
    ls_topology topology;
    ls_comm *comm;
    reduction_rank rank[LS_WORLD_MAX];
    size_t offset;       /* floats in front of every buffer: 0 .. 32 */
    int bucket;          /* number of the next all-reduce */
    size_t count;        /* of the next all-reduce */
    uint64_t seed;
    float *want;         /* [count_max] what must come out */
} reduction;

ls_status reduction_open(reduction *r, const reduction_settings *settings);
void reduction_close(reduction *r);

/* Compute r->want for r->count and r->seed. */
void reduction_expect(reduction *r);

/* Submit the pieces as they are, the first piece_count of them, and return without waiting. */
ls_status reduction_submit(reduction *r, int rank, int bucket, size_t count, int piece_count);

/* Fill the pieces, all-reduce, wait, check, and compare with r->want: VERIFY names the first
 * element that differs. */
ls_status reduction_rank_run(reduction *r, int rank);

/* Buffer p of this rank, from where its offset ends, from and to mine->host; waits for the copy. */
ls_status reduction_put(reduction *r, reduction_rank *mine, int p, size_t count);
ls_status reduction_get(reduction *r, reduction_rank *mine, int p, size_t count);

/* All of it on all ranks: one all-reduce of r->count. */
ls_status reduction_run_once(reduction *r);

/* What a rank does on its thread. */
typedef ls_status reduction_body(reduction *r, int rank, reduction_rank *mine);

/* Open r, and do this on all its ranks; the status is the group's. The caller closes r. */
ls_status reduction_run_body(reduction *r, const reduction_settings *settings, size_t count,
                             reduction_body *body);

/* Two bodies: gather a row of each shard; broadcast r->count floats. VERIFY if one is wrong. */
reduction_body reduction_gather_check, reduction_broadcast_check;

#endif
