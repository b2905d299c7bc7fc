/* SPDX-License-Identifier: MIT */
/* model_parse.h -- the syntax of a model file, before anything is known about shapes.
 *
 * Only model_init.c includes this. A parsed layer holds what its line says; the fields of `layer`
 * that follow from its input (in, out, paddings, output extents, parameters) are still zero.
 */
#ifndef LS_TRAIN_MODEL_PARSE_H
#define LS_TRAIN_MODEL_PARSE_H

#include "train/model.h"

/* Sane limits: far above any model, far below where an index or a size could overflow. */
#define LS_MODEL_EXTENT_MAX ((size_t)1 << 24) /* height, width, channels, filters, units, strides */
#define LS_MODEL_FLOATS_MAX ((size_t)1 << 31) /* of one sample's activation, of one parameter */
#define LS_MODEL_ARENA_MAX ((size_t)1 << 34)  /* of all parameters together */
enum { LS_MODEL_LAYERS_MAX = 1000, LS_MODEL_TEXT_BYTES_MAX = 1 << 20 };

/* A word of the text, for messages and for the replacement of `auto`. */
typedef struct {
    int line, column;     /* 1-based; a column is a byte */
    size_t begin, bytes;  /* place in the text */
} ls_model_place;

/* Refuse the model: "cnn.model:3:9: found ...". `format` is a literal, with at least one value. */
#define ls_model_fail(file, at, format, ...)                                                      \
    ls_fail(LS_ERR_ARGUMENT, "%s:%d:%d: " format, (file), (at).line, (at).column, __VA_ARGS__)

typedef struct {
    ls_layer layer;
    bool pad_same;
    bool is_auto;              /* input auto, dense auto: `size` is that word */
    size_t units;              /* dense: outputs; 0 if auto */
    ls_model_place op, size;   /* the op; its first argument */
} ls_parsed_layer;

typedef struct {
    ls_parsed_layer *layer;    /* owned */
    int layer_count;
    bool loss_is_auto;
    ls_loss loss;              /* if not auto */
    ls_model_place loss_kind;  /* the word after `loss` */
} ls_parsed_model;

/* Errors: ARGUMENT, MEMORY. The result may be freed in every case. */
LS_MUST_USE ls_status ls_model_parse(const char *name, const char *text, ls_parsed_model *out);
void ls_parsed_model_free(ls_parsed_model *parsed); /* accepts all-zero */

#endif
