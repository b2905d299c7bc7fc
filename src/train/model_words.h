/* SPDX-License-Identifier: MIT */
/* model_words.h -- the words of one line of a model file, and what a single word can say.
 *
 * Only the parser includes this (model_parse.c, model_ops.c, model_options.c). Every refusal names
 * file, line and column, what was found and what was expected.
 */
#ifndef LS_TRAIN_MODEL_WORDS_H
#define LS_TRAIN_MODEL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

/* Sane limits: far above any model, far below where an index or a size could overflow. */
#define LS_MODEL_EXTENT_MAX ((size_t)1 << 24) /* height, width, channels, filters, units, strides */

/* A word of the text, for messages and for the replacement of `auto`. */
typedef struct {
    int line, column;     /* 1-based; a column is a byte */
    size_t begin, bytes;  /* place in the text */
} ls_model_place;

/* Refuse the model: "cnn.model:3:9: found ...". `format` is a literal, with at least one value. */
#define ls_model_fail(file, at, format, ...)                                                      \
    ls_fail(LS_ERR_ARGUMENT, "%s:%d:%d: " format, (file), (at).line, (at).column, __VA_ARGS__)

typedef struct {
    char *text;            /* NUL-terminated, in the parser's copy */
    ls_model_place place;
} ls_model_word;

enum { LS_MODEL_WORDS_MAX = 32, LS_MODEL_HINT_BYTES = 96 };

typedef struct {
    const char *file;      /* what the user called the model, for messages */
    ls_model_word word[LS_MODEL_WORDS_MAX];
    int count, next;       /* words; the next one to read */
    ls_model_place end;    /* just after the last word: where a missing one was expected */
} ls_model_line;

/* Cut the line [begin, end) of `copy` into words; a comment ends it. `number` counts from 1. */
LS_MUST_USE ls_status ls_model_split(ls_model_line *line, char *copy, size_t begin, size_t end,
                                     int number);

/* The next word, or NULL at the end of the line. */
const ls_model_word *ls_model_next(ls_model_line *line);

/* The next word, which `usage` says must be there; `what` says what it is. */
LS_MUST_USE ls_status ls_model_need(ls_model_line *line, const char *what, const char *usage,
                                    const ls_model_word **out);

/* Is the whole of `text` so many numbers from `least` to LS_MODEL_EXTENT_MAX, with `separator`
 * between two? Pure. */
bool ls_model_read_extents(const char *text, char separator, size_t least, size_t *part,
                           int part_count);

/* Extents from 1 joined by 'x', of `text`, which is (part of) the word w; `expected` describes the
 * form: "a window such as 3x3". */
LS_MUST_USE ls_status ls_model_need_extents(const ls_model_line *line, const ls_model_word *w,
                                            const char *text, size_t *part, int part_count,
                                            const char *expected);

/* A decimal number with least <= number <= most of `text`, (part of) the word w; `expected` says
 * the range: "a rate with 0 <= rate < 1". -0 comes out as 0. */
LS_MUST_USE ls_status ls_model_need_number(const ls_model_line *line, const ls_model_word *w,
                                           const char *text, double least, double most,
                                           const char *expected, double *out);

/* The index of `text`, (part of) the word w, among names[]. */
LS_MUST_USE ls_status ls_model_need_choice(const ls_model_line *line, const ls_model_word *w,
                                           const char *text, const char *const *names,
                                           const char *usage, int *out);

/* "; did you mean 'x'?", or "" if no name is near. Returns `out`. */
const char *ls_model_hint(const char *text, const char *const *names,
                          char out[LS_MODEL_HINT_BYTES]);

/* What to say to who writes softmax or sigmoid, with whatever capitals, as an activation at the end
 * of the model: "; ...", or "" for other words. Pure. */
const char *ls_model_loss_hint(const char *activation);

/* A letter, then letters, digits, '_', '-', '.'; short enough for a layer. Pure. */
bool ls_model_is_name(const char *text);

#endif
