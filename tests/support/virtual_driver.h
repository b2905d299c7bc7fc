/* SPDX-License-Identifier: MIT */
/* virtual_driver.h -- opens the virtual libcuda.so.1 as a program would, once per test.
 *
 * The library reads its settings at the first call and keeps its state for the life of the
 * process. So each test opens a fresh copy of the file $LOCKSTEP_VGPU_LIBRARY, which the dynamic
 * linker takes for another library.
 */
#ifndef TEST_SUPPORT_VIRTUAL_DRIVER_H
#define TEST_SUPPORT_VIRTUAL_DRIVER_H

#include <stdbool.h>

#include "vgpu/cuda_abi.h"

typedef struct {
#define VIRTUAL_DRIVER_FIELD(name, type, parameters) CUresult(*name) parameters;
    VGPU_ENTRY_POINTS(VIRTUAL_DRIVER_FIELD)
    void *library;
    char trace[96]; /* file: LOCKSTEP_VGPU_TRACE */
} virtual_driver;

/* Sets LOCKSTEP_VGPU_<setting> for each of `settings` ("DEVICES=4", ..., NULL), unsets all others
 * and opens the library. NULL, or what went wrong, for the life of the program. */
const char *virtual_driver_open(virtual_driver *driver, const char *const *settings);

/* Removes the files; the library stays in the process, as a driver does. */
void virtual_driver_close(virtual_driver *driver);

/* Does a line of the trace contain `text`? */
bool virtual_driver_traced(const virtual_driver *driver, const char *text);

#endif
