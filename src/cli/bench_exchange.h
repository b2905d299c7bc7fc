/* SPDX-License-Identifier: MIT */
/* bench_exchange.h -- all-reduces measured and checked: what `lockstep bench allreduce` runs.
 *
 * The inputs are such that every sum is known beforehand and exact in float: element i of shard s
 * is (s + 1) * (i mod 7 + 1), so the sum over V shards is V (V + 1) / 2 * (i mod 7 + 1). A rank
 * brings the sums of its shards, one per piece, as in a training step; with V = N, which is what
 * the command takes unless told, each rank brings one piece.
 *
 * One repetition: inputs restored, output poisoned, all ranks meet, then the clock runs from there
 * until the result may be used on this rank; the slowest rank's time counts. Afterwards, untimed,
 * the digests are compared and every element of every rank's result is.
 *
 * Thread rule: opened, run and closed by the main thread; on_row is called by rank 0's.
 */
#ifndef LS_CLI_BENCH_EXCHANGE_H
#define LS_CLI_BENCH_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/all_reduce.h"
#include "device/topology.h"
#include "thread.h"
#include "train/config.h"

typedef struct {
    double seconds;       /* median of the repetitions, each the slowest rank's */
    uint64_t wrong_count; /* elements, over all ranks and repetitions, that are not the sum; and out
                             of place, elements of the inputs that are not what they were */
} ls_exchange_result;

typedef struct {
    size_t count;         /* floats */
    ls_exchange_result out_of_place, in_place;
} ls_exchange_row;

/* One rank's memory: a piece and what it is restored from, per node; a result. */
typedef struct {
    ls_device *device;              /* owned */
    ls_stream compute;
    ls_event ready, done;
    int node_count;
    ls_node node[LS_FOLD_MERGE_MAX * 2];
    float *pristine[LS_FOLD_MERGE_MAX * 2], *piece[LS_FOLD_MERGE_MAX * 2], *result; /* owned */
    float *host;                    /* owned, pinned: a part of a buffer, to fill and to check */
    double seconds;                 /* of the latest repetition; written by the rank alone */
    uint64_t wrong_count;           /* likewise, since the row's half began */
} ls_exchange_rank;

typedef struct {
    /* Set by the caller. */
    const ls_config *config;        /* allreduce, order, p2p, threads, timeout */
    const ls_device_list *list;
    int shard_count;
    size_t count_max, offset;       /* floats; the buffers start `offset` floats off 128 bytes */
    const size_t *count;            /* [count_count], none above count_max */
    int count_count, repetitions;
    void (*on_row)(void *context, const ls_exchange_row *row);
    void *context;
    /* Made by ls_exchange_open. */
    ls_group *group;
    ls_topology topology;
    ls_comm *comm;
    ls_exchange_rank *rank;         /* owned; [world size] */
    double *seconds;                /* owned; [repetitions]; rank 0's */
} ls_exchange;

/* Devices, links, buffers, inputs. After an error only ls_exchange_close may follow.
 * Errors: ARGUMENT, MEMORY, DEVICE. */
LS_MUST_USE ls_status ls_exchange_open(ls_exchange *exchange);

/* All sizes, out of place and in place. Ends the process with code 5 if a rank is stuck in a call
 * that answers nothing. Errors: as ls_all_reduce and ls_comm_verify. Blocks. */
LS_MUST_USE ls_status ls_exchange_run(ls_exchange *exchange);

void ls_exchange_close(ls_exchange *exchange); /* accepts what a failed open left */

#endif
