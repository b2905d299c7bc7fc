/* SPDX-License-Identifier: MIT */
/* bench_kernel_run.c -- one product or convolution, timed. See bench_kernel_run.h. */
#include "cli/bench_kernel_run.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_peak.h"
#include "cli/console.h"
#include "sizes.h"
#include "thread.h"

enum { CALLS_MAX = 10000, LEAST_REPETITIONS = 3 };

/* Large calls are repeated less often, so that a list of them ends in reasonable time. */
static const double ROW_SECONDS = 0.25;

/* What a kernel reads and writes: two inputs, one output. */
typedef struct {
    ls_stream *stream;
    const ls_kernel_case *kernel;
    ls_fold_plan plan;            /* of a weight gradient */
    size_t count[3];              /* floats of a, b, c */
    float *a, *b, *c;             /* owned; device memory */
    float *host;                  /* owned; pinned, as large as the largest of them */
} kernel_run;

/* -- a case ------------------------------------------------------------------------------------ */

static size_t weight_floats(const ls_conv_shape *s)
{
    return s->filters * s->kernel_height * s->kernel_width * s->channels;
}

double ls_kernel_flops(const ls_kernel_case *kernel)
{
    const ls_gemm_args *g = &kernel->gemm;
    const ls_conv_shape *s = &kernel->conv;
    if (kernel->op == LS_KERNEL_GEMM) return 2 * (double)g->M * (double)g->N * (double)g->K;
    return 2 * (double)(s->samples * s->out_height * s->out_width) * (double)s->filters *
           (double)(s->kernel_height * s->kernel_width * s->channels);
}

void ls_kernel_floats(const ls_kernel_case *kernel, size_t count[3])
{
    const ls_gemm_args *g = &kernel->gemm;
    const ls_conv_shape *s = &kernel->conv;
    const size_t x = s->samples * s->height * s->width * s->channels;
    const size_t y = s->samples * s->out_height * s->out_width * s->filters;
    const size_t w = weight_floats(s);
    const size_t floats[][3] = {
        [LS_KERNEL_GEMM] = { g->M * g->K, g->K * g->N, g->M * g->N },
        [LS_KERNEL_CONV_FORWARD] = { x, w, y },
        [LS_KERNEL_CONV_INPUT_GRADIENT] = { y, w, x },
        [LS_KERNEL_CONV_WEIGHT_GRADIENT] = { x, y, w },
    };
    memcpy(count, floats[kernel->op], sizeof floats[0]);
}

ls_status ls_kernel_call(ls_stream *stream, const ls_kernel_case *kernel, const ls_fold *fold,
                         const float *a, const float *b, float *c)
{
    ls_gemm_args gemm;
    switch (kernel->op) {
    case LS_KERNEL_GEMM:
        gemm = kernel->gemm;
        gemm.A = a;
        gemm.B = b;
        gemm.C = c;
        return ls_gemm(stream, &gemm);
    case LS_KERNEL_CONV_FORWARD:
        return ls_conv_forward(stream, &(ls_conv_forward_args){
            .shape = kernel->conv, .x = a, .w = b, .y = c });
    case LS_KERNEL_CONV_INPUT_GRADIENT:
        return ls_conv_input_gradient(stream, &(ls_conv_input_gradient_args){
            .shape = kernel->conv, .dy = a, .w = b, .dx = c });
    case LS_KERNEL_CONV_WEIGHT_GRADIENT:
        return ls_conv_weight_gradient(stream, &(ls_conv_weight_gradient_args){
            .shape = kernel->conv, .fold = fold, .x = a, .dy = b, .dw = c,
            .piece_stride = weight_floats(&kernel->conv) });
    }
    return LS_OK;
}

/* -- arrays ------------------------------------------------------------------------------------ */

/* `count` numbers in -0.5 .. 0.5, none of them denormal. */
static ls_status open_array(kernel_run *run, size_t count, float **out)
{
    void *memory = NULL;
    LS_TRY(ls_device_alloc(run->stream->device, count * sizeof(float), &memory));
    *out = memory;
    for (size_t i = 0; i < count; i++)
        run->host[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    LS_TRY(ls_copy_to_device(run->stream, *out, run->host, count * sizeof(float)));
    return ls_stream_drain(run->stream, NULL, "the inputs");
}

static ls_status open_arrays(kernel_run *run)
{
    void *host = NULL;
    const size_t most = ls_max_size(run->count[0], ls_max_size(run->count[1], run->count[2]));
    LS_TRY(ls_pinned_alloc(run->stream->device, most * sizeof(float), &host));
    run->host = host;
    LS_TRY(open_array(run, run->count[0], &run->a));
    LS_TRY(open_array(run, run->count[1], &run->b));
    return open_array(run, run->count[2], &run->c);
}

/* After a failure calls may still run; what they use cannot be released then. */
static void close_arrays(kernel_run *run)
{
    ls_record cause;
    ls_record_keep(&cause);
    const bool settled = ls_stream_settles(run->stream, LS_SETTLE_SECONDS);
    ls_record_restore(&cause);
    if (!settled) ls_console_leave();
    ls_device_release(run->stream->device, run->c);
    ls_device_release(run->stream->device, run->b);
    ls_device_release(run->stream->device, run->a);
    ls_pinned_release(run->stream->device, run->host);
    ls_record_restore(&cause);
}

/* -- measuring --------------------------------------------------------------------------------- */

static ls_status time_calls(const kernel_run *run, int calls, double *seconds)
{
    const double begin = ls_clock();
    for (int i = 0; i < calls; i++) {
        LS_TRY(ls_kernel_call(run->stream, run->kernel, &run->plan.pass[0], run->a, run->b,
                              run->c));
    }
    LS_TRY(ls_stream_drain(run->stream, NULL, run->kernel->name));
    *seconds = (ls_clock() - begin) / calls;
    return LS_OK;
}

static ls_status measure(const kernel_run *run, int repetitions, double *seconds, double *peak,
                         ls_kernel_result *result)
{
    ls_peak_probe probe;
    double once = 0;
    LS_TRY(ls_peak_probe_init(&probe, run->stream->device));
    LS_TRY(time_calls(run, 1, &once)); /* warms up */
    LS_TRY(time_calls(run, 1, &once));
    const double wanted = once > 0 ? LS_BENCH_SECONDS / once : CALLS_MAX;
    const int calls = wanted < 1 ? 1 : wanted < CALLS_MAX ? (int)wanted : CALLS_MAX;
    const double begin = ls_clock();
    int k = 0;
    while (k < repetitions && (k < LEAST_REPETITIONS || ls_clock() - begin < ROW_SECONDS)) {
        LS_TRY(time_calls(run, calls, &seconds[k]));
        peak[k++] = ls_peak_probe_sample(&probe);
    }
    *result = (ls_kernel_result){ .repetitions = k,
                                  .seconds = ls_bench_spread_of(seconds, k),
                                  .flops = ls_kernel_flops(run->kernel),
                                  .peak = ls_bench_spread_of(peak, k).median };
    return LS_OK;
}

ls_status ls_kernel_measure(ls_stream *stream, const ls_kernel_case *kernel, int shard_count,
                            int repetitions, ls_kernel_result *result)
{
    kernel_run run = { .stream = stream, .kernel = kernel };
    double *seconds = calloc(2 * (size_t)repetitions, sizeof *seconds);
    if (!seconds) return ls_fail(LS_ERR_MEMORY, "no memory for %d times", repetitions);
    ls_fold_plan_init(&run.plan, shard_count, 1, 0, 1, kernel->conv.samples);
    ls_kernel_floats(kernel, run.count);
    run.count[2] *= kernel->op == LS_KERNEL_CONV_WEIGHT_GRADIENT ? (size_t)run.plan.piece_count : 1;
    ls_status status = open_arrays(&run);
    if (status == LS_OK)
        status = measure(&run, repetitions, seconds, seconds + repetitions, result);
    close_arrays(&run);
    free(seconds);
    return status;
}
