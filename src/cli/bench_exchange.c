/* SPDX-License-Identifier: MIT */
/* bench_exchange.c -- all-reduces measured and checked. See bench_exchange.h. */
#include "cli/bench_exchange.h"

#include <stdlib.h>

#include "cli/bench.h"
#include "cli/console.h"
#include "numerics.h"
#include "sizes.h"

enum { HOST_FLOATS = 1 << 18 }; /* checked at a time */

/* Element i of what adds up shards of weight `weight` (the sum of s + 1 over them). */
static float value_at(size_t i, unsigned weight)
{
    return (float)(weight * (unsigned)(i % 7 + 1));
}

/* The sum of s + 1 over a node's shards. */
static unsigned weight_of(ls_node node)
{
    const unsigned begin = (unsigned)node.begin, count = (unsigned)node.count;
    return count * begin + count * (count + 1) / 2;
}

/* -- opening ----------------------------------------------------------------------------------- */

static ls_status open_devices(ls_exchange *x, ls_device **device)
{
    const int world_size = x->list->count;
    const int share = ls_core_count() / world_size;
    const int threads = x->config->threads > 0 ? x->config->threads : share > 0 ? share : 1;
    for (int r = 0; r < world_size; r++) {
        LS_TRY(ls_device_open(&x->list->device[r], threads, world_size * threads <= ls_core_count(),
                              ls_group_progress(x->group), &x->rank[r].device));
        LS_TRY(ls_kernels_bind(x->rank[r].device));
        device[r] = x->rank[r].device;
    }
    return LS_OK;
}

static ls_status open_floats(ls_exchange *x, ls_device *device, float **out)
{
    void *memory = NULL;
    LS_TRY(ls_device_alloc(device, (x->count_max + x->offset) * sizeof(float), &memory));
    *out = memory;
    return LS_OK;
}

/* The inputs of a rank are written once; repetitions copy them. */
static ls_status write_inputs(ls_exchange *x, ls_exchange_rank *me)
{
    for (int p = 0; p < me->node_count; p++) {
        const unsigned weight = weight_of(me->node[p]);
        for (size_t at = 0; at < x->count_max; at += HOST_FLOATS) {
            const size_t part = ls_min_size(HOST_FLOATS, x->count_max - at);
            for (size_t i = 0; i < part; i++) me->host[i] = value_at(at + i, weight);
            LS_TRY(ls_copy_to_device(&me->compute, me->pristine[p] + x->offset + at, me->host,
                                     part * sizeof(float)));
            LS_TRY(ls_stream_drain(&me->compute, x->group, "the inputs"));
        }
    }
    return LS_OK;
}

static ls_status open_rank(ls_exchange *x, int r)
{
    ls_exchange_rank *me = &x->rank[r];
    const int begin = ls_rank_shard_begin(r, x->shard_count, x->list->count);
    const int end = ls_rank_shard_begin(r + 1, x->shard_count, x->list->count);
    void *host = NULL;
    me->node_count = ls_node_cover(begin, end - begin, x->shard_count, me->node);
    LS_TRY(ls_stream_init(&me->compute, me->device));
    LS_TRY(ls_event_init(&me->ready, me->device));
    LS_TRY(ls_event_init(&me->done, me->device));
    LS_TRY(ls_pinned_alloc(me->device, HOST_FLOATS * sizeof(float), &host));
    me->host = host;
    for (int p = 0; p < me->node_count; p++) {
        LS_TRY(open_floats(x, me->device, &me->pristine[p]));
        LS_TRY(open_floats(x, me->device, &me->piece[p]));
    }
    LS_TRY(open_floats(x, me->device, &me->result));
    return write_inputs(x, me);
}

ls_status ls_exchange_open(ls_exchange *x)
{
    ls_device *device[LS_WORLD_MAX];
    const int world_size = x->list->count;
    x->rank = calloc((size_t)world_size, sizeof *x->rank);
    x->seconds = calloc((size_t)x->repetitions, sizeof *x->seconds);
    if (!x->rank || !x->seconds)
        return ls_fail(LS_ERR_MEMORY, "no memory for %d ranks", world_size);
    LS_TRY(ls_group_create(world_size, x->config->timeout_s, &x->group));
    LS_TRY(open_devices(x, device));
    LS_TRY(ls_topology_init(&x->topology, device, world_size, x->config->p2p));
    const ls_comm_config config = { .algorithm = x->config->allreduce, .order = x->config->order,
                                    .shard_count = x->shard_count,
                                    .bucket_floats_max = x->count_max, .bucket_count_max = 1,
                                    .gather_bytes_max = sizeof(uint64_t) };
    LS_TRY(ls_comm_create(x->group, device, &x->topology, &config, &x->comm));
    for (int r = 0; r < world_size; r++) LS_TRY(open_rank(x, r));
    return LS_OK;
}

static void close_rank(ls_exchange_rank *me)
{
    if (!me->device) return;
    ls_device_release(me->device, me->result);
    for (int p = me->node_count - 1; p >= 0; p--) {
        ls_device_release(me->device, me->piece[p]);
        ls_device_release(me->device, me->pristine[p]);
    }
    ls_pinned_release(me->device, me->host);
    ls_event_free(&me->done);
    ls_event_free(&me->ready);
    ls_stream_free(&me->compute);
}

void ls_exchange_close(ls_exchange *x)
{
    for (int r = x->list->count - 1; x->rank && r >= 0; r--) close_rank(&x->rank[r]);
    ls_comm_destroy(x->comm);
    for (int r = x->list->count - 1; x->rank && r >= 0; r--) ls_device_close(x->rank[r].device);
    ls_group_destroy(x->group);
    free(x->seconds);
    free(x->rank);
    x->rank = NULL;
    x->comm = NULL;
    x->group = NULL;
    x->seconds = NULL;
}

/* -- one repetition ---------------------------------------------------------------------------- */

static ls_status prepare(ls_exchange *x, ls_exchange_rank *me, size_t count, bool in_place)
{
    const size_t bytes = count * sizeof(float);
    for (int p = 0; p < me->node_count; p++) {
        LS_TRY(ls_copy_within(&me->compute, me->piece[p] + x->offset, me->pristine[p] + x->offset,
                              bytes));
    }
    /* All ones is a NaN: a result that was not written is wrong. */
    if (!in_place) LS_TRY(ls_fill(&me->compute, me->result + x->offset, 0xff, bytes));
    LS_TRY(ls_event_record(&me->ready, &me->compute));
    return ls_stream_drain(&me->compute, x->group, "restoring the inputs");
}

/* Add to the rank's wrong elements those of `buffer` that are not `weight`'s. */
static ls_status check(ls_exchange *x, ls_exchange_rank *me, const float *buffer, size_t count,
                       unsigned weight)
{
    for (size_t at = 0; at < count; at += HOST_FLOATS) {
        const size_t part = ls_min_size(HOST_FLOATS, count - at);
        LS_TRY(ls_copy_to_host(&me->compute, me->host, buffer + x->offset + at,
                               part * sizeof(float)));
        LS_TRY(ls_stream_drain(&me->compute, x->group, "reading a result"));
        for (size_t i = 0; i < part; i++) {
            const uint32_t want = ls_float_bits(value_at(at + i, weight));
            me->wrong_count += ls_float_bits(me->host[i]) != want;
        }
    }
    return LS_OK;
}

static ls_status check_all(ls_exchange *x, ls_exchange_rank *me, size_t count, bool in_place)
{
    const unsigned total = weight_of((ls_node){ .begin = 0, .count = x->shard_count });
    LS_TRY(check(x, me, in_place ? me->piece[0] : me->result, count, total));
    for (int p = 0; !in_place && p < me->node_count; p++)
        LS_TRY(check(x, me, me->piece[p], count, weight_of(me->node[p])));
    return LS_OK;
}

static ls_status repeat(ls_exchange *x, int rank, size_t count, bool in_place)
{
    ls_exchange_rank *me = &x->rank[rank];
    float *piece[LS_FOLD_MERGE_MAX * 2];
    for (int p = 0; p < me->node_count; p++) piece[p] = me->piece[p] + x->offset;
    const ls_pieces pieces = { .count = count, .piece_count = me->node_count, .node = me->node,
                               .piece = piece,
                               .result = in_place ? piece[0] : me->result + x->offset,
                               .ready = &me->ready, .done = &me->done };
    LS_TRY(prepare(x, me, count, in_place));
    LS_TRY(ls_barrier_wait(x->group, rank, "the start of an all-reduce"));
    const double begin = ls_clock();
    LS_TRY(ls_all_reduce(x->comm, rank, &pieces));
    LS_TRY(ls_stream_wait(&me->compute, &me->done));
    LS_TRY(ls_stream_drain(&me->compute, x->group, "an all-reduce"));
    me->seconds = ls_clock() - begin;
    LS_TRY(ls_comm_verify(x->comm, rank));
    return check_all(x, me, count, in_place);
}

/* -- all of them ------------------------------------------------------------------------------- */

/* What all ranks measured; rank 0 alone writes it. A rank's own numbers are read between the
 * barrier after a repetition and the one that starts the next, where nobody writes them. */
static ls_status measure(ls_exchange *x, int rank, size_t count, bool in_place,
                         ls_exchange_result *result)
{
    const int world_size = x->list->count;
    x->rank[rank].wrong_count = 0;
    for (int k = -1; k < x->repetitions; k++) { /* the first warms up, and is checked as well */
        LS_TRY(repeat(x, rank, count, in_place));
        LS_TRY(ls_barrier_wait(x->group, rank, "the end of an all-reduce"));
        if (rank != 0 || k < 0) continue;
        x->seconds[k] = 0;
        for (int r = 0; r < world_size; r++)
            if (x->rank[r].seconds > x->seconds[k]) x->seconds[k] = x->rank[r].seconds;
    }
    if (rank == 0) {
        *result = (ls_exchange_result){
            .seconds = ls_bench_spread_of(x->seconds, x->repetitions).median };
        for (int r = 0; r < world_size; r++) result->wrong_count += x->rank[r].wrong_count;
    }
    return ls_barrier_wait(x->group, rank, "the end of a row");
}

static ls_status run_rank(int rank, void *arg)
{
    ls_exchange *x = arg;
    for (int i = 0; i < x->count_count; i++) {
        ls_exchange_row row = { .count = x->count[i] };
        LS_TRY(measure(x, rank, row.count, false, &row.out_of_place));
        LS_TRY(measure(x, rank, row.count, true, &row.in_place));
        if (rank == 0) x->on_row(x->context, &row);
    }
    return LS_OK;
}

/* After a failure, what still runs may read and write the buffers. */
static bool is_drained(ls_exchange *x)
{
    for (int r = 0; r < x->list->count; r++) {
        if (!ls_comm_drain(x->comm, r, LS_SETTLE_SECONDS)) return false;
        if (!ls_stream_settles(&x->rank[r].compute, LS_SETTLE_SECONDS)) return false;
    }
    return true;
}

ls_status ls_exchange_run(ls_exchange *x)
{
    ls_record cause;
    const ls_status status = ls_group_run(x->group, run_rank, x, ls_console_leave);
    if (status == LS_OK) return LS_OK;
    ls_record_keep(&cause);
    const bool drained = is_drained(x);
    ls_record_restore(&cause);
    if (!drained) ls_console_leave();
    return status;
}
