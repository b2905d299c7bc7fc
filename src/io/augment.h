/* SPDX-License-Identifier: MIT */
/* augment.h -- training images changed at random, each differently in each epoch.
 *
 *     crop:4,flip,vflip,brightness:0.2,contrast:0.2,cutout:8
 *
 * Operations act on stored numbers, before the scale, and always in this order, whatever the order
 * of the text:
 *
 *     crop:P        P zeros on each side, then a part of the picture's own size at a random place
 *     flip          left and right change places, for every second sample
 *     vflip         top and bottom do
 *     brightness:X  v + d, d uniform in [-X R, X R], R the range of values (ls_dataset_range_top)
 *     contrast:X    (v - m) f + m, f uniform in [1 - X, 1 + X], m the channel's mean
 *     cutout:S      a square of S x S becomes zeros, centred at a random pixel, cut at the edges
 *
 * Bytes stay bytes: after brightness, and after contrast, a number is clamped to 0 .. 255 and
 * rounded to the nearest whole one, ties to even. Floats are neither clamped nor rounded.
 *
 * What is drawn for a sample is a function of (seed, epoch, its index in the training part), and
 * what one operation draws does not depend on which others are on (docs/numerics.md 7). Augmenting
 * comes after whatever keeps samples, never before it.
 *
 * Thread rule: pure but for the outputs.
 */
#ifndef LS_IO_AUGMENT_H
#define LS_IO_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/dataset.h"
#include "status.h"

/* All zero: nothing is changed. */
typedef struct {
    size_t crop;         /* P, pixels */
    bool flip, vflip;
    double brightness, contrast; /* X */
    size_t cutout;       /* S, pixels */
} ls_augment;

enum { LS_AUGMENT_TEXT_BYTES = 160 };

/* `text` as above, or "none". Errors: ARGUMENT: an unknown operation (with the nearest), one given
 * twice, a number missing or out of range; *out is then unchanged. */
LS_MUST_USE ls_status ls_augment_parse(const char *text, ls_augment *out);

/* What ls_augment_parse turns into the same: operations in their order; "none". */
void ls_augment_write(const ls_augment *augment, char out[LS_AUGMENT_TEXT_BYTES]);

bool ls_augment_is_none(const ls_augment *augment);

/* Errors: ARGUMENT: the data are no images, or a picture is too small: P and S must be less than
 * both sides, so that something is left of every picture. */
LS_MUST_USE ls_status ls_augment_check(const ls_augment *augment, const ls_dataset_info *info);

/* Bytes of scratch memory that ls_augment_read needs. */
size_t ls_augment_scratch_bytes(const ls_dataset_info *info);

/* Sample `index` of `part` as ls_dataset_read_raw gives it (U8 bytes, or scaled floats), augmented.
 * `scratch`: that many bytes, aligned as for float, the caller's own. */
void ls_augment_read(const ls_augment *augment, const ls_dataset *dataset, ls_part part,
                     size_t index, uint64_t seed, uint32_t epoch, void *scratch, void *x);

/* What ls_augment_read makes of a sample that has been read: `from`, as ls_dataset_read_stored
 * gives sample `index` of the training part; it does not overlap x. */
void ls_augment_apply(const ls_augment *augment, const ls_dataset *dataset, size_t index,
                      uint64_t seed, uint32_t epoch, const void *from, void *x);

/* The same without the scale: what `lockstep data show` draws. x: bytes, or stored floats. */
void ls_augment_read_stored(const ls_augment *augment, const ls_dataset *dataset, ls_part part,
                            size_t index, uint64_t seed, uint32_t epoch, void *scratch, void *x);

#endif
