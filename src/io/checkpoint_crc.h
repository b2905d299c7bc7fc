/* SPDX-License-Identifier: MIT */
/* checkpoint_crc.h -- the CRCs that a checkpoint's metadata hold, as text.
 *
 * The CRC-32C of tensor NAME's data is the text of the key  crc32c/NAME , eight lower-case
 * hexadecimal digits; that of the header itself is at  crc32c/header , and was made with its own
 * digits as zeros. Its place is found by the bytes  "crc32c/header":"  -- which occur nowhere else,
 * because inside a JSON string a quote has a backslash before it.
 *
 * Pure: no files.
 */
#ifndef LS_IO_CHECKPOINT_CRC_H
#define LS_IO_CHECKPOINT_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#define LS_CRC_PREFIX "crc32c/"
enum { LS_CRC_DIGITS = 8 };

/* False: these are not eight such digits. */
bool ls_crc_read(const char *digits, uint32_t *out);
void ls_crc_write(uint32_t crc, char digits[LS_CRC_DIGITS + 1]);

/* Does the header hold its own CRC, and is it right? `path` is for messages. Errors: FORMAT. */
LS_MUST_USE ls_status ls_header_crc_check(const char *path, const char *json, size_t byte_count);

/* Write it where the header has zeros for it. */
void ls_header_crc_write(char *json, size_t byte_count);

#endif
