/* SPDX-License-Identifier: MIT */
/* loss.c -- reference: softmax cross-entropy and squared error, row by row.
 *
 * The definition of the bits (docs/numerics.md 5); a row's arithmetic is float. With x the logits,
 * label y and weight w,
 *     m = the largest x (a scan: replaced by what is larger or a NaN)
 *     e = exp(x - m),  s = flat sum of e,  p = e / s
 *     loss = ln s - (x_y - m),  d loss / d x_i = w (p_i - [i = y])
 * and for C predictions p and targets t, with d = p - t,
 *     loss = flat sum of d^2 / C,  d loss / d p = (w (2 / C)) d,  error = flat sum of |d| / C.
 */
#include "kernels/reference/reference.h"

static float weight_of(const float *weight, size_t row) { return weight ? weight[row] : 1.0f; }

/* The class of the largest element: the lowest of equals, the last NaN if there is one. */
static size_t largest_at(const float *x, size_t classes)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++) {
        if (x[i] > x[best] || x[i] != x[i]) best = i;
    }
    return best;
}

static void softmax_row(const ls_softmax_loss_args *args, size_t row)
{
    const float *x = args->logits + row * args->classes;
    const size_t best = largest_at(x, args->classes);
    const float m = x[best];
    ls_flat_f32 exponentials;
    ls_flat_init_f32(&exponentials);
    for (size_t i = 0; i < args->classes; i++) {
        ls_flat_add_f32(&exponentials, ls_expf(x[i] - m), 1.0f);
    }
    const float s = ls_flat_end_f32(&exponentials);
    const float w = weight_of(args->weight, row);
    for (size_t i = 0; i < args->classes; i++) {
        const float p = ls_expf(x[i] - m) / s;
        if (args->probability) args->probability[row * args->classes + i] = p;
        if (args->dlogits) {
            const float hot = i == (size_t)args->label[row] ? 1.0f : 0.0f;
            args->dlogits[row * args->classes + i] = w * (p - hot);
        }
    }
    if (args->loss) args->loss[row] = ls_logf(s) - (x[args->label[row]] - m);
    if (args->correct) args->correct[row] = best == (size_t)args->label[row];
}

ls_status ls_softmax_loss_reference(ls_stream *stream, const ls_softmax_loss_args *args)
{
    (void)stream;
    for (size_t row = 0; row < args->samples; row++) softmax_row(args, row);
    return LS_OK;
}

static void squared_row(const ls_squared_loss_args *args, size_t row)
{
    const size_t begin = row * args->outputs;
    const float C = (float)args->outputs;
    const float factor = weight_of(args->weight, row) * (2.0f / C);
    ls_flat_f32 square, absolute;
    ls_flat_init_f32(&square);
    ls_flat_init_f32(&absolute);
    for (size_t i = begin; i < begin + args->outputs; i++) {
        const float d = args->prediction[i] - args->target[i];
        ls_flat_add_f32(&square, d, d);
        ls_flat_add_f32(&absolute, d < 0.0f ? -d : d, 1.0f);
        if (args->dprediction) args->dprediction[i] = factor * d;
    }
    if (args->loss) args->loss[row] = ls_flat_end_f32(&square) / C;
    if (args->absolute_error) args->absolute_error[row] = ls_flat_end_f32(&absolute) / C;
}

ls_status ls_squared_loss_reference(ls_stream *stream, const ls_squared_loss_args *args)
{
    (void)stream;
    for (size_t row = 0; row < args->samples; row++) squared_row(args, row);
    return LS_OK;
}
