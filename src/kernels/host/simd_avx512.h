/* SPDX-License-Identifier: MIT */
/* simd_avx512.h -- vector words of sixteen floats: AVX-512. The functions are listed in host.h.
 *
 * The tile is 14 x 32: 28 accumulators, 2 words of B and 1 of A fill 31 of the 32 registers. A
 * narrow one, of a single word, does a load for each fma, as many as the CPU can, and that of the
 * word of B besides: with 16 rows the loads take 17 cycles for 16, with 8 rows 9 for 8. Parts of a
 * word cost nothing here: every load and store can be masked. The tile of filter rows
 * (filter_rows.c) is 27 x 16, 9 triples: with a word of dy and the sum of dy that is 29 registers,
 * and 28 loads for 28 operations.
 */
#ifndef LS_KERNELS_HOST_SIMD_AVX512_H
#define LS_KERNELS_HOST_SIMD_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_LANES = 16, LS_TILE_ROWS = 14, LS_TILE_VECTORS = 2 };
#define LS_TILE_ROW_COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) \
    X(10) X(11) X(12) X(13) X(14)
#define LS_TILE_PAIR_COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
enum { LS_NARROW_ROWS = 16 };
#define LS_NARROW_ROW_COUNTS(X) LS_TILE_ROW_COUNTS(X) X(15) X(16)
enum { LS_TILE_TRIPLES = 9 };
#define LS_TILE_TRIPLE_COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
enum { LS_FMA_IS_QUICK = 1 };
#define LS_POOLED_COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

typedef __m512 ls_vec;

static inline ls_vec ls_vec_zero(void) { return _mm512_setzero_ps(); }
static inline ls_vec ls_vec_set(float x) { return _mm512_set1_ps(x); }
static inline ls_vec ls_vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void ls_vec_store(float *p, ls_vec v) { _mm512_storeu_ps(p, v); }

static inline __mmask16 ls_vec_first(size_t n) { return (__mmask16)((1u << n) - 1); }

static inline ls_vec ls_vec_load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(ls_vec_first(n), p);
}

static inline void ls_vec_store_part(float *p, ls_vec v, size_t n)
{
    _mm512_mask_storeu_ps(p, ls_vec_first(n), v);
}

static inline ls_vec ls_vec_fma(ls_vec a, ls_vec b, ls_vec c) { return _mm512_fmadd_ps(a, b, c); }

/* Named, as the compiler would load the float once for several uses. The sanitizers do not see this
 * load; they see those of the AVX2 build, and of the rows between. */
static inline ls_vec ls_vec_fma_from(const float *a, ls_vec b, ls_vec c)
{
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*a));
    return c;
}

static inline ls_vec ls_vec_mul_from(const float *a, ls_vec b)
{
    ls_vec c;
    __asm__("vmulps %2%{1to16%}, %1, %0" : "=v"(c) : "v"(b), "m"(*a));
    return c;
}

static inline ls_vec ls_vec_add(ls_vec a, ls_vec b) { return _mm512_add_ps(a, b); }
static inline ls_vec ls_vec_sub(ls_vec a, ls_vec b) { return _mm512_sub_ps(a, b); }
static inline ls_vec ls_vec_mul(ls_vec a, ls_vec b) { return _mm512_mul_ps(a, b); }
static inline ls_vec ls_vec_div(ls_vec a, ls_vec b) { return _mm512_div_ps(a, b); }
static inline ls_vec ls_vec_sqrt(ls_vec v) { return _mm512_sqrt_ps(v); }
static inline ls_vec ls_vec_negate(ls_vec a) { return -a; }
static inline ls_vec ls_vec_abs(ls_vec v) { return _mm512_abs_ps(v); }

/* Keep the lanes that are not <= 0: the greater ones and the NaN. */
static inline ls_vec ls_vec_relu(ls_vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NLE_UQ), v);
}

typedef __mmask16 ls_mask;

static inline ls_mask ls_vec_below(ls_vec a, ls_vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline ls_mask ls_vec_replaces(ls_vec x, ls_vec m)
{
    return _kor_mask16(_mm512_cmp_ps_mask(x, m, _CMP_GT_OQ),
                       _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));
}

static inline ls_vec ls_vec_select(ls_mask mask, ls_vec a, ls_vec b)
{
    return _mm512_mask_mov_ps(b, mask, a);
}

static inline ls_vec ls_vec_drop(ls_mask mask, ls_vec v)
{
    return _mm512_mask_mov_ps(v, mask, _mm512_setzero_ps());
}

typedef __m128i ls_bytes;

static inline ls_bytes ls_bytes_set(int b) { return _mm_set1_epi8((char)b); }
static inline ls_bytes ls_bytes_load(const uint8_t *p) { return _mm_loadu_epi8(p); }
static inline void ls_bytes_store(uint8_t *p, ls_bytes v) { _mm_storeu_epi8(p, v); }
static inline ls_mask ls_bytes_equal(ls_bytes a, ls_bytes b) { return _mm_cmpeq_epi8_mask(a, b); }

static inline ls_bytes ls_bytes_select(ls_mask mask, ls_bytes a, ls_bytes b)
{
    return _mm_mask_mov_epi8(b, mask, a);
}

static inline ls_vec ls_vec_of_bytes(ls_bytes v)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v));
}

/* 2 x 2 corners of pairs, then of quarters, eighths and halves. */
static inline void ls_vec_transpose(ls_vec *v)
{
    ls_vec pair[16], quad[16];
    for (int i = 0; i < 16; i += 2) {
        pair[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        quad[i] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    /* quad[4 g + i] holds rows 4 g .. 4 g + 3 of columns i, i + 4, i + 8, i + 12. */
    for (int i = 0; i < 4; i++) {
        const ls_vec a = _mm512_shuffle_f32x4(quad[i], quad[4 + i], 0x88);
        const ls_vec b = _mm512_shuffle_f32x4(quad[i], quad[4 + i], 0xdd);
        const ls_vec c = _mm512_shuffle_f32x4(quad[8 + i], quad[12 + i], 0x88);
        const ls_vec d = _mm512_shuffle_f32x4(quad[8 + i], quad[12 + i], 0xdd);
        v[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        v[8 + i] = _mm512_shuffle_f32x4(a, c, 0xdd);
        v[4 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
        v[12 + i] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

typedef __m512d ls_doubles;

static inline ls_doubles ls_doubles_add_squares(ls_doubles sum, const float *p)
{
    const ls_doubles v = _mm512_cvtps_pd(_mm256_loadu_ps(p));
    return _mm512_fmadd_pd(v, v, sum);
}

#endif
