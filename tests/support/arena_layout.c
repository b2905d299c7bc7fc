/* SPDX-License-Identifier: MIT */
/* arena_layout.c -- see arena_layout.h. */
#include "support/arena_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t counts[TENSORS] = { 1,    3,    32,   63,   64,    65,    0,     1023,
                                        1025, 4095, 4096, 4097, 16384, 16385, 36900, 10 };

void layout_init(layout *l, bool regularised)
{
    l->floats = 0;
    for (int t = TENSORS - 1; t >= 0; t--) {
        l->tensor[t] = (ls_arena_tensor){ .begin = l->floats, .count = counts[t] };
        if (regularised && t % 3 != 0) l->tensor[t].l2_twice = 0.02f;
        if (regularised && t % 3 != 1) l->tensor[t].l1 = 0.005f;
        l->floats += (counts[t] + 31) / 32 * 32;
    }
    l->table = (ls_arena_table){ TENSORS, l->tensor, l->tensor };
}

float *arena_values(const layout *l, naive_random *random, int mix)
{
    float *x = naive_values(random, l->floats, mix);
    for (int t = 0; t < TENSORS; t++) {
        const size_t end = l->tensor[t].begin + l->tensor[t].count;
        for (size_t i = end; i % 32 != 0; i++) x[i] = 0.0f;
    }
    return x;
}

float *copy_of(const float *x, size_t count)
{
    float *y = malloc(count * sizeof *y);
    memcpy(y, x, count * sizeof *y);
    return y;
}

bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}
