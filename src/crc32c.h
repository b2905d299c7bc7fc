/* SPDX-License-Identifier: MIT */
/* crc32c.h -- CRC-32C (Castagnoli), the check that guards files against damage.
 *
 * It finds every error burst of up to 32 bits and, in short messages, every 1- to 5-bit error; it
 * is no signature. Portable C, about 2 GB/s. Pure; any thread.
 */
#ifndef LS_CRC32C_H
#define LS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C of `bytes` bytes at `data`, continuing from `crc`, which is 0 at the start:
 * ls_crc32c(ls_crc32c(0, a, n), b, m) is the CRC of a followed by b.
 * The value of "123456789" is 0xE3069283. `data` may be NULL if bytes is 0. */
uint32_t ls_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
