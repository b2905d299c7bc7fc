/* SPDX-License-Identifier: MIT */
/* bench_kernels.c -- `lockstep bench gemm` and `bench conv`: the speed of what training spends its
 * time in, on one device.
 *
 * The cases are the built-in models' layers at one replica's batch, and a few shapes that are large
 * and even, where a kernel has no excuse. Names say model, layer and pass; a dense layer's weight
 * gradient is among the convolutions, whose case with one place and a 1x1 kernel it is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_kernel_run.h"
#include "device/topology.h"
#include "train/model.h"

enum { FLAG_BATCH, FLAG_ITERATIONS, FLAG_JSON, FLAG_SQUARE };
enum { CASES_MAX = 64, SHARDS = 8 };

/* Those whose shapes need no data set to be known. */
static const char *const models[] = { "cifar10-cnn", "digits-cnn", "mnist-mlp" };

typedef struct {
    ls_kernel_case kernel[CASES_MAX];
    int kernel_count;
    ls_device *device; /* owned */
    ls_stream stream;
    int batch, repetitions, square;
    bool is_json;
    ls_json_writer json;
} bench;

/* -- the cases --------------------------------------------------------------------------------- */

static ls_kernel_case *new_case(bench *b, ls_kernel_op op, const char *model, const char *layer,
                                const char *pass)
{
    if (b->kernel_count == CASES_MAX) b->kernel_count--; /* never: the models are ours */
    ls_kernel_case *k = &b->kernel[b->kernel_count++];
    *k = (ls_kernel_case){ .op = op };
    snprintf(k->name, sizeof k->name, "%s%s%.20s %s", model, *layer ? " " : "", layer, pass);
    return k;
}

/* The two products of a dense layer, as train/layers.c asks for them; no `dx` of a first layer. */
static void add_products(bench *b, const char *model, const ls_layer *layer, bool is_first)
{
    const size_t M = (size_t)b->batch, in = ls_shape_floats(layer->in);
    const size_t out = ls_shape_floats(layer->out);
    new_case(b, LS_KERNEL_GEMM, model, layer->name, "forward")->gemm =
        (ls_gemm_args){ .M = M, .N = out, .K = in, .transpose_b = true, .relu = layer->relu };
    if (is_first) return;
    new_case(b, LS_KERNEL_GEMM, model, layer->name, "dx")->gemm =
        (ls_gemm_args){ .M = M, .N = in, .K = out };
}

static void add_convolutions(bench *b, const char *model, const char *layer, ls_conv_shape shape,
                             bool is_first)
{
    shape.samples = (size_t)b->batch;
    new_case(b, LS_KERNEL_CONV_FORWARD, model, layer, "forward")->conv = shape;
    if (!is_first) new_case(b, LS_KERNEL_CONV_INPUT_GRADIENT, model, layer, "dx")->conv = shape;
    new_case(b, LS_KERNEL_CONV_WEIGHT_GRADIENT, model, layer, "dw")->conv = shape;
}

static void add_dense_weight_gradient(bench *b, const char *model, const ls_layer *layer)
{
    new_case(b, LS_KERNEL_CONV_WEIGHT_GRADIENT, model, layer->name, "dw")->conv = (ls_conv_shape){
        .samples = (size_t)b->batch, .height = 1, .width = 1,
        .channels = ls_shape_floats(layer->in), .filters = ls_shape_floats(layer->out),
        .kernel_height = 1, .kernel_width = 1, .stride_height = 1, .stride_width = 1,
        .out_height = 1, .out_width = 1 };
}

static ls_status add_model(bench *b, const char *name, bool is_gemm)
{
    ls_model model = { 0 };
    LS_TRY(ls_model_init(&model, name, ls_model_builtin(name), NULL));
    bool is_first = true; /* of the layers with weights: what feeds it needs no gradient */
    for (int l = 0; l < model.layer_count; l++) {
        const ls_layer *layer = &model.layer[l];
        if (layer->op == LS_OP_DENSE && is_gemm) add_products(b, name, layer, is_first);
        if (layer->op == LS_OP_DENSE && !is_gemm) add_dense_weight_gradient(b, name, layer);
        if (layer->op == LS_OP_CONV && !is_gemm)
            add_convolutions(b, name, layer->name, layer->conv, is_first);
        is_first = is_first && layer->kernel < 0;
    }
    ls_model_free(&model);
    return LS_OK;
}

static void add_squares(bench *b)
{
    for (int extent = (b->square + 3) / 4; extent <= b->square; extent *= 2) {
        const size_t n = (size_t)extent;
        new_case(b, LS_KERNEL_GEMM, "square", "", "A B")->gemm =
            (ls_gemm_args){ .M = n, .N = n, .K = n };
    }
}

static ls_status add_cases(bench *b, bool is_gemm)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        LS_TRY(add_model(b, models[i], is_gemm));
    if (is_gemm) add_squares(b);
    else
        add_convolutions(b, "even", "16x16x64", (ls_conv_shape){
            .height = 16, .width = 16, .channels = 64, .filters = 64, .kernel_height = 3,
            .kernel_width = 3, .stride_height = 1, .stride_width = 1, .pad_top = 1, .pad_left = 1,
            .out_height = 16, .out_width = 16 }, false);
    return LS_OK;
}

/* -- what came out ----------------------------------------------------------------------------- */

/* "32x64x6272 nt", M x N x K and which of A and B is transposed; or the convolution's extents. */
static const char *shape_text(const ls_kernel_case *k, char out[64])
{
    const ls_gemm_args *g = &k->gemm;
    const ls_conv_shape *s = &k->conv;
    if (k->op == LS_KERNEL_GEMM)
        snprintf(out, 64, "%zux%zux%zu %c%c", g->M, g->N, g->K, g->transpose_a ? 't' : 'n',
                 g->transpose_b ? 't' : 'n');
    else
        snprintf(out, 64, "%zux%zux%zux%zu %zu of %zux%zu", s->samples, s->height, s->width,
                 s->channels, s->filters, s->kernel_height, s->kernel_width);
    return out;
}

/* 0: a GPU. */
static int thread_count(const ls_device *device)
{
    return device->pool ? ls_pool_thread_count(device->pool) : 0;
}

static void print_heading(const bench *b)
{
    const ls_device *device = b->device;
    printf("# %s, kernels %s", device->name, device->kernels->name);
    const int threads = thread_count(device);
    if (threads > 0) printf(", %d thread%s", threads, threads == 1 ? "" : "s");
    printf("; batch %d; medians of %d\n", b->batch, b->repetitions);
    printf("# peak: %s\n#\n", device->kind == LS_DEVICE_CUDA
           ? "fp32 units x 2 x highest clock; none for a virtual GPU"
           : "fused multiply-adds in registers, on the same threads, in turn with the kernel");
    printf("# %-28s %-26s %10s %9s %9s %6s\n", "kernel", "shape", "time (us)", "GF/s", "peak",
           "share");
    fflush(stdout);
}

static void print_row(const ls_kernel_case *kernel, const ls_kernel_result *result)
{
    char shape[64];
    const double speed = result->flops / result->seconds;
    printf("  %-28s %-26s %10.1f %9.2f", kernel->name, shape_text(kernel, shape),
           result->seconds * 1e6, speed * 1e-9);
    if (result->peak > 0)
        printf(" %9.2f %5.0f%%\n", result->peak * 1e-9, 100 * speed / result->peak);
    else
        printf(" %9s %6s\n", "-", "-");
    fflush(stdout);
}

static void write_row(ls_json_writer *json, const ls_kernel_case *kernel,
                      const ls_kernel_result *result)
{
    char shape[64];
    ls_json_write_open(json, '{');
    ls_json_write_key(json, "kernel");
    ls_json_write_string(json, kernel->name);
    ls_json_write_key(json, "shape");
    ls_json_write_string(json, shape_text(kernel, shape));
    ls_json_write_key(json, "time_us");
    ls_json_write_number(json, result->seconds * 1e6);
    ls_json_write_key(json, "gflops");
    ls_json_write_number(json, result->flops / result->seconds * 1e-9);
    ls_json_write_key(json, "peak_gflops"); /* null: not known */
    ls_json_write_number(json, result->peak > 0 ? result->peak * 1e-9 : NAN);
    ls_json_write_close(json, '}');
}

static void begin_json(bench *b, const char *what)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_write_key(json, "bench");
    ls_json_write_string(json, what);
    ls_json_write_key(json, "device");
    ls_json_write_string(json, b->device->name);
    ls_json_write_key(json, "kernels");
    ls_json_write_string(json, b->device->kernels->name);
    ls_json_write_key(json, "threads");
    ls_json_write_count(json, (uint64_t)thread_count(b->device));
    ls_json_write_key(json, "batch");
    ls_json_write_count(json, (uint64_t)b->batch);
    ls_json_write_key(json, "iterations");
    ls_json_write_count(json, (uint64_t)b->repetitions);
    ls_json_write_key(json, "rows");
    ls_json_write_open(json, '[');
}

/* -- the command ------------------------------------------------------------------------------- */

/* The first of --devices; nothing is exchanged, so no link is probed. */
static ls_status open_device(bench *b, const ls_invocation *v)
{
    ls_config config;
    ls_device_list list;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    LS_TRY(ls_device_list_parse(config.devices, LS_P2P_OFF, &list));
    const int threads = config.threads > 0 ? config.threads : ls_core_count();
    LS_TRY(ls_device_open(&list.device[0], threads, threads <= ls_core_count(), NULL, &b->device));
    LS_TRY(ls_kernels_bind(b->device));
    return ls_stream_init(&b->stream, b->device);
}

static ls_status measure_all(bench *b, const char *what)
{
    if (b->is_json) begin_json(b, what);
    else print_heading(b);
    for (int i = 0; i < b->kernel_count; i++) {
        ls_kernel_result result;
        LS_TRY(ls_kernel_measure(&b->stream, &b->kernel[i], SHARDS, b->repetitions, &result));
        if (b->is_json) write_row(&b->json, &b->kernel[i], &result);
        else print_row(&b->kernel[i], &result);
    }
    if (!b->is_json) return LS_OK;
    ls_json_write_close(&b->json, ']');
    ls_json_write_close(&b->json, '}');
    return ls_bench_print_json(&b->json);
}

static ls_status run_bench(const ls_invocation *v, bool is_gemm)
{
    bench b = { .is_json = v->flag[FLAG_JSON] != NULL };
    LS_TRY(ls_flag_count(v, FLAG_BATCH, 1, 1 << 16, 32, &b.batch));
    LS_TRY(ls_flag_count(v, FLAG_ITERATIONS, 1, 10000, 15, &b.repetitions));
    if (is_gemm) LS_TRY(ls_flag_count(v, FLAG_SQUARE, 1, 1 << 14, 1024, &b.square));
    LS_TRY(add_cases(&b, is_gemm));
    ls_status status = open_device(&b, v);
    if (status == LS_OK) status = measure_all(&b, is_gemm ? "gemm" : "conv");
    ls_stream_free(&b.stream);
    ls_device_close(b.device);
    free(b.json.text);
    return status;
}

static ls_status run_bench_gemm(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    return run_bench(v, true);
}

static ls_status run_bench_conv(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    return run_bench(v, false);
}

static const char *const bench_kernels_options[] = { "devices", "threads", NULL };

#define FLAGS                                                                                     \
    [FLAG_BATCH] = { "batch", "B", "samples of the models' layers (default 32)" },                \
    [FLAG_ITERATIONS] = { "iterations", "K", "measured per row (default 15)" },                   \
    [FLAG_JSON] = { "json", NULL, "print JSON in place of the table" }

const ls_command ls_command_bench_gemm = {
    .name = "bench gemm",
    .arguments = "[--devices DEVICE] [option ...]",
    .summary = "speed of the matrix products of the built-in models, and of squares",
    .about =
        "Times each product on the first device of the list: forward, and the gradient of the\n"
        "input (dx), of every dense layer at one replica's batch; then square ones. GF/s counts a\n"
        "multiply-add as two. On a host device the share is that of a loop of fused multiply-adds\n"
        "in registers on the same threads, measured in turn, so that both meet the same load. On\n"
        "a busy machine a call of many milliseconds is interrupted more often than that loop, and\n"
        "shows a smaller share than it has alone.\n",
    .takes = bench_kernels_options,
    .flag = {
        FLAGS,
        [FLAG_SQUARE] = { "square", "N", "the largest square, after N/4 and N/2 (default 1024)" },
    },
    .run = run_bench_gemm,
};

const ls_command ls_command_bench_conv = {
    .name = "bench conv",
    .arguments = "[--devices DEVICE] [option ...]",
    .summary = "speed of the convolutions and weight gradients of the built-in models",
    .about =
        "Times each convolution on the first device of the list: forward, and the gradients of\n"
        "input (dx) and weights (dw, over 8 shards), of every layer at one replica's batch; dense\n"
        "layers' dw; then an even shape. A shape reads samples x height x width x channels,\n"
        "filters of height x width. GF/s counts a multiply-add as two, padding as data. On a host\n"
        "device the share is that of a loop of fused multiply-adds in registers on the same\n"
        "threads, measured in turn; see lockstep bench gemm --help.\n",
    .takes = bench_kernels_options,
    .flag = { FLAGS },
    .run = run_bench_conv,
};
