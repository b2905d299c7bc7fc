/* SPDX-License-Identifier: MIT */
/* decode.c -- reference: a byte of a channel becomes the number that the channel's table has. */
#include "kernels/reference/reference.h"

ls_status ls_decode_reference(ls_stream *stream, const ls_decode_args *args)
{
    (void)stream;
    for (size_t i = 0; i < args->count; i++) {
        args->y[i] = args->table[i % args->channels * 256 + args->x[i]];
    }
    return LS_OK;
}
