/* SPDX-License-Identifier: MIT */
/* environment.c -- the machine that a run ran on, as environment.json.
 *
 * Nothing in it enters a weight; it is there so that figures can be compared with open eyes.
 */
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "kernels/host/host.h"
#include "train/run.h"
#include "version.h"

/* The value of the first line of `path` that starts with `key`, after its colon; "" if there is
 * none. */
static void read_value(const char *path, const char *key, char *out, size_t bytes)
{
    char line[512];
    FILE *file = fopen(path, "r");
    out[0] = '\0';
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || (*key && !colon)) continue;
        const char *value = *key ? colon + 1 : line;
        while (*value == ' ') value++;
        snprintf(out, bytes, "%.*s", (int)(bytes < 512 ? bytes - 1 : 511), value);
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    fclose(file);
}

/* Which cores each replica's threads stay on; empty: the system places them. */
static void write_cores(ls_json_writer *json, const ls_run *run)
{
    char text[256];
    ls_json_write_key(json, "replica_cores");
    ls_json_write_open(json, '[');
    for (int r = 0; run->stays && r < run->world_size; r++) {
        ls_cores_text(&run->cores, r * run->threads, run->threads, text, sizeof text);
        ls_json_write_string(json, text);
    }
    ls_json_write_close(json, ']');
}

static void write_machine(ls_json_writer *json)
{
    char cpu[256], memory[64], load[64];
    read_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    read_value("/proc/meminfo", "MemTotal", memory, sizeof memory);
    read_value("/proc/loadavg", "", load, sizeof load);
    ls_json_member_string(json, "cpu", cpu);
    ls_json_member_string(json, "cpu_features", ls_cpu_features());
    ls_json_member_count(json, "cores", (uint64_t)ls_core_count());
    ls_json_member_string(json, "memory", memory);
    ls_json_member_string(json, "load", load);
}

/* Each rank's device; the kind of every pair of different ranks and, where the probe of the links
 * has measured it, its speed. */
static void write_devices(ls_json_writer *json, const ls_run *run)
{
    char pair[96];
    ls_json_write_key(json, "devices");
    ls_json_write_open(json, '[');
    for (int r = 0; r < run->world_size; r++)
        ls_json_write_string(json, run->rank[r].device->name);
    ls_json_write_close(json, ']');
    ls_json_write_key(json, "links");
    ls_json_write_open(json, '[');
    for (int a = 0; a < run->world_size; a++)
        for (int b = 0; b < run->world_size; b++) {
            if (a == b) continue;
            const int i = a * run->world_size + b;
            const ls_cuda_speed *speed = &run->topology.speed[i];
            const int used = snprintf(pair, sizeof pair, "%d->%d %s", a, b,
                                      ls_pair_kind_name(run->topology.pair[i]));
            if (speed->gb_per_s > 0)
                snprintf(pair + used, sizeof pair - (size_t)used, " %.3g GB/s %.3g us",
                         speed->gb_per_s, speed->us);
            ls_json_write_string(json, pair);
        }
    ls_json_write_close(json, ']');
}

ls_status ls_environment_text(const ls_run *run, char **text)
{
    ls_json_writer json = { 0 };
    size_t bytes;
    ls_json_write_open(&json, '{');
    ls_json_member_string(&json, "lockstep", LS_VERSION);
    ls_json_member_string(&json, "class", run->numerics_class);
    ls_json_member_string(&json, "precision", ls_precision_name(run->config.precision));
    ls_json_member_string(&json, "kernels", run->rank[0].device->kernels->name);
    ls_json_member_count(&json, "world_size", (uint64_t)run->world_size);
    ls_json_member_count(&json, "threads", (uint64_t)run->threads);
    ls_json_member_count(&json, "global_batch", run->config.global_batch);
    ls_json_member_string(&json, "allreduce", ls_comm_reason(run->comm));
    ls_json_member_string(&json, "device_reason", run->list.reason);
    write_machine(&json);
    write_cores(&json, run);
    write_devices(&json, run);
    ls_json_write_close(&json, '}');
    return ls_json_write_end(&json, text, &bytes);
}
