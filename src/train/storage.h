/* SPDX-License-Identifier: MIT */
/* storage.h -- how the passes read and write what is kept in the run's precision.
 *
 * Every op computes in fp32. In class f32 activations, their gradients and the weights are kept in
 * fp32 too, and the functions here hand out the memory itself. In the classes bf16 and f16 what is
 * kept has 16 bits: an op's operands are widened (exactly) into scratch memory, its result is made
 * there and rounded once when it is stored. A product of two such numbers is exact in fp32, and
 * sums stay in fp32 from the first term to the last: this is what a matrix unit with 16-bit
 * operands and fp32 accumulation computes, in the canonical order.
 *
 * Rounded are: the input, every layer's output but the last's (the logits), every gradient of an
 * activation, and kernels where they are multiplied. Not rounded: biases, gamma and beta,
 * statistics, losses, gradients of parameters, optimizer state and the master weights.
 *
 * Internal to forward.c, backward.c and loss.c.
 */
#ifndef LS_TRAIN_STORAGE_H
#define LS_TRAIN_STORAGE_H

#include "train/replica.h"

/* Scratch buffers by use. An op has at most two operands that are activations, and one result. */
enum { LS_SCRATCH_A, LS_SCRATCH_B, LS_SCRATCH_RESULT };

/* *out = the `count` numbers of `from` in fp32; scratch[which] is used if they are narrow. */
LS_MUST_USE ls_status ls_storage_read(ls_replica *r, ls_stored from, size_t count, int which,
                                      const float **out);

/* Where to make numbers that ls_storage_write then stores in `to`. */
float *ls_storage_draft(const ls_replica *r, ls_stored to);
LS_MUST_USE ls_status ls_storage_write(ls_replica *r, ls_stored to, size_t count);

/* *out = a parameter as it takes part in products: kernels rounded, all others as they are. */
LS_MUST_USE ls_status ls_storage_parameter(ls_replica *r, int parameter, const float **out);

#endif
