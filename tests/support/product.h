/* SPDX-License-Identifier: MIT */
/* product.h -- a matrix product with its arrays, on one machine, and on all of them.
 *
 * Arrays are of their exact length, so that the address sanitizer sees any step outside. Only the
 * main thread may call these: they assert.
 */
#ifndef TEST_SUPPORT_PRODUCT_H
#define TEST_SUPPORT_PRODUCT_H

#include "kernels/kernels.h"
#include "support/machines.h"
#include "support/naive.h"

/* Operands of one product. */
typedef struct {
    ls_gemm_args args;
    float *A, *B, *bias, *C; /* owned; C is what accumulate adds to */
} product;

/* Operands for args.M, N, K. args.bias says whether there is one; NaN in C unless accumulate. */
product product_of(naive_random *n, ls_gemm_args args);
void product_free(product *p);

/* C as `m` computes it. Free it. */
float *run_product(const product *p, machine *m);

/* On every machine: the bits of the first. Fails the test where they differ. */
void product_check_twins(machines *set, const product *p);

#endif
