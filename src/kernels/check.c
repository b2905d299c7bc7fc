/* SPDX-License-Identifier: MIT */
/* check.c -- see check.h. */
#include "kernels/check.h"

#include <assert.h>

const ls_kernels *ls_kernels_of(const ls_stream *stream)
{
    assert(stream->device->kernels != NULL); /* ls_kernels_bind comes before the first op */
    return stream->device->kernels;
}

ls_status ls_enqueued(ls_stream *stream, ls_status status)
{
    if (status == LS_OK) ls_device_progress(stream->device);
    return status;
}

ls_status ls_check_missing(const char *op, const char *name)
{
    return ls_fail(LS_ERR_ARGUMENT, "%s: %s is NULL", op, name);
}

ls_status ls_check_in_place(const char *op, size_t count, const float *to, const float *from)
{
    const uintptr_t a = (uintptr_t)to, b = (uintptr_t)from, bytes = count * sizeof(float);
    if (a == b || a + bytes <= b || b + bytes <= a) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: output and input of %zu floats overlap by %zu bytes", op,
                   count, (size_t)(a < b ? a + bytes - b : b + bytes - a));
}

ls_status ls_check_fold(const char *op, const ls_fold *fold, size_t piece_floats,
                            size_t piece_stride)
{
    if (fold == NULL) return ls_check_missing(op, "fold");
    if (fold->leaf_count < 0 || fold->leaf_count > LS_SHARD_MAX || fold->piece_count < 0 ||
        fold->slot_count < fold->piece_count) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: fold: %d leaves, %d pieces, %d slots", op,
                       fold->leaf_count, fold->piece_count, fold->slot_count);
    }
    for (int i = 0; i < fold->leaf_count; i++) {
        bool ok = fold->shard[i] >= 0 && fold->shard[i] < LS_SHARD_MAX &&
                  fold->sample[i] <= fold->sample[i + 1] && fold->store[i] < fold->slot_count &&
                  fold->merge_count[i] <= LS_FOLD_MERGE_MAX;
        for (int m = 0; ok && m < fold->merge_count[i]; m++) {
            ok = fold->merge[i][m] < fold->slot_count;
        }
        if (!ok) {
            return ls_fail(LS_ERR_ARGUMENT,
                           "%s: fold: leaf %d: shard %d, samples [%zu, %zu), %d merges, slot %d of "
                           "%d",
                           op, i, fold->shard[i], fold->sample[i], fold->sample[i + 1],
                           fold->merge_count[i], fold->store[i], fold->slot_count);
        }
    }
    if (fold->piece_count > 1 && piece_stride < piece_floats) {
        return ls_fail(LS_ERR_ARGUMENT, "%s: pieces of %zu floats lie %zu apart", op, piece_floats,
                       piece_stride);
    }
    return LS_OK;
}
