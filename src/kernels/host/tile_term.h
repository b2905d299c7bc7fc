/* SPDX-License-Identifier: MIT */
/* tile_term.h -- a term of every chain of a tile: the inside of the innermost loops. */
#ifndef LS_KERNELS_HOST_TILE_TERM_H
#define LS_KERNELS_HOST_TILE_TERM_H

#include "kernels/host/tile.h"

/* One k: the words of b[k], and a float of every row: row i's is i % each rows of A from pointer
 * i / each. Every second one is multiplied straight from memory, which spares an instruction, and
 * costs a second load: there is room for so many. */
LS_ALWAYS_INLINE void ls_tile_term(const float *const *a, size_t row_step, int each, const float *b,
                                   ls_vec acc[][LS_TILE_VECTORS], int rows, int vectors)
{
    ls_vec word[LS_TILE_VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; v++) word[v] = ls_vec_load(b + v * LS_LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const float *x = a[i / each] + (size_t)(i % each) * row_step;
        if (i % 2 == 0) {
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_fma_from(x, word[v], acc[i][v]);
        } else {
            const ls_vec all = ls_vec_set(*x);
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) acc[i][v] = ls_vec_fma(all, word[v], acc[i][v]);
        }
    }
}

#endif
