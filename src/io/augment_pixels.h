/* SPDX-License-Identifier: MIT */
/* augment_pixels.h -- what each operation of --augment does to the pixels of one picture.
 *
 * What is drawn for a picture, and in which order operations act, is augment.c's.
 *
 * Thread rule: pure but for the outputs.
 */
#ifndef LS_IO_AUGMENT_PIXELS_H
#define LS_IO_AUGMENT_PIXELS_H

#include <stdbool.h>
#include <stddef.h>

/* [height, width] pixels of `bytes` bytes each. */
typedef struct {
    size_t height, width, bytes;
} ls_picture;

/* A crop of the picture's own size: y[i, j] = x[top + i', left + j'] with i' = i, or height - 1 - i
 * if vflip; j' likewise; 0 outside of x. |top| < height and |left| < width. */
typedef struct {
    bool flip, vflip;
    ptrdiff_t top, left;
} ls_crop;

/* x -> y, which do not overlap. */
void ls_pixels_move(ls_picture picture, ls_crop crop, const unsigned char *x,
                    unsigned char *y);

/* Zeros in the square of `side` pixels whose first is (top, left), as far as it lies in the
 * picture. */
void ls_pixels_cut(ls_picture picture, ptrdiff_t top, ptrdiff_t left, size_t side,
                   unsigned char *x);

/* v + difference, clamped and rounded; x: [count]. */
void ls_bytes_brighten(float difference, unsigned char *x, size_t count);

/* (v - m) factor + m, m the channel's mean; x: [pixels, C]. Of bytes: clamped and rounded. */
void ls_bytes_contrast(float factor, unsigned char *x, size_t pixels, size_t C);
void ls_floats_contrast(float factor, float *x, size_t pixels, size_t C);

#endif
