/* SPDX-License-Identifier: MIT */
/* dropout.c -- reference: elements are kept by the random number that their address names.
 *
 * Element e of a sample takes word e mod 4 of quad e / 4 of the stream of (seed, dropout, layer,
 * epoch, the sample's index in the data set) (docs/numerics.md 7); where channels are dropped
 * whole, an element takes its channel's word. Nothing depends on where or when it is computed, so
 * the backward pass draws the same numbers again instead of storing them.
 */
#include "kernels/reference/reference.h"
#include "philox.h"

ls_status ls_dropout_reference(ls_stream *stream, const ls_dropout_args *args)
{
    (void)stream;
    for (size_t n = 0; n < args->samples; n++) {
        const float *x = args->x + n * args->elements;
        float *y = args->y + n * args->elements;
        for (size_t e = 0; e < args->elements; e++) {
            const size_t drawn = args->channels > 0 ? e % args->channels : e;
            uint32_t word[4];
            ls_random_words(args->seed, LS_RANDOM_DROPOUT, args->layer, args->epoch,
                            args->index[n], (uint32_t)(drawn / 4), word);
            y[e] = word[drawn % 4] >= args->threshold ? x[e] * args->scale : 0.0f;
        }
    }
    return LS_OK;
}
