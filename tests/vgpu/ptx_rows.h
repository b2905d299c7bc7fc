/* SPDX-License-Identifier: MIT */
/* ptx_rows.h -- instructions that compute lane by lane: d[l] = f(a[l], b[l], c[l], e[l]). */
#ifndef VGPU_PTX_ROWS_H
#define VGPU_PTX_ROWS_H

#include "ptx_program.h"

/* Part of the table (ptx_table.h); patterns are plain names here. */
extern const vgpu_op vgpu_row_ops[];
extern const size_t vgpu_row_op_count;

/* Copies a row of 2, 4 or 8 bytes a lane, or a predicate (0): what mov comes down to. */
vgpu_row_function *vgpu_row_copy(unsigned bytes);

#endif
