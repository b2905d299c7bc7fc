/* SPDX-License-Identifier: MIT */
/* dataset_fill.c -- what a format's open function fills a data set with.
 *
 * Its files, the runs of samples in them with room for labels or targets and weights, warnings, and
 * marks on bad records. What is made of it, whatever the format, is dataset.c's.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/dataset_internal.h"
#include "plural.h"

static const char *const part_name[LS_PART_COUNT] = { "train", "test" };

/* -- files ----------------------------------------------------------------------------------- */

ls_status ls_dataset_file(ls_dataset *dataset, const char *path, const char *expected,
                          const ls_data_file **out)
{
    assert(dataset->file_count < LS_FILE_MAX);
    ls_data_file *file = &dataset->file[dataset->file_count];
    LS_TRY(ls_data_file_open(path, expected, file));
    dataset->file_count++;
    if (file->bytes > LS_RESIDENT_BYTES) ls_data_file_expect(file, true);
    *out = file;
    return LS_OK;
}

/* "folder/name", owned by the caller; NULL without memory. */
static char *path_in(const char *folder, const char *name)
{
    const size_t chars = strlen(folder);
    const char *slash = chars > 0 && folder[chars - 1] == '/' ? "" : "/";
    const size_t bytes = chars + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path) snprintf(path, bytes, "%s%s%s", folder, slash, name);
    return path;
}

ls_status ls_dataset_file_in(ls_dataset *dataset, const char *folder, const char *name,
                             const char *expected, const ls_data_file **out)
{
    char *path = path_in(folder, name);
    if (!path) return ls_fail(LS_ERR_MEMORY, "no memory for a path");
    const ls_status status = ls_dataset_file(dataset, path, expected, out);
    free(path);
    return status;
}

bool ls_dataset_has_file(const char *folder, const char *name)
{
    char *path = path_in(folder, name);
    const bool there = path && ls_data_file_is_there(path);
    free(path);
    return there;
}

/* -- samples --------------------------------------------------------------------------------- */

/* Make *array hold `count` elements, a count that a file's size was checked to bear; what is new
 * is zero. */
static ls_status extend(void **array, size_t old_count, size_t count, size_t bytes)
{
    unsigned char *longer = realloc(*array, (count > 0 ? count : 1) * bytes);
    if (!longer) return ls_fail(LS_ERR_MEMORY, "no memory for %zu records", count);
    memset(longer + old_count * bytes, 0, (count - old_count) * bytes);
    *array = longer;
    return LS_OK;
}

/* Room for the answers of so many samples of a part. */
static ls_status extend_answers(ls_dataset *dataset, ls_part part, size_t old_count, size_t count)
{
    ls_part_data *data = &dataset->part[part];
    const size_t outputs = dataset->info.outputs;
    void *label = data->label, *target = data->target;
    ls_status status = LS_OK;
    switch (dataset->info.task) {
    case LS_TASK_CLASSIFY: status = extend(&label, old_count, count, sizeof(int32_t)); break;
    case LS_TASK_REGRESS:
        status = extend(&target, old_count, count, outputs * sizeof(float));
        break;
    case LS_TASK_NONE: break;
    }
    data->label = label;
    data->target = target;
    return status;
}

/* The file that a run lies in, if both are so large that they are read in passing; else NULL. */
static const ls_data_file *passing_file(const ls_dataset *dataset, ls_run run)
{
    if (run.count * run.stride <= LS_RESIDENT_BYTES) return NULL;
    for (int i = 0; i < dataset->file_count; i++) {
        const ls_data_file *file = &dataset->file[i];
        if (run.x >= file->data && run.x < file->data + file->bytes) return file;
    }
    return NULL;
}

ls_status ls_dataset_add_run(ls_dataset *dataset, ls_part part, ls_run run)
{
    ls_part_data *data = &dataset->part[part];
    assert(data->run_count < LS_RUN_MAX);
    const size_t stored = data->stored + run.count;
    if (stored > UINT32_MAX) {
        return ls_fail(LS_ERR_FORMAT, "%zu samples in the %s part, at most 4294967295", stored,
                       part_name[part]);
    }
    LS_TRY(extend_answers(dataset, part, data->stored, stored));
    run.passing = passing_file(dataset, run);
    data->run[data->run_count++] = run;
    data->stored = stored;
    return LS_OK;
}

ls_status ls_dataset_assume_answers(ls_dataset *dataset, ls_task task, size_t count)
{
    ls_dataset_info *info = &dataset->info;
    assert(info->task == LS_TASK_NONE);
    info->task = task;
    info->classes = task == LS_TASK_CLASSIFY ? count : 0;
    info->outputs = task == LS_TASK_REGRESS ? count : 0;
    for (int part = 0; part < LS_PART_COUNT; part++)
        LS_TRY(extend_answers(dataset, (ls_part)part, 0, info->count[part]));
    return LS_OK;
}

ls_status ls_dataset_add_weights(ls_dataset *dataset)
{
    ls_part_data *data = &dataset->part[LS_PART_TRAIN];
    data->weight = calloc(data->stored + 1, sizeof *data->weight);
    if (!data->weight) return ls_fail(LS_ERR_MEMORY, "no memory for %zu weights", data->stored);
    dataset->info.weighted = true;
    return LS_OK;
}

/* -- what is wrong ---------------------------------------------------------------------------- */

ls_status ls_dataset_warn(ls_dataset *dataset, const char *format, ...)
{
    char line[LS_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);

    const size_t old = dataset->warnings ? strlen(dataset->warnings) : 0;
    const size_t bytes = old + strlen(line) + 2;
    char *longer = realloc(dataset->warnings, bytes);
    if (!longer) return ls_fail(LS_ERR_MEMORY, "no memory for a warning");
    snprintf(longer + old, bytes - old, "%s\n", line);
    dataset->warnings = longer;
    return LS_OK;
}

ls_status ls_dataset_warn_of_no_test(ls_dataset *dataset, const char *name, size_t train,
                                     size_t test, size_t every)
{
    if (test > 0 || !ls_spec_find(&dataset->spec, "test")) return LS_OK;
    return ls_dataset_warn(dataset, "%s: test=every:%zu of %zu record%s: there is no test part",
                           name, every, train, LS_PLURAL(train));
}

ls_status ls_dataset_bad_record(ls_dataset *dataset, const char *format, ...)
{
    enum { NAMED = 10 };
    char text[LS_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (!dataset->skip_bad) return ls_fail(LS_ERR_FORMAT, "%s", text);
    if (dataset->skipped++ < NAMED) return ls_dataset_warn(dataset, "skipped: %s", text);
    return LS_OK;
}

ls_status ls_dataset_leave_out(ls_dataset *dataset, ls_part part, size_t index)
{
    ls_part_data *data = &dataset->part[part];
    if (!data->bad) data->bad = calloc(data->stored, sizeof *data->bad);
    if (!data->bad) return ls_fail(LS_ERR_MEMORY, "no memory for %zu marks", data->stored);
    data->bad[index] = true;
    return LS_OK;
}
