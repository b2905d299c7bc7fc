/* SPDX-License-Identifier: MIT */
/* comm.h -- what the collectives share: a rank's state, its links, and how a call begins and ends.
 *
 * Internal to collectives/: the public face is all_reduce.h.
 *
 * A call of any kind is
 *
 *     ls_comm_begin      all ranks meet and compare; both streams wait for `ready`
 *     transfers          reduce_ring.c, reduce_direct.c or gather.c
 *     ls_comm_end        `done`: everything of this call on `in` and on `out`
 *
 * and, whatever comes of it, ls_comm_blame.
 *
 * Layout of what travels in a slot, and of the staging area a merge writes (`count` floats of a
 * slice, P pieces): equal, so that a merged slice is sent by one copy.
 *
 *     | piece 0, count floats, padding to 128 bytes | piece 1 ... | P digests of 8 bytes |
 *
 * Thread rule: ls_comm_rank is its rank's alone; the rest of ls_comm is written before the ranks
 * start, except the rendezvous and the links, which say who writes what.
 */
#ifndef LS_COLLECTIVES_COMM_H
#define LS_COLLECTIVES_COMM_H

#include "collectives/all_reduce.h"
#include "collectives/ledger.h"
#include "collectives/link.h"
#include "collectives/rendezvous.h"
#include "collectives/ring.h"
#include "collectives/tree.h"

typedef struct {
    ls_channel channel;
    ls_device *device;           /* borrowed */
    int place;                   /* in the ring */
    int own_count;               /* pieces that this rank brings */
    ls_node own[LS_SHARD_MAX];   /* [own_count] */
    ls_tree_stop *stop;          /* owned, [N]: stop i of the chunk that passes here i-th */
    unsigned char *stage;        /* owned, device: merged slices on their way, stage_bytes each */
    ls_event *made;              /* owned, [slice_count_max]: on `in`, the slice is there */
    ls_event left;               /* on `out`, at the end of a call */
    uint64_t *own_digest;        /* owned, device, [LS_SHARD_MAX]: of what is sent next, on `out` */
    ls_ledger ledger;
    int result_count;            /* results noted since the last check */
    int *result_bucket;          /* owned, [bucket_count_max] */
    uint64_t *result_digest;     /* owned, device, [bucket_count_max] */
    uint64_t *result_digest_host;/* owned, pinned, [bucket_count_max]; others read it in verify */
    atomic_uint_least64_t claim; /* overdue.c; 0: none */
} ls_comm_rank;

struct ls_comm {
    ls_group *group;             /* borrowed */
    int world_size;
    ls_comm_config config;       /* as given, slice_floats made definite */
    ls_algorithm algorithm;      /* never AUTO */
    char reason[128];
    int ring[LS_WORLD_MAX];      /* rank at each place */
    int slice_count_max;         /* of the largest bucket */
    size_t stage_bytes;          /* of one slice's area in `stage` */
    ls_tree_stop root;           /* tree and root: all ranks' pieces, in rank order, to the sum */
    ls_comm_rank *rank;          /* owned, [N] */
    ls_link *link;               /* owned, [N * N]: from a to b at a * N + b; all-zero if unused */
    ls_rendezvous rendezvous;
};

/* -- layout of a transfer -- */
size_t ls_payload_stride(size_t count);                  /* floats from piece to piece */
size_t ls_payload_digest_offset(size_t count, int pieces);
size_t ls_payload_bytes(size_t count, int pieces);       /* 0 if count is 0 */

ls_link *ls_comm_link(ls_comm *comm, int from, int to);

/* Does `rank` add up a chunk in this algorithm (tree: all ranks; root: rank 0)? */
bool ls_comm_is_owner(const ls_comm *comm, int rank);

LS_MUST_USE ls_status ls_comm_begin(ls_comm *comm, int rank, const ls_call *call);
LS_MUST_USE ls_status ls_comm_end(ls_comm *comm, int rank, ls_event *done);

/* Enqueue on `out`, between ls_link_send_begin and _end: this rank's own pieces of `span`, and
 * behind them their digests; or, if `digests_only`, these alone, at the slot's front. */
LS_MUST_USE ls_status ls_comm_push_own(ls_comm_rank *me, ls_link *link, const ls_pieces *pieces,
                                       ls_span span, bool digests_only);

/* Make room for `count` digests in the rank's ledger: compares what it holds if it is full. */
LS_MUST_USE ls_status ls_comm_ledger_room(ls_comm *comm, int rank, size_t count);

/* ls_transfer's order of the transfer that stands at `place` in the call that `me` is in. */
uint64_t ls_comm_order(const ls_comm *comm, const ls_comm_rank *me, int place);

/* The last thing a call does: `status` is how it ended. If that is TIMEOUT, find out whether what
 * this rank waited for is what everybody waits for; its message then names the oldest transfer that
 * has not come. If another rank knows better, ABORTED, once that rank has said so. Blocks: a second
 * at most. */
LS_MUST_USE ls_status ls_comm_blame(ls_comm *comm, int rank, ls_status status);

/* The transfers of one all-reduce, between ls_comm_begin and ls_comm_end. */
LS_MUST_USE ls_status ls_reduce_ring(ls_comm *comm, int rank, const ls_pieces *pieces);
LS_MUST_USE ls_status ls_reduce_direct(ls_comm *comm, int rank, const ls_pieces *pieces);

#endif
