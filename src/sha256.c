/* SPDX-License-Identifier: MIT */
/* sha256.c -- the Secure Hash Algorithm SHA-256.
 *
 * The message is padded with one bit 1, zeros, and its length in bits as a 64-bit big-endian
 * number, up to a multiple of 64 bytes. Each 64-byte block becomes a schedule w[0..63]: its sixteen
 * big-endian words, then w[t] = s1(w[t-2]) + w[t-7] + s0(w[t-15]) + w[t-16]. Sixty-four rounds mix
 * the schedule and the constants into eight registers, which are added to the state. The digest is
 * the state, big-endian. All arithmetic is modulo 2^32.
 *
 * Mixing blocks is all that takes time, and CPUs have instructions for it: ls_sha256_mix below is
 * the plain form, cpu_bytes.h has others, and init takes the fastest that this CPU runs.
 *
 * The state starts as the first 32 bits of the fractional parts of the square roots of the first 8
 * primes; ls_sha256_constant[t] are those of the cube roots of the first 64.
 *
 * Source: NIST, FIPS PUB 180-4, "Secure Hash Standard" (2015), sections 4.1.2, 5.1.1 and 6.2.
 */
#include "sha256.h"

#include <string.h>

const uint32_t ls_sha256_constant[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u,
    0x923f82a4u, 0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u,
    0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u,
    0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u,
    0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u,
    0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au,
    0x5b9cca4fu, 0x682e6ff3u, 0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u,
    0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static uint32_t rotate_right(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static uint32_t read_big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* w[0 .. 63] of a block of 64 bytes. */
static void schedule(const unsigned char *block, uint32_t w[64])
{
    for (int t = 0; t < 16; t++) w[t] = read_big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        const uint32_t x = w[t - 15], y = w[t - 2];
        const uint32_t s0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
        const uint32_t s1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

/* Mix one block of 64 bytes into the state. The registers have the standard's names. */
static void mix_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    schedule(block, w);
    for (int t = 0; t < 64; t++) {
        const uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        const uint32_t choice = (e & f) ^ (~e & g);
        const uint32_t t1 = h + sum1 + choice + ls_sha256_constant[t] + w[t];
        const uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + sum0 + majority;
    }
    const uint32_t mixed[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; i++) state[i] += mixed[i];
}

void ls_sha256_mix(uint32_t state[8], const unsigned char *block, size_t block_count)
{
    for (size_t i = 0; i < block_count; i++) mix_block(state, block + 64 * i);
}

void ls_sha256_init(ls_sha256 *sha)
{
    *sha = (ls_sha256){ .mix = ls_sha256_mix_here(),
                        .state = { 0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                   0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u } };
}

void ls_sha256_update(ls_sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    const size_t held = sha->byte_count % 64;
    sha->byte_count += bytes;
    if (bytes == 0) return;
    if (held > 0) {
        const size_t part = bytes < 64 - held ? bytes : 64 - held;
        memcpy(sha->block + held, p, part);
        p += part;
        bytes -= part;
        if (held + part < 64) return;
        sha->mix(sha->state, sha->block, 1);
    }
    sha->mix(sha->state, p, bytes / 64);
    memcpy(sha->block, p + bytes / 64 * 64, bytes % 64);
}

void ls_sha256_final_hex(ls_sha256 *sha, char out[65])
{
    static const unsigned char padding[64] = { 0x80 };
    const uint64_t bits = sha->byte_count * 8;
    const size_t held = sha->byte_count % 64;
    ls_sha256_update(sha, padding, held < 56 ? 56 - held : 120 - held);

    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    ls_sha256_update(sha, length, sizeof length);

    for (int i = 0; i < 64; i++) {
        const uint32_t digit = sha->state[i / 8] >> (28 - i % 8 * 4) & 15;
        out[i] = "0123456789abcdef"[digit];
    }
    out[64] = '\0';
}
