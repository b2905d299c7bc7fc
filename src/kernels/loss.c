/* SPDX-License-Identifier: MIT */
/* loss.c -- the checked entries of the ops in loss.h (check.h). */
#include "kernels/check.h"

/* A gradient of 0 would be no gradient: whoever asks for one gives the scale. */
static ls_status check_loss_scale(const char *op, const float *gradient, float scale)
{
    if (gradient == NULL || scale > 0.0f) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: a gradient with loss_scale %g: want more than 0", op,
                   (double)scale);
}

ls_status ls_softmax_loss(ls_stream *stream, const ls_softmax_loss_args *args)
{
    if (args->classes == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "softmax_loss: 0 classes");
    }
    const bool compares = args->loss != NULL || args->place != NULL || args->dlogits != NULL;
    LS_CHECK_POINTER("softmax_loss", args->samples > 0, logits);
    LS_CHECK_POINTER("softmax_loss", args->samples > 0 && compares, label);
    LS_TRY(check_loss_scale("softmax_loss", args->dlogits, args->loss_scale));
    return ls_enqueued(stream, ls_kernels_of(stream)->softmax_loss(stream, args));
}

ls_status ls_sigmoid_loss(ls_stream *stream, const ls_sigmoid_loss_args *args)
{
    if (args->outputs == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "sigmoid_loss: 0 outputs");
    }
    const bool compares = args->loss != NULL || args->dlogits != NULL ||
                          args->absolute_error != NULL || args->squared_error != NULL;
    LS_CHECK_POINTER("sigmoid_loss", args->samples > 0, logits);
    LS_CHECK_POINTER("sigmoid_loss", args->samples > 0 && compares && args->label == NULL, target);
    LS_CHECK_POINTER("sigmoid_loss", args->samples > 0 && args->place != NULL, label);
    LS_TRY(check_loss_scale("sigmoid_loss", args->dlogits, args->loss_scale));
    return ls_enqueued(stream, ls_kernels_of(stream)->sigmoid_loss(stream, args));
}

ls_status ls_regression_loss(ls_stream *stream, const ls_regression_loss_args *args)
{
    if (args->outputs == 0 || args->kind > LS_REGRESSION_ABSOLUTE) {
        return ls_fail(LS_ERR_ARGUMENT, "regression_loss: kind %d of %zu outputs", (int)args->kind,
                       args->outputs);
    }
    LS_CHECK_POINTER("regression_loss", args->samples > 0, prediction);
    LS_CHECK_POINTER("regression_loss", args->samples > 0, target);
    LS_TRY(check_loss_scale("regression_loss", args->dprediction, args->loss_scale));
    return ls_enqueued(stream, ls_kernels_of(stream)->regression_loss(stream, args));
}

ls_status ls_shard_sums(ls_stream *stream, const ls_shard_sums_args *args)
{
    LS_TRY(ls_check_fold("shard_sums", args->fold, 0, 0));
    LS_CHECK_POINTER("shard_sums", args->fold->sample[args->fold->leaf_count] > 0, loss);
    LS_CHECK_POINTER("shard_sums", args->fold->leaf_count > 0, out);
    return ls_enqueued(stream, ls_kernels_of(stream)->shard_sums(stream, args));
}
