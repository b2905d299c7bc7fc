/* SPDX-License-Identifier: MIT */
/* all_reduce.c -- the entry of an all-reduce: check, meet, move, note the result's digest unless
 * the caller compares results itself.
 *
 * The three algorithms differ in who adds what where (reduce_ring.c, reduce_direct.c); what comes
 * before and after is the same. With one rank there is nobody to meet: its pieces are folded.
 *
 * The digest of each finished bucket, on every rank, covers the half of the algorithm in which sums
 * are copied; contributions on their way into a sum are covered by the ledger. ls_comm_verify
 * compares both.
 */
#include "collectives/all_reduce.h"

#include "collectives/comm.h"

static ls_status check_pieces(const ls_comm *comm, int rank, const ls_pieces *pieces)
{
    if (pieces->count > comm->config.bucket_floats_max) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d: bucket %d of %zu floats: want at most %zu", rank,
                       pieces->bucket, pieces->count, comm->config.bucket_floats_max);
    }
    if (pieces->piece_count < 1 || pieces->piece_count > LS_CALL_PIECES_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d: bucket %d in %d pieces: want 1 to %d", rank,
                       pieces->bucket, pieces->piece_count, LS_CALL_PIECES_MAX);
    }
    return LS_OK;
}

/* What a rank brings must be what its shards are, or the tree would be another one. Every rank
 * looks at all, so all say the same. */
static ls_status check_nodes(const ls_comm *comm, const ls_call *call, int rank)
{
    const ls_comm_rank *of = &comm->rank[rank];
    for (int p = 0; p < call->piece_count && p < of->own_count; p++) {
        const ls_node have = call->node[p], want = of->own[p];
        if (have.begin == want.begin && have.count == want.count) continue;
        return ls_fail(LS_ERR_DIVERGED,
                       "rank %d: piece %d of bucket %d is shards [%d, %d) where its part of %d"
                       " shards wants [%d, %d); no data moved", rank, p, call->bucket, have.begin,
                       have.begin + have.count, comm->config.shard_count, want.begin,
                       want.begin + want.count);
    }
    if (call->piece_count == of->own_count) return LS_OK;
    return ls_fail(LS_ERR_DIVERGED,
                   "rank %d: bucket %d comes in %d pieces where its part of %d shards has %d; no"
                   " data moved", rank, call->bucket, call->piece_count, comm->config.shard_count,
                   of->own_count);
}

static ls_call call_from(const ls_pieces *pieces)
{
    ls_call call = { .kind = LS_CALL_ALL_REDUCE, .bucket = pieces->bucket, .count = pieces->count,
                     .piece_count = pieces->piece_count, .result = pieces->result,
                     .ready = pieces->ready };
    for (int p = 0; p < pieces->piece_count; p++) {
        call.node[p] = pieces->node[p];
        call.piece[p] = pieces->piece[p];
    }
    return call;
}

/* N = 1. */
static ls_status fold_alone(ls_comm *comm, const ls_pieces *pieces)
{
    ls_comm_rank *me = &comm->rank[0];
    const ls_call call = call_from(pieces);
    LS_TRY(check_nodes(comm, &call, 0));
    LS_TRY(ls_stream_wait(&me->channel.in, pieces->ready));
    ls_merge_args args = { .count = pieces->count, .source_count = me->stop[0].own_count,
                           .out_count = 1, .out = { pieces->result } };
    for (int k = 0; k < args.source_count; k++) {
        args.source[k] = pieces->piece[me->stop[0].source[k]];
        args.adds[k] = me->stop[0].adds[k];
    }
    const bool there = args.source_count == 1 && args.source[0] == pieces->result;
    if (!there) LS_TRY(ls_merge(&me->channel.in, &args));
    return ls_event_record(pieces->done, &me->channel.in);
}

ls_status ls_comm_note(ls_comm *comm, int rank, int bucket, const float *x, size_t count)
{
    ls_comm_rank *me = &comm->rank[rank];
    if (me->result_count == comm->config.bucket_count_max) {
        return ls_fail(LS_ERR_ARGUMENT, "rank %d: bucket %d is number %d since the last check: want"
                                        " at most %d", rank, bucket, me->result_count + 1,
                       comm->config.bucket_count_max);
    }
    const int i = me->result_count++;
    me->result_bucket[i] = bucket;
    return ls_digest(&me->channel.in, &(ls_digest_args){
        .count = count, .x = x, .out = me->result_digest + i });
}

static ls_status all_reduce(ls_comm *comm, int rank, const ls_pieces *pieces)
{
    LS_TRY(check_pieces(comm, rank, pieces));
    if (comm->world_size == 1) return fold_alone(comm, pieces);
    ls_comm_rank *me = &comm->rank[rank];
    const ls_call call = call_from(pieces);
    LS_TRY(ls_comm_begin(comm, rank, &call));
    for (int r = 0; r < comm->world_size; r++) {
        LS_TRY(check_nodes(comm, ls_rendezvous_call_of(&comm->rendezvous, &me->channel, r), r));
    }
    LS_TRY(comm->algorithm == LS_ALGORITHM_RING ? ls_reduce_ring(comm, rank, pieces)
                                                : ls_reduce_direct(comm, rank, pieces));
    /* Everything of the result has come or been made on `in`. */
    if (!pieces->unnoted)
        LS_TRY(ls_comm_note(comm, rank, pieces->bucket, pieces->result, pieces->count));
    return ls_comm_end(comm, rank, pieces->done);
}

ls_status ls_all_reduce(ls_comm *comm, int rank, const ls_pieces *pieces)
{
    return ls_comm_blame(comm, rank, all_reduce(comm, rank, pieces));
}
