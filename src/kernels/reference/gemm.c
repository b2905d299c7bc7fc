/* SPDX-License-Identifier: MIT */
/* gemm.c -- the matrix product, as plain as it can be said: the definition of its bits.
 *
 * Each element of C is one chain (docs/numerics.md 1.2): from +0, k ascending, every product added
 * by a fused multiply-add, then the bias, then + 0.0f, which settles the sign of a zero. Nothing
 * here is fast; the host and device versions must give the same bits as this file.
 */
#include "kernels/reference/reference.h"

/* op(A)[m,k] */
static float a_at(const ls_gemm_args *g, size_t m, size_t k)
{
    return g->transpose_a ? g->A[k * g->M + m] : g->A[m * g->K + k];
}

/* op(B)[k,n] */
static float b_at(const ls_gemm_args *g, size_t k, size_t n)
{
    return g->transpose_b ? g->B[n * g->K + k] : g->B[k * g->N + n];
}

static float element(const ls_gemm_args *g, size_t m, size_t n)
{
    float sum = 0.0f;
    for (size_t k = 0; k < g->K; k++) sum = ls_fmaf(a_at(g, m, k), b_at(g, k, n), sum);
    if (g->bias != NULL) sum += g->bias[n];
    sum += 0.0f;
    return g->relu && sum <= 0.0f ? 0.0f : sum;
}

ls_status ls_gemm_reference(ls_stream *stream, const ls_gemm_args *g)
{
    (void)stream;
    for (size_t m = 0; m < g->M; m++) {
        for (size_t n = 0; n < g->N; n++) {
            float *c = &g->C[m * g->N + n];
            const float sum = element(g, m, n);
            *c = g->accumulate ? *c + sum : sum;
        }
    }
    return LS_OK;
}
