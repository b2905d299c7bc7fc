/* SPDX-License-Identifier: MIT */
/* reduce_direct.c -- all-reduce by tree and by root: whoever owns a chunk adds it up at once.
 *
 *     tree   rank r owns chunk r: it reads every rank's pieces of it, adds them in the canonical
 *            tree, and writes the sum to all. Two hops, the bytes of a plain ring.
 *     root   rank 0 owns everything. N-1 times the bytes over one rank's links: slow and obvious,
 *            for checking the others.
 *
 * Four moves for each slice of the chunks; each rank sends before it receives, in both phases:
 *
 *     offer      r -> each owner   r's pieces of the owner's slice, and their digests
 *     collect    owner             one merge: all ranks' pieces in rank order, which is the order
 *                                  of their shards, to the sum; written to every result
 *     announce   owner -> each r   the sum
 *     accept     r                 takes it
 *
 * Over a LOCAL or PEER link the owner's merge reads the pieces and writes the results where they
 * are; a transfer then carries the digests (offer) or nothing (announce), and its events alone say
 * that the pieces may be read and that the result has been written. Over STAGED the bytes travel in
 * the slot. Both may occur in one call.
 *
 * A piece is not overwritten while an owner reads it: the rank's `done` comes after it accepted
 * every owner's sum, which was recorded after that owner's merge. A result may lie in the place of
 * a piece: the merge reads and writes the same element; over STAGED the piece was sent before the
 * sum can come.
 */
#include "collectives/comm.h"

typedef struct {
    ls_comm *comm;
    ls_comm_rank *me;
    int rank;
    const ls_pieces *pieces;
    int slice;
} direct_call;

/* The part of `owner`'s chunk that is this slice. */
static ls_span slice_of(const direct_call *call, int owner)
{
    const size_t count = call->pieces->count;
    const bool root = call->comm->algorithm == LS_ALGORITHM_ROOT;
    const ls_span chunk = root ? (ls_span){ .begin = 0, .count = owner == 0 ? count : 0 }
                               : ls_ring_chunk_span(count, owner, call->comm->world_size);
    return ls_ring_slice_span(chunk, call->slice, call->comm->config.slice_floats);
}

static const ls_call *call_of(const direct_call *call, int rank)
{
    return ls_rendezvous_call_of(&call->comm->rendezvous, &call->me->channel, rank);
}

/* Offers are ring step 0 of messages, announcements 1. A rank sends those of one hop by ascending
 * distance, each after the one before. */
static ls_transfer transfer_of(const direct_call *call, int hop, int from, int to)
{
    const int world_size = call->comm->world_size, distance = (to - from + world_size) % world_size;
    return (ls_transfer){ "bucket", call->pieces->bucket, hop,
                          ls_comm_order(call->comm, call->me,
                                        (call->slice * 2 + hop) * world_size + distance) };
}

/* -- offer ------------------------------------------------------------------------------------ */

static ls_status offer(const direct_call *call, int owner)
{
    ls_link *link = ls_comm_link(call->comm, call->rank, owner);
    const ls_transfer transfer = transfer_of(call, 0, call->rank, owner);
    const ls_span span = slice_of(call, owner);
    LS_TRY(ls_link_send_begin(link, &call->me->channel, &transfer));
    /* Where the owner reads the pieces itself, only digests travel. */
    if (span.count > 0) {
        LS_TRY(ls_comm_push_own(call->me, link, call->pieces, span, ls_link_is_direct(link)));
    }
    return ls_link_send_end(link, &call->me->channel);
}

/* -- collect ---------------------------------------------------------------------------------- */

/* Take one rank's offer: its sources into args->source[source ...], its digests into the ledger. */
static ls_status take_offer(const direct_call *call, int from, ls_span span, int source,
                            size_t sent, ls_merge_args *args)
{
    ls_comm_rank *me = call->me;
    ls_link *link = ls_comm_link(call->comm, from, call->rank);
    const int count = call->comm->rank[from].own_count;
    const bool direct = ls_link_is_direct(link);
    const void *data = NULL;
    LS_TRY(ls_link_land(link, &me->channel, ls_payload_bytes(span.count, count), &data));
    LS_TRY(ls_copy_within(&me->channel.in,
                          ls_ledger_digest_at(&me->ledger, sent + (size_t)source),
                          (const unsigned char *)data +
                              (direct ? 0 : ls_payload_digest_offset(span.count, count)),
                          (size_t)count * sizeof(uint64_t)));
    for (int p = 0; p < count; p++) {
        args->source[source + p] =
            direct ? call_of(call, from)->piece[p] + span.begin
                   : (const float *)data + (size_t)p * ls_payload_stride(span.count);
    }
    if (direct) args->out[args->out_count++] = (float *)call_of(call, from)->result + span.begin;
    return LS_OK;
}

static void enter_contributions(const direct_call *call, size_t sent, size_t seen)
{
    int source = 0;
    for (int from = 0; from < call->comm->world_size; from++) {
        for (int p = 0; p < call->comm->rank[from].own_count; p++, source++) {
            if (from == call->rank) continue;
            const ls_ledger_entry entry = { .from = from, .to = call->rank,
                                            .transfer = transfer_of(call, 0, from, call->rank),
                                            .node = call->comm->rank[from].own[p],
                                            .sent = sent + (size_t)source,
                                            .seen = seen + (size_t)source };
            ls_ledger_enter(&call->me->ledger, &entry);
        }
    }
}

/* One merge from all pieces to all results that this rank can reach. */
static ls_status merge_offers(const direct_call *call, ls_span span)
{
    ls_comm_rank *me = call->me;
    const ls_tree_stop *root = &call->comm->root;
    const size_t total = (size_t)root->in_count;
    const size_t sent = ls_ledger_reserve(&me->ledger, total);
    const size_t seen = ls_ledger_reserve(&me->ledger, total);
    ls_merge_args args = { .count = span.count, .source_count = root->in_count, .out_count = 1,
                           .source_digest = ls_ledger_digest_at(&me->ledger, seen) };
    args.out[0] = call->pieces->result + span.begin;
    /* Ranks own ascending shards: rank order is the order of root's walk, source k is entry k. */
    int source = 0;
    for (int from = 0; from < call->comm->world_size; from++) {
        if (from == call->rank) {
            for (int p = 0; p < me->own_count; p++) {
                args.source[source + p] = call->pieces->piece[p] + span.begin;
            }
        } else {
            LS_TRY(take_offer(call, from, span, source, sent, &args));
        }
        source += call->comm->rank[from].own_count;
    }
    for (int k = 0; k < root->in_count; k++) args.adds[k] = root->adds[k];
    LS_TRY(ls_merge(&me->channel.in, &args));
    enter_contributions(call, sent, seen);
    return LS_OK;
}

static ls_status collect(const direct_call *call)
{
    ls_comm_rank *me = call->me;
    const int world_size = call->comm->world_size;
    const ls_span span = slice_of(call, call->rank);
    LS_TRY(ls_comm_ledger_room(call->comm, call->rank, 2 * (size_t)call->comm->root.in_count));
    for (int i = 1; i < world_size; i++) {
        const int from = (call->rank + i) % world_size;
        const ls_transfer transfer = transfer_of(call, 0, from, call->rank);
        LS_TRY(ls_link_recv_begin(ls_comm_link(call->comm, from, call->rank), &me->channel,
                                  &transfer));
    }
    if (span.count > 0) LS_TRY(merge_offers(call, span));
    LS_TRY(ls_event_record(&me->made[0], &me->channel.in));
    for (int i = 1; i < world_size; i++) {
        const int from = (call->rank + i) % world_size;
        LS_TRY(ls_link_recv_end(ls_comm_link(call->comm, from, call->rank), &me->channel));
    }
    return LS_OK;
}

/* -- announce, accept ------------------------------------------------------------------------- */

static ls_status announce(const direct_call *call, int to)
{
    ls_channel *channel = &call->me->channel;
    ls_link *link = ls_comm_link(call->comm, call->rank, to);
    const ls_transfer transfer = transfer_of(call, 1, call->rank, to);
    const ls_span span = slice_of(call, call->rank);
    LS_TRY(ls_link_send_begin(link, channel, &transfer));
    LS_TRY(ls_stream_wait(&channel->out, &call->me->made[0]));
    if (!ls_link_is_direct(link)) {
        LS_TRY(ls_link_push(link, channel, 0, call->pieces->result + span.begin,
                            span.count * sizeof(float)));
    }
    return ls_link_send_end(link, channel);
}

static ls_status accept_sum(const direct_call *call, int owner)
{
    ls_channel *channel = &call->me->channel;
    ls_link *link = ls_comm_link(call->comm, owner, call->rank);
    const ls_transfer transfer = transfer_of(call, 1, owner, call->rank);
    const ls_span span = slice_of(call, owner);
    LS_TRY(ls_link_recv_begin(link, channel, &transfer));
    if (!ls_link_is_direct(link)) {
        LS_TRY(ls_link_pull(link, channel, 0, call->pieces->result + span.begin,
                            span.count * sizeof(float)));
    }
    return ls_link_recv_end(link, channel);
}

/* -- one slice -------------------------------------------------------------------------------- */

static ls_status move_slice(const direct_call *call)
{
    const int world_size = call->comm->world_size;
    const bool owner = ls_comm_is_owner(call->comm, call->rank);
    for (int i = 1; i < world_size; i++) {
        const int to = (call->rank + i) % world_size;
        if (ls_comm_is_owner(call->comm, to)) LS_TRY(offer(call, to));
    }
    if (owner) LS_TRY(collect(call));
    for (int i = 1; owner && i < world_size; i++) {
        LS_TRY(announce(call, (call->rank + i) % world_size));
    }
    for (int i = 1; i < world_size; i++) {
        const int from = (call->rank + i) % world_size;
        if (ls_comm_is_owner(call->comm, from)) LS_TRY(accept_sum(call, from));
    }
    return LS_OK;
}

ls_status ls_reduce_direct(ls_comm *comm, int rank, const ls_pieces *pieces)
{
    const int parts = comm->algorithm == LS_ALGORITHM_ROOT ? 1 : comm->world_size;
    const int slices = ls_ring_slice_count(pieces->count, parts, comm->config.slice_floats);
    direct_call call = { .comm = comm, .me = &comm->rank[rank], .rank = rank, .pieces = pieces };
    for (call.slice = 0; call.slice < slices; call.slice++) LS_TRY(move_slice(&call));
    return LS_OK;
}
