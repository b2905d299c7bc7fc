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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "page.h"
#include "plural.h"

enum { LISTED = 100 };

static void say_head(FILE *out, const ls_dataset *dataset)
{
    const ls_dataset_info *info = &dataset->info;
    fprintf(out, "%s: ", dataset->spec_text);
    if (info->is_image) {
        fprintf(out, "images %zux%zux%zu", info->height, info->width, info->channels);
    } else {
        fprintf(out, "%zu number%s per sample", info->channels, LS_PLURAL(info->channels));
    }
    switch (info->task) {
    case LS_TASK_CLASSIFY:
        fprintf(out, ", %zu class%s", info->classes, info->classes == 1 ? "" : "es");
        break;
    case LS_TASK_REGRESS:
        fprintf(out, ", %zu target%s", info->outputs, LS_PLURAL(info->outputs));
        break;
    case LS_TASK_NONE: fprintf(out, ", no answers"); break;
    }
    const size_t train = info->count[LS_PART_TRAIN], test = info->count[LS_PART_TEST];
    if (info->task == LS_TASK_NONE && test == 0)
        fprintf(out, ", %zu sample%s\n", train, LS_PLURAL(train));
    else
        fprintf(out, ", %zu train and %zu test sample%s\n", train, test, LS_PLURAL(test));
    fprintf(out, "identity  %s\n", dataset->identity);
}

static void say_scale(FILE *out, const ls_dataset *dataset)
{
    const ls_scale *scale = &dataset->scale;
    switch (scale->kind) {
    case LS_SCALE_NONE: fprintf(out, "scale     none: values are fed as they are\n"); break;
    case LS_SCALE_DIVIDE:
        fprintf(out, "scale     %g: each value is divided by %g\n", scale->divisor, scale->divisor);
        break;
    case LS_SCALE_STANDARD:
        fprintf(out, "scale     standard: mean 0 and std 1 over the training samples, per %s\n",
                dataset->info.is_image ? "channel" : "field");
        break;
    }
}

static void say_range(FILE *out, const ls_dataset *dataset, ls_part part, size_t channel,
                      size_t channel_count)
{
    if (dataset->info.count[part] == 0) return;
    ls_range range;
    ls_dataset_range(dataset, part, channel, channel_count, 1, &range);
    fprintf(out, "%s %g .. %g, mean %.6g, std %.6g\n", part == LS_PART_TRAIN ? "train" : "test ",
            range.low, range.high, range.mean, range.std);
}

static void say_ranges(FILE *out, const ls_dataset *dataset)
{
    const size_t channels = dataset->info.channels;
    const char *const unit = dataset->info.is_image ? "channel" : "field";
    fprintf(out, "values    ");
    say_range(out, dataset, LS_PART_TRAIN, 0, channels);
    if (dataset->info.count[LS_PART_TEST] > 0) fprintf(out, "          ");
    say_range(out, dataset, LS_PART_TEST, 0, channels);
    if (channels == 1 || channels > LISTED) return;
    for (size_t c = 0; c < channels; c++) {
        fprintf(out, "%s %-3zu ", unit, c + 1);
        say_range(out, dataset, LS_PART_TRAIN, c, 1);
    }
}

/* Samples of each class, [classes]. */
static void count_classes(const ls_dataset *dataset, ls_part part, size_t *count)
{
    for (size_t i = 0; i < dataset->info.count[part]; i++) {
        count[dataset->part[part].label[i]]++;
    }
}

/* count: room for the classes of both parts, zeros. */
static void say_classes(FILE *out, const ls_dataset *dataset, size_t *count)
{
    const size_t classes = dataset->info.classes;
    if (dataset->info.task != LS_TASK_CLASSIFY) return;
    count_classes(dataset, LS_PART_TRAIN, count);
    count_classes(dataset, LS_PART_TEST, count + classes);
    fprintf(out, "class       train      test\n");
    for (size_t c = 0; c < classes && c < LISTED; c++) {
        const char *name = ls_dataset_class_name(dataset, c);
        fprintf(out, "%-6zu %10zu%10zu%s%s\n", c, count[c], count[classes + c], name ? "  " : "",
                name ? name : "");
    }
    if (classes > LISTED) fprintf(out, "... and %zu more\n", classes - LISTED);
}

/* Range of each target of the training part. */
static void say_targets(FILE *out, const ls_dataset *dataset)
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
        fprintf(out, "target %-3zu %g .. %g, mean %.6g\n", k + 1, low, high, sum / (double)count);
    }
}

/* Range and sum of the training samples' weights. */
static void say_weights(FILE *out, const ls_dataset *dataset)
{
    if (!dataset->info.weighted) return;
    const size_t count = dataset->info.count[LS_PART_TRAIN];
    double low = ls_dataset_weight(dataset, 0), high = low, sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double w = ls_dataset_weight(dataset, i);
        low = w < low ? w : low;
        high = w > high ? w : high;
        sum += w;
    }
    fprintf(out, "weights    %g .. %g, mean %.6g\n", low, high, sum / (double)count);
}

static void say_warnings(FILE *out, const ls_dataset *dataset)
{
    const char *warning = ls_dataset_warnings(dataset);
    while (*warning) {
        const size_t chars = strcspn(warning, "\n");
        fprintf(out, "warning: %.*s\n", (int)chars, warning);
        warning += chars + 1;
    }
}

ls_status ls_dataset_report(const ls_dataset *dataset, char **text)
{
    ls_page page;
    const size_t classes = dataset->info.classes;
    *text = NULL;
    size_t *count = calloc(2 * classes + 1, sizeof *count);
    if (!count) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    ls_status status = ls_page_begin(&page);
    if (status == LS_OK) {
        say_head(page.out, dataset);
        say_scale(page.out, dataset);
        say_ranges(page.out, dataset);
        say_targets(page.out, dataset);
        say_weights(page.out, dataset);
        say_classes(page.out, dataset, count);
        say_warnings(page.out, dataset);
        status = ls_page_end(&page, text);
    }
    free(count);
    return status;
}
