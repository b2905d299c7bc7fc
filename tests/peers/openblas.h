/* SPDX-License-Identifier: MIT */
/* openblas.h -- a product by OpenBLAS, on plain row-major buffers. */
#ifndef TESTS_PEERS_OPENBLAS_H
#define TESTS_PEERS_OPENBLAS_H

#include "kernels/kernels.h"

/* C = op(A) op(B), pointers of `gemm` set; bias, relu and accumulate are not looked at. */
void openblas_run_product(const ls_gemm_args *gemm);

/* "OpenBLAS 0.3.21 ...", and the core that it chose or was given; static text. */
const char *openblas_version(void);
const char *openblas_core(void);

#endif
