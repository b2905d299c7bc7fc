/* SPDX-License-Identifier: MIT */
/* patch.c -- copy rows of the matrix that turns a convolution into a matrix product.
 *
 * Columns [begin, end) of a patch are a few runs, one per filter row that they touch:
 *
 *      filter row 0   . . . a a a      run: filter row, first float in it, length
 *      filter row 1   b b b b b b
 *      filter row 2   c c . . . .
 *
 * A run is contiguous in the image too. Most patches lie inside the image, and for those a run is
 * one copy; at a border it is cut to what the image has.
 */
#include "kernels/host/patch.h"

#include "kernels/host/pack.h"

/* One call's constants. */
typedef struct {
    const ls_conv_shape *shape;
    const float *x;
    size_t begin, end;
    size_t filter_row;            /* floats in a row of a filter */
    size_t image_row;             /* floats in a row of the image */
    size_t first_row, last_row;   /* filter rows that the columns touch, both included */
} window;

/* An output place. */
typedef struct {
    size_t n, p, q;
} place_at;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Does the image have all rows and columns that the window's columns need at this place? */
static bool is_inside(const window *w, place_at at)
{
    const ls_conv_shape *s = w->shape;
    const size_t h = at.p * s->stride_height, c = at.q * s->stride_width;
    return h + w->first_row >= s->pad_top && h + w->last_row < s->height + s->pad_top
           && c >= s->pad_left && c + s->kernel_width <= s->width + s->pad_left;
}

static void copy_inside(const window *w, place_at at, float *to)
{
    const ls_conv_shape *s = w->shape;
    const size_t h = at.p * s->stride_height + w->first_row - s->pad_top;
    const float *from = w->x + (at.n * s->height + h) * w->image_row
                        + (at.q * s->stride_width - s->pad_left) * s->channels;
    size_t offset = w->begin - w->first_row * w->filter_row;
    for (size_t k = w->begin; k < w->end;) {
        const size_t length = min_size(w->filter_row - offset, w->end - k);
        ls_copy_over(to, from + offset, length);
        to += length;
        k += length;
        from += w->image_row;
        offset = 0;
    }
}

/* Floats [offset, offset + length) of a filter row whose first one lies `shift` floats to the right
 * of column 0 of image row `row` (or to the left, if shift is negative as a ptrdiff_t). */
static void copy_clipped(const float *row, size_t image_row, ptrdiff_t shift, size_t length,
                         float *to)
{
    const ptrdiff_t left = shift < 0 ? -shift : 0;
    const size_t before = min_size((size_t)left, length);
    const ptrdiff_t room = (ptrdiff_t)image_row - (shift + left);
    const size_t copied = room > 0 ? min_size((size_t)room, length - before) : 0;
    ls_zero_over(to, before);
    ls_copy_over(to + before, row + (shift + left), copied);
    ls_zero_over(to + before + copied, length - before - copied);
}

static void copy_at_border(const window *w, place_at at, float *to)
{
    const ls_conv_shape *s = w->shape;
    size_t offset = w->begin - w->first_row * w->filter_row;
    size_t r = w->first_row;
    for (size_t k = w->begin; k < w->end; r++) {
        const size_t length = min_size(w->filter_row - offset, w->end - k);
        const size_t h = at.p * s->stride_height + r;
        if (h < s->pad_top || h - s->pad_top >= s->height) {
            ls_zero_over(to, length);
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

void LS_HOST(patch_copy)(const ls_conv_shape *s, const float *x, size_t begin, size_t end,
                         size_t place, size_t count, float *to, size_t to_step)
{
    if (begin == end) return;
    const size_t filter_row = s->kernel_width * s->channels;
    const window w = {
        .shape = s,
        .x = x,
        .begin = begin,
        .end = end,
        .filter_row = filter_row,
        .image_row = s->width * s->channels,
        .first_row = begin / filter_row,
        .last_row = (end - 1) / filter_row,
    };
    place_at at = {place / s->out_width / s->out_height, place / s->out_width % s->out_height,
                   place % s->out_width};
    for (size_t i = 0; i < count; i++) {
        if (is_inside(&w, at)) copy_inside(&w, at, to);
        else copy_at_border(&w, at, to);
        to += to_step;
        if (++at.q < s->out_width) continue;
        at.q = 0;
        if (++at.p < s->out_height) continue;
        at.p = 0;
        at.n++;
    }
}
