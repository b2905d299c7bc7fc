/* SPDX-License-Identifier: MIT */
/* table.c -- the fast host implementations of one instruction set, as one table. */
#include "kernels/host/host.h"
#include "kernels/reference/reference.h"

#define LS_STRING(name) LS_STRING_OF(name)
#define LS_STRING_OF(name) #name

const ls_kernels LS_HOST(kernels) = {
    .name = LS_STRING(LS_ISA),
    .gemm = ls_gemm_reference,
    .conv_forward = ls_conv_forward_reference,
    .conv_input_gradient = ls_conv_input_gradient_reference,
    .conv_weight_gradient = ls_conv_weight_gradient_reference,
    .batch_sum = ls_batch_sum_reference,
    .max_pool = ls_max_pool_reference,
    .max_pool_gradient = ls_max_pool_gradient_reference,
    .relu = ls_relu_reference,
    .relu_gradient = ls_relu_gradient_reference,
    .dropout = ls_dropout_reference,
    .softmax_loss = ls_softmax_loss_reference,
    .squared_loss = ls_squared_loss_reference,
    .shard_sums = ls_shard_sums_reference, /* a step has few samples: nothing to gain */
    .gradient_finish = ls_gradient_finish_reference,
    .weight_sums = ls_weight_sums_reference,
    .update = ls_update_reference,
    .digest = ls_digest_reference,
    .nonfinite = ls_nonfinite_reference,
    .merge = ls_merge_reference,
};
