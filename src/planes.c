/* SPDX-License-Identifier: MIT */
/* planes.c -- planes of red, green and blue become pixels: the plain form of cpu_bytes.h's loop.
 *
 * A pixel is written as four bytes, the last of them zero, which the next pixel then covers: one
 * store where there would be three. Only the last pixel must not reach beyond its end.
 */
#include <string.h>

#include "cpu_bytes.h"

void ls_planes_join(const unsigned char *from, size_t pixels, unsigned char *to)
{
    const unsigned char *red = from, *green = red + pixels, *blue = green + pixels;
    size_t p = 0;
    for (; p + 1 < pixels; p++) {
        const unsigned char pixel[4] = { red[p], green[p], blue[p], 0 };
        memcpy(to + 3 * p, pixel, 4);
    }
    if (p == pixels) return;
    const unsigned char last[3] = { red[p], green[p], blue[p] };
    memcpy(to + 3 * p, last, 3);
}
