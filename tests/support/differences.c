/* SPDX-License-Identifier: MIT */
/* differences.c -- see differences.h. */
#include "support/test.h"

#include "support/differences.h"

double *doubles_of(const float *x, size_t count)
{
    double *out = malloc((count + 1) * sizeof *out);
    for (size_t i = 0; i < count; i++) out[i] = (double)x[i];
    return out;
}

void check_gradient(const char *what, const char *who, forward_fn *forward, const void *op,
                    const float *x, size_t inputs, const float *dy, size_t outputs,
                    const float *dx, double tolerance)
{
    const double h = 1e-4;
    double *at = doubles_of(x, inputs), *y = malloc((outputs + 1) * sizeof *y);
    for (size_t i = 0; i < inputs; i++) {
        double difference = 0.0;
        for (int side = 0; side < 2; side++) {
            at[i] = (double)x[i] + (side ? h : -h);
            forward(op, at, y);
            for (size_t o = 0; o < outputs; o++) {
                difference += (side ? 1.0 : -1.0) * (double)dy[o] * y[o];
            }
        }
        at[i] = (double)x[i];
        if (!naive_near(what, difference / (2 * h), (double)dx[i], tolerance)) {
            fail_msg("%s: %s: input %zu of %zu", what, who, i, inputs);
        }
    }
    free(at);
    free(y);
}

void check_forward(const char *what, forward_fn *forward, const void *op, const float *x,
                   size_t inputs, const float *y, size_t outputs, double tolerance)
{
    double *at = doubles_of(x, inputs), *want = malloc((outputs + 1) * sizeof *want);
    forward(op, at, want);
    for (size_t o = 0; o < outputs; o++) {
        assert_true(naive_near(what, want[o], (double)y[o], tolerance));
    }
    free(at);
    free(want);
}

machine *machine_at(int i) { return &all.machine[i == 0 ? 0 : all.count - 1]; }

float *apart(naive_random *random, size_t count)
{
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        const size_t j = naive_below(random, i + 1);
        x[i] = x[j];
        x[j] = (float)i * 0.01f - 0.005f * (float)count;
    }
    return x;
}
