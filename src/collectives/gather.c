/* SPDX-License-Identifier: MIT */
/* gather.c -- moving rows and buffers without arithmetic: gather and broadcast.
 *
 * Gather is the all-gather half of the ring alone: the parcel that stands at place p's rank (the
 * rows of its shards) goes once round, and a rank sends at each ring step the parcel it received at
 * the one before. It starts at ring step N-1 of ring.c's table.
 *
 * Broadcast is a chain along the ring, place 0 -> 1 -> ... -> N-1, slice by slice, so that rank 2
 * receives the first slice while rank 1 receives the second.
 *
 * Both move parcels. A parcel carries its digest, computed by each sender on what it sends and by
 * each receiver on what it got, so a change names the link on which it happened, whether or not it
 * was passed on.
 *
 * A LOCAL or PEER link writes into the neighbour's memory, which must not happen before the
 * neighbour's own `ready`. So `out` waits for that event too, and the wait is called before the
 * first transfer to that neighbour is posted: it cannot have left this call yet, hence not have
 * recorded `ready` for a later one.
 */
#include "collectives/comm.h"

/* A parcel on its way over one link. */
typedef struct {
    ls_link *link;
    ls_transfer transfer;
    size_t offset; /* bytes, in the sender's and the receiver's buffer alike */
    size_t bytes;  /* a multiple of 4 */
} parcel;

/* In a slot the digest follows the parcel on an 8-byte boundary; alone if the parcel does not
 * travel in the slot. */
static size_t digest_offset(const parcel *move)
{
    return ls_link_is_direct(move->link) ? 0 : (move->bytes + 7) / 8 * 8;
}

/* `there` is the receiver's buffer. */
static ls_status send_parcel(ls_comm_rank *me, const parcel *move, const void *buffer,
                             void *there)
{
    ls_channel *channel = &me->channel;
    const unsigned char *from = (const unsigned char *)buffer + move->offset;
    LS_TRY(ls_link_send_begin(move->link, channel, &move->transfer));
    if (move->bytes > 0) {
        const ls_digest_args digest = { .count = move->bytes / sizeof(float),
                                        .x = (const float *)(const void *)from,
                                        .out = me->own_digest };
        LS_TRY(ls_digest(&channel->out, &digest));
        if (ls_link_is_direct(move->link)) {
            LS_TRY(ls_copy_peer(&channel->out, (unsigned char *)there + move->offset, from,
                                move->bytes));
        } else {
            LS_TRY(ls_link_push(move->link, channel, 0, from, move->bytes));
        }
        LS_TRY(ls_link_push(move->link, channel, digest_offset(move), me->own_digest,
                            sizeof(uint64_t)));
    }
    return ls_link_send_end(move->link, channel);
}

static ls_status take_parcel(ls_comm_rank *me, const parcel *move, void *buffer)
{
    unsigned char *to = (unsigned char *)buffer + move->offset;
    const size_t place = ls_ledger_reserve(&me->ledger, 2);
    LS_TRY(ls_link_pull(move->link, &me->channel, digest_offset(move),
                        ls_ledger_digest_at(&me->ledger, place), sizeof(uint64_t)));
    if (!ls_link_is_direct(move->link)) {
        LS_TRY(ls_link_pull(move->link, &me->channel, 0, to, move->bytes));
    }
    const ls_digest_args digest = { .count = move->bytes / sizeof(float),
                                    .x = (const float *)(const void *)to,
                                    .out = ls_ledger_digest_at(&me->ledger, place + 1) };
    LS_TRY(ls_digest(&me->channel.in, &digest));
    const ls_ledger_entry entry = { .from = move->link->from, .to = move->link->to,
                                    .transfer = move->transfer, .sent = place, .seen = place + 1 };
    ls_ledger_enter(&me->ledger, &entry);
    return LS_OK;
}

static ls_status recv_parcel(ls_comm *comm, ls_comm_rank *me, const parcel *move, void *buffer)
{
    LS_TRY(ls_comm_ledger_room(comm, me->channel.rank, 2));
    LS_TRY(ls_link_recv_begin(move->link, &me->channel, &move->transfer));
    if (move->bytes > 0) LS_TRY(take_parcel(me, move, buffer));
    LS_TRY(ls_event_record(&me->made[0], &me->channel.in));
    return ls_link_recv_end(move->link, &me->channel);
}

/* The rank at a distance of `places` in the ring. */
static int neighbour(const ls_comm *comm, const ls_comm_rank *me, int places)
{
    return comm->ring[(me->place + places + comm->world_size) % comm->world_size];
}

/* Both streams have waited for this rank's ready; `out` also for that of the rank it writes to.
 * Gives that rank's buffer. */
static ls_status open_way(ls_comm *comm, ls_comm_rank *me, int to, void **there)
{
    const ls_call *theirs = ls_rendezvous_call_of(&comm->rendezvous, &me->channel, to);
    *there = theirs->result;
    return ls_stream_wait(&me->channel.out, theirs->ready);
}

/* -- gather ----------------------------------------------------------------------------------- */

/* The parcel of the rank at `place`. */
static parcel rows_of(const ls_comm *comm, int place, size_t row_bytes)
{
    const int owner = comm->ring[place], shards = comm->config.shard_count;
    const size_t begin = (size_t)ls_rank_shard_begin(owner, shards, comm->world_size);
    const size_t end = (size_t)ls_rank_shard_begin(owner + 1, shards, comm->world_size);
    return (parcel){ .offset = begin * row_bytes, .bytes = (end - begin) * row_bytes };
}

static ls_status gather_step(ls_comm *comm, ls_comm_rank *me, int step, void *rows,
                             size_t row_bytes, void *there)
{
    const int rank = me->channel.rank, world_size = comm->world_size;
    const ls_ring_move move = ls_ring_move_at(me->place, world_size - 1 + step, world_size);
    parcel send = rows_of(comm, move.send_chunk, row_bytes);
    parcel recv = rows_of(comm, move.recv_chunk, row_bytes);
    send.transfer = recv.transfer =
        (ls_transfer){ "gather", -1, step, ls_comm_order(comm, me, step) };
    send.link = ls_comm_link(comm, rank, neighbour(comm, me, 1));
    recv.link = ls_comm_link(comm, neighbour(comm, me, -1), rank);
    if (step > 0) LS_TRY(ls_stream_wait(&me->channel.out, &me->made[0]));
    LS_TRY(send_parcel(me, &send, rows, there));
    return recv_parcel(comm, me, &recv, rows);
}

static ls_status gather(ls_comm *comm, int rank, void *rows, size_t row_bytes, ls_event *ready,
                        ls_event *done)
{
    ls_comm_rank *me = &comm->rank[rank];
    if (row_bytes > comm->config.gather_bytes_max || row_bytes % sizeof(float) != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d: a gather of rows of %zu bytes: want a multiple of"
                                        " 4, at most %zu", rank, row_bytes,
                       comm->config.gather_bytes_max);
    }
    const ls_call call = { .kind = LS_CALL_GATHER, .bucket = -1, .count = row_bytes,
                           .result = rows, .ready = ready };
    LS_TRY(ls_comm_begin(comm, rank, &call));
    if (comm->world_size > 1) {
        void *there = NULL;
        LS_TRY(open_way(comm, me, neighbour(comm, me, 1), &there));
        for (int step = 0; step < comm->world_size - 1; step++) {
            LS_TRY(gather_step(comm, me, step, rows, row_bytes, there));
        }
    }
    return ls_comm_end(comm, rank, done);
}

ls_status ls_gather(ls_comm *comm, int rank, void *rows, size_t row_bytes, ls_event *ready,
                    ls_event *done)
{
    return ls_comm_blame(comm, rank, gather(comm, rank, rows, row_bytes, ready, done));
}

/* -- broadcast -------------------------------------------------------------------------------- */

/* The transfer of a slice from `place` to the next. */
static ls_transfer hop_from(const ls_comm *comm, const ls_comm_rank *me, int place, int slice)
{
    return (ls_transfer){ "broadcast", -1, place,
                          ls_comm_order(comm, me, slice * comm->world_size + place) };
}

static ls_status broadcast_slice(ls_comm *comm, ls_comm_rank *me, ls_span span, int slice, float *x,
                                 void *there)
{
    const int rank = me->channel.rank;
    parcel move = { .offset = span.begin * sizeof(float), .bytes = span.count * sizeof(float) };
    if (me->place > 0) {
        move.link = ls_comm_link(comm, neighbour(comm, me, -1), rank);
        move.transfer = hop_from(comm, me, me->place - 1, slice);
        LS_TRY(recv_parcel(comm, me, &move, x));
        LS_TRY(ls_stream_wait(&me->channel.out, &me->made[0]));
    }
    if (me->place + 1 == comm->world_size) return LS_OK;
    move.link = ls_comm_link(comm, rank, neighbour(comm, me, 1));
    move.transfer = hop_from(comm, me, me->place, slice);
    return send_parcel(me, &move, x, there);
}

static ls_status broadcast(ls_comm *comm, int rank, float *x, size_t count, ls_event *ready,
                           ls_event *done)
{
    ls_comm_rank *me = &comm->rank[rank];
    const ls_call call = { .kind = LS_CALL_BROADCAST, .bucket = -1, .count = count, .result = x,
                           .ready = ready };
    LS_TRY(ls_comm_begin(comm, rank, &call));
    if (comm->world_size > 1) {
        const size_t slice_floats = comm->config.slice_floats;
        const int slices = ls_ring_slice_count(count, 1, slice_floats);
        void *there = NULL;
        if (me->place + 1 < comm->world_size) {
            LS_TRY(open_way(comm, me, neighbour(comm, me, 1), &there));
        }
        for (int slice = 0; slice < slices; slice++) {
            const ls_span span = ls_ring_slice_span((ls_span){ 0, count }, slice, slice_floats);
            LS_TRY(broadcast_slice(comm, me, span, slice, x, there));
        }
    }
    return ls_comm_end(comm, rank, done);
}

ls_status ls_broadcast(ls_comm *comm, int rank, float *x, size_t count, ls_event *ready,
                       ls_event *done)
{
    return ls_comm_blame(comm, rank, broadcast(comm, rank, x, count, ready, done));
}
