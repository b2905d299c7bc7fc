/* SPDX-License-Identifier: MIT */
/* machines.h -- every implementation of the ops that this machine can run, one after the other.
 *
 * machine[0] is the reference; then come portable, avx2 and avx512 as far as the CPU has them, each
 * with 1, 2 and 3 compute threads. A twin test runs an op on all of them and wants the reference's
 * bits. The memory of host devices is plain memory: tests pass pointers from malloc, of the exact
 * size, so that the address sanitizer sees any step outside.
 */
#ifndef TEST_SUPPORT_MACHINES_H
#define TEST_SUPPORT_MACHINES_H

#include "device/device.h"
#include "kernels/kernels.h"

enum { MACHINES_MAX = 10 };

typedef struct {
    char name[32]; /* "avx2, 3 threads" */
    ls_device *device;
    ls_stream stream;
} machine;

typedef struct {
    int count;
    machine machine[MACHINES_MAX];
} machines;

/* Fails the running test where a device cannot be opened; a set that this CPU lacks is left out. */
void machines_open(machines *set);
void machines_close(machines *set);

/* Overwrite the scratch memory of the machine's threads, so that an op finds there nothing that an
 * earlier one left. */
void machine_spoil_scratch(machine *m);

/* Those of a test program that has them open all the time, by the group's
 * fixtures. */
extern machines all;
int open_machines(void **state);
int close_machines(void **state);

#endif
