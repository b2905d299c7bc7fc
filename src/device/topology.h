/* SPDX-License-Identifier: MIT */
/* topology.h -- which devices the replicas use, how each pair exchanges bytes, and the ring.
 *
 * Thread rule: built by the main thread before the ranks start, read-only after.
 */
#ifndef LS_DEVICE_TOPOLOGY_H
#define LS_DEVICE_TOPOLOGY_H

#include "device/cuda.h"
#include "device/device.h"
#include "numerics.h"

typedef enum { LS_P2P_AUTO, LS_P2P_ON, LS_P2P_OFF } ls_p2p;

enum { LS_WORLD_MAX = LS_SHARD_MAX };

/* One entry of a device list: "host:4" gives four with kind HOST and ordinals 0..3. */
typedef struct {
    ls_device_kind kind;
    int ordinal;
} ls_device_choice;

/* What --devices said, resolved. */
typedef struct {
    int count;                              /* the world size */
    ls_device_choice device[LS_WORLD_MAX];
    char reason[160]; /* why: "--devices host:4", "auto: no usable GPU (...)" */
} ls_device_list;

/* Parse and resolve `auto`, `host`, `host:N`, `cuda`, `cuda:LIST`, each LIST element K or K*M.
 * A build or machine without a usable GPU: `auto` is host:1 with the reason, `cuda` is an error.
 * With more than LS_WORLD_MAX GPUs `auto` is the first of them, and says so; `cuda` is an error.
 * Where several GPUs are meant, their pairs are probed first (unless `p2p` is OFF): see
 * ls_cuda_probe. Main thread. Blocks: as ls_cuda_probe.
 * Errors: ARGUMENT (syntax, too many, a duplicate not spelled K*M), DEVICE (no usable GPU). */
LS_MUST_USE ls_status ls_device_list_parse(const char *text, ls_p2p p2p, ls_device_list *out);

/* The same for a machine with `gpu_count` usable GPUs, `why_none` if it is 0. Pure. */
LS_MUST_USE ls_status ls_device_list_resolve(const char *text, int gpu_count,
                                             const char *why_none, ls_device_list *out);

/* Open one entry of a list: the only place that knows the kinds. A host device gets a pool of
 * `thread_count` threads (`spin`: see ls_pool_create), a GPU needs none. Errors: MEMORY, DEVICE. */
LS_MUST_USE ls_status ls_device_open(const ls_device_choice *choice, int thread_count, bool spin,
                                     atomic_ulong *progress, ls_device **out);

/* pair[a * count + b]: how bytes get from rank a's device to rank b's. Row-major, [count, count].
 * reason[a * count + b]: why that is STAGED, for the life of the program; NULL where it is not.
 * speed[a * count + b]: of copies on a PEER pair of GPUs; all zero where it was not measured.
 * ring[i]: the rank at place i of the ring; a permutation that starts with 0. */
typedef struct {
    int count;
    ls_pair_kind pair[LS_WORLD_MAX * LS_WORLD_MAX];
    const char *reason[LS_WORLD_MAX * LS_WORLD_MAX];
    ls_cuda_speed speed[LS_WORLD_MAX * LS_WORLD_MAX];
    int ring[LS_WORLD_MAX];
} ls_topology;

/* Pair kinds of `count` open devices under `p2p`, and the ring, validated by walking it. Host pairs
 * are PEER; pairs of GPUs are if they are proven and neither GPU has more partners than it may
 * have; OFF makes every pair of different devices STAGED.
 * Errors: DEVICE (p2p ON and a pair that can only be STAGED: names it and says why). */
LS_MUST_USE ls_status ls_topology_init(ls_topology *topology, ls_device *const *device, int count,
                                       ls_p2p p2p);

/* -- its parts, pure -- */

/* A ring over `count` ranks that has as few STAGED pairs as can be found and then, by
 * link_rank[a * count + b] (0 the best), the fastest links; 0, 1, 2 ... if none is better. */
void ls_ring_choose(const ls_pair_kind *pair, const int *link_rank, int count, int *ring);

/* Make STAGED what exceeds the number of partners that a device may have: device_of[rank] numbers
 * the devices from 0, partner_max[device] is their limit. Neighbours in the ring are kept first,
 * then those at distance 2, and so on. Marks dropped[a * count + b]. */
void ls_pairs_limit(ls_pair_kind *pair, const int *ring, int count, const int *device_of,
                    const int *partner_max, bool *dropped);

/* "LOCAL", "PEER", "STAGED". Pure. */
const char *ls_pair_kind_name(ls_pair_kind kind);

/* Does following `ring` from place 0 visit each of `count` ranks once, rank 0 first? Pure. */
bool ls_ring_is_whole(const int *ring, int count);

#endif
