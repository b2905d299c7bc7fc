/* SPDX-License-Identifier: MIT */
/* cuda.h -- the GPUs of this machine: what they are, how to open one, and how to launch on it.
 *
 * A build links one of two implementations: the driver's (cuda.c and what it uses), or
 * cuda_absent.c, which has none. No code asks which. Nothing here names a type of the toolkit, so
 * whatever includes this file builds without one.
 *
 * The driver belongs to the process: it is loaded by the first call that needs it and stays.
 * Every function may be called from any thread; a launch, by device.h's rule, from the owner's.
 */
#ifndef LS_DEVICE_CUDA_H
#define LS_DEVICE_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"
#include "device/pcie.h"
#include "status.h"

/* -- what is there ----------------------------------------------------------------------------- */

/* GPUs that can be opened, with ordinals 0 .. count-1. If there is none, `*why` says why, in words
 * that fit behind "no usable GPU: "; it stays valid for the life of the program. */
int ls_cuda_usable_count(const char **why);

/* The newest CUDA that the driver serves: 13000 for 13.0; 0 where no GPU is usable. */
int ls_cuda_driver_version(void);

/* What a GPU says of itself without being opened. */
typedef struct {
    char name[80];            /* "NVIDIA H200" */
    int capability;           /* 90 for 9.0 */
    int multiprocessor_count;
    size_t memory_bytes;      /* all of it */
    double peak;              /* fp32 operations per second, a multiply-add being two */
    bool time_limited;        /* kernels that run long are ended: a display is attached */
    bool is_virtual;          /* by its name, it is tests/vgpu's: its times say nothing */
    char pci[16];             /* "0000:17:00.0", or "" */
    ls_pcie pcie;             /* how it is plugged in */
} ls_cuda_facts;
LS_MUST_USE ls_status ls_cuda_facts_read(int ordinal, ls_cuda_facts *out);

/* Bytes of an open GPU's memory that are in use now, by this process and by others. */
LS_MUST_USE ls_status ls_cuda_used_bytes(ls_device *device, size_t *out);

/* -- pairs ------------------------------------------------------------------------------------- */

/* Probe every ordered pair of `count` GPUs (count 0: of all GPUs) in a child process, and remember
 * the verdicts, and how fast copies between them and to and from the host are. Peer access counts
 * as absent where this was not called. Called before the driver is needed here, so that what kills
 * a process kills only the child. One GPU that is named has no pair, but a speed. A machine or
 * build without a driver has nothing to probe. Blocks: until the driver has started, 60 s at most,
 * and at most 20 s then. */
void ls_cuda_probe(const int *ordinal, int count);

/* May GPU `from` access the memory of GPU `to`? `*why_not`, valid for the life of the program, says
 * why if it may not ("cuDeviceCanAccessPeer says no", "the probe's copy arrived changed"). */
bool ls_cuda_pair_is_proven(int from, int to, const char **why_not);

/* How fast the driver says a proven pair's link is, against this machine's others: 0 the best. */
int ls_cuda_pair_rank(int from, int to);

/* How fast copies are that the probe has measured. */
typedef struct {
    double gb_per_s; /* 10^9 bytes per second, of large ones */
    double us;       /* microseconds, one of 4 KiB among others */
} ls_cuda_speed;

/* The speed from one GPU to another, or between a GPU and pinned memory of the host
 * (LS_CUDA_HOST). False: it was not measured. */
enum { LS_CUDA_HOST = -1 };
bool ls_cuda_speed_of(int from, int to, ls_cuda_speed *out);

/* With how many others GPU `ordinal` may have peer access at a time, as the probe found. */
int ls_cuda_partner_max(int ordinal);

/* -- devices ----------------------------------------------------------------------------------- */

/* Open GPU `ordinal`. Devices opened on one GPU share its context and its modules. `progress` may
 * be NULL. Errors: DEVICE, MEMORY. */
LS_MUST_USE ls_status ls_device_open_cuda(int ordinal, atomic_ulong *progress, ls_device **out);

/* -- for kernels/cuda/ ------------------------------------------------------------------------ */

/* Find every kernel that will be launched: all of them before the first launch. `name` is borrowed
 * until the device is closed. Devices that share a GPU share the result; called for each of them,
 * with the same names. Errors: DEVICE (names a kernel that is not in the image), MEMORY. */
LS_MUST_USE ls_status ls_cuda_kernels_load(ls_device *device, const char *const *name, int count);

/* One launch of a kernel of the image. */
typedef struct {
    const char *kernel;  /* one of the names that were loaded */
    unsigned grid[3];    /* none may be 0; x up to 2^31 - 1, y and z up to 65535 */
    unsigned block;      /* threads */
    const void *params;  /* the kernel's only argument, its parameter struct; copied by the call */
    size_t param_bytes;
} ls_cuda_launch_args;

/* `stream` belongs to a CUDA device. Async. Errors: DEVICE (names kernel, grid and block). */
LS_MUST_USE ls_status ls_cuda_launch(ls_stream *stream, const ls_cuda_launch_args *launch);

/* Device memory of the stream's own, 256-byte aligned, made with it: where an op leaves what its
 * next launch reads. Its contents outlive no op. */
enum { LS_CUDA_WORKSPACE_BYTES = 4 << 20 };
void *ls_cuda_workspace(const ls_stream *stream);

/* Multiprocessors of an open GPU. */
int ls_cuda_multiprocessor_count(const ls_device *device);

#endif
