/* SPDX-License-Identifier: MIT */
/* augment_pixels.c -- pictures moved, turned, cut and changed in light, a row at a time.
 *
 * Moving. Of a row the crop has columns j' in [begin, end) that are in the picture; what is
 * left and right of them is zeros. They are one run of bytes, copied as it is, or mirrored:
 *
 *     j'   0    begin      end  width            left = -2, width = 7: begin 2, end 7
 *          . .  a b c d e                   ->   . . a b c d e       as it is
 *                                                e d c b a . .       mirrored
 *
 * Bytes. brightness and contrast make a number of a byte, so each is a table of 256, clamped to
 * 0 .. 255 and rounded to the nearest whole number, ties to even: adding 2^23 to a float in
 * [0, 255] leaves no bit for a fraction, so the addition rounds, as rintf does, and taking 2^23
 * away again is exact.
 *
 * A channel's mean is (float)(sum / pixels), the sum being the flat sum in double of
 * docs/numerics.md 1.3. Of bytes it is a whole number below 2^53 however it is added up, so it is
 * added up in integers: LANES neighbouring bytes at a time, lane l belonging to channel l mod C
 * where C divides LANES.
 */
#include "io/augment_pixels.h"

#include <stdint.h>
#include <string.h>

#include "numerics.h"

/* -- moving ---------------------------------------------------------------------------------- */

/* n pixels of a constant number of bytes in reverse; x and y do not overlap. */
LS_INLINE void mirror_pixels(const unsigned char *x, size_t n, size_t bytes, unsigned char *y)
{
    for (size_t k = 0; k < n; k++) memcpy(y + k * bytes, x + (n - 1 - k) * bytes, bytes);
}

/* Single bytes: eight at a time. */
static void mirror_1(const unsigned char *x, size_t n, unsigned char *y)
{
    for (; n >= 8; n -= 8, y += 8) {
        uint64_t word;
        memcpy(&word, x + n - 8, 8);
        word = __builtin_bswap64(word);
        memcpy(y, &word, 8);
    }
    mirror_pixels(x, n, 1, y);
}

/* Three bytes: but for the ends as four, the last of which the next pixel covers. */
static void mirror_3(const unsigned char *x, size_t n, unsigned char *y)
{
    if (n == 0) return;
    memcpy(y, x + 3 * (n - 1), 3);
    for (size_t k = 1; k + 1 < n; k++) memcpy(y + 3 * k, x + 3 * (n - 1 - k), 4);
    memcpy(y + 3 * (n - 1), x, 3);
}

static void mirror(const unsigned char *x, size_t n, size_t bytes, unsigned char *y)
{
    switch (bytes) {
    case 1: mirror_1(x, n, y); break;
    case 3: mirror_3(x, n, y); break;
    case sizeof(float): mirror_pixels(x, n, sizeof(float), y); break;
    case 3 * sizeof(float): mirror_pixels(x, n, 3 * sizeof(float), y); break;
    default: mirror_pixels(x, n, bytes, y); break;
    }
}

void ls_pixels_move(ls_picture p, ls_crop crop, const unsigned char *x, unsigned char *y)
{
    const size_t row_bytes = p.width * p.bytes;
    const size_t begin = crop.left < 0 ? (size_t)-crop.left : 0; /* of columns j' */
    const size_t end = crop.left > 0 ? p.width - (size_t)crop.left : p.width;
    const size_t first = crop.flip ? p.width - end : begin;      /* of columns of y */
    const size_t from = crop.left > 0 ? (size_t)crop.left : 0;     /* of columns of x */
    const size_t count = end - begin;
    for (size_t i = 0; i < p.height; i++, y += row_bytes) {
        const ptrdiff_t row = (ptrdiff_t)(crop.vflip ? p.height - 1 - i : i) + crop.top;
        if (row < 0 || (size_t)row >= p.height) {
            memset(y, 0, row_bytes);
            continue;
        }
        const unsigned char *run = x + (size_t)row * row_bytes + from * p.bytes;
        memset(y, 0, first * p.bytes);
        if (crop.flip) {
            mirror(run, count, p.bytes, y + first * p.bytes);
        } else {
            memcpy(y + first * p.bytes, run, count * p.bytes);
        }
        memset(y + (first + count) * p.bytes, 0, (p.width - first - count) * p.bytes);
    }
}

/* The part of [at, at + count) that is in [0, extent). */
static size_t clip(ptrdiff_t at, size_t count, size_t extent, size_t *begin)
{
    const ptrdiff_t last = at + (ptrdiff_t)count;
    const size_t end = last < 0 ? 0 : (size_t)last < extent ? (size_t)last : extent;
    *begin = at < 0 ? 0 : (size_t)at;
    return end > *begin ? end - *begin : 0;
}

void ls_pixels_cut(ls_picture p, ptrdiff_t top, ptrdiff_t left, size_t side, unsigned char *x)
{
    size_t row, column;
    const size_t rows = clip(top, side, p.height, &row);
    const size_t columns = clip(left, side, p.width, &column);
    for (size_t i = row; i < row + rows; i++) {
        memset(x + (i * p.width + column) * p.bytes, 0, columns * p.bytes);
    }
}

/* -- light ----------------------------------------------------------------------------------- */

static float with_contrast(float v, float factor, float mean)
{
    const float product = (v - mean) * factor;
    return product + mean;
}

static unsigned char byte_of(float v)
{
    const float clamped = v < 0 ? 0 : v > 255 ? 255 : v;
    const float shifted = clamped + 0x1p23f;
    return (unsigned char)(shifted - 0x1p23f);
}

void ls_bytes_brighten(float difference, unsigned char *x, size_t count)
{
    unsigned char table[256];
    for (int v = 0; v < 256; v++) table[v] = byte_of((float)v + difference);
    for (size_t i = 0; i < count; i++) x[i] = table[x[i]];
}

enum { LANES = 48 }; /* 1, 2, 3, 4, 6 and 8 channels divide it */

/* Sums of a picture's channels, C of which divides LANES, by lane. */
static void sum_lanes(const unsigned char *x, size_t count, uint64_t lane[LANES])
{
    memset(lane, 0, LANES * sizeof *lane);
    while (count >= LANES) {
        uint16_t part[LANES] = { 0 }; /* of 257 bytes at most: 257 * 255 = 2^16 - 1 */
        for (int i = 0; i < 257 && count >= LANES; i++, x += LANES, count -= LANES) {
            for (size_t l = 0; l < LANES; l++) part[l] = (uint16_t)(part[l] + x[l]);
        }
        for (size_t l = 0; l < LANES; l++) lane[l] += part[l];
    }
    for (size_t l = 0; l < count; l++) lane[l] += x[l];
}

void ls_bytes_contrast(float factor, unsigned char *x, size_t pixels, size_t C)
{
    const bool by_lanes = LANES % C == 0;
    uint64_t lane[LANES];
    if (by_lanes) sum_lanes(x, pixels * C, lane);
    for (size_t c = 0; c < C; c++) {
        unsigned char table[256];
        uint64_t sum = 0;
        for (size_t l = c; by_lanes && l < LANES; l += C) sum += lane[l];
        for (size_t p = 0; !by_lanes && p < pixels; p++) sum += x[p * C + c];
        const float mean = (float)((double)sum / (double)pixels);
        for (int v = 0; v < 256; v++) table[v] = byte_of(with_contrast((float)v, factor, mean));
        for (size_t p = 0; p < pixels; p++) x[p * C + c] = table[x[p * C + c]];
    }
}

void ls_floats_contrast(float factor, float *x, size_t pixels, size_t C)
{
    for (size_t c = 0; c < C; c++) {
        ls_flat_f64 sum;
        ls_flat_init_f64(&sum);
        for (size_t p = 0; p < pixels; p++) ls_flat_add_f64(&sum, (double)x[p * C + c]);
        const float mean = (float)(ls_flat_end_f64(&sum) / (double)pixels);
        for (size_t p = 0; p < pixels; p++) {
            x[p * C + c] = with_contrast(x[p * C + c], factor, mean);
        }
    }
}
