/* SPDX-License-Identifier: MIT */
/* chain_rows.h -- host: the sum of a slice's rows per channel (batch_sum.c). */
#ifndef LS_KERNELS_HOST_CHAIN_ROWS_H
#define LS_KERNELS_HOST_CHAIN_ROWS_H

#include "kernels/host/host.h"

/* out[0..n) = the chain over `places` rows of x, `stride` floats apart. */
void LS_HOST(chain_rows)(const float *x, size_t places, size_t stride, size_t n, float *out);

#endif
