/* SPDX-License-Identifier: MIT */
/* ptx_rows.c -- arithmetic of a warp, one loop over 32 lanes per instruction.
 *
 * The lists below are the definition: each entry gives the instruction's full name, the sizes of
 * its operands (letters of ptx_table.h), C types and an expression in the operands a b c e of one
 * lane. They are expanded twice, into functions and into rows of the table, so an instruction
 * that is in the table has its arithmetic beside it and nothing else has.
 *
 * All 32 lanes are computed, also inactive ones; the caller keeps those it wants. So no
 * expression may trap or be undefined, whatever the bits: divisors of zero give all ones here (the
 * caller reports them), shifts are bounded, sums wrap in unsigned types.
 *
 * Floating point: the host's IEEE 754 arithmetic, round to nearest even, contraction off. Only
 * instructions that say .rn are here: without it an assembler may fuse mul and add. f32 results
 * that are NaN become 0x7fffffff, the one NaN of PTX; f64 keeps the host's. Subnormals are kept
 * (.ftz is not in the table). min and max prefer a number to a NaN and +0 to -0 (max).
 *
 * Source: NVIDIA, Parallel Thread Execution ISA, version 9.0, chapter 9.7. What is needed of it
 * is restated at each list.
 */
#include "ptx_rows.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

/* -- parts of expressions ---------------------------------------------------------------------- */

static float canonical_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : bits;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double canonical_f64(double x) { return x; }

static int count_ones(uint64_t x) { return __builtin_popcountll(x); }
static int leading_zeros(uint64_t x) { return x ? __builtin_clzll(x) : 64; }

static uint64_t reverse_bits(uint64_t x)
{
    uint64_t y = 0;
    for (int i = 0; i < 64; i++) y |= (x >> i & 1) << (63 - i);
    return y;
}

/* Index of the highest one; a signed negative counts its zeros. All ones: none. */
static uint32_t find_bit(uint64_t x) { return x ? 63 - (uint32_t)leading_zeros(x) : UINT32_MAX; }

static uint32_t shift_amount(uint64_t x, uint32_t top)
{
    return x ? top - find_bit(x) : UINT32_MAX;
}

/* Bits position .. position+length-1 of a; beyond a's top bit and its length: `fill`'s sign. */
static uint64_t extract_bits(uint64_t a, uint32_t b, uint32_t c, uint32_t top, bool is_signed)
{
    const uint32_t position = b & 255, length = c & 255;
    const uint32_t last = position + length - 1 < top ? position + length - 1 : top;
    const bool sign = is_signed && length && (a >> last & 1);
    uint64_t d = 0;
    for (uint32_t i = 0; i <= top; i++) {
        const bool inside = i < length && position + i <= top;
        d |= (uint64_t)(inside ? a >> (position + i) & 1 : sign) << i;
    }
    return d;
}

static uint64_t insert_bits(uint64_t a, uint64_t b, uint32_t c, uint32_t e, uint32_t top)
{
    const uint32_t position = c & 255, length = e & 255;
    for (uint32_t i = 0; i < length && position + i <= top; i++) {
        const uint64_t bit = UINT64_C(1) << (position + i);
        b = (b & ~bit) | (a >> i & 1) << (position + i);
    }
    return b;
}

/* Bit k of the table is the result where bit a is k/4, bit b is k/2%2 and bit c is k%2. */
static uint32_t look_up_bits(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t d = 0;
    for (uint32_t k = 0; k < 8; k++) {
        if (table >> k & 1) d |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    }
    return d;
}

/* Byte i of the result is byte s of b:a, s in the low 3 bits of nibble i; bit 3: its sign only. */
static uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t from = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t nibble = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(from >> (8 * (nibble & 7))) & 255;
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        d |= byte << (8 * i);
    }
    return d;
}

#define PICK_MIN(a, b) \
    ((a) != (a) ? (b) : (b) != (b) ? (a) : (a) < (b) || ((a) == (b) && signbit(a)) ? (a) : (b))
#define PICK_MAX(a, b) \
    ((a) != (a) ? (b) : (b) != (b) ? (a) : (a) > (b) || ((a) == (b) && !signbit(a)) ? (a) : (b))

/* x is already rounded to an integer. Beyond the range: the nearest end. NaN: 0, but the top bit
 * alone where either type has 64 bits. */
#define TO_INTEGER(x, T, U, low, end, wide) \
    ((x) != (x) ? (T)((wide) ? (U)1 << (sizeof(T) * 8 - 1) : 0) \
     : (x) < (low) ? (T)(low) : (x) >= (end) ? (T)((U)(low) - 1) : (T)(x))

/* -- the lists --------------------------------------------------------------------------------- */

/* ONE TWO THREE FOUR (function, name, operands, type of d, types of a b c e, expression)
 * TEST (function, name, operands, type of a and b, condition): a predicate
 * LOGIC (function, name, operands, expression in a b): predicates, as 32 bits */

#define INTEGER(t, w, T, U, W, bits) \
    TWO(add_##t, "add." #t, w w w, U, U, U, a + b) \
    TWO(sub_##t, "sub." #t, w w w, U, U, U, a - b) \
    TWO(mul_lo_##t, "mul.lo." #t, w w w, U, U, U, (uint64_t)a * b) \
    TWO(mul_hi_##t, "mul.hi." #t, w w w, U, T, T, (W)a * (W)b >> bits) \
    THREE(mad_lo_##t, "mad.lo." #t, w w w w, U, U, U, U, (uint64_t)a * b + c) \
    THREE(mad_hi_##t, "mad.hi." #t, w w w w, U, T, T, U, (U)((W)a * (W)b >> bits) + c) \
    THREE(sad_##t, "sad." #t, w w w w, U, T, T, U, c + (a < b ? (U)b - (U)a : (U)a - (U)b)) \
    TWO(min_##t, "min." #t, w w w, T, T, T, a < b ? a : b) \
    TWO(max_##t, "max." #t, w w w, T, T, T, a > b ? a : b) \
    TWO(shr_##t, "shr." #t, w w "r", T, T, uint32_t, a >> (b < bits ? b : bits - 1) \
        >> (b < bits ? 0 : 1)) \
    TEST(setp_eq_##t, "setp.eq." #t, "p" w w, T, a == b) \
    TEST(setp_ne_##t, "setp.ne." #t, "p" w w, T, a != b) \
    TEST(setp_lt_##t, "setp.lt." #t, "p" w w, T, a < b) \
    TEST(setp_le_##t, "setp.le." #t, "p" w w, T, a <= b) \
    TEST(setp_gt_##t, "setp.gt." #t, "p" w w, T, a > b) \
    TEST(setp_ge_##t, "setp.ge." #t, "p" w w, T, a >= b) \
    SELECT(t, w, U)

/* The low half of the product is exact in twice the bits: for u64 wrapping is what is wanted. */
#define WIDE(t, w, ww, T, W, V) \
    TWO(mul_wide_##t, "mul.wide." #t, ww w w, W, T, T, (W)a * (W)b) \
    THREE(mad_wide_##t, "mad.wide." #t, ww w w ww, V, T, T, V, (V)((W)a * (W)b) + c)

#define UNSIGNED(t, w, T, bits) \
    DIVIDE(div_##t, "div." #t, w w w, T, T, T, b ? a / b : (T)-1) \
    DIVIDE(rem_##t, "rem." #t, w w w, T, T, T, b ? a % b : (T)-1) \
    TEST(setp_lo_##t, "setp.lo." #t, "p" w w, T, a < b) \
    TEST(setp_ls_##t, "setp.ls." #t, "p" w w, T, a <= b) \
    TEST(setp_hi_##t, "setp.hi." #t, "p" w w, T, a > b) \
    TEST(setp_hs_##t, "setp.hs." #t, "p" w w, T, a >= b)

/* The most negative number divided by -1 wraps to itself, with remainder 0. */
#define SIGNED(t, w, T, U) \
    DIVIDE(div_##t, "div." #t, w w w, T, T, T, b == -1 ? (T)(0 - (U)a) : b ? a / b : -1) \
    DIVIDE(rem_##t, "rem." #t, w w w, T, T, T, b == -1 ? 0 : b ? a % b : -1) \
    ONE(neg_##t, "neg." #t, w w, U, U, 0 - a) \
    ONE(abs_##t, "abs." #t, w w, U, T, a < 0 ? 0 - (U)a : (U)a)

/* Shifts by the size and more give 0 (or all signs: shr.s above). */
#define BITS(t, w, T, bits) \
    TWO(and_##t, "and." #t, w w w, T, T, T, a & b) \
    TWO(or_##t, "or." #t, w w w, T, T, T, a | b) \
    TWO(xor_##t, "xor." #t, w w w, T, T, T, a ^ b) \
    ONE(not_##t, "not." #t, w w, T, T, ~a) \
    ONE(cnot_##t, "cnot." #t, w w, T, T, a == 0) \
    TWO(shl_##t, "shl." #t, w w "r", T, T, uint32_t, b < bits ? (uint64_t)a << b : 0) \
    TWO(shr_##t, "shr." #t, w w "r", T, T, uint32_t, b < bits ? a >> b : 0) \
    TEST(setp_eq_##t, "setp.eq." #t, "p" w w, T, a == b) \
    TEST(setp_ne_##t, "setp.ne." #t, "p" w w, T, a != b) \
    SELECT(t, w, T)

#define SELECT(t, w, T) CHOOSE(selp_##t, "selp." #t, w w w "p", T)

/* slct: a where c >= 0 (-0 is, NaN is not), else b. */
#define SLCT(t, w, T) \
    THREE(slct_##t##_s32, "slct." #t ".s32", w w w "r", T, T, T, int32_t, c >= 0 ? a : b) \
    THREE(slct_##t##_f32, "slct." #t ".f32", w w w "r", T, T, T, float, c >= 0 ? a : b)

#define SINGLE_BITS(LIST) \
    ONE(popc_b32, "popc.b32", "rr", uint32_t, uint32_t, count_ones(a)) \
    ONE(popc_b64, "popc.b64", "rd", uint32_t, uint64_t, count_ones(a)) \
    ONE(clz_b32, "clz.b32", "rr", uint32_t, uint32_t, leading_zeros(a) - 32) \
    ONE(clz_b64, "clz.b64", "rd", uint32_t, uint64_t, leading_zeros(a)) \
    ONE(brev_b32, "brev.b32", "rr", uint32_t, uint32_t, reverse_bits(a) >> 32) \
    ONE(brev_b64, "brev.b64", "dd", uint64_t, uint64_t, reverse_bits(a)) \
    FIND(u32, "r", uint32_t, a, 31) \
    FIND(s32, "r", int32_t, (uint32_t)(a < 0 ? ~a : a), 31) \
    FIND(u64, "d", uint64_t, a, 63) \
    FIND(s64, "d", int64_t, (uint64_t)(a < 0 ? ~a : a), 63) \
    EXTRACT(u32, "r", uint32_t, 31, false) \
    EXTRACT(s32, "r", uint32_t, 31, true) \
    EXTRACT(u64, "d", uint64_t, 63, false) \
    EXTRACT(s64, "d", uint64_t, 63, true) \
    FOUR(bfi_b32, "bfi.b32", "rrrrr", uint32_t, uint32_t, uint32_t, insert_bits(a, b, c, e, 31)) \
    FOUR(bfi_b64, "bfi.b64", "dddrr", uint64_t, uint64_t, uint32_t, insert_bits(a, b, c, e, 63)) \
    FOUR(lop3_b32, "lop3.b32", "rrrri", uint32_t, uint32_t, uint32_t, look_up_bits(a, b, c, e)) \
    THREE(prmt_b32, "prmt.b32", "rrrr", uint32_t, uint32_t, uint32_t, uint32_t, \
          permute_bytes(a, b, c)) \
    FUNNEL(l, wrap, (b_a << (c & 31)) >> 32) \
    FUNNEL(r, wrap, b_a >> (c & 31)) \
    FUNNEL(l, clamp, (b_a << (c < 32 ? c : 32)) >> 32) \
    FUNNEL(r, clamp, b_a >> (c < 32 ? c : 32))

#define FIND(t, w, T, x, top) \
    ONE(bfind_##t, "bfind." #t, "r" w, uint32_t, T, find_bit(x)) \
    ONE(bfind_shiftamt_##t, "bfind.shiftamt." #t, "r" w, uint32_t, T, shift_amount(x, top))
#define EXTRACT(t, w, T, top, is_signed) \
    THREE(bfe_##t, "bfe." #t, w w "rr", T, T, uint32_t, uint32_t, \
          extract_bits(a, b, c, top, is_signed))
#define b_a ((uint64_t)b << 32 | a)
#define FUNNEL(side, mode, x) \
    THREE(shf_##side##_##mode, "shf." #side "." #mode ".b32", "rrrr", uint32_t, uint32_t, \
          uint32_t, uint32_t, x)

/* Comparisons: eq ne lt le gt ge are false where an operand is NaN (also ne), the same with u
 * true. */
#define FLOATING(t, w, T, sqrt_of) \
    TWO(add_##t, "add.rn." #t, w w w, T, T, T, canonical_##t(a + b)) \
    TWO(sub_##t, "sub.rn." #t, w w w, T, T, T, canonical_##t(a - b)) \
    TWO(mul_##t, "mul.rn." #t, w w w, T, T, T, canonical_##t(a * b)) \
    TWO(div_##t, "div.rn." #t, w w w, T, T, T, canonical_##t(a / b)) \
    ONE(rcp_##t, "rcp.rn." #t, w w, T, T, canonical_##t(1 / a)) \
    ONE(sqrt_##t, "sqrt.rn." #t, w w, T, T, canonical_##t(sqrt_of(a))) \
    TWO(min_##t, "min." #t, w w w, T, T, T, canonical_##t(PICK_MIN(a, b))) \
    TWO(max_##t, "max." #t, w w w, T, T, T, canonical_##t(PICK_MAX(a, b))) \
    TEST(setp_eq_##t, "setp.eq." #t, "p" w w, T, a == b) \
    TEST(setp_ne_##t, "setp.ne." #t, "p" w w, T, a < b || a > b) \
    TEST(setp_lt_##t, "setp.lt." #t, "p" w w, T, a < b) \
    TEST(setp_le_##t, "setp.le." #t, "p" w w, T, a <= b) \
    TEST(setp_gt_##t, "setp.gt." #t, "p" w w, T, a > b) \
    TEST(setp_ge_##t, "setp.ge." #t, "p" w w, T, a >= b) \
    TEST(setp_equ_##t, "setp.equ." #t, "p" w w, T, !(a < b || a > b)) \
    TEST(setp_neu_##t, "setp.neu." #t, "p" w w, T, a != b) \
    TEST(setp_ltu_##t, "setp.ltu." #t, "p" w w, T, !(a >= b)) \
    TEST(setp_leu_##t, "setp.leu." #t, "p" w w, T, !(a > b)) \
    TEST(setp_gtu_##t, "setp.gtu." #t, "p" w w, T, !(a <= b)) \
    TEST(setp_geu_##t, "setp.geu." #t, "p" w w, T, !(a < b)) \
    TEST(setp_num_##t, "setp.num." #t, "p" w w, T, a == a && b == b) \
    TEST(setp_nan_##t, "setp.nan." #t, "p" w w, T, a != a || b != b)

/* Only the sign changes, also of a NaN. copysign: the sign of a, the rest of b. */
#define FLOATING_SIGN(t, w, U, sign) \
    ONE(abs_##t, "abs." #t, w w, U, U, a & ~(sign)) \
    ONE(neg_##t, "neg." #t, w w, U, U, a ^ (sign)) \
    TWO(copysign_##t, "copysign." #t, w w w, U, U, U, (a & (sign)) | (b & ~(sign))) \
    SELECT(t, w, U)

#define TO_ALL_INTEGERS(s, w, S) \
    CONVERT(cvt_u8_##s, "cvt.u8." #s, "B" w, uint8_t, S, a) \
    CONVERT(cvt_s8_##s, "cvt.s8." #s, "B" w, int8_t, S, a) \
    CONVERT(cvt_u16_##s, "cvt.u16." #s, "H" w, uint16_t, S, a) \
    CONVERT(cvt_s16_##s, "cvt.s16." #s, "H" w, int16_t, S, a) \
    CONVERT(cvt_u32_##s, "cvt.u32." #s, "R" w, uint32_t, S, a) \
    CONVERT(cvt_s32_##s, "cvt.s32." #s, "R" w, int32_t, S, a) \
    CONVERT(cvt_u64_##s, "cvt.u64." #s, "D" w, uint64_t, S, a) \
    CONVERT(cvt_s64_##s, "cvt.s64." #s, "D" w, int64_t, S, a) \
    CONVERT(cvt_f32_##s, "cvt.rn.f32." #s, "R" w, float, S, a) \
    CONVERT(cvt_f64_##s, "cvt.rn.f64." #s, "D" w, double, S, a)

#define ROUNDED(r, s, w, S, round) \
    CONVERT(cvt_##r##_u16_##s, "cvt." #r ".u16." #s, "H" w, uint16_t, S, \
            TO_INTEGER(round(a), uint16_t, uint16_t, 0, 65536, sizeof(S) == 8)) \
    CONVERT(cvt_##r##_s16_##s, "cvt." #r ".s16." #s, "H" w, int16_t, S, \
            TO_INTEGER(round(a), int16_t, uint16_t, -32768, 32768, sizeof(S) == 8)) \
    CONVERT(cvt_##r##_u32_##s, "cvt." #r ".u32." #s, "R" w, uint32_t, S, \
            TO_INTEGER(round(a), uint32_t, uint32_t, 0, 0x1p32f, sizeof(S) == 8)) \
    CONVERT(cvt_##r##_s32_##s, "cvt." #r ".s32." #s, "R" w, int32_t, S, \
            TO_INTEGER(round(a), int32_t, uint32_t, INT32_MIN, 0x1p31f, sizeof(S) == 8)) \
    CONVERT(cvt_##r##_u64_##s, "cvt." #r ".u64." #s, "D" w, uint64_t, S, \
            TO_INTEGER(round(a), uint64_t, uint64_t, 0, 0x1p64f, true)) \
    CONVERT(cvt_##r##_s64_##s, "cvt." #r ".s64." #s, "D" w, int64_t, S, \
            TO_INTEGER(round(a), int64_t, uint64_t, INT64_MIN, 0x1p63f, true)) \
    CONVERT(cvt_##r##_##s##_##s, "cvt." #r "." #s "." #s, w w, S, S, canonical_##s(round(a)))

#define ALL_ROWS \
    INTEGER(u16, "h", uint16_t, uint16_t, uint32_t, 16) UNSIGNED(u16, "h", uint16_t, 16) \
    INTEGER(s16, "h", int16_t, uint16_t, int32_t, 16) SIGNED(s16, "h", int16_t, uint16_t) \
    INTEGER(u32, "r", uint32_t, uint32_t, uint64_t, 32) UNSIGNED(u32, "r", uint32_t, 32) \
    INTEGER(s32, "r", int32_t, uint32_t, int64_t, 32) SIGNED(s32, "r", int32_t, uint32_t) \
    INTEGER(u64, "d", uint64_t, uint64_t, u128, 64) UNSIGNED(u64, "d", uint64_t, 64) \
    INTEGER(s64, "d", int64_t, uint64_t, s128, 64) SIGNED(s64, "d", int64_t, uint64_t) \
    WIDE(u16, "h", "r", uint16_t, uint32_t, uint32_t) \
    WIDE(s16, "h", "r", int16_t, int32_t, uint32_t) \
    WIDE(u32, "r", "d", uint32_t, uint64_t, uint64_t) \
    WIDE(s32, "r", "d", int32_t, int64_t, uint64_t) \
    BITS(b16, "h", uint16_t, 16) BITS(b32, "r", uint32_t, 32) BITS(b64, "d", uint64_t, 64) \
    SLCT(b32, "r", uint32_t) SLCT(u32, "r", uint32_t) SLCT(s32, "r", uint32_t) \
    SLCT(f32, "r", uint32_t) SLCT(b64, "d", uint64_t) SLCT(u64, "d", uint64_t) \
    SLCT(s64, "d", uint64_t) SLCT(f64, "d", uint64_t) \
    SINGLE_BITS() \
    FLOATING(f32, "r", float, sqrtf) FLOATING_SIGN(f32, "r", uint32_t, UINT32_C(1) << 31) \
    FLOATING(f64, "d", double, sqrt) FLOATING_SIGN(f64, "d", uint64_t, UINT64_C(1) << 63) \
    TO_ALL_INTEGERS(u8, "B", uint8_t) TO_ALL_INTEGERS(s8, "B", int8_t) \
    TO_ALL_INTEGERS(u16, "H", uint16_t) TO_ALL_INTEGERS(s16, "H", int16_t) \
    TO_ALL_INTEGERS(u32, "R", uint32_t) TO_ALL_INTEGERS(s32, "R", int32_t) \
    TO_ALL_INTEGERS(u64, "D", uint64_t) TO_ALL_INTEGERS(s64, "D", int64_t) \
    ROUNDED(rni, f32, "R", float, rintf) ROUNDED(rni, f64, "D", double, rint) \
    ROUNDED(rzi, f32, "R", float, truncf) ROUNDED(rzi, f64, "D", double, trunc) \
    ROUNDED(rmi, f32, "R", float, floorf) ROUNDED(rmi, f64, "D", double, floor) \
    ROUNDED(rpi, f32, "R", float, ceilf) ROUNDED(rpi, f64, "D", double, ceil) \
    CONVERT(cvt_rn_f32_f64, "cvt.rn.f32.f64", "RD", float, double, canonical_f32((float)a)) \
    CONVERT(cvt_f64_f32, "cvt.f64.f32", "DR", double, float, a) \
    LOGIC(and_pred, "and.pred", "ppp", a & b) LOGIC(or_pred, "or.pred", "ppp", a | b) \
    LOGIC(xor_pred, "xor.pred", "ppp", a ^ b) NEGATE(not_pred, "not.pred", "pp")

/* -- functions --------------------------------------------------------------------------------- */

#define NAMED(name) \
    static void name(void *vd, const void *va, const void *vb, const void *vc, const void *ve)
#define LANES(D) \
    D *d = vd; \
    _Pragma("GCC ivdep") for (int i = 0; i < VGPU_LANES; i++)
#define UNUSED_2 (void)vb, UNUSED_3
#define UNUSED_3 (void)vc, UNUSED_4
#define UNUSED_4 (void)ve

#define ONE(name, text, operands, D, A, x) \
    NAMED(name) \
    { \
        UNUSED_2; \
        LANES(D) { const A a = ((const A *)va)[i]; d[i] = (D)(x); } \
    }
#define TWO(name, text, operands, D, A, B, x) \
    NAMED(name) \
    { \
        UNUSED_3; \
        LANES(D) \
        { \
            const A a = ((const A *)va)[i]; \
            const B b = ((const B *)vb)[i]; \
            d[i] = (D)(x); \
        } \
    }
#define THREE(name, text, operands, D, A, B, C, x) \
    NAMED(name) \
    { \
        UNUSED_4; \
        LANES(D) \
        { \
            const A a = ((const A *)va)[i]; \
            const B b = ((const B *)vb)[i]; \
            const C c = ((const C *)vc)[i]; \
            d[i] = (D)(x); \
        } \
    }
#define FOUR(name, text, operands, D, A, C, x) \
    NAMED(name) \
    { \
        LANES(D) \
        { \
            const A a = ((const A *)va)[i], b = ((const A *)vb)[i]; \
            const C c = ((const C *)vc)[i], e = ((const C *)ve)[i]; \
            d[i] = (D)(x); \
        } \
    }
#define DIVIDE TWO
#define CONVERT ONE
#define TEST(name, text, operands, T, x) \
    NAMED(name) \
    { \
        UNUSED_3; \
        uint32_t flags[VGPU_LANES], mask = 0; \
        for (int i = 0; i < VGPU_LANES; i++) { \
            const T a = ((const T *)va)[i], b = ((const T *)vb)[i]; \
            flags[i] = (uint32_t)(x) << i; \
        } \
        for (int i = 0; i < VGPU_LANES; i++) mask |= flags[i]; \
        *(uint32_t *)vd = mask; \
    }
#define CHOOSE(name, text, operands, T) \
    NAMED(name) \
    { \
        UNUSED_4; \
        const uint32_t mask = *(const uint32_t *)vc; \
        LANES(T) { d[i] = mask >> i & 1 ? ((const T *)va)[i] : ((const T *)vb)[i]; } \
    }
#define LOGIC(name, text, operands, x) \
    NAMED(name) \
    { \
        UNUSED_3; \
        const uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb; \
        *(uint32_t *)vd = x; \
    }
#define NEGATE(name, text, operands) \
    NAMED(name) \
    { \
        UNUSED_2; \
        *(uint32_t *)vd = ~*(const uint32_t *)va; \
    }

ALL_ROWS

NAMED(copy_16) { UNUSED_2; memmove(vd, va, 2 * VGPU_LANES); }
NAMED(copy_32) { UNUSED_2; memmove(vd, va, 4 * VGPU_LANES); }
NAMED(copy_64) { UNUSED_2; memmove(vd, va, 8 * VGPU_LANES); }
NAMED(copy_pred) { UNUSED_2; memmove(vd, va, 4); }

vgpu_row_function *vgpu_row_copy(unsigned bytes)
{
    return bytes == 8 ? copy_64 : bytes == 4 ? copy_32 : bytes == 2 ? copy_16 : copy_pred;
}

/* fma has no form without hardware that is both quick and exact, and a compiler for any x86-64
 * may not use the hardware's: it is asked for here, once per warp. */
#if defined __x86_64__
#define WITH_FMA __attribute__((target("avx2,fma")))
#define HAS_FMA __builtin_cpu_supports("fma")
#else
#define WITH_FMA
#define HAS_FMA 0
#endif

#define FUSED(t, T, fma_of) \
    WITH_FMA static void fma_##t##_hardware(T *d, const T *a, const T *b, const T *c) \
    { \
        _Pragma("GCC ivdep") for (int i = 0; i < VGPU_LANES; i++) \
        { \
            d[i] = canonical_##t(fma_of(a[i], b[i], c[i])); \
        } \
    } \
    NAMED(fma_##t) \
    { \
        UNUSED_4; \
        if (HAS_FMA) { \
            fma_##t##_hardware(vd, va, vb, vc); \
            return; \
        } \
        LANES(T) \
        { \
            d[i] = canonical_##t(fma_of(((const T *)va)[i], ((const T *)vb)[i], \
                                        ((const T *)vc)[i])); \
        } \
    }
FUSED(f32, float, fmaf)
FUSED(f64, double, fma)

/* -- the table --------------------------------------------------------------------------------- */

#undef ONE
#undef TWO
#undef THREE
#undef FOUR
#undef DIVIDE
#undef CONVERT
#undef TEST
#undef CHOOSE
#undef LOGIC
#undef NEGATE
#define ONE(name, text, operands, ...) {text, operands, VGPU_ROW, name},
#define TWO ONE
#define THREE ONE
#define FOUR ONE
#define DIVIDE(name, text, operands, ...) {text, operands, VGPU_DIVIDE, name},
#define CONVERT(name, text, operands, ...) {text, operands, VGPU_CONVERT, name},
#define TEST ONE
#define CHOOSE ONE
#define LOGIC ONE
#define NEGATE(name, text, operands) {text, operands, VGPU_ROW, name},

const vgpu_op vgpu_row_ops[] = {
    ALL_ROWS
    {"fma.rn.f32", "rrrr", VGPU_ROW, fma_f32},
    {"fma.rn.f64", "dddd", VGPU_ROW, fma_f64},
};
const size_t vgpu_row_op_count = sizeof vgpu_row_ops / sizeof vgpu_row_ops[0];
