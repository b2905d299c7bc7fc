/* SPDX-License-Identifier: MIT */
/* loss.c -- host: softmax and sigmoid cross-entropy, squared and absolute error.
 *
 * The formulas are those of reference/loss.c. exp is what costs, so softmax takes rows together as
 * far as 4096 numbers go and exp runs over all of them in one vectorised loop; a row longer than
 * that is taken block by block, the blocks being those of its flat sum.
 */
#include <string.h>

#include "kernels/host/host.h"
#include "kernels/host/ranges.h"
#include LS_SIMD

enum { BUFFER = LS_FLAT_BLOCK, ROWS = 256, LANES = 16 };

/* Numbers of a task: some 6 us. */
enum { GRAIN = 512 };

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

/* The flat sum of a few numbers, count <= LANES, by additions whose number is a constant. */
static inline float short_sum(const float *a, size_t count)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l += LS_LANES) {
        const size_t left = count > l ? count - l : 0;
        ls_vec_store(lane + l, ls_vec_load_part(a + l, left < LS_LANES ? left : LS_LANES));
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) lane[l] += lane[l + half];
    }
    return lane[0] + 0.0f;
}

/* Flat sum of a[i] * b[i] over one block, count <= LS_FLAT_BLOCK; b NULL: of a[i]. */
static float block_sum(const float *a, const float *b, size_t count)
{
    if (b == NULL && count <= LANES) return short_sum(a, count);
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

/* Classes that rank before the label, given the row's largest value. */
static int32_t place_of(const float *x, size_t classes, size_t label, float m)
{
    const float own = x[label];
    uint32_t before = 0;
    if (m != m) return (int32_t)classes;
    for (size_t i = 0; i < label; i++) before += (uint32_t)(x[i] >= own);
    for (size_t i = label + 1; i < classes; i++) before += (uint32_t)(x[i] > own);
    return (int32_t)before;
}

/* The class that reference/loss.c's scan finds, given the row's largest value. */
static int32_t largest_at(const float *x, size_t classes, float m)
{
    size_t at = 0;
    if (m == m) {
        while (x[at] != m) at++;
        return (int32_t)at;
    }
    for (at = classes - 1; x[at] == x[at];) at--;
    return (int32_t)at;
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
        const float w = weight_of(args->weight, row) * args->loss_scale;
        const float rest = args->smooth_all;
        const float hot = rest == 0.0f ? 1.0f : rest + args->smooth_hot;
        const size_t label = (size_t)args->label[row] - begin;
        for (size_t i = 0; i < count; i++) dx[i] = w * (e[i] / s - rest);
        if (label < count) dx[label] = w * (e[label] / s - hot);
    }
}

/* `distances`: the flat sum of x - m, where there is smoothing. */
static void softmax_scalars(const ls_softmax_loss_args *args, size_t row, float m, float log_s,
                            float distances)
{
    const float *x = args->logits + row * args->classes;
    if (args->loss) {
        const float hot = x[args->label[row]] - m, all = args->smooth_all * distances;
        args->loss[row] =
            log_s - (args->smooth_all == 0.0f ? hot : ls_fmaf(args->smooth_hot, hot, all));
    }
    if (args->place) {
        args->place[row] = place_of(x, args->classes, (size_t)args->label[row], m);
    }
    if (args->predicted) args->predicted[row] = largest_at(x, args->classes, m);
}

/* Rows [begin, end): at most ROWS of them and BUFFER numbers. */
static void softmax_short_rows(const ls_softmax_loss_args *args, size_t begin, size_t end)
{
    const size_t C = args->classes, rows = end - begin;
    float e[BUFFER], m[ROWS], s[ROWS], log_s[ROWS], distances[ROWS] = { 0 };
    for (size_t r = 0; r < rows; r++) {
        const float *x = args->logits + (begin + r) * C;
        m[r] = largest(x, C);
        subtract(x, m[r], C, e + r * C);
        if (args->smooth_all != 0.0f) distances[r] = block_sum(e + r * C, NULL, C);
    }
    exponentiate(e, rows * C);
    for (size_t r = 0; r < rows; r++) s[r] = block_sum(e + r * C, NULL, C);
    for (size_t r = 0; r < rows; r++) log_s[r] = ls_logf(s[r]);
    for (size_t r = 0; r < rows; r++) {
        softmax_scalars(args, begin + r, m[r], log_s[r], distances[r]);
        softmax_results(args, begin + r, 0, C, e + r * C, s[r]);
    }
}

/* A row of more than BUFFER classes; exponentials are computed twice, not stored. */
static void softmax_long_row(const ls_softmax_loss_args *args, size_t row)
{
    const float *x = args->logits + row * args->classes;
    const float m = largest(x, args->classes);
    float e[BUFFER];
    ls_tree_f32 blocks = { .depth = 0 }, distances = { .depth = 0 };
    for (size_t i = 0; i < args->classes; i += BUFFER) {
        const size_t count = args->classes - i < BUFFER ? args->classes - i : BUFFER;
        subtract(x + i, m, count, e);
        ls_tree_push_f32(&distances, block_sum(e, NULL, count));
        exponentiate(e, count);
        ls_tree_push_f32(&blocks, block_sum(e, NULL, count));
    }
    const float s = ls_tree_root_f32(&blocks);
    softmax_scalars(args, row, m, ls_logf(s), ls_tree_root_f32(&distances));
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

/* -- sigmoid ----------------------------------------------------------------------------------- */

/* Sums of a row so far: trees over the blocks of flat sums. */
typedef struct {
    ls_tree_f32 loss, square, absolute;
} row_sums;

/* y: the targets of outputs begin .. begin + count - 1 of a row. */
static void fill_targets(const ls_sigmoid_loss_args *args, size_t row, size_t begin, size_t count,
                         float *restrict y)
{
    if (args->label == NULL && args->target != NULL) {
        memcpy(y, args->target + row * args->outputs + begin, count * sizeof *y);
        return;
    }
    memset(y, 0, count * sizeof *y);
    if (args->label == NULL) return;
    const size_t label = (size_t)args->label[row];
    if (args->outputs == 1) y[0] = (float)(label == 1);
    else if (label - begin < count) y[label - begin] = 1.0f;
}

/* p and each output's loss, of targets t. */
static void sigmoid_values(const float *restrict z, const float *restrict t, size_t count,
                           float *restrict p, float *restrict loss)
{
    for (size_t i = 0; i < count; i++) {
        const float e = ls_expf(z[i] < 0.0f ? z[i] : -z[i]);
        p[i] = (z[i] < 0.0f ? e : 1.0f) / (1.0f + e);
        loss[i] = ls_fmaf(-z[i], t[i], z[i] > 0.0f ? z[i] : 0.0f) + ls_logf(1.0f + e);
    }
}

/* At most BUFFER outputs of a row. */
static void sigmoid_block(const ls_sigmoid_loss_args *args, size_t row, size_t begin, size_t count,
                          row_sums *sums)
{
    const size_t at = row * args->outputs + begin;
    float y[BUFFER], t[BUFFER], p[BUFFER], term[BUFFER];
    fill_targets(args, row, begin, count, y);
    memcpy(t, y, count * sizeof *t);
    if (args->smooth_all != 0.0f) {
        for (size_t i = 0; i < count; i++) t[i] = ls_fmaf(args->smooth_hot, y[i], args->smooth_all);
    }
    sigmoid_values(args->logits + at, t, count, p, term);
    ls_tree_push_f32(&sums->loss, block_sum(term, NULL, count));
    if (args->dlogits) {
        const float C = (float)args->outputs;
        const float factor = weight_of(args->weight, row) * args->loss_scale / C;
        float *dx = args->dlogits + at;
        for (size_t i = 0; i < count; i++) dx[i] = factor * (p[i] - t[i]);
    }
    if (args->probability) memcpy(args->probability + at, p, count * sizeof *p);
    if (args->squared_error || args->absolute_error) {
        for (size_t i = 0; i < count; i++) {
            p[i] -= y[i];
            term[i] = p[i] < 0.0f ? -p[i] : p[i];
        }
        ls_tree_push_f32(&sums->square, block_sum(p, p, count));
        ls_tree_push_f32(&sums->absolute, block_sum(term, NULL, count));
    }
}

static void sigmoid_places(const ls_sigmoid_loss_args *args, size_t row)
{
    const float *z = args->logits + row * args->outputs;
    const bool two = args->outputs == 1;
    const float scores[2] = { 0.0f, z[0] };
    const float *x = two ? scores : z;
    const size_t classes = two ? 2 : args->outputs;
    const float m = largest(x, classes);
    if (args->place) {
        args->place[row] = place_of(x, classes, (size_t)args->label[row], m);
    }
    if (args->predicted) args->predicted[row] = two ? z[0] > 0.0f : largest_at(x, classes, m);
}

static void sigmoid_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_sigmoid_loss_args *args = args_;
    const float C = (float)args->outputs;
    for (size_t row = begin; row < end; row++) {
        row_sums sums = { .loss = { .depth = 0 } };
        for (size_t i = 0; i < args->outputs; i += BUFFER) {
            const size_t left = args->outputs - i;
            sigmoid_block(args, row, i, left < BUFFER ? left : BUFFER, &sums);
        }
        if (args->loss) args->loss[row] = ls_tree_root_f32(&sums.loss) / C;
        if (args->squared_error) args->squared_error[row] = ls_tree_root_f32(&sums.square) / C;
        if (args->absolute_error) args->absolute_error[row] = ls_tree_root_f32(&sums.absolute) / C;
        if (args->place || args->predicted) sigmoid_places(args, row);
    }
}

ls_status LS_HOST(sigmoid_loss)(ls_stream *stream, const ls_sigmoid_loss_args *args)
{
    ls_range_run(stream, args->samples, GRAIN / args->outputs, sigmoid_range, args);
    return LS_OK;
}

/* -- errors ------------------------------------------------------------------------------------ */

static void regression_gradient(const ls_regression_loss_args *args, size_t row,
                                const float *restrict d, size_t count, float *restrict dp)
{
    const float C = (float)args->outputs;
    const float w = weight_of(args->weight, row) * args->loss_scale;
    if (args->kind == LS_REGRESSION_SQUARED) {
        const float factor = w * (2.0f / C);
        for (size_t i = 0; i < count; i++) dp[i] = factor * d[i];
        return;
    }
    const float factor = w / C;
    for (size_t i = 0; i < count; i++) {
        dp[i] = factor * (d[i] > 0.0f ? 1.0f : d[i] < 0.0f ? -1.0f : d[i]);
    }
}

static void regression_row(const ls_regression_loss_args *args, size_t row)
{
    const float C = (float)args->outputs;
    const bool squared = args->kind == LS_REGRESSION_SQUARED;
    float d[BUFFER], absolute[BUFFER];
    row_sums sums = { .loss = { .depth = 0 } };
    for (size_t begin = 0; begin < args->outputs; begin += BUFFER) {
        const size_t at = row * args->outputs + begin, left = args->outputs - begin;
        const size_t count = left < BUFFER ? left : BUFFER;
        for (size_t i = 0; i < count; i++) {
            d[i] = args->prediction[at + i] - args->target[at + i];
            absolute[i] = d[i] < 0.0f ? -d[i] : d[i];
        }
        ls_tree_push_f32(&sums.square, block_sum(d, d, count));
        ls_tree_push_f32(&sums.absolute, block_sum(absolute, NULL, count));
        if (args->dprediction) regression_gradient(args, row, d, count, args->dprediction + at);
    }
    const float squares = ls_tree_root_f32(&sums.square) / C;
    const float absolutes = ls_tree_root_f32(&sums.absolute) / C;
    if (args->loss) args->loss[row] = squared ? squares : absolutes;
    if (args->squared_error) args->squared_error[row] = squares;
    if (args->absolute_error) args->absolute_error[row] = absolutes;
}

static void regression_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    for (size_t row = begin; row < end; row++) regression_row(args_, row);
}

ls_status LS_HOST(regression_loss)(ls_stream *stream, const ls_regression_loss_args *args)
{
    ls_range_run(stream, args->samples, GRAIN / args->outputs, regression_range, args);
    return LS_OK;
}
