/* SPDX-License-Identifier: MIT */
/* reference.h -- the ops once more, as textbook sums in double, sharing no code with src/.
 *
 * Each sum comes with its magnitude, the sum of the absolute terms: a float chain of K terms
 * differs from the exact sum by at most about K * 2^-24 * magnitude (N. J. Higham, Accuracy and
 * Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 3.1), so a test can bound the
 * difference of every element without a guess.
 */
#ifndef TEST_SUPPORT_REFERENCE_H
#define TEST_SUPPORT_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double value, magnitude;
} exact_sum;

/* op(A)[M,K] op(B)[K,N], row-major, element (m, n). */
typedef struct {
    size_t M, N, K;
    bool transpose_a, transpose_b;
    const float *A, *B;
} exact_product;
exact_sum exact_product_at(const exact_product *p, size_t m, size_t n);

/* A convolution with signed extents, so that a tap in the padding is simply one out of range. */
typedef struct {
    long N, H, W, C; /* x [N,H,W,C] */
    long F, R, S;    /* w [F,R,S,C] */
    long P, Q;       /* y [N,P,Q,F] */
    long stride_h, stride_w, pad_h, pad_w;
    const float *x, *w, *dy;
} exact_conv;
exact_sum exact_conv_y(const exact_conv *c, long n, long p, long q, long f);
exact_sum exact_conv_dx(const exact_conv *c, long n, long h, long w, long channel);
exact_sum exact_conv_dw(const exact_conv *c, long first_n, long last_n, long f, long r, long s,
                        long channel);

/* How far from sum.value a float chain of `terms` terms may end. */
double exact_tolerance(exact_sum sum, size_t terms);

#endif
