/* SPDX-License-Identifier: MIT */
/* arena.c -- the checked entries of the ops in arena.h (check.h). */
#include "kernels/check.h"

static ls_status check_arena(const char *op, const ls_arena_table *tensors)
{
    if (tensors == NULL) return ls_check_missing(op, "tensors");
    if (tensors->count < 0 || (tensors->count > 0 && tensors->host == NULL)) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: a table of %d tensors at %p", op, tensors->count,
                       (const void *)tensors->host);
    }
    for (int t = 0; t < tensors->count; t++) {
        if (tensors->host[t].begin % 32 != 0) {
            return ls_fail(LS_ERR_ARGUMENT, "%s: tensor %d begins at %zu, no multiple of 32", op,
                           t, tensors->host[t].begin);
        }
    }
    return LS_OK;
}

static ls_status check_finish(const ls_gradient_finish_args *args)
{
    LS_TRY(check_arena("gradient_finish", args->tensors));
    const bool some = args->tensors->count > 0;
    LS_CHECK_POINTER("gradient_finish", some, w);
    LS_CHECK_POINTER("gradient_finish", some, g);
    LS_CHECK_POINTER("gradient_finish", some, square_sum);
    LS_CHECK_POINTER("gradient_finish", some, nonfinite);
    return LS_OK;
}

ls_status ls_gradient_finish(ls_stream *stream, const ls_gradient_finish_args *args)
{
    LS_TRY(check_finish(args));
    return ls_enqueued(stream, ls_kernels_of(stream)->gradient_finish(stream, args));
}

ls_status ls_weight_sums(ls_stream *stream, const ls_weight_sums_args *args)
{
    LS_TRY(check_arena("weight_sums", args->tensors));
    const bool some = args->tensors->count > 0;
    LS_CHECK_POINTER("weight_sums", some, w);
    LS_CHECK_POINTER("weight_sums", some, square_sum);
    LS_CHECK_POINTER("weight_sums", some, absolute_sum);
    return ls_enqueued(stream, ls_kernels_of(stream)->weight_sums(stream, args));
}

ls_status ls_update(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(check_arena("update", args->tensors));
    const bool some = args->tensors->count > 0;
    const ls_optimizer optimizer = args->optimizer;
    if ((unsigned)optimizer > LS_OPTIMIZER_RMSPROP) {
        return ls_fail(LS_ERR_ARGUMENT, "update: optimizer %d", (int)optimizer);
    }
    const bool adam = optimizer == LS_OPTIMIZER_ADAM || optimizer == LS_OPTIMIZER_ADAMW;
    LS_CHECK_POINTER("update", some, step_host);
    LS_CHECK_POINTER("update", some, step_device);
    LS_CHECK_POINTER("update", some, g);
    LS_CHECK_POINTER("update", some, w);
    LS_CHECK_POINTER("update", some && optimizer != LS_OPTIMIZER_SGD, slot0);
    LS_CHECK_POINTER("update", some && adam, slot1);
    LS_CHECK_POINTER("update", some, update_square_sum);
    LS_CHECK_POINTER("update", true, digest);
    if (args->finish) {
        LS_TRY(check_finish(args->finish));
        const bool same = args->finish->tensors == args->tensors && args->finish->w == args->w
                          && args->finish->g == args->g;
        if (!same)
            return ls_fail(LS_ERR_ARGUMENT, "update: finish is of other tensors, weights or sums");
    }
    return ls_enqueued(stream, ls_kernels_of(stream)->update(stream, args));
}
