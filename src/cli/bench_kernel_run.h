/* SPDX-License-Identifier: MIT */
/* bench_kernel_run.h -- one product or convolution, timed on one device beside the device's peak.
 *
 * On a busy machine a kernel and the peak it is compared with (bench_peak.h) must meet the same
 * load: samples of both alternate, and each is the median of its own.
 *
 * Thread rule: the device belongs to the calling thread.
 */
#ifndef LS_CLI_BENCH_KERNEL_RUN_H
#define LS_CLI_BENCH_KERNEL_RUN_H

#include "cli/bench.h"
#include "device/device.h"
#include "kernels/kernels.h"

typedef enum {
    LS_KERNEL_GEMM,
    LS_KERNEL_CONV_FORWARD,
    LS_KERNEL_CONV_INPUT_GRADIENT,
    LS_KERNEL_CONV_WEIGHT_GRADIENT
} ls_kernel_op;

typedef struct {
    ls_kernel_op op;
    char name[48];       /* "cifar10-cnn dense1 forward" */
    int count;           /* of this shape in the model, the layer of this name the first */
    ls_gemm_args gemm;   /* GEMM; pointers NULL */
    ls_conv_shape conv;  /* the others */
} ls_kernel_case;

/* Of one call: twice its multiply-adds, padding counted as data. */
double ls_kernel_flops(const ls_kernel_case *kernel);

/* Floats of its inputs a and b and its output c: A B C of a product; x w y, dy w dx and x dy dw of
 * a convolution's passes. */
void ls_kernel_floats(const ls_kernel_case *kernel, size_t count[3]);

/* Enqueue one call on these arrays. `fold`, and its pieces in c, are a weight gradient's alone.
 * Async.   Errors: as the op's. */
LS_MUST_USE ls_status ls_kernel_call(ls_stream *stream, const ls_kernel_case *kernel,
                                     const ls_fold *fold, const float *a, const float *b, float *c);

typedef struct {
    int repetitions;     /* as many as asked for, or what a quarter of a second had room for */
    ls_bench_spread seconds; /* of one call, over the repetitions */
    double flops;        /* of one call */
    double peak;         /* flops per second, median over the repetitions; 0: not known */
} ls_kernel_result;

/* `shard_count`: of the weight gradient's fold. A repetition is as many calls, one after another
 * without a wait, as take LS_BENCH_SECONDS, or one; once three of them are there, none begins after
 * a quarter of a second.
 * Errors: MEMORY, DEVICE, TIMEOUT. Blocks. */
LS_MUST_USE ls_status ls_kernel_measure(ls_stream *stream, const ls_kernel_case *kernel,
                                        int shard_count, int repetitions, ls_kernel_result *result);

#endif
