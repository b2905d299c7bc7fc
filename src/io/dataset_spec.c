/* SPDX-License-Identifier: MIT */
/* dataset_spec.c -- the text after --data, cut into items and checked against what a format takes.
 *
 * The text is copied once and cut in place: ':' after the kind, ',' between items, '=' after a
 * key. Paths therefore hold no comma, and no '=' unless a folder separator comes before it.
 */
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "nearest.h"
#include "plural.h"

/* The '=' that ends an item's key, or NULL. A key is letters only: a path like a/b=c has none. */
static char *key_end(char *item)
{
    char *at = item + strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_");
    return at > item && *at == '=' ? at : NULL;
}

static ls_status add_item(ls_spec *spec, char *text)
{
    char *equals = key_end(text);
    ls_spec_item *last = spec->count > 0 ? &spec->item[spec->count - 1] : NULL;
    if (!equals && last && last->key) {
        if (last->second) {
            return ls_fail(LS_ERR_ARGUMENT, "data spec: '%s' after %s=%s,%s: expected KEY=VALUE",
                           text, last->key, last->value, last->second);
        }
        last->second = text;
        return LS_OK;
    }
    if (spec->count == LS_SPEC_ITEMS_MAX) {
        return ls_fail(LS_ERR_ARGUMENT, "data spec: more than %d items", (int)LS_SPEC_ITEMS_MAX);
    }
    ls_spec_item *item = &spec->item[spec->count++];
    item->value = text;
    if (equals) {
        *equals = '\0';
        item->key = text;
        item->value = equals + 1;
    }
    if (*item->value == '\0') {
        return ls_fail(LS_ERR_ARGUMENT, "data spec: nothing after '%s%s'",
                       item->key ? item->key : last ? last->value : spec->kind,
                       item->key ? "=" : last ? "," : ":");
    }
    return LS_OK;
}

ls_status ls_spec_parse(const char *text, ls_spec *out)
{
    ls_spec spec = { .count = 0 };
    const size_t bytes = strlen(text) + 1;
    spec.text = malloc(bytes);
    if (!spec.text) return ls_fail(LS_ERR_MEMORY, "no memory for a data spec");
    memcpy(spec.text, text, bytes);
    spec.kind = spec.text;

    ls_status status = LS_OK;
    char *next = spec.text + strcspn(spec.text, ":,");
    while (status == LS_OK && *next != '\0') {
        *next = '\0';
        char *item = next + 1;
        next = item + strcspn(item, ",");
        const char end = *next;
        *next = '\0';
        status = add_item(&spec, item);
        *next = end;
    }
    if (status == LS_OK) {
        *out = spec;
        spec.text = NULL;
    }
    free(spec.text);
    return status;
}

void ls_spec_free(ls_spec *spec)
{
    free(spec->text);
    *spec = (ls_spec){ .count = 0 };
}

static bool is_among(const char *text, const char *const *names)
{
    for (; *names; names++) {
        if (strcmp(text, *names) == 0) return true;
    }
    return false;
}

static ls_status check_item(const ls_spec *spec, int i, const char *const *keys, const char *usage)
{
    const ls_spec_item *item = &spec->item[i];
    if (!is_among(item->key, keys)) {
        const char *nearest = ls_nearest_name(item->key, keys);
        return ls_fail(LS_ERR_ARGUMENT, "data spec %s: unknown key '%s'%s%s%s; expected %s",
                       spec->kind, item->key, nearest ? ", did you mean '" : "",
                       nearest ? nearest : "", nearest ? "'?" : "", usage);
    }
    for (int k = 0; k < i; k++) {
        if (spec->item[k].key && strcmp(spec->item[k].key, item->key) == 0) {
            return ls_fail(LS_ERR_ARGUMENT, "data spec %s: '%s=' is given twice", spec->kind,
                           item->key);
        }
    }
    const bool two = strcmp(spec->kind, "npy") == 0 && strcmp(item->key, "test") == 0;
    if (item->second && !two) {
        return ls_fail(LS_ERR_ARGUMENT, "data spec %s: '%s' after %s=%s: expected KEY=VALUE; %s",
                       spec->kind, item->second, item->key, item->value, usage);
    }
    return LS_OK;
}

int ls_spec_files(const ls_spec *spec)
{
    int plain = 0;
    while (plain < spec->count && !spec->item[plain].key) plain++;
    return plain;
}

ls_status ls_spec_check(const ls_spec *spec, const ls_dataset_format *format)
{
    const int plain = ls_spec_files(spec), files = format->files;
    const int least = format->files_least > 0 ? format->files_least : files;
    for (int i = plain; i < spec->count; i++)
        LS_TRY(check_item(spec, i, format->keys, format->usage));
    if (plain < least || plain > files) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "data spec %s: %d name%s of files or folders, expected %d%s: %s",
                       spec->kind, plain, LS_PLURAL(plain), files,
                       plain > files ? " (a path holds no comma)" : "", format->usage);
    }
    return LS_OK;
}

const char *ls_spec_file(const ls_spec *spec, int i)
{
    return spec->item[i].value; /* plain values come before keys: add_item makes it so */
}

const ls_spec_item *ls_spec_find(const ls_spec *spec, const char *key)
{
    for (int i = 0; i < spec->count; i++) {
        if (spec->item[i].key && strcmp(spec->item[i].key, key) == 0) return &spec->item[i];
    }
    return NULL;
}

ls_status ls_spec_choice(const ls_spec *spec, const char *key, const char *const *choices, int *out)
{
    const ls_spec_item *item = ls_spec_find(spec, key);
    *out = 0;
    if (!item) return LS_OK;
    for (int i = 0; choices[i]; i++) {
        if (strcmp(item->value, choices[i]) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    char known[128] = "";
    for (int i = 0; choices[i]; i++) {
        if (i > 0) strncat(known, "|", sizeof known - strlen(known) - 1);
        strncat(known, choices[i], sizeof known - strlen(known) - 1);
    }
    return ls_fail(LS_ERR_ARGUMENT, "data spec %s: %s=%s, expected %s=%s", spec->kind, key,
                   item->value, key, known);
}

ls_status ls_spec_every(const ls_spec *spec, const ls_spec_item *test, size_t *every)
{
    enum { EVERY_MOST = 1000000 };
    static const char word[] = "every:";
    const size_t chars = strlen(word);
    if (strncmp(test->value, word, chars) != 0) return LS_OK;
    if (!test->second && ls_text_whole(test->value + chars, 2, EVERY_MOST, every)) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "data spec %s: test=%s%s%s, expected test=every:K, K in 2..%d",
                   spec->kind, test->value, test->second ? "," : "",
                   test->second ? test->second : "", (int)EVERY_MOST);
}

bool ls_text_whole(const char *text, size_t low, size_t high, size_t *out)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0') return false;
    size_t value = 0;
    for (size_t i = 0; i < digits; i++) value = value * 10 + (size_t)(text[i] - '0');
    if (value < low || value > high) return false;
    *out = value;
    return true;
}

ls_status ls_spec_whole(const ls_spec *spec, const char *key, size_t low, size_t high, size_t *out)
{
    const ls_spec_item *item = ls_spec_find(spec, key);
    if (!item || ls_text_whole(item->value, low, high, out)) return LS_OK;
    return ls_fail(LS_ERR_ARGUMENT, "data spec %s: %s=%s, expected a whole number %zu..%zu",
                   spec->kind, key, item->value, low, high);
}
