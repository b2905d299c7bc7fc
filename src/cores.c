/* SPDX-License-Identifier: MIT */
/* cores.c -- the cores of this machine: which a thread may use, where it stays, when it gives way.
 *
 * POSIX knows neither affinity nor classes of scheduling that matter here; these are Linux's calls
 * (sched_setaffinity(2), sched_setscheduler(2)). None of them decides what is computed, so a system
 * that refuses one is not an error.
 *
 * A thread inherits the cores of the thread that makes it. So a device opened by a thread that has
 * entered some cores has its compute threads there, and memory that is first written there lies in
 * their memory bank.
 */
#define _GNU_SOURCE /* the affinity calls, CPU_* and SCHED_BATCH */

#include "thread.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>

enum { MASK_MAX = 1 << 16 }; /* the widest affinity mask asked for, in cores */

int ls_core_count(void)
{
    ls_cores cores;
    ls_cores_read(&cores);
    return cores.count;
}

/* What is in a mask of `width` cores; returns false if the system's is wider. */
static bool read_mask(ls_cores *cores, size_t width)
{
    cpu_set_t *mask = CPU_ALLOC(width);
    if (mask == NULL) return true;
    const size_t bytes = CPU_ALLOC_SIZE(width);
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    cores->count = 0;
    for (size_t core = 0; known && core < width; core++) {
        if (!CPU_ISSET_S(core, bytes, mask)) continue;
        if (cores->count < LS_CORE_MAX) cores->number[cores->count] = (int)core;
        cores->count++;
    }
    CPU_FREE(mask);
    return known;
}

void ls_cores_read(ls_cores *cores)
{
    cores->count = 0;
    for (size_t width = 1024; width <= MASK_MAX && !read_mask(cores, width); width *= 2) continue;
    if (cores->count > 0) return;
    cores->count = 1;
    cores->number[0] = 0;
}

bool ls_cores_enter(const ls_cores *cores, int first, int count)
{
    assert(0 <= first && 1 <= count && first + count <= cores->count);
    if (first + count > LS_CORE_MAX) return false;
    const size_t width = (size_t)cores->number[first + count - 1] + 1; /* they ascend */
    cpu_set_t *mask = CPU_ALLOC(width);
    if (mask == NULL) return false;
    const size_t bytes = CPU_ALLOC_SIZE(width);
    CPU_ZERO_S(bytes, mask);
    for (int i = 0; i < count; i++) CPU_SET_S((size_t)cores->number[first + i], bytes, mask);
    const bool entered = sched_setaffinity(0, bytes, mask) == 0;
    CPU_FREE(mask);
    return entered;
}

void ls_cores_text(const ls_cores *cores, int first, int count, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = first; i < first + count && used < room;) {
        int end = i + 1;
        while (end < first + count && cores->number[end] == cores->number[end - 1] + 1) end++;
        used += (size_t)snprintf(text + used, room - used, "%s%d", i > first ? "," : "",
                                 cores->number[i]);
        if (end - i > 1 && used < room)
            used += (size_t)snprintf(text + used, room - used, "-%d", cores->number[end - 1]);
        i = end;
    }
}

void ls_thread_give_way(void)
{
    const struct sched_param none = { .sched_priority = 0 };
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
}
