/* SPDX-License-Identifier: MIT */
/* dataset_csv.c -- a table of numbers, a record a line: features and a label or targets.
 *
 *     csv:FILE[,label=last|first|N|none][,header=no|yes][,task=class|regress][,outputs=K]
 *         [,weights=last|first|N][,test=every:K|FILE|none][,scale=none|255|16|standard]
 *         [,bad=stop|skip]
 *
 * The first record fixes the number of fields F. The label (task=class) is one field; the targets
 * (task=regress) are K neighbouring ones: the last K, the first K, or fields N .. N+K-1; the other
 * F - K are the features, in order; with weights=, that field is the sample's weight, 0 or more,
 * and no feature. A test part has the field too, and its weights are checked, but evaluation does
 * not weigh. A label is a whole number 0 .. 65535 (3.0 is one), and the number of classes is the
 * largest of both parts plus 1. With label=none all fields are features.
 *
 * Decided, where CSV files differ:
 *   - an empty line is a bad record, at the end of the file too;
 *   - a header is skipped if the spec says header=yes; without it, it is a bad number in line 1;
 *   - CR stands only before LF; text with CR alone is refused whole;
 *   - hexadecimal numbers, nan, inf, quotes are bad numbers (csv.h).
 *
 * test=every:K, K = 5 unless given (with label=none there is no test part unless given): of the
 * records as they lie in the file, each K-th is test. A bad record that is skipped keeps its place
 * in the count, so it moves no other record.
 *
 * Two passes. The first counts lines and good records, so that arrays are allocated by what the
 * file really holds; the second reads numbers.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "io/dataset_csv_fields.h"
#include "io/dataset_internal.h"
#include "plural.h"

/* One CSV text and where its records go. */
typedef struct {
    const char *name;
    const char *text;
    size_t bytes;
    size_t every;               /* 0: all records to `part` */
    ls_part part;
    size_t records[LS_PART_COUNT]; /* all, also those with too few or too many fields */
} table;

/* -- first pass ------------------------------------------------------------------------------ */

static ls_status check_line_ends(const table *t, const ls_csv_span *line)
{
    const char *cr = memchr(line->text, '\r', line->chars);
    if (!cr) return LS_OK;
    return ls_fail(LS_ERR_FORMAT,
                   "%s: line %zu (byte %zu): a carriage return that no line feed follows; expected "
                   "lines that end in LF or CRLF (convert it with: tr '\\r' '\\n')",
                   t->name, line->number, line->offset + (size_t)(cr - line->text));
}

/* Is the line all numbers? Then it hardly is a header. */
static bool is_all_numbers(const ls_csv_span *line)
{
    ls_csv_span field = { .text = NULL };
    float value;
    while (ls_csv_next_field(line, &field)) {
        if (ls_csv_number(&field, &value, NULL) != LS_CSV_NUMBER) return false;
    }
    return true;
}

/* *names: how many fields it has, or 0. */
static ls_status skip_header(ls_dataset *dataset, const table *t, ls_csv *csv, size_t *names)
{
    ls_csv_span line;
    *names = 0;
    if (!ls_csv_next_line(csv, &line)) return LS_OK;
    LS_TRY(check_line_ends(t, &line));
    *names = ls_csv_field_count(&line);
    if (!is_all_numbers(&line)) return LS_OK;
    return ls_dataset_warn(dataset, "%s: line 1: skipped as header, but it is all numbers",
                           t->name);
}

/* The part that record `record` (from 0) belongs to. */
static ls_part part_of(const table *t, size_t record)
{
    if (t->every == 0) return t->part;
    return (record + 1) % t->every == 0 ? LS_PART_TEST : LS_PART_TRAIN;
}

/* Is the number of fields right? An empty line has none. */
static bool has_width(const ls_csv_span *line, size_t fields)
{
    return line->chars > 0 && ls_csv_field_count(line) == fields;
}

static ls_status fail_width(ls_dataset *dataset, const table *t, const ls_csv_span *line,
                            size_t fields)
{
    if (line->chars == 0) {
        return ls_dataset_bad_record(dataset,
                                     "%s: line %zu (byte %zu): empty line, expected a record",
                                     t->name, line->number, line->offset);
    }
    const size_t found = ls_csv_field_count(line);
    return ls_dataset_bad_record(dataset, "%s: line %zu (byte %zu): %zu field%s, expected %zu",
                                 t->name, line->number, line->offset, found, LS_PLURAL(found),
                                 fields);
}

/* Check line ends and widths; count the records of each part. */
static ls_status scan(ls_dataset *dataset, table *t, ls_csv_fields *options)
{
    ls_csv csv = ls_csv_begin(t->text, t->bytes);
    ls_csv_span line;
    size_t good = 0, names = 0;
    if (options->header) LS_TRY(skip_header(dataset, t, &csv, &names));
    for (size_t record = 0; ls_csv_next_line(&csv, &line); record++) {
        LS_TRY(check_line_ends(t, &line));
        if (options->fields == 0 && line.chars > 0)
            LS_TRY(ls_csv_fields_fix(options, t->name, &line));
        t->records[part_of(t, record)]++;
        if (has_width(&line, options->fields)) good++;
        else LS_TRY(fail_width(dataset, t, &line, options->fields));
    }
    if (good == 0) {
        return ls_fail(LS_ERR_FORMAT, "%s: line %zu (byte %zu): the end, and no record before it",
                       t->name, csv.lines, t->bytes);
    }
    if (names > 0 && names != options->fields) {
        LS_TRY(ls_dataset_warn(dataset, "%s: line 1: a header of %zu name%s, the records have %zu "
                               "field%s", t->name, names, LS_PLURAL(names), options->fields,
                               LS_PLURAL(options->fields)));
    }
    return LS_OK;
}

/* -- second pass ----------------------------------------------------------------------------- */

/* Was it meant as a number, and not as a column's name? */
static bool begins_a_number(const ls_csv_span *field)
{
    size_t i = 0;
    while (i < field->chars && memchr(" \t\"", field->text[i], 3)) i++;
    return i < field->chars && memchr("+-.0123456789", field->text[i], 13);
}

/* A field that is no number; `is_label`: it is the record's class. */
static ls_status fail_number(ls_dataset *dataset, const table *t, const ls_csv_span *line,
                             const ls_csv_span *field, ls_csv_verdict verdict, bool is_label)
{
    char shown[LS_CSV_SHOWN_BYTES], long_field[64];
    snprintf(long_field, sizeof long_field, "%zu characters, expected at most %d", field->chars,
             (int)LS_CSV_NUMBER_CHARS);
    const char *hint = verdict == LS_CSV_EMPTY       ? ", expected a number"
                       : verdict == LS_CSV_TOO_LARGE ? " overflows a 32-bit float"
                       : verdict == LS_CSV_TOO_LONG  ? " of a number"
                                                     : ", expected a number such as -1.5e3";
    if (line->number == 1 && field->number == 1 && !begins_a_number(field)) {
        hint = ", expected a number; if line 1 is a header: header=yes";
    } else if (memchr(field->text, ';', field->chars)) {
        hint = ", expected a number; fields are separated by commas, not ';'";
    } else if (memchr(field->text, '\t', field->chars)) {
        hint = ", expected a number; fields are separated by commas, not tabs";
    } else if (memchr(field->text, '"', field->chars)) {
        hint = ", expected a number; quotes are not read";
    } else if (is_label && verdict == LS_CSV_NO_NUMBER && !begins_a_number(field)) {
        hint = ", expected a class as a whole number from 0; names are not read";
    }
    return ls_dataset_bad_record(dataset, "%s: line %zu, field %zu (byte %zu): %s%s", t->name,
                                 line->number, field->number, field->offset,
                                 verdict == LS_CSV_EMPTY      ? "empty field"
                                 : verdict == LS_CSV_TOO_LONG ? long_field
                                                              : ls_csv_shown(field, shown),
                                 hint);
}

static ls_status fail_label(ls_dataset *dataset, const table *t, const ls_csv_span *line,
                            const ls_csv_span *field)
{
    char shown[LS_CSV_SHOWN_BYTES];
    return ls_dataset_bad_record(dataset,
                                 "%s: line %zu, field %zu (byte %zu): label %s, expected a whole "
                                 "number 0..%d (if it is a quantity: task=regress; if there are "
                                 "no answers: label=none)",
                                 t->name, line->number, field->number, field->offset,
                                 ls_csv_shown(field, shown), LS_CLASSES_MAX - 1);
}

static ls_status fail_weight(ls_dataset *dataset, const table *t, const ls_csv_span *line,
                             const ls_csv_span *field)
{
    char shown[LS_CSV_SHOWN_BYTES];
    return ls_dataset_bad_record(dataset,
                                 "%s: line %zu, field %zu (byte %zu): weight %s, expected 0 or "
                                 "more", t->name, line->number, field->number, field->offset,
                                 ls_csv_shown(field, shown));
}

/* Where one record goes. */
typedef struct {
    float *features;
    float *targets; /* or NULL */
    int32_t *label; /* or NULL */
    float *weight;  /* or NULL */
} record_place;

/* *good: whether all of the line could be read. */
static ls_status read_record(ls_dataset *dataset, const table *t, const ls_csv_fields *options,
                             const ls_csv_span *line, record_place to, bool *good)
{
    ls_csv_span field = { .text = NULL };
    const size_t first = options->first_answer;
    *good = false;
    while (ls_csv_next_field(line, &field)) {
        float value = 0;
        double exact = 0;
        const ls_csv_verdict verdict = ls_csv_number(&field, &value, &exact);
        const size_t place = field.number - 1;
        const bool is_answer = place >= first && place < first + options->answers;
        if (verdict != LS_CSV_NUMBER)
            return fail_number(dataset, t, line, &field, verdict, is_answer && to.label);
        if (place == options->weight) {
            if (value < 0) return fail_weight(dataset, t, line, &field);
            if (to.weight) *to.weight = value + 0.0f; /* -0 is 0 */
        } else if (!is_answer) {
            *to.features++ = value;
        } else if (to.targets) {
            *to.targets++ = value;
        } else {
            if (!(exact >= 0 && exact < LS_CLASSES_MAX && exact == floor(exact))) {
                return fail_label(dataset, t, line, &field);
            }
            *to.label = (int32_t)exact;
        }
    }
    *good = true;
    return LS_OK;
}

/* Room for the records of a part, as one run. */
static ls_status alloc_part(ls_dataset *dataset, const table *t, ls_part part, size_t fields)
{
    ls_part_data *data = &dataset->part[part];
    const size_t features = dataset->info.channels, count = t->records[part];
    if (count == 0) return LS_OK;
    /* Lines that are too short have room too: more may be asked for than the file has bytes. */
    const bool fits = count <= SIZE_MAX / sizeof(float) / fields;
    data->values = fits ? malloc(count * features * sizeof(float)) : NULL;
    if (!data->values) return ls_fail(LS_ERR_MEMORY, "no memory for %zu records", count);
    return ls_dataset_add_run(dataset, part,
                              (ls_run){ .x = (const unsigned char *)data->values,
                                        .stride = features * sizeof(float),
                                        .count = count });
}

static record_place place_of(const ls_dataset *dataset, ls_part part, size_t index)
{
    const ls_part_data *data = &dataset->part[part];
    return (record_place){
        .features = data->values + index * dataset->info.channels,
        .targets = data->target ? data->target + index * dataset->info.outputs : NULL,
        .label = data->label ? data->label + index : NULL,
        .weight = data->weight ? data->weight + index : NULL,
    };
}

static ls_status read_numbers(ls_dataset *dataset, const table *t, const ls_csv_fields *options)
{
    ls_csv csv = ls_csv_begin(t->text, t->bytes);
    ls_csv_span line;
    size_t next[LS_PART_COUNT] = { 0 };
    if (options->header && !ls_csv_next_line(&csv, &line)) return LS_OK;
    for (size_t record = 0; ls_csv_next_line(&csv, &line); record++) {
        const ls_part part = part_of(t, record);
        const size_t index = next[part]++;
        bool good = false;
        if (has_width(&line, options->fields)) /* else scan has told of it */
            LS_TRY(read_record(dataset, t, options, &line, place_of(dataset, part, index), &good));
        if (!good) LS_TRY(ls_dataset_leave_out(dataset, part, index));
    }
    return LS_OK;
}

static ls_status read_table(ls_dataset *dataset, table *t, ls_csv_fields *options)
{
    LS_TRY(scan(dataset, t, options));
    if (t->every > 0) {
        LS_TRY(ls_dataset_warn_of_no_test(dataset, t->name, t->records[LS_PART_TRAIN],
                                          t->records[LS_PART_TEST], t->every));
    }
    dataset->store = LS_STORE_F32;
    dataset->info.height = dataset->info.width = 1;
    dataset->info.channels = options->fields - options->answers - (options->weights ? 1 : 0);
    for (int part = 0; part < LS_PART_COUNT; part++) {
        LS_TRY(alloc_part(dataset, t, (ls_part)part, options->fields));
    }
    if (options->weights && t->records[LS_PART_TRAIN] > 0) LS_TRY(ls_dataset_add_weights(dataset));
    return read_numbers(dataset, t, options);
}

/* -- opening --------------------------------------------------------------------------------- */

ls_status ls_dataset_read_csv(ls_dataset *dataset, const char *name, const char *text, size_t bytes)
{
    ls_csv_fields options;
    LS_TRY(ls_csv_fields_read(dataset, &options));
    table t = { .name = name, .text = text, .bytes = bytes, .every = options.every };
    return read_table(dataset, &t, &options);
}

/* All records of the file at `path`, but each every-th if every > 0, go to `part`. */
static ls_status read_file(ls_dataset *dataset, const char *path, ls_part part, size_t every,
                           ls_csv_fields *options)
{
    const ls_data_file *file = NULL;
    LS_TRY(ls_dataset_file(dataset, path, "CSV text", &file));
    table t = { .name = file->path, .text = (const char *)file->data, .bytes = file->bytes,
                .every = every, .part = part };
    return read_table(dataset, &t, options);
}

static ls_status open_csv(ls_dataset *dataset)
{
    const char *path = ls_spec_file(&dataset->spec, 0);
    ls_csv_fields options;
    LS_TRY(ls_csv_fields_read(dataset, &options));
    LS_TRY(read_file(dataset, path, LS_PART_TRAIN, options.every, &options));
    if (!options.test_file) return LS_OK;
    return read_file(dataset, options.test_file, LS_PART_TEST, 0, &options);
}

static const char *const csv_keys[] = { "label", "header", "task", "outputs",
                                        "test",  "scale",  "bad",  "weights", NULL };

const ls_dataset_format ls_dataset_csv = {
    .kind = "csv",
    .usage = "csv:FILE[,label=last|first|N|none][,header=no|yes][,task=class|regress][,outputs=K]"
             "[,weights=last|first|N][,test=every:5|FILE|none][,scale=none|255|standard]"
             "[,bad=stop|skip]",
    .keys = csv_keys,
    .files = 1,
    .open = open_csv,
};
