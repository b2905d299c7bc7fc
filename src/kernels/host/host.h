/* SPDX-License-Identifier: MIT */
/* host.h -- how the fast host kernels are built: one source per op, once per instruction set.
 *
 * build.ninja compiles each file of this folder (but cpu*.c) once per instruction set, with LS_ISA
 * set to portable, avx2 or avx512 and LS_SIMD naming the header of vector words (simd_portable.h,
 * simd_avx2.h, simd_avx512.h). LS_HOST(gemm) is then ls_gemm_avx2 and so on. No file asks which set
 * it is built for; all it may use of the set is in the simd header:
 *
 *   LS_LANES                        floats in a vector word
 *   ls_vec                          a vector word
 *   ls_vec_zero()  ls_vec_set(x)    all lanes +0, all lanes x
 *   ls_vec_load(p)  ls_vec_store(p, v)               any alignment
 *   ls_vec_load_part(p, n)  ls_vec_store_part(p, v, n)   the first n lanes, 0 <= n <= LS_LANES;
 *                                   memory after them is not touched, lanes after them are +0
 *   ls_vec_fma(a, b, c)             a * b + c, rounded once
 *   LS_FMA_IS_QUICK                 whether that is one instruction
 *   ls_vec_fma_from(p, b, c)        *p * b + c, the float taken from memory for this alone where
 *                                   that is one instruction
 *   ls_vec_mul_from(p, b)           *p * b, likewise
 *   ls_vec_add(a, b)  ls_vec_sub(a, b)  ls_vec_mul(a, b)  ls_vec_div(a, b)   a + b, a - b ...
 *   ls_vec_sqrt(v)  ls_vec_negate(v)  ls_vec_abs(v)
 *   ls_vec_relu(v)                  v <= 0 ? 0 : v, so a NaN passes
 *   ls_mask                         yes or no for every lane
 *   ls_vec_below(a, b)              a < b
 *   ls_vec_replaces(x, m)           x > m, or x is a NaN
 *   ls_vec_select(mask, a, b)       a where the mask says yes, else b
 *   ls_vec_drop(mask, v)            +0 where the mask says yes, else v
 *   ls_bytes                        a byte for every lane
 *   ls_bytes_set(b)  ls_bytes_load(p)  ls_bytes_store(p, v)   LS_LANES bytes, any alignment
 *   ls_vec_of_bytes(v)              the bytes, 0 .. 255, as floats
 *   ls_bytes_select(mask, a, b)  ls_bytes_equal(a, b)         as of vector words; a mask
 *   ls_vec_transpose(v)             v[LS_LANES], in place: lane j of v[i] <-> lane i of v[j]
 *   ls_doubles                      a vector word of LS_LANES / 2 doubles
 *   ls_doubles_add_squares(sum, p)  sum + the squares of the LS_LANES / 2 floats at p, which are
 *                                   exact in double
 *   LS_TILE_ROWS  LS_TILE_VECTORS   the micro-kernel's tile (tile.h): rows, vector words across
 *   LS_NARROW_ROWS                  rows of one that is a single word wide, LS_TILE_ROWS or more
 *   LS_TILE_ROW_COUNTS(X)           X(1) X(2) ... X(LS_TILE_ROWS)
 *   LS_TILE_PAIR_COUNTS(X)          X(1) X(2) ... X(LS_TILE_ROWS / 2)
 *   LS_NARROW_ROW_COUNTS(X)         X(1) X(2) ... X(LS_NARROW_ROWS)
 *   LS_POOLED_COUNTS(X)             X(1) X(2) ... X(LS_TILE_ROWS * LS_TILE_VECTORS / 4)
 *   LS_TILE_TRIPLES  LS_TILE_TRIPLE_COUNTS(X)   the tile of filter_rows.c: triples of rows
 */
#ifndef LS_KERNELS_HOST_HOST_H
#define LS_KERNELS_HOST_HOST_H

#include "kernels/kernels.h"
#include "sizes.h"

#define LS_HOST_PASTE(op, isa) ls_##op##_##isa
#define LS_HOST_EXPAND(op, isa) LS_HOST_PASTE(op, isa)
#define LS_HOST(op) LS_HOST_EXPAND(op, LS_ISA)

enum { LS_LINE_FLOATS = LS_LINE_BYTES / sizeof(float) };

/* A function that is to become part of the loop that calls it, with the constants of the call. */
#define LS_ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef LS_ISA
#define LS_DECLARE_HOST(op) LS_MUST_USE ls_##op##_fn LS_HOST(op);
LS_KERNELS(LS_DECLARE_HOST)
#undef LS_DECLARE_HOST
#endif

/* `rounds` rounds of fused multiply-adds on x[LS_PEAK_FLOATS], which must hold finite numbers, on
 * this thread and in registers. Returns how many that were. */
enum { LS_PEAK_FLOATS = 256 };
typedef double ls_peak_fn(float *x, size_t rounds);
ls_peak_fn ls_peak_portable, ls_peak_avx2, ls_peak_avx512;

/* The one of a table's instruction set; NULL: it has none (reference, a GPU's). */
ls_peak_fn *ls_kernels_peak(const ls_kernels *table);

extern const ls_kernels ls_kernels_portable, ls_kernels_avx2, ls_kernels_avx512;

/* The table for this CPU, or the one that LOCKSTEP_ISA names. See ls_kernels_bind. */
LS_MUST_USE ls_status ls_kernels_host_table(const ls_kernels **out);

/* Space-separated features of this CPU that matter here: "avx2 fma avx512f". Static text. */
const char *ls_cpu_features(void);

#endif
