/* SPDX-License-Identifier: MIT */
/* virtual_machine.h -- the virtual driver in the hands of a test: contexts, streams, kernels.
 *
 * One driver at a time: OPEN, some calls through `cu`, CLOSE. All functions assert that their
 * calls succeed, so they belong to the main thread.
 */
#ifndef TEST_SUPPORT_VIRTUAL_MACHINE_H
#define TEST_SUPPORT_VIRTUAL_MACHINE_H

#include "support/test.h"
#include "support/virtual_driver.h"

enum { VIRTUAL_CONTEXTS = 16 };
extern virtual_driver cu;
extern CUcontext context[VIRTUAL_CONTEXTS]; /* of each device, retained */
extern int device_count;

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* OPEN("DEVICES=2", ...): a driver with these settings, initialised, all primary contexts
 * retained, that of device 0 current. */
#define OPEN(...) open_driver((const char *const[]){ __VA_ARGS__, NULL })
void open_driver(const char *const *settings);
void open_library(const char *const *settings); /* not initialised, no context */
void close_driver(void);   /* releases the contexts */
void abandon_driver(void); /* after a fault nothing can be released, as on hardware */

void make_current(int device);
CUstream new_stream(void); /* non-blocking, of the current context, as all that follows */
CUevent new_event(void);   /* without timing */
CUdeviceptr new_memory(size_t bytes);
unsigned *new_pinned(size_t count);
CUmodule load(void); /* virtual_kernels.h */
CUfunction function_of(CUmodule module, const char *name);

CUresult launch_fill(CUfunction fill, CUstream stream, CUdeviceptr to, unsigned value,
                     unsigned count);
CUresult launch_copy(CUfunction copy, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                     unsigned count);
CUresult launch_flag(CUfunction spin_or_lift, CUstream stream, CUdeviceptr flag);

void pause_briefly(void);
/* Polls until the stream is idle or has failed; within the time limit of the whole test. */
CUresult finish(CUstream stream);

#endif
