/* SPDX-License-Identifier: MIT */
/* pcie.c -- reads what Linux says of a PCI device's link.
 *
 * The folder /sys/bus/pci/devices/<address> has one value per file:
 *
 *     current_link_speed  "8.0 GT/s PCIe"     current_link_width  "8"
 *     max_link_speed      "16.0 GT/s PCIe"    max_link_width      "16"
 *     numa_node           "-1"
 *
 * A generation is named by its transfers per second and lane (PCI-SIG, PCI Express Base
 * Specification, revisions 1 to 6): 2.5, 5, 8, 16, 32, 64 GT/s.
 *
 * A container may hide these files; then nothing is known, which is no failure.
 */
#include "device/pcie.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 64, PATH_BYTES = 512 };

/* The first line of folder/name, "" if there is none. */
static void read_value(const char *folder, const char *name, char value[VALUE_BYTES])
{
    char path[PATH_BYTES];
    value[0] = '\0';
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return;
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    if (fgets(value, VALUE_BYTES, file) == NULL) value[0] = '\0';
    (void)fclose(file);
}

/* A whole number in 0 .. 9999, or `otherwise`. */
static int number_of(const char *value, int otherwise)
{
    char *end = NULL;
    const long number = strtol(value, &end, 10);
    const bool whole = end != value && (*end == '\0' || *end == '\n');
    return whole && number >= 0 && number <= 9999 ? (int)number : otherwise;
}

int ls_pcie_generation_of(const char *speed)
{
    static const double rate[] = { 2.5, 5, 8, 16, 32, 64 };
    char *end = NULL;
    const double value = strtod(speed, &end);
    if (end == speed || strncmp(end, " GT/s", 5) != 0) return 0;
    for (int i = 0; i < (int)(sizeof rate / sizeof rate[0]); i++)
        if (value == rate[i]) return i + 1;
    return 0;
}

ls_pcie ls_pcie_read(const char *folder)
{
    ls_pcie pcie = { .numa_node = -1 };
    char value[VALUE_BYTES];
    if (folder == NULL) return pcie;
    read_value(folder, "current_link_speed", value);
    pcie.generation = ls_pcie_generation_of(value);
    read_value(folder, "max_link_speed", value);
    pcie.generation_max = ls_pcie_generation_of(value);
    read_value(folder, "current_link_width", value);
    pcie.width = number_of(value, 0);
    read_value(folder, "max_link_width", value);
    pcie.width_max = number_of(value, 0);
    read_value(folder, "numa_node", value);
    pcie.numa_node = number_of(value, -1);
    return pcie;
}

bool ls_pcie_is_narrow(const ls_pcie *pcie)
{
    return pcie->width > 0 && pcie->width < pcie->width_max;
}
