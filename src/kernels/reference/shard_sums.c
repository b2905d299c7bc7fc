/* SPDX-License-Identifier: MIT */
/* shard_sums.c -- what each shard adds to a step's loss, metrics and counts.
 *
 * Per shard, flat sums in double over its samples (docs/numerics.md 2.4). Floats are converted
 * first and multiplied then, which is exact. A step has as many terms as samples: this plain form
 * is also the host's, nothing faster would be noticed.
 */
#include "kernels/reference/reference.h"

static ls_shard_sum sum_of_samples(const ls_shard_sums_args *args, size_t begin, size_t end)
{
    ls_flat_f64 loss, weight, error, square;
    ls_flat_init_f64(&loss);
    ls_flat_init_f64(&weight);
    ls_flat_init_f64(&error);
    ls_flat_init_f64(&square);
    ls_shard_sum sum = { .samples = (int64_t)(end - begin) };
    for (size_t i = begin; i < end; i++) {
        const double w = args->weight ? (double)args->weight[i] : 1.0;
        ls_flat_add_f64(&weight, w);
        ls_flat_add_f64(&loss, w * (double)args->loss[i]);
        if (args->absolute_error) ls_flat_add_f64(&error, (double)args->absolute_error[i]);
        if (args->squared_error) ls_flat_add_f64(&square, (double)args->squared_error[i]);
        if (args->place) {
            sum.correct += args->place[i] == 0;
            sum.top += args->place[i] < args->top_k;
        }
    }
    sum.loss = ls_flat_end_f64(&loss);
    sum.weight = ls_flat_end_f64(&weight);
    sum.error = ls_flat_end_f64(&error);
    sum.square = ls_flat_end_f64(&square);
    return sum;
}

ls_status ls_shard_sums_reference(ls_stream *stream, const ls_shard_sums_args *args)
{
    (void)stream;
    const ls_fold *fold = args->fold;
    for (int i = 0; i < fold->leaf_count; i++) {
        ls_shard_sum *row = &args->out[fold->shard[i]];
        *row = sum_of_samples(args, fold->sample[i], fold->sample[i + 1]);
    }
    return LS_OK;
}
