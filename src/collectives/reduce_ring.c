/* SPDX-License-Identifier: MIT */
/* reduce_ring.c -- the ring all-reduce: ring.c says which chunk, tree.c which pieces, a link moves.
 *
 * For each ring step, for each slice of a chunk: send, then receive. Transfer numbers are the same
 * on all links of the ring, and each rank sends transfer t before it waits for transfer t, which
 * is what link.c asks for.
 *
 *     first half, ADD                                     second half, COPY
 *     stop 0   own pieces ----------------> slot          result of own chunk -----> result
 *     stop i   slot + own pieces -> staged -> slot        result as received ------> result
 *     stop N-1 slot + own pieces -> result
 *
 * Where memory is shared (ls_link_is_shared) the own pieces of stop 0 do not travel: the transfer
 * carries their digests alone, and stop 1 reads the pieces where they are. They are not overwritten
 * meanwhile: what is written in their place is the finished chunk, which comes after that reading.
 * And the merge that finishes a chunk writes it to the next rank's result as well: the first
 * transfer of the second half then carries nothing, and says as ever that the chunk is there.
 *
 * In the second half LOCAL and PEER links write straight into the neighbour's result. That memory
 * is free for it: the finished chunk c depends on what every rank brought to chunk c, so each
 * rank's `ready` has passed and its own pieces of chunk c, which may lie in the same place, have
 * been read (of two ranks, in the merge itself: an element is read before it is written).
 *
 * Events on one rank (streams: in, out):
 *   made[slice]      recorded on in when the slice has been merged or received; out waits for it
 *                    before it sends the slice at the next step.
 *   full of the      a merge overwrites the staged slice that the send of the same step and slice
 *   outgoing link    has just read; so in waits for that send's own record, made just before.
 *
 * Under FAST the running sum takes the place of the pieces; a rank with several pieces first adds
 * up its own, at stop 0.
 */
#include "collectives/comm.h"

typedef struct {
    ls_comm *comm;
    ls_comm_rank *me;
    const ls_pieces *pieces;
    ls_link *to_next;      /* the ring's link from this rank */
    ls_link *from_previous;
    const ls_call *previous; /* the previous rank's */
    float *next_result;    /* the next rank's result, if to_next is direct */
    int slice_count;
} ring_call;

static ls_transfer transfer_at(const ring_call *call, int step, int slice)
{
    return (ls_transfer){ "bucket", call->pieces->bucket, step,
                          ls_comm_order(call->comm, call->me, step * call->slice_count + slice) };
}

static ls_span slice_at(const ring_call *call, int chunk, int slice)
{
    const ls_span span = ls_ring_chunk_span(call->pieces->count, chunk, call->comm->world_size);
    return ls_ring_slice_span(span, slice, call->comm->config.slice_floats);
}

static unsigned char *stage_at(const ring_call *call, int slice)
{
    return call->me->stage + (size_t)slice * call->comm->stage_bytes;
}

/* -- merging ---------------------------------------------------------------------------------- */

/* Where a merge takes what arrived and puts what it makes. */
typedef struct {
    const ls_tree_stop *stop;
    ls_span span;
    const float *arrived;   /* in a slot's layout; NULL at stop 0, or if `lent` */
    const ls_call *lent;    /* the previous rank's, whose pieces are read where they are; or NULL */
    uint64_t *seen;         /* ledger: a digest per entry of the stop; NULL at stop 0 */
    unsigned char *stage;   /* in a slot's layout; NULL: the sum goes to the results */
} merge_place;

static const float *source_at(const ring_call *call, const merge_place *at, int source)
{
    if (source < at->stop->in_count && at->lent != NULL) {
        return at->lent->piece[source] + at->span.begin;
    }
    if (source < at->stop->in_count) {
        return at->arrived + (size_t)source * ls_payload_stride(at->span.count);
    }
    return call->pieces->piece[source - at->stop->in_count] + at->span.begin;
}

static ls_status merge_piece(const ring_call *call, const merge_place *at, int m)
{
    const ls_tree_stop *stop = at->stop;
    const int first = stop->first[m];
    ls_merge_args args = { .count = at->span.count,
                           .source_count = stop->first[m + 1] - first,
                           .out_count = 1 };
    for (int k = 0; k < args.source_count; k++) {
        args.source[k] = source_at(call, at, stop->source[first + k]);
        args.adds[k] = stop->adds[first + k];
    }
    if (at->seen != NULL) args.source_digest = at->seen + first;
    if (at->stage == NULL) {
        args.out[0] = call->pieces->result + at->span.begin;
        if (ls_link_is_shared(call->to_next))
            args.out[args.out_count++] = call->next_result + at->span.begin;
    } else {
        const size_t digests = ls_payload_digest_offset(at->span.count, stop->out_count);
        args.out[0] = (float *)(void *)at->stage + (size_t)m * ls_payload_stride(at->span.count);
        args.out_digest = (uint64_t *)(void *)(at->stage + digests) + m;
    }
    return ls_merge(&call->me->channel.in, &args);
}

static ls_status merge_pieces(const ring_call *call, const merge_place *at)
{
    for (int m = 0; m < at->stop->out_count; m++) LS_TRY(merge_piece(call, at, m));
    return LS_OK;
}

/* -- first half ------------------------------------------------------------------------------- */

static ls_status push_stage(const ring_call *call, const ls_tree_stop *stop, ls_span span,
                            int slice)
{
    ls_channel *channel = &call->me->channel;
    LS_TRY(ls_stream_wait(&channel->out, &call->me->made[slice]));
    return ls_link_push(call->to_next, channel, 0, stage_at(call, slice),
                        ls_payload_bytes(span.count, stop->out_count));
}

/* FAST, stop 0, several pieces: their sum is staged and leaves in their place. What an earlier call
 * sent from this area has been read: it came back on `in`, in the finished chunks. */
static ls_status stage_own_sum(const ring_call *call, ls_span span, int slice)
{
    ls_comm_rank *me = call->me;
    const merge_place at = { .stop = &me->stop[0], .span = span, .stage = stage_at(call, slice) };
    LS_TRY(merge_pieces(call, &at));
    return ls_event_record(&me->made[slice], &me->channel.in);
}

/* Do the pieces that `rank`'s stop 0 sends over `link` stay where they are? */
static bool is_lent(const ring_call *call, int rank, const ls_link *link)
{
    const ls_tree_stop *first = &call->comm->rank[rank].stop[0];
    return ls_link_is_shared(link) && first->out_count == first->own_count;
}

static ls_status send_pieces(const ring_call *call, int step, int chunk, int slice)
{
    const ls_span span = slice_at(call, chunk, slice);
    const ls_tree_stop *stop = &call->me->stop[step];
    const ls_transfer transfer = transfer_at(call, step, slice);
    const bool as_they_are = step == 0 && stop->out_count == stop->own_count;
    if (span.count > 0 && step == 0 && !as_they_are) LS_TRY(stage_own_sum(call, span, slice));
    LS_TRY(ls_link_send_begin(call->to_next, &call->me->channel, &transfer));
    if (span.count > 0) {
        const bool lent = as_they_are && is_lent(call, call->me->channel.rank, call->to_next);
        LS_TRY(as_they_are ? ls_comm_push_own(call->me, call->to_next, call->pieces, span, lent)
                           : push_stage(call, stop, span, slice));
    }
    return ls_link_send_end(call->to_next, &call->me->channel);
}

/* Enter a transfer's contributions: the sender's digests are at `sent`, the merge's at `seen`. */
static void enter_contributions(const ring_call *call, const ls_tree_stop *stop,
                                const ls_transfer *transfer, size_t sent, size_t seen)
{
    for (int k = 0; k < stop->first[stop->out_count]; k++) {
        const int source = stop->source[k];
        if (source >= stop->in_count) continue; /* an own piece */
        const ls_ledger_entry entry = { .from = call->from_previous->from,
                                        .to = call->from_previous->to,
                                        .transfer = *transfer,
                                        .node = stop->in[source],
                                        .sent = sent + (size_t)source,
                                        .seen = seen + (size_t)k };
        ls_ledger_enter(&call->me->ledger, &entry);
    }
}

static ls_status merge_arrived(const ring_call *call, const ls_transfer *transfer, ls_span span,
                               int slice)
{
    ls_comm_rank *me = call->me;
    const ls_tree_stop *stop = &me->stop[transfer->step + 1];
    const bool last = transfer->step + 2 == call->comm->world_size;
    const bool lent = transfer->step == 0
                      && is_lent(call, call->from_previous->from, call->from_previous);
    const size_t in_count = (size_t)stop->in_count;
    const size_t sent = ls_ledger_reserve(&me->ledger, in_count);
    const size_t seen = ls_ledger_reserve(&me->ledger, (size_t)stop->first[stop->out_count]);
    const void *data = NULL;
    LS_TRY(ls_link_land(call->from_previous, &me->channel,
                        ls_payload_bytes(span.count, stop->in_count), &data));
    LS_TRY(ls_copy_within(&me->channel.in, ls_ledger_digest_at(&me->ledger, sent),
                          (const unsigned char *)data +
                              (lent ? 0 : ls_payload_digest_offset(span.count, stop->in_count)),
                          in_count * sizeof(uint64_t)));
    /* The staged slice is still being read by this step's send. */
    LS_TRY(ls_stream_wait(&me->channel.in, ls_link_last_full(call->to_next)));
    const merge_place at = { .stop = stop, .span = span, .arrived = lent ? NULL : data,
                             .lent = lent ? call->previous : NULL,
                             .seen = ls_ledger_digest_at(&me->ledger, seen),
                             .stage = last ? NULL : stage_at(call, slice) };
    LS_TRY(merge_pieces(call, &at));
    enter_contributions(call, stop, transfer, sent, seen);
    return LS_OK;
}

static ls_status recv_pieces(const ring_call *call, int step, int chunk, int slice)
{
    ls_comm_rank *me = call->me;
    const ls_span span = slice_at(call, chunk, slice);
    const ls_tree_stop *stop = &me->stop[step + 1];
    const ls_transfer transfer = transfer_at(call, step, slice);
    LS_TRY(ls_comm_ledger_room(call->comm, me->channel.rank,
                               (size_t)(stop->in_count + stop->first[stop->out_count])));
    LS_TRY(ls_link_recv_begin(call->from_previous, &me->channel, &transfer));
    if (span.count > 0) LS_TRY(merge_arrived(call, &transfer, span, slice));
    LS_TRY(ls_event_record(&me->made[slice], &me->channel.in));
    return ls_link_recv_end(call->from_previous, &me->channel);
}

/* -- second half ------------------------------------------------------------------------------ */

static ls_status send_result(const ring_call *call, int step, int chunk, int slice)
{
    ls_comm_rank *me = call->me;
    const ls_span span = slice_at(call, chunk, slice);
    const ls_transfer transfer = transfer_at(call, step, slice);
    const float *from = call->pieces->result + span.begin;
    const size_t bytes = span.count * sizeof(float);
    LS_TRY(ls_link_send_begin(call->to_next, &me->channel, &transfer));
    LS_TRY(ls_stream_wait(&me->channel.out, &me->made[slice]));
    const bool there = ls_link_is_shared(call->to_next) && step + 1 == call->comm->world_size;
    if (!ls_link_is_direct(call->to_next)) {
        LS_TRY(ls_link_push(call->to_next, &me->channel, 0, from, bytes));
    } else if (!there) {
        LS_TRY(ls_copy_peer(&me->channel.out, call->next_result + span.begin, from, bytes));
    }
    return ls_link_send_end(call->to_next, &me->channel);
}

static ls_status recv_result(const ring_call *call, int step, int chunk, int slice)
{
    ls_comm_rank *me = call->me;
    const ls_span span = slice_at(call, chunk, slice);
    const ls_transfer transfer = transfer_at(call, step, slice);
    LS_TRY(ls_link_recv_begin(call->from_previous, &me->channel, &transfer));
    if (!ls_link_is_direct(call->from_previous)) {
        LS_TRY(ls_link_pull(call->from_previous, &me->channel, 0,
                            call->pieces->result + span.begin, span.count * sizeof(float)));
    }
    LS_TRY(ls_event_record(&me->made[slice], &me->channel.in));
    return ls_link_recv_end(call->from_previous, &me->channel);
}

/* -- the ring --------------------------------------------------------------------------------- */

static ls_status move_slice(const ring_call *call, int step, int slice)
{
    const ls_ring_move move = ls_ring_move_at(call->me->place, step, call->comm->world_size);
    if (move.action == LS_RING_ADD) {
        LS_TRY(send_pieces(call, step, move.send_chunk, slice));
        return recv_pieces(call, step, move.recv_chunk, slice);
    }
    LS_TRY(send_result(call, step, move.send_chunk, slice));
    return recv_result(call, step, move.recv_chunk, slice);
}

ls_status ls_reduce_ring(ls_comm *comm, int rank, const ls_pieces *pieces)
{
    ls_comm_rank *me = &comm->rank[rank];
    const int world_size = comm->world_size;
    const int next = comm->ring[(me->place + 1) % world_size];
    const int previous = comm->ring[(me->place - 1 + world_size) % world_size];
    const ring_call call = {
        .comm = comm,
        .me = me,
        .pieces = pieces,
        .to_next = ls_comm_link(comm, rank, next),
        .from_previous = ls_comm_link(comm, previous, rank),
        .previous = ls_rendezvous_call_of(&comm->rendezvous, &me->channel, previous),
        .next_result = ls_rendezvous_call_of(&comm->rendezvous, &me->channel, next)->result,
        .slice_count = ls_ring_slice_count(pieces->count, world_size, comm->config.slice_floats),
    };
    for (int step = 0; step < ls_ring_step_count(world_size); step++) {
        for (int slice = 0; slice < call.slice_count; slice++) {
            LS_TRY(move_slice(&call, step, slice));
        }
    }
    return LS_OK;
}
