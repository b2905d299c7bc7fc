/* SPDX-License-Identifier: MIT */
/* pcie.h -- how a card is plugged in: generation and width of its link, and its memory node. */
#ifndef LS_DEVICE_PCIE_H
#define LS_DEVICE_PCIE_H

#include <stdbool.h>

/* 0 and -1: the system does not say. A link that is idle may run at a lower generation than it can;
 * its width does not change. */
typedef struct {
    int generation, generation_max; /* now, and what card and slot could do */
    int width, width_max;           /* lanes, likewise */
    int numa_node;                  /* -1: unknown, or the machine has one */
} ls_pcie;

/* What the folder of a PCI device in /sys says; `folder` NULL or unreadable: nothing. */
ls_pcie ls_pcie_read(const char *folder);

/* Does the link have fewer lanes than it could have? Pure. */
bool ls_pcie_is_narrow(const ls_pcie *pcie);

/* Generation of a speed as the kernel writes it, "16.0 GT/s PCIe"; 0 if unknown. Pure. */
int ls_pcie_generation_of(const char *speed);

#endif
