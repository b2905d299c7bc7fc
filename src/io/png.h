/* SPDX-License-Identifier: MIT */
/* png.h -- pictures as PNG files, without a compressor.
 *
 * 8 bits a channel, grey or red-green-blue. Not here: reading, palettes, transparency.
 *
 * Thread rule: pure, but for the file.
 */
#ifndef LS_IO_PNG_H
#define LS_IO_PNG_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct {
    size_t width, height; /* 1 .. 2^31 - 1 */
    size_t channels;      /* 1 grey, 3 red, green, blue */
    uint8_t *pixels;      /* [height, width, channels]; owned by whoever made the image */
} ls_image;

/* The bytes of a PNG file.
 * Owns: *out is the caller's to free. Errors: ARGUMENT (more than 2^31 bytes of pixels), MEMORY. */
LS_MUST_USE ls_status ls_png_encode(const ls_image *image, unsigned char **out, size_t *bytes);

/* The file at `path`, which appears whole or not at all. Errors: as above, and IO. */
LS_MUST_USE ls_status ls_png_save(const ls_image *image, const char *path);

#endif
