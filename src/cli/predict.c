/* SPDX-License-Identifier: MIT */
/* predict.c -- `lockstep predict`: what a checkpoint says about every sample of a data set.
 *
 *     classes   index,label,predicted,p_<class> ...    probabilities; label and predicted are
 *                                                      class numbers
 *     numbers   index,target_0 ...,predicted_0 ...
 *
 * With --out FILE.npy: the numbers alone, [samples, columns] f32 (io/npy.h). Nine digits give every
 * f32 back from a CSV.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/evaluation.h"
#include "io/new_file.h"
#include "io/npy.h"

enum { FLAG_OUT = LS_EVALUATION_FLAGS };

/* What is printed: a text that goes to a file at its end, or to standard output line by line. */
typedef struct {
    ls_new_file file;
    bool is_file;
} sink;

static ls_status put(sink *to, const void *bytes, size_t count)
{
    if (to->is_file) return ls_new_file_write(&to->file, bytes, count);
    if (fwrite(bytes, 1, count, stdout) == count) return LS_OK;
    return ls_fail(LS_ERR_IO, "standard output could not be written: %s", strerror(errno));
}

static ls_status put_text(sink *to, const char *text) { return put(to, text, strlen(text)); }

/* A field of a CSV header: in quotes where it needs them. */
static ls_status put_field(sink *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) return put_text(to, text);
    LS_TRY(put_text(to, "\""));
    for (; *text; text++) LS_TRY(put(to, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    return put_text(to, "\"");
}

static ls_status put_class_header(sink *to, const ls_dataset *data, size_t columns)
{
    LS_TRY(put_text(to, "index,label,predicted"));
    const size_t first = columns == 1 ? 1 : 0; /* one sigmoid output is class 1's */
    for (size_t c = first; c < first + columns; c++) {
        char name[160];
        const char *known = c < ls_dataset_describe(data)->classes
                                ? ls_dataset_class_name(data, c) : NULL;
        if (known) snprintf(name, sizeof name, "p_%s", known);
        else snprintf(name, sizeof name, "p_%zu", c);
        LS_TRY(put_text(to, ","));
        LS_TRY(put_field(to, name));
    }
    return put_text(to, "\n");
}

static ls_status put_number_header(sink *to, size_t columns)
{
    char name[48];
    LS_TRY(put_text(to, "index"));
    for (int kind = 0; kind < 2; kind++) {
        for (size_t c = 0; c < columns; c++) {
            snprintf(name, sizeof name, ",%s_%zu", kind == 0 ? "target" : "predicted", c);
            LS_TRY(put_text(to, name));
        }
    }
    return put_text(to, "\n");
}

static ls_status put_numbers(sink *to, const float *x, size_t count)
{
    char text[40];
    for (size_t c = 0; c < count; c++) {
        snprintf(text, sizeof text, ",%.9g", (double)x[c]);
        LS_TRY(put_text(to, text));
    }
    return LS_OK;
}

static ls_status put_csv(sink *to, const ls_dataset *data, ls_part part, const ls_evaluation *e)
{
    const size_t columns = e->columns;
    const bool is_class = ls_dataset_describe(data)->task == LS_TASK_CLASSIFY;
    LS_TRY(is_class ? put_class_header(to, data, columns) : put_number_header(to, columns));
    float *target = calloc(columns, sizeof *target);
    if (!target) return ls_fail(LS_ERR_MEMORY, "no memory for %zu target numbers", columns);
    ls_status status = LS_OK;
    for (size_t i = 0; i < e->samples && status == LS_OK; i++) {
        const float *row = e->rows + i * columns;
        char text[96];
        if (is_class) {
            snprintf(text, sizeof text, "%zu,%" PRId32 ",%" PRId32, i, e->label[i],
                     e->predicted[i]);
            status = put_text(to, text);
        } else {
            ls_dataset_target(data, part, i, target);
            snprintf(text, sizeof text, "%zu", i);
            status = put_text(to, text);
            if (status == LS_OK) status = put_numbers(to, target, columns);
        }
        if (status == LS_OK) status = put_numbers(to, row, columns);
        if (status == LS_OK) status = put_text(to, "\n");
    }
    free(target);
    return status;
}

static ls_status put_npy(sink *to, const float *rows, size_t samples, size_t columns)
{
    unsigned char header[LS_NPY_HEADER_BYTES];
    LS_TRY(put(to, header, ls_npy_header(samples, columns, header)));
    return put(to, rows, samples * columns * sizeof *rows);
}

static bool ends_with(const char *text, const char *tail)
{
    const size_t n = strlen(text), t = strlen(tail);
    return n > t && strcmp(text + n - t, tail) == 0;
}

/* rows of the evaluated part to standard output or `path`. */
static ls_status write_rows(const ls_evaluated *e, const char *path)
{
    const ls_evaluation *result = &e->result;
    ls_dataset *data = NULL;
    sink to = { .is_file = path != NULL, .file = { .fd = -1 } };
    ls_status status = ls_dataset_open(e->data, &data);
    if (status == LS_OK && path) status = ls_new_file_open(&to.file, path, &ls_file_calls_posix);
    if (status != LS_OK) goto done;
    const bool has_test = ls_dataset_describe(data)->count[LS_PART_TEST] > 0;
    const ls_part part = e->train_part || !has_test ? LS_PART_TRAIN : LS_PART_TEST;
    if (path && ends_with(path, ".npy")) {
        status = put_npy(&to, result->rows, result->samples, result->columns);
    } else {
        status = put_csv(&to, data, part, result);
    }
    if (status == LS_OK && path) status = ls_new_file_commit(&to.file);
done:
    if (path) ls_new_file_close(&to.file);
    ls_dataset_close(data);
    return status;
}

static ls_status run_predict(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    const char *path = v->flag[FLAG_OUT];
    if (path && !ends_with(path, ".csv") && !ends_with(path, ".npy")) {
        return ls_fail(LS_ERR_ARGUMENT, "--out: found '%.200s', expected a file that ends in .csv "
                       "or .npy", path);
    }
    ls_evaluated e;
    LS_TRY(ls_evaluate_argument(v, true, true, &e));
    const ls_status status = write_rows(&e, path);
    if (status == LS_OK && path) {
        printf("%s: %zu samples, %zu number%s each\n", path, e.result.samples, e.result.columns,
               e.result.columns == 1 ? "" : "s");
    }
    ls_evaluation_free(&e.result);
    return status;
}

static const char *const predict_options[] = { "data", "devices", "threads", "timeout", "p2p",
                                               NULL };

const ls_command ls_command_predict = {
    .name = "predict",
    .arguments = "CHECKPOINT [--data SPEC] [--out FILE.csv|FILE.npy] [option ...]",
    .summary = "what a checkpoint says about every sample",
    .about =
        "Predicts every sample of the test part (or of the training part, where there is no test\n"
        "part), in the order of the data. Prints CSV, or writes a file.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = predict_options,
    .flag = { LS_EVALUATION_FLAG_LIST,
              [FLAG_OUT] = { "out", "FILE.csv|FILE.npy", "write a file instead of printing" } },
    .run = run_predict,
};
