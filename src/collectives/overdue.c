/* SPDX-License-Identifier: MIT */
/* overdue.c -- nothing has moved for the timeout: which transfer is it that everybody waits for?
 *
 * One link that falls silent stops all ranks. Their waits end at about the same time, and most of
 * them wait for something that only waits itself. So transfers are given an order, in which each
 * comes after all that it depends on:
 *
 *     number of the call * 2^32 + 1 + place in the call
 *
 * with the place numbered by each algorithm; two transfers with the same place do not depend on
 * each other. The meeting that opens a call has the order just below its transfers'. What is lowest
 * of all that has not come depends on nothing that has not come: it is what hangs.
 *
 *     link 0 -> 1   t 8, complete   t 9, complete   t 10, incomplete   t 11, incomplete
 *     link 1 -> 2   t 8, complete   t 9, complete   t 10, complete     t 11, incomplete
 *     link 2 -> 0   t 8, complete   t 9, complete   t 10, complete     t 11, incomplete
 *
 * Each rank looks at the transfers that it has posted and taken (link.h watches the last of each
 * link) and at what its own wait was for, and lays open the lowest: its claim. The rank with the
 * lowest claim reports, of equal ones the lowest rank; the others give way until it has. A rank
 * that hangs in a call of the driver claims nothing; so nobody waits for claims for longer than
 * CLAIM_S.
 */
#include <time.h>

#include "collectives/comm.h"

static const double CLAIM_S = 0.5;  /* for the other ranks to claim */
static const double REPORT_S = 1.0; /* for the one with the lowest claim to report */

uint64_t ls_comm_order(const ls_comm *comm, const ls_comm_rank *me, int place)
{
    return ls_rendezvous_order(&comm->rendezvous, &me->channel) + 1 + (uint64_t)place;
}

typedef struct {
    const ls_link *link;
    const ls_transfer *transfer; /* NULL: none is late */
} late;

static void keep_older(late *oldest, const ls_link *link, const ls_transfer *transfer)
{
    if (transfer == NULL) return;
    if (oldest->transfer != NULL && oldest->transfer->order <= transfer->order) return;
    *oldest = (late){ link, transfer };
}

/* The oldest transfer from or to this rank whose bytes are under way or have not been sent. */
static ls_status find_oldest(ls_comm *comm, int rank, late *oldest)
{
    *oldest = (late){ .transfer = NULL };
    for (int other = 0; other < comm->world_size; other++) {
        ls_link *in = ls_comm_link(comm, other, rank), *out = ls_comm_link(comm, rank, other);
        const ls_transfer *transfer = NULL;
        if (in->to_device != NULL) {
            LS_TRY(ls_link_overdue(in, &transfer));
            keep_older(oldest, in, transfer);
        }
        if (out->to_device != NULL) {
            LS_TRY(ls_link_unsent(out, &transfer));
            keep_older(oldest, out, transfer);
        }
    }
    return LS_OK;
}

static ls_status fail_late(const late *what)
{
    char text[LS_TRANSFER_TEXT_BYTES];
    return ls_fail(LS_ERR_TIMEOUT, "%s: link %d -> %d (%s): the bytes did not come within the"
                                   " timeout%s",
                   ls_transfer_text(what->transfer, text), what->link->from, what->link->to,
                   ls_pair_kind_name(what->link->kind),
                   what->link->kind == LS_PAIR_PEER ? "; if it is this link that hangs, --p2p off"
                                                      " goes round it" : "");
}

/* Lay open `claim` and see those of the others: LS_OK if it is for this rank to report. */
static ls_status give_way(ls_comm *comm, int rank, uint64_t claim)
{
    const double begin = ls_clock();
    atomic_store(&comm->rank[rank].claim, claim);
    for (;;) {
        bool all = true, lowest = true;
        for (int r = 0; r < comm->world_size; r++) {
            const uint64_t other = atomic_load(&comm->rank[r].claim);
            if (other == 0) all = false;
            else if (other < claim || (other == claim && r < rank)) lowest = false;
        }
        if (ls_group_is_aborted(comm->group)) return LS_ERR_ABORTED;
        if (all && lowest) return LS_OK;
        if (ls_clock() - begin > (lowest ? CLAIM_S : REPORT_S)) return LS_OK;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

ls_status ls_comm_blame(ls_comm *comm, int rank, ls_status status)
{
    uint64_t claim = comm->rank[rank].channel.awaited;
    late oldest;
    if (status != LS_ERR_TIMEOUT) return status;
    LS_TRY(find_oldest(comm, rank, &oldest));
    if (oldest.transfer != NULL && oldest.transfer->order <= claim) {
        claim = oldest.transfer->order;
        status = fail_late(&oldest);
    }
    LS_TRY(give_way(comm, rank, claim));
    return status;
}
