/* SPDX-License-Identifier: MIT */
/* table.c -- the fast host implementations of one instruction set, as one table.
 *
 * Sums of shards are the reference's: a step has as few of them as it has samples, and a faster
 * form would not be noticed.
 */
#include "kernels/host/host.h"
#include "kernels/reference/reference.h"

#define LS_STRING(name) LS_STRING_OF(name)
#define LS_STRING_OF(name) #name

const ls_kernels LS_HOST(kernels) = {
    .name = LS_STRING(LS_ISA),
    .gemm = LS_HOST(gemm),
    .conv_forward = LS_HOST(conv_forward),
    .conv_input_gradient = LS_HOST(conv_input_gradient),
    .conv_weight_gradient = LS_HOST(conv_weight_gradient),
    .batch_sum = LS_HOST(batch_sum),
    .max_pool = LS_HOST(max_pool),
    .max_pool_gradient = LS_HOST(max_pool_gradient),
    .average_pool = LS_HOST(average_pool),
    .average_pool_gradient = LS_HOST(average_pool_gradient),
    .pooled_conv_forward = LS_HOST(pooled_conv_forward),
    .pooled_weight_gradient = LS_HOST(pooled_weight_gradient),
    .activate = LS_HOST(activate),
    .activate_gradient = LS_HOST(activate_gradient),
    .dropout = LS_HOST(dropout),
    .add = LS_HOST(add),
    .multiply = LS_HOST(multiply),
    .copy_columns = LS_HOST(copy_columns),
    .pad = LS_HOST(pad),
    .decode = LS_HOST(decode),
    .narrow = LS_HOST(narrow),
    .widen = LS_HOST(widen),
    .softmax_loss = LS_HOST(softmax_loss),
    .sigmoid_loss = LS_HOST(sigmoid_loss),
    .regression_loss = LS_HOST(regression_loss),
    .shard_sums = ls_shard_sums_reference,
    .gradient_finish = LS_HOST(gradient_finish),
    .weight_sums = LS_HOST(weight_sums),
    .update = LS_HOST(update),
    .digest = LS_HOST(digest),
    .nonfinite = LS_HOST(nonfinite),
    .merge = LS_HOST(merge),
    .batchnorm_statistics = LS_HOST(batchnorm_statistics),
    .batchnorm_merge = LS_HOST(batchnorm_merge),
    .batchnorm = LS_HOST(batchnorm),
    .batchnorm_gradient_sums = LS_HOST(batchnorm_gradient_sums),
    .batchnorm_merge_sums = LS_HOST(batchnorm_merge_sums),
    .batchnorm_gradient = LS_HOST(batchnorm_gradient),
};
