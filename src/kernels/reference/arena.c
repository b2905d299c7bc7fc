/* SPDX-License-Identifier: MIT */
/* arena.c -- reference: finishing the gradient, the optimizers' update, norms of the weights.
 *
 * The definition of the bits (docs/numerics.md 6), tensor by tensor, element by element. Norms are
 * flat sums in double, each tensor counted from its own start.
 */
#include "kernels/reference/reference.h"

#include <math.h>

static float sign_of(float w) { return w > 0.0f ? 1.0f : w < 0.0f ? -1.0f : 0.0f; }

static double square(float x) { return (double)x * (double)x; }

static void gradient_finish_tensor(const ls_gradient_finish_args *args, int t)
{
    const ls_arena_tensor tensor = args->tensors->host[t];
    const float *w = args->w + tensor.begin;
    float *g = args->g + tensor.begin;
    uint64_t nonfinite = LS_ALL_FINITE;
    ls_flat_f64 sum;
    ls_flat_init_f64(&sum);
    for (size_t i = 0; i < tensor.count; i++) {
        if (nonfinite == LS_ALL_FINITE && !ls_is_finite(g[i])) nonfinite = i;
        g[i] = g[i] * args->scale;
        if (tensor.l2_twice != 0.0f) g[i] = ls_fmaf(tensor.l2_twice, w[i], g[i]);
        if (tensor.l1 != 0.0f) g[i] = g[i] + tensor.l1 * sign_of(w[i]);
        ls_flat_add_f64(&sum, square(g[i]));
    }
    args->square_sum[t] = ls_flat_end_f64(&sum);
    args->nonfinite[t] = nonfinite;
}

ls_status ls_gradient_finish_reference(ls_stream *stream, const ls_gradient_finish_args *args)
{
    (void)stream;
    for (int t = 0; t < args->tensors->count; t++) gradient_finish_tensor(args, t);
    return LS_OK;
}

ls_status ls_weight_sums_reference(ls_stream *stream, const ls_weight_sums_args *args)
{
    (void)stream;
    for (int t = 0; t < args->tensors->count; t++) {
        const ls_arena_tensor tensor = args->tensors->host[t];
        ls_flat_f64 squares, absolutes;
        ls_flat_init_f64(&squares);
        ls_flat_init_f64(&absolutes);
        for (size_t i = tensor.begin; i < tensor.begin + tensor.count; i++) {
            const float w = args->w[i];
            ls_flat_add_f64(&squares, square(w));
            ls_flat_add_f64(&absolutes, (double)(w < 0.0f ? -w : w));
        }
        args->square_sum[t] = ls_flat_end_f64(&squares);
        args->absolute_sum[t] = ls_flat_end_f64(&absolutes);
    }
    return LS_OK;
}

/* The gradient of element i after clipping. */
static float clipped(const ls_update_args *args, const ls_tensor_step *step, size_t i)
{
    const float g = args->g[i] * step->clip, most = args->clip_value;
    if (most == 0.0f) return g;
    return g > most ? most : g < -most ? -most : g;
}

/* The new weight of element i of the arena, from the decayed one; its slots are stored, flushed. */
static float updated(const ls_update_args *args, float rate, float g, float w, size_t i)
{
    switch (args->optimizer) {
    case LS_OPTIMIZER_SGD:
        return ls_fmaf(-rate, g, w);
    case LS_OPTIMIZER_MOMENTUM:
    case LS_OPTIMIZER_NESTEROV: {
        const float u = ls_fmaf(args->momentum, args->slot0[i], -(rate * g));
        args->slot0[i] = ls_slot_flush(u);
        if (args->optimizer == LS_OPTIMIZER_MOMENTUM) return w + u;
        return w + ls_fmaf(args->momentum, u, -(rate * g));
    }
    case LS_OPTIMIZER_RMSPROP: {
        const float v =
            ls_fmaf(args->one_minus_rho, ls_fmaf(g, g, -args->slot0[i]), args->slot0[i]);
        args->slot0[i] = ls_slot_flush(v);
        return ls_fmaf(-rate, g / sqrtf(v + args->epsilon), w);
    }
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW: break;
    }
    const float m = ls_fmaf(args->one_minus_beta1, g - args->slot0[i], args->slot0[i]);
    const float v = ls_fmaf(args->one_minus_beta2, ls_fmaf(g, g, -args->slot1[i]), args->slot1[i]);
    args->slot0[i] = ls_slot_flush(m);
    args->slot1[i] = ls_slot_flush(v);
    return ls_fmaf(-rate, m / (sqrtf(v) + args->epsilon), w);
}

/* Element i of a tensor that is not frozen. Returns what was added to the weight. */
static float update_element(const ls_update_args *args, const ls_tensor_step *step, size_t i)
{
    const float old = args->w[i];
    float w = old;
    if (step->decay != 0.0f) w = ls_fmaf(-step->decay, w, w);
    w = updated(args, step->rate, clipped(args, step, i), w, i);
    args->w[i] = w;
    if (args->average) {
        args->average[i] = ls_fmaf(args->one_minus_ema, w - args->average[i], args->average[i]);
    }
    return w - old;
}

/* Of the tensors of an arena whose padding is zero. */
static uint64_t arena_digest(const ls_arena_table *tensors, const float *x)
{
    uint64_t digest = LS_DIGEST_START;
    for (int t = 0; t < tensors->count; t++) {
        const ls_arena_tensor tensor = tensors->host[t];
        for (size_t i = tensor.begin; i < tensor.begin + tensor.count; i++)
            digest += ls_digest_term(i, x[i]);
    }
    return digest;
}

ls_status ls_update_reference(ls_stream *stream, const ls_update_args *args)
{
    if (args->sums_digest) *args->sums_digest = arena_digest(args->tensors, args->g);
    if (args->finish) LS_TRY(ls_gradient_finish_reference(stream, args->finish));
    for (int t = 0; t < args->tensors->count; t++) {
        const ls_arena_tensor tensor = args->tensors->host[t];
        const ls_tensor_step *step = &args->step_host[t];
        ls_flat_f64 sum;
        ls_flat_init_f64(&sum);
        for (size_t i = tensor.begin; i < tensor.begin + tensor.count && !step->frozen; i++)
            ls_flat_add_f64(&sum, square(update_element(args, step, i)));
        args->update_square_sum[t] = ls_flat_end_f64(&sum);
    }
    *args->digest = arena_digest(args->tensors, args->w);
    return LS_OK;
}
