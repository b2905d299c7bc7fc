/* SPDX-License-Identifier: MIT */
/* pooled_tile.h -- a convolution of an image of few channels and the max pooling over it, in
 * registers from end to end.
 *
 * Chains of a first layer are short, so what a tile costs beside them counts: a tile of four places
 * to each window stores a quarter of its numbers, and no pooling reads them again.
 */
#ifndef LS_KERNELS_HOST_POOLED_TILE_H
#define LS_KERNELS_HOST_POOLED_TILE_H

#include "kernels/host/host.h"

/* Does this shape go this way? */
bool LS_HOST(pools_in_tile)(const ls_pooled_conv_forward_args *args);

/* pooled_conv_forward, for such a shape; conv.y is not touched. */
LS_MUST_USE ls_status LS_HOST(pool_in_tile)(ls_stream *stream,
                                            const ls_pooled_conv_forward_args *args);

#endif
