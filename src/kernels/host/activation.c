/* SPDX-License-Identifier: MIT */
/* activation.c -- host: the activations and their gradients, vectorised.
 *
 * The lines of activation.h in a loop of their own for each kind, so that the compiler sees no
 * branch. `ivdep` says what kernels.h does: where output and input are one buffer, an element is
 * read before it is written and no other is touched.
 */
#include "kernels/activation.h"
#include "kernels/host/host.h"
#include "kernels/host/ranges.h"

enum { GRAIN = 32768 };

/* X(kind) for every activation. */
#define EVERY_KIND(X)                                                                             \
    X(LS_ACTIVATION_RELU)                                                                         \
    X(LS_ACTIVATION_LEAKY_RELU)                                                                   \
    X(LS_ACTIVATION_SIGMOID)                                                                      \
    X(LS_ACTIVATION_TANH)                                                                         \
    X(LS_ACTIVATION_GELU)                                                                         \
    X(LS_ACTIVATION_SILU)

LS_ALWAYS_INLINE void activate_kind(ls_activation kind, float slope, size_t count, const float *x,
                                    float *y)
{
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) y[i] = ls_activation_of(kind, slope, x[i]);
}

static void activate_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_activate_args *args = args_;
    switch (args->kind) {
#define ACTIVATE(kind)                                                                            \
    case kind:                                                                                    \
        activate_kind(kind, args->slope, end - begin, args->x + begin, args->y + begin);          \
        break;
        EVERY_KIND(ACTIVATE)
#undef ACTIVATE
    }
}

ls_status LS_HOST(activate)(ls_stream *stream, const ls_activate_args *args)
{
    ls_range_run(stream, args->count, GRAIN, activate_range, args);
    return LS_OK;
}

/* `from` is y or x, as ls_activation_derives_from_y says. */
LS_ALWAYS_INLINE void derive_kind(ls_activation kind, float slope, size_t count, const float *from,
                                  const float *dy, float *dx)
{
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        dx[i] = ls_activation_gradient_of(kind, slope, from[i], dy[i]);
    }
}

static void derive_range(const void *args_, size_t begin, size_t end, int thread)
{
    (void)thread;
    const ls_activate_gradient_args *args = args_;
    const float *from = ls_activation_derives_from_y(args->kind) ? args->y : args->x;
    switch (args->kind) {
#define DERIVE(kind)                                                                              \
    case kind:                                                                                    \
        derive_kind(kind, args->slope, end - begin, from + begin, args->dy + begin,               \
                    args->dx + begin);                                                            \
        break;
        EVERY_KIND(DERIVE)
#undef DERIVE
    }
}

ls_status LS_HOST(activate_gradient)(ls_stream *stream, const ls_activate_gradient_args *args)
{
    ls_range_run(stream, args->count, GRAIN, derive_range, args);
    return LS_OK;
}
