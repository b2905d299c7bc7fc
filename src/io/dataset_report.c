/* SPDX-License-Identifier: MIT */
/* dataset_report.c -- a data set in words: what `lockstep data verify` prints.
 *
 *     digits: images 8x8x1, 10 classes, 1438 train and 359 test samples
 *     identity  <64 digits>
 *     scale     16: each value is divided by 16
 *     values    train 0 .. 16, mean 4.89075, std 6.01915; test ...
 *     class       train    test
 *     0             143      35
 *     ...
 *
 * Ranges are of the numbers as they are stored, before the scale. Channels or fields are listed
 * where there are at most LISTED of them, classes too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"

enum { LISTED = 100 };

typedef struct {
    char *text;   /* owned; NULL after an allocation failed */
    size_t chars;
    bool failed;
} report;

static void say(report *r, const char *format, ...) LS_PRINTF(2, 3);

static void say(report *r, const char *format, ...)
{
    char piece[2 * LS_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(piece, sizeof piece, format, values);
    va_end(values);
    const size_t chars = strlen(piece);
    char *longer = r->failed ? NULL : realloc(r->text, r->chars + chars + 1);
    if (!longer) {
        r->failed = true;
        return;
    }
    memcpy(longer + r->chars, piece, chars + 1);
    r->text = longer;
    r->chars += chars;
}

static void say_head(report *r, const ls_dataset *dataset)
{
    const ls_dataset_info *info = &dataset->info;
    say(r, "%s: ", dataset->spec_text);
    if (info->is_image) {
        say(r, "images %zux%zux%zu", info->height, info->width, info->channels);
    } else {
        say(r, "%zu numbers per sample", info->channels);
    }
    if (info->task == LS_TASK_CLASSIFY) {
        say(r, ", %zu classes", info->classes);
    } else {
        say(r, ", %zu target%s", info->outputs, info->outputs == 1 ? "" : "s");
    }
    say(r, ", %zu train and %zu test samples\n", info->count[LS_PART_TRAIN],
        info->count[LS_PART_TEST]);
    say(r, "identity  %s\n", dataset->identity);
}

static void say_scale(report *r, const ls_dataset *dataset)
{
    const ls_scale *scale = &dataset->scale;
    switch (scale->kind) {
    case LS_SCALE_NONE: say(r, "scale     none: values are fed as they are\n"); break;
    case LS_SCALE_DIVIDE:
        say(r, "scale     %g: each value is divided by %g\n", scale->divisor, scale->divisor);
        break;
    case LS_SCALE_STANDARD:
        say(r, "scale     standard: mean 0 and std 1 over the training samples, per %s\n",
            dataset->info.is_image ? "channel" : "field");
        break;
    }
}

static void say_range(report *r, const ls_dataset *dataset, ls_part part, size_t channel,
                      size_t channel_count)
{
    if (dataset->info.count[part] == 0) return;
    ls_range range;
    ls_dataset_range(dataset, part, channel, channel_count, 1, &range);
    say(r, "%s %g .. %g, mean %.6g, std %.6g\n", part == LS_PART_TRAIN ? "train" : "test ",
        range.low, range.high, range.mean, range.std);
}

static void say_ranges(report *r, const ls_dataset *dataset)
{
    const size_t channels = dataset->info.channels;
    const char *const unit = dataset->info.is_image ? "channel" : "field";
    say(r, "values    ");
    say_range(r, dataset, LS_PART_TRAIN, 0, channels);
    if (dataset->info.count[LS_PART_TEST] > 0) say(r, "          ");
    say_range(r, dataset, LS_PART_TEST, 0, channels);
    if (channels == 1 || channels > LISTED) return;
    for (size_t c = 0; c < channels; c++) {
        say(r, "%s %-3zu ", unit, c + 1);
        say_range(r, dataset, LS_PART_TRAIN, c, 1);
    }
}

/* Samples of each class, [classes]. */
static void count_classes(const ls_dataset *dataset, ls_part part, size_t *count)
{
    for (size_t i = 0; i < dataset->info.count[part]; i++) {
        count[dataset->part[part].label[i]]++;
    }
}

static ls_status say_classes(report *r, const ls_dataset *dataset)
{
    const size_t classes = dataset->info.classes;
    if (dataset->info.task != LS_TASK_CLASSIFY) return LS_OK;
    size_t *count = calloc(2 * classes, sizeof *count);
    if (!count) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    count_classes(dataset, LS_PART_TRAIN, count);
    count_classes(dataset, LS_PART_TEST, count + classes);
    say(r, "class       train      test\n");
    for (size_t c = 0; c < classes && c < LISTED; c++) {
        const char *name = ls_dataset_class_name(dataset, c);
        say(r, "%-6zu %10zu%10zu%s%s\n", c, count[c], count[classes + c], name ? "  " : "",
            name ? name : "");
    }
    if (classes > LISTED) say(r, "... and %zu more\n", classes - LISTED);
    free(count);
    return LS_OK;
}

/* Range of each target of the training part. */
static void say_targets(report *r, const ls_dataset *dataset)
{
    const ls_part_data *data = &dataset->part[LS_PART_TRAIN];
    const size_t outputs = dataset->info.outputs, count = dataset->info.count[LS_PART_TRAIN];
    if (dataset->info.task != LS_TASK_REGRESS) return;
    for (size_t k = 0; k < outputs && k < LISTED; k++) {
        double low = data->target[k], high = low, sum = 0;
        for (size_t i = 0; i < count; i++) {
            const double y = data->target[i * outputs + k];
            low = y < low ? y : low;
            high = y > high ? y : high;
            sum += y;
        }
        say(r, "target %-3zu %g .. %g, mean %.6g\n", k + 1, low, high, sum / (double)count);
    }
}

ls_status ls_dataset_report(const ls_dataset *dataset, char **text)
{
    report r = { .text = NULL };
    say_head(&r, dataset);
    say_scale(&r, dataset);
    say_ranges(&r, dataset);
    say_targets(&r, dataset);
    ls_status status = say_classes(&r, dataset);
    const char *warning = ls_dataset_warnings(dataset);
    while (*warning) {
        const size_t chars = strcspn(warning, "\n");
        say(&r, "warning: %.*s\n", (int)chars, warning);
        warning += chars + 1;
    }
    if (status == LS_OK && r.failed) status = ls_fail(LS_ERR_MEMORY, "no memory for a report");
    if (status == LS_OK) {
        *text = r.text;
        r.text = NULL;
    }
    free(r.text);
    return status;
}
