/* SPDX-License-Identifier: MIT */
/* dataset_digits.c -- 1,797 handwritten digits of 8x8 pixels that are part of the program.
 *
 * The text of src/data/digits.csv (origin and licence: digits-LICENSE.md beside it): 64 numbers
 * 0 .. 16, row by row, and the digit. embed.S puts it between the two symbols below. Every fifth
 * line is test: 1,438 and 359, neither a multiple of 4, so a short last batch and uneven shards
 * come for free. A pixel's natural range is 0 .. 16, so the default scale divides by 16.
 */
#include "io/dataset_internal.h"

extern const char ls_embedded_digits[], ls_embedded_digits_end[];

static ls_status open_digits(ls_dataset *dataset)
{
    enum { SIDE = 8, CLASSES = 10 };
    const size_t bytes = (size_t)(ls_embedded_digits_end - ls_embedded_digits);
    LS_TRY(ls_dataset_read_csv(dataset, "digits", ls_embedded_digits, bytes));
    ls_dataset_info *info = &dataset->info;
    if (info->channels != (size_t)SIDE * SIDE) {
        return ls_fail(LS_ERR_FORMAT, "digits: %zu pixels, expected %d", info->channels,
                       SIDE * SIDE);
    }
    info->is_image = true;
    info->height = info->width = SIDE;
    info->channels = 1;
    info->classes = CLASSES;
    return LS_OK;
}

static const char *const digits_keys[] = { "scale", NULL };

const ls_dataset_format ls_dataset_digits = {
    .kind = "digits",
    .usage = "digits[,scale=16|255|none|standard]",
    .keys = digits_keys,
    .files = 0,
    .divisor = 16,
    .open = open_digits,
};
