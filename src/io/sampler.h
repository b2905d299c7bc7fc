/* SPDX-License-Identifier: MIT */
/* sampler.h -- in which order an epoch visits the samples, and which step takes which.
 *
 * Epoch e's order is a Fisher-Yates shuffle of the identity, from the top, driven by Philox keyed
 * by (seed, SHUFFLE, e): nothing of it depends on replicas, threads or the past. Step s of an
 * epoch takes positions [s B, min((s+1) B, count)). Every sample once per epoch.
 */
#ifndef LS_IO_SAMPLER_H
#define LS_IO_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* order[0 .. count-1] = epoch's order of samples 0 .. count-1; the identity if !shuffle. */
void ls_sampler_order(uint64_t seed, uint32_t epoch, bool shuffle, size_t count, uint32_t *order);

/* Steps of an epoch of `count` samples. drop_remainder leaves out a last short step. Pure. */
size_t ls_sampler_step_count(size_t count, size_t global_batch, bool drop_remainder);

/* Samples of step `step` (0-based in its epoch): B, or fewer in the last. Pure. */
size_t ls_sampler_step_samples(size_t count, size_t global_batch, size_t step);

#endif
