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

/* The new weight of element i of the arena; its slots are stored, flushed. */
static float updated(const ls_update_args *args, size_t i)
{
    const float g = args->g[i], w = args->w[i];
    if (args->optimizer == LS_OPTIMIZER_SGD) return ls_fmaf(-args->rate, g, w);
    if (args->optimizer == LS_OPTIMIZER_MOMENTUM) {
        const float u = ls_fmaf(args->momentum, args->slot0[i], -(args->rate * g));
        args->slot0[i] = ls_slot_flush(u);
        return w + u;
    }
    const float m = ls_fmaf(args->one_minus_beta1, g - args->slot0[i], args->slot0[i]);
    const float v =
        ls_fmaf(args->one_minus_beta2, ls_fmaf(g, g, -args->slot1[i]), args->slot1[i]);
    args->slot0[i] = ls_slot_flush(m);
    args->slot1[i] = ls_slot_flush(v);
    return ls_fmaf(-args->rate, m / (sqrtf(v) + args->epsilon), w);
}

ls_status ls_update_reference(ls_stream *stream, const ls_update_args *args)
{
    (void)stream;
    uint64_t digest = LS_DIGEST_START;
    for (int t = 0; t < args->tensors->count; t++) {
        const ls_arena_tensor tensor = args->tensors->host[t];
        ls_flat_f64 sum;
        ls_flat_init_f64(&sum);
        for (size_t i = tensor.begin; i < tensor.begin + tensor.count; i++) {
            const float w = updated(args, i);
            ls_flat_add_f64(&sum, square(w - args->w[i]));
            args->w[i] = w;
            digest += ls_digest_term(i, w);
        }
        args->update_square_sum[t] = ls_flat_end_f64(&sum);
    }
    *args->digest = digest;
    return LS_OK;
}
