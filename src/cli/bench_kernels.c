/* SPDX-License-Identifier: MIT */
/* bench_kernels.c -- `lockstep bench gemm` and `bench conv`: the speed of what training spends its
 * time in, on one device.
 *
 * What is timed: bench_cases.h; how: bench_kernel_run.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/bench_cases.h"
#include "cli/console.h"
#include "device/topology.h"
#include "plural.h"

enum { FLAG_BATCH, FLAG_ITERATIONS, FLAG_JSON, FLAG_SQUARE };
enum { SHARDS = 8 };

static const char *const default_models[] = { "cifar10-cnn", "digits-cnn", "mnist-mlp",
                                              "resnet20", "resnet50" };

typedef struct {
    ls_bench_cases cases;
    ls_device *device; /* owned */
    ls_stream stream;
    int repetitions, square;
    bool is_json;
    ls_json_writer json;
} bench;

/* -- what came out ----------------------------------------------------------------------------- */

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
    if (threads > 0) printf(", %d thread%s", threads, LS_PLURAL(threads));
    printf("; batch %zu; medians of up to %d\n", b->cases.batch, b->repetitions);
    printf("# peak: %s\n#\n", device->kind == LS_DEVICE_CUDA
           ? "fp32 units x 2 x highest clock; none for a virtual GPU"
           : "fused multiply-adds in registers, on the same threads, in turn with the kernel");
    printf("# %-30s %6s %-29s %10s %10s %10s %9s %9s %6s\n", "kernel", "layers", "shape",
           "time (us)", "least", "most", "GF/s", "peak", "share");
    fflush(stdout);
}

static void print_row(const ls_kernel_case *kernel, const ls_kernel_result *result)
{
    char shape[LS_BENCH_SHAPE_BYTES];
    const double speed = result->flops / result->seconds.median;
    printf("  %-30s %6d %-29s %10.1f %10.1f %10.1f %9.2f", kernel->name, kernel->count,
           ls_bench_shape_text(kernel, shape), result->seconds.median * 1e6,
           result->seconds.least * 1e6, result->seconds.most * 1e6, speed * 1e-9);
    if (result->peak > 0)
        printf(" %9.2f %5.0f%%\n", result->peak * 1e-9, 100 * speed / result->peak);
    else
        printf(" %9s %6s\n", "-", "-");
    fflush(stdout);
}

static void write_row(ls_json_writer *json, const ls_kernel_case *kernel,
                      const ls_kernel_result *result)
{
    char shape[LS_BENCH_SHAPE_BYTES];
    const double speed = result->flops / result->seconds.median;
    const bool has_peak = result->peak > 0; /* else null */
    ls_json_write_open(json, '{');
    ls_json_member_string(json, "kernel", kernel->name);
    ls_json_member_count(json, "layers", (uint64_t)kernel->count);
    ls_json_member_string(json, "shape", ls_bench_shape_text(kernel, shape));
    ls_json_member_count(json, "repetitions", (uint64_t)result->repetitions);
    ls_json_member_number(json, "time_us", result->seconds.median * 1e6);
    ls_json_member_number(json, "least_us", result->seconds.least * 1e6);
    ls_json_member_number(json, "most_us", result->seconds.most * 1e6);
    ls_json_member_number(json, "gflops", speed * 1e-9);
    ls_json_member_number(json, "peak_gflops", has_peak ? result->peak * 1e-9 : (double)NAN);
    ls_json_member_number(json, "share", has_peak ? speed / result->peak : (double)NAN);
    ls_json_write_close(json, '}');
}

static void begin_json(bench *b, const char *what)
{
    ls_json_writer *json = &b->json;
    ls_json_write_open(json, '{');
    ls_json_member_string(json, "bench", what);
    ls_json_member_string(json, "device", b->device->name);
    ls_json_member_string(json, "kernels", b->device->kernels->name);
    ls_json_member_count(json, "threads", (uint64_t)thread_count(b->device));
    ls_json_member_count(json, "batch", (uint64_t)b->cases.batch);
    ls_json_member_count(json, "iterations", (uint64_t)b->repetitions);
    ls_json_write_key(json, "rows");
    ls_json_write_open(json, '[');
}

/* -- the command ------------------------------------------------------------------------------- */

/* The first of --devices; nothing is exchanged, so no link is probed. */
static ls_status open_device(bench *b, const ls_config *config)
{
    ls_device_list list;
    LS_TRY(ls_device_list_parse(config->devices, LS_P2P_OFF, &list));
    const int threads = config->threads > 0 ? config->threads : ls_core_count();
    LS_TRY(ls_device_open(&list.device[0], threads, threads <= ls_core_count(), NULL, &b->device));
    LS_TRY(ls_kernels_bind(b->device));
    return ls_stream_init(&b->stream, b->device);
}

static ls_status measure_all(bench *b, const char *what)
{
    if (b->is_json) begin_json(b, what);
    else print_heading(b);
    for (int i = 0; i < b->cases.count; i++) {
        const ls_kernel_case *kernel = &b->cases.kernel[i];
        ls_kernel_result result;
        LS_TRY(ls_kernel_measure(&b->stream, kernel, SHARDS, b->repetitions, &result));
        if (b->is_json) write_row(&b->json, kernel, &result);
        else print_row(kernel, &result);
    }
    if (!b->is_json) return LS_OK;
    ls_json_write_close(&b->json, ']');
    ls_json_write_close(&b->json, '}');
    return ls_console_print_json(&b->json);
}

/* Of the models named, on the data if any, or of the default ones; then the even shapes. */
static ls_status add_cases(bench *b, const ls_invocation *v, const char *data)
{
    const int named = v->argument_count;
    ls_dataset *dataset = NULL;
    const int count = named ? named : (int)(sizeof default_models / sizeof default_models[0]);
    if (data[0] && !named)
        return ls_fail(LS_ERR_ARGUMENT, "--data %s without a MODEL: the default models have sizes "
                       "of their own", data);
    ls_status status = data[0] ? ls_dataset_open(data, &dataset) : LS_OK;
    const ls_dataset_info *info = dataset ? ls_dataset_describe(dataset) : NULL;
    for (int i = 0; i < count && status == LS_OK; i++)
        status = ls_bench_cases_of_model(&b->cases, named ? v->argument[i] : default_models[i],
                                         info);
    ls_dataset_close(dataset);
    return status == LS_OK ? ls_bench_cases_even(&b->cases, b->square) : status;
}

static ls_status fill_bench(bench *b, const ls_invocation *v, const char *data, bool is_gemm)
{
    int batch;
    b->is_json = v->flag[FLAG_JSON] != NULL;
    LS_TRY(ls_flag_count(v, FLAG_BATCH, 1, 1 << 16, 32, &batch));
    LS_TRY(ls_flag_count(v, FLAG_ITERATIONS, 1, 10000, 15, &b->repetitions));
    if (is_gemm) LS_TRY(ls_flag_count(v, FLAG_SQUARE, 1, 1 << 14, 1024, &b->square));
    b->cases.is_gemm = is_gemm;
    b->cases.batch = (size_t)batch;
    return add_cases(b, v, data);
}

static ls_status run_bench(const ls_invocation *v, bool is_gemm)
{
    ls_config config;
    ls_config_init(&config);
    LS_TRY(ls_invocation_config(v, &config));
    bench *b = calloc(1, sizeof *b);
    if (!b) return ls_fail(LS_ERR_MEMORY, "no memory for the list of kernels");
    ls_status status = fill_bench(b, v, config.data, is_gemm);
    if (status == LS_OK) status = open_device(b, &config);
    if (status == LS_OK) status = measure_all(b, is_gemm ? "gemm" : "conv");
    ls_stream_free(&b->stream);
    ls_device_close(b->device);
    free(b->json.text);
    free(b);
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

static const char *const bench_kernels_options[] = { "data", "devices", "threads", NULL };

#define FLAGS                                                                                     \
    [FLAG_BATCH] = { "batch", "B", "samples of the models' layers (default 32)" },                \
    [FLAG_ITERATIONS] = { "iterations", "K", "samples per row, if 0.25 s allow (default 15)" },   \
    [FLAG_JSON] = { "json", NULL, "print JSON in place of the table" }

const ls_command ls_command_bench_gemm = {
    .name = "bench gemm",
    .arguments = "[MODEL ...] [--devices DEVICE] [option ...]",
    .arguments_max = LS_ARGUMENTS_MAX,
    .summary = "speed of the matrix products of the built-in models, and of squares",
    .about =
        "Times each product on the first device of the list: forward, and the gradient of the\n"
        "input (dx), of every dense layer of the models (default: cifar10-cnn, digits-cnn,\n"
        "mnist-mlp, resnet20, resnet50) at one replica's batch; then square ones. A named model\n"
        "of `input auto` takes its sizes from --data and reads nothing else there. A row is the\n"
        "median, least and most of its samples, and says how many layers have this shape. GF/s\n"
        "counts a multiply-add as two. On a host device the share is that of a loop of fused\n"
        "multiply-adds in registers on the same threads, measured in turn, so that both meet the\n"
        "same load. On a busy machine a call of many milliseconds is interrupted more often than\n"
        "that loop, and shows a smaller share than it has alone.\n",
    .takes = bench_kernels_options,
    .own_default = { { "threads", "auto: the machine's cores" } },
    .flag = {
        FLAGS,
        [FLAG_SQUARE] = { "square", "N", "the largest square, after N/4 and N/2 (default 1024)" },
    },
    .run = run_bench_gemm,
};

const ls_command ls_command_bench_conv = {
    .name = "bench conv",
    .arguments = "[MODEL ...] [--devices DEVICE] [option ...]",
    .arguments_max = LS_ARGUMENTS_MAX,
    .summary = "speed of the convolutions and weight gradients of the built-in models",
    .about =
        "Times each convolution on the first device of the list: forward, and the gradients of\n"
        "input (dx) and weights (dw, over 8 shards), of every layer at one replica's batch; dense\n"
        "layers' dw; then an even shape. A shape reads samples x height x width x channels,\n"
        "filters of height x width. GF/s counts a multiply-add as two, padding as data. On a host\n"
        "device the share is that of a loop of fused multiply-adds in registers on the same\n"
        "threads, measured in turn; see lockstep bench gemm --help.\n",
    .takes = bench_kernels_options,
    .own_default = { { "threads", "auto: the machine's cores" } },
    .flag = { FLAGS },
    .run = run_bench_conv,
};
