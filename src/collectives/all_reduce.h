/* SPDX-License-Identifier: MIT */
/* all_reduce.h -- what the trainer asks of the collectives.
 *
 * A comm joins N devices. It owns the links (link.h), two streams per rank (`out` for copies, `in`
 * for copies and additions), and the records of what was sent and seen. All-reduce runs by ring,
 * tree or root; every algorithm gives the canonical tree's bits (EXACT) for every N, or the plain
 * ring's rotated order (FAST; ring only). gather and broadcast move rows without arithmetic.
 *
 * Every call below that takes a rank is collective: all ranks call it, in the same order, each
 * from its own thread, each with its own rank. Before a byte moves, all ranks meet and compare
 * (sequence number, kind, bucket, count, nodes); a mismatch names both sides and moves nothing
 * (DIVERGED).
 *
 * Nothing is trusted silently: each contribution carries its digest, computed by the sender on its
 * source and by the receiver in the kernel that consumes it; each finished bucket has a digest on
 * every rank. ls_comm_verify compares them at the end of a step. (A caller who looks at the results
 * anyway may compare those itself: `unnoted`.)
 *
 * After an error a buffer that was given to a collective may be freed only when every rank thread
 * has returned: until then another rank may be writing into it.
 *
 * Thread rule: created and destroyed by the main thread; used by the rank threads.
 */
#ifndef LS_COLLECTIVES_ALL_REDUCE_H
#define LS_COLLECTIVES_ALL_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "device/topology.h"
#include "kernels/fold.h"
#include "kernels/kernels.h"
#include "status.h"
#include "thread.h"

typedef enum {
    LS_ALGORITHM_AUTO,
    LS_ALGORITHM_RING,
    LS_ALGORITHM_TREE,
    LS_ALGORITHM_ROOT
} ls_algorithm;

typedef enum { LS_ORDER_EXACT, LS_ORDER_FAST } ls_order;

typedef struct ls_comm ls_comm;

typedef struct {
    ls_algorithm algorithm;   /* AUTO: tree if N >= 3 and all pairs are PEER or LOCAL, else ring;
                                 on host devices ring */
    ls_order order;
    int shard_count;          /* V */
    size_t bucket_floats_max; /* the largest bucket of any call: sizes slots and records */
    size_t slice_floats;      /* pipelining part of a chunk, a multiple of 32; 0: 64 Ki */
    int bucket_count_max;     /* all-reduces between two ls_comm_verify calls */
    size_t gather_bytes_max;  /* the largest row of a gather */
} ls_comm_config;

/* `device[r]` is rank r's open device with bound kernels. Allocates everything; after this no
 * collective allocates. Errors: ARGUMENT, MEMORY, DEVICE. */
LS_MUST_USE ls_status ls_comm_create(ls_group *group, ls_device *const *device,
                                     const ls_topology *topology, const ls_comm_config *config,
                                     ls_comm **out);
void ls_comm_destroy(ls_comm *comm); /* accepts NULL */

/* The algorithm in force, and why: "ring: host devices", "tree: 4 ranks, all pairs peer". */
ls_algorithm ls_comm_algorithm(const ls_comm *comm);
const char *ls_comm_reason(const ls_comm *comm);

/* What a rank brings to one all-reduce: its pieces of one bucket of the gradient arena. */
typedef struct {
    int bucket;             /* number, for messages and the rendezvous check */
    size_t count;           /* floats in the bucket */
    int piece_count;        /* 1 .. 16: the maximal nodes of this rank's shards, ascending */
    const ls_node *node;    /* [piece_count] */
    float *const *piece;    /* [piece_count] this rank's sums, each [count]; aligned to 128 bytes
                               it is fastest, to 4 it need be */
    float *result;          /* [count] the sum over all V shards; may be piece[0]; aligned so too */
    ls_event *ready;        /* recorded after the last op that wrote a piece */
    ls_event *done;         /* recorded by the call: the compute stream waits for it */
    bool unnoted;           /* no digest of the result: the caller compares results between ranks,
                               and calls ls_comm_note where they differ */
} ls_pieces;

/* The sum over all shards lands in `result` on every rank, the same bits. The pieces' contents are
 * undefined afterwards. N = 1: folds the rank's own pieces into result.
 * Async: `done` is recorded when the call returns; no byte of the pieces or the result may be
 * touched until it is waited for.  Errors: DIVERGED (rendezvous), TIMEOUT (names the rank that did
 * not come, or link, bucket and ring step), ABORTED, DEVICE. */
LS_MUST_USE ls_status ls_all_reduce(ls_comm *comm, int rank, const ls_pieces *pieces);

/* Rows of V shards, from their owners to everybody: rows[s] (row_bytes each, device memory of this
 * rank) is valid for the shards this rank owns before, for all V after. Async as above.
 * row_bytes is a multiple of 4. */
LS_MUST_USE ls_status ls_gather(ls_comm *comm, int rank, void *rows, size_t row_bytes,
                                ls_event *ready, ls_event *done);

/* Rank 0's buffer (device memory) to everybody. `count` may exceed bucket_floats_max. Async as
 * above. */
LS_MUST_USE ls_status ls_broadcast(ls_comm *comm, int rank, float *x, size_t count,
                                   ls_event *ready, ls_event *done);

/* Seconds, since the comm was made, in which this rank's thread waited in calls for other ranks'
 * threads to come, to send or to free a slot. Called by the rank. */
double ls_comm_waited(const ls_comm *comm, int rank);

/* Note the digest of a bucket's result, `count` floats at `x`, for the next ls_comm_verify: what an
 * `unnoted` all-reduce left out. Async: on a stream of the comm, which waits for none of the
 * caller's. Not collective, but after an ls_comm_verify all ranks must have met before it: others
 * may still be reading what was noted then. Errors: ARGUMENT (too many since then), DEVICE. */
LS_MUST_USE ls_status ls_comm_note(ls_comm *comm, int rank, int bucket, const float *x,
                                   size_t count);

/* End of a step: wait until this rank's streams are idle, compare every contribution's two digests
 * and every bucket's digest across ranks, and start new records. A mismatch (DIVERGED) names link,
 * bucket, ring step and both digests.
 * Happens-before: what any rank put into its pieces, for every rank's result, after it. */
LS_MUST_USE ls_status ls_comm_verify(ls_comm *comm, int rank);

/* Before tear-down after an abort: poll this rank's streams for at most `seconds`; true if they
 * are idle, so that memory may be freed. */
bool ls_comm_drain(ls_comm *comm, int rank, double seconds);

#endif
