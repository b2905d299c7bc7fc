/* SPDX-License-Identifier: MIT */
/* update.c -- host: the optimizers' update of the weights.
 *
 * Adam's divisions and square roots keep the unit that makes them busy for 88 cycles of a group of
 * 64 elements (AVX-512 on an Emerald Rapids), and all else that happens to a group takes the two
 * vector units about as long. So a word of weights is updated, then squared and summed the word a
 * group before it, whose quotients are there: neither kind of work waits for the other.
 *
 *     words of     group 0           group 1                    group 2
 *                  slots, quotients  slots, quotients of 1      slots, quotients of 2
 *                                    squares, digest of 0       squares, digest of 1
 *
 * It takes 98 cycles a group, 108 where the gradient is finished on the way (arena.h), which is
 * then not written: 0.84 to 0.86 of the time of two passes, with AVX2 too. The digest of the sums
 * that it came as takes 12 more.
 *
 * A NaN counts in a digest as one pattern of bits. No word is tested for it: a NaN among the new
 * weights, or in the gradient, makes the sum of its squares a NaN, and then the block's digest is
 * made anew.
 *
 * Asking for lines ahead does not help: beyond the second level cache the seven streams are as fast
 * as memory is (42 GB/s on a core of an Emerald Rapids).
 */
#include <math.h>
#include <string.h>

#include "kernels/host/finish_run.h"
#include "sizes.h"

/* -- the optimizers ---------------------------------------------------------------------------- */

/* The constants of an update, in every lane. */
typedef struct {
    ls_vec scale, minus_rate, momentum, beta1, beta2, rho, epsilon;
} constants;

/* Those of what few updates do: read where they are, so as not to take registers. */
typedef struct {
    float clip, most, minus_decay, gain;
} extras;

/* What the words of a block have in common; the arenas begin with the block. */
typedef struct {
    const ls_arena_tensor *tensor;
    const float *g;
    float *w, *slot0, *slot1, *average; /* NULL: there is none */
    bool finishes, regularises, clips, decays;
    bool compares;                      /* a digest of g is wanted */
    bool looks_ahead;                   /* momentum is Nesterov's */
    constants with;
    const extras *extra;
} block;

/* A word of weights: `lanes` elements of a block, from `at` on. */
typedef struct {
    size_t at, lanes;
} place;

/* The optimizers, by the formulas of arena.h: what becomes of weights w, decayed, by gradient g.
 * Slots are stored. */
typedef ls_vec optimize_fn(const block *b, place p, ls_vec g, ls_vec w);

LS_ALWAYS_INLINE ls_vec load_slot(const float *slot, place p)
{
    return ls_vec_load_lanes(slot + p.at, p.lanes);
}

/* Flushed. */
LS_ALWAYS_INLINE void store_slot(float *slot, place p, ls_vec x)
{
    const ls_mask vanishes = ls_vec_below(ls_vec_abs(x), ls_vec_set(ls_slot_least()));
    ls_vec_store_lanes(slot + p.at, ls_vec_drop(vanishes, x), p.lanes);
}

LS_ALWAYS_INLINE ls_vec sgd(const block *b, place p, ls_vec g, ls_vec w)
{
    (void)p;
    return ls_vec_fma(b->with.minus_rate, g, w);
}

LS_ALWAYS_INLINE ls_vec momentum(const block *b, place p, ls_vec g, ls_vec w)
{
    const ls_vec step = ls_vec_mul(b->with.minus_rate, g);
    const ls_vec u = ls_vec_fma(b->with.momentum, load_slot(b->slot0, p), step);
    store_slot(b->slot0, p, u);
    return ls_vec_add(w, b->looks_ahead ? ls_vec_fma(b->with.momentum, u, step) : u);
}

/* The mean of g squared, moved to g. */
LS_ALWAYS_INLINE ls_vec mean_square(ls_vec part, ls_vec g, ls_vec mean)
{
    return ls_vec_fma(part, ls_vec_fma(g, g, ls_vec_negate(mean)), mean);
}

LS_ALWAYS_INLINE ls_vec adam(const block *b, place p, ls_vec g, ls_vec w)
{
    const ls_vec mean = load_slot(b->slot0, p);
    const ls_vec m = ls_vec_fma(b->with.beta1, ls_vec_sub(g, mean), mean);
    const ls_vec v = mean_square(b->with.beta2, g, load_slot(b->slot1, p));
    store_slot(b->slot0, p, m);
    store_slot(b->slot1, p, v);
    const ls_vec root = ls_vec_add(ls_vec_sqrt(v), b->with.epsilon);
    return ls_vec_fma(b->with.minus_rate, ls_vec_div(m, root), w);
}

LS_ALWAYS_INLINE ls_vec rmsprop(const block *b, place p, ls_vec g, ls_vec w)
{
    const ls_vec v = mean_square(b->with.rho, g, load_slot(b->slot0, p));
    store_slot(b->slot0, p, v);
    const ls_vec root = ls_vec_sqrt(ls_vec_add(v, b->with.epsilon));
    return ls_vec_fma(b->with.minus_rate, ls_vec_div(g, root), w);
}

/* -- a word of weights ------------------------------------------------------------------------- */

/* What is to be squared of a word, in the first level cache: its gradient, if that is finished
 * here, and what was added to the weights. */
typedef struct {
    float gradient[LS_LANES], change[LS_LANES];
} row;

LS_ALWAYS_INLINE ls_vec clipped(const extras *extra, ls_vec g)
{
    const ls_vec most = ls_vec_set(extra->most), least = ls_vec_negate(most);
    const ls_vec x = ls_vec_mul(g, ls_vec_set(extra->clip));
    const ls_vec above = ls_vec_select(ls_vec_below(x, least), least, x);
    return ls_vec_select(ls_vec_below(most, x), most, above);
}

LS_ALWAYS_INLINE void move_average(const block *b, place p, ls_vec w)
{
    float *average = b->average + p.at;
    const ls_vec old = ls_vec_load_lanes(average, p.lanes);
    const ls_vec gain = ls_vec_set(b->extra->gain);
    ls_vec_store_lanes(average, ls_vec_fma(gain, ls_vec_sub(w, old), old), p.lanes);
}

/* `finishes`: finish the gradient first. A constant where a loop runs over words. */
LS_ALWAYS_INLINE void update_word(const block *b, place p, row *made, optimize_fn *optimize,
                                  bool finishes)
{
    const ls_vec old = ls_vec_load_lanes(b->w + p.at, p.lanes);
    ls_vec g = ls_vec_load_lanes(b->g + p.at, p.lanes), w = old;
    if (finishes) {
        g = ls_vec_mul(g, b->with.scale);
        if (b->regularises) g = ls_regularised(b->tensor, old, g);
        ls_vec_store(made->gradient, g);
    }
    if (b->clips) g = clipped(b->extra, g);
    if (b->decays) w = ls_vec_fma(ls_vec_set(b->extra->minus_decay), w, w);
    w = optimize(b, p, g, w);
    ls_vec_store_lanes(b->w + p.at, w, p.lanes);
    ls_vec_store(made->change, ls_vec_sub(w, old));
    if (b->average) move_average(b, p, w);
}

/* -- a block ----------------------------------------------------------------------------------- */

/* Words of a group, and words of doubles in each. */
enum { GROUP = LS_FLAT_LANES, ROWS = GROUP / LS_LANES, HALVES = LS_LANES / LS_DOUBLES };
enum { ROWS_AT_ONCE = LS_FMA_IS_QUICK ? ROWS : 1 };

/* What elements add to the digests, if none of them is a NaN. */
typedef struct {
    uint64_t weights, sums;
} digests;

/* The sums over the groups of a block, in registers where there are 32. */
typedef struct {
    ls_doubles change[ROWS][HALVES], gradient[ROWS][HALVES];
    ls_digest_rows weights, sums;
} totals;

/* Add row k of a group, whose first element is at `at` of the block. */
LS_ALWAYS_INLINE void add_row(totals *all, const block *b, size_t at, size_t k, const row *made,
                              bool finishes)
{
    for (size_t h = 0; h < HALVES; h++) {
        const float *change = made->change + h * LS_DOUBLES;
        const float *gradient = made->gradient + h * LS_DOUBLES;
        all->change[k][h] = ls_doubles_add_squares(all->change[k][h], change);
        if (finishes) all->gradient[k][h] = ls_doubles_add_squares(all->gradient[k][h], gradient);
    }
    ls_digest_add_number_row(&all->weights, b->w + at + k * LS_LANES);
}

LS_ALWAYS_INLINE void add_sums(totals *all, const block *b, size_t at)
{
    for (size_t k = 0; k < ROWS; k++)
        ls_digest_add_number_row(&all->sums, b->g + at + k * LS_LANES);
}

/* Elements [0, whole) of the block, which are numbers `first` on of the arena: whole groups. They
 * work with a copy of the block, which no store can change: what it says stays in registers. */
LS_ALWAYS_INLINE digests walk_groups(const block *of, size_t first, size_t whole,
                                     ls_arena_lanes *lane, optimize_fn *optimize, bool finishes)
{
    const block own = *of, *b = &own;
    const bool compares = finishes && b->compares;
    row made[2][ROWS];
    totals all = { .weights = { { 0 }, { 0 }, { 0 }, { 0 } } };
    memcpy(all.change, lane->square, sizeof all.change);
    memcpy(all.gradient, lane->other, sizeof all.gradient);
#pragma GCC unroll 1 /* once a block: not worth its code for each row */
    for (size_t k = 0; k < ROWS; k++)
        update_word(b, (place){ k * LS_LANES, LS_LANES }, &made[0][k], optimize, finishes);
    for (size_t i = GROUP; i < whole; i += GROUP) {
        row *now = made[i / GROUP % 2], *before = made[(i / GROUP + 1) % 2];
#pragma GCC unroll ROWS_AT_ONCE
        for (size_t k = 0; k < ROWS; k++) {
            update_word(b, (place){ i + k * LS_LANES, LS_LANES }, &now[k], optimize, finishes);
            add_row(&all, b, i - GROUP, k, &before[k], finishes);
        }
        if (compares) add_sums(&all, b, i - GROUP);
    }
    const row *last = made[(whole / GROUP + 1) % 2];
    for (size_t k = 0; k < ROWS; k++) add_row(&all, b, whole - GROUP, k, &last[k], finishes);
    if (compares) add_sums(&all, b, whole - GROUP);
    memcpy(lane->square, all.change, sizeof all.change);
    memcpy(lane->other, all.gradient, sizeof all.gradient);
    return (digests){ ls_digest_of_rows(&all.weights, first + whole),
                      ls_digest_of_rows(&all.sums, first + whole) };
}

/* Elements [at, count) of the block, less than a group. Compiled once, not for each optimizer. */
__attribute__((noinline, noclone)) static void walk_rest(const block *b, size_t at, size_t count,
                                                         ls_arena_lanes *lane,
                                                         optimize_fn *optimize)
{
    for (size_t i = at; i < count; i += LS_LANES) {
        const size_t lanes = ls_min_size(count - i, LS_LANES);
        row made;
        update_word(b, (place){ i, lanes }, &made, optimize, b->finishes);
        ls_add_square_of_each(lane->square + (i - at), made.change, lanes);
        if (b->finishes) ls_add_square_of_each(lane->other + (i - at), made.gradient, lanes);
    }
}

/* `count` elements, numbers `first` on of the arena. */
LS_ALWAYS_INLINE digests walk(const block *b, size_t first, size_t count, ls_arena_lanes *lane,
                              optimize_fn *optimize, bool finishes)
{
    const size_t whole = count / GROUP * GROUP;
    digests found = { 0 };
    if (whole > 0) found = walk_groups(b, first, whole, lane, optimize, finishes);
    if (whole == count) return found;
    walk_rest(b, whole, count, lane, optimize);
    found.weights += ls_digest_run(b->w + whole, first + whole, count - whole);
    if (b->compares) found.sums += ls_digest_run(b->g + whole, first + whole, count - whole);
    return found;
}

LS_ALWAYS_INLINE digests walk_by(ls_optimizer optimizer, const block *b, size_t first,
                                 size_t count, ls_arena_lanes *lane, bool finishes)
{
    switch (optimizer) {
    case LS_OPTIMIZER_SGD: return walk(b, first, count, lane, sgd, finishes);
    case LS_OPTIMIZER_MOMENTUM:
    case LS_OPTIMIZER_NESTEROV: return walk(b, first, count, lane, momentum, finishes);
    case LS_OPTIMIZER_RMSPROP: return walk(b, first, count, lane, rmsprop, finishes);
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: return walk(b, first, count, lane, adam, finishes);
    }
    return (digests){ 0 };
}

/* A call, so that `extra` is in memory. */
__attribute__((noinline)) static digests optimize_block(ls_optimizer optimizer, const block *b,
                                                        size_t first, size_t count,
                                                        ls_arena_lanes *lane)
{
    return b->finishes ? walk_by(optimizer, b, first, count, lane, true)
                       : walk_by(optimizer, b, first, count, lane, false);
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

static constants constants_of(const ls_update_args *args, const ls_tensor_step *step)
{
    return (constants){
        .scale = ls_vec_set(args->finish ? args->finish->scale : 1.0f),
        .minus_rate = ls_vec_set(-step->rate),
        .momentum = ls_vec_set(args->momentum),
        .beta1 = ls_vec_set(args->one_minus_beta1),
        .beta2 = ls_vec_set(args->one_minus_beta2),
        .rho = ls_vec_set(args->one_minus_rho),
        .epsilon = ls_vec_set(args->epsilon) };
}

static float *from_there(float *arena, size_t first) { return arena ? arena + first : NULL; }

/* The block that begins with element `first` of the arena. */
static block block_at(const ls_update_args *args, const ls_arena_tensor *tensor,
                      const ls_tensor_step *step, const extras *extra, size_t first)
{
    return (block){
        .tensor = tensor,
        .g = args->g + first,
        .w = args->w + first,
        .slot0 = from_there(args->slot0, first),
        .slot1 = from_there(args->slot1, first),
        .average = from_there(args->average, first),
        .finishes = args->finish != NULL,
        .regularises = args->finish && ls_is_regularised(tensor),
        .clips = step->clip != 1.0f || args->clip_value != 0.0f,
        .decays = step->decay != 0.0f,
        .compares = args->sums_digest != NULL,
        .looks_ahead = args->optimizer == LS_OPTIMIZER_NESTEROV,
        .with = constants_of(args, step),
        .extra = extra };
}

static void update_block(const void *args_, const ls_arena_tensor *tensor, size_t at, size_t count,
                         ls_arena_lanes *lane, ls_arena_part *found)
{
    const ls_update_args *args = args_;
    const size_t first = tensor->begin + at;
    const float *w = args->w + first, *g = args->g + first;
    const ls_tensor_step *step = &args->step_host[tensor - args->tensors->host];
    if (step->frozen) {
        if (args->finish) finish_frozen(args->finish, tensor, at, count, lane, found);
        found->digest += ls_digest_run(w, first, count);
        if (args->sums_digest) found->sums_digest += ls_digest_run(g, first, count);
        return;
    }
    const extras extra = { .clip = step->clip,
                           .most = args->clip_value != 0.0f ? args->clip_value : INFINITY,
                           .minus_decay = -step->decay,
                           .gain = args->one_minus_ema };
    const block b = block_at(args, tensor, step, &extra, first);
    const digests run = optimize_block(args->optimizer, &b, first, count, lane);
    if (args->finish) look_at_sums(g, at, count, lane, found);
    found->digest += has_nan(lane->square) ? ls_digest_run(w, first, count) : run.weights;
    found->sums_digest += has_nan(lane->other) ? ls_digest_run(g, first, count) : run.sums;
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
    if (args->sums_digest) *args->sums_digest += all->sums_digest;
}

ls_status LS_HOST(update)(ls_stream *stream, const ls_update_args *args)
{
    *args->digest = LS_DIGEST_START;
    if (args->sums_digest) *args->sums_digest = LS_DIGEST_START;
    LS_HOST(arena_pass)(stream, &(ls_arena_pass){
        .tensors = args->tensors, .args = args, .block = update_block, .store = update_store,
        .two_sums = args->finish != NULL });
    return LS_OK;
}
