/* SPDX-License-Identifier: MIT */
/* bench_cases.c -- which products and convolutions are timed. See bench_cases.h. */
#include "cli/bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/model.h"

/* A model whose cases are being added. Equal ones of another model are not counted together. */
typedef struct {
    ls_bench_cases *cases;
    const char *name;
    int first; /* its first case */
} model_cases;

/* "/2" where a convolution's stride is not 1. */
static const char *stride_text(const ls_conv_shape *s, char out[32])
{
    out[0] = '\0';
    if (s->stride_height != s->stride_width)
        snprintf(out, 32, "/%zux%zu", s->stride_height, s->stride_width);
    else if (s->stride_height > 1)
        snprintf(out, 32, "/%zu", s->stride_height);
    return out;
}

const char *ls_bench_shape_text(const ls_kernel_case *kernel, char out[LS_BENCH_SHAPE_BYTES])
{
    char stride[32];
    const ls_gemm_args *g = &kernel->gemm;
    const ls_conv_shape *s = &kernel->conv;
    if (kernel->op == LS_KERNEL_GEMM)
        snprintf(out, LS_BENCH_SHAPE_BYTES, "%zux%zux%zu %c%c", g->M, g->N, g->K,
                 g->transpose_a ? 't' : 'n', g->transpose_b ? 't' : 'n');
    else
        snprintf(out, LS_BENCH_SHAPE_BYTES, "%zux%zux%zux%zu %zu of %zux%zu%s", s->samples,
                 s->height, s->width, s->channels, s->filters, s->kernel_height, s->kernel_width,
                 stride_text(s, stride));
    return out;
}

static bool is_same(const ls_kernel_case *a, const ls_kernel_case *b)
{
    char text_a[LS_BENCH_SHAPE_BYTES], text_b[LS_BENCH_SHAPE_BYTES];
    return a->op == b->op && a->gemm.relu == b->gemm.relu
           && a->conv.pad_top == b->conv.pad_top && a->conv.pad_left == b->conv.pad_left
           && a->conv.out_height == b->conv.out_height && a->conv.out_width == b->conv.out_width
           && strcmp(ls_bench_shape_text(a, text_a), ls_bench_shape_text(b, text_b)) == 0;
}

static ls_status add(const model_cases *m, const char *layer, const char *pass,
                     ls_kernel_case kernel)
{
    ls_bench_cases *cases = m->cases;
    for (int i = m->first; i < cases->count; i++) {
        if (!is_same(&cases->kernel[i], &kernel)) continue;
        cases->kernel[i].count++;
        return LS_OK;
    }
    if (cases->count == LS_BENCH_CASES_MAX)
        return ls_fail(LS_ERR_ARGUMENT, "%.60s: found more than %d shapes with those before it, "
                       "expected fewer", m->name, LS_BENCH_CASES_MAX);
    kernel.count = 1;
    snprintf(kernel.name, sizeof kernel.name, "%.16s%s%.16s %s", m->name, *layer ? " " : "",
             layer, pass);
    cases->kernel[cases->count++] = kernel;
    return LS_OK;
}

/* The two products of a dense layer, as train/forward.c and backward.c ask for them. */
static ls_status add_products(const model_cases *m, const ls_layer *layer, bool is_first)
{
    const size_t in = ls_shape_floats(layer->in), out = ls_shape_floats(layer->out);
    LS_TRY(add(m, layer->name, "forward", (ls_kernel_case){ .op = LS_KERNEL_GEMM, .gemm = {
        .M = m->cases->batch, .N = out, .K = in, .transpose_b = true, .relu = layer->relu } }));
    if (is_first) return LS_OK;
    return add(m, layer->name, "dx", (ls_kernel_case){ .op = LS_KERNEL_GEMM, .gemm = {
        .M = m->cases->batch, .N = in, .K = out } });
}

static ls_status add_convolutions(const model_cases *m, const char *layer, ls_conv_shape shape,
                                  bool is_first)
{
    shape.samples = m->cases->batch;
    LS_TRY(add(m, layer, "forward",
               (ls_kernel_case){ .op = LS_KERNEL_CONV_FORWARD, .conv = shape }));
    if (!is_first)
        LS_TRY(add(m, layer, "dx",
                   (ls_kernel_case){ .op = LS_KERNEL_CONV_INPUT_GRADIENT, .conv = shape }));
    return add(m, layer, "dw",
               (ls_kernel_case){ .op = LS_KERNEL_CONV_WEIGHT_GRADIENT, .conv = shape });
}

static ls_status add_dense_weight_gradient(const model_cases *m, const ls_layer *layer)
{
    return add(m, layer->name, "dw", (ls_kernel_case){ .op = LS_KERNEL_CONV_WEIGHT_GRADIENT,
        .conv = {
            .samples = m->cases->batch, .height = 1, .width = 1,
            .channels = ls_shape_floats(layer->in), .filters = ls_shape_floats(layer->out),
            .kernel_height = 1, .kernel_width = 1, .stride_height = 1, .stride_width = 1,
            .out_height = 1, .out_width = 1 } });
}

static ls_status add_layers(const model_cases *m, const ls_model *model)
{
    const bool is_gemm = m->cases->is_gemm;
    bool is_first = true; /* of the layers with weights */
    for (int l = 0; l < model->layer_count; l++) {
        const ls_layer *layer = &model->layer[l];
        if (layer->op == LS_OP_DENSE)
            LS_TRY(is_gemm ? add_products(m, layer, is_first)
                           : add_dense_weight_gradient(m, layer));
        if (layer->op == LS_OP_CONV && !is_gemm)
            LS_TRY(add_convolutions(m, layer->name, layer->conv, is_first));
        is_first = is_first && layer->kernel < 0;
    }
    return LS_OK;
}

ls_status ls_bench_cases_of_model(ls_bench_cases *cases, const char *name,
                                  const ls_dataset_info *data)
{
    char *text = NULL;
    ls_model model = { 0 };
    const model_cases m = { .cases = cases, .name = name, .first = cases->count };
    LS_TRY(ls_model_text(name, &text));
    ls_status status = ls_model_init(&model, name, text, data);
    if (status == LS_OK) status = add_layers(&m, &model);
    ls_model_free(&model);
    free(text);
    return status;
}

ls_status ls_bench_cases_even(ls_bench_cases *cases, int square)
{
    if (!cases->is_gemm) {
        const model_cases even = { .cases = cases, .name = "even", .first = cases->count };
        return add_convolutions(&even, "16x16x64", (ls_conv_shape){
            .height = 16, .width = 16, .channels = 64, .filters = 64, .kernel_height = 3,
            .kernel_width = 3, .stride_height = 1, .stride_width = 1, .pad_top = 1, .pad_left = 1,
            .out_height = 16, .out_width = 16 }, false);
    }
    const model_cases squares = { .cases = cases, .name = "square", .first = cases->count };
    for (int extent = (square + 3) / 4; extent <= square; extent *= 2) {
        const size_t n = (size_t)extent;
        LS_TRY(add(&squares, "", "A B", (ls_kernel_case){ .op = LS_KERNEL_GEMM, .gemm = {
            .M = n, .N = n, .K = n } }));
    }
    return LS_OK;
}
