/* SPDX-License-Identifier: MIT */
/* comm_create.c -- making and unmaking a comm: the algorithm is chosen, everything is sized.
 *
 * All that a collective will need is allocated here, from the schedule: slots hold the most pieces
 * that travel on any hop, the staging areas one chunk as pieces, the ledger one step's digests.
 * Afterwards nothing is allocated.
 *
 * Which links exist: the ring's N (gather, broadcast and the ring all-reduce use them), and for
 * tree and root every pair of which one end adds up.
 */
#include "collectives/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sizes.h"

enum {
    SLICE_FLOATS_DEFAULT = 64 * 1024,
    LEDGER_DIGESTS_MIN = 4 * LS_SHARD_MAX, /* one transfer needs at most 3 * LS_SHARD_MAX */
    LEDGER_DIGESTS_MAX = 64 * 1024,        /* a longer step is compared in parts */
    WATCHED_MAX = 1024                     /* an event and two labels each */
};

/* -- what is asked for ------------------------------------------------------------------------- */

static ls_status check_config(const ls_group *group, const ls_topology *topology,
                              const ls_comm_config *config)
{
    const int world_size = ls_group_world_size(group);
    if (topology->count != world_size) {
        return ls_fail(LS_ERR_ARGUMENT, "a topology of %d devices for %d ranks", topology->count,
                       world_size);
    }
    if (config->shard_count < world_size || config->shard_count > LS_SHARD_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "%d replicas with --shards %d: want --shards %d to %d",
                       world_size, config->shard_count, world_size, LS_SHARD_MAX);
    }
    if (config->slice_floats % LS_CHUNK_UNIT != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "slices of %zu floats: want a multiple of %d",
                       config->slice_floats, LS_CHUNK_UNIT);
    }
    if (config->bucket_count_max < 1) {
        return ls_fail(LS_ERR_ARGUMENT, "%d buckets: want at least 1", config->bucket_count_max);
    }
    if (config->order == LS_ORDER_FAST && (config->algorithm == LS_ALGORITHM_TREE ||
                                           config->algorithm == LS_ALGORITHM_ROOT)) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "--order fast is the ring's own order: want --allreduce ring or auto");
    }
    return LS_OK;
}

/* The first pair that is staged; false if there is none. */
static bool find_staged_pair(const ls_topology *topology, int *from, int *to)
{
    for (int a = 0; a < topology->count; a++) {
        for (int b = 0; b < topology->count; b++) {
            if (a == b || topology->pair[a * topology->count + b] != LS_PAIR_STAGED) continue;
            *from = a;
            *to = b;
            return true;
        }
    }
    return false;
}

static void choose_algorithm(ls_comm *comm, ls_device *const *device, const ls_topology *topology)
{
    const size_t room = sizeof comm->reason;
    const int world_size = comm->world_size;
    int from = 0, to = 0;
    comm->algorithm = comm->config.algorithm;
    if (world_size == 1) {
        comm->algorithm = LS_ALGORITHM_RING;
        snprintf(comm->reason, room, "ring: one rank, nothing to exchange");
    } else if (comm->algorithm != LS_ALGORITHM_AUTO) {
        static const char *const name[] = { "auto", "ring", "tree", "root" };
        snprintf(comm->reason, room, "%s: asked for", name[comm->algorithm]);
    } else if (comm->config.order == LS_ORDER_FAST) {
        comm->algorithm = LS_ALGORITHM_RING;
        snprintf(comm->reason, room, "ring: order fast");
    } else if (device[0]->kind == LS_DEVICE_HOST) {
        comm->algorithm = LS_ALGORITHM_RING;
        snprintf(comm->reason, room, "ring: host devices");
    } else if (find_staged_pair(topology, &from, &to)) {
        comm->algorithm = LS_ALGORITHM_RING;
        snprintf(comm->reason, room, "ring: pair %d -> %d is staged", from, to);
    } else if (world_size == 2) {
        comm->algorithm = LS_ALGORITHM_RING;
        snprintf(comm->reason, room, "ring: 2 ranks");
    } else {
        comm->algorithm = LS_ALGORITHM_TREE;
        snprintf(comm->reason, room, "tree: %d ranks, all pairs peer", world_size);
    }
}

/* Sizes that depend on the buckets. Slices are no longer than the largest chunk, so that small
 * models do not pay for large slots. */
static void size_slices(ls_comm *comm)
{
    const int parts = comm->algorithm == LS_ALGORITHM_ROOT ? 1 : comm->world_size;
    const size_t units = ls_payload_stride(comm->config.bucket_floats_max) / LS_CHUNK_UNIT;
    const size_t chunk_units = (units + (size_t)parts - 1) / (size_t)parts;
    const size_t chunk_floats = (chunk_units > 0 ? chunk_units : 1) * LS_CHUNK_UNIT;
    size_t slice = comm->config.slice_floats > 0 ? comm->config.slice_floats : SLICE_FLOATS_DEFAULT;
    if (slice > chunk_floats) slice = chunk_floats;
    comm->config.slice_floats = slice;
    comm->slice_count_max = ls_ring_slice_count(comm->config.bucket_floats_max, parts, slice);
}

/* The most rows that a rank contributes to a gather. */
static size_t rows_max(const ls_comm *comm)
{
    const size_t shards = (size_t)comm->config.shard_count, world = (size_t)comm->world_size;
    return (shards + world - 1) / world;
}

/* Bytes of a slot of a link of `kind`: the largest of what the algorithm, a gather and a broadcast
 * put into one. Where tree and root read and write the other's memory, only digests travel. */
static size_t slot_bytes(const ls_comm *comm, ls_pair_kind kind)
{
    const size_t slice = comm->config.slice_floats;
    const size_t digests = LS_SHARD_MAX * sizeof(uint64_t);
    int pieces = 1;
    if (comm->algorithm != LS_ALGORITHM_RING) {
        if (kind != LS_PAIR_STAGED) return digests;
        for (int r = 0; r < comm->world_size; r++) {
            if (comm->rank[r].own_count > pieces) pieces = comm->rank[r].own_count;
        }
    } else if (comm->config.order == LS_ORDER_EXACT) {
        pieces = ls_tree_pieces_max(comm->config.shard_count, comm->world_size, comm->ring);
    }
    const size_t bytes = ls_max_size(ls_payload_bytes(slice, pieces), digests);
    if (kind != LS_PAIR_STAGED) return bytes;
    return ls_max_size(bytes,
                       rows_max(comm) * comm->config.gather_bytes_max + 2 * sizeof(uint64_t));
}

static ls_status alloc_host(size_t count, size_t bytes, void *out)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory == NULL) {
        return ls_fail(LS_ERR_MEMORY, "no memory for %zu x %zu bytes", count, bytes);
    }
    memcpy(out, &memory, sizeof memory);
    return LS_OK;
}

static ls_status alloc_device(ls_device *device, size_t bytes, void *out)
{
    void *memory = NULL;
    LS_TRY(ls_device_alloc(device, bytes, &memory));
    memcpy(out, &memory, sizeof memory);
    return LS_OK;
}

static void plan_stops(ls_comm *comm, ls_comm_rank *me)
{
    const int world_size = comm->world_size, shard_count = comm->config.shard_count;
    for (int i = 0; i < world_size; i++) {
        /* The chunk that makes its stop i here: ring.c's recv_chunk of step i - 1. */
        const int chunk = (me->place - 1 - i + 2 * world_size) % world_size;
        if (comm->config.order == LS_ORDER_EXACT) {
            ls_tree_stop_exact(&me->stop[i], shard_count, world_size, comm->ring, chunk, i);
        } else {
            ls_tree_stop_fast(&me->stop[i], shard_count, world_size, comm->ring, chunk, i);
        }
    }
}

/* Digests that one rank's ledger takes for the largest bucket. */
static size_t bucket_digests(const ls_comm *comm, const ls_comm_rank *me)
{
    size_t digests = 0;
    if (comm->algorithm != LS_ALGORITHM_RING) {
        digests = 2 * (size_t)comm->root.in_count;
    } else {
        for (int i = 1; i < comm->world_size; i++) {
            const ls_tree_stop *stop = &me->stop[i];
            digests += (size_t)(stop->in_count + stop->first[stop->out_count]);
        }
    }
    return digests * (size_t)comm->slice_count_max;
}

static size_t ledger_digests(const ls_comm *comm, const ls_comm_rank *me)
{
    const size_t wanted = bucket_digests(comm, me) * (size_t)comm->config.bucket_count_max;
    if (wanted > LEDGER_DIGESTS_MAX) return LEDGER_DIGESTS_MAX;
    return wanted + LEDGER_DIGESTS_MIN;
}

static ls_status init_rank(ls_comm *comm, int r, ls_device *device)
{
    ls_comm_rank *me = &comm->rank[r];
    const size_t slices = (size_t)comm->slice_count_max;
    const size_t buckets = (size_t)comm->config.bucket_count_max;
    me->device = device;
    me->channel.group = comm->group;
    me->channel.rank = r;
    LS_TRY(alloc_host((size_t)comm->world_size, sizeof *me->stop, &me->stop));
    LS_TRY(alloc_host(slices, sizeof *me->made, &me->made));
    LS_TRY(alloc_host(buckets, sizeof *me->result_bucket, &me->result_bucket));
    plan_stops(comm, me);
    LS_TRY(ls_stream_init(&me->channel.out, device));
    LS_TRY(ls_stream_init(&me->channel.in, device));
    for (size_t i = 0; i < slices; i++) LS_TRY(ls_event_init(&me->made[i], device));
    LS_TRY(ls_event_init(&me->left, device));
    LS_TRY(alloc_device(device, LS_SHARD_MAX * sizeof(uint64_t), &me->own_digest));
    LS_TRY(alloc_device(device, buckets * sizeof(uint64_t), &me->result_digest));
    void *host = NULL;
    LS_TRY(ls_pinned_alloc(device, buckets * sizeof(uint64_t), &host));
    me->result_digest_host = host;
    if (comm->world_size == 1) return LS_OK;
    if (comm->algorithm == LS_ALGORITHM_RING) {
        LS_TRY(alloc_device(device, slices * comm->stage_bytes, &me->stage));
    }
    return ls_ledger_init(&me->ledger, device, ledger_digests(comm, me));
}

/* May a and b reach each other's memory? Tree and root read one way and write the other, so they
 * take a pair as its slower direction. */
static ls_pair_kind link_kind(const ls_comm *comm, const ls_topology *topology, int a, int b)
{
    const ls_pair_kind there = topology->pair[a * topology->count + b];
    const ls_pair_kind back = topology->pair[b * topology->count + a];
    if (comm->algorithm != LS_ALGORITHM_RING && back == LS_PAIR_STAGED) return back;
    return there;
}

static bool is_link_needed(const ls_comm *comm, int a, int b)
{
    if (a == b) return false;
    if (comm->ring[(comm->rank[a].place + 1) % comm->world_size] == b) return true;
    return comm->algorithm != LS_ALGORITHM_RING &&
           (ls_comm_is_owner(comm, a) || ls_comm_is_owner(comm, b));
}

/* How many transfers of a link to watch: those between two checks. */
static size_t transfers_watched(const ls_comm *comm)
{
    const size_t ring = 2 * (size_t)comm->world_size; /* and the gather's */
    const size_t of_slice = comm->algorithm == LS_ALGORITHM_RING ? ring : 2;
    const size_t slices = (size_t)comm->slice_count_max * (size_t)comm->config.bucket_count_max;
    const size_t between = slices * of_slice + ring;
    return between < WATCHED_MAX ? between : WATCHED_MAX;
}

static ls_status open_links(ls_comm *comm, ls_device *const *device, const ls_topology *topology)
{
    for (int a = 0; a < comm->world_size; a++) {
        for (int b = 0; b < comm->world_size; b++) {
            if (!is_link_needed(comm, a, b)) continue;
            const ls_pair_kind kind = link_kind(comm, topology, a, b);
            LS_TRY(ls_link_open(ls_comm_link(comm, a, b), a, device[a], b, device[b], kind,
                                slot_bytes(comm, kind), transfers_watched(comm)));
        }
    }
    return LS_OK;
}

/* Who stands where and brings what. */
static void plan_ranks(ls_comm *comm, const ls_topology *topology)
{
    const int world_size = comm->world_size, shard_count = comm->config.shard_count;
    ls_node all[LS_SHARD_MAX];
    int all_count = 0;
    for (int place = 0; place < world_size; place++) {
        comm->ring[place] = topology->ring[place];
        comm->rank[comm->ring[place]].place = place;
    }
    for (int r = 0; r < world_size; r++) {
        ls_comm_rank *me = &comm->rank[r];
        me->own_count =
            ls_tree_pieces(ls_tree_rank_shards(r, shard_count, world_size), shard_count, me->own);
        for (int p = 0; p < me->own_count; p++) all[all_count++] = me->own[p];
    }
    ls_tree_stop_merge(&comm->root, all, all_count, NULL, 0, shard_count);
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static ls_status build(ls_comm *comm, ls_device *const *device, const ls_topology *topology)
{
    const size_t world_size = (size_t)comm->world_size;
    LS_TRY(alloc_host(world_size, sizeof *comm->rank, &comm->rank));
    LS_TRY(alloc_host(world_size * world_size, sizeof *comm->link, &comm->link));
    choose_algorithm(comm, device, topology);
    plan_ranks(comm, topology);
    size_slices(comm);
    const int pieces = comm->config.order == LS_ORDER_EXACT
                           ? ls_tree_pieces_max(comm->config.shard_count, comm->world_size,
                                                comm->ring)
                           : 1;
    /* Areas start on 128 bytes, as slots do. */
    comm->stage_bytes = round_up(ls_payload_bytes(comm->config.slice_floats, pieces), 128);
    for (int r = 0; r < comm->world_size; r++) LS_TRY(init_rank(comm, r, device[r]));
    return open_links(comm, device, topology);
}

ls_status ls_comm_create(ls_group *group, ls_device *const *device, const ls_topology *topology,
                         const ls_comm_config *config, ls_comm **out)
{
    *out = NULL;
    LS_TRY(check_config(group, topology, config));
    ls_comm *comm = NULL;
    LS_TRY(alloc_host(1, sizeof *comm, &comm));
    comm->group = group;
    comm->world_size = ls_group_world_size(group);
    comm->config = *config;
    ls_rendezvous_init(&comm->rendezvous, comm->world_size);
    const ls_status status = build(comm, device, topology);
    if (status != LS_OK) {
        ls_comm_destroy(comm);
        return status;
    }
    *out = comm;
    return LS_OK;
}

static void free_rank(ls_comm *comm, ls_comm_rank *me)
{
    ls_ledger_free(&me->ledger);
    if (me->device != NULL) {
        ls_device_release(me->device, me->stage);
        ls_pinned_release(me->device, me->result_digest_host);
        ls_device_release(me->device, me->result_digest);
        ls_device_release(me->device, me->own_digest);
    }
    ls_event_free(&me->left);
    for (int i = 0; me->made != NULL && i < comm->slice_count_max; i++) ls_event_free(&me->made[i]);
    ls_stream_free(&me->channel.in);
    ls_stream_free(&me->channel.out);
    free(me->result_bucket);
    free(me->made);
    free(me->stop);
}

void ls_comm_destroy(ls_comm *comm)
{
    if (comm == NULL) return;
    const int world_size = comm->world_size;
    for (int i = 0; comm->link != NULL && i < world_size * world_size; i++) {
        ls_link_close(&comm->link[i]);
    }
    for (int r = 0; comm->rank != NULL && r < world_size; r++) free_rank(comm, &comm->rank[r]);
    free(comm->link);
    free(comm->rank);
    free(comm);
}
