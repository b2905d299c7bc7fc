/* SPDX-License-Identifier: MIT */
/* host.h -- how the fast host kernels are built: one source per op, once per instruction set.
 *
 * build.ninja compiles each file of this folder (but cpu.c) three times, with LS_ISA set to portable,
 * avx2 and avx512 and LS_SIMD naming the header of vector words (simd_portable.h, simd_avx2.h,
 * simd_avx512.h). LS_HOST(gemm) is then ls_gemm_avx2 and so on. No file asks which set it is built for; all
 * they may use of it is in the simd header: LS_LANES, ls_vec, and a few functions on it.
 */
#ifndef LS_KERNELS_HOST_HOST_H
#define LS_KERNELS_HOST_HOST_H

#include "kernels/kernels.h"

#define LS_HOST_PASTE(op, isa) ls_##op##_##isa
#define LS_HOST_EXPAND(op, isa) LS_HOST_PASTE(op, isa)
#define LS_HOST(op) LS_HOST_EXPAND(op, LS_ISA)

extern const ls_kernels ls_kernels_portable, ls_kernels_avx2, ls_kernels_avx512;

/* The table for this CPU, or the one that LOCKSTEP_ISA names. See ls_kernels_bind. */
LS_MUST_USE ls_status ls_kernels_host_table(const ls_kernels **out);

/* Space-separated features of this CPU that matter here: "avx2 fma avx512f". Static text. */
const char *ls_cpu_features(void);

#endif
