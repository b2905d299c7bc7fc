/* SPDX-License-Identifier: MIT */
/* pooled_tile.c -- a first layer's convolution and the max pooling over it. See pooled_tile.h.
 *
 *                                 | b[k], a word of filters |
 *      upper row, places 0 .. 5:    acc[0] .. acc[5]              0 1 | 2 3 |  4  5
 *      lower row, the same:         acc[6] .. acc[11]             6 7 | 8 9 | 10 11
 *                                                                 y 0 | y 1 |  y 2
 *
 * A place's float at k is multiplied straight from memory, so a multiply-add is one instruction and
 * one load. The channels are a constant: of both rows, places lie at constant distances.
 */
#include "kernels/host/pooled_tile.h"

#include "kernels/host/image_rows.h"
#include "kernels/host/lanes.h"
#include "kernels/host/pool.h"
#include "kernels/host/ranges.h"

/* Outputs of a tile, beside each other: four chains each. */
enum { OUTPUTS = LS_TILE_ROWS * LS_TILE_VECTORS / 4 };

/* Rows of outputs that make a task: some 10 us. */
enum { GRAIN = 16 };

/* Floats of scratch memory: half for the filters, half for rows with their padding. */
enum { PANELS_MAX = LS_SCRATCH_BYTES / sizeof(float) / 2, COPY_MAX = PANELS_MAX };

/* -- tiles ------------------------------------------------------------------------------------- */

/* A row of outputs, for a word of filters. */
typedef struct {
    const float *a;       /* the upper row's first patch */
    size_t a_row;         /* to the next row of the image */
    size_t filter_rows, filter_row; /* number; floats of each */
    const float *b;       /* a word for every k, LS_TILE_COLUMNS apart */
    const float *bias;    /* or NULL */
    bool relu;
    float *y;
    uint8_t *place;
    size_t step;          /* to the next output's */
} outputs_row;

/* Tiles are taken one after another by one function, which keeps what they share in registers:
 * what is handed on through memory holds up the next tile's first loads. (A call for each tile:
 * 1.25 times the time.) */
typedef void tiles_fn(const outputs_row *row, size_t first, size_t count);

LS_ALWAYS_INLINE void multiply(const outputs_row *row, const float *a, ls_vec *acc, int outputs,
                               size_t channels)
{
    const float *b = row->b;
    for (size_t r = row->filter_rows; r > 0; r--, a += row->a_row) {
        const float *upper = a, *lower = a + row->a_row;
#pragma GCC unroll 3
        for (size_t k = row->filter_row; k > 0; k--, upper++, lower++, b += LS_TILE_COLUMNS) {
            const ls_vec word = ls_vec_load(b);
#pragma GCC unroll 16
            for (int i = 0; i < 2 * outputs; i++) {
                acc[i] = ls_vec_fma_from(upper + (size_t)i * channels, word, acc[i]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < 2 * outputs; i++) {
                ls_vec *to = &acc[2 * outputs + i];
                *to = ls_vec_fma_from(lower + (size_t)i * channels, word, *to);
            }
        }
    }
}

/* An output, of its two upper and its two lower places. A relu's +0 is what there is at least: the
 * scan begins with it, and the first place wins if none is greater. */
LS_ALWAYS_INLINE void pool(const ls_vec *upper, const ls_vec *lower, ls_vec bias, bool relu,
                           float *y, uint8_t *place)
{
    const ls_vec met[] = { ls_vec_add(upper[0], bias), ls_vec_add(upper[1], bias),
                           ls_vec_add(lower[0], bias), ls_vec_add(lower[1], bias) };
    ls_vec largest = relu ? ls_vec_zero() : met[0];
    ls_bytes stood = ls_bytes_set(0);
#pragma GCC unroll 4
    for (int i = relu ? 0 : 1; i < 4; i++) ls_pool_meet(met[i], i, &largest, &stood);
    ls_fetch_target(y);
    ls_vec_store(y, largest);
    ls_bytes_store(place, stood);
}

LS_ALWAYS_INLINE void compute(const outputs_row *row, size_t first, size_t count, int outputs,
                              size_t channels, bool relu)
{
    const size_t step = row->step;
    const float *a = row->a + 2 * first * channels;
    float *y = row->y + first * step;
    uint8_t *place = row->place + first * step;
    ls_vec bias = ls_vec_zero(); /* (x + bias) + 0.0f is x + (bias + 0.0f): see tile.c */
    if (row->bias != NULL) bias = ls_vec_add(ls_vec_load(row->bias), bias);
    for (size_t i = 0; i < count; i++, a += 2 * (size_t)outputs * channels) {
        ls_vec acc[4 * OUTPUTS];
#pragma GCC unroll 32
        for (int c = 0; c < 4 * outputs; c++) acc[c] = ls_vec_zero();
        multiply(row, a, acc, outputs, channels);
#pragma GCC unroll 8
        for (int o = 0; o < outputs; o++, y += step, place += step) {
            pool(acc + 2 * o, acc + 2 * (outputs + o), bias, relu, y, place);
        }
    }
}

/* Each begins a line of the cache (tile.c). */
#define DEFINE_TILES(name, outputs, channels)                                                     \
    static __attribute__((aligned(64))) void name##_##outputs(const outputs_row *row,             \
                                                              size_t first, size_t count)         \
    {                                                                                             \
        if (row->relu) compute(row, first, count, outputs, channels, true);                       \
        else compute(row, first, count, outputs, channels, false);                                \
    }
#define DEFINE_GREY(outputs) DEFINE_TILES(grey, outputs, 1)
#define DEFINE_COLOUR(outputs) DEFINE_TILES(colour, outputs, 3)
LS_POOLED_COUNTS(DEFINE_GREY)
LS_POOLED_COUNTS(DEFINE_COLOUR)

#define NAME_GREY(outputs) grey_##outputs,
#define NAME_COLOUR(outputs) colour_##outputs,
static tiles_fn *const grey[] = { LS_POOLED_COUNTS(NAME_GREY) };
static tiles_fn *const colour[] = { LS_POOLED_COUNTS(NAME_COLOUR) };

/* -- rows of outputs --------------------------------------------------------------------------- */

typedef struct {
    const ls_pooled_conv_forward_args *args;
    const float *panels; /* for every LS_TILE_COLUMNS filters [depth][LS_TILE_COLUMNS] */
    size_t depth;        /* k of a chain */
    ls_pool *pool;
    bool copies;         /* there is padding: a row of outputs has its own copy of the image's */
} job;

/* As few tiles as may be, and as even: first the larger ones. */
static void pool_row(const job *j, const outputs_row *row)
{
    tiles_fn *const *tiles_of = j->args->conv.shape.channels == 1 ? grey : colour;
    const size_t width = j->args->pool.shape.out_width, tiles = ls_ceil_div(width, OUTPUTS);
    const size_t each = width / tiles, larger = width % tiles;
    if (larger > 0) tiles_of[each](row, 0, larger);
    tiles_of[each - 1](row, larger * (each + 1), tiles - larger);
}

/* What a row of outputs sees, padding included; its two rows of places begin with row `top`. */
static void copy_rows(const ls_conv_shape *s, const float *image, size_t top, float *to)
{
    for (size_t i = 0; i <= s->kernel_height; i++)
        ls_copy_padded_row(s, image, top + i - s->pad_top, to + i * ls_padded_row(s));
}

/* Rows [begin, end) of outputs, counted through all samples. */
static void pool_rows(const void *job_, size_t begin, size_t end, int thread)
{
    const job *j = job_;
    float *copy = (float *)ls_pool_scratch(j->pool, thread) + PANELS_MAX;
    const ls_conv_forward_args *conv = &j->args->conv;
    const ls_conv_shape *s = &conv->shape;
    const ls_pool_shape *p = &j->args->pool.shape;
    const size_t image_floats = s->height * s->width * s->channels;
    outputs_row row = { .a_row = j->copies ? ls_padded_row(s) : s->width * s->channels,
                        .filter_rows = s->kernel_height,
                        .filter_row = s->kernel_width * s->channels,
                        .relu = conv->relu,
                        .step = s->filters };
    for (size_t r = begin; r < end; r++) {
        const size_t n = r / p->out_height, h = 2 * (r % p->out_height);
        const size_t to = r * p->out_width * s->filters;
        const float *image = conv->x + n * image_floats;
        if (j->copies) copy_rows(s, image, h, copy);
        row.a = j->copies ? copy : image + h * row.a_row;
        for (size_t f = 0; f < s->filters; f += LS_LANES) {
            const size_t panel = f / LS_TILE_COLUMNS * LS_TILE_COLUMNS;
            row.b = j->panels + panel * j->depth + (f - panel);
            row.bias = conv->bias == NULL ? NULL : conv->bias + f;
            row.y = j->args->pool.y + to + f;
            row.place = j->args->pool.place + to + f;
            pool_row(j, &row);
        }
    }
}

/* -- the op ------------------------------------------------------------------------------------ */

static size_t depth_of(const ls_conv_shape *s)
{
    return s->kernel_height * s->kernel_width * s->channels;
}

bool LS_HOST(pools_in_tile)(const ls_pooled_conv_forward_args *args)
{
    const ls_conv_shape *s = &args->conv.shape;
    const size_t columns = ls_ceil_div(s->filters, LS_TILE_COLUMNS) * LS_TILE_COLUMNS;
    const size_t copy = (s->kernel_height + 1) * ls_padded_row(s) + LS_LANES;
    return (s->channels == 1 || s->channels == 3) && s->filters % LS_LANES == 0
           && s->stride_height == 1 && s->stride_width == 1
           && ls_max_pool_has_squares(&args->pool.shape)
           && depth_of(s) * columns <= PANELS_MAX && copy <= COPY_MAX;
}

ls_status LS_HOST(pool_in_tile)(ls_stream *stream, const ls_pooled_conv_forward_args *args)
{
    const ls_conv_shape *s = &args->conv.shape;
    float *panels = ls_pool_scratch(stream->device->pool, 0);
    const job j = { .args = args, .panels = panels, .depth = depth_of(s),
                    .pool = stream->device->pool, .copies = ls_has_padding(s) };
    for (size_t f = 0; f < s->filters; f += LS_TILE_COLUMNS) {
        ls_pack_columns(panels + f * j.depth, args->conv.w + f * j.depth, j.depth, j.depth,
                        ls_min_size(s->filters - f, LS_TILE_COLUMNS));
    }
    ls_range_run(stream, s->samples * args->pool.shape.out_height, GRAIN, pool_rows, &j);
    return LS_OK;
}
