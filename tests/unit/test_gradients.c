/* SPDX-License-Identifier: MIT */
/* test_gradients.c -- convolution, product and pooling against finite differences (differences.h).
 */
#include "support/test.h"

#include <math.h>

#include "support/differences.h"

/* -- convolution, and the dense layer as its 1 x 1 case ---------------------------------------- */

/* Either x or w is what varies; the other is fixed. */
typedef struct {
    ls_conv_shape shape;
    const double *x, *w, *bias; /* the one that varies is NULL */
} conv_op;

static size_t conv_inputs(const ls_conv_shape *s)
{
    return s->samples * s->height * s->width * s->channels;
}

static size_t conv_weights(const ls_conv_shape *s)
{
    return s->filters * s->kernel_height * s->kernel_width * s->channels;
}

static size_t conv_outputs(const ls_conv_shape *s)
{
    return s->samples * s->out_height * s->out_width * s->filters;
}

static double conv_one(const conv_op *op, const double *x, const double *w, size_t o)
{
    const ls_conv_shape *s = &op->shape;
    const size_t f = o % s->filters, ow = o / s->filters % s->out_width;
    const size_t oh = o / s->filters / s->out_width % s->out_height;
    const size_t n = o / s->filters / s->out_width / s->out_height;
    double sum = 0.0;
    for (size_t t = 0; t < s->kernel_height * s->kernel_width; t++) {
        const long h = (long)(oh * s->stride_height + t / s->kernel_width) - (long)s->pad_top;
        const long v = (long)(ow * s->stride_width + t % s->kernel_width) - (long)s->pad_left;
        if (h < 0 || v < 0 || h >= (long)s->height || v >= (long)s->width) continue;
        for (size_t c = 0; c < s->channels; c++) {
            sum += x[((n * s->height + (size_t)h) * s->width + (size_t)v) * s->channels + c] *
                   w[(f * s->kernel_height * s->kernel_width + t) * s->channels + c];
        }
    }
    return sum;
}

static void conv_forward(const void *op_, const double *varied, double *y)
{
    const conv_op *op = op_;
    const double *x = op->x ? op->x : varied, *w = op->w ? op->w : varied;
    for (size_t o = 0; o < conv_outputs(&op->shape); o++) {
        y[o] = conv_one(op, x, w, o) + (op->bias ? op->bias[o % op->shape.filters] : 0.0);
    }
}

static void bias_forward(const void *op_, const double *bias, double *y)
{
    const conv_op *op = op_;
    for (size_t o = 0; o < conv_outputs(&op->shape); o++) y[o] = bias[o % op->shape.filters];
}

static void check_conv_on(machine *m, const ls_conv_shape *s, const float *x, const float *w,
                          const float *bias, const float *dy)
{
    const size_t inputs = conv_inputs(s), weights = conv_weights(s), outputs = conv_outputs(s);
    const ls_fold fold = { .leaf_count = 2, .piece_count = 1, .slot_count = 2, .shard = { 0, 1 },
                           .sample = { 0, s->samples / 2, s->samples },
                           .merge_count = { 0, 1 }, .merge = { { 0 }, { 1 } },
                           .store = { 1, 0 } };
    float *y = malloc(outputs * sizeof *y), *dx = malloc(inputs * sizeof *dx);
    float *dw = malloc(weights * sizeof *dw), *db = malloc(s->filters * sizeof *db);
    double *x64 = doubles_of(x, inputs), *w64 = doubles_of(w, weights);
    double *bias64 = doubles_of(bias, s->filters);
    assert_int_equal(ls_conv_forward(&m->stream, &(ls_conv_forward_args){ *s, false, x, w, bias,
                                                                          y }),
                     LS_OK);
    assert_int_equal(
        ls_conv_input_gradient(&m->stream, &(ls_conv_input_gradient_args){ *s, dy, w, dx }),
        LS_OK);
    assert_int_equal(ls_conv_weight_gradient(&m->stream,
                                             &(ls_conv_weight_gradient_args){ *s, &fold, x, dy,
                                                                              dw, weights }),
                     LS_OK);
    assert_int_equal(ls_batch_sum(&m->stream,
                                  &(ls_batch_sum_args){ s->out_height, s->out_width, s->filters,
                                                        &fold, dy, db, s->filters }),
                     LS_OK);
    const conv_op of_x = { *s, NULL, w64, bias64 }, of_w = { *s, x64, NULL, bias64 };
    check_forward("conv", conv_forward, &of_x, x, inputs, y, outputs, 2e-5);
    check_gradient("conv dx", m->name, conv_forward, &of_x, x, inputs, dy, outputs, dx, 2e-5);
    check_gradient("conv dw", m->name, conv_forward, &of_w, w, weights, dy, outputs, dw, 5e-5);
    check_gradient("conv db", m->name, bias_forward, &of_x, bias, s->filters, dy, outputs, db,
                   5e-5);
    free(y);
    free(dx);
    free(dw);
    free(db);
    free(x64);
    free(w64);
    free(bias64);
}

static void check_conv(const ls_conv_shape *s, uint64_t seed)
{
    naive_random random = { seed };
    float *x = naive_values(&random, conv_inputs(s), 0);
    float *w = naive_values(&random, conv_weights(s), 0);
    float *bias = naive_values(&random, s->filters, 0);
    float *dy = naive_values(&random, conv_outputs(s), 0);
    for (int i = 0; i < 2; i++) check_conv_on(machine_at(i), s, x, w, bias, dy);
    free(x);
    free(w);
    free(bias);
    free(dy);
}

static void test_convolutions_have_the_gradients_of_their_differences(void **state)
{
    (void)state;
    check_conv(&(ls_conv_shape){ 3, 5, 6, 2, 3, 3, 3, 1, 1, 0, 0, 3, 4 }, 1); /* valid */
    check_conv(&(ls_conv_shape){ 3, 5, 6, 2, 3, 3, 3, 1, 1, 1, 1, 5, 6 }, 2); /* same */
    check_conv(&(ls_conv_shape){ 2, 7, 6, 3, 2, 3, 2, 2, 3, 1, 0, 4, 2 }, 3); /* strides */
    check_conv(&(ls_conv_shape){ 2, 6, 5, 2, 4, 1, 1, 2, 2, 0, 0, 3, 3 }, 4); /* 1 x 1 */
    check_conv(&(ls_conv_shape){ 2, 4, 4, 1, 1, 4, 4, 1, 1, 0, 0, 1, 1 }, 5); /* whole image */
}

static void test_a_dense_layer_is_the_one_by_one_convolution(void **state)
{
    (void)state;
    check_conv(&(ls_conv_shape){ 5, 1, 1, 17, 9, 1, 1, 1, 1, 0, 0, 1, 1 }, 6);
}

/* -- matrix product ---------------------------------------------------------------------------- */

/* y[M,N] = x[M,K] w[N,K]^T: a dense layer as the trainer calls it. */
typedef struct {
    size_t M, N, K;
    const double *w;
} dense_op;

static void dense_forward(const void *op_, const double *x, double *y)
{
    const dense_op *op = op_;
    for (size_t i = 0; i < op->M * op->N; i++) {
        y[i] = 0.0;
        for (size_t k = 0; k < op->K; k++) {
            y[i] += x[i / op->N * op->K + k] * op->w[i % op->N * op->K + k];
        }
    }
}

static void test_a_dense_layers_input_gradient_is_a_product(void **state)
{
    (void)state;
    enum { M = 7, N = 10, K = 33 };
    naive_random random = { 7 };
    float *x = naive_values(&random, M * K, 0), *w = naive_values(&random, N * K, 0);
    float *dy = naive_values(&random, M * N, 0), y[M * N], dx[M * K];
    double *w64 = doubles_of(w, N * K);
    const dense_op op = { M, N, K, w64 };
    for (int i = 0; i < 2; i++) {
        machine *m = machine_at(i);
        const ls_gemm_args forward = { .M = M, .N = N, .K = K, .transpose_b = true, .A = x,
                                       .B = w, .C = y };
        const ls_gemm_args backward = { .M = M, .N = K, .K = N, .A = dy, .B = w, .C = dx };
        assert_int_equal(ls_gemm(&m->stream, &forward), LS_OK);
        assert_int_equal(ls_gemm(&m->stream, &backward), LS_OK);
        check_forward("dense", dense_forward, &op, x, M * K, y, M * N, 2e-5);
        check_gradient("dense dx", m->name, dense_forward, &op, x, M * K, dy, M * N, dx, 2e-5);
    }
    free(x);
    free(w);
    free(dy);
    free(w64);
}

/* -- pooling ----------------------------------------------------------------------------------- */

static void pool_forward(const void *op, const double *x, double *y)
{
    const ls_pool_shape *s = op;
    for (size_t o = 0; o < s->samples * s->out_height * s->out_width * s->channels; o++) {
        const size_t c = o % s->channels, ow = o / s->channels % s->out_width;
        const size_t oh = o / s->channels / s->out_width % s->out_height;
        const size_t n = o / s->channels / s->out_width / s->out_height;
        y[o] = -INFINITY;
        for (size_t h = 0; h < s->height; h++) {
            for (size_t w = 0; w < s->width; w++) {
                const size_t i = h + s->pad_top - oh * s->stride_height;
                const size_t j = w + s->pad_left - ow * s->stride_width;
                if (i >= s->window_height || j >= s->window_width) continue;
                y[o] = fmax(y[o], x[((n * s->height + h) * s->width + w) * s->channels + c]);
            }
        }
    }
}

static void check_pool(const ls_pool_shape *s, uint64_t seed)
{
    naive_random random = { seed };
    const size_t inputs = s->samples * s->height * s->width * s->channels;
    const size_t outputs = s->samples * s->out_height * s->out_width * s->channels;
    float *x = apart(&random, inputs), *dy = naive_values(&random, outputs, 0);
    float *y = malloc(outputs * sizeof *y), *dx = malloc(inputs * sizeof *dx);
    uint8_t *place = malloc(outputs);
    for (int i = 0; i < 2; i++) {
        machine *m = machine_at(i);
        assert_int_equal(ls_max_pool(&m->stream, &(ls_max_pool_args){ *s, x, y, place }), LS_OK);
        assert_int_equal(ls_max_pool_gradient(
                             &m->stream, &(ls_max_pool_gradient_args){
                                 .shape = *s, .dy = dy, .place = place, .dx = dx }),
                         LS_OK);
        check_forward("max_pool", pool_forward, s, x, inputs, y, outputs, 0.0);
        check_gradient("max_pool", m->name, pool_forward, s, x, inputs, dy, outputs, dx, 1e-5);
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(place);
}

static void test_max_pooling_has_the_gradient_of_its_differences(void **state)
{
    (void)state;
    check_pool(&(ls_pool_shape){ 2, 6, 4, 5, 2, 2, 2, 2, 0, 0, 3, 2 }, 1);
    check_pool(&(ls_pool_shape){ 2, 7, 6, 3, 3, 3, 2, 2, 1, 1, 4, 3 }, 2);
    check_pool(&(ls_pool_shape){ 2, 5, 5, 2, 3, 2, 1, 1, 0, 0, 3, 4 }, 3);
}

static void average_forward(const void *op, const double *x, double *y)
{
    const ls_pool_shape *s = op;
    for (size_t o = 0; o < s->samples * s->out_height * s->out_width * s->channels; o++) {
        const size_t c = o % s->channels, ow = o / s->channels % s->out_width;
        const size_t oh = o / s->channels / s->out_width % s->out_height;
        const size_t n = o / s->channels / s->out_width / s->out_height;
        double sum = 0.0, places = 0.0;
        for (size_t h = 0; h < s->height; h++) {
            for (size_t w = 0; w < s->width; w++) {
                const size_t i = h + s->pad_top - oh * s->stride_height;
                const size_t j = w + s->pad_left - ow * s->stride_width;
                if (i >= s->window_height || j >= s->window_width) continue;
                sum += x[((n * s->height + h) * s->width + w) * s->channels + c];
                places += 1.0;
            }
        }
        y[o] = sum / places;
    }
}

static void check_average(const ls_pool_shape *s, uint64_t seed)
{
    naive_random random = { seed };
    const size_t inputs = s->samples * s->height * s->width * s->channels;
    const size_t outputs = s->samples * s->out_height * s->out_width * s->channels;
    float *x = naive_values(&random, inputs, 0), *dy = naive_values(&random, outputs, 0);
    float *y = malloc(outputs * sizeof *y), *dx = malloc(inputs * sizeof *dx);
    for (int i = 0; i < 2; i++) {
        machine *m = machine_at(i);
        assert_int_equal(ls_average_pool(&m->stream, &(ls_average_pool_args){ *s, x, y }), LS_OK);
        assert_int_equal(ls_average_pool_gradient(
                             &m->stream, &(ls_average_pool_gradient_args){ *s, dy, dx }), LS_OK);
        check_forward("average", average_forward, s, x, inputs, y, outputs, 1e-6);
        check_gradient("average", m->name, average_forward, s, x, inputs, dy, outputs, dx, 1e-5);
    }
    free(x);
    free(dy);
    free(y);
    free(dx);
}

static void test_average_pooling_has_the_gradient_of_its_differences(void **state)
{
    (void)state;
    check_average(&(ls_pool_shape){ 2, 6, 4, 5, 2, 2, 2, 2, 0, 0, 3, 2 }, 1);
    check_average(&(ls_pool_shape){ 2, 7, 6, 3, 3, 3, 2, 2, 1, 1, 4, 3 }, 2);
    check_average(&(ls_pool_shape){ 2, 5, 5, 2, 3, 2, 1, 1, 0, 0, 3, 4 }, 3);
    check_average(&(ls_pool_shape){ 2, 5, 6, 3, 5, 6, 1, 1, 0, 0, 1, 1 }, 4); /* global */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_have_the_gradients_of_their_differences),
        cmocka_unit_test(test_a_dense_layer_is_the_one_by_one_convolution),
        cmocka_unit_test(test_a_dense_layers_input_gradient_is_a_product),
        cmocka_unit_test(test_max_pooling_has_the_gradient_of_its_differences),
        cmocka_unit_test(test_average_pooling_has_the_gradient_of_its_differences),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
