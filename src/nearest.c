/* SPDX-License-Identifier: MIT */
/* nearest.c -- the Levenshtein distance, by rows.
 *
 * d(i, j), the distance between the first i characters of a and the first j of b, is
 *
 *     d(i, 0) = i,   d(0, j) = j
 *     d(i, j) = min(d(i-1, j) + 1,  d(i, j-1) + 1,  d(i-1, j-1) + (a[i] != b[j]))
 *
 * One row of it is kept. Names longer than NAME_MAX_CHARS are never suggested: no option, kind or
 * layer has one, and the row then fits on the stack.
 */
#include "nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sizes.h"

enum { NAME_MAX_CHARS = 63, BEGINNING_MIN_CHARS = 3 };

static int lower(char c) { return tolower((unsigned char)c); }

static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_CHARS + 1];
    const size_t b_chars = strlen(b);
    for (size_t j = 0; j <= b_chars; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0]; /* d(i-1, j-1) */
        row[0] = i;
        for (size_t j = 1; j <= b_chars; j++) {
            const size_t replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            row[j] = ls_min_size(replaced, ls_min_size(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_chars];
}

/* Is `text` a beginning of `name` that is long enough to tell? ("val_acc" of "val_accuracy") */
static bool begins(const char *name, const char *text)
{
    size_t i = 0;
    while (text[i] && lower(text[i]) == lower(name[i])) i++;
    return text[i] == '\0' && i >= BEGINNING_MIN_CHARS;
}

const char *ls_nearest_name(const char *text, const char *const *names)
{
    const char *best = NULL;
    size_t best_distance = 0;
    if (strlen(text) > NAME_MAX_CHARS) return NULL;
    for (; *names; names++) {
        const size_t chars = strlen(*names);
        if (chars > NAME_MAX_CHARS) continue;
        size_t distance = edit_distance(text, *names);
        if (begins(*names, text)) distance = ls_min_size(distance, 1);
        const size_t most = (chars + 2) / 3;
        if (begins(text, *names)) distance = ls_min_size(distance, most); /* "evaluate": "eval" */
        if (distance > most) continue;
        if (!best || distance < best_distance) {
            best = *names;
            best_distance = distance;
        }
    }
    return best;
}
