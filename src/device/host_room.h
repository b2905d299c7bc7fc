/* SPDX-License-Identifier: MIT */
/* host_room.h -- how much memory this process may still take before the kernel kills something.
 *
 * Linux promises memory that it does not have and pays with a kill, so a run looks before it
 * allocates. The answer is an estimate: others allocate, too.
 */
#ifndef LS_DEVICE_HOST_ROOM_H
#define LS_DEVICE_HOST_ROOM_H

#include <stddef.h>

typedef struct {
    size_t bytes;    /* SIZE_MAX: not known */
    char why[200];   /* "available to the machine", "left of the limit in FILE" */
} ls_host_room;

/* The least of /proc/meminfo's MemAvailable and of what the process's control groups leave, its own
 * and all above it. `root` is what stands before /proc and /sys: "", but for tests. */
void ls_host_room_read(const char *root, ls_host_room *out);

#endif
