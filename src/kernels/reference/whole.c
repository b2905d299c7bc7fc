/* SPDX-License-Identifier: MIT */
/* whole.c -- reference: digest, finite test and merge of whole buffers. */
#include "kernels/reference/reference.h"

ls_status ls_digest_reference(ls_stream *stream, const ls_digest_args *args)
{
    (void)stream;
    uint64_t digest = LS_DIGEST_START;
    for (size_t i = 0; i < args->count; i++) digest += ls_digest_term(i, args->x[i]);
    *args->out = digest;
    return LS_OK;
}

ls_status ls_nonfinite_reference(ls_stream *stream, const ls_nonfinite_args *args)
{
    (void)stream;
    *args->out = LS_ALL_FINITE;
    for (size_t i = 0; i < args->count; i++) {
        if (!ls_is_finite(args->x[i])) {
            *args->out = i;
            break;
        }
    }
    return LS_OK;
}

/* The merge program run for element i. */
static float merged(const ls_merge_args *args, size_t i)
{
    float stack[LS_MERGE_MAX];
    int depth = 0;
    for (int s = 0; s < args->source_count; s++) {
        stack[depth++] = args->source[s][i];
        for (int add = 0; add < args->adds[s]; add++) {
            depth--;
            stack[depth - 1] = stack[depth - 1] + stack[depth];
        }
    }
    return stack[0];
}

ls_status ls_merge_reference(ls_stream *stream, const ls_merge_args *args)
{
    (void)stream;
    uint64_t source_digest[LS_MERGE_MAX], out_digest = LS_DIGEST_START;
    for (int s = 0; s < args->source_count; s++) source_digest[s] = LS_DIGEST_START;
    for (size_t i = 0; i < args->count; i++) {
        for (int s = 0; s < args->source_count; s++) {
            source_digest[s] += ls_digest_term(i, args->source[s][i]);
        }
        const float sum = merged(args, i);
        out_digest += ls_digest_term(i, sum);
        for (int o = 0; o < args->out_count; o++) args->out[o][i] = sum;
    }
    for (int s = 0; args->source_digest && s < args->source_count; s++) {
        args->source_digest[s] = source_digest[s];
    }
    if (args->out_digest) *args->out_digest = out_digest;
    return LS_OK;
}
