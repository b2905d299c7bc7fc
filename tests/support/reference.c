/* SPDX-License-Identifier: MIT */
/* reference.c -- the ops once more, as textbook sums in double. See reference.h. */
#include "support/reference.h"

#include <math.h>

static void add(exact_sum *sum, double a, double b)
{
    sum->value += a * b;
    sum->magnitude += fabs(a * b);
}

exact_sum exact_product_at(const exact_product *p, size_t m, size_t n)
{
    exact_sum sum = {0.0, 0.0};
    for (size_t k = 0; k < p->K; k++) {
        const float a = p->transpose_a ? p->A[m + k * p->M] : p->A[k + m * p->K];
        const float b = p->transpose_b ? p->B[k + n * p->K] : p->B[n + k * p->N];
        add(&sum, (double)a, (double)b);
    }
    return sum;
}

static double at(const float *v, long n, long h, long w, long c, long H, long W, long C)
{
    if (h < 0 || h >= H || w < 0 || w >= W) return 0.0;
    return (double)v[((n * H + h) * W + w) * C + c];
}

static double weight(const exact_conv *c, long f, long r, long s, long channel)
{
    return (double)c->w[((f * c->R + r) * c->S + s) * c->C + channel];
}

exact_sum exact_conv_y(const exact_conv *c, long n, long p, long q, long f)
{
    exact_sum sum = {0.0, 0.0};
    for (long r = 0; r < c->R; r++) {
        for (long s = 0; s < c->S; s++) {
            const long h = p * c->stride_h - c->pad_h + r, w = q * c->stride_w - c->pad_w + s;
            for (long i = 0; i < c->C; i++) {
                add(&sum, at(c->x, n, h, w, i, c->H, c->W, c->C), weight(c, f, r, s, i));
            }
        }
    }
    return sum;
}

/* By the definition of a derivative: over all outputs, those that read x[n,h,w,channel]. */
exact_sum exact_conv_dx(const exact_conv *c, long n, long h, long w, long channel)
{
    exact_sum sum = {0.0, 0.0};
    for (long p = 0; p < c->P; p++) {
        const long r = h + c->pad_h - p * c->stride_h;
        if (r < 0 || r >= c->R) continue;
        for (long q = 0; q < c->Q; q++) {
            const long s = w + c->pad_w - q * c->stride_w;
            if (s < 0 || s >= c->S) continue;
            for (long f = 0; f < c->F; f++) {
                add(&sum, at(c->dy, n, p, q, f, c->P, c->Q, c->F), weight(c, f, r, s, channel));
            }
        }
    }
    return sum;
}

exact_sum exact_conv_dw(const exact_conv *c, long first_n, long last_n, long f, long r, long s,
                        long channel)
{
    exact_sum sum = {0.0, 0.0};
    for (long n = first_n; n < last_n; n++) {
        for (long p = 0; p < c->P; p++) {
            for (long q = 0; q < c->Q; q++) {
                const long h = p * c->stride_h - c->pad_h + r, w = q * c->stride_w - c->pad_w + s;
                add(&sum, at(c->x, n, h, w, channel, c->H, c->W, c->C),
                    at(c->dy, n, p, q, f, c->P, c->Q, c->F));
            }
        }
    }
    return sum;
}

double exact_tolerance(exact_sum sum, size_t terms)
{
    const double unit = 1.0 / (1 << 24);        /* of the last place, relative to the value */
    const double denormal = 1.5e-45;            /* of the last place of a denormal */
    return (double)(terms + 2) * (1.01 * unit * sum.magnitude + denormal);
}
