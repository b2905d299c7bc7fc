/* SPDX-License-Identifier: MIT */
/* dataset_csv_fields.c -- which field of a csv record is what. See dataset_csv_fields.h. */
#include "io/dataset_csv_fields.h"

#include <stdio.h>
#include <string.h>

#include "plural.h"

/* -- the spec ------------------------------------------------------------------------------- */

static ls_status read_test_option(const ls_spec *spec, ls_csv_fields *options)
{
    const ls_spec_item *item = ls_spec_find(spec, "test");
    options->every = item || options->answers == 0 ? 0 : 5;
    if (!item) return LS_OK;
    LS_TRY(ls_spec_every(spec, item, &options->every));
    if (options->every == 0 && strcmp(item->value, "none") != 0) options->test_file = item->value;
    return LS_OK;
}

/* `key` names a field: last, first, or its number from 1. */
static ls_status check_field_name(const char *key, const char *value)
{
    size_t field;
    if (strcmp(value, "last") == 0 || strcmp(value, "first") == 0 ||
        ls_text_whole(value, 1, LS_CLASSES_MAX, &field)) {
        return LS_OK;
    }
    return ls_fail(LS_ERR_ARGUMENT,
                   "data spec csv: %s=%s, expected last, first or a field's number from 1%s", key,
                   value, strcmp(key, "label") == 0 ? ", or none" : "");
}

/* What the keys say of answers: the task, and how many fields they are. */
static ls_status read_task(ls_dataset *dataset, ls_csv_fields *options)
{
    static const char *const tasks[] = { "class", "regress", NULL };
    const ls_spec *spec = &dataset->spec;
    int task = 0;
    options->answers = 1;
    LS_TRY(ls_spec_choice(spec, "task", tasks, &task));
    LS_TRY(ls_spec_whole(spec, "outputs", 1, LS_CLASSES_MAX, &options->answers));
    if (strcmp(options->label, "none") == 0) { /* the keys of the training's spec may stay */
        dataset->info.task = LS_TASK_NONE;
        options->answers = 0;
        return LS_OK;
    }
    dataset->info.task = task == 0 ? LS_TASK_CLASSIFY : LS_TASK_REGRESS;
    if (ls_spec_find(spec, "outputs") && task == 0) {
        return ls_fail(LS_ERR_ARGUMENT, "data spec csv: outputs=%zu goes with task=regress",
                       options->answers);
    }
    dataset->info.outputs = task == 0 ? 0 : options->answers;
    return check_field_name("label", options->label);
}

ls_status ls_csv_fields_read(ls_dataset *dataset, ls_csv_fields *options)
{
    static const char *const no_yes[] = { "no", "yes", NULL };
    const ls_spec *spec = &dataset->spec;
    const ls_spec_item *label = ls_spec_find(spec, "label");
    const ls_spec_item *weights = ls_spec_find(spec, "weights");
    int header = 0;
    *options = (ls_csv_fields){ .label = label ? label->value : "last",
                                .weights = weights ? weights->value : NULL };
    LS_TRY(ls_spec_choice(spec, "header", no_yes, &header));
    options->header = header == 1;
    LS_TRY(read_task(dataset, options));
    if (weights) LS_TRY(check_field_name("weights", weights->value));
    return read_test_option(spec, options);
}

/* -- the first record ---------------------------------------------------------------------- */

/* The first of `count` fields that `name` says. */
static size_t field_named(const char *name, size_t fields, size_t count)
{
    size_t first = 1;
    if (strcmp(name, "last") == 0) return fields - count;
    (void)ls_text_whole(name, 1, LS_CLASSES_MAX, &first); /* else "first" */
    return first - 1;
}

/* Which field is the weight; the answers are known. */
static ls_status fix_weight(const char *name, ls_csv_fields *options)
{
    options->weight = options->fields;
    if (!options->weights) return LS_OK;
    const size_t weight = field_named(options->weights, options->fields, 1);
    const size_t first = options->first_answer, end = first + options->answers;
    if (weight >= options->fields || (weight >= first && weight < end)) {
        return ls_fail(LS_ERR_ARGUMENT,
                       "data spec csv: weights=%s is field %zu, expected one of the %zu in %s that "
                       "is no label", options->weights, weight + 1, options->fields, name);
    }
    options->weight = weight;
    return LS_OK;
}

ls_status ls_csv_fields_fix(ls_csv_fields *options, const char *name, const ls_csv_span *line)
{
    const size_t fields = ls_csv_field_count(line);
    const size_t others = options->answers + (options->weights ? 1 : 0); /* no features */
    if (fields <= others) {
        const char separator = memchr(line->text, ';', line->chars)    ? ';'
                               : memchr(line->text, '\t', line->chars) ? '\t'
                                                                       : '\0';
        return ls_fail(LS_ERR_FORMAT,
                       "%s: line %zu (byte %zu): %zu field%s, expected at least %zu, separated by "
                       "commas%s", name, line->number, line->offset, fields, LS_PLURAL(fields),
                       others + 1,
                       separator == ';'    ? "; found semicolons"
                       : separator == '\t' ? "; found tabs"
                                           : "");
    }
    const size_t first = field_named(options->label, fields, options->answers);
    if (first + options->answers > fields) {
        char outputs[40] = "";
        if (options->answers > 1)
            snprintf(outputs, sizeof outputs, ",outputs=%zu", options->answers);
        return ls_fail(LS_ERR_ARGUMENT,
                       "data spec csv: label=%s%s is beyond the last field: %s has %zu",
                       options->label, outputs, name, fields);
    }
    options->fields = fields;
    options->first_answer = first;
    return fix_weight(name, options);
}
