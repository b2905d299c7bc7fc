/* SPDX-License-Identifier: MIT */
/* pattern.h -- tensors picked by name: a pattern, and lists of patterns separated by commas.
 *
 * A pattern is compared with the whole name of a tensor as the model has it ("conv1/kernel"); a
 * star matches any characters, slashes too. Blanks around the patterns of a list do not count.
 *
 * Pure, but for the text of failures.
 */
#ifndef LS_TRAIN_PATTERN_H
#define LS_TRAIN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"
#include "train/model.h"

/* A part of a text, which no zero ends: a pattern, or what else stands in such a list. */
typedef struct {
    const char *at;
    size_t count;
} ls_text;

/* What is before the first `end` in *from, without blanks around it; *from moves past it and the
 * separator. */
ls_text ls_text_take(ls_text *from, char end);

bool ls_pattern_matches(ls_text pattern, const char *name);

/* Does any pattern of the list match? */
bool ls_patterns_match(const char *list, const char *name);

/* `option` has a pattern that matches nothing: "OPTION: 'PATTERN' matches no WHAT; the nearest is
 * NAME (HINT)", of the names of the model's parameters and, if `statistics`, its statistics.
 * Errors: ARGUMENT, which it always is, or MEMORY. */
LS_MUST_USE ls_status ls_pattern_fail(ls_text pattern, const ls_model *model, bool statistics,
                                      const char *option, const char *what, const char *hint);

#endif
