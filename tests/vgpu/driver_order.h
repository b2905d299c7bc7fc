/* SPDX-License-Identifier: MIT */
/* driver_order.h -- finds work of two streams that touches the same bytes with nothing between.
 *
 * A device runs streams side by side unless an event orders them. A wait that was left out shows
 * as wrong numbers only if the timing is bad; here it is found whatever the timing was.
 *
 * Vector clocks. Every operation of stream s has a sequence number in s, from 1. The clock of an
 * operation X tells, for each stream t, how many operations of t surely come before X:
 *
 *     in stream order     clock of X starts as that of the operation before it in s, s itself + 1
 *     event record        the event keeps the clock of the stream as it is
 *     wait for an event   the stream's clock becomes the maximum of its own and the event's
 *     seen by the host    a query that answers "done" gives the clock to the host; what the host
 *                         enqueues after it has at least the host's clock
 *
 * Y (number n of stream t) comes before X when clock(X)[t] >= n. Of two operations that touch the
 * same bytes, one at least writing, one must come before the other: else it is reported.
 *
 * What the host knows: an idle stream (vgpu_order_seen_stream) is taken to be known to every host
 * thread, as threads meet after draining their streams and that meeting is not visible here. An
 * event that one thread saw done (vgpu_order_seen_event) is known to that thread alone.
 *
 * The bytes that a kernel touches are known when it has run, in any order. So operations are
 * logged as they are enqueued and looked at in that order, as soon as the oldest is known:
 * what is reported does not depend on the timing of the streams.
 *
 * For each allocation a history keeps, per byte, who wrote it last and who of each stream has read
 * it last since. That is enough: what was ordered before the last write is ordered before all
 * that is ordered after it.
 *
 * Kernels report weak accesses only. An atomic or an acquire or release is itself an order that
 * these clocks do not know; flags between running kernels are not followed.
 *
 * Thread rule: all functions lock; vgpu_order_touch of one action by one thread at a time.
 */
#ifndef VGPU_DRIVER_ORDER_H
#define VGPU_DRIVER_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vgpu_order vgpu_order;
typedef struct vgpu_history vgpu_history; /* of one allocation */
typedef struct vgpu_action vgpu_action;   /* one logged operation */
typedef struct vgpu_clock vgpu_clock;     /* what a recorded event keeps */

/* Called, under the lock of the order, for the first pair of each operation that lacks one. */
typedef void vgpu_order_report(void *context, const char *text);

vgpu_order *vgpu_order_create(vgpu_order_report *report, void *context);
void vgpu_order_destroy(vgpu_order *order);

/* A stream index begins a new life, on `device`: its numbers go on where they were, and what it did
 * in an earlier life counts as earlier work of the same stream. */
void vgpu_order_open(vgpu_order *order, int stream, int device);

/* Host thread is about to enqueue on `stream`: the next sequence number. */
uint32_t vgpu_order_next(vgpu_order *order, int stream);

/* The clock of `stream` now. Owns: the result, until vgpu_clock_free. */
vgpu_clock *vgpu_order_record(vgpu_order *order, int stream);
void vgpu_order_wait(vgpu_order *order, int stream, const vgpu_clock *clock);
void vgpu_order_seen_stream(vgpu_order *order, int stream);
void vgpu_order_seen_event(vgpu_order *order, const vgpu_clock *clock);
void vgpu_clock_free(vgpu_clock *clock);

/* Logs the operation that vgpu_order_next numbered last. `what` ("kernel add") is copied. */
vgpu_action *vgpu_order_log(vgpu_order *order, int stream, const char *what);
/* It reads or writes bytes [begin, end) of an allocation. */
void vgpu_order_touch(vgpu_action *action, vgpu_history *history, size_t begin, size_t end,
                      bool write);
/* All that it touches has been told. Owns: the log, from here on. */
void vgpu_order_known(vgpu_order *order, vgpu_action *action);

/* `address` is for reports. References: 1 of the caller and 1 of each touch not yet looked at. */
vgpu_history *vgpu_history_create(uint64_t address);
void vgpu_history_release(vgpu_order *order, vgpu_history *history);

#endif
