/* SPDX-License-Identifier: MIT */
/* pooled.h -- what the ops of a convolution and the max pooling over it stand for: ops of a table,
 * one after the other, by way of memory.
 */
#ifndef LS_KERNELS_POOLED_H
#define LS_KERNELS_POOLED_H

#include "kernels/kernels.h"

static inline ls_status ls_pooled_conv_forward_in_turn(const ls_kernels *table, ls_stream *stream,
                                                       const ls_pooled_conv_forward_args *args)
{
    LS_TRY(table->conv_forward(stream, &args->conv));
    return table->max_pool(stream, &args->pool);
}

static inline ls_status
ls_pooled_weight_gradient_in_turn(const ls_kernels *table, ls_stream *stream,
                                  const ls_pooled_weight_gradient_args *args)
{
    const ls_conv_weight_gradient_args *conv = &args->conv;
    LS_TRY(table->max_pool_gradient(stream, &args->pool));
    LS_TRY(table->conv_weight_gradient(stream, conv));
    if (args->db == NULL) return LS_OK;
    return table->batch_sum(stream, &(ls_batch_sum_args){
        .height = conv->shape.out_height, .width = conv->shape.out_width,
        .channels = conv->shape.filters, .fold = conv->fold, .x = conv->dy, .out = args->db,
        .piece_stride = conv->piece_stride });
}

#endif
