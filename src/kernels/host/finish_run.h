/* SPDX-License-Identifier: MIT */
/* finish_run.h -- host: a run of reduced sums becomes gradient: gradient_finish (arena.h), in a
 * pass of its own (arena.c) or, of a tensor that stays as it is, in the update's (update.c; what
 * that updates, it finishes word by word).
 *
 * A run stays in the first level cache: one loop tests it, the next computes it, the last squares
 * it into the 64 double lanes of the flat sum. Memory is read once, and asked for 2 KiB ahead.
 */
#ifndef LS_KERNELS_HOST_FINISH_RUN_H
#define LS_KERNELS_HOST_FINISH_RUN_H

#include <string.h>

#include "kernels/host/arena_blocks.h"
#include "kernels/host/digest.h"
#include "kernels/host/lanes.h"

enum { LS_FINISH_RUN = 512 }; /* elements */

/* lane += the squares of x: some words of lanes at a time, which stay in registers while the run
 * passes by. */
static inline void ls_add_squares(double *restrict lane, const float *restrict x, size_t count)
{
    enum { WORDS_AT_ONCE = 8 };
    const size_t whole = count / LS_FLAT_LANES * LS_FLAT_LANES;
    for (size_t l = 0; l < LS_FLAT_LANES; l += WORDS_AT_ONCE * LS_DOUBLES) {
        ls_doubles sum[WORDS_AT_ONCE];
        memcpy(sum, lane + l, sizeof sum);
        for (size_t i = l; i < whole; i += LS_FLAT_LANES) {
            for (size_t k = 0; k < WORDS_AT_ONCE; k++)
                sum[k] = ls_doubles_add_squares(sum[k], x + i + k * LS_DOUBLES);
        }
        memcpy(lane + l, sum, sizeof sum);
    }
    ls_add_square_of_each(lane, x + whole, count - whole);
}

static inline bool ls_is_regularised(const ls_arena_tensor *tensor)
{
    return tensor->l2_twice != 0.0f || tensor->l1 != 0.0f;
}

/* g and the gradient of the regulariser of weights w. */
LS_ALWAYS_INLINE ls_vec ls_regularised(const ls_arena_tensor *tensor, ls_vec w, ls_vec g)
{
    const ls_vec zero = ls_vec_zero(), one = ls_vec_set(1.0f);
    if (tensor->l2_twice != 0.0f) g = ls_vec_fma(ls_vec_set(tensor->l2_twice), w, g);
    if (tensor->l1 == 0.0f) return g;
    const ls_vec below = ls_vec_select(ls_vec_below(w, zero), ls_vec_negate(one), zero);
    const ls_vec sign = ls_vec_select(ls_vec_below(zero, w), one, below);
    return ls_vec_add(g, ls_vec_mul(ls_vec_set(tensor->l1), sign));
}

/* to = g * scale; `to` is g, or another place. */
LS_ALWAYS_INLINE void ls_scale_run(float scale, const float *g, float *to, size_t count)
{
    const ls_vec factor = ls_vec_set(scale);
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + LS_LANES <= count; i += LS_LANES) {
        if (to == g) {
            ls_fetch_target(g + i);
        } else {
            ls_fetch_source(g + i);
        }
        ls_vec_store(to + i, ls_vec_mul(ls_vec_load(g + i), factor));
    }
    for (; i < count; i++) to[i] = g[i] * scale;
}

static inline void ls_regularise_run(const ls_arena_tensor *tensor, const float *w, float *g,
                                     size_t count)
{
    for (size_t i = 0; i < count; i += LS_LANES) {
        const size_t lanes = ls_min_size(count - i, LS_LANES);
        const ls_vec x = ls_vec_load_lanes(g + i, lanes);
        ls_vec_store_lanes(g + i, ls_regularised(tensor, ls_vec_load_lanes(w + i, lanes), x),
                           lanes);
    }
}

/* Elements [at, at + count) of `tensor`, at most LS_FINISH_RUN: from g to `to`, which may be g.
 * Their squares are added to `lane`, their first that is not finite to `found`. */
LS_ALWAYS_INLINE void ls_finish_run(const ls_gradient_finish_args *args,
                                    const ls_arena_tensor *tensor, size_t at, size_t count,
                                    const float *g, float *to, double *lane, ls_arena_part *found)
{
    if (found->nonfinite == LS_ALL_FINITE && ls_has_nonfinite(g, count))
        found->nonfinite = at + ls_nonfinite_at(g);
    ls_scale_run(args->scale, g, to, count);
    if (ls_is_regularised(tensor))
        ls_regularise_run(tensor, args->w + tensor->begin + at, to, count);
    ls_add_squares(lane, to, count);
}

#endif
