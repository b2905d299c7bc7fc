/* SPDX-License-Identifier: MIT */
/* model_words.c -- a line becomes words; a word becomes a number, extents, or one of some names.
 *
 * Words are separated by blanks; "=" between a name and an op is a word of its own, "pad=same" is
 * one word. The parser's copy of the text is cut in place: a word is a pointer into it with its
 * place in the original, so every message can say line and column.
 */
#include "train/model_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nearest.h"
#include "train/model.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

const char *ls_model_hint(const char *text, const char *const *names,
                          char out[LS_MODEL_HINT_BYTES])
{
    const char *nearest = ls_nearest_name(text, names);
    out[0] = '\0';
    if (nearest) snprintf(out, LS_MODEL_HINT_BYTES, "; did you mean '%s'?", nearest);
    return out;
}

const char *ls_model_loss_hint(const char *activation)
{
    if (strcasecmp(activation, "softmax") == 0)
        return "; softmax is no layer but part of the last line, 'loss softmax-crossentropy'";
    if (strcasecmp(activation, "sigmoid") == 0)
        return "; sigmoid is a line of its own, and at the end part of 'loss "
               "sigmoid-crossentropy'";
    return "";
}

ls_status ls_model_split(ls_model_line *line, char *copy, size_t begin, size_t end, int number)
{
    line->count = line->next = 0;
    line->end = (ls_model_place){ .line = number, .column = 1, .begin = begin };
    size_t i = begin;
    for (;;) {
        while (i < end && is_blank(copy[i])) i++;
        if (i == end || copy[i] == '#') return LS_OK;
        const size_t first = i;
        const ls_model_place place = { .line = number, .column = (int)(first - begin) + 1,
                                       .begin = first };
        while (i < end && !is_blank(copy[i]) && copy[i] != '#') {
            const unsigned char c = (unsigned char)copy[i++];
            if (c < 0x20 || c == 0x7f) {
                return ls_model_fail(line->file, place, "found the control character 0x%02x; a "
                                     "model file is plain text", c);
            }
        }
        if (line->count == LS_MODEL_WORDS_MAX) {
            return ls_model_fail(line->file, place, "more than %d words in one line",
                                 LS_MODEL_WORDS_MAX);
        }
        ls_model_word *w = &line->word[line->count++];
        w->text = copy + first;
        w->place = place;
        w->place.bytes = i - first;
        line->end = (ls_model_place){ .line = number, .column = (int)(i - begin) + 1, .begin = i };
        if (i < end && copy[i] == '#') end = i; /* the NUL below replaces the '#' */
        copy[i] = '\0';
        if (i < end) i++;
    }
}

const ls_model_word *ls_model_next(ls_model_line *line)
{
    return line->next < line->count ? &line->word[line->next++] : NULL;
}

ls_status ls_model_need(ls_model_line *line, const char *what, const char *usage,
                        const ls_model_word **out)
{
    *out = ls_model_next(line);
    if (*out) return LS_OK;
    return ls_model_fail(line->file, line->end, "found the end of the line, expected %s (%s)",
                         what, usage);
}

bool ls_model_read_extents(const char *text, char separator, size_t least, size_t *part,
                           int part_count)
{
    for (int i = 0; i < part_count; i++) {
        if (i > 0 && *text++ != separator) return false;
        if (!is_digit(*text)) return false;
        size_t n = 0;
        while (is_digit(*text)) {
            n = n * 10 + (size_t)(*text++ - '0');
            if (n > LS_MODEL_EXTENT_MAX) return false;
        }
        if (n < least) return false;
        part[i] = n;
    }
    return *text == '\0';
}

ls_status ls_model_need_extents(const ls_model_line *line, const ls_model_word *w,
                                const char *text, size_t *part, int part_count,
                                const char *expected)
{
    if (ls_model_read_extents(text, 'x', 1, part, part_count)) return LS_OK;
    return ls_model_fail(line->file, w->place, "found '%.60s', expected %s, each 1 to %zu",
                         w->text, expected, LS_MODEL_EXTENT_MAX);
}

ls_status ls_model_need_number(const ls_model_line *line, const ls_model_word *w,
                               const char *text, double least, double most, const char *expected,
                               double *out)
{
    char *end = NULL;
    const double x = strtod(text, &end);
    const bool is_plain = strspn(text, "0123456789.eE+-") == strlen(text);
    if (!is_plain || end == text || *end != '\0' || !(x >= least && x <= most)) {
        return ls_model_fail(line->file, w->place, "found '%.60s', expected %s", w->text,
                             expected);
    }
    *out = x == 0 ? 0.0 : x; /* "-0" too */
    return LS_OK;
}

ls_status ls_model_need_choice(const ls_model_line *line, const ls_model_word *w,
                               const char *text, const char *const *names, const char *usage,
                               int *out)
{
    for (*out = 0; names[*out]; ++*out) {
        if (strcmp(text, names[*out]) == 0) return LS_OK;
    }
    char hint[LS_MODEL_HINT_BYTES];
    return ls_model_fail(line->file, w->place, "found '%.60s', expected %s%s", w->text, usage,
                         ls_model_hint(text, names, hint));
}

bool ls_model_is_name(const char *text)
{
    if (!is_letter(text[0]) || strlen(text) >= LS_NAME_BYTES) return false;
    for (; *text; text++) {
        const char c = *text;
        if (!is_letter(c) && !is_digit(c) && c != '_' && c != '-' && c != '.') return false;
    }
    return true;
}
