/* SPDX-License-Identifier: MIT */
/* rendezvous.h -- all ranks meet before a collective moves a byte, and see what each one wants.
 *
 * Every rank hands in a record of its call; when all have, each rank sees all records and finds the
 * same mismatch, if there is one.
 *
 * Thread rule: one rendezvous is shared by all rank threads; made and freed by the main thread.
 */
#ifndef LS_COLLECTIVES_RENDEZVOUS_H
#define LS_COLLECTIVES_RENDEZVOUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/link.h"
#include "device/device.h"
#include "device/topology.h"
#include "kernels/fold.h"
#include "status.h"

typedef enum { LS_CALL_ALL_REDUCE, LS_CALL_GATHER, LS_CALL_BROADCAST, LS_CALL_VERIFY } ls_call_kind;

enum { LS_CALL_PIECES_MAX = 2 * LS_FOLD_MERGE_MAX };

/* What one rank asks for. Pointers are of that rank's device; others read them only as the call
 * allows. */
typedef struct {
    ls_call_kind kind;
    int bucket;                         /* all-reduce: its number; else -1 */
    size_t count;                       /* floats; gather: bytes of a row; verify: digests */
    int piece_count;                    /* all-reduce only */
    ls_node node[LS_CALL_PIECES_MAX];   /* [piece_count] */
    float *piece[LS_CALL_PIECES_MAX];   /* [piece_count] */
    void *result;                       /* where the rank wants it */
    ls_event *ready;                    /* recorded before the rank came here; NULL for verify */
    const uint64_t *digest;             /* verify: [count] host memory */
    const int *digest_bucket;           /* verify: [count] whose result each is of */
} ls_call;

/* One rank's half of the table; two records, because a rank may be one call ahead. */
typedef struct {
    atomic_size_t arrived; /* calls handed in; polled by the others */
    ls_call call[2];       /* call n in call[n % 2] */
} ls_rendezvous_seat;

typedef struct {
    int world_size;
    ls_rendezvous_seat seat[LS_WORLD_MAX];
} ls_rendezvous;

void ls_rendezvous_init(ls_rendezvous *rendezvous, int world_size);

/* Hand in this rank's call, wait for all others, and compare kind, bucket and count with rank 0's.
 * Blocks: until all came. Collective.
 * Errors: DIVERGED (on every rank, naming both sides), TIMEOUT (names the rank that did not come),
 * ABORTED. Happens-before: what a rank did before it came, for every rank that returns LS_OK. */
LS_MUST_USE ls_status ls_rendezvous_meet(ls_rendezvous *rendezvous, ls_channel *channel,
                                         const ls_call *mine);

/* What `rank` handed in at the call that `channel`'s rank is in; valid until its next meeting. */
const ls_call *ls_rendezvous_call_of(const ls_rendezvous *rendezvous, const ls_channel *channel,
                                     int rank);

/* Where the meeting of that call stands in ls_transfer's order; its transfers come after. */
uint64_t ls_rendezvous_order(const ls_rendezvous *rendezvous, const ls_channel *channel);

#endif
