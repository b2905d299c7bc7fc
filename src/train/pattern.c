/* SPDX-License-Identifier: MIT */
/* pattern.c -- see pattern.h. */
#include "train/pattern.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

ls_text ls_text_take(ls_text *from, char end)
{
    const char *stop = memchr(from->at, end, from->count);
    ls_text part = { from->at, stop ? (size_t)(stop - from->at) : from->count };
    const size_t used = part.count + (stop != NULL);
    from->at += used;
    from->count -= used;
    while (part.count > 0 && *part.at == ' ') part.at++, part.count--;
    while (part.count > 0 && part.at[part.count - 1] == ' ') part.count--;
    return part;
}

/* Only the last star passed may have to take more. */
bool ls_pattern_matches(ls_text pattern, const char *name)
{
    const size_t length = strlen(name);
    size_t p = 0, n = 0, star = SIZE_MAX, taken = 0;
    while (n < length) {
        if (p < pattern.count && pattern.at[p] == '*') {
            star = p++;
            taken = n;
        } else if (p < pattern.count && pattern.at[p] == name[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.count && pattern.at[p] == '*') p++;
    return p == pattern.count;
}

bool ls_patterns_match(const char *list, const char *name)
{
    ls_text rest = { list, strlen(list) };
    while (rest.count > 0)
        if (ls_pattern_matches(ls_text_take(&rest, ','), name)) return true;
    return false;
}

ls_status ls_pattern_fail(ls_text pattern, const ls_model *model, bool statistics,
                          const char *option, const char *what, const char *hint)
{
    char text[LS_NAME_BYTES * 2];
    const int count = model->parameter_count + (statistics ? model->statistic_count : 0);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    if (!names) return ls_fail(LS_ERR_MEMORY, "no memory for %d names", count);
    for (int i = 0; i < count; i++) names[i] = ls_model_tensor(model, i)->name;
    snprintf(text, sizeof text, "%.*s", (int)pattern.count, pattern.at);
    const char *nearest = ls_nearest_name(text, names);
    if (!nearest) nearest = count > 0 ? names[0] : "none";
    free(names);
    return ls_fail(LS_ERR_ARGUMENT, "%s: '%s' matches no %s; the nearest is %s (%s)", option, text,
                   what, nearest, hint);
}
