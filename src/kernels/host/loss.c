/* SPDX-License-Identifier: MIT */
/* loss.c -- host: softmax cross-entropy and squared error.
 *
 * The formulas are those of reference/loss.c. exp is what costs, so rows are taken together as far
 * as 4096 numbers go and exp runs over all of them in one vectorised loop; a row longer than that
 * is taken block by block, the blocks being those of its flat sum.
 */
#include <string.h>

#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { BUFFER = LS_FLAT_BLOCK, ROWS = 256, GRAIN = 8192, LANES = 16 };

static float weight_of(const float *weight, size_t row) { return weight ? weight[row] : 1.0f; }

/* The sum of one block's lanes of which only the first n are not +0. */
static float lanes_sum(float *lane, size_t n)
{
    size_t half = LS_FLAT_LANES / 2;
    while (half >= n && half > 0) half /= 2; /* those additions would add +0 */
    for (; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    }
    return lane[0] + 0.0f;
}

/* Flat sum of a[i] * b[i] over one block, count <= LS_FLAT_BLOCK; b NULL: of a[i]. */
static float block_sum(const float *a, const float *b, size_t count)
{
    float lane[LS_FLAT_LANES] = { 0 };
    for (size_t i = 0; i < count; i += LS_FLAT_LANES) {
        const size_t n = count - i < LS_FLAT_LANES ? count - i : LS_FLAT_LANES;
        if (b == NULL) {
            for (size_t l = 0; l < n; l++) lane[l] += a[i + l];
        } else {
            for (size_t l = 0; l < n; l++) lane[l] = ls_fmaf(a[i + l], b[i + l], lane[l]);
        }
    }
    return lanes_sum(lane, count);
}

/* -- softmax ----------------------------------------------------------------------------------- */

/* The largest element's value; a NaN if there is one. The sign of a zero may be another than the
 * scan's, which no result shows: x - m differs in the sign of a zero at most, and exp(+-0) = 1. */
static float largest(const float *x, size_t count)
{
    float m[LANES];
    uint32_t nan[LANES] = { 0 };
    for (size_t l = 0; l < LANES; l++) m[l] = x[l < count ? l : 0];
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
            nan[l] |= (uint32_t)(x[i + l] != x[i + l]);
        }
    }
    for (size_t l = 0; i + l < count; l++) {
        m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
        nan[l] |= (uint32_t)(x[i + l] != x[i + l]);
    }
    for (size_t l = 1; l < LANES; l++) {
        m[0] = m[l] > m[0] ? m[l] : m[0];
        nan[0] |= nan[l];
    }
    return nan[0] ? ls_float_of_bits(0x7fc00000u) : m[0];
}

/* Is `label` the class that reference/loss.c's scan finds, given the row's largest value? */
static int32_t is_correct(const float *x, size_t classes, size_t label, float m)
{
    uint32_t other = 0; /* one that goes before it: an equal at a lower place; a NaN at a higher */
    if (m == m) {
        for (size_t i = 0; i < label; i++) other |= (uint32_t)(x[i] == m);
        return x[label] == m && !other;
    }
    for (size_t i = label + 1; i < classes; i++) other |= (uint32_t)(x[i] != x[i]);
    return x[label] != x[label] && !other;
}

static void subtract(const float *restrict x, float m, size_t count, float *restrict out)
{
    for (size_t i = 0; i < count; i++) out[i] = x[i] - m;
}

static void exponentiate(float *e, size_t count)
{
    for (size_t i = 0; i < count; i++) e[i] = ls_expf(e[i]);
}

/* Results of classes begin .. begin + count - 1 of a row, from their exponentials e and the row's
 * sum s. */
static void softmax_results(const ls_softmax_loss_args *args, size_t row, size_t begin,
                            size_t count, const float *restrict e, float s)
{
    const size_t at = row * args->classes + begin;
    if (args->probability) {
        float *restrict p = args->probability + at;
        for (size_t i = 0; i < count; i++) p[i] = e[i] / s;
    }
    if (args->dlogits) {
        float *restrict dx = args->dlogits + at;
        const float w = weight_of(args->weight, row);
        const size_t label = (size_t)args->label[row] - begin;
        for (size_t i = 0; i < count; i++) dx[i] = w * (e[i] / s); /* p - 0 is p */
        if (label < count) dx[label] = w * (e[label] / s - 1.0f);
    }
}

static void softmax_scalars(const ls_softmax_loss_args *args, size_t row, float m, float log_s)
{
    const float *x = args->logits + row * args->classes;
    if (args->loss) args->loss[row] = log_s - (x[args->label[row]] - m);
    if (args->correct) {
        args->correct[row] = is_correct(x, args->classes, (size_t)args->label[row], m);
    }
}

/* Rows [begin, end): at most ROWS of them and BUFFER numbers. */
static void softmax_short_rows(const ls_softmax_loss_args *args, size_t begin, size_t end)
{
    const size_t C = args->classes, rows = end - begin;
    float e[BUFFER], m[ROWS], s[ROWS], log_s[ROWS];
    for (size_t r = 0; r < rows; r++) {
        const float *x = args->logits + (begin + r) * C;
        m[r] = largest(x, C);
        subtract(x, m[r], C, e + r * C);
    }
    exponentiate(e, rows * C);
    for (size_t r = 0; r < rows; r++) s[r] = block_sum(e + r * C, NULL, C);
    for (size_t r = 0; r < rows; r++) log_s[r] = ls_logf(s[r]);
    for (size_t r = 0; r < rows; r++) {
        softmax_scalars(args, begin + r, m[r], log_s[r]);
        softmax_results(args, begin + r, 0, C, e + r * C, s[r]);
    }
}

/* A row of more than BUFFER classes; exponentials are computed twice, not stored. */
static void softmax_long_row(const ls_softmax_loss_args *args, size_t row)
{
    const float *x = args->logits + row * args->classes;
    const float m = largest(x, args->classes);
    float e[BUFFER];
    ls_tree_f32 blocks = { .depth = 0 };
    for (size_t i = 0; i < args->classes; i += BUFFER) {
        const size_t count = args->classes - i < BUFFER ? args->classes - i : BUFFER;
        subtract(x + i, m, count, e);
        exponentiate(e, count);
        ls_tree_push_f32(&blocks, block_sum(e, NULL, count));
    }
    const float s = ls_tree_root_f32(&blocks);
    softmax_scalars(args, row, m, ls_logf(s));
    if (args->probability == NULL && args->dlogits == NULL) return;
    for (size_t i = 0; i < args->classes; i += BUFFER) {
        const size_t count = args->classes - i < BUFFER ? args->classes - i : BUFFER;
        subtract(x + i, m, count, e);
        exponentiate(e, count);
        softmax_results(args, row, i, count, e, s);
    }
}

static void softmax_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_softmax_loss_args *args = args_;
    const size_t fit = BUFFER / args->classes, most = fit < ROWS ? fit : ROWS;
    if (fit == 0) {
        for (size_t row = begin; row < end; row++) softmax_long_row(args, row);
        return;
    }
    for (size_t row = begin; row < end; row += most) {
        softmax_short_rows(args, row, end - row < most ? end : row + most);
    }
}

ls_status LS_HOST(softmax_loss)(ls_stream *stream, const ls_softmax_loss_args *args)
{
    ls_range_run(stream, args->samples, GRAIN / args->classes, softmax_range, args);
    return LS_OK;
}

/* -- squared error ----------------------------------------------------------------------------- */

static void squared_row(const ls_squared_loss_args *args, size_t row)
{
    const float C = (float)args->outputs;
    const float factor = weight_of(args->weight, row) * (2.0f / C);
    float d[BUFFER], absolute[BUFFER];
    ls_tree_f32 squares = { .depth = 0 }, absolutes = { .depth = 0 };
    for (size_t begin = 0; begin < args->outputs; begin += BUFFER) {
        const size_t at = row * args->outputs + begin, left = args->outputs - begin;
        const size_t count = left < BUFFER ? left : BUFFER;
        for (size_t i = 0; i < count; i++) {
            d[i] = args->prediction[at + i] - args->target[at + i];
            absolute[i] = d[i] < 0.0f ? -d[i] : d[i];
        }
        ls_tree_push_f32(&squares, block_sum(d, d, count));
        ls_tree_push_f32(&absolutes, block_sum(absolute, NULL, count));
        if (args->dprediction) {
            float *dp = args->dprediction + at;
            for (size_t i = 0; i < count; i++) dp[i] = factor * d[i];
        }
    }
    if (args->loss) args->loss[row] = ls_tree_root_f32(&squares) / C;
    if (args->absolute_error) args->absolute_error[row] = ls_tree_root_f32(&absolutes) / C;
}

static void squared_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t row = begin; row < end; row++) squared_row(args_, row);
}

ls_status LS_HOST(squared_loss)(ls_stream *stream, const ls_squared_loss_args *args)
{
    ls_range_run(stream, args->samples, GRAIN / args->outputs, squared_range, args);
    return LS_OK;
}
