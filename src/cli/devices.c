/* SPDX-License-Identifier: MIT */
/* devices.c -- `lockstep devices`: what this machine has, and what replicas would run on. */
#include <stdio.h>
#include <unistd.h>

#include "cli/options.h"
#include "device/cuda.h"
#include "device/topology.h"
#include "kernels/host/host.h"
#include "kernels/kernels.h"
#include "plural.h"
#include "thread.h"
#include "unit.h"

static void print_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    char text[LS_UNIT_BYTES];
    if (pages > 0 && bytes > 0) {
        printf("memory      %s\n", ls_with_unit((double)pages * (double)bytes, text));
    }
}

/* Where a GPU is plugged in, as far as the system says. */
static void print_slot(const ls_cuda_facts *facts)
{
    const ls_pcie *pcie = &facts->pcie;
    printf("              %s", facts->pci[0] != '\0' ? facts->pci : "address unknown");
    if (pcie->generation > 0 && pcie->width > 0)
        printf(", PCIe generation %d of %d, %d of %d lanes", pcie->generation,
               pcie->generation_max, pcie->width, pcie->width_max);
    if (pcie->numa_node >= 0) printf(", NUMA node %d", pcie->numa_node);
    printf("\n");
    if (ls_pcie_is_narrow(pcie))
        printf("              warning: the slot or a riser gives it %d of %d lanes\n", pcie->width,
               pcie->width_max);
    if (facts->time_limited)
        printf("              warning: a display is attached; the driver ends long kernels\n");
}

static ls_status print_gpus(void)
{
    const char *why = "";
    const int count = ls_cuda_usable_count(&why);
    if (count == 0) {
        printf("GPUs        none usable: %s\n", why);
        return LS_OK;
    }
    const int driver = ls_cuda_driver_version();
    printf("GPUs        %d usable; the driver is for CUDA %d.%d\n", count, driver / 1000,
           driver % 1000 / 10);
    for (int i = 0; i < count; i++) {
        ls_cuda_facts facts;
        char text[LS_UNIT_BYTES];
        LS_TRY(ls_cuda_facts_read(i, &facts));
        printf("  cuda:%-5d  %s, compute capability %d.%d, %d multiprocessors, %s\n", i,
               facts.name, facts.capability / 10, facts.capability % 10,
               facts.multiprocessor_count, ls_with_unit((double)facts.memory_bytes, text));
        print_slot(&facts);
    }
    return LS_OK;
}

/* Of the GPUs that were opened: how much of their memory is taken before a run begins. */
static ls_status print_memory_in_use(ls_device *const *device, int count)
{
    for (int r = 0; r < count; r++) {
        size_t bytes = 0;
        char text[LS_UNIT_BYTES];
        if (device[r]->kind != LS_DEVICE_CUDA) continue;
        if (r > 0 && device[r - 1]->ordinal == device[r]->ordinal) continue; /* shared */
        LS_TRY(ls_cuda_used_bytes(device[r], &bytes));
        printf("in use      cuda:%d %s, by others and by this program's context\n",
               device[r]->ordinal, ls_with_unit((double)bytes, text));
    }
    return LS_OK;
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
    printf("\npairs (from row to column):\n  %-28s", "");
    for (int b = 0; b < n; b++) printf(" %6d", b);
    for (int a = 0; a < n; a++) {
        printf("\n  %3d %-24.24s", a, device[a]->name);
        for (int b = 0; b < n; b++) printf(" %6s", ls_pair_kind_name(topology->pair[a * n + b]));
    }
    printf("\n");
    for (int i = 0; i < n * n; i++)
        if (topology->reason[i] != NULL)
            printf("  %d -> %d is staged: %s\n", i / n, i % n, topology->reason[i]);
}

/* A figure with about three digits, or "-" where nothing was measured. */
static void print_figure(double figure)
{
    if (figure > 0) printf(" %8.*f", figure < 10 ? 2 : figure < 100 ? 1 : 0, figure);
    else printf(" %8s", "-");
}

/* The speed from rank a's device to rank b's, either of them -1 for the host. */
static ls_cuda_speed speed_of(const ls_topology *topology, ls_device *const *device, int a, int b)
{
    ls_cuda_speed speed = { 0 };
    if (a >= 0 && b >= 0) return topology->speed[a * topology->count + b];
    if (a != b)
        (void)ls_cuda_speed_of(a < 0 ? LS_CUDA_HOST : device[a]->ordinal,
                               b < 0 ? LS_CUDA_HOST : device[b]->ordinal, &speed);
    return speed;
}

static void print_speed_table(const ls_topology *topology, ls_device *const *device, bool us)
{
    const int n = topology->count;
    printf("\n%s (from row to column):\n  %-28s %8s", us ? "us, a copy of 4 KiB" : "GB/s, copies",
           "", "host");
    for (int b = 0; b < n; b++) printf(" %8d", b);
    for (int a = -1; a < n; a++) {
        if (a < 0) printf("\n  %-28s", "    host");
        else printf("\n  %3d %-24.24s", a, device[a]->name);
        for (int b = -1; b < n; b++) {
            const ls_cuda_speed speed = speed_of(topology, device, a, b);
            print_figure(us ? speed.us : speed.gb_per_s);
        }
    }
    printf("\n");
}

/* What the probe measured, if it did; host replicas have one memory and nothing to measure. */
static ls_status print_speeds(const ls_topology *topology, ls_device *const *device)
{
    bool measured = false;
    if (device[0]->kind != LS_DEVICE_CUDA) return LS_OK;
    for (int a = -1; a < topology->count; a++)
        for (int b = -1; b < topology->count; b++)
            measured = measured || speed_of(topology, device, a, b).gb_per_s > 0;
    if (measured) {
        print_speed_table(topology, device, false);
        print_speed_table(topology, device, true);
        return LS_OK;
    }
    ls_cuda_facts facts;
    LS_TRY(ls_cuda_facts_read(device[0]->ordinal, &facts));
    printf("\nGB/s, us: unmeasured%s\n",
           facts.is_virtual ? " (a virtual GPU's times say nothing)" : "");
    return LS_OK;
}

static void print_ring(const ls_topology *topology)
{
    const int n = topology->count;
    printf("\nring: ");
    for (int i = 0; i < n; i++) printf("%d -> ", topology->ring[i]);
    printf("%d\n", topology->ring[0]);
}

static ls_status print_replicas(const ls_config *config, const ls_device_list *list)
{
    printf("replicas    %d (%s)\n", list->count, list->reason);
    ls_device *device[LS_WORLD_MAX] = { NULL };
    ls_topology topology;
    ls_status status = open_devices(list, device);
    if (status == LS_OK) status = ls_topology_init(&topology, device, list->count, config->p2p);
    if (status == LS_OK) {
        printf("kernels     %s\n", device[0]->kernels->name);
        printf("precisions  f32, bf16 (storage), f16 (storage)\n");
        status = print_memory_in_use(device, list->count);
    }
    if (status == LS_OK) {
        print_pairs(&topology, device);
        status = print_speeds(&topology, device);
    }
    if (status == LS_OK) print_ring(&topology);
    for (int r = 0; r < list->count; r++) ls_device_close(device[r]);
    return status;
}

static bool is_one_gpu(const ls_device_list *list)
{
    for (int r = 0; r < list->count; r++)
        if (list->device[r].kind != LS_DEVICE_CUDA ||
            list->device[r].ordinal != list->device[0].ordinal)
            return false;
    return true;
}

static ls_status run_devices(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_config config;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    ls_device_list list;
    /* Before the driver is asked for anything: several GPUs are probed by a child first. */
    const ls_status listed = ls_device_list_parse(config.devices, config.p2p, &list);
    /* The pairs of several GPUs were measured as they were probed; one has a way to the host. */
    if (listed == LS_OK && is_one_gpu(&list)) ls_cuda_probe(&list.device[0].ordinal, 1);
    printf("host        %d core%s; features %s\n", ls_core_count(), LS_PLURAL(ls_core_count()),
           ls_cpu_features());
    print_memory();
    LS_TRY(print_gpus());
    LS_TRY(listed); /* its message is still this thread's last */
    return print_replicas(&config, &list);
}

static const char *const devices_options[] = { "devices", "p2p", NULL };

const ls_command ls_command_devices = {
    .name = "devices",
    .arguments = "[--devices LIST] [option ...]",
    .summary = "what is here, and what replicas would run on",
    .about =
        "Prints the host's cores and features, the GPUs or why there is none, the kernels in use\n"
        "(LOCKSTEP_ISA=portable|avx2|avx512 forces a set), and for --devices LIST how each pair\n"
        "of replicas exchanges bytes and, where it goes through the host, why; how fast copies\n"
        "between GPUs, and between GPU and host, were when they were probed; and the ring.\n",
    .takes = devices_options,
    .run = run_devices,
};
