/* SPDX-License-Identifier: MIT */
/* stored_png.h -- reads PNG files whose deflate blocks are stored ones, checking all that a reader
 * checks: signature, chunks and their CRCs, the zlib header, lengths and complements, Adler-32.
 * Shares no code with src/io/png.c: sums are bit by bit and byte by byte. */
#ifndef TEST_SUPPORT_STORED_PNG_H
#define TEST_SUPPORT_STORED_PNG_H

#include "io/png.h"

/* NULL and the image (its pixels are the caller's to free), or what is wrong. */
const char *stored_png_read(const unsigned char *png, size_t bytes, ls_image *out);

#endif
