/* SPDX-License-Identifier: MIT */
/* cuda_facts.c -- how many GPUs there are and what they say of themselves, without opening one.
 *
 * A context takes memory on its GPU, and others may be using that. So nothing here makes one, but
 * for the bytes in use, which the driver tells only of a GPU that is open.
 */
#include "device/cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda_context.h"
#include "device/cuda_driver.h"

int ls_cuda_usable_count(const char **why)
{
    const ls_cuda_driver *driver = ls_cuda_driver_open(why);
    int count = 0;
    if (driver == NULL) return 0;
    *why = "cuDeviceGetCount failed";
    if (driver->device_count(&count) != CUDA_SUCCESS) return 0;
    *why = "the driver finds no GPU";
    return count;
}

int ls_cuda_driver_version(void)
{
    const char *why = "";
    int version = 0;
    const ls_cuda_driver *driver = ls_cuda_driver_open(&why);
    return driver != NULL && driver->driver_version(&version) == CUDA_SUCCESS ? version : 0;
}

/* The driver writes the address as the kernel's folders are named, but for the case of letters. */
static ls_pcie read_pcie(const char *address)
{
    char folder[64] = "";
    if (address[0] == '\0') return ls_pcie_read(NULL);
    (void)snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%.20s", address);
    for (char *c = folder; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
    return ls_pcie_read(folder);
}

/* tests/vgpu says in the name of its GPUs what they are. */
static bool is_name_of_a_virtual_gpu(const char *name)
{
    static const char begin[] = "Virtual GPU";
    return strncmp(name, begin, sizeof begin - 1) == 0;
}

/* fp32 multiply-adds of a multiprocessor per clock: NVIDIA, CUDA C++ Programming Guide, "Throughput
 * of Native Arithmetic Instructions" (results per clock: 64 for 7.x and 8.0, 128 from 8.6 on). */
static int lanes_of(int capability)
{
    return capability < 86 ? 64 : 128;
}

/* Everything about `device`, called `name` in messages. */
static ls_status read_facts(const ls_cuda_driver *driver, const char *name, CUdevice device,
                            ls_cuda_facts *out)
{
    int major = 0, minor = 0, limited = 0, clock_khz = 0;
    const struct {
        CUdevice_attribute which;
        int *value;
    } row[] = {
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->multiprocessor_count },
        { CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, &limited },
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock_khz }, /* the highest it may run at */
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        LS_TRY(LS_CUDA(driver, name, device_attribute, (row[i].value, row[i].which, device),
                       "asking for attribute %d", (int)row[i].which));
    out->capability = 10 * major + minor;
    out->peak = 2e3 * clock_khz * out->multiprocessor_count * lanes_of(out->capability);
    out->time_limited = limited != 0;
    LS_TRY(LS_CUDA(driver, name, device_name, (out->name, (int)sizeof out->name, device),
                   "asking for the GPU's name"));
    out->is_virtual = is_name_of_a_virtual_gpu(out->name);
    LS_TRY(LS_CUDA(driver, name, device_total_mem, (&out->memory_bytes, device),
                   "asking for the GPU's memory"));
    /* A container may hide the bus; the rest is worth telling without it. */
    if (driver->device_pci_bus_id(out->pci, (int)sizeof out->pci, device) != CUDA_SUCCESS)
        out->pci[0] = '\0';
    out->pcie = read_pcie(out->pci);
    return LS_OK;
}

ls_status ls_cuda_facts_read(int ordinal, ls_cuda_facts *out)
{
    *out = (ls_cuda_facts){ .pcie = { .numa_node = -1 } };
    const char *why = "";
    char name[24];
    CUdevice device = 0;
    (void)snprintf(name, sizeof name, "cuda:%d", ordinal);
    const ls_cuda_driver *driver = ls_cuda_driver_open(&why);
    if (driver == NULL) return ls_fail(LS_ERR_DEVICE, "%s: no usable GPU: %s", name, why);
    LS_TRY(LS_CUDA(driver, name, device_at, (&device, ordinal), "looking for GPU %d", ordinal));
    return read_facts(driver, name, device, out);
}

ls_status ls_cuda_used_bytes(ls_device *device, size_t *out)
{
    const ls_cuda_context *context = device->implementation;
    size_t unused = 0, total = 0;
    *out = 0;
    LS_TRY(ls_cuda_context_enter(context));
    LS_TRY(LS_CUDA_ON(context, mem_info, (&unused, &total),
                      "asking for the memory in use"));
    *out = total - unused;
    return LS_OK;
}
