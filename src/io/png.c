/* SPDX-License-Identifier: MIT */
/* png.c -- a PNG file of three chunks, its pixels stored and not compressed.
 *
 *     89 'P' 'N' 'G' 0d 0a 1a 0a
 *     IHDR   width, height (4 bytes each, big-endian), 8 bits, colour type 0 or 2, 0, 0, 0
 *     IDAT   a zlib stream: 78 01 | deflate blocks | Adler-32 of what they hold
 *     IEND
 *
 * A chunk is: length of its data, four letters, the data, CRC-32 of letters and data; numbers
 * big-endian. What the blocks hold is the rows from top to bottom, each behind a byte 0: no filter.
 * A stored block is: a byte, 1 for the last and else 0; its length n <= 65535 and 65535 - n, two
 * bytes each, little-endian; n bytes as they are.
 *
 * [T. Boutell, "PNG (Portable Network Graphics) Specification", RFC 2083, 1997. P. Deutsch and
 *  J.-L. Gailly, "ZLIB Compressed Data Format Specification", RFC 1950, 1996. P. Deutsch, "DEFLATE
 *  Compressed Data Format Specification", RFC 1951, 1996.]
 */
#include "io/png.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/new_file.h"

enum { SIGNATURE_BYTES = 8, IHDR_BYTES = 13, FRAME_BYTES = 12, BLOCK_MAX = 65535 };
#define CHUNK_MAX ((size_t)0x7fffffff)

static const unsigned char signature[SIGNATURE_BYTES] = { 0x89, 'P',  'N',  'G',
                                                          '\r', '\n', 0x1a, '\n' };

/* -- sums ------------------------------------------------------------------------------------ */

/* CRC-32 with the polynomial of IEEE 802.3, bits reflected, four bits a step. */
static uint32_t crc32_of(const unsigned char *data, size_t bytes)
{
    uint32_t table[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t r = i;
        for (int bit = 0; bit < 4; bit++) r = r & 1 ? r >> 1 ^ 0xedb88320u : r >> 1;
        table[i] = r;
    }
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* s1 = 1 + sum of bytes, s2 = sum of all s1, both modulo 65521. 5552 bytes cannot overflow s2. */
static uint32_t adler32_of(const unsigned char *data, size_t bytes)
{
    uint32_t s1 = 1, s2 = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t stop = bytes - i < 5552 ? bytes : i + 5552;
        for (; i < stop; i++) s2 += s1 += data[i];
        s1 %= 65521;
        s2 %= 65521;
    }
    return s2 << 16 | s1;
}

/* -- writing --------------------------------------------------------------------------------- */

static unsigned char *put_u32(unsigned char *to, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) *to++ = (unsigned char)(value >> shift);
    return to;
}

/* The frame around `bytes` bytes of data, which are at to + 8 already; returns the chunk's end. */
static unsigned char *frame_chunk(unsigned char *to, const char *name, size_t bytes)
{
    put_u32(to, (uint32_t)bytes);
    memcpy(to + 4, name, 4);
    return put_u32(to + 8 + bytes, crc32_of(to + 4, bytes + 4));
}

static size_t zlib_bytes(size_t raw)
{
    return 2 + raw + 5 * ((raw + BLOCK_MAX - 1) / BLOCK_MAX) + 4;
}

/* raw[bytes], bytes > 0, as a zlib stream. */
static void put_zlib(unsigned char *to, const unsigned char *raw, size_t bytes)
{
    *to++ = 0x78; /* deflate, a window of 32 KiB */
    *to++ = 0x01; /* no dictionary; makes 0x7801 a multiple of 31 */
    for (size_t at = 0; at < bytes;) {
        const size_t n = bytes - at < BLOCK_MAX ? bytes - at : BLOCK_MAX;
        *to++ = at + n == bytes;
        *to++ = (unsigned char)n;
        *to++ = (unsigned char)(n >> 8);
        *to++ = (unsigned char)~n;
        *to++ = (unsigned char)(~n >> 8);
        memcpy(to, raw + at, n);
        to += n;
        at += n;
    }
    put_u32(to, adler32_of(raw, bytes));
}

/* The rows, each behind its filter byte. The caller frees them; NULL without memory. */
static unsigned char *rows_of(const ls_image *image, size_t bytes)
{
    const size_t row = image->width * image->channels;
    unsigned char *raw = malloc(bytes);
    for (size_t i = 0; raw && i < image->height; i++) {
        raw[i * (row + 1)] = 0;
        memcpy(raw + i * (row + 1) + 1, image->pixels + i * row, row);
    }
    return raw;
}

ls_status ls_png_encode(const ls_image *image, unsigned char **out, size_t *bytes)
{
    assert(image->channels == 1 || image->channels == 3);
    assert(image->width >= 1 && image->height >= 1);
    *out = NULL;
    if (image->width > CHUNK_MAX / 4 ||
        image->height > CHUNK_MAX / 2 / (image->width * image->channels + 1)) {
        return ls_fail(LS_ERR_ARGUMENT, "a picture of %zu x %zu pixels: too large for one PNG file",
                       image->width, image->height);
    }
    const size_t raw_bytes = image->height * (image->width * image->channels + 1);
    const size_t data = zlib_bytes(raw_bytes);
    *bytes = SIGNATURE_BYTES + (FRAME_BYTES + IHDR_BYTES) + (FRAME_BYTES + data) + FRAME_BYTES;
    unsigned char *raw = rows_of(image, raw_bytes), *png = malloc(*bytes);
    if (!raw || !png) {
        free(raw);
        free(png);
        return ls_fail(LS_ERR_MEMORY, "no memory for a picture of %zu bytes", *bytes);
    }
    memcpy(png, signature, SIGNATURE_BYTES);
    unsigned char *to = png + SIGNATURE_BYTES;
    const unsigned char kind[5] = { 8, image->channels == 3 ? 2 : 0, 0, 0, 0 };
    put_u32(to + 8, (uint32_t)image->width);
    put_u32(to + 12, (uint32_t)image->height);
    memcpy(to + 16, kind, sizeof kind);
    to = frame_chunk(to, "IHDR", IHDR_BYTES);
    put_zlib(to + 8, raw, raw_bytes);
    to = frame_chunk(to, "IDAT", data);
    to = frame_chunk(to, "IEND", 0);
    assert(to == png + *bytes);
    free(raw);
    *out = png;
    return LS_OK;
}

ls_status ls_png_save(const ls_image *image, const char *path)
{
    unsigned char *png;
    size_t bytes;
    ls_new_file file;
    LS_TRY(ls_png_encode(image, &png, &bytes));
    memset(&file, 0, sizeof file);
    ls_status status = ls_new_file_open(&file, path, &ls_file_calls_posix);
    if (status == LS_OK) {
        status = ls_new_file_write(&file, png, bytes);
        if (status == LS_OK) status = ls_new_file_commit(&file);
        ls_new_file_close(&file);
    }
    free(png);
    return status;
}
