/* SPDX-License-Identifier: MIT */
/* model_parse.h -- the syntax of a model file, before anything is known about shapes.
 *
 * Only the model_*.c files include this. A parsed layer holds what its line says; the fields of
 * `layer` that follow from its inputs (in, out, paddings, output extents, parameters) are still
 * zero.
 *
 *     model_words.c     lines and words            model_ops.c      what each op's arguments are
 *     model_options.c   relu, key=value            model_parse.c    names, connections, the whole
 */
#ifndef LS_TRAIN_MODEL_PARSE_H
#define LS_TRAIN_MODEL_PARSE_H

#include "train/model.h"
#include "train/model_words.h"

#define LS_MODEL_FLOATS_MAX ((size_t)1 << 31) /* of one sample's activation, of one parameter */
#define LS_MODEL_ARENA_MAX ((size_t)1 << 34)  /* of all parameters together */
enum { LS_MODEL_LAYERS_MAX = 1000, LS_MODEL_TEXT_BYTES_MAX = 1 << 20 };

/* -- options ----------------------------------------------------------------------------------- */

/* What an op takes; also what a line has given. */
enum {
    LS_TAKES_RELU = 1,
    LS_TAKES_PAD = 2,
    LS_TAKES_STRIDE = 4,
    LS_TAKES_BIAS = 8,
    LS_TAKES_INIT = 16,
    LS_TAKES_MOMENTUM = 32,
    LS_TAKES_EPSILON = 64,
    LS_TAKES_SLOPE = 128,
    LS_TAKES_SMOOTHING = 256
};

typedef enum { LS_PAD_VALID, LS_PAD_SAME, LS_PAD_FIXED } ls_padding;

/* As Keras names them; the last two say their scale themselves. */
typedef enum {
    LS_START_GLOROT_UNIFORM,
    LS_START_GLOROT_NORMAL,
    LS_START_HE_UNIFORM,
    LS_START_HE_NORMAL,
    LS_START_LECUN_UNIFORM,
    LS_START_LECUN_NORMAL,
    LS_START_CONSTANT,
    LS_START_UNIFORM,
    LS_START_NORMAL
} ls_start;

typedef struct {
    unsigned given;
    bool relu, has_bias;
    ls_padding padding;
    size_t pad;               /* FIXED: on every side */
    size_t stride[2];         /* if given */
    ls_start start;
    double start_value;       /* of the last three */
    double momentum, epsilon, slope, smoothing;
    ls_model_place smoothing_at;
} ls_model_options;

/* What a line means that gives none. */
extern const ls_model_options ls_model_default_options;

/* One option word: relu or key=value, if the op `takes` it. */
LS_MUST_USE ls_status ls_model_read_option(const ls_model_line *line, const ls_model_word *w,
                                           unsigned takes, const char *usage,
                                           ls_model_options *out);

/* -- ops --------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    ls_op op;
    unsigned takes;
    const char *usage;
    ls_activation activation; /* of LS_OP_ACTIVATION */
    bool is_variant;          /* globalavgpool, spatialdropout: the other op of this ls_op */
    bool joins;               /* two or more inputs */
} ls_model_op;

enum { LS_MODEL_OPS_MAX = 32 };

/* The op called `name`, or NULL. */
const ls_model_op *ls_model_find_op(const char *name);

/* The names of all ops, then "loss", then NULL. */
void ls_model_op_names(const char *names[LS_MODEL_OPS_MAX + 2]);

typedef struct {
    ls_layer layer;
    const ls_model_op *kind;
    ls_model_options option;
    bool is_auto;              /* input auto, dense auto: `size` is that word */
    bool has_default;          /* auto:SIZE; layer.out or `units` is that size */
    size_t units;              /* dense: outputs; 0 if auto without a default */
    size_t edge[4];            /* zeropad: top, bottom, left, right */
    ls_model_place op, size;   /* the op; its first argument */
    ls_model_place from[LS_LAYER_INPUTS_MAX]; /* the word that names each input; or the op */
} ls_parsed_layer;

/* The arguments of x's op. */
LS_MUST_USE ls_status ls_model_read_arguments(ls_model_line *line, ls_parsed_layer *x);

/* -- the whole --------------------------------------------------------------------------------- */

typedef struct {
    ls_parsed_layer *layer;    /* owned */
    int layer_count;
    bool loss_is_auto;
    ls_loss loss;              /* if not auto */
    double smoothing;
    ls_model_place loss_kind;  /* the word after `loss` */
    ls_model_place smoothing_at; /* line 0: not given */
} ls_parsed_model;

/* Errors: ARGUMENT, MEMORY. The result may be freed in every case. */
LS_MUST_USE ls_status ls_model_parse(const char *name, const char *text, ls_parsed_model *out);
void ls_parsed_model_free(ls_parsed_model *parsed); /* accepts all-zero */

/* How the model file calls a loss. */
const char *ls_model_loss_name(ls_loss loss);

/* -- shapes (model_shapes.c) ------------------------------------------------------------------- */

/* Fill in, out and the geometry of every layer. `data` may be NULL. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_model_infer_shapes(const char *file, ls_parsed_model *m,
                                            const ls_dataset_info *data);

/* The loss that the model has, checked against the output and the data. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_model_choose_loss(const char *file, const ls_parsed_model *m,
                                           const ls_dataset_info *data, ls_loss *loss);

/* a * b * c * d, or 0 if that exceeds `limit` (at most 2^40); factors are at most 2^32, the last
 * two 2^24. Pure. */
size_t ls_product_within(size_t limit, size_t a, size_t b, size_t c, size_t d);

/* -- parameters (model_parameters.c) ----------------------------------------------------------- */

/* Append and place the parameters and statistics of all layers. Errors: ARGUMENT. */
LS_MUST_USE ls_status ls_model_add_parameters(const char *file, ls_model *model,
                                              const ls_parsed_model *m);

#endif
