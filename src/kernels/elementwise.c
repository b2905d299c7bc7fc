/* SPDX-License-Identifier: MIT */
/* elementwise.c -- the checked entries of the ops in elementwise.h (check.h). */
#include "kernels/activation.h"
#include "kernels/check.h"

static ls_status check_kind(const char *op, ls_activation kind)
{
    if (kind >= LS_ACTIVATION_RELU && kind <= LS_ACTIVATION_SILU) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "%s: activation %d", op, (int)kind);
}

ls_status ls_activate(ls_stream *stream, const ls_activate_args *args)
{
    LS_TRY(check_kind("activate", args->kind));
    LS_CHECK_POINTER("activate", args->count > 0, x);
    LS_CHECK_POINTER("activate", args->count > 0, y);
    LS_TRY(ls_check_in_place("activate", args->count, args->y, args->x));
    return ls_enqueued(stream, ls_kernels_of(stream)->activate(stream, args));
}

ls_status ls_activate_gradient(ls_stream *stream, const ls_activate_gradient_args *args)
{
    LS_TRY(check_kind("activate_gradient", args->kind));
    const bool some = args->count > 0, uses_y = ls_activation_derives_from_y(args->kind);
    LS_CHECK_POINTER("activate_gradient", some && !uses_y, x);
    LS_CHECK_POINTER("activate_gradient", some && uses_y, y);
    LS_CHECK_POINTER("activate_gradient", some, dy);
    LS_CHECK_POINTER("activate_gradient", some, dx);
    LS_TRY(ls_check_in_place("activate_gradient", args->count, args->dx, args->dy));
    return ls_enqueued(stream, ls_kernels_of(stream)->activate_gradient(stream, args));
}

ls_status ls_dropout(ls_stream *stream, const ls_dropout_args *args)
{
    const size_t count = args->samples * args->elements;
    LS_CHECK_POINTER("dropout", count > 0, index);
    LS_CHECK_POINTER("dropout", count > 0, x);
    LS_CHECK_POINTER("dropout", count > 0, y);
    LS_TRY(ls_check_in_place("dropout", count, args->y, args->x));
    if (args->layer > 0xffff || args->elements > (size_t)4 << 32) {
        return ls_fail(LS_ERR_ARGUMENT, "dropout: layer %lu, %zu elements: want at most 65535, "
                       "and 2^34",
                       (unsigned long)args->layer, args->elements);
    }
    if (args->channels > 0 && args->elements % args->channels != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "dropout: %zu elements are no multiple of %zu channels",
                       args->elements, args->channels);
    }
    return ls_enqueued(stream, ls_kernels_of(stream)->dropout(stream, args));
}

ls_status ls_add(ls_stream *stream, const ls_add_args *args)
{
    LS_CHECK_POINTER("add", args->count > 0, a);
    LS_CHECK_POINTER("add", args->count > 0, b);
    LS_CHECK_POINTER("add", args->count > 0, y);
    LS_TRY(ls_check_in_place("add", args->count, args->y, args->a));
    LS_TRY(ls_check_in_place("add", args->count, args->y, args->b));
    return ls_enqueued(stream, ls_kernels_of(stream)->add(stream, args));
}

ls_status ls_multiply(ls_stream *stream, const ls_multiply_args *args)
{
    LS_CHECK_POINTER("multiply", args->count > 0, a);
    LS_CHECK_POINTER("multiply", args->count > 0, b);
    LS_CHECK_POINTER("multiply", args->count > 0, y);
    LS_TRY(ls_check_in_place("multiply", args->count, args->y, args->a));
    LS_TRY(ls_check_in_place("multiply", args->count, args->y, args->b));
    return ls_enqueued(stream, ls_kernels_of(stream)->multiply(stream, args));
}

ls_status ls_copy_columns(ls_stream *stream, const ls_copy_columns_args *args)
{
    const bool some = args->rows > 0 && args->columns > 0;
    LS_CHECK_POINTER("copy_columns", some, from);
    LS_CHECK_POINTER("copy_columns", some, to);
    if (args->rows > 1 &&
        (args->from_stride < args->columns || args->to_stride < args->columns)) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "copy_columns: %zu columns of rows that lie %zu and %zu apart",
                       args->columns, args->from_stride, args->to_stride);
    }
    return ls_enqueued(stream, ls_kernels_of(stream)->copy_columns(stream, args));
}

ls_status ls_pad(ls_stream *stream, const ls_pad_args *args)
{
    const size_t images = args->samples * args->channels;
    LS_CHECK_POINTER("pad", images * args->height * args->width > 0, x);
    LS_CHECK_POINTER("pad", images * args->out_height * args->out_width > 0, y);
    return ls_enqueued(stream, ls_kernels_of(stream)->pad(stream, args));
}

ls_status ls_narrow(ls_stream *stream, const ls_narrow_args *args)
{
    LS_CHECK_POINTER("narrow", args->count > 0, x);
    LS_CHECK_POINTER("narrow", args->count > 0, y);
    return ls_enqueued(stream, ls_kernels_of(stream)->narrow(stream, args));
}

ls_status ls_widen(ls_stream *stream, const ls_widen_args *args)
{
    LS_CHECK_POINTER("widen", args->count > 0, x);
    LS_CHECK_POINTER("widen", args->count > 0, y);
    return ls_enqueued(stream, ls_kernels_of(stream)->widen(stream, args));
}

ls_status ls_decode(ls_stream *stream, const ls_decode_args *args)
{
    if (args->channels == 0 || args->count % args->channels != 0) {
        return ls_fail(LS_ERR_ARGUMENT, "decode: %zu elements of %zu channels: want at least one "
                       "channel, and whole pixels",
                       args->count, args->channels);
    }
    LS_CHECK_POINTER("decode", args->count > 0, x);
    LS_CHECK_POINTER("decode", args->count > 0, table);
    LS_CHECK_POINTER("decode", args->count > 0, y);
    return ls_enqueued(stream, ls_kernels_of(stream)->decode(stream, args));
}
