/* SPDX-License-Identifier: MIT */
/* fold_rows.h -- host: whole rows of sums, a number for each channel: the tree over a leaf's
 * slices, then the fold (fold.h) over leaves.
 *
 * Rows are added where they lie. One that the fold stores in a temporary slot simply stays there.
 */
#ifndef LS_KERNELS_HOST_FOLD_ROWS_H
#define LS_KERNELS_HOST_FOLD_ROWS_H

#include <limits.h>
#include <string.h>

#include "kernels/fold.h"

/* to[0..count) = left + to */
static inline void ls_add_row(const float *left, float *to, size_t count)
{
#pragma GCC ivdep
    for (size_t c = 0; c < count; c++) to[c] = left[c] + to[c];
}

/* rows [slices][count], slices > 0 -> the tree's sum of them, which takes the place of the last
 * row; others are changed. */
static inline const float *ls_tree_rows(float *rows, size_t slices, size_t count)
{
    const float *stack[LS_TREE_DEPTH];
    int depth = 0;
    for (size_t i = 0; i < slices; i++) {
        float *row = rows + i * count;
        for (int adds = ls_tree_adds_after(i, slices); adds > 0; adds--) {
            ls_add_row(stack[--depth], row, count);
        }
        stack[depth++] = row;
    }
    return stack[0];
}

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
            ls_add_row(left, t, count);
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
