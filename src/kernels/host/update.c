/* SPDX-License-Identifier: MIT */
/* update.c -- host: the optimizers' update of the weights.
 *
 * Adam's division and square root keep the unit that makes them busy for longer than all other work
 * of an update takes, the digest of the new weights and the squares of the changes included. So
 * those are done for 64 elements a step behind: nothing in them waits, and the unit is always fed.
 *
 *     elements      0 .. 63           64 .. 127          128 .. 191
 *                   slots, quotients  slots, quotients   slots, quotients
 *                                     sums of 0 .. 63    sums of 64 .. 127    sums of 128 .. 191
 *
 * A NaN counts in the digest as one pattern of bits. No word is tested for it: a NaN among the new
 * weights makes the sum of squares a NaN, and then the block's digest is made anew.
 *
 * Asking for lines ahead does not help: beyond the second level cache the seven streams are as fast
 * as memory is (42 GB/s on a core of an Emerald Rapids).
 */
#include <math.h>
#include <string.h>

#include "kernels/host/arena_blocks.h"
#include "kernels/host/digest.h"

enum { RUN = 512 };

/* -- the optimizers ---------------------------------------------------------------------------- */

/* A group of weights on which an optimizer works: `from`, the decayed ones, which may be w itself,
 * become w, which holds the old ones before; `change` gets the difference. With the gradient and
 * the optimizer's slots, NULL where it has none. */
typedef struct {
    const float *g, *from;
    float *w, *change, *slot0, *slot1;
} weights;

static inline void replace(const weights *x, size_t i, float next)
{
    x->change[i] = next - x->w[i];
    x->w[i] = next;
}

/* The optimizers, by the formulas of arena.h, for `count` elements. */
typedef void optimize_fn(const ls_update_args *args, float rate, weights x, size_t count);

LS_ALWAYS_INLINE void sgd(const ls_update_args *args, float rate, weights x, size_t count)
{
    (void)args;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) replace(&x, i, ls_fmaf(-rate, x.g[i], x.from[i]));
}

LS_ALWAYS_INLINE void move(const ls_update_args *args, float rate, weights x, size_t count,
                           bool looks_ahead)
{
    const float factor = args->momentum;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float step = -(rate * x.g[i]), u = ls_fmaf(factor, x.slot0[i], step);
        x.slot0[i] = ls_slot_flush(u);
        replace(&x, i, x.from[i] + (looks_ahead ? ls_fmaf(factor, u, step) : u));
    }
}

LS_ALWAYS_INLINE void momentum(const ls_update_args *args, float rate, weights x, size_t count)
{
    move(args, rate, x, count, false);
}

LS_ALWAYS_INLINE void nesterov(const ls_update_args *args, float rate, weights x, size_t count)
{
    move(args, rate, x, count, true);
}

LS_ALWAYS_INLINE void adam(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float epsilon = args->epsilon;
    const float beta1 = args->one_minus_beta1, beta2 = args->one_minus_beta2;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float g = x.g[i];
        const float m = ls_fmaf(beta1, g - x.slot0[i], x.slot0[i]);
        const float v = ls_fmaf(beta2, ls_fmaf(g, g, -x.slot1[i]), x.slot1[i]);
        x.slot0[i] = ls_slot_flush(m);
        x.slot1[i] = ls_slot_flush(v);
        replace(&x, i, ls_fmaf(-rate, m / (sqrtf(v) + epsilon), x.from[i]));
    }
}

LS_ALWAYS_INLINE void rmsprop(const ls_update_args *args, float rate, weights x, size_t count)
{
    const float epsilon = args->epsilon, rho = args->one_minus_rho;
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        const float g = x.g[i];
        const float v = ls_fmaf(rho, ls_fmaf(g, g, -x.slot0[i]), x.slot0[i]);
        x.slot0[i] = ls_slot_flush(v);
        replace(&x, i, ls_fmaf(-rate, g / sqrtf(v + epsilon), x.from[i]));
    }
}

/* -- a block ----------------------------------------------------------------------------------- */

/* Add up 64 elements. */
LS_ALWAYS_INLINE void add_up(ls_doubles *square, ls_digest_rows *rows, const float *w,
                             const float *change)
{
    for (size_t k = 0; k < LS_SQUARE_WORDS; k++)
        square[k] = ls_doubles_add_squares(square[k], change + k * LS_DOUBLES);
    for (size_t e = 0; e < LS_FLAT_LANES; e += LS_LANES) ls_digest_add_number_row(rows, w + e);
}

LS_ALWAYS_INLINE weights weights_from(weights x, size_t i, float *change)
{
    return (weights){ x.g + i, x.from + i, x.w + i, change,
                      x.slot0 != NULL ? x.slot0 + i : NULL, x.slot1 != NULL ? x.slot1 + i : NULL };
}

/* `count` elements, numbers `first` on of the arena. Returns what they add to the digest, if none
 * of them is a NaN. */
LS_ALWAYS_INLINE uint64_t walk(const ls_update_args *args, float rate, weights x, size_t first,
                               size_t count, double *restrict lane, optimize_fn *optimize)
{
    const size_t whole = count / LS_FLAT_LANES * LS_FLAT_LANES;
    float change[2][LS_FLAT_LANES];
    ls_doubles square[LS_SQUARE_WORDS];
    ls_digest_rows rows = { { 0 }, { 0 }, { 0 }, { 0 } };
    memcpy(square, lane, sizeof square);
    if (whole > 0) optimize(args, rate, weights_from(x, 0, change[0]), LS_FLAT_LANES);
    for (size_t i = LS_FLAT_LANES; i < whole; i += LS_FLAT_LANES) {
        const weights now = weights_from(x, i, change[i / LS_FLAT_LANES % 2]);
        optimize(args, rate, now, LS_FLAT_LANES);
        add_up(square, &rows, now.w - LS_FLAT_LANES, change[(i / LS_FLAT_LANES + 1) % 2]);
    }
    if (whole > 0)
        add_up(square, &rows, x.w + whole - LS_FLAT_LANES, change[(whole / LS_FLAT_LANES + 1) % 2]);
    memcpy(lane, square, sizeof square);
    uint64_t digest = ls_digest_of_rows(&rows, first + whole);
    if (whole == count) return digest;
    optimize(args, rate, weights_from(x, whole, change[0]), count - whole);
    ls_add_square_of_each(lane, change[0], count - whole);
    for (size_t i = whole; i < count; i++) digest += ls_digest_term(first + i, x.w[i]);
    return digest;
}

/* to[i] = g[i], clipped. */
static void clip_run(float factor, float most, const float *restrict g, float *restrict to,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = g[i] * factor;
    if (most == 0.0f) return;
    for (size_t i = 0; i < count; i++) {
        const float above = to[i] < -most ? -most : to[i];
        to[i] = to[i] > most ? most : above;
    }
}

static void decay_run(float decay, const float *restrict w, float *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = ls_fmaf(-decay, w[i], w[i]);
}

static void average_run(float gain, const float *restrict w, float *restrict average, size_t count)
{
    for (size_t i = 0; i < count; i++) average[i] = ls_fmaf(gain, w[i] - average[i], average[i]);
}

static uint64_t optimize_run(const ls_update_args *args, float rate, weights x, size_t first,
                             size_t count, double *lane)
{
    switch (args->optimizer) {
    case LS_OPTIMIZER_SGD: return walk(args, rate, x, first, count, lane, sgd);
    case LS_OPTIMIZER_MOMENTUM: return walk(args, rate, x, first, count, lane, momentum);
    case LS_OPTIMIZER_NESTEROV: return walk(args, rate, x, first, count, lane, nesterov);
    case LS_OPTIMIZER_RMSPROP: return walk(args, rate, x, first, count, lane, rmsprop);
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: return walk(args, rate, x, first, count, lane, adam);
    }
    return 0;
}

static bool has_nan(const double *lane)
{
    uint64_t found = 0;
    for (size_t l = 0; l < LS_FLAT_LANES; l++) found |= (uint64_t)(lane[l] != lane[l]);
    return found != 0;
}

/* Clipped gradients and decayed weights are made in runs, which stay in the first level cache. */
static void update_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                         ls_arena_lanes *lane, ls_arena_part *found)
{
    const ls_update_args *args = args_;
    const size_t first = tensor->begin + at;
    const ls_tensor_step *step = &args->step_host[tensor - args->tensors->host];
    const bool clips = step->clip != 1.0f || args->clip_value != 0.0f;
    const bool decays = step->decay != 0.0f;
    const size_t run = clips || decays ? RUN : count;
    float gradient[RUN], decayed[RUN], *w = args->w + first;
    uint64_t digest = 0;
    for (size_t i = 0; i < count && !step->frozen; i += run) {
        const size_t n = count - i < run ? count - i : run;
        const weights all = { .g = args->g + first, .from = w, .w = w,
                              .slot0 = args->slot0 ? args->slot0 + first : NULL,
                              .slot1 = args->slot1 ? args->slot1 + first : NULL };
        weights x = weights_from(all, i, NULL);
        if (clips) {
            clip_run(step->clip, args->clip_value, x.g, gradient, n);
            x.g = gradient;
        }
        if (decays) {
            decay_run(step->decay, x.w, decayed, n);
            x.from = decayed;
        }
        digest += optimize_run(args, step->rate, x, first + i, n, lane->square);
        if (args->average) average_run(args->one_minus_ema, x.w, args->average + first + i, n);
    }
    const bool made = !step->frozen && !has_nan(lane->square);
    found->digest += made ? digest : ls_digest_run(w, first, count);
}

static void update_store(const void *args_, int t, const ls_arena_part *all)
{
    const ls_update_args *args = args_;
    args->update_square_sum[t] = all->square_sum;
    *args->digest += all->digest;
}

ls_status LS_HOST(update)(ls_stream *stream, const ls_update_args *args)
{
    *args->digest = LS_DIGEST_START;
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = update_block, .store = update_store });
    return LS_OK;
}
