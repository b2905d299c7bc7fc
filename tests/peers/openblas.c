/* SPDX-License-Identifier: MIT */
/* openblas.c -- a product by OpenBLAS, on plain row-major buffers. See openblas.h. */
#include "openblas.h"

#include <cblas.h>

void openblas_run_product(const ls_gemm_args *g)
{
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->transpose_b ? CblasTrans : CblasNoTrans, (int)g->M, (int)g->N, (int)g->K, 1.0f,
                g->A, (int)(g->transpose_a ? g->M : g->K), g->B,
                (int)(g->transpose_b ? g->K : g->N), 0.0f, g->C, (int)g->N);
}

const char *openblas_version(void)
{
    return openblas_get_config();
}

const char *openblas_core(void)
{
    return openblas_get_corename();
}
