/* SPDX-License-Identifier: MIT */
/* checkpoint_crc.c -- where a header's own CRC stands, and what it is. See checkpoint_crc.h. */
#include "io/checkpoint_crc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "crc32c.h"

static const char crc_mark[] = "\"" LS_CRC_PREFIX "header\":\"";

bool ls_crc_read(const char *digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < LS_CRC_DIGITS; i++) {
        static const char hex[] = "0123456789abcdef";
        const char *d = digits[i] ? strchr(hex, digits[i]) : NULL;
        if (!d) return false;
        *out = *out << 4 | (uint32_t)(d - hex);
    }
    return true;
}

/* Offset of the eight digits of the header's CRC; 0 if there are none. */
static size_t crc_place(const char *json, size_t byte_count)
{
    const size_t mark = sizeof crc_mark - 1;
    for (size_t i = 0; i + mark + LS_CRC_DIGITS < byte_count; i++) {
        if (json[i] == '"' && memcmp(json + i, crc_mark, mark) == 0) return i + mark;
    }
    return 0;
}

/* CRC-32C of the header with the digits at `place` taken as zeros. */
static uint32_t header_crc(const char *json, size_t byte_count, size_t place)
{
    const uint32_t before = ls_crc32c(0, json, place);
    const uint32_t middle = ls_crc32c(before, "00000000", LS_CRC_DIGITS);
    const size_t rest = place + LS_CRC_DIGITS;
    return ls_crc32c(middle, json + rest, byte_count - rest);
}

ls_status ls_header_crc_check(const char *path, const char *json, size_t byte_count)
{
    if (byte_count == 0 || json[0] != '{') {
        return ls_fail(LS_ERR_FORMAT, "%s: header: byte 8: expected '{': no checkpoint", path);
    }
    const size_t place = crc_place(json, byte_count);
    if (place == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: header: no crc32c/header in its metadata: damaged, or "
                                      "not written by lockstep", path);
    }
    uint32_t said;
    const uint32_t found = header_crc(json, byte_count, place);
    if (!ls_crc_read(json + place, &said) || said != found) {
        return ls_fail(LS_ERR_FORMAT, "%s: header: damaged: its CRC-32C is %08" PRIx32
                                      ", but it says %.8s", path, found, json + place);
    }
    return LS_OK;
}

void ls_crc_write(uint32_t crc, char digits[LS_CRC_DIGITS + 1])
{
    snprintf(digits, LS_CRC_DIGITS + 1, "%08" PRIx32, crc);
}

void ls_header_crc_write(char *json, size_t byte_count)
{
    char digits[LS_CRC_DIGITS + 1];
    const size_t place = crc_place(json, byte_count);
    assert(place > 0);
    ls_crc_write(header_crc(json, byte_count, place), digits);
    memcpy(json + place, digits, LS_CRC_DIGITS);
}
