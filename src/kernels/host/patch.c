/* SPDX-License-Identifier: MIT */
/* patch.c -- copy rows of the matrix that turns a convolution into a matrix product.
 *
 * Columns [begin, end) of a patch are a few runs, one per filter row that they touch:
 *
 *      filter row 0   . . . a a a      run: filter row, first float in it, length
 *      filter row 1   b b b b b b
 *      filter row 2   c c . . . .
 *
 * A run is contiguous in the image too, and the same run of the next place lies stride_width *
 * channels floats further on. So places are taken in stretches of one output row. Of a stretch, the
 * places whose patches lie inside the image are copied run by run, a few instructions each; at the
 * borders a patch is cut to what the image has.
 */
#include "kernels/host/patch.h"

#include "kernels/host/pack.h"
#include "sizes.h"

/* One call's constants. */
typedef struct {
    const ls_conv_shape *shape;
    const float *x;
    size_t begin, end;
    size_t filter_row;          /* floats in a row of a filter */
    size_t image_row;           /* floats in a row of the image */
    size_t first_row, last_row; /* filter rows that the columns touch, both included */
    size_t first_offset;        /* of the first run in its filter row */
    size_t first_q, last_q;     /* output columns whose patches are inside: [first_q, last_q) */
} window;

/* An output place. */
typedef struct {
    size_t n, p, q;
} place_at;

/* -- inside the image ------------------------------------------------------------------------- */

/* `length` floats from each of `count` rows. `exact`: not one float more is written. */
static void copy_run(float *to, size_t to_step, const float *from, size_t from_step, size_t length,
                     size_t count, bool exact)
{
    const size_t whole = length / LS_LANES * LS_LANES, part = length - whole;
    for (size_t i = 0; i < count; i++, to += to_step, from += from_step) {
        for (size_t k = 0; k < whole; k += LS_LANES) ls_vec_store(to + k, ls_vec_load(from + k));
        if (part == 0) continue;
        const ls_vec rest = ls_vec_load_part(from + whole, part);
        if (exact) ls_vec_store_part(to + whole, rest, part);
        else ls_vec_store(to + whole, rest);
    }
}

/* `count` places from `at` on. What a run writes too much, the next runs of its row overwrite, but
 * nothing may be written after the row: the next one may follow closely and has been begun. */
static void copy_inside(const window *w, place_at at, size_t count, float *to, size_t to_step)
{
    const ls_conv_shape *s = w->shape;
    const size_t h = at.p * s->stride_height + w->first_row - s->pad_top;
    const float *from = w->x + (at.n * s->height + h) * w->image_row
                        + (at.q * s->stride_width - s->pad_left) * s->channels;
    size_t offset = w->first_offset;
    for (size_t k = w->begin; k < w->end;) {
        const size_t length = ls_min_size(w->filter_row - offset, w->end - k);
        const bool exact = k + (length + LS_LANES - 1) / LS_LANES * LS_LANES > w->end;
        copy_run(to, to_step, from + offset, s->stride_width * s->channels, length, count, exact);
        to += length;
        k += length;
        from += w->image_row;
        offset = 0;
    }
}

/* -- at a border ------------------------------------------------------------------------------ */

/* `length` floats of an image row, from `shift` floats to the right of its first one (to the left,
 * if negative); +0 where the row has none. */
static void copy_clipped(const float *row, size_t image_row, ptrdiff_t shift, size_t length,
                         float *to)
{
    const size_t before = shift < 0 ? ls_min_size((size_t)-shift, length) : 0;
    const size_t first = shift < 0 ? 0 : ls_min_size((size_t)shift, image_row);
    const size_t copied = ls_min_size(image_row - first, length - before);
    for (size_t i = 0; i < before; i++) to[i] = 0.0f;
    for (size_t i = 0; i < copied; i++) to[before + i] = row[first + i];
    for (size_t i = before + copied; i < length; i++) to[i] = 0.0f;
}

static void copy_at_border(const window *w, place_at at, float *to)
{
    const ls_conv_shape *s = w->shape;
    size_t offset = w->first_offset, r = w->first_row;
    for (size_t k = w->begin; k < w->end; r++) {
        const size_t length = ls_min_size(w->filter_row - offset, w->end - k);
        const size_t h = at.p * s->stride_height + r;
        if (h < s->pad_top || h - s->pad_top >= s->height) {
            for (size_t i = 0; i < length; i++) to[i] = 0.0f;
        } else {
            const float *row = w->x + (at.n * s->height + (h - s->pad_top)) * w->image_row;
            const ptrdiff_t shift = ((ptrdiff_t)(at.q * s->stride_width) - (ptrdiff_t)s->pad_left)
                                    * (ptrdiff_t)s->channels + (ptrdiff_t)offset;
            copy_clipped(row, w->image_row, shift, length, to);
        }
        to += length;
        k += length;
        offset = 0;
    }
}

/* -- both ------------------------------------------------------------------------------------- */

/* `count` places of one output row. */
static void copy_stretch(const window *w, place_at at, size_t count, float *to, size_t to_step)
{
    const ls_conv_shape *s = w->shape;
    const size_t h = at.p * s->stride_height, end = at.q + count;
    const bool has_rows = h + w->first_row >= s->pad_top
                          && h + w->last_row < s->height + s->pad_top;
    const size_t first = has_rows ? ls_min_size(ls_max_size(at.q, w->first_q), end) : end;
    const size_t last = ls_max_size(first, ls_min_size(end, w->last_q));
    float *row = to;
    for (place_at i = at; i.q < first; i.q++, row += to_step) copy_at_border(w, i, row);
    copy_inside(w, (place_at){at.n, at.p, first}, last - first, row, to_step);
    row += (last - first) * to_step;
    for (place_at i = {at.n, at.p, last}; i.q < end; i.q++, row += to_step) {
        copy_at_border(w, i, row);
    }
}

static window window_of(const ls_conv_shape *s, const float *x, size_t begin, size_t end)
{
    const size_t filter_row = s->kernel_width * s->channels;
    const size_t padded = s->width + s->pad_left; /* columns with the padding on the left */
    return (window){
        .shape = s,
        .x = x,
        .begin = begin,
        .end = end,
        .filter_row = filter_row,
        .image_row = s->width * s->channels,
        .first_row = begin / filter_row,
        .last_row = (end - 1) / filter_row,
        .first_offset = begin % filter_row,
        .first_q = (s->pad_left + s->stride_width - 1) / s->stride_width,
        .last_q = padded < s->kernel_width ? 0 : (padded - s->kernel_width) / s->stride_width + 1,
    };
}

void LS_HOST(patch_copy)(const ls_conv_shape *s, const float *x, size_t begin, size_t end,
                         size_t place, size_t count, float *to, size_t to_step)
{
    if (begin == end) return;
    const window w = window_of(s, x, begin, end);
    place_at at = {place / s->out_width / s->out_height, place / s->out_width % s->out_height,
                   place % s->out_width};
    while (count > 0) {
        const size_t stretch = ls_min_size(count, s->out_width - at.q);
        copy_stretch(&w, at, stretch, to, to_step);
        to += stretch * to_step;
        count -= stretch;
        at.q = 0;
        if (++at.p < s->out_height) continue;
        at.p = 0;
        at.n++;
    }
}
