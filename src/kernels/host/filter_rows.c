/* SPDX-License-Identifier: MIT */
/* filter_rows.c -- a weight gradient's sum over one slice where the image has few channels. See
 * filter_rows.h.
 *
 *        A, rows of the tile: floats e of filter row r          B: dy, filters beside each other
 *        place q     x[row p * stride + r][(q * stride) * C + e]     dy[p, q, f ...]
 *        place q+1   the same, stride * C further on                 dy[p, q+1, f ...]
 *
 * A run is one output row. Both operands are read where they lie, but for padding: then the rows of
 * the image that a slice's windows see are first copied to a band of scratch memory with the
 * padding around them, once for all filter rows; +0 there adds nothing to a chain.
 *
 * The tile of tile.c has its rows one step apart; this one's come in TRIPLES of neighbours, each
 * with a pointer of its own, so that it can be as high as several filter rows: 3 x 3 taps of 3
 * channels are 9 triples, 27 chains, and dy is read once for all of them. It is a word wide.
 *
 *                        | dy[p, q, f ...] |
 *      triple 0:  x, x+1, x+2 -> |   acc[0 .. 2]   |     filter row 0, floats 0 .. 2
 *      triple 1:  x, x+1, x+2 -> |   acc[3 .. 5]   |     filter row 0, floats 3 .. 5
 *        ...                     |      ...        |
 *      triple 8:  x, x+1, x+2 -> |   acc[24 .. 26] |     filter row 2, floats 6 .. 8
 *                                |      sum        |     dy itself, for the bias, where asked for
 */
#include "kernels/host/filter_rows.h"

#include <string.h>

#include "sizes.h"

enum { TRIPLE = 3, TILE_ROWS = TRIPLE * LS_TILE_TRIPLES };

/* Narrower filter rows make tiles of too few chains. */
enum { FILTER_ROW_MIN = 8, BAND_FLOATS_MAX = 1 << 18 };

/* Floats in a row of the band: what the windows of an output row see. */
static size_t band_row(const ls_conv_shape *s)
{
    return ((s->out_width - 1) * s->stride_width + s->kernel_width) * s->channels;
}

static bool has_padding(const ls_conv_shape *s)
{
    return s->pad_top > 0 || s->pad_left > 0
           || (s->out_height - 1) * s->stride_height + s->kernel_height > s->height
           || (s->out_width - 1) * s->stride_width + s->kernel_width > s->width;
}

/* Whole words, so that what follows the band in scratch memory begins one. */
size_t LS_HOST(filter_rows_floats)(const ls_conv_shape *s, size_t slice_rows)
{
    const size_t filter_row = s->kernel_width * s->channels;
    if (s->channels >= LS_LANES || filter_row < FILTER_ROW_MIN || s->filters % LS_LANES != 0
        || s->out_width == 0 || slice_rows > LS_TILE_RUNS_MAX) {
        return 0;
    }
    const size_t rows = slice_rows * (s->stride_height + s->kernel_height);
    const size_t floats = ls_ceil_div(rows * band_row(s), LS_LANES) * LS_LANES + LS_LANES;
    return floats <= BAND_FLOATS_MAX ? floats : 0;
}

/* -- the band ---------------------------------------------------------------------------------- */

/* Both write whole words: up to LS_LANES - 1 floats after the last one are anything. */
static void clear(float *to, size_t count)
{
    for (size_t i = 0; i < count; i += LS_LANES) ls_vec_store(to + i, ls_vec_zero());
}

static void copy(float *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + LS_LANES <= count; i += LS_LANES) ls_vec_store(to + i, ls_vec_load(from + i));
    if (i < count) ls_vec_store(to + i, ls_vec_load_part(from + i, count - i));
}

/* One row of the image, or of padding, with the padding on both sides. The floats after it are
 * the next row's, which follows. */
static void copy_row(const ls_conv_shape *s, const float *image, size_t h, float *to)
{
    const size_t row = band_row(s), before = ls_min_size(s->pad_left * s->channels, row);
    const size_t inside = ls_min_size(s->width * s->channels, row - before);
    if (h >= s->height) { /* above the image it is huge */
        clear(to, row);
        return;
    }
    clear(to, before);
    copy(to + before, image + h * s->width * s->channels, inside);
    clear(to + before + inside, row - before - inside);
}

/* A run for each output row; `a` from the band or from x. */
static void list_runs(const ls_filter_rows *job, bool in_band, ls_tile_run *run)
{
    const ls_conv_shape *s = job->shape;
    const size_t image_row = s->width * s->channels, row = band_row(s);
    size_t n = job->first / s->out_height, p = job->first % s->out_height, rows = 0, next = 0;
    for (size_t i = 0; i < job->count; i++) {
        size_t a = (n * s->height + p * s->stride_height) * image_row;
        if (in_band) { /* the rows that the previous output row did not bring */
            const size_t top = p * s->stride_height;
            if (i == 0 || p == 0 || next < top) next = top;
            for (; next < top + s->kernel_height; next++) {
                copy_row(s, job->x + n * s->height * image_row, next - s->pad_top,
                         job->band + rows++ * row);
            }
            a = (rows - s->kernel_height) * row;
        }
        run[i] = (ls_tile_run){a, i * s->out_width * job->dy_step, s->out_width, LS_RUN_ALL};
        if (++p < s->out_height) continue;
        p = 0;
        n++;
    }
}

/* -- the tile ---------------------------------------------------------------------------------- */

typedef struct {
    const ls_tile_run *run;           /* [runs] */
    size_t runs;
    size_t triples;                   /* 1 .. LS_TILE_TRIPLES */
    const float *a[LS_TILE_TRIPLES];  /* of each triple's first row; runs count from here */
    size_t a_step;                    /* to the next place's */
    const float *b;
    size_t b_step;
    float *to;                        /* [3 triples][LS_LANES] the chains */
    float *sum;                       /* [LS_LANES] the chain of dy, or NULL */
} tile;

LS_ALWAYS_INLINE void multiply(const tile *t, size_t triples, bool sums)
{
    ls_vec acc[TILE_ROWS], sum = ls_vec_zero();
#pragma GCC unroll 32
    for (size_t i = 0; i < TRIPLE * triples; i++) acc[i] = ls_vec_zero();
    for (size_t r = 0; r < t->runs; r++) {
        const ls_tile_run *run = &t->run[r];
        const float *a[LS_TILE_TRIPLES], *b = t->b + run->b;
        const size_t a_step = t->a_step, b_step = t->b_step;
#pragma GCC unroll 32
        for (size_t g = 0; g < triples; g++) a[g] = t->a[g] + run->a;
        for (size_t k = run->depth; k > 0; k--) {
            const ls_vec word = ls_vec_load(b);
            if (sums) sum = ls_vec_add(sum, word);
#pragma GCC unroll 32
            for (size_t i = 0; i < TRIPLE * triples; i++) {
                acc[i] = ls_vec_fma(ls_vec_set(a[i / TRIPLE][i % TRIPLE]), word, acc[i]);
            }
#pragma GCC unroll 32
            for (size_t g = 0; g < triples; g++) a[g] += a_step;
            b += b_step;
        }
    }
#pragma GCC unroll 32
    for (size_t i = 0; i < TRIPLE * triples; i++) ls_vec_store(t->to + i * LS_LANES, acc[i]);
    if (sums) ls_vec_store(t->sum, ls_vec_add(sum, ls_vec_zero()));
}

typedef void tile_fn(const tile *t);

#define DEFINE_TILE(triples)                                                                      \
    static __attribute__((aligned(64))) void multiply_##triples(const tile *t)                    \
    {                                                                                             \
        if (t->sum == NULL) multiply(t, triples, false);                                          \
        else multiply(t, triples, true);                                                          \
    }
LS_TILE_TRIPLE_COUNTS(DEFINE_TILE)

#define NAME_TILE(triples) multiply_##triples,
static tile_fn *const multiply_of[] = {LS_TILE_TRIPLE_COUNTS(NAME_TILE)};

/* -- tiles of a slice -------------------------------------------------------------------------- */

/* What follows the last term: row `row` of the result, filters [f, f + LS_LANES). */
static void finish_row(const ls_filter_rows *job, size_t row, size_t f, const float *chain)
{
    ls_vec x = ls_vec_add(ls_vec_load(chain), ls_vec_zero());
    for (int m = 0; m < job->add_count; m++) {
        x = ls_vec_add(ls_vec_load(job->add[m].p + row * job->add[m].step + f), x);
    }
    ls_vec_store(job->to + row * job->to_step + f, x);
}

/* Triples [first, first + t.triples) of all filter rows', for the filters from f on. A filter row's
 * last triple ends with it: some of its rows may be those of the one before, and not count. */
static void run_tile(const ls_filter_rows *job, tile t, const float *x, size_t row_floats,
                     size_t first, size_t f)
{
    const size_t floats = job->shape->kernel_width * job->shape->channels;
    const size_t in_row = ls_ceil_div(floats, TRIPLE);
    float chain[TILE_ROWS * LS_LANES] __attribute__((aligned(64)));
    size_t row[LS_TILE_TRIPLES], skip[LS_TILE_TRIPLES];
    for (size_t g = 0; g < t.triples; g++) {
        const size_t r = (first + g) / in_row, wanted = (first + g) % in_row * TRIPLE;
        const size_t e = ls_min_size(wanted, floats - TRIPLE);
        t.a[g] = x + r * row_floats + e;
        row[g] = r * floats + e;
        skip[g] = wanted - e;
    }
    t.to = chain;
    multiply_of[t.triples - 1](&t);
    for (size_t g = 0; g < t.triples; g++) {
        for (size_t i = skip[g]; i < TRIPLE; i++) {
            finish_row(job, row[g] + i, f, chain + (g * TRIPLE + i) * LS_LANES);
        }
    }
}

void LS_HOST(filter_rows_run)(const ls_filter_rows *job)
{
    const ls_conv_shape *s = job->shape;
    const bool in_band = has_padding(s) || job->count == 0; /* without samples x may be NULL */
    const size_t row_floats = in_band ? band_row(s) : s->width * s->channels;
    const float *x = (in_band ? job->band : job->x) + job->first_filter_row * row_floats;
    const size_t triples =
        job->filter_rows * ls_ceil_div(s->kernel_width * s->channels, TRIPLE);
    const size_t tiles = ls_ceil_div(triples, LS_TILE_TRIPLES);
    ls_tile_run run[LS_TILE_RUNS_MAX];
    list_runs(job, in_band, run);
    tile t = {
        .run = run,
        .runs = job->count,
        .a_step = s->stride_width * s->channels,
        .b_step = job->dy_step,
    };
    for (size_t f = 0; f < job->filters; f += LS_LANES) {
        t.b = job->dy + f;
        for (size_t i = 0, first = 0; i < tiles; i++, first += t.triples) {
            t.triples = (i + 1) * triples / tiles - first;
            t.sum = i == 0 && job->sum != NULL ? job->sum + f : NULL;
            run_tile(job, t, x, row_floats, first, f);
        }
    }
}
