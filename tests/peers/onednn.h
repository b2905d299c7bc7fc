/* SPDX-License-Identifier: MIT */
/* onednn.h -- one product or convolution as a oneDNN primitive on plain row-major / NHWC buffers.
 *
 * A primitive is built either for the plain formats or for the ones that oneDNN likes best
 * ("any"). Where those differ from the plain ones, inputs are reordered when the primitive is
 * opened and the output when it is fetched, never in onednn_run: what is timed is the primitive.
 *
 * A failing call of the library ends the program with its name: a comparison has no other use.
 */
#ifndef TESTS_PEERS_ONEDNN_H
#define TESTS_PEERS_ONEDNN_H

#include "kernels/kernels.h"

typedef struct onednn onednn;

/* PLAIN: all formats as given, only the weights of a convolution as the library likes them. */
typedef enum { ONEDNN_PLAIN, ONEDNN_ANY } onednn_formats;

/* C = op(A) op(B), pointers of `gemm` set; bias, relu and accumulate are not looked at. */
onednn *onednn_open_product(const ls_gemm_args *gemm, onednn_formats formats);

typedef enum { ONEDNN_FORWARD, ONEDNN_INPUT_GRADIENT, ONEDNN_WEIGHT_GRADIENT } onednn_pass;

/* `a` and `b` are the pass's inputs and `c` its output, in the order of ls_conv_*_args: x w y,
 * dy w dx, x dy dw. NULL: the library has no such primitive. */
onednn *onednn_open_convolution(const ls_conv_shape *shape, onednn_pass pass,
                                onednn_formats formats, float *a, float *b, float *c);

void onednn_run(onednn *primitive);

/* The output of the last run, in the plain format, to the pointer that open was given. */
void onednn_fetch(onednn *primitive);

void onednn_close(onednn *primitive); /* accepts NULL */

/* "2.6.3", static text. */
const char *onednn_version(void);

#endif
