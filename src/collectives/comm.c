/* SPDX-License-Identifier: MIT */
/* comm.c -- the frame that every call has in common, and the check at a step's end.
 *
 * A call begins with a meeting and ends with one event that covers both streams. Nothing in between
 * waits for a device; only the check does, and a ledger that is full.
 *
 * The check, on each rank: both streams idle; its contributions' digests equal on both sides; then
 * all ranks meet, and each compares every bucket's digest on all ranks.
 */
#include "collectives/comm.h"

#include <inttypes.h>
#include <sched.h>

/* -- layout ----------------------------------------------------------------------------------- */

size_t ls_payload_stride(size_t count)
{
    return (count + LS_CHUNK_UNIT - 1) / LS_CHUNK_UNIT * LS_CHUNK_UNIT;
}

size_t ls_payload_digest_offset(size_t count, int pieces)
{
    return (size_t)pieces * ls_payload_stride(count) * sizeof(float);
}

size_t ls_payload_bytes(size_t count, int pieces)
{
    if (count == 0) return 0;
    return ls_payload_digest_offset(count, pieces) + (size_t)pieces * sizeof(uint64_t);
}

ls_link *ls_comm_link(ls_comm *comm, int from, int to)
{
    return &comm->link[from * comm->world_size + to];
}

bool ls_comm_is_owner(const ls_comm *comm, int rank)
{
    return comm->algorithm == LS_ALGORITHM_TREE || rank == 0;
}

ls_algorithm ls_comm_algorithm(const ls_comm *comm)
{
    return comm->algorithm;
}

double ls_comm_waited(const ls_comm *comm, int rank)
{
    return comm->rank[rank].channel.waited;
}

const char *ls_comm_reason(const ls_comm *comm)
{
    return comm->reason;
}

/* -- the frame of a call ---------------------------------------------------------------------- */

ls_status ls_comm_begin(ls_comm *comm, int rank, const ls_call *call)
{
    ls_channel *channel = &comm->rank[rank].channel;
    LS_TRY(ls_rendezvous_meet(&comm->rendezvous, channel, call));
    LS_TRY(ls_stream_wait(&channel->out, call->ready));
    return ls_stream_wait(&channel->in, call->ready);
}

ls_status ls_comm_end(ls_comm *comm, int rank, ls_event *done)
{
    ls_comm_rank *me = &comm->rank[rank];
    /* `out` still reads pieces, results and rows: without this edge the caller could overwrite
     * them while they are being sent. */
    LS_TRY(ls_event_record(&me->left, &me->channel.out));
    LS_TRY(ls_stream_wait(&me->channel.in, &me->left));
    return ls_event_record(done, &me->channel.in);
}

ls_status ls_comm_push_own(ls_comm_rank *me, ls_link *link, const ls_pieces *pieces, ls_span span,
                           bool digests_only)
{
    const int count = me->own_count;
    const size_t stride_bytes = ls_payload_stride(span.count) * sizeof(float);
    for (int p = 0; p < count; p++) {
        const float *piece = pieces->piece[p] + span.begin;
        const ls_digest_args digest = { .count = span.count, .x = piece,
                                        .out = me->own_digest + p };
        LS_TRY(ls_digest(&me->channel.out, &digest));
        if (digests_only) continue;
        LS_TRY(ls_link_push(link, &me->channel, (size_t)p * stride_bytes, piece,
                            span.count * sizeof(float)));
    }
    return ls_link_push(link, &me->channel,
                        digests_only ? 0 : ls_payload_digest_offset(span.count, count),
                        me->own_digest, (size_t)count * sizeof(uint64_t));
}

static ls_status poll_idle(ls_comm *comm, int rank, bool *idle)
{
    ls_channel *channel = &comm->rank[rank].channel;
    bool out_idle = false, in_idle = false;
    LS_TRY(ls_stream_poll(&channel->out, &out_idle));
    LS_TRY(ls_stream_poll(&channel->in, &in_idle));
    *idle = out_idle && in_idle;
    return LS_OK;
}

/* Host-wait until both of the rank's streams are idle. */
static ls_status settle(ls_comm *comm, int rank)
{
    ls_wait wait = ls_wait_begin(comm->group);
    bool idle = false;
    ls_status status = poll_idle(comm, rank, &idle);
    while (status == LS_OK && !idle) {
        ls_device_look(comm->rank[rank].device);
        status = ls_wait_poll(&wait);
        if (status == LS_OK) status = poll_idle(comm, rank, &idle);
    }
    if (status != LS_ERR_TIMEOUT) return status;
    comm->rank[rank].channel.awaited = UINT64_MAX;
    return ls_fail(LS_ERR_TIMEOUT, "rank %d: its copies and additions did not end within the"
                                   " timeout, though all transfers have come", rank);
}

ls_status ls_comm_ledger_room(ls_comm *comm, int rank, size_t count)
{
    ls_comm_rank *me = &comm->rank[rank];
    if (ls_ledger_has_room(&me->ledger, count)) return LS_OK;
    /* What is enqueued runs to its end without this thread (link.c), so waiting here is safe. */
    LS_TRY(ls_ledger_fetch(&me->ledger, &me->channel.in));
    LS_TRY(settle(comm, rank));
    return ls_ledger_compare(&me->ledger);
}

/* -- the check -------------------------------------------------------------------------------- */

/* The rank whose digest of result i most ranks share; with a tie the lowest. */
static int majority_rank(ls_comm *comm, int rank, size_t i)
{
    const ls_channel *channel = &comm->rank[rank].channel;
    int best = 0, best_votes = 0;
    for (int a = 0; a < comm->world_size; a++) {
        const uint64_t digest = ls_rendezvous_call_of(&comm->rendezvous, channel, a)->digest[i];
        int votes = 0;
        for (int b = 0; b < comm->world_size; b++) {
            votes += ls_rendezvous_call_of(&comm->rendezvous, channel, b)->digest[i] == digest;
        }
        if (votes <= best_votes) continue;
        best = a;
        best_votes = votes;
    }
    return best;
}

static ls_status compare_results(ls_comm *comm, int rank)
{
    const ls_channel *channel = &comm->rank[rank].channel;
    const ls_call *mine = ls_rendezvous_call_of(&comm->rendezvous, channel, rank);
    for (size_t i = 0; i < mine->count; i++) {
        const int reference = majority_rank(comm, rank, i);
        const uint64_t want =
            ls_rendezvous_call_of(&comm->rendezvous, channel, reference)->digest[i];
        for (int r = 0; r < comm->world_size; r++) {
            const ls_call *call = ls_rendezvous_call_of(&comm->rendezvous, channel, r);
            if (call->digest[i] == want) continue;
            return ls_fail(LS_ERR_DIVERGED,
                           "bucket %d: the result of rank %d has digest %016" PRIx64
                           ", that of rank %d %016" PRIx64, call->digest_bucket[i], r,
                           call->digest[i], reference, want);
        }
    }
    return LS_OK;
}

static ls_status verify(ls_comm *comm, int rank)
{
    ls_comm_rank *me = &comm->rank[rank];
    if (comm->world_size == 1) return settle(comm, rank);
    LS_TRY(ls_ledger_fetch(&me->ledger, &me->channel.in));
    LS_TRY(ls_copy_to_host(&me->channel.in, me->result_digest_host, me->result_digest,
                           (size_t)me->result_count * sizeof(uint64_t)));
    LS_TRY(settle(comm, rank));
    LS_TRY(ls_ledger_compare(&me->ledger));
    const ls_call call = { .kind = LS_CALL_VERIFY, .bucket = -1, .count = (size_t)me->result_count,
                           .digest = me->result_digest_host, .digest_bucket = me->result_bucket };
    me->result_count = 0;
    /* Others read this rank's two arrays after the meeting; they are written again only after
     * another one, which every rank reaches after it has left this function: an all-reduce's, or
     * the caller's (ls_comm_note). */
    LS_TRY(ls_rendezvous_meet(&comm->rendezvous, &me->channel, &call));
    return compare_results(comm, rank);
}

ls_status ls_comm_verify(ls_comm *comm, int rank)
{
    return ls_comm_blame(comm, rank, verify(comm, rank));
}

bool ls_comm_drain(ls_comm *comm, int rank, double seconds)
{
    const double end = ls_clock() + seconds;
    bool idle = false;
    while (poll_idle(comm, rank, &idle) == LS_OK && !idle && ls_clock() < end) {
        sched_yield();
    }
    return idle;
}
