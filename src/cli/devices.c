/* SPDX-License-Identifier: MIT */
/* devices.c -- `lockstep devices`: what this machine has, and what replicas would run on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "device/cuda.h"
#include "device/topology.h"
#include "kernels/host/host.h"
#include "kernels/kernels.h"
#include "thread.h"

static void print_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    char text[LS_UNIT_BYTES];
    if (pages > 0 && bytes > 0) {
        printf("memory      %s\n", ls_with_unit((double)pages * (double)bytes, text));
    }
}

static void print_gpus(void)
{
    const char *why = "";
    const int count = ls_cuda_usable_count(&why);
    if (count > 0) printf("GPUs        %d usable\n", count);
    else printf("GPUs        none usable: %s\n", why);
}

/* Open every device of the list; devices[] is all NULL before. */
static ls_status open_devices(const ls_device_list *list, ls_device **device)
{
    for (int r = 0; r < list->count; r++) {
        LS_TRY(ls_device_open(&list->device[r], 1, false, NULL, &device[r]));
        LS_TRY(ls_kernels_bind(device[r]));
    }
    return LS_OK;
}

static void print_pairs(const ls_topology *topology, ls_device *const *device)
{
    const int n = topology->count;
    printf("\npairs (from row to column):\n  %-24s", "");
    for (int b = 0; b < n; b++) printf(" %6d", b);
    for (int a = 0; a < n; a++) {
        printf("\n  %3d %-20s", a, device[a]->name);
        for (int b = 0; b < n; b++) printf(" %6s", ls_pair_kind_name(topology->pair[a * n + b]));
    }
    printf("\n\nring: ");
    for (int i = 0; i < n; i++) printf("%d -> ", topology->ring[i]);
    printf("%d\n", topology->ring[0]);
}

static ls_status print_replicas(const ls_config *config)
{
    ls_device_list list;
    LS_TRY(ls_device_list_parse(config->devices, config->p2p, &list));
    printf("replicas    --devices %s: %d (%s)\n", config->devices, list.count, list.reason);
    ls_device *device[LS_WORLD_MAX] = { NULL };
    ls_topology topology;
    ls_status status = open_devices(&list, device);
    if (status == LS_OK) status = ls_topology_init(&topology, device, list.count, config->p2p);
    if (status == LS_OK) {
        printf("kernels     %s\n", device[0]->kernels->name);
        printf("precisions  f32\n");
        print_pairs(&topology, device);
    }
    for (int r = 0; r < list.count; r++) ls_device_close(device[r]);
    return status;
}

static ls_status run_devices(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_config config;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    printf("host        %d core%s; features %s\n", ls_core_count(),
           ls_core_count() == 1 ? "" : "s", ls_cpu_features());
    print_memory();
    print_gpus();
    return print_replicas(&config);
}

static const char *const devices_options[] = { "devices", "p2p", NULL };

const ls_command ls_command_devices = {
    .name = "devices",
    .arguments = "[--devices LIST] [option ...]",
    .summary = "what is here, and what replicas would run on",
    .about =
        "Prints the host's cores and features, the GPUs or why there is none, the kernels in use\n"
        "(LOCKSTEP_ISA=portable|avx2|avx512 forces a set), and for --devices LIST how each pair\n"
        "of replicas exchanges bytes, and the ring.\n",
    .takes = devices_options,
    .run = run_devices,
};
