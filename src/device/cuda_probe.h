/* SPDX-License-Identifier: MIT */
/* cuda_probe.h -- what the program that asks for a probe and the child that does it agree on.
 *
 * Internal to the CUDA backend. The child is this same program, started with the variable
 * LS_CUDA_PROBE_VARIABLE in its environment:
 *
 *     "<descriptor> <first pair> all"           all GPUs
 *     "<descriptor> <first pair> 0,2,5"         these
 *
 * It writes lines to the descriptor, each complete before what it tells of is begun:
 *
 *     gpus 0 2 5                the GPUs that it found; pairs are numbered from 0: see below
 *     try 4                     pair 4 is being probed
 *     yes 4 1 381.2 9.1         it works; the driver's performance rank of the link is 1, copies
 *                               run at 381.2 GB/s, and one of 4 KiB takes 9.1 us; 0 0: unmeasured
 *     no 4 <why>                it does not
 *     host 2 55.1 8.0 53.2 9.1  likewise between GPU 2 and the host: to the host, from it
 *     limit 0 8                 GPU 0 could be given access to 8 others and no more
 *     end                       all pairs are done
 *
 * A child that ends, or goes silent, after "try 4" tells by that about pair 4; another one is then
 * started with the pair after it.
 */
#ifndef LS_DEVICE_CUDA_PROBE_H
#define LS_DEVICE_CUDA_PROBE_H

#include "device/device.h"
#include "status.h"

#define LS_CUDA_PROBE_VARIABLE "LOCKSTEP_LINK_PROBE"

enum { LS_CUDA_PROBE_LINE_BYTES = 400 };

/* Ordered pairs of `count` GPUs. Pure. */
static inline int ls_cuda_probe_pair_count(int count)
{
    return count * (count - 1);
}

/* Pair `pair` is from place *from to place *to of the list of GPUs: by `from`, then by `to`, which
 * skips `from`. Pure. */
static inline void ls_cuda_probe_pair_at(int pair, int count, int *from, int *to)
{
    *from = pair / (count - 1);
    *to = pair % (count - 1);
    if (*to >= *from) *to += 1;
}

/* In the child: poll until the stream is idle, but not for long. Errors: TIMEOUT, DEVICE. */
LS_MUST_USE ls_status ls_cuda_probe_settle(ls_stream *stream);

/* The child: probe what `request` asks for, and tell. Returns the exit code. */
int ls_cuda_probe_run(const char *request);

#endif
