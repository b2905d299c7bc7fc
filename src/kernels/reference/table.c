/* SPDX-License-Identifier: MIT */
/* table.c -- the reference implementations as one table: LOCKSTEP_ISA=reference runs on it. */
#include "kernels/reference/reference.h"

#define LS_REFERENCE_SLOT(op) .op = ls_##op##_reference,
const ls_kernels ls_kernels_reference = { .name = "reference", LS_KERNELS(LS_REFERENCE_SLOT) };
#undef LS_REFERENCE_SLOT
