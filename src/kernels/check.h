/* SPDX-License-Identifier: MIT */
/* check.h -- what the checked entries of all ops share. Internal to kernels/.
 *
 * An entry, ls_<op>, stands in the .c file of the header that declares its arguments. It refuses
 * what no implementation could do right -- a missing pointer, an extent that does not fit, buffers
 * that overlap -- with a message that carries the values, and calls the table of the stream's
 * device. Checks are of sizes and addresses only: nothing here reads device memory (labels are
 * checked by the data set, numbers by the finite test).
 */
#ifndef LS_KERNELS_CHECK_H
#define LS_KERNELS_CHECK_H

#include "kernels/kernels.h"

/* The table of the stream's device, which ls_kernels_bind has given it. */
const ls_kernels *ls_kernels_of(const ls_stream *stream);

/* What the table's op returned; an op that was accepted is progress, so the group's deadlines start
 * again. */
LS_MUST_USE ls_status ls_enqueued(ls_stream *stream, ls_status status);

/* ARGUMENT: "op: name is NULL". */
LS_MUST_USE ls_status ls_check_missing(const char *op, const char *name);

/* Fail unless args->field is there; `need` false: it may be missing. */
#define LS_CHECK_POINTER(op, need, field)                                                         \
    do {                                                                                          \
        if ((need) && args->field == NULL) return ls_check_missing(op, #field);                   \
    } while (0)

/* A buffer that an op writes is the same as one it reads, or apart from it: `count` floats each. */
LS_MUST_USE ls_status ls_check_in_place(const char *op, size_t count, const float *to,
                                        const float *from);

/* A fold whose numbers fit each other, and pieces of `piece_floats` floats that do not overlap at
 * `piece_stride`. */
LS_MUST_USE ls_status ls_check_fold(const char *op, const ls_fold *fold, size_t piece_floats,
                                    size_t piece_stride);

#endif
