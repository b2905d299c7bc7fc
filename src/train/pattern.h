/* SPDX-License-Identifier: MIT */
/* pattern.h -- tensors picked by name: a pattern, and lists of patterns separated by commas.
 *
 * A pattern is compared with the whole name of a tensor as the model has it ("conv1/kernel"); a
 * star matches any characters, slashes too. Blanks around the patterns of a list do not count.
 *
 * Pure.
 */
#ifndef LS_TRAIN_PATTERN_H
#define LS_TRAIN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *at;
    size_t count;
} ls_pattern;

/* What is before the first `end` in *from, without blanks around it; *from moves past it and the
 * separator. */
ls_pattern ls_pattern_take(ls_pattern *from, char end);

bool ls_pattern_matches(ls_pattern pattern, const char *name);

/* Does any pattern of the list match? */
bool ls_patterns_match(const char *list, const char *name);

#endif
