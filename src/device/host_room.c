/* SPDX-License-Identifier: MIT */
/* host_room.c -- see host_room.h.
 *
 *     /proc/meminfo          MemAvailable: N kB
 *     /proc/self/cgroup      0::/a/b (version 2); 5:memory:/a/b (version 1)
 *
 * Version 2 has, in /sys/fs/cgroup/a/b and every folder above it, memory.max (a number, or "max")
 * and memory.current; version 1 in /sys/fs/cgroup/memory/a/b memory.limit_in_bytes (huge: none) and
 * memory.usage_in_bytes. What a group uses includes the page cache; its inactive part, which
 * memory.stat tells, is given back when memory runs short. Inside a container the folders above are
 * not visible and /a/b may not be either; what is not there limits nothing.
 */
#include "device/host_room.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 512 };

/* The number after `key` at the start of a line of the file; "" is the first line. */
static bool read_number(const char *path, const char *key, uint64_t *out)
{
    char line[LINE_BYTES];
    const size_t n = strlen(key);
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        found = strncmp(line, key, n) == 0 && sscanf(line + n, " %" SCNu64, out) == 1;
        if (n == 0) break;
    }
    if (file) fclose(file);
    return found;
}

static void lower_to(ls_host_room *out, uint64_t bytes, const char *format, const char *what)
{
    if (bytes >= out->bytes) return;
    out->bytes = (size_t)bytes;
    snprintf(out->why, sizeof out->why, format, what);
}

/* One folder of a control group. */
static void look_at(const char *folder, const char *limit_name, const char *usage_name,
                    ls_host_room *out)
{
    char limit_path[PATH_BYTES + 64], path[PATH_BYTES + 64];
    uint64_t limit = 0, usage = 0, cache = 0;
    snprintf(limit_path, sizeof limit_path, "%s/%s", folder, limit_name);
    if (!read_number(limit_path, "", &limit)) return; /* "max", or not there */
    snprintf(path, sizeof path, "%s/%s", folder, usage_name);
    if (!read_number(path, "", &usage)) return;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (!read_number(path, "total_inactive_file ", &cache))
        (void)read_number(path, "inactive_file ", &cache);
    if (cache < usage) usage -= cache;
    lower_to(out, limit > usage ? limit - usage : 0, "left of the limit in %.150s", limit_path);
}

/* The folder base + group, and all above it down to base. */
static void climb(const char *base, const char *group, const char *limit_name,
                  const char *usage_name, ls_host_room *out)
{
    char folder[PATH_BYTES];
    const size_t base_bytes = strlen(base);
    if (snprintf(folder, sizeof folder, "%s%s", base, group) >= (int)sizeof folder) return;
    for (;;) {
        look_at(folder, limit_name, usage_name, out);
        char *slash = strrchr(folder + base_bytes, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

void ls_host_room_read(const char *root, ls_host_room *out)
{
    char path[PATH_BYTES], base[PATH_BYTES], line[LINE_BYTES];
    uint64_t kilobytes = 0;
    *out = (ls_host_room){ .bytes = SIZE_MAX };
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_number(path, "MemAvailable:", &kilobytes))
        lower_to(out, kilobytes * 1024, "available to the %s", "machine");
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *controllers = strchr(line, ':');
        const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(base, sizeof base, "%s/sys/fs/cgroup", root);
            climb(base, group + 1, "memory.max", "memory.current", out);
        } else if (strncmp(controllers, ":memory:", 8) == 0) {
            snprintf(base, sizeof base, "%s/sys/fs/cgroup/memory", root);
            climb(base, group + 1, "memory.limit_in_bytes", "memory.usage_in_bytes", out);
        }
    }
    if (file) fclose(file);
}
