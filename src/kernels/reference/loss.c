/* SPDX-License-Identifier: MIT */
/* loss.c -- reference: softmax and sigmoid cross-entropy, squared and absolute error, row by row.
 *
 * The definition of the bits (docs/numerics.md 5); a row's arithmetic is float. With w = weight *
 * loss_scale, x the logits, y the label, a = smooth_hot and b = smooth_all,
 *
 *     softmax   m = the largest x (a scan: replaced by what is larger or a NaN)
 *               e = exp(x - m),  s = flat sum of e,  p = e / s,  t_i = b, and b + a where i = y
 *               loss = ln s - fma(a, x_y - m, b * flat sum of (x - m))
 *               d loss / d x_i = w (p_i - t_i)
 *               without smoothing:  loss = ln s - (x_y - m),  t_i = 0, and 1 where i = y
 *     sigmoid   per output z with target y, of C:  e = exp(-|z|),  p = 1 / (1 + e), or e / (1 + e)
 *               where z < 0,  t = fma(a, y, b), without smoothing y
 *               loss = flat sum of (fma(-z, t, max(z, 0)) + ln(1 + e)) / C
 *               d loss / d z = (w / C) (p - t)
 *     squared   per output, d = p - y:  loss = flat sum of d^2 / C,  d loss / d p = (w (2 / C)) d
 *     absolute  loss = flat sum of |d| / C,  d loss / d p = (w / C) sign d,  sign 0 = 0
 */
#include "kernels/reference/reference.h"

static float weight_of(const float *weight, size_t row) { return weight ? weight[row] : 1.0f; }

/* -- softmax ----------------------------------------------------------------------------------- */

/* The class of the largest element: the lowest of equals, the last NaN if there is one. */
static size_t largest_at(const float *x, size_t classes)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++) {
        if (x[i] > x[best] || x[i] != x[i]) best = i;
    }
    return best;
}

/* Classes that rank before the label. */
static int32_t place_of(const float *x, size_t classes, size_t label)
{
    int32_t before = 0;
    for (size_t i = 0; i < classes; i++) {
        if (x[i] != x[i]) return (int32_t)classes;
        before += x[i] > x[label] || (x[i] == x[label] && i < label);
    }
    return before;
}

static void softmax_gradient(const ls_softmax_loss_args *args, size_t row, float m, float s)
{
    const size_t begin = row * args->classes;
    const float w = weight_of(args->weight, row) * args->loss_scale;
    const float rest = args->smooth_all;
    const float hot = rest == 0.0f ? 1.0f : rest + args->smooth_hot;
    for (size_t i = 0; i < args->classes; i++) {
        const float p = ls_expf(args->logits[begin + i] - m) / s;
        args->dlogits[begin + i] = w * (p - (i == (size_t)args->label[row] ? hot : rest));
    }
}

static void softmax_row(const ls_softmax_loss_args *args, size_t row)
{
    const float *x = args->logits + row * args->classes;
    const size_t best = largest_at(x, args->classes);
    const float m = x[best];
    ls_flat_f32 exponentials, distances;
    ls_flat_init_f32(&exponentials);
    ls_flat_init_f32(&distances);
    for (size_t i = 0; i < args->classes; i++) {
        ls_flat_add_f32(&exponentials, ls_expf(x[i] - m), 1.0f);
        ls_flat_add_f32(&distances, x[i] - m, 1.0f);
    }
    const float s = ls_flat_end_f32(&exponentials);
    for (size_t i = 0; args->probability && i < args->classes; i++) {
        args->probability[row * args->classes + i] = ls_expf(x[i] - m) / s;
    }
    if (args->predicted) args->predicted[row] = (int32_t)best;
    if (args->dlogits) softmax_gradient(args, row, m, s);
    if (args->place) {
        args->place[row] = place_of(x, args->classes, (size_t)args->label[row]);
    }
    if (args->loss) {
        const float hot = x[args->label[row]] - m;
        const float all = args->smooth_all * ls_flat_end_f32(&distances);
        args->loss[row] = ls_logf(s)
            - (args->smooth_all == 0.0f ? hot : ls_fmaf(args->smooth_hot, hot, all));
    }
}

ls_status ls_softmax_loss_reference(ls_stream *stream, const ls_softmax_loss_args *args)
{
    (void)stream;
    for (size_t row = 0; row < args->samples; row++) softmax_row(args, row);
    return LS_OK;
}

/* -- sigmoid ----------------------------------------------------------------------------------- */

static float target_of(const ls_sigmoid_loss_args *args, size_t row, size_t output)
{
    if (args->label == NULL) return args->target[row * args->outputs + output];
    const int32_t hot = args->outputs == 1 ? 1 : (int32_t)output;
    return args->label[row] == hot ? 1.0f : 0.0f;
}

static void sigmoid_places(const ls_sigmoid_loss_args *args, size_t row)
{
    const float *z = args->logits + row * args->outputs;
    const bool two = args->outputs == 1;
    const float scores[2] = { 0.0f, z[0] };
    const float *x = two ? scores : z;
    const size_t classes = two ? 2 : args->outputs;
    const size_t best = two ? z[0] > 0.0f : largest_at(x, classes);
    if (args->predicted) args->predicted[row] = (int32_t)best;
    if (args->place) args->place[row] = place_of(x, classes, (size_t)args->label[row]);
}

static void sigmoid_row(const ls_sigmoid_loss_args *args, size_t row)
{
    const float C = (float)args->outputs;
    const float factor = weight_of(args->weight, row) * args->loss_scale / C;
    ls_flat_f32 loss, square, absolute;
    ls_flat_init_f32(&loss);
    ls_flat_init_f32(&square);
    ls_flat_init_f32(&absolute);
    for (size_t i = 0; i < args->outputs; i++) {
        const size_t at = row * args->outputs + i;
        const bool compares = args->label || args->target;
        const float z = args->logits[at], y = compares ? target_of(args, row, i) : 0.0f;
        const float t = args->smooth_all == 0.0f ? y
                        : ls_fmaf(args->smooth_hot, y, args->smooth_all);
        const float e = ls_expf(z < 0.0f ? z : -z);
        const float p = (z < 0.0f ? e : 1.0f) / (1.0f + e);
        const float d = p - y;
        ls_flat_add_f32(&loss, ls_fmaf(-z, t, z > 0.0f ? z : 0.0f) + ls_logf(1.0f + e), 1.0f);
        ls_flat_add_f32(&square, d, d);
        ls_flat_add_f32(&absolute, d < 0.0f ? -d : d, 1.0f);
        if (args->dlogits) args->dlogits[at] = factor * (p - t);
        if (args->probability) args->probability[at] = p;
    }
    if (args->loss) args->loss[row] = ls_flat_end_f32(&loss) / C;
    if (args->squared_error) args->squared_error[row] = ls_flat_end_f32(&square) / C;
    if (args->absolute_error) args->absolute_error[row] = ls_flat_end_f32(&absolute) / C;
    sigmoid_places(args, row);
}

ls_status ls_sigmoid_loss_reference(ls_stream *stream, const ls_sigmoid_loss_args *args)
{
    (void)stream;
    for (size_t row = 0; row < args->samples; row++) sigmoid_row(args, row);
    return LS_OK;
}

/* -- errors ------------------------------------------------------------------------------------ */

static void regression_row(const ls_regression_loss_args *args, size_t row)
{
    const size_t begin = row * args->outputs;
    const bool squared = args->kind == LS_REGRESSION_SQUARED;
    const float C = (float)args->outputs;
    const float w = weight_of(args->weight, row) * args->loss_scale;
    const float factor = squared ? w * (2.0f / C) : w / C;
    ls_flat_f32 square, absolute;
    ls_flat_init_f32(&square);
    ls_flat_init_f32(&absolute);
    for (size_t i = begin; i < begin + args->outputs; i++) {
        const float d = args->prediction[i] - args->target[i];
        const float sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d; /* a NaN passes */
        ls_flat_add_f32(&square, d, d);
        ls_flat_add_f32(&absolute, d < 0.0f ? -d : d, 1.0f);
        if (args->dprediction) args->dprediction[i] = factor * (squared ? d : sign);
    }
    const float squares = ls_flat_end_f32(&square) / C;
    const float absolutes = ls_flat_end_f32(&absolute) / C;
    if (args->loss) args->loss[row] = squared ? squares : absolutes;
    if (args->absolute_error) args->absolute_error[row] = absolutes;
    if (args->squared_error) args->squared_error[row] = squares;
}

ls_status ls_regression_loss_reference(ls_stream *stream, const ls_regression_loss_args *args)
{
    (void)stream;
    for (size_t row = 0; row < args->samples; row++) regression_row(args, row);
    return LS_OK;
}
