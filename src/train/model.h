/* SPDX-License-Identifier: MIT */
/* model.h -- a model file becomes layers with shapes, and parameters with places in an arena.
 *
 * The text (docs/formats.md): one layer a line, `[name =] op [arguments] [key=value ...]
 * [from name ...]`, # comments. Errors name file, line and column, what was found and what was
 * expected; an unknown op or key is answered with the nearest known one.
 *
 * model_parse.c reads the text (with model_words.c, model_ops.c, model_options.c), model_init.c
 * makes the model of it (with model_shapes.c, model_parameters.c), model_describe.c prints,
 * builtin.c holds the models that are part of the binary.
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
    LS_OP_AVERAGE_POOL,  /* globalavgpool too: its window is the whole input */
    LS_OP_ZERO_PAD,
    LS_OP_FLATTEN,
    LS_OP_BATCHNORM,
    LS_OP_ACTIVATION,    /* relu, leakyrelu, sigmoid, tanh, gelu, silu */
    LS_OP_DROPOUT,       /* and spatialdropout */
    LS_OP_ADD,
    LS_OP_MULTIPLY,
    LS_OP_CONCAT         /* along the channels */
} ls_op;

typedef enum {
    LS_LOSS_SOFTMAX_CROSSENTROPY,
    LS_LOSS_SIGMOID_CROSSENTROPY,
    LS_LOSS_MSE,
    LS_LOSS_MAE
} ls_loss;

/* A sample's activation: [height, width, channels]; a vector is [1, 1, channels]. */
typedef struct {
    size_t height, width, channels;
} ls_shape;

enum { LS_NAME_BYTES = 48, LS_LAYER_INPUTS_MAX = 8 };

typedef struct {
    ls_op op;
    char name[LS_NAME_BYTES]; /* given, or op and count: "conv1", "dense2" */
    int line;                 /* of the text, 1-based */
    int ordinal;              /* place in the model file, input 0: addresses random numbers */
    int input_count;          /* 0 for input; 2 or more for add, multiply, concat; else 1 */
    int input[LS_LAYER_INPUTS_MAX]; /* the layers that feed this one, all above it, different */
    ls_shape in, out;         /* in: of the first input */
    bool relu;                /* conv, dense, batchnorm, add: relu in the same pass */
    bool has_bias;            /* conv, dense */
    ls_conv_shape conv;       /* conv; samples 0 */
    ls_pool_shape pool;       /* max pool, average pool; samples 0 */
    size_t pad_top, pad_left; /* zero pad; out says the rest */
    ls_activation activation; /* activation */
    double slope;             /* leaky relu */
    double rate;              /* dropout */
    bool is_spatial;          /* dropout: whole channels */
    double momentum, epsilon; /* batchnorm */
    int kernel, bias;         /* conv, dense: index into parameter[], or -1 */
    int gamma, beta;          /* batchnorm: index into parameter[], or -1 */
    int mean, variance;       /* batchnorm: index into statistic[], or -1 */
    int pooling;              /* the max pooling that, of the used layers, alone reads this one's
                                 output; -1: it is read by others, or by none */
    bool is_used;             /* the loss depends on it; else nobody need compute it, and its
                                 parameters stay as they are */
} ls_layer;

/* UNIFORM: docs/numerics.md 7; NORMAL: truncated at two deviations, as Keras'. */
typedef enum { LS_INIT_CONSTANT, LS_INIT_UNIFORM, LS_INIT_NORMAL } ls_init;

typedef struct {
    char name[LS_NAME_BYTES * 2]; /* "conv1/kernel" */
    int layer;
    int dims;
    size_t shape[4];
    size_t count;             /* elements */
    size_t begin;             /* place in the arena, a multiple of 32 */
    ls_init init;             /* how it starts */
    double init_scale;        /* UNIFORM: +-limit; NORMAL: deviation; CONSTANT: the value */
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
    ls_parameter *statistic;  /* owned; batchnorm's moving mean and variance, in an arena of their
                                 own, in the order of the model file; not trained, but saved */
    int statistic_count;
    size_t statistic_floats;  /* of that arena, which has no padding: a layer's mean and variance
                                 are one row of kernels/batchnorm.h */
    ls_loss loss;
    double smoothing;         /* label smoothing of the crossentropies, 0 .. 1 */
} ls_model;

/* Text of the built-in model `name`, or NULL. Names: NULL-terminated list of all. */
const char *ls_model_builtin(const char *name);
const char *const *ls_model_builtin_names(void);

/* The text that MODEL on the command line stands for: a built-in name, or a file. `text` is owned
 * by the caller. Errors: ARGUMENT (neither; with the nearest built-in name), MEMORY. */
LS_MUST_USE ls_status ls_model_text(const char *name_or_path, char **text);

/* Parse and infer shapes. `data` (NULL: none at hand) gives `input auto`, a last `dense auto` and
 * `loss auto` what they stand for, and is checked against the input, the outputs and the loss.
 * Without data `auto:SIZE` stands for SIZE.
 * Errors: ARGUMENT (with file, line, column; data without answers), MEMORY. */
LS_MUST_USE ls_status ls_model_init(ls_model *model, const char *name, const char *text,
                                    const ls_dataset_info *data);
void ls_model_free(ls_model *model); /* accepts all-zero */

/* The layer's parameters in their order in the arena. Returns how many there are. Pure. */
enum { LS_LAYER_PARAMETERS_MAX = 4 };
int ls_layer_parameters(const ls_layer *layer, int out[LS_LAYER_PARAMETERS_MAX]);

/* A tensor that a checkpoint holds: the parameters, then the statistics. Pure. */
const ls_parameter *ls_model_tensor(const ls_model *model, int i);

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

/* The same of the statistics' arena ([statistic_floats]): mean 0, variance 1. */
void ls_model_init_statistics(const ls_model *model, float *arena);

/* What `lockstep show MODEL` prints first: layers, shapes, weights, work; the caller owns it. */
LS_MUST_USE ls_status ls_model_describe(const ls_model *model, char **text);

#endif
