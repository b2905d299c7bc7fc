/* SPDX-License-Identifier: MIT */
/* cpu_bytes_x86_64.c -- SHA-256 and the joining of planes with an x86-64 CPU's instructions.
 *
 * Which functions may be called is asked at run time, from feature bits. All instructions here work
 * on the 128-bit registers that every x86-64 system saves, so the CPU's bits are the whole answer.
 *
 * SHA-256. The instructions keep the eight registers of the standard in two vectors, ABEF and
 * CDGH (highest word first), and take four rounds' schedule as one vector, w[4g .. 4g+3] for
 * g = 0 .. 15:
 *
 *     sha256rnds2(CDGH, ABEF, k)   two rounds by the low half of k = w + constant: the new ABEF;
 *                                  the old one is the new CDGH
 *     sha256msg1(a, b)             a[i] + s0(the word after a[i])           b follows a
 *     sha256msg2(a, b)             a[i] + s1(w[t-2]), the last two of which are a's own
 *
 * so that w[g] = msg2(msg1(w[g-4], w[g-3]) + the four words from w[g-2][1] on, w[g-1]).
 *
 * Planes. Sixteen pixels are 16 bytes of each of three planes and 48 bytes of pixels. Each 16 of
 * those are the OR of one byte shuffle of each plane: byte 16 v + i of the pixels is byte
 * (16 v + i) / 3 of plane (16 v + i) mod 3.
 *
 * Source: S. Gulley, V. Gopal, K. Yap, W. Feghali, J. Guilford, G. Wolrich, "Intel SHA Extensions",
 * Intel white paper (2013): what the instructions compute.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#include "cpu_bytes.h"

/* -- SHA-256 --------------------------------------------------------------------------------- */

__attribute__((target("sha,sse4.1"))) static void mix_sha(uint32_t state[8],
                                                          const unsigned char *block,
                                                          size_t block_count)
{
    const __m128i big_endian = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; block_count > 0; block_count--, block += 64) {
        const __m128i first_abef = abef, first_cdgh = cdgh;
        __m128i w[4]; /* w[g mod 4] */
#pragma GCC unroll 16
        for (int g = 0; g < 16; g++) {
            __m128i *now = &w[g % 4];
            if (g < 4) {
                const __m128i bytes = _mm_loadu_si128((const __m128i *)(block + 16 * g));
                *now = _mm_shuffle_epi8(bytes, big_endian);
            } else {
                const __m128i before = w[(g + 3) % 4];
                const __m128i shifted = _mm_alignr_epi8(before, w[(g + 2) % 4], 4);
                const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(g + 1) % 4]),
                                                  shifted);
                *now = _mm_sha256msg2_epu32(sum, before);
            }
            const __m128i constants =
                _mm_loadu_si128((const __m128i *)(ls_sha256_constant + 4 * g));
            const __m128i k = _mm_add_epi32(*now, constants);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, first_abef);
        cdgh = _mm_add_epi32(cdgh, first_cdgh);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* CPUID leaf 7, EBX bit 29. */
static bool has_sha(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0
           && (b >> 29 & 1) != 0;
}

ls_sha256_mix_fn *ls_sha256_mix_here(void) { return has_sha() ? mix_sha : ls_sha256_mix; }

/* -- planes ---------------------------------------------------------------------------------- */

/* Where byte i of the pixels' v-th 16 comes from in a plane; Z: it is another's. */
#define Z (-1)
__attribute__((target("ssse3"))) static void join_ssse3(const unsigned char *from, size_t pixels,
                                                        unsigned char *to)
{
    const __m128i place[3][3] = { /* [v][plane] */
        { _mm_setr_epi8(0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z, 5),
          _mm_setr_epi8(Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z),
          _mm_setr_epi8(Z, Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z) },
        { _mm_setr_epi8(Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10, Z),
          _mm_setr_epi8(5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10),
          _mm_setr_epi8(Z, 5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z) },
        { _mm_setr_epi8(Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z, Z),
          _mm_setr_epi8(Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z),
          _mm_setr_epi8(10, Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15) },
    };
    size_t p = 0;
    for (; p + 16 <= pixels; p += 16) {
        __m128i plane[3];
        for (size_t c = 0; c < 3; c++) {
            plane[c] = _mm_loadu_si128((const __m128i *)(from + c * pixels + p));
        }
        for (size_t v = 0; v < 3; v++) {
            __m128i bytes = _mm_shuffle_epi8(plane[0], place[v][0]);
            bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(plane[1], place[v][1]));
            bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(plane[2], place[v][2]));
            _mm_storeu_si128((__m128i *)(to + 3 * p + 16 * v), bytes);
        }
    }
    for (; p < pixels; p++) {
        for (size_t c = 0; c < 3; c++) to[3 * p + c] = from[c * pixels + p];
    }
}

ls_planes_join_fn *ls_planes_join_here(void)
{
    return __builtin_cpu_supports("ssse3") ? join_ssse3 : ls_planes_join;
}
