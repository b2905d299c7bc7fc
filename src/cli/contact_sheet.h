/* SPDX-License-Identifier: MIT */
/* contact_sheet.h -- many small pictures of a data set on a large one, with their labels.
 *
 *     +--------------------------------+
 *     |  ######   ######   ######      |   pictures of one size, enlarged by a whole factor
 *     |  ######   ######   ######      |   if they are small
 *     |  CAT      SHIP     CAT         |   class names, class numbers, or the first target
 *     |  ######   ...                  |
 *     +--------------------------------+
 *
 * What is drawn is what a network is fed, before the scale: bytes as they are; floats v as
 * v / top * 255, clamped and rounded, top being ls_dataset_range_top.
 */
#ifndef LS_CLI_CONTACT_SHEET_H
#define LS_CLI_CONTACT_SHEET_H

#include "io/augment.h"
#include "io/dataset.h"
#include "io/png.h"
#include "status.h"

typedef struct {
    const ls_dataset *dataset; /* borrowed; images of one or three channels */
    ls_part part;
    size_t count;        /* of samples; more than there are: all */
    /* TRAIN: the first `count` samples that a training takes in this epoch, as it sees them. TEST:
     * the first `count`, as they are. */
    ls_augment augment;
    uint64_t seed;
    uint32_t epoch;      /* 0-based */
    bool shuffle;
} ls_contact_sheet;

/* Owns: out->pixels is the caller's to free. Errors: ARGUMENT (no images, another number of
 * channels, no sample in the part, augmented test samples; as ls_augment_check), MEMORY. */
LS_MUST_USE ls_status ls_contact_sheet_draw(const ls_contact_sheet *sheet, ls_image *out);

#endif
