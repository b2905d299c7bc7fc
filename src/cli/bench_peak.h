/* SPDX-License-Identifier: MIT */
/* bench_peak.h -- how many multiply-adds a device can do: what speeds are a share of.
 *
 * Of a host device it is sampled: fused multiply-adds in registers, on all threads of the device's
 * pool at once, for about LS_BENCH_SECONDS. A GPU's is not sampled: it is its number of fp32 units
 * times twice its highest clock, and a virtual one's says nothing.
 *
 * Thread rule: the device belongs to the calling thread.
 */
#ifndef LS_CLI_BENCH_PEAK_H
#define LS_CLI_BENCH_PEAK_H

#include "device/device.h"
#include "kernels/host/host.h"

typedef struct {
    ls_pool *pool;    /* borrowed; NULL: a GPU */
    ls_peak_fn *fn;   /* NULL: not sampled */
    size_t rounds;    /* of a task */
    double macs;      /* of a task; all do the same, the first says it */
    double fixed;     /* flops per second where it is not sampled; 0: not known */
} ls_peak_probe;

/* 0: a virtual one. Errors: DEVICE. */
LS_MUST_USE ls_status ls_peak_of_gpu(int ordinal, double *flops);

/* Errors: DEVICE. Blocks: some milliseconds. */
LS_MUST_USE ls_status ls_peak_probe_init(ls_peak_probe *probe, ls_device *device);

/* Flops per second of all threads; 0: not known. Blocks: about LS_BENCH_SECONDS. */
double ls_peak_probe_sample(ls_peak_probe *probe);

#endif
