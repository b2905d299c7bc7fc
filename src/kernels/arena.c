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

static ls_status check_finish(const char *op, const ls_gradient_finish_args *args)
{
    LS_TRY(check_arena(op, args->tensors));
    const bool some = args->tensors->count > 0;
    LS_CHECK_POINTER(op, some, w);
    LS_CHECK_POINTER(op, some, g);
    LS_CHECK_POINTER(op, some, square_sum);
    LS_CHECK_POINTER(op, some, nonfinite);
    return LS_OK;
}

ls_status ls_gradient_finish(ls_stream *stream, const ls_gradient_finish_args *args)
{
    LS_TRY(check_finish("gradient_finish", args));
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

/* What an update finishes on the way must be what it updates from. */
static ls_status check_joined(const ls_update_args *args)
{
    const ls_gradient_finish_args *finish = args->finish;
    LS_TRY(check_finish("update's finish", finish));
    if (finish->tensors == args->tensors && finish->w == args->w && finish->g == args->g)
        return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "update: finish has tensors, w and g at %p, %p and %p, expected"
                   " the update's own, %p, %p and %p", (const void *)finish->tensors,
                   (const void *)finish->w, (const void *)finish->g, (const void *)args->tensors,
                   (const void *)args->w, (const void *)args->g);
}

ls_status ls_update(ls_stream *stream, const ls_update_args *args)
{
    LS_TRY(check_arena("update", args->tensors));
    const bool some = args->tensors->count > 0;
    const ls_optimizer optimizer = args->optimizer;
    if ((unsigned)optimizer > LS_OPTIMIZER_RMSPROP) {
        return ls_fail(LS_ERR_ARGUMENT, "update: optimizer %d", (int)optimizer);
    }
    LS_CHECK_POINTER("update", some, step_host);
    LS_CHECK_POINTER("update", some, step_device);
    LS_CHECK_POINTER("update", some, g);
    LS_CHECK_POINTER("update", some, w);
    LS_CHECK_POINTER("update", some && optimizer != LS_OPTIMIZER_SGD, slot0);
    LS_CHECK_POINTER("update", some && ls_optimizer_is_adam(optimizer), slot1);
    LS_CHECK_POINTER("update", some, update_square_sum);
    LS_CHECK_POINTER("update", true, digest);
    if (args->finish) LS_TRY(check_joined(args));
    return ls_enqueued(stream, ls_kernels_of(stream)->update(stream, args));
}
