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
 * channels are 9 triples, 27 chains, and dy is read once for all of them. It is a word wide. Where
 * three triples are neighbours throughout, as they are here, they share a pointer: to move one is
 * an instruction, and the multiply-add itself is one. (Measured, AVX-512, 9 triples: 0.89 of the
 * time, 0.6 where another thread shares the core.)
 *
 *                        | dy[p, q, f ...] |
 *      triple 0:  x, x+1, x+2 -> |   acc[0 .. 2]   |     filter row 0, floats 0 .. 2
 *      triple 1:  x, x+1, x+2 -> |   acc[3 .. 5]   |     filter row 0, floats 3 .. 5
 *        ...                     |      ...        |
 *      triple 8:  x, x+1, x+2 -> |   acc[24 .. 26] |     filter row 2, floats 6 .. 8
 *                                |      sum        |     dy itself, for the bias, where asked for
 */
#include "kernels/host/filter_rows.h"

#include "kernels/host/image_rows.h"
#include "kernels/host/lanes.h"
#include "kernels/host/pool.h"

enum { TRIPLE = 3, TILE_ROWS = TRIPLE * LS_TILE_TRIPLES };

/* Narrower filter rows make tiles of too few chains. */
enum { FILTER_ROW_MIN = 8, SCRATCH_FLOATS_MAX = 1 << 18 };

/* Triples of a filter row, the last of which may be short. */
static size_t row_triples(const ls_conv_shape *s)
{
    return ls_ceil_div(s->kernel_width * s->channels, TRIPLE);
}

/* The chains of all tiles of a word. */
static size_t chain_floats(const ls_conv_shape *s)
{
    return s->kernel_height * row_triples(s) * TRIPLE * LS_LANES;
}

/* Whole words, so that what follows in scratch memory begins one. */
size_t LS_HOST(filter_rows_floats)(const ls_conv_shape *s, size_t slice_rows)
{
    const size_t filter_row = s->kernel_width * s->channels;
    if (s->channels >= LS_LANES || filter_row < FILTER_ROW_MIN || s->filters % LS_LANES != 0
        || s->out_width == 0 || slice_rows > LS_FILTER_RUNS_MAX) {
        return 0;
    }
    const size_t rows = slice_rows * (s->stride_height + s->kernel_height);
    const size_t band = ls_ceil_div(rows * ls_padded_row(s), LS_LANES) * LS_LANES + LS_LANES;
    const size_t floats = chain_floats(s) + band;
    return floats <= SCRATCH_FLOATS_MAX ? floats : 0;
}

/* -- the band ---------------------------------------------------------------------------------- */

/* Where each output row's windows begin, counted from job->a; the band, if there is one. */
static void list_runs(ls_filter_rows *job, bool in_band, float *band)
{
    const ls_conv_shape *s = job->shape;
    const size_t image_row = s->width * s->channels;
    size_t n = job->first / s->out_height, p = job->first % s->out_height, rows = 0, next = 0;
    for (size_t i = 0; i < job->count; i++) {
        job->run[i] = (n * s->height + p * s->stride_height) * image_row;
        if (in_band) { /* the rows that the previous output row did not bring */
            const size_t top = p * s->stride_height;
            if (i == 0 || p == 0 || next < top) next = top;
            for (; next < top + s->kernel_height; next++) {
                ls_copy_padded_row(s, job->x + n * s->height * image_row, next - s->pad_top,
                         band + rows++ * job->row_floats);
            }
            job->run[i] = (rows - s->kernel_height) * job->row_floats;
        }
        if (++p < s->out_height) continue;
        p = 0;
        n++;
    }
}

void LS_HOST(filter_rows_begin)(ls_filter_rows *job)
{
    const ls_conv_shape *s = job->shape;
    const bool in_band = ls_has_padding(s) || job->count == 0; /* without samples x may be NULL */
    float *band = job->scratch + chain_floats(s);
    job->row_floats = in_band ? ls_padded_row(s) : s->width * s->channels;
    job->a = (in_band ? band : job->x) + job->first_filter_row * job->row_floats;
    list_runs(job, in_band, band);
}

/* -- the tile ---------------------------------------------------------------------------------- */

/* Places by which dy is fetched ahead; not where it is summed too: it was just made then
 * (pooled_gradient.c) and lies in the cache. (Measured: 1.2 times the speed where two words of
 * filters go through 7 MB, nothing where one word goes through 4 MB.) */
enum { AHEAD = 32 };

/* Triples that share a pointer where they are neighbours. */
enum { NEIGHBOURS = 3 };

typedef struct {
    const size_t *run;                /* [runs] floats from `a` */
    size_t runs, depth;               /* places of each run */
    size_t triples;                   /* 1 .. LS_TILE_TRIPLES */
    const float *a[LS_TILE_TRIPLES];  /* of each triple's first row */
    size_t a_step;                    /* to the next place's */
    const float *b;
    size_t b_step;
    bool continues;                   /* false: chains begin, at +0 */
    float *chain;                     /* [3 triples][LS_LANES] */
    float *sum;                       /* [LS_LANES] the chain of dy, or NULL */
    const ls_max_pool_gradient_args *pool; /* what dy is made of, or NULL: it is at b */
    size_t first, filter;             /* output row of the first run, filter of the first lane */
} tile;

LS_ALWAYS_INLINE void multiply(const tile *t, size_t triples, size_t each, bool sums)
{
    const size_t rows = TRIPLE * triples, a_step = t->a_step, b_step = t->b_step;
    const size_t ahead = AHEAD * sizeof(float) * b_step;
    ls_vec acc[TILE_ROWS], sum = ls_vec_zero();
#pragma GCC unroll 32
    for (size_t i = 0; i < rows; i++) acc[i] = ls_vec_zero();
    if (t->continues) {
#pragma GCC unroll 32
        for (size_t i = 0; i < rows; i++) acc[i] = ls_vec_load(t->chain + i * LS_LANES);
        if (sums) sum = ls_vec_load(t->sum);
    }
    const float *b = t->b;
    for (size_t r = 0; r < t->runs; r++) {
        const float *a[LS_TILE_TRIPLES];
#pragma GCC unroll 32
        for (size_t g = 0; g < triples; g += each) a[g / each] = t->a[g] + t->run[r];
        for (size_t k = t->depth; k > 0; k--) {
            const ls_vec word = ls_vec_load(b);
            if (sums) sum = ls_vec_add(sum, word);
            else __builtin_prefetch((const void *)((uintptr_t)b + ahead));
#pragma GCC unroll 32
            for (size_t i = 0; i < rows; i++) {
                const float *x = a[i / (each * TRIPLE)] + i % (each * TRIPLE);
                acc[i] = ls_vec_fma(ls_vec_set(*x), word, acc[i]);
            }
#pragma GCC unroll 32
            for (size_t g = 0; g < triples; g += each) a[g / each] += a_step;
            b += b_step;
        }
    }
#pragma GCC unroll 32
    for (size_t i = 0; i < rows; i++) ls_vec_store(t->chain + i * LS_LANES, acc[i]);
    if (sums) ls_vec_store(t->sum, ls_vec_add(sum, ls_vec_zero())); /* once or often: the same */
}

/* One place of one row of windows: its floats are taken from memory by name, as the compiler would
 * keep those that two places share, for which there are no registers. */
LS_ALWAYS_INLINE void multiply_place(ls_vec word, const float **a, ls_vec *acc)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < TILE_ROWS; i++) {
        const float *x = a[i / (NEIGHBOURS * TRIPLE)] + i % (NEIGHBOURS * TRIPLE);
        acc[i] = ls_vec_fma_from(x, word, acc[i]);
    }
#pragma GCC unroll 32
    for (size_t g = 0; g < LS_TILE_TRIPLES; g += NEIGHBOURS) a[g / NEIGHBOURS] += TRIPLE;
}

/* Run `r`: a row of dy, which is half of a row of windows. Returns `sum` and what it adds. */
LS_ALWAYS_INLINE ls_vec multiply_half(const tile *t, size_t r, bool sums, ls_vec sum, ls_vec *acc)
{
    const ls_max_pool_gradient_args *pool = t->pool;
    const size_t channels = pool->shape.channels, windows = pool->shape.out_width;
    const size_t row = t->first + r, from = row / 2 * windows * channels + t->filter;
    const ls_bytes left = ls_bytes_set(row % 2 == 0 ? 0 : 2);
    const ls_bytes right = ls_bytes_set(row % 2 == 0 ? 1 : 3);
    const float *dy = pool->dy + from, *y = pool->relu_y + from;
    const uint8_t *place = pool->place + from;
    const float *a[LS_TILE_TRIPLES];
#pragma GCC unroll 32
    for (size_t g = 0; g < LS_TILE_TRIPLES; g += NEIGHBOURS)
        a[g / NEIGHBOURS] = t->a[g] + t->run[r];
    for (size_t w = windows; w > 0; w--, dy += channels, y += channels, place += channels) {
        ls_fetch_source(dy);
        ls_fetch_source(y);
        ls_fetch_source(place);
        const ls_bytes chosen = ls_bytes_load(place);
        const ls_vec zero = ls_vec_zero();
        const ls_vec gradient = ls_vec_select(ls_vec_below(zero, ls_vec_load(y)), ls_vec_load(dy),
                                              zero);
        ls_vec word = ls_vec_select(ls_bytes_equal(chosen, left), gradient, zero);
        if (sums) sum = ls_vec_add(sum, word);
        multiply_place(word, a, acc);
        word = ls_vec_select(ls_bytes_equal(chosen, right), gradient, ls_vec_zero());
        if (sums) sum = ls_vec_add(sum, word);
        multiply_place(word, a, acc);
    }
    return sum;
}

/* The whole filter at once, dy under a max pooling: a window's gradient, 0 where its relu had none,
 * goes to the place that was chosen. That it may be -0 there shows nowhere: chains end with + 0.0f.
 */
LS_ALWAYS_INLINE void multiply_windows(const tile *t, bool sums)
{
    ls_vec acc[TILE_ROWS], sum = ls_vec_zero();
#pragma GCC unroll 32
    for (size_t i = 0; i < TILE_ROWS; i++) acc[i] = ls_vec_zero();
    for (size_t r = 0; r < t->runs; r++) sum = multiply_half(t, r, sums, sum, acc);
#pragma GCC unroll 32
    for (size_t i = 0; i < TILE_ROWS; i++) ls_vec_store(t->chain + i * LS_LANES, acc[i]);
    if (sums) ls_vec_store(t->sum, ls_vec_add(sum, ls_vec_zero()));
}

static __attribute__((aligned(64))) void multiply_by_windows(const tile *t)
{
    if (t->sum == NULL) multiply_windows(t, false);
    else multiply_windows(t, true);
}

typedef void tile_fn(const tile *t);

/* Are a tile's triples, three by three, neighbours? */
static bool has_neighbours(const tile *t)
{
    for (size_t g = 1; g < t->triples; g++) {
        if (g % NEIGHBOURS != 0 && t->a[g] != t->a[g - 1] + TRIPLE) return false;
    }
    return true;
}

/* Each begins a line of the cache (tile.c). */
#define DEFINE_TILE(triples)                                                                      \
    static __attribute__((aligned(64))) void multiply_##triples(const tile *t)                    \
    {                                                                                             \
        const bool is_wide = has_neighbours(t);                                                   \
        if (t->sum == NULL && is_wide) multiply(t, triples, NEIGHBOURS, false);                   \
        else if (t->sum == NULL) multiply(t, triples, 1, false);                                  \
        else if (is_wide) multiply(t, triples, NEIGHBOURS, true);                                 \
        else multiply(t, triples, 1, true);                                                       \
    }
LS_TILE_TRIPLE_COUNTS(DEFINE_TILE)

#define NAME_TILE(triples) multiply_##triples,
static tile_fn *const multiply_of[] = {LS_TILE_TRIPLE_COUNTS(NAME_TILE)};

/* -- tiles of a part --------------------------------------------------------------------------- */

/* A triple among all filter rows'. The last one of a filter row ends with it: some of its rows may
 * be those of the one before, and do not count. */
typedef struct {
    size_t filter_row, first, skip; /* rows first + skip .. first + 2 of the filter row count */
} triple;

static triple triple_at(const ls_conv_shape *s, size_t number)
{
    const size_t in_row = row_triples(s), last = s->kernel_width * s->channels - TRIPLE;
    const size_t wanted = number % in_row * TRIPLE, first = ls_min_size(wanted, last);
    return (triple){number / in_row, first, wanted - first};
}

/* A filter row of which no two fit is a tile of its own, all neighbours. */
static size_t tile_count(const ls_filter_rows *job)
{
    const size_t in_row = row_triples(job->shape);
    if (in_row <= LS_TILE_TRIPLES && 2 * in_row > LS_TILE_TRIPLES) return job->filter_rows;
    return ls_ceil_div(job->filter_rows * in_row, LS_TILE_TRIPLES);
}

bool LS_HOST(filter_rows_take_windows)(const ls_filter_rows *job,
                                       const ls_max_pool_gradient_args *pool)
{
    const ls_conv_shape *s = job->shape;
    return pool != NULL && pool->relu_y != NULL && ls_max_pool_has_squares(&pool->shape)
           && 2 * pool->shape.out_width == s->out_width
           && 2 * pool->shape.out_height == s->out_height && job->count > 0
           && job->filter_rows * row_triples(s) == LS_TILE_TRIPLES
           && row_triples(s) == NEIGHBOURS && s->kernel_width * s->channels == NEIGHBOURS * TRIPLE
           && s->stride_width * s->channels == TRIPLE;
}

/* What follows the last term of a tile's chains, a word of filters from `filter` on. */
static void finish(const ls_filter_rows *job, size_t filter, size_t first, const tile *t)
{
    const size_t floats = job->shape->kernel_width * job->shape->channels;
    for (size_t g = 0; g < t->triples; g++) {
        const triple at = triple_at(job->shape, first + g);
        for (size_t i = at.skip; i < TRIPLE; i++) {
            const size_t row = at.filter_row * floats + at.first + i;
            const float *chain = t->chain + (g * TRIPLE + i) * LS_LANES;
            ls_vec x = ls_vec_add(ls_vec_load(chain), ls_vec_zero());
            for (int m = 0; m < job->add_count; m++) {
                const ls_tile_source *add = &job->add[m];
                x = ls_vec_add(ls_vec_load(add->p + row * add->step + filter), x);
            }
            ls_vec_store(job->to + row * job->to_step + filter, x);
        }
    }
}

void LS_HOST(filter_rows_run)(const ls_filter_rows *job, const ls_filter_part *part)
{
    const ls_conv_shape *s = job->shape;
    const size_t triples = job->filter_rows * row_triples(s), tiles = tile_count(job);
    tile t = {
        .run = job->run + part->row,
        .runs = part->rows,
        .depth = s->out_width,
        .a_step = s->stride_width * s->channels,
        .b = part->dy,
        .b_step = part->dy_step,
        .continues = part->row > 0,
        .pool = part->pool,
        .first = job->first + part->row,
        .filter = part->pool_filter,
    };
    for (size_t i = 0, first = 0; i < tiles; i++, first += t.triples) {
        t.triples = (i + 1) * triples / tiles - first;
        for (size_t g = 0; g < t.triples; g++) {
            const triple at = triple_at(s, first + g);
            t.a[g] = job->a + at.filter_row * job->row_floats + at.first;
        }
        t.chain = job->scratch + first * TRIPLE * LS_LANES;
        t.sum = i == 0 ? part->sum : NULL;
        if (t.pool != NULL) multiply_by_windows(&t);
        else multiply_of[t.triples - 1](&t);
        if (part->row + part->rows == job->count) finish(job, part->filter, first, &t);
    }
}
