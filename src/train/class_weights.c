/* SPDX-License-Identifier: MIT */
/* class_weights.c -- see class_weights.h. */
#include "train/class_weights.h"

#include <stdlib.h>
#include <string.h>

#include "numerics.h"

static ls_status expected(const char *text, const char *at, const char *what)
{
    return ls_fail(LS_ERR_ARGUMENT, "--class-weights: found '%.60s' in '%.120s', expected %s", at,
                   text, what);
}

/* "3=2.5" at *p, which moves past it. */
static ls_status read_pair(const char *text, const char **p, size_t classes, float *weight,
                           bool *named)
{
    static const char form[] = "CLASS=WEIGHT, such as 3=2.5, none or balanced";
    const size_t digits = strspn(*p, "0123456789");
    const size_t number = digits > 0 && (*p)[digits] == '='
                              ? strspn(*p + digits + 1, "0123456789+-.eE") : 0;
    if (digits == 0 || digits > 9 || number == 0) return expected(text, *p, form);
    const size_t class = strtoul(*p, NULL, 10);
    char *end;
    const float w = strtof(*p + digits + 1, &end);
    if (end != *p + digits + 1 + number) return expected(text, *p, form);
    if (class >= classes) {
        return ls_fail(LS_ERR_ARGUMENT, "--class-weights: class %zu, expected 0..%zu: the data "
                       "have %zu class%s", class, classes - 1, classes, classes == 1 ? "" : "es");
    }
    if (named[class]) return expected(text, *p, "each class once");
    if (!ls_is_finite(w) || w < 0) return expected(text, *p, "a finite weight, 0 or more");
    named[class] = true;
    weight[class] = w + 0.0f; /* -0 is 0 */
    *p = end;
    return LS_OK;
}

static ls_status read_map(const char *text, size_t classes, float *weight)
{
    ls_status status = LS_OK;
    const char *p = text;
    bool *named = calloc(classes, sizeof *named);
    if (!named) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    for (size_t c = 0; c < classes; c++) weight[c] = 1.0f;
    do {
        status = read_pair(text, &p, classes, weight, named);
    } while (status == LS_OK && *p == ',' && *++p);
    if (status == LS_OK && (*p || p[-1] == ',')) {
        status = expected(text, p[-1] == ',' ? p - 1 : p, "commas between CLASS=WEIGHT only");
    }
    free(named);
    return status;
}

static ls_status balance(const ls_dataset *dataset, float *weight)
{
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    const size_t n = info->count[LS_PART_TRAIN];
    size_t *count = calloc(info->classes, sizeof *count);
    if (!count) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", info->classes);
    for (size_t i = 0; i < n; i++) count[ls_dataset_label(dataset, LS_PART_TRAIN, i)]++;
    for (size_t c = 0; c < info->classes; c++) {
        const double share = (double)info->classes * (double)count[c];
        weight[c] = count[c] > 0 ? (float)((double)n / share) : 1.0f;
    }
    free(count);
    return LS_OK;
}

/* Products with the samples' own weights must be finite. */
static ls_status check_products(const ls_dataset *dataset, const float *weight)
{
    const size_t n = ls_dataset_describe(dataset)->count[LS_PART_TRAIN];
    for (size_t i = 0; i < n; i++) {
        const int32_t label = ls_dataset_label(dataset, LS_PART_TRAIN, i);
        const float own = ls_dataset_weight(dataset, i);
        if (ls_is_finite(own * weight[label])) continue;
        return ls_fail(LS_ERR_ARGUMENT, "--class-weights: record %zu of the training part weighs "
                       "%g, its class %d %g: their product is too large", i + 1, (double)own,
                       (int)label, (double)weight[label]);
    }
    return LS_OK;
}

ls_status ls_class_weights_create(const char *text, const ls_dataset *dataset, float **out)
{
    const ls_dataset_info *info = ls_dataset_describe(dataset);
    *out = NULL;
    if (strcmp(text, "none") == 0) return LS_OK;
    if (info->task != LS_TASK_CLASSIFY) {
        return ls_fail(LS_ERR_ARGUMENT, "--class-weights %.60s: the data have targets, not "
                       "classes; weights=... in --data weighs samples", text);
    }
    float *weight = malloc(info->classes * sizeof *weight);
    if (!weight) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", info->classes);
    ls_status status = strcmp(text, "balanced") == 0 ? balance(dataset, weight)
                                                     : read_map(text, info->classes, weight);
    if (status == LS_OK) status = check_products(dataset, weight);
    if (status == LS_OK) *out = weight;
    else free(weight);
    return status;
}
