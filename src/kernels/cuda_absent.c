/* SPDX-License-Identifier: MIT */
/* cuda_absent.c -- the table of ops of a build without CUDA: none. */
#include "kernels/cuda/table.h"

const ls_kernels *ls_kernels_cuda_table(void) { return NULL; }
