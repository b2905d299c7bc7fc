/* SPDX-License-Identifier: MIT */
/* fold_rows.h -- host: follow a fold (fold.h) over whole rows of sums, one row per leaf.
 *
 * A row that the fold stores in a temporary slot simply stays where it is.
 */
#ifndef LS_KERNELS_HOST_FOLD_ROWS_H
#define LS_KERNELS_HOST_FOLD_ROWS_H

#include <limits.h>
#include <string.h>

#include "kernels/fold.h"

/* sum [leaf_count][count] -> piece p at out + p * piece_stride. The rows of `sum` are changed. */
static inline void ls_fold_rows(const ls_fold *fold, float *sum, size_t count, float *out,
                                size_t piece_stride)
{
    const float *temporary[UCHAR_MAX + 1]; /* slot -> the row that holds it */
    for (int i = 0; i < fold->leaf_count; i++) {
        float *t = sum + (size_t)i * count;
        for (int m = 0; m < fold->merge_count[i]; m++) {
            const size_t slot = fold->merge[i][m];
            const float *left =
                (int)slot < fold->piece_count ? out + slot * piece_stride : temporary[slot];
#pragma GCC ivdep
            for (size_t c = 0; c < count; c++) t[c] = left[c] + t[c];
        }
        const size_t slot = fold->store[i];
        if ((int)slot < fold->piece_count) {
            memcpy(out + slot * piece_stride, t, count * sizeof *t);
        } else {
            temporary[slot] = t;
        }
    }
}

#endif
