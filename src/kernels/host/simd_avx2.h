/* SPDX-License-Identifier: MIT */
/* simd_avx2.h -- vector words of eight floats: AVX2 with FMA. The functions are listed in host.h.
 *
 * The tile is 6 x 16: 12 accumulators, 2 words of B and 1 of A fill 15 of the 16 registers, and 12
 * independent chains cover the latency (4 or 5 cycles) of two FMA units; a narrow one, of a single
 * word, has 12 rows for them. The tile of filter rows has 12 rows, 4 triples.
 */
#ifndef LS_KERNELS_HOST_SIMD_AVX2_H
#define LS_KERNELS_HOST_SIMD_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_LANES = 8, LS_TILE_ROWS = 6, LS_TILE_VECTORS = 2 };
#define LS_TILE_ROW_COUNTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define LS_TILE_PAIR_COUNTS(X) X(1) X(2) X(3)
enum { LS_NARROW_ROWS = 12 };
#define LS_NARROW_ROW_COUNTS(X) LS_TILE_ROW_COUNTS(X) X(7) X(8) X(9) X(10) X(11) X(12)
enum { LS_TILE_TRIPLES = 4 };
#define LS_TILE_TRIPLE_COUNTS(X) X(1) X(2) X(3) X(4)
enum { LS_FMA_IS_QUICK = 1 };
#define LS_POOLED_COUNTS(X) X(1) X(2) X(3)

typedef __m256 ls_vec;

static inline ls_vec ls_vec_zero(void) { return _mm256_setzero_ps(); }
static inline ls_vec ls_vec_set(float x) { return _mm256_set1_ps(x); }
static inline ls_vec ls_vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void ls_vec_store(float *p, ls_vec v) { _mm256_storeu_ps(p, v); }

/* All ones in the first n lanes. */
static inline __m256i ls_vec_first(size_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

static inline ls_vec ls_vec_load_part(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, ls_vec_first(n));
}

static inline void ls_vec_store_part(float *p, ls_vec v, size_t n)
{
    _mm256_maskstore_ps(p, ls_vec_first(n), v);
}

static inline ls_vec ls_vec_fma(ls_vec a, ls_vec b, ls_vec c) { return _mm256_fmadd_ps(a, b, c); }

static inline ls_vec ls_vec_fma_from(const float *a, ls_vec b, ls_vec c)
{
    return ls_vec_fma(ls_vec_set(*a), b, c);
}

static inline ls_vec ls_vec_add(ls_vec a, ls_vec b) { return _mm256_add_ps(a, b); }
static inline ls_vec ls_vec_sub(ls_vec a, ls_vec b) { return _mm256_sub_ps(a, b); }
static inline ls_vec ls_vec_mul(ls_vec a, ls_vec b) { return _mm256_mul_ps(a, b); }

static inline ls_vec ls_vec_mul_from(const float *a, ls_vec b)
{
    return ls_vec_mul(ls_vec_set(*a), b);
}

static inline ls_vec ls_vec_div(ls_vec a, ls_vec b) { return _mm256_div_ps(a, b); }
static inline ls_vec ls_vec_sqrt(ls_vec v) { return _mm256_sqrt_ps(v); }
static inline ls_vec ls_vec_negate(ls_vec a) { return -a; }
static inline ls_vec ls_vec_abs(ls_vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

static inline ls_vec ls_vec_relu(ls_vec v)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LE_OQ), v);
}

typedef __m256i ls_mask; /* all ones: yes */

static inline ls_mask ls_vec_below(ls_vec a, ls_vec b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline ls_mask ls_vec_replaces(ls_vec x, ls_vec m)
{
    return _mm256_castps_si256(_mm256_or_ps(_mm256_cmp_ps(x, m, _CMP_GT_OQ),
                                            _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

static inline ls_vec ls_vec_select(ls_mask mask, ls_vec a, ls_vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask));
}

static inline ls_vec ls_vec_drop(ls_mask mask, ls_vec v)
{
    return _mm256_andnot_ps(_mm256_castsi256_ps(mask), v);
}

typedef __m256i ls_bytes; /* the lowest of each 32 bits, the others 0 */

static inline ls_bytes ls_bytes_set(int b) { return _mm256_set1_epi32(b); }

static inline ls_bytes ls_bytes_load(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadu_si64(p));
}

static inline void ls_bytes_store(uint8_t *p, ls_bytes v)
{
    const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(v),
                                          _mm256_extracti128_si256(v, 1));
    _mm_storeu_si64(p, _mm_packus_epi16(half, half));
}

static inline ls_vec ls_vec_of_bytes(ls_bytes v) { return _mm256_cvtepi32_ps(v); }
static inline ls_mask ls_bytes_equal(ls_bytes a, ls_bytes b) { return _mm256_cmpeq_epi32(a, b); }

static inline ls_bytes ls_bytes_select(ls_mask mask, ls_bytes a, ls_bytes b)
{
    return _mm256_blendv_epi8(b, a, mask);
}

/* 2 x 2 corners of pairs, then of quarters, then of halves. */
static inline void ls_vec_transpose(ls_vec *v)
{
    ls_vec pair[8], quad[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

typedef __m256d ls_doubles;

static inline ls_doubles ls_doubles_add_squares(ls_doubles sum, const float *p)
{
    const ls_doubles v = _mm256_cvtps_pd(_mm_loadu_ps(p));
    return _mm256_fmadd_pd(v, v, sum);
}

#endif
