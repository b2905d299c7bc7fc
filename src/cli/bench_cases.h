/* SPDX-License-Identifier: MIT */
/* bench_cases.h -- which products and convolutions `lockstep bench gemm` and `bench conv` time.
 *
 * They are a model's layers at one replica's batch, in its order: of each dense layer the products
 * of forward and of the gradient of its input; of each convolution all three passes. A dense
 * layer's weight gradient is among the convolutions, whose case with one place and a 1x1 kernel it
 * is. What feeds the first layer with weights needs no gradient. A shape stands once, with the
 * number of layers that have it. Names say model, layer and pass.
 */
#ifndef LS_CLI_BENCH_CASES_H
#define LS_CLI_BENCH_CASES_H

#include "cli/bench_kernel_run.h"
#include "io/dataset.h"

enum { LS_BENCH_CASES_MAX = 512 };

typedef struct {
    ls_kernel_case kernel[LS_BENCH_CASES_MAX];
    int count;
    bool is_gemm;   /* products, else convolutions and weight gradients */
    size_t batch;
} ls_bench_cases;

/* Add those of a built-in model or model file on `data`, which may be NULL if its shapes do not
 * depend on data. Errors: ARGUMENT (no such model; it needs data, or others; more cases than there
 * is room for), MEMORY. */
LS_MUST_USE ls_status ls_bench_cases_of_model(ls_bench_cases *cases, const char *model,
                                              const ls_dataset_info *data);

/* Add shapes that are large and even, where a kernel has no excuse: squares of `square`, half and a
 * quarter of it, or a convolution. Errors: ARGUMENT (no room). */
LS_MUST_USE ls_status ls_bench_cases_even(ls_bench_cases *cases, int square);

/* "32x64x6272 nt", M x N x K and which of A and B is transposed; or "32x28x28x64 128 of 3x3/2",
 * samples x height x width x channels, filters of height x width / stride. */
enum { LS_BENCH_SHAPE_BYTES = 160 };
const char *ls_bench_shape_text(const ls_kernel_case *kernel, char out[LS_BENCH_SHAPE_BYTES]);

#endif
