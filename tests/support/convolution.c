/* SPDX-License-Identifier: MIT */
/* convolution.c -- a convolution on every machine. See convolution.h. */
#include "support/convolution.h"

#include <stdio.h>

#include "support/test.h"

ls_conv_shape shape_of(size_t samples, size_t height, size_t width, size_t channels,
                              size_t filters, size_t kernel, size_t stride, size_t pad,
                              size_t extra)
{
    return (ls_conv_shape){
        .samples = samples,
        .height = height,
        .width = width,
        .channels = channels,
        .filters = filters,
        .kernel_height = kernel,
        .kernel_width = kernel,
        .stride_height = stride,
        .stride_width = stride,
        .pad_top = pad,
        .pad_left = pad,
        .out_height = (height + pad + extra - kernel) / stride + 1,
        .out_width = (width + pad + extra - kernel) / stride + 1,
    };
}

size_t x_floats(const ls_conv_shape *s)
{
    return s->samples * s->height * s->width * s->channels;
}

size_t y_floats(const ls_conv_shape *s)
{
    return s->samples * s->out_height * s->out_width * s->filters;
}

size_t w_floats(const ls_conv_shape *s)
{
    return s->filters * s->kernel_height * s->kernel_width * s->channels;
}

convolution convolution_of(naive_random *n, ls_conv_shape shape, int mix)
{
    convolution c = {
        .shape = shape,
        .x = naive_values(n, x_floats(&shape), mix),
        .w = naive_values(n, w_floats(&shape), mix),
        .bias = naive_values(n, shape.filters, mix),
        .dy = naive_values(n, y_floats(&shape), mix),
    };
    for (size_t i = 0; i < y_floats(&shape); i++) {
        if (naive_below(n, 2) == 0) c.dy[i] = naive_below(n, 2) == 0 ? 0.0f : -0.0f;
    }
    return c;
}

void convolution_free(convolution *c)
{
    free(c->x);
    free(c->w);
    free(c->bias);
    free(c->dy);
}

static const char *shape_text(const ls_conv_shape *s)
{
    static char text[160];
    snprintf(text, sizeof text,
             "x %zux%zux%zux%zu, %zu filters %zux%zu, stride %zux%zu, pad %zu %zu, y %zux%zu",
             s->samples, s->height, s->width, s->channels, s->filters, s->kernel_height,
             s->kernel_width, s->stride_height, s->stride_width, s->pad_top, s->pad_left,
             s->out_height, s->out_width);
    return text;
}

/* An array of NaN, of its exact length: what an op must overwrite. NULL for none, as ops allow. */
static float *nan_floats(size_t count)
{
    if (count == 0) return NULL;
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    memset(x, 0xff, count * sizeof *x);
    return x;
}

float *run_forward(const convolution *c, machine *m, bool with_bias, bool relu)
{
    const ls_conv_forward_args a = {.shape = c->shape,
                                    .relu = relu,
                                    .x = c->x,
                                    .w = c->w,
                                    .bias = with_bias ? c->bias : NULL,
                                    .y = nan_floats(y_floats(&c->shape))};
    assert_int_equal(ls_conv_forward(&m->stream, &a), LS_OK);
    return a.y;
}

float *run_input_gradient(const convolution *c, machine *m)
{
    const ls_conv_input_gradient_args a = {
        .shape = c->shape, .dy = c->dy, .w = c->w, .dx = nan_floats(x_floats(&c->shape))};
    assert_int_equal(ls_conv_input_gradient(&m->stream, &a), LS_OK);
    return a.dx;
}

float *run_weight_gradient(const convolution *c, machine *m, sharing s, size_t *count)
{
    static ls_fold_plan plan;
    const size_t samples = c->shape.samples, stride = w_floats(&c->shape) + 3;
    ls_fold_plan_init(&plan, s.V, s.N, s.rank, s.A, samples);
    *count = (size_t)plan.piece_count * stride;
    float *dw = nan_floats(*count);
    const size_t x_sample = x_floats(&c->shape) / (samples > 0 ? samples : 1);
    const size_t y_sample = y_floats(&c->shape) / (samples > 0 ? samples : 1);
    for (int k = 0; k < s.A; k++) {
        const ls_fold *fold = &plan.pass[k];
        ls_conv_weight_gradient_args a = {
            .shape = c->shape, .fold = fold, .dw = dw, .piece_stride = stride};
        a.shape.samples = fold->sample[fold->leaf_count];
        float *x = nan_floats(a.shape.samples * x_sample);
        float *dy = nan_floats(a.shape.samples * y_sample);
        for (size_t row = 0; row < a.shape.samples; row++) {
            const size_t at = ls_fold_sample_at(&plan, k, row, s.V, samples);
            memcpy(x + row * x_sample, c->x + at * x_sample, x_sample * sizeof *x);
            memcpy(dy + row * y_sample, c->dy + at * y_sample, y_sample * sizeof *dy);
        }
        a.x = x;
        a.dy = dy;
        machine_spoil_scratch(m);
        assert_int_equal(ls_conv_weight_gradient(&m->stream, &a), LS_OK);
        free(x);
        free(dy);
    }
    return dw;
}

void convolution_check_equal(const convolution *c, const char *op, const machine *m,
                             const float *want, float *got, size_t count)
{
    char what[240];
    snprintf(what, sizeof what, "%s: %s", op, shape_text(&c->shape));
    assert_true(naive_same(what, m->name, want, got, count));
    free(got);
}

void convolution_check_twins(machines *set, const convolution *c, sharing s, bool with_bias,
                             bool relu)
{
    machine *first = &set->machine[0];
    size_t count;
    float *y = run_forward(c, first, with_bias, relu);
    float *dx = run_input_gradient(c, first);
    float *dw = run_weight_gradient(c, first, s, &count);
    for (int i = 1; i < set->count; i++) {
        machine *m = &set->machine[i];
        convolution_check_equal(c, "forward", m, y, run_forward(c, m, with_bias, relu),
                                y_floats(&c->shape));
        convolution_check_equal(c, "input gradient", m, dx, run_input_gradient(c, m),
                                x_floats(&c->shape));
        float *got = run_weight_gradient(c, m, s, &count);
        convolution_check_equal(c, "weight gradient", m, dw, got, count);
    }
    free(y);
    free(dx);
    free(dw);
}
