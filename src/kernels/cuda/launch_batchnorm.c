/* SPDX-License-Identifier: MIT */
/* launch_batchnorm.c -- batch normalisation on a GPU.
 */
#include "kernels/cuda/launch.h"

ls_status ls_batchnorm_statistics_cuda(ls_stream *stream, const ls_batchnorm_statistics_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm_statistics: not on a GPU yet");
}

ls_status ls_batchnorm_merge_cuda(ls_stream *stream, const ls_batchnorm_merge_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm_merge: not on a GPU yet");
}

ls_status ls_batchnorm_cuda(ls_stream *stream, const ls_batchnorm_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm: not on a GPU yet");
}

ls_status ls_batchnorm_gradient_sums_cuda(ls_stream *stream, const ls_batchnorm_gradient_sums_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm_gradient_sums: not on a GPU yet");
}

ls_status ls_batchnorm_merge_sums_cuda(ls_stream *stream, const ls_batchnorm_merge_sums_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm_merge_sums: not on a GPU yet");
}

ls_status ls_batchnorm_gradient_cuda(ls_stream *stream, const ls_batchnorm_gradient_args *a)
{
    (void)stream, (void)a;
    return ls_fail(LS_ERR_DEVICE, "batchnorm_gradient: not on a GPU yet");
}
