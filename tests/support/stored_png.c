/* SPDX-License-Identifier: MIT */
/* stored_png.c -- see stored_png.h. */
#include "support/stored_png.h"

#include <stdlib.h>
#include <string.h>

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* By long division, a bit at a time: CRC-32 as RFC 2083's appendix has it. */
static uint32_t crc_of(const unsigned char *p, size_t bytes)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t low = (crc ^ (uint32_t)p[i] >> bit) & 1;
            crc = crc >> 1 ^ (low ? 0xedb88320u : 0);
        }
    }
    return crc ^ 0xffffffffu;
}

static uint32_t adler_of(const unsigned char *p, size_t bytes)
{
    uint32_t s1 = 1, s2 = 0;
    for (size_t i = 0; i < bytes; i++) {
        s1 = (s1 + p[i]) % 65521;
        s2 = (s2 + s1) % 65521;
    }
    return s2 * 65536 + s1;
}

/* A chunk named `name` must be at *p. */
static const char *chunk(const unsigned char **p, const unsigned char *end, const char *name,
                         const unsigned char **data, size_t *bytes)
{
    if (end - *p < 12) return "a chunk is cut";
    *bytes = u32_at(*p);
    if ((size_t)(end - *p) < *bytes + 12) return "a chunk is longer than the file";
    if (memcmp(*p + 4, name, 4) != 0) return "another chunk was expected";
    if (crc_of(*p + 4, *bytes + 4) != u32_at(*p + 8 + *bytes)) return "a chunk's CRC";
    *data = *p + 8;
    *p += *bytes + 12;
    return NULL;
}

/* Rows with their filter bytes from a zlib stream; the caller frees them. */
static const char *inflate_stored(const unsigned char *z, size_t bytes, size_t want,
                                  unsigned char *rows)
{
    size_t at = 2, have = 0;
    int last = 0;
    if (bytes < 6 || (z[0] & 15) != 8 || z[0] >> 4 > 7 || (z[0] * 256 + z[1]) % 31 != 0 ||
        z[1] & 32) {
        return "the zlib header";
    }
    while (!last) {
        if (bytes - at < 5) return "a block is cut";
        if (z[at] > 1) return "a block that is not stored";
        last = z[at];
        const size_t n = (size_t)z[at + 1] | (size_t)z[at + 2] << 8;
        if ((n ^ ((size_t)z[at + 3] | (size_t)z[at + 4] << 8)) != 0xffff) return "a block's length";
        if (bytes - at - 5 < n || want - have < n) return "a block is too long";
        memcpy(rows + have, z + at + 5, n);
        have += n;
        at += 5 + n;
    }
    if (have != want) return "too few rows";
    if (bytes - at != 4 || u32_at(z + at) != adler_of(rows, want)) return "Adler-32";
    return NULL;
}

static const char *unfilter(const unsigned char *rows, ls_image *image)
{
    const size_t row = image->width * image->channels;
    for (size_t i = 0; i < image->height; i++) {
        if (rows[i * (row + 1)] != 0) return "a filter";
        memcpy(image->pixels + i * row, rows + i * (row + 1) + 1, row);
    }
    return NULL;
}

const char *stored_png_read(const unsigned char *png, size_t bytes, ls_image *out)
{
    static const unsigned char signature[8] = { 137, 80, 78, 71, 13, 10, 26, 10 };
    static const unsigned char rest[3] = { 0, 0, 0 };
    const unsigned char *p = png + 8, *end = png + bytes, *data = NULL;
    size_t n = 0;
    *out = (ls_image){ .width = 0 };
    if (bytes < 8 || memcmp(png, signature, 8) != 0) return "the signature";
    const char *wrong = chunk(&p, end, "IHDR", &data, &n);
    if (wrong) return wrong;
    if (n != 13 || data[8] != 8 || (data[9] != 0 && data[9] != 2) || memcmp(data + 10, rest, 3)) {
        return "the header";
    }
    ls_image image = { .width = u32_at(data), .height = u32_at(data + 4),
                       .channels = data[9] == 2 ? 3 : 1 };
    wrong = chunk(&p, end, "IDAT", &data, &n);
    if (wrong) return wrong;
    const size_t raw = image.height * (image.width * image.channels + 1);
    unsigned char *rows = malloc(raw);
    image.pixels = malloc(raw);
    wrong = rows && image.pixels ? inflate_stored(data, n, raw, rows) : "no memory";
    if (!wrong) wrong = unfilter(rows, &image);
    if (!wrong) wrong = chunk(&p, end, "IEND", &data, &n);
    if (!wrong && (n != 0 || p != end)) wrong = "the end";
    free(rows);
    if (wrong) {
        free(image.pixels);
        return wrong;
    }
    *out = image;
    return NULL;
}
