/* SPDX-License-Identifier: MIT */
/* reduction.c -- see reduction.h.
 *
 * Host devices' memory is plain memory, so there buffers are filled and read directly: no copy of
 * a device is spent on it, which tests that make the n-th one fail would have to know.
 */
#include "support/reduction.h"

#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "support/ranks.h"

/* -- what must come out ----------------------------------------------------------------------- */

static float shard_value(uint64_t seed, int shard, size_t i)
{
    uint64_t x = seed + (uint64_t)i * 64 + (uint64_t)shard + 1; /* splitmix64 */
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    const float unit = (float)(int32_t)(uint32_t)x / 2147483648.0f;
    return unit * (float)(UINT64_C(1) << (x >> 60));
}

/* The canonical tree over shards [lo, lo + count), by its definition. */
static float tree_value(uint64_t seed, int lo, int count, size_t i)
{
    if (count == 1) return shard_value(seed, lo, i);
    int half = 1;
    while (half * 2 < count) half *= 2;
    return tree_value(seed, lo, half, i) + tree_value(seed, lo + half, count - half, i);
}

static int nodes_of(const reduction_settings *s, int rank, ls_node *node)
{
    const int begin = rank * s->shard_count / s->world_size;
    const int end = (rank + 1) * s->shard_count / s->world_size;
    return ls_node_cover(begin, end - begin, s->shard_count, node);
}

/* Along the ring from the place after `chunk`, each rank's pieces in turn. */
static float ring_value(const reduction *r, size_t chunk, size_t i)
{
    const size_t n = (size_t)r->settings.world_size;
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
        ls_node node[16];
        const int rank = r->topology.ring[(chunk + 1 + k) % n];
        const int count = nodes_of(&r->settings, rank, node);
        for (int p = 0; p < count; p++) {
            const float piece = tree_value(r->seed, node[p].begin, node[p].count, i);
            sum = k == 0 && p == 0 ? piece : sum + piece;
        }
    }
    return sum;
}

static void expect_fast(reduction *r)
{
    const size_t n = (size_t)r->settings.world_size, units = (r->count + 31) / 32;
    for (size_t chunk = 0; chunk < n; chunk++) {
        for (size_t i = units * chunk / n * 32; i < units * (chunk + 1) / n * 32; i++) {
            if (i < r->count) r->want[i] = ring_value(r, chunk, i);
        }
    }
}

void reduction_expect(reduction *r)
{
    if (r->settings.order == LS_ORDER_FAST) {
        expect_fast(r);
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        r->want[i] = tree_value(r->seed, 0, r->settings.shard_count, i);
    }
}

/* -- a rank ----------------------------------------------------------------------------------- */

static ls_status open_rank(reduction *r, int rank)
{
    reduction_rank *mine = &r->rank[rank];
    ls_device *device = r->device[rank];
    const size_t bytes = (r->settings.count_max + 2 * 32) * sizeof(float);
    LS_TRY(ls_stream_init(&mine->compute, device));
    LS_TRY(ls_event_init(&mine->ready, device));
    LS_TRY(ls_event_init(&mine->done, device));
    mine->piece_count = nodes_of(&r->settings, rank, mine->node);
    for (int i = 0; i <= mine->piece_count; i++) {
        LS_TRY(ls_device_alloc(device, bytes, &mine->memory[i]));
    }
    void *host = NULL;
    LS_TRY(ls_pinned_alloc(device, bytes, &host));
    mine->host = host;
    return LS_OK;
}

static void close_rank(reduction *r, int rank)
{
    reduction_rank *mine = &r->rank[rank];
    if (r->device[rank] != NULL) ls_pinned_release(r->device[rank], mine->host);
    for (int i = 16; i >= 0; i--) {
        if (mine->memory[i] != NULL) ls_device_release(r->device[rank], mine->memory[i]);
    }
    ls_event_free(&mine->done);
    ls_event_free(&mine->ready);
    ls_stream_free(&mine->compute);
}

/* -- the comm --------------------------------------------------------------------------------- */

static ls_pair_kind pair_kind(pair_pattern pattern, int a, int b)
{
    switch (pattern) {
    case PAIRS_PEER: return LS_PAIR_PEER;
    case PAIRS_STAGED: return LS_PAIR_STAGED;
    case PAIRS_LOCAL: return LS_PAIR_LOCAL;
    case PAIRS_MIXED: break;
    }
    return (ls_pair_kind)((a * 5 + b * 3 + a * b) % 3);
}

static ls_pair_kind kind_of(const reduction_settings *s, int a, int b)
{
    const ls_pair_kind kind = pair_kind(s->pairs, a, b);
    if (a == b) return LS_PAIR_LOCAL;
    if (s->device == NULL) return kind;
    if (s->device[a]->ordinal == s->device[b]->ordinal) return LS_PAIR_LOCAL;
    return kind == LS_PAIR_LOCAL ? LS_PAIR_PEER : kind;
}

static void lay_out(reduction *r)
{
    const int n = r->settings.world_size;
    r->topology.count = n;
    for (int a = 0; a < n; a++) {
        r->topology.ring[a] = r->settings.turn_ring ? (n - a) % n : a;
        for (int b = 0; b < n; b++) r->topology.pair[a * n + b] = kind_of(&r->settings, a, b);
    }
}

static ls_status open_devices(reduction *r)
{
    atomic_ulong *progress = ls_group_progress(r->group);
    for (int i = 0; i < r->settings.world_size; i++) {
        fault *f = r->settings.fault;
        if (r->settings.device != NULL) {
            r->device[i] = r->settings.device[i];
            r->device[i]->progress = progress;
            continue;
        }
        if (f == NULL) {
            LS_TRY(ls_device_open_host(i, 1, false, progress, &r->device[i]));
        } else {
            LS_TRY(faulty_device_open(i, 1, progress, i == r->settings.fault_rank ? f : NULL,
                                      &r->device[i]));
        }
        LS_TRY(ls_kernels_bind(r->device[i]));
    }
    return LS_OK;
}

static ls_status open_all(reduction *r)
{
    const reduction_settings *s = &r->settings;
    LS_TRY(ls_group_create(s->world_size, s->timeout_s > 0 ? s->timeout_s : 60, &r->group));
    LS_TRY(open_devices(r));
    lay_out(r);
    r->want = calloc(s->count_max + 1, sizeof *r->want);
    if (r->want == NULL) return ls_fail(LS_ERR_MEMORY, "want: %zu floats", s->count_max);
    const ls_comm_config config = { .algorithm = s->algorithm, .order = s->order,
                                    .shard_count = s->shard_count,
                                    .bucket_floats_max = s->count_max,
                                    .slice_floats = s->slice_floats,
                                    .bucket_count_max = s->calls_max > 0 ? s->calls_max : 8,
                                    .gather_bytes_max = 64 };
    LS_TRY(ls_comm_create(r->group, r->device, &r->topology, &config, &r->comm));
    for (int i = 0; i < s->world_size; i++) LS_TRY(open_rank(r, i));
    return LS_OK;
}

ls_status reduction_open(reduction *r, const reduction_settings *settings)
{
    memset(r, 0, sizeof *r);
    r->settings = *settings;
    const ls_status status = open_all(r);
    if (status != LS_OK) reduction_close(r);
    return status;
}

void reduction_close(reduction *r)
{
    for (int i = r->settings.world_size - 1; i >= 0; i--) close_rank(r, i);
    ls_comm_destroy(r->comm);
    for (int i = r->settings.world_size - 1; i >= 0; i--) {
        if (r->settings.device == NULL) ls_device_close(r->device[i]);
        else if (r->device[i] != NULL) r->device[i]->progress = NULL;
    }
    ls_group_destroy(r->group);
    free(r->want);
    memset(r, 0, sizeof *r);
}

/* -- a call ----------------------------------------------------------------------------------- */

/* A float that no sum above gives, to see what was not to be written. */
static const float UNTOUCHED = 1.5e30f;

static bool is_plain(const reduction *r) { return r->settings.device == NULL; }

ls_status reduction_put(reduction *r, reduction_rank *mine, int p, size_t count)
{
    float *buffer = (float *)mine->memory[p] + r->offset;
    if (is_plain(r)) {
        memcpy(buffer, mine->host, count * sizeof(float));
        return LS_OK;
    }
    LS_TRY(ls_copy_to_device(&mine->compute, buffer, mine->host, count * sizeof(float)));
    return ls_stream_drain(&mine->compute, NULL, "a test's buffer");
}

ls_status reduction_get(reduction *r, reduction_rank *mine, int p, size_t count)
{
    const float *buffer = (const float *)mine->memory[p] + r->offset;
    if (is_plain(r)) {
        memcpy(mine->host, buffer, count * sizeof(float));
        return LS_OK;
    }
    LS_TRY(ls_copy_to_host(&mine->compute, mine->host, buffer, count * sizeof(float)));
    return ls_stream_drain(&mine->compute, NULL, "a test's buffer");
}

/* What piece p has at i before the call; of the last buffer: nothing. */
static float filled_value(const reduction *r, const reduction_rank *mine, int p, size_t i)
{
    if (p == mine->piece_count || i >= r->count) return UNTOUCHED;
    return tree_value(r->seed, mine->node[p].begin, mine->node[p].count, i);
}

static ls_status fill(reduction *r, reduction_rank *mine)
{
    for (int p = 0; p <= mine->piece_count; p++) {
        float *buffer = (float *)mine->memory[p] + r->offset;
        for (size_t i = 0; i < r->count + 32; i++) mine->host[i] = filled_value(r, mine, p, i);
        LS_TRY(reduction_put(r, mine, p, r->count + 32));
        if (p < mine->piece_count) mine->piece[p] = buffer;
        else mine->result = r->settings.in_place ? mine->piece[0] : buffer;
    }
    return LS_OK;
}

/* The result, as it is in mine->host. */
static ls_status compare_result(const reduction *r, int rank, const reduction_rank *mine)
{
    for (size_t i = 0; i < r->count; i++) {
        if (memcmp(&mine->host[i], &r->want[i], sizeof(float)) == 0) continue;
        return ls_fail(LS_ERR_VERIFY, "rank %d, element %zu of %zu: %a instead of %a (seed %llu)",
                       rank, i, r->count, (double)mine->host[i], (double)r->want[i],
                       (unsigned long long)r->seed);
    }
    return LS_OK;
}

/* Nothing was written past a buffer's end; and pieces of a call whose result is elsewhere are as
 * they were. */
static ls_status compare(reduction *r, int rank, reduction_rank *mine)
{
    const bool in_place = r->settings.in_place;
    for (int p = 0; p <= mine->piece_count; p++) {
        LS_TRY(reduction_get(r, mine, p, r->count + 1));
        if (memcmp(&mine->host[r->count], &UNTOUCHED, sizeof(float)) != 0) {
            return ls_fail(LS_ERR_VERIFY, "rank %d: buffer %d was written past %zu", rank, p,
                           r->count);
        }
        if (p == (in_place ? 0 : mine->piece_count)) LS_TRY(compare_result(r, rank, mine));
        if (in_place || p == mine->piece_count) continue;
        for (size_t i = 0; i < r->count; i++) {
            const float was = filled_value(r, mine, p, i);
            if (memcmp(&mine->host[i], &was, sizeof was) == 0) continue;
            return ls_fail(LS_ERR_VERIFY, "rank %d: piece %d, element %zu of %zu was altered", rank,
                           p, i, r->count);
        }
    }
    return LS_OK;
}

ls_status reduction_submit(reduction *r, int rank, int bucket, size_t count, int piece_count)
{
    reduction_rank *mine = &r->rank[rank];
    const ls_pieces pieces = { .bucket = bucket, .count = count, .piece_count = piece_count,
                               .node = mine->node, .piece = mine->piece, .result = mine->result,
                               .ready = &mine->ready, .done = &mine->done,
                               .unnoted = r->settings.unnoted };
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    return ls_all_reduce(r->comm, rank, &pieces);
}

ls_status reduction_rank_run(reduction *r, int rank)
{
    reduction_rank *mine = &r->rank[rank];
    LS_TRY(fill(r, mine));
    LS_TRY(reduction_submit(r, rank, r->bucket, r->count, mine->piece_count));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    return compare(r, rank, mine);
}

static ls_status run_rank(int rank, void *arg)
{
    return reduction_rank_run(arg, rank);
}

ls_status reduction_run_once(reduction *r)
{
    reduction_expect(r);
    return run_ranks_in(r->group, run_rank, r, NULL);
}

typedef struct {
    reduction *r;
    reduction_body *body;
} body_run;

static ls_status run_body(int rank, void *arg)
{
    const body_run *run = arg;
    return run->body(run->r, rank, &run->r->rank[rank]);
}

ls_status reduction_run_body(reduction *r, const reduction_settings *settings, size_t count,
                             reduction_body *body)
{
    body_run run = { r, body };
    LS_TRY(reduction_open(r, settings));
    r->count = count;
    reduction_expect(r);
    return run_ranks_in(r->group, run_body, &run, NULL);
}

enum { ROW_WORDS = 5 };

static uint32_t row_word(int shard, size_t i) { return (uint32_t)shard * 1000u + (uint32_t)i; }

ls_status reduction_gather_check(reduction *r, int rank, reduction_rank *mine)
{
    const int shards = r->settings.shard_count;
    uint32_t *rows = mine->memory[0];
    for (int s = 0; s < shards; s++) {
        const bool own = s >= ls_rank_shard_begin(rank, shards, r->settings.world_size) &&
                         s < ls_rank_shard_begin(rank + 1, shards, r->settings.world_size);
        for (size_t i = 0; i < ROW_WORDS; i++) {
            rows[(size_t)s * ROW_WORDS + i] = own ? row_word(s, i) : 0;
        }
    }
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    LS_TRY(ls_gather(r->comm, rank, rows, ROW_WORDS * sizeof rows[0], &mine->ready, &mine->done));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    for (int s = 0; s < shards; s++) {
        for (size_t i = 0; i < ROW_WORDS; i++) {
            const uint32_t have = rows[(size_t)s * ROW_WORDS + i];
            if (have == row_word(s, i)) continue;
            return ls_fail(LS_ERR_VERIFY, "rank %d: row %d, word %zu: %u", rank, s, i, have);
        }
    }
    return LS_OK;
}

ls_status reduction_broadcast_check(reduction *r, int rank, reduction_rank *mine)
{
    float *x = mine->memory[0];
    for (size_t i = 0; i < r->count; i++) x[i] = rank == 0 ? (float)i : -1.0f;
    LS_TRY(ls_event_record(&mine->ready, &mine->compute));
    LS_TRY(ls_broadcast(r->comm, rank, x, r->count, &mine->ready, &mine->done));
    LS_TRY(ls_stream_wait(&mine->compute, &mine->done));
    LS_TRY(ls_comm_verify(r->comm, rank));
    for (size_t i = 0; i < r->count; i++) {
        if (x[i] != (float)i) {
            return ls_fail(LS_ERR_VERIFY, "rank %d: element %zu: %g", rank, i, (double)x[i]);
        }
    }
    return LS_OK;
}
