/* SPDX-License-Identifier: MIT */
/* model.h -- a model file becomes layers with shapes, and parameters with places in an arena.
 *
 * The text (docs/formats.md): one layer a line, `[name =] op [arguments] [key=value ...]
 * [from name]`, # comments. Errors name file, line and column, what was found and what was
 * expected; an unknown op or key is answered with the nearest known one.
 *
 * model_parse.c reads the text, model_init.c infers shapes and places parameters, model_describe.c
 * prints, builtin.c holds the models that are part of the binary.
 *
 * Parameters live in one arena. Its order is the reverse of the layers, so that the backward pass
 * completes gradients from the front; every tensor starts at a multiple of 32 floats, the padding
 * is zero and stays zero.
 *
 * Pure: no device, no files (but ls_model_text, which reads one).
 */
#ifndef LS_TRAIN_MODEL_H
#define LS_TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/dataset.h"
#include "kernels/kernels.h"
#include "status.h"

typedef enum {
    LS_OP_INPUT,
    LS_OP_CONV,
    LS_OP_DENSE,
    LS_OP_MAX_POOL,
    LS_OP_FLATTEN,
    LS_OP_RELU,
    LS_OP_DROPOUT
} ls_op;

typedef enum { LS_LOSS_SOFTMAX_CROSSENTROPY, LS_LOSS_MSE } ls_loss;

/* A sample's activation: [height, width, channels]; a vector is [1, 1, channels]. */
typedef struct {
    size_t height, width, channels;
} ls_shape;

enum { LS_NAME_BYTES = 48 };

typedef struct {
    ls_op op;
    char name[LS_NAME_BYTES]; /* given, or op and count: "conv1", "dense2" */
    int line;                 /* of the text, 1-based */
    int ordinal;              /* place in the model file, input 0: addresses random numbers */
    int input;                /* the layer that feeds this one; -1 for input */
    ls_shape in, out;
    bool relu, has_bias;      /* conv, dense */
    ls_conv_shape conv;       /* conv; samples 0 */
    ls_pool_shape pool;       /* max pool; samples 0 */
    double rate;              /* dropout */
    int kernel, bias;         /* parameters of the layer: index into parameter[], or -1 */
} ls_layer;

typedef struct {
    char name[LS_NAME_BYTES * 2]; /* "conv1/kernel" */
    int layer;
    int dims;
    size_t shape[4];
    size_t count;             /* elements */
    size_t begin;             /* place in the arena, a multiple of 32 */
    double init_limit;        /* uniform in +-limit (glorot); 0: zeros */
    bool is_kernel;           /* L1 and L2 act on kernels only */
} ls_parameter;

typedef struct {
    char *name;               /* owned; what the user called it */
    char *text;               /* owned; the model file's text, each `auto` replaced by what it
                                 stood for, so that it can be read again without the data */
    ls_layer *layer;          /* owned; [layer_count], input first */
    int layer_count;
    ls_parameter *parameter;  /* owned; in the order of the model file */
    int parameter_count;
    size_t arena_floats;      /* with padding, a multiple of 32 */
    size_t parameter_total;   /* elements without padding */
    ls_loss loss;
} ls_model;

/* Text of the built-in model `name`, or NULL. Names: NULL-terminated list of all. */
const char *ls_model_builtin(const char *name);
const char *const *ls_model_builtin_names(void);

/* The text that MODEL on the command line stands for: a built-in name, or a file. `text` is owned
 * by the caller. Errors: ARGUMENT (neither; with the nearest built-in name), MEMORY. */
LS_MUST_USE ls_status ls_model_text(const char *name_or_path, char **text);

/* Parse and infer shapes. `data` (NULL: none at hand) gives `input auto`, a last `dense auto` and
 * `loss auto` what they stand for, and is checked against the input, the outputs and the loss.
 * Errors: ARGUMENT (with file, line, column), MEMORY. */
LS_MUST_USE ls_status ls_model_init(ls_model *model, const char *name, const char *text,
                                    const ls_dataset_info *data);
void ls_model_free(ls_model *model); /* accepts all-zero */

/* Floats of a shape. Pure. */
size_t ls_shape_floats(ls_shape shape);

/* "32x32x3", or "784" for a vector. Returns `out`. Pure. */
enum { LS_SHAPE_TEXT_BYTES = 80 };
const char *ls_shape_text(ls_shape shape, char out[LS_SHAPE_TEXT_BYTES]);

/* Numbers that the last layer gives for a sample. Pure. */
size_t ls_model_outputs(const ls_model *model);

/* Multiply-adds of one sample: forward, and forward + backward. Pure. */
void ls_model_macs(const ls_model *model, double *forward, double *step);

/* Initial weights of the whole arena (host memory, [arena_floats]): docs/numerics.md 7. */
void ls_model_init_weights(const ls_model *model, uint64_t seed, float *arena);

/* What `lockstep show MODEL` prints: layers, shapes, parameters, FLOPs, memory of one replica with
 * `samples` samples and `piece_count` gradient copies. Owned by the caller. */
LS_MUST_USE ls_status ls_model_describe(const ls_model *model, size_t samples, int piece_count,
                                        int slot_count, char **text);

#endif
