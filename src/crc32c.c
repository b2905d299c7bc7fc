/* SPDX-License-Identifier: MIT */
/* crc32c.c -- CRC-32C by tables, eight bytes at a time.
 *
 * The message's bits, least significant first within a byte, are the coefficients of a polynomial
 * over GF(2); the CRC is the remainder of message * x^32 by the Castagnoli polynomial, stored with
 * reflected bits as P = 0x82F63B78, with the register started at, and finally XORed with, all ones.
 *
 * One zero bit further turns the register c into  next(c) = (c >> 1) ^ (c & 1 ? P : 0).
 * A byte b that is followed by k more bytes contributes table[k][b]: b, then 8 * (k + 1) zero
 * bits. next() is linear, so table[k][b] is the XOR of table[k][1 << j] over the set bits j of b:
 * 64 constants determine all 2048 entries, and the preprocessor makes the rest from them. Read from
 * right to left, row after row, the constants are P, next(P), next(next(P)), ...
 *
 * Eight bytes at once ("slicing by 8"): the register is XORed into the first four, and each byte is
 * looked up in the table of its distance to the end; the eight look-ups do not wait for each other.
 *
 * Sources: G. Castagnoli, S. Braeuer, M. Herrmann, "Optimization of Cyclic Redundancy-Check Codes
 * with 24 and 32 Parity Bits", IEEE Transactions on Communications 41 (1993): the polynomial.
 * M. Kounavis, F. Berry, "A Systematic Approach to Building High Performance Software-Based CRC
 * Generators", IEEE ISCC 2005: slicing. RFC 3720, appendix B.4: test vectors.
 */
#include "crc32c.h"

#include <string.h>

/* Entry i of a table, from the eight entries of single bits. */
#define BIT(i, j, entry) ((i) >> (j) & 1 ? (entry) : 0u)
#define ENTRY(i, a, b, c, d, e, f, g, h)                                                          \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^    \
     BIT(i, 6, g) ^ BIT(i, 7, h))
#define ENTRIES_4(i, ...)                                                                         \
    ENTRY(i, __VA_ARGS__), ENTRY((i) + 1, __VA_ARGS__), ENTRY((i) + 2, __VA_ARGS__),              \
        ENTRY((i) + 3, __VA_ARGS__)
#define ENTRIES_16(i, ...)                                                                        \
    ENTRIES_4(i, __VA_ARGS__), ENTRIES_4((i) + 4, __VA_ARGS__), ENTRIES_4((i) + 8, __VA_ARGS__),  \
        ENTRIES_4((i) + 12, __VA_ARGS__)
#define ENTRIES_64(i, ...)                                                                        \
    ENTRIES_16(i, __VA_ARGS__), ENTRIES_16((i) + 16, __VA_ARGS__),                                \
        ENTRIES_16((i) + 32, __VA_ARGS__), ENTRIES_16((i) + 48, __VA_ARGS__)
#define TABLE(...)                                                                                \
    {                                                                                             \
        ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__),    \
            ENTRIES_64(192, __VA_ARGS__)                                                          \
    }

static const uint32_t table[8][256] = {
    TABLE(0xF26B8303u, 0xE13B70F7u, 0xC79A971Fu, 0x8AD958CFu,
          0x105EC76Fu, 0x20BD8EDEu, 0x417B1DBCu, 0x82F63B78u),
    TABLE(0x13A29877u, 0x274530EEu, 0x4E8A61DCu, 0x9D14C3B8u,
          0x3FC5F181u, 0x7F8BE302u, 0xFF17C604u, 0xFBC3FAF9u),
    TABLE(0xA541927Eu, 0x4F6F520Du, 0x9EDEA41Au, 0x38513EC5u,
          0x70A27D8Au, 0xE144FB14u, 0xC76580D9u, 0x8B277743u),
    TABLE(0xDD45AAB8u, 0xBF672381u, 0x7B2231F3u, 0xF64463E6u,
          0xE964B13Du, 0xD725148Bu, 0xABA65FE7u, 0x52A0C93Fu),
    TABLE(0x38116FACu, 0x7022DF58u, 0xE045BEB0u, 0xC5670B91u,
          0x8F2261D3u, 0x1BA8B557u, 0x37516AAEu, 0x6EA2D55Cu),
    TABLE(0xEF306B19u, 0xDB8CA0C3u, 0xB2F53777u, 0x6006181Fu,
          0xC00C303Eu, 0x85F4168Du, 0x0E045BEBu, 0x1C08B7D6u),
    TABLE(0x68032CC8u, 0xD0065990u, 0xA5E0C5D1u, 0x4E2DFD53u,
          0x9C5BFAA6u, 0x3D5B83BDu, 0x7AB7077Au, 0xF56E0EF4u),
    TABLE(0x493C7D27u, 0x9278FA4Eu, 0x211D826Du, 0x423B04DAu,
          0x847609B4u, 0x0D006599u, 0x1A00CB32u, 0x34019664u),
};

uint32_t ls_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t c = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low, high; /* little-endian, as everywhere in lockstep */
        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= c;
        c = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
            table[4][low >> 24] ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^
            table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; bytes > 0; bytes--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return ~c;
}
