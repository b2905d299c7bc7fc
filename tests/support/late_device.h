/* SPDX-License-Identifier: MIT */
/* late_device.h -- host devices whose streams run later, in any order their events allow.
 *
 * A plain host device runs work before the enqueuing call returns, so code that forgets an event
 * still works on it. Here copies, merges and digests are queued, as on a GPU, and one thread, the
 * world's, carries them out: it draws the next stream at random and now and then lets some of them
 * lie for a while. Every access is checked against all earlier ones that touch the same bytes: two
 * of them, one a write, must be ordered by streams and events, not by luck (vector clocks). So a
 * missing wait is found even in a schedule in which it did no harm.
 *
 * Only what collectives use is there: copies, merge, digest.
 *
 * Thread rule: open and close by the main thread; between, devices as in device.h.
 */
#ifndef TEST_SUPPORT_LATE_DEVICE_H
#define TEST_SUPPORT_LATE_DEVICE_H

#include "device/device.h"

typedef struct late_world late_world;

LS_MUST_USE ls_status late_world_create(uint64_t seed, late_world **out);
void late_world_destroy(late_world *world); /* accepts NULL; its devices are closed */

LS_MUST_USE ls_status late_device_open(late_world *world, int ordinal, atomic_ulong *progress,
                                       ls_device **out);

/* The first race that was found, or NULL. Valid until the world is destroyed. */
const char *late_world_race(late_world *world);

#endif
