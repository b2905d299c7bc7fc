/* SPDX-License-Identifier: MIT */
/* paper.h -- a device on paper: it counts what is asked of it, and has and does nothing.
 *
 * Opening a run on paper devices tells what it will allocate without a second formula for it. They
 * look like devices of the kind that they stand for. Device memory is an address that nobody may
 * touch; so is pinned memory, but for small blocks, which set-up code fills. Copies and fills do
 * nothing, streams are idle, events complete. Ops cannot run on one: whoever opens one gives it
 * kernels that are never called.
 *
 * Thread rule: as device.h.
 */
#ifndef LS_DEVICE_PAPER_H
#define LS_DEVICE_PAPER_H

#include "device/device.h"

/* Errors: MEMORY. */
LS_MUST_USE ls_status ls_device_open_paper(ls_device_kind kind, int ordinal, ls_device **out);

/* Pinned memory that is open on a paper device. Pure. */
size_t ls_paper_pinned_bytes(const ls_device *device);

/* Device memory that its open streams take besides ls_device_alloc's. Pure. */
size_t ls_paper_stream_bytes(const ls_device *device);

#endif
