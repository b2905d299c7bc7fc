/* SPDX-License-Identifier: MIT */
/* convolution.h -- a convolution with its arrays, its three ops on one machine, and on all of them.
 *
 * Arrays are of their exact length, so that the address sanitizer sees any step outside, and
 * outputs begin as NaN, which an op must overwrite. Only the main thread may call these: they
 * assert.
 */
#ifndef TEST_SUPPORT_CONVOLUTION_H
#define TEST_SUPPORT_CONVOLUTION_H

#include "kernels/kernels.h"
#include "support/machines.h"
#include "support/naive.h"

/* The arrays of one convolution, each of its exact length. */
typedef struct {
    ls_conv_shape shape;
    float *x, *w, *bias, *dy; /* owned */
} convolution;

/* A square kernel; output extents follow: `pad` rows and columns before, `extra` after. */
ls_conv_shape shape_of(size_t samples, size_t height, size_t width, size_t channels,
                       size_t filters, size_t kernel, size_t stride, size_t pad, size_t extra);
size_t x_floats(const ls_conv_shape *shape);
size_t y_floats(const ls_conv_shape *shape);
size_t w_floats(const ls_conv_shape *shape);

/* Values of naive_values(mix); of dy half are zeros of both signs, as after a relu. */
convolution convolution_of(naive_random *n, ls_conv_shape shape, int mix);
void convolution_free(convolution *c);

/* How a batch is shared: V shards, of which rank `rank` of N has some, in A passes. */
typedef struct {
    int V, N, rank, A;
} sharing;

/* The ops on one machine. The results are the caller's, to be freed. */
float *run_forward(const convolution *c, machine *m, bool with_bias, bool relu);
float *run_input_gradient(const convolution *c, machine *m);
/* All pieces after all passes, w_floats + 3 apart, NaN in between; row r of pass k is the sample
 * that ls_fold_sample_at says, as in training. No pass finds scratch memory as another left it. */
float *run_weight_gradient(const convolution *c, machine *m, sharing s, size_t *count);

/* All three on every machine: the bits of the first. Fails the test where they differ. */
void convolution_check_twins(machines *set, const convolution *c, sharing s, bool with_bias,
                             bool relu);
/* Fail unless got[count], which is freed, has the bits of want[count]. */
void convolution_check_equal(const convolution *c, const char *op, const machine *m,
                             const float *want, float *got, size_t count);

#endif
