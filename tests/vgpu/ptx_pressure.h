/* SPDX-License-Identifier: MIT */
/* ptx_pressure.h -- how many registers a kernel needs, roughly. */
#ifndef VGPU_PTX_PRESSURE_H
#define VGPU_PTX_PRESSURE_H

#include "ptx_program.h"

/* The most 32-bit registers that are live at once, over the code in the order of the text: what
 * an assembler without rescheduling would need. 0: no memory to count them. */
unsigned vgpu_register_pressure(const vgpu_code *code);

#endif
