/* SPDX-License-Identifier: MIT */
/* gpu_machines.h -- on which GPUs a case of fresh_process.h is run.
 *
 * On virtual ones of the kinds that a kernel may meet, or, where the driver is a real one, on the
 * GPU that is there. Main thread only.
 */
#ifndef TEST_SUPPORT_GPU_MACHINES_H
#define TEST_SUPPORT_GPU_MACHINES_H

/* Skips the running test where fewer GPUs are usable; where LS_REQUIRE_GPU in the environment is as
 * large, fails it. */
void need_gpus(int count);

/* Skips the running test unless the driver is the virtual one, which does what settings tell. */
void need_virtual_driver(void);

/* Three schedules on three architectures: 7.5, 8.0, 12.0. */
void on_three_machines(const char *name);

/* The same on 7.5, 8.0, 9.0 with 4, 1 and 132 multiprocessors: ops that share their work out by how
 * many there are. */
void on_three_sizes(const char *name);

#endif
