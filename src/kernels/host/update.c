/* SPDX-License-Identifier: MIT */
/* update.c -- host: the optimizers' update of the weights.
 *
 * Adam's division and square root keep the unit that makes them busy for longer than all other work
 * of an update takes, the digest of the new weights and the squares of the changes included. So
 * those are done for 64 elements a step behind: nothing in them waits, and the unit is always fed.
 * Where the gradient is finished on the way (arena.h), it is so in the first level cache, and is
 * not written: 0.82 to 0.93 of the time of two passes on an Emerald Rapids, with AVX2 too.
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

#include "kernels/host/finish_run.h"
#include "sizes.h"

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

/* -- a group of elements ----------------------------------------------------------------------- */

/* What the groups of a block have in common; `all` begins with the block. */
typedef struct {
    const ls_update_args *args;
    const ls_arena_tensor *tensor;
    const ls_tensor_step *step;
    weights all;
} block;

/* What becomes of a group on its way, in the first level cache: its gradient, finished; that
 * clipped; the old weights decayed; what was added to the weights. */
typedef struct {
    float gradient[LS_FLAT_LANES], clipped[LS_FLAT_LANES];
    float decayed[LS_FLAT_LANES], change[LS_FLAT_LANES];
} group;

LS_ALWAYS_INLINE void finish_group(const block *b, const weights *x, float *to, size_t count)
{
    const float scale = b->args->finish->scale;
    for (size_t i = 0; i < count; i++) to[i] = x->g[i] * scale;
    ls_regularise_run(b->tensor, x->w, to, count);
}

LS_ALWAYS_INLINE void clip_group(float factor, float most, const float *restrict g,
                                 float *restrict to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = g[i] * factor;
    if (most == 0.0f) return;
    for (size_t i = 0; i < count; i++) {
        const float above = to[i] < -most ? -most : to[i];
        to[i] = to[i] > most ? most : above;
    }
}

LS_ALWAYS_INLINE void decay_group(float decay, const float *restrict w, float *restrict to,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = ls_fmaf(-decay, w[i], w[i]);
}

/* Elements [at, at + count) of the block. */
LS_ALWAYS_INLINE void update_group(const block *b, size_t at, size_t count, group *made,
                                   optimize_fn *optimize)
{
    const float clip = b->step->clip, most = b->args->clip_value, decay = b->step->decay;
    weights x = b->all;
    x.g += at;
    x.w += at;
    x.from = x.w;
    x.change = made->change;
    if (x.slot0) x.slot0 += at;
    if (x.slot1) x.slot1 += at;
    if (b->args->finish) {
        finish_group(b, &x, made->gradient, count);
        x.g = made->gradient;
    }
    if (clip != 1.0f || most != 0.0f) {
        clip_group(clip, most, x.g, made->clipped, count);
        x.g = made->clipped;
    }
    if (decay != 0.0f) {
        decay_group(decay, x.w, made->decayed, count);
        x.from = made->decayed;
    }
    optimize(b->args, b->step->rate, x, count);
}

/* The same of less than a whole group, compiled once and not for each optimizer: a quarter of the
 * code. */
__attribute__((noinline, noclone)) static void update_rest(const block *b, size_t at, size_t count,
                                                           group *made, optimize_fn *optimize)
{
    update_group(b, at, count, made, optimize);
}

/* -- a block ----------------------------------------------------------------------------------- */

/* The sums over the groups of a block, in registers where there are 32. */
typedef struct {
    ls_doubles change[LS_SQUARE_WORDS], gradient[LS_SQUARE_WORDS];
    ls_digest_rows digest;
} sums;

/* A whole group, which is at `w`. */
LS_ALWAYS_INLINE void add_up(sums *all, const float *w, const group *made, bool finished)
{
    for (size_t k = 0; k < LS_SQUARE_WORDS; k++)
        all->change[k] = ls_doubles_add_squares(all->change[k], made->change + k * LS_DOUBLES);
    for (size_t k = 0; k < LS_SQUARE_WORDS && finished; k++)
        all->gradient[k] =
            ls_doubles_add_squares(all->gradient[k], made->gradient + k * LS_DOUBLES);
    for (size_t e = 0; e < LS_FLAT_LANES; e += LS_LANES)
        ls_digest_add_number_row(&all->digest, w + e);
}

/* `count` elements, numbers `first` on of the arena. Returns what they add to the digest, if none
 * of them is a NaN. */
LS_ALWAYS_INLINE uint64_t walk(const block *b, size_t first, size_t count, ls_arena_lanes *lane,
                               optimize_fn *optimize)
{
    enum { GROUP = LS_FLAT_LANES };
    const size_t whole = count / GROUP * GROUP;
    const bool finished = b->args->finish != NULL;
    const float *w = b->all.w;
    group made[2];
    sums all = { .digest = { { 0 }, { 0 }, { 0 }, { 0 } } };
    memcpy(all.change, lane->square, sizeof all.change);
    memcpy(all.gradient, lane->other, sizeof all.gradient);
    if (whole > 0) update_group(b, 0, GROUP, &made[0], optimize);
    for (size_t i = GROUP; i < whole; i += GROUP) {
        update_group(b, i, GROUP, &made[i / GROUP % 2], optimize);
        add_up(&all, w + i - GROUP, &made[(i / GROUP + 1) % 2], finished);
    }
    if (whole > 0) add_up(&all, w + whole - GROUP, &made[(whole / GROUP + 1) % 2], finished);
    memcpy(lane->square, all.change, sizeof all.change);
    memcpy(lane->other, all.gradient, sizeof all.gradient);
    uint64_t digest = ls_digest_of_rows(&all.digest, first + whole);
    if (whole == count) return digest;
    update_rest(b, whole, count - whole, &made[0], optimize);
    ls_add_square_of_each(lane->square, made[0].change, count - whole);
    if (finished) ls_add_square_of_each(lane->other, made[0].gradient, count - whole);
    for (size_t i = whole; i < count; i++) digest += ls_digest_term(first + i, w[i]);
    return digest;
}

static uint64_t optimize_block(const block *b, size_t first, size_t count, ls_arena_lanes *lane)
{
    switch (b->args->optimizer) {
    case LS_OPTIMIZER_SGD: return walk(b, first, count, lane, sgd);
    case LS_OPTIMIZER_MOMENTUM: return walk(b, first, count, lane, momentum);
    case LS_OPTIMIZER_NESTEROV: return walk(b, first, count, lane, nesterov);
    case LS_OPTIMIZER_RMSPROP: return walk(b, first, count, lane, rmsprop);
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: return walk(b, first, count, lane, adam);
    }
    return 0;
}

static void average_block(float gain, const float *restrict w, float *restrict average,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) average[i] = ls_fmaf(gain, w[i] - average[i], average[i]);
}

static bool has_nan(const double *lane)
{
    uint64_t found = 0;
    for (size_t l = 0; l < LS_FLAT_LANES; l++) found |= (uint64_t)(lane[l] != lane[l]);
    return found != 0;
}

/* Of a tensor that stays as it is: only its gradient is finished, to be measured. */
static void finish_frozen(const ls_gradient_finish_args *finish, const ls_arena_tensor *tensor,
                          size_t at, size_t count, ls_arena_lanes *lane, ls_arena_part *found)
{
    float gradient[LS_FINISH_RUN];
    const float *g = finish->g + tensor->begin + at;
    for (size_t i = 0; i < count; i += LS_FINISH_RUN) {
        const size_t n = ls_min_size(count - i, LS_FINISH_RUN);
        ls_finish_run(finish, tensor, at + i, n, g + i, gradient, lane->other, found);
    }
}

/* A sum that is not finite tells of a gradient that is not, as it came or as it was finished. */
static void look_at_sums(const float *g, size_t at, size_t count, const ls_arena_lanes *lane,
                         ls_arena_part *found)
{
    double sum = 0;
    for (size_t l = 0; l < LS_FLAT_LANES; l++) sum += 0.0 * lane->other[l];
    if (found->nonfinite != LS_ALL_FINITE || sum == 0 || !ls_has_nonfinite(g, count)) return;
    found->nonfinite = at + ls_nonfinite_at(g);
}

static void update_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                         ls_arena_lanes *lane, ls_arena_part *found)
{
    const ls_update_args *args = args_;
    const size_t first = tensor->begin + at;
    float *w = args->w + first;
    const block b = { .args = args, .tensor = tensor,
                      .step = &args->step_host[tensor - args->tensors->host],
                      .all = { .g = args->g + first, .w = w,
                               .slot0 = args->slot0 ? args->slot0 + first : NULL,
                               .slot1 = args->slot1 ? args->slot1 + first : NULL } };
    if (b.step->frozen) {
        if (args->finish) finish_frozen(args->finish, tensor, at, count, lane, found);
        found->digest += ls_digest_run(w, first, count);
        return;
    }
    const uint64_t digest = optimize_block(&b, first, count, lane);
    if (args->average) average_block(args->one_minus_ema, w, args->average + first, count);
    if (args->finish) look_at_sums(args->g + first, at, count, lane, found);
    found->digest += has_nan(lane->square) ? ls_digest_run(w, first, count) : digest;
}

static void update_store(const void *args_, int t, const ls_arena_part *all)
{
    const ls_update_args *args = args_;
    args->update_square_sum[t] = all->square_sum;
    if (args->finish) {
        args->finish->square_sum[t] = all->other_sum;
        args->finish->nonfinite[t] = all->nonfinite;
    }
    *args->digest += all->digest;
}

ls_status LS_HOST(update)(ls_stream *stream, const ls_update_args *args)
{
    *args->digest = LS_DIGEST_START;
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = update_block, .store = update_store,
        .two_sums = args->finish != NULL });
    return LS_OK;
}
