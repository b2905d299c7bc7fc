/* SPDX-License-Identifier: MIT */
/* test_gradients_of_losses.c -- losses, activations and dropout against finite differences
 * (differences.h).
 */
#include "support/test.h"

#include <math.h>

#include "philox.h"
#include "support/differences.h"

/* -- activations ------------------------------------------------------------------------------- */

typedef struct {
    ls_activation kind;
    double slope;
    size_t count;
} activation_op;

static void activation_forward(const void *op_, const double *x, double *y)
{
    const activation_op *op = op_;
    for (size_t i = 0; i < op->count; i++) {
        switch (op->kind) {
        case LS_ACTIVATION_RELU: y[i] = fmax(x[i], 0.0); break;
        case LS_ACTIVATION_LEAKY_RELU: y[i] = x[i] > 0.0 ? x[i] : op->slope * x[i]; break;
        case LS_ACTIVATION_SIGMOID: y[i] = 1.0 / (1.0 + exp(-x[i])); break;
        case LS_ACTIVATION_TANH: y[i] = tanh(x[i]); break;
        case LS_ACTIVATION_GELU: y[i] = 0.5 * x[i] * erfc(-x[i] / sqrt(2.0)); break;
        case LS_ACTIVATION_SILU: y[i] = x[i] / (1.0 + exp(-x[i])); break;
        }
    }
}

static void test_activations_have_the_gradients_of_their_differences(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    naive_random random = { 8 };
    float *x = apart(&random, COUNT), *dy = naive_values(&random, COUNT, 0);
    float y[COUNT], dx[COUNT];
    for (int k = 0; k < COUNT; k++) {
        x[k] *= 2.5f; /* (-7.5, 7.5) */
        x[k] += x[k] == 0.0f ? 0.001f : 0.0f; /* off the kink */
    }
    for (int kind = LS_ACTIVATION_RELU; kind <= LS_ACTIVATION_SILU; kind++) {
        const activation_op op = { (ls_activation)kind, (double)0.2f, COUNT };
        for (int i = 0; i < 2; i++) {
            machine *m = machine_at(i);
            assert_int_equal(ls_activate(&m->stream, &(ls_activate_args){
                                 op.kind, 0.2f, COUNT, x, y }), LS_OK);
            assert_int_equal(ls_activate_gradient(&m->stream, &(ls_activate_gradient_args){
                                 op.kind, 0.2f, COUNT, x, y, dy, dx }), LS_OK);
            check_forward("activation", activation_forward, &op, x, COUNT, y, COUNT, 1e-6);
            check_gradient("activation", m->name, activation_forward, &op, x, COUNT, dy, COUNT,
                           dx, 1e-6);
        }
    }
    free(x);
    free(dy);
}

/* -- dropout ----------------------------------------------------------------------------------- */

static void dropout_forward(const void *op, const double *x, double *y)
{
    const ls_dropout_args *a = op;
    for (size_t i = 0; i < a->samples * a->elements; i++) {
        const size_t e = i % a->elements, drawn = a->channels > 0 ? e % a->channels : e;
        uint32_t word[4];
        ls_random_words(a->seed, LS_RANDOM_DROPOUT, a->layer, a->epoch, a->index[i / a->elements],
                        (uint32_t)(drawn / 4), word);
        y[i] = word[drawn % 4] >= a->threshold ? x[i] * (double)a->scale : 0.0;
    }
}

static void test_dropout_of_the_gradient_is_the_gradient_of_dropout(void **state)
{
    (void)state;
    const uint32_t index[3] = { 900, 17, 4 };
    naive_random random = { 9 };
    float *x = naive_values(&random, 90, 0), *dy = naive_values(&random, 90, 0), y[90], dx[90];
    for (int i = 0; i < 4; i++) {
        machine *m = machine_at(i / 2);
        ls_dropout_args args = { .samples = 3, .elements = 30, .channels = i % 2 ? 5 : 0,
                                 .index = index, .seed = 5, .epoch = 2, .layer = 4,
                                 .threshold = 1u << 31, .scale = 2.0f, .x = x, .y = y };
        assert_int_equal(ls_dropout(&m->stream, &args), LS_OK);
        check_forward("dropout", dropout_forward, &args, x, 90, y, 90, 0.0);
        args.x = dy;
        args.y = dx;
        assert_int_equal(ls_dropout(&m->stream, &args), LS_OK);
        check_gradient("dropout", m->name, dropout_forward, &args, x, 90, dy, 90, dx, 1e-6);
    }
    free(x);
    free(dy);
}

/* -- losses ------------------------------------------------------------------------------------ */

/* Loss per sample; its dy is the sample's weight. */
typedef struct {
    size_t samples, width;
    const int32_t *label;
    const double *target;
    double smoothing;
} loss_op;

static void softmax_forward(const void *op_, const double *x, double *y)
{
    const loss_op *op = op_;
    for (size_t n = 0; n < op->samples; n++) {
        const double *row = x + n * op->width;
        double sum = 0.0, mean = 0.0;
        for (size_t i = 0; i < op->width; i++) {
            sum += exp(row[i]);
            mean += row[i] / (double)op->width;
        }
        y[n] = log(sum) - (1 - op->smoothing) * row[op->label[n]] - op->smoothing * mean;
    }
}

static void squared_forward(const void *op_, const double *x, double *y)
{
    const loss_op *op = op_;
    for (size_t n = 0; n < op->samples; n++) {
        y[n] = 0.0;
        for (size_t i = n * op->width; i < (n + 1) * op->width; i++) {
            y[n] += (x[i] - op->target[i]) * (x[i] - op->target[i]) / (double)op->width;
        }
    }
}

static void absolute_forward(const void *op_, const double *x, double *y)
{
    const loss_op *op = op_;
    for (size_t n = 0; n < op->samples; n++) {
        y[n] = 0.0;
        for (size_t i = n * op->width; i < (n + 1) * op->width; i++) {
            y[n] += fabs(x[i] - op->target[i]) / (double)op->width;
        }
    }
}

static void sigmoid_forward(const void *op_, const double *x, double *y)
{
    const loss_op *op = op_;
    for (size_t n = 0; n < op->samples; n++) {
        y[n] = 0.0;
        for (size_t i = n * op->width; i < (n + 1) * op->width; i++) {
            const double p = 1 / (1 + exp(-x[i]));
            const double t = op->target[i] * (1 - op->smoothing) + op->smoothing / 2;
            y[n] -= (t * log(p) + (1 - t) * log(1 - p)) / (double)op->width;
        }
    }
}

enum { LOSS_ROWS = 6, LOSS_WIDTH = 11, LOSS_COUNT = LOSS_ROWS * LOSS_WIDTH };

/* Loss and gradient that `m` made against the differences of `forward`. */
static void check_loss(const char *name, machine *m, forward_fn *forward, const loss_op *op,
                       const float *x, const float *loss, const float *weight, const float *dx)
{
    check_forward(name, forward, op, x, LOSS_COUNT, loss, LOSS_ROWS, 1e-6);
    check_gradient(name, m->name, forward, op, x, LOSS_COUNT, weight, LOSS_ROWS, dx, 1e-6);
}

static void check_crossentropies(machine *m, loss_op *op, const float *x, const float *target,
                                 const float *weight)
{
    static const double smoothing[] = { 0.0, 0.2, 1.0 };
    float loss[LOSS_ROWS], dx[LOSS_COUNT];
    for (int k = 0; k < 3; k++) {
        op->smoothing = smoothing[k];
        const float hot = (float)(1 - smoothing[k]);
        const ls_softmax_loss_args softmax = {
            .samples = LOSS_ROWS, .classes = LOSS_WIDTH, .smooth_hot = hot,
            .smooth_all = (float)(smoothing[k] / LOSS_WIDTH), .loss_scale = 1.0f, .logits = x,
            .label = op->label, .weight = weight, .loss = loss, .dlogits = dx };
        assert_int_equal(ls_softmax_loss(&m->stream, &softmax), LS_OK);
        check_loss("softmax", m, softmax_forward, op, x, loss, weight, dx);
        const ls_sigmoid_loss_args sigmoid = {
            .samples = LOSS_ROWS, .outputs = LOSS_WIDTH, .smooth_hot = hot,
            .smooth_all = (float)(smoothing[k] / 2), .loss_scale = 1.0f, .logits = x,
            .target = target, .weight = weight, .loss = loss, .dlogits = dx };
        assert_int_equal(ls_sigmoid_loss(&m->stream, &sigmoid), LS_OK);
        check_loss("sigmoid", m, sigmoid_forward, op, x, loss, weight, dx);
    }
}

static void test_losses_have_the_gradients_of_their_differences(void **state)
{
    (void)state;
    naive_random random = { 10 };
    float *x = naive_values(&random, LOSS_COUNT, 0), *target = naive_values(&random, LOSS_COUNT, 0);
    float *weight = naive_values(&random, LOSS_ROWS, 0), loss[LOSS_ROWS], dx[LOSS_COUNT];
    double *target64 = doubles_of(target, LOSS_COUNT);
    const int32_t label[LOSS_ROWS] = { 0, 10, 3, 3, 7, 1 };
    loss_op op = { LOSS_ROWS, LOSS_WIDTH, label, target64, 0 };
    for (int i = 0; i < 2; i++) {
        machine *m = machine_at(i);
        check_crossentropies(m, &op, x, target, weight);
        ls_regression_loss_args errors = {
            .kind = LS_REGRESSION_SQUARED, .samples = LOSS_ROWS, .outputs = LOSS_WIDTH,
            .loss_scale = 1.0f, .prediction = x, .target = target, .weight = weight,
            .loss = loss, .dprediction = dx };
        assert_int_equal(ls_regression_loss(&m->stream, &errors), LS_OK);
        check_loss("squared", m, squared_forward, &op, x, loss, weight, dx);
        errors.kind = LS_REGRESSION_ABSOLUTE;
        assert_int_equal(ls_regression_loss(&m->stream, &errors), LS_OK);
        check_loss("absolute", m, absolute_forward, &op, x, loss, weight, dx);
    }
    free(x);
    free(target);
    free(weight);
    free(target64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations_have_the_gradients_of_their_differences),
        cmocka_unit_test(test_dropout_of_the_gradient_is_the_gradient_of_dropout),
        cmocka_unit_test(test_losses_have_the_gradients_of_their_differences),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
