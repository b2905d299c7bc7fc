/* SPDX-License-Identifier: MIT */
/* arena_layout.h -- the arena that the tests of its ops work on. */
#ifndef TEST_SUPPORT_ARENA_LAYOUT_H
#define TEST_SUPPORT_ARENA_LAYOUT_H

#include "kernels/kernels.h"
#include "support/naive.h"

/* Tensors of every awkward length; in the arena their order is reversed, as a model's is. */
enum { TENSORS = 16 };

typedef struct {
    ls_arena_tensor tensor[TENSORS];
    ls_arena_table table;
    size_t floats;
} layout;

/* `regularised`: L2 acts on two tensors of three, L1 on two. `l` is not to be moved. */
void layout_init(layout *l, bool regularised);

/* An arena of values; padding is zero. The caller frees it. */
float *arena_values(const layout *l, naive_random *random, int mix);

/* The caller frees it. */
float *copy_of(const float *x, size_t count);

/* The same bits, or both a NaN. */
bool same_double(double a, double b);

#endif
