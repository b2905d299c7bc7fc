/* SPDX-License-Identifier: MIT */
/* conv.c -- convolution and its two gradients, as plain as they can be said: the definition of
 * their bits (docs/numerics.md 1.2, 2.2 and 3).
 *
 * With y[n,p,q,f] = sum over r, s, c of x[n, p*stride+r-pad, q*stride+s-pad, c] * w[f,r,s,c]:
 *
 *   forward          one chain per y: r, s, c ascending
 *   input gradient   one chain per dx: r, s ascending as stored, then f, over the outputs that
 *                    read this input through tap (r, s)
 *   weight gradient  a batch sum per dw: for each shard, for each slice of whole output rows one
 *                    chain over the places (n, p, q) ascending; slices are added by the canonical
 *                    tree, shards by the fold
 *
 * A tap outside the image is a zero term, and zero terms may be left out of a chain, since + 0.0f
 * comes last in each.
 */
#include "kernels/reference/reference.h"

/* The input row (column) that tap `tap` of output `out` reads; false if it lies in the padding. */
static bool input_of(size_t out, size_t stride, size_t tap, size_t pad, size_t extent, size_t *in)
{
    const size_t at = out * stride + tap; /* in the padded image */
    *in = at - pad;
    return at >= pad && at - pad < extent;
}

/* The output row (column) that reads input `in` through tap `tap`; false if none does. */
static bool output_of(size_t in, size_t stride, size_t tap, size_t pad, size_t extent, size_t *out)
{
    if (in + pad < tap || (in + pad - tap) % stride != 0) return false;
    *out = (in + pad - tap) / stride;
    return *out < extent;
}

static size_t x_index(const ls_conv_shape *s, size_t n, size_t h, size_t w, size_t c)
{
    return ((n * s->height + h) * s->width + w) * s->channels + c;
}

static size_t y_index(const ls_conv_shape *s, size_t n, size_t p, size_t q, size_t f)
{
    return ((n * s->out_height + p) * s->out_width + q) * s->filters + f;
}

static size_t w_index(const ls_conv_shape *s, size_t f, size_t r, size_t t, size_t c)
{
    return ((f * s->kernel_height + r) * s->kernel_width + t) * s->channels + c;
}

/* -- forward ---------------------------------------------------------------------------------- */

static float forward_element(const ls_conv_forward_args *a, size_t n, size_t p, size_t q, size_t f)
{
    const ls_conv_shape *s = &a->shape;
    float sum = 0.0f;
    for (size_t r = 0; r < s->kernel_height; r++) {
        for (size_t t = 0; t < s->kernel_width; t++) {
            size_t h, w;
            if (!input_of(p, s->stride_height, r, s->pad_top, s->height, &h)) continue;
            if (!input_of(q, s->stride_width, t, s->pad_left, s->width, &w)) continue;
            for (size_t c = 0; c < s->channels; c++) {
                sum = ls_fmaf(a->x[x_index(s, n, h, w, c)], a->w[w_index(s, f, r, t, c)], sum);
            }
        }
    }
    if (a->bias != NULL) sum += a->bias[f];
    sum += 0.0f;
    return a->relu && sum <= 0.0f ? 0.0f : sum;
}

ls_status ls_conv_forward_reference(ls_stream *stream, const ls_conv_forward_args *a)
{
    (void)stream;
    const ls_conv_shape *s = &a->shape;
    for (size_t n = 0; n < s->samples; n++) {
        for (size_t p = 0; p < s->out_height; p++) {
            for (size_t q = 0; q < s->out_width; q++) {
                for (size_t f = 0; f < s->filters; f++) {
                    a->y[y_index(s, n, p, q, f)] = forward_element(a, n, p, q, f);
                }
            }
        }
    }
    return LS_OK;
}

/* -- gradient of the input -------------------------------------------------------------------- */

static float input_element(const ls_conv_input_gradient_args *a, size_t n, size_t h, size_t w,
                           size_t c)
{
    const ls_conv_shape *s = &a->shape;
    float sum = 0.0f;
    for (size_t r = 0; r < s->kernel_height; r++) {
        for (size_t t = 0; t < s->kernel_width; t++) {
            size_t p, q;
            if (!output_of(h, s->stride_height, r, s->pad_top, s->out_height, &p)) continue;
            if (!output_of(w, s->stride_width, t, s->pad_left, s->out_width, &q)) continue;
            for (size_t f = 0; f < s->filters; f++) {
                sum = ls_fmaf(a->dy[y_index(s, n, p, q, f)], a->w[w_index(s, f, r, t, c)], sum);
            }
        }
    }
    return sum + 0.0f;
}

ls_status ls_conv_input_gradient_reference(ls_stream *stream, const ls_conv_input_gradient_args *a)
{
    (void)stream;
    const ls_conv_shape *s = &a->shape;
    for (size_t n = 0; n < s->samples; n++) {
        for (size_t h = 0; h < s->height; h++) {
            for (size_t w = 0; w < s->width; w++) {
                for (size_t c = 0; c < s->channels; c++) {
                    a->dx[x_index(s, n, h, w, c)] = input_element(a, n, h, w, c);
                }
            }
        }
    }
    return LS_OK;
}

/* -- gradient of the weights ------------------------------------------------------------------ */

/* One weight: filter f, tap (r, t), channel c. */
typedef struct {
    size_t f, r, t, c;
} weight;

/* The chain of output rows [begin, end), counted over all samples: row = n * out_height + p. */
static float slice_sum(const ls_conv_weight_gradient_args *a, weight k, size_t begin, size_t end)
{
    const ls_conv_shape *s = &a->shape;
    float sum = 0.0f;
    for (size_t row = begin; row < end; row++) {
        const size_t n = row / s->out_height, p = row % s->out_height;
        for (size_t q = 0; q < s->out_width; q++) {
            size_t h, w;
            if (!input_of(p, s->stride_height, k.r, s->pad_top, s->height, &h)) continue;
            if (!input_of(q, s->stride_width, k.t, s->pad_left, s->width, &w)) continue;
            sum = ls_fmaf(a->x[x_index(s, n, h, w, k.c)], a->dy[y_index(s, n, p, q, k.f)], sum);
        }
    }
    return sum + 0.0f;
}

/* The tree over the slices of samples [begin, end), which are one shard. */
static float shard_sum(const ls_conv_weight_gradient_args *a, weight k, size_t begin, size_t end)
{
    const size_t first = begin * a->shape.out_height, last = end * a->shape.out_height;
    const size_t rows = ls_slice_rows(a->shape.out_width);
    const size_t count = (last - first + rows - 1) / rows;
    float stack[LS_TREE_DEPTH] = {0.0f}; /* an empty shard's sum is the +0 at the bottom */
    int top = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t row = first + i * rows;
        stack[top++] = slice_sum(a, k, row, last - row < rows ? last : row + rows);
        for (int adds = ls_tree_adds_after(i, count); adds > 0; adds--, top--) {
            stack[top - 2] += stack[top - 1];
        }
    }
    return stack[0];
}

/* Run the fold (fold.h) for one weight; `dw` is its place in piece 0. */
static void fold_weight(const ls_conv_weight_gradient_args *a, weight k, float *dw)
{
    const ls_fold *fold = a->fold;
    float temporary[LS_SHARD_MAX + LS_FOLD_MERGE_MAX];
    for (int i = 0; i < fold->leaf_count; i++) {
        float sum = shard_sum(a, k, fold->sample[i], fold->sample[i + 1]);
        for (int m = 0; m < fold->merge_count[i]; m++) {
            const int slot = fold->merge[i][m];
            sum = (slot < fold->piece_count ? dw[(size_t)slot * a->piece_stride]
                                            : temporary[slot - fold->piece_count]) + sum;
        }
        const int slot = fold->store[i];
        if (slot < fold->piece_count) dw[(size_t)slot * a->piece_stride] = sum;
        else temporary[slot - fold->piece_count] = sum;
    }
}

ls_status ls_conv_weight_gradient_reference(ls_stream *stream,
                                            const ls_conv_weight_gradient_args *a)
{
    (void)stream;
    const ls_conv_shape *s = &a->shape;
    for (size_t f = 0; f < s->filters; f++) {
        for (size_t r = 0; r < s->kernel_height; r++) {
            for (size_t t = 0; t < s->kernel_width; t++) {
                for (size_t c = 0; c < s->channels; c++) {
                    fold_weight(a, (weight){f, r, t, c}, a->dw + w_index(s, f, r, t, c));
                }
            }
        }
    }
    return LS_OK;
}
