/* SPDX-License-Identifier: MIT */
/* weight_gradient.h -- a convolution's weight gradient whose dy is made slice by slice.
 *
 * conv_weight_gradient reads dy from memory. Where dy is the result of an op that is bound by
 * memory, it need never get there: a part of a slice is made when it is needed, and is multiplied
 * while it lies in a cache.
 */
#ifndef LS_KERNELS_HOST_WEIGHT_GRADIENT_H
#define LS_KERNELS_HOST_WEIGHT_GRADIENT_H

#include "kernels/host/host.h"

/* Some rows and filters of one slice of dy, which has samples. */
typedef struct {
    int leaf;               /* of the fold, */
    size_t index;           /* and which slice of it */
    size_t row, rows;       /* output rows, counted through all samples */
    size_t filter, filters;
    bool is_first;          /* of all blocks with the same slice and filters, one has this */
} ls_slice_part;

/* Make `part`: to[place of the part][filter of the part], dense. Returns where the chain over the
 * slice's places goes, [filters of the part], or NULL: it is not wanted. A slice's parts come in
 * ascending order, and each continues the chain. Called from several threads. */
typedef float *ls_slice_fn(const void *context, const ls_slice_part *part, float *to);

/* As conv_weight_gradient with dy from `make`; args->dy is not used. A slice has at most
 * LS_SLICE_PLACES places. `windows`: what dy is the max_pool_gradient of, or NULL; with some shapes
 * it is then made elsewhere, and `make`, asked for no rows, only says where the chain goes. `room`
 * is NULL, or [leaf_count, filters, columns of dw] to be written as one likes: then threads can
 * share the leaves, where dw is too small to be shared. */
enum { LS_SLICE_PLACES = 4096 };
LS_MUST_USE ls_status LS_HOST(weight_gradient_of_slices)(ls_stream *stream,
                                                         const ls_conv_weight_gradient_args *args,
                                                         ls_slice_fn *make, const void *context,
                                                         const ls_max_pool_gradient_args *windows,
                                                         float *room);

#endif
