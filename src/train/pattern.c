/* SPDX-License-Identifier: MIT */
/* pattern.c -- see pattern.h. */
#include "train/pattern.h"

#include <stdint.h>
#include <string.h>

ls_pattern ls_pattern_take(ls_pattern *from, char end)
{
    const char *stop = memchr(from->at, end, from->count);
    ls_pattern part = { from->at, stop ? (size_t)(stop - from->at) : from->count };
    const size_t used = part.count + (stop != NULL);
    from->at += used;
    from->count -= used;
    while (part.count > 0 && *part.at == ' ') part.at++, part.count--;
    while (part.count > 0 && part.at[part.count - 1] == ' ') part.count--;
    return part;
}

/* Only the last star passed may have to take more. */
bool ls_pattern_matches(ls_pattern pattern, const char *name)
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
    ls_pattern rest = { list, strlen(list) };
    while (rest.count > 0)
        if (ls_pattern_matches(ls_pattern_take(&rest, ','), name)) return true;
    return false;
}
