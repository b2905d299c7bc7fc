/* SPDX-License-Identifier: MIT */
/* predict.c -- `lockstep predict`: what a checkpoint says about every sample of a data set.
 *
 *     classes   index,label,predicted,p_<class> ...    probabilities; label and predicted are
 *                                                      class numbers
 *     numbers   index,target_0 ...,predicted_0 ...
 *
 * Of data without answers there is no label and no target; then a network whose loss is not softmax
 * predicts numbers, which under a sigmoid loss are probabilities.
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
#include "plural.h"
#include "printable.h"

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

static ls_status put_class_header(sink *to, const ls_evaluation *e)
{
    LS_TRY(put_text(to, e->label ? "index,label,predicted" : "index,predicted"));
    const size_t first = e->columns == 1 ? 1 : 0; /* one sigmoid output is class 1's */
    for (size_t c = first; c < first + e->columns; c++) {
        char name[160];
        const char *known = ls_evaluation_class_name(e, c);
        if (known) snprintf(name, sizeof name, "p_%s", known);
        else snprintf(name, sizeof name, "p_%zu", c);
        LS_TRY(put_text(to, ","));
        LS_TRY(put_field(to, name));
    }
    return put_text(to, "\n");
}

/* ",<kind>_0,<kind>_1 ..." */
static ls_status put_names(sink *to, const char *kind, size_t columns)
{
    char name[48];
    for (size_t c = 0; c < columns; c++) {
        snprintf(name, sizeof name, ",%s_%zu", kind, c);
        LS_TRY(put_text(to, name));
    }
    return LS_OK;
}

static ls_status put_number_header(sink *to, const ls_evaluation *e)
{
    LS_TRY(put_text(to, "index"));
    if (e->target) LS_TRY(put_names(to, "target", e->columns));
    LS_TRY(put_names(to, "predicted", e->columns));
    return put_text(to, "\n");
}

static ls_status put_whole(sink *to, int32_t x)
{
    char text[16];
    snprintf(text, sizeof text, ",%" PRId32, x);
    return put_text(to, text);
}

static ls_status put_numbers(sink *to, const float *x, size_t count)
{
    char text[40];
    for (size_t c = 0; c < count; c++) {
        snprintf(text, sizeof text, ",%.9g", ls_printable((double)x[c]));
        LS_TRY(put_text(to, text));
    }
    return LS_OK;
}

/* A line of the CSV. */
static ls_status put_sample(sink *to, const ls_evaluation *e, size_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", e->place[i]);
    LS_TRY(put_text(to, text));
    if (e->label) LS_TRY(put_whole(to, e->label[i]));
    if (e->predicted) LS_TRY(put_whole(to, e->predicted[i]));
    if (e->target) LS_TRY(put_numbers(to, e->target + i * e->columns, e->columns));
    LS_TRY(put_numbers(to, e->rows + i * e->columns, e->columns));
    return put_text(to, "\n");
}

static ls_status put_csv(sink *to, const ls_evaluation *e)
{
    LS_TRY(e->classes > 0 ? put_class_header(to, e) : put_number_header(to, e));
    for (size_t i = 0; i < e->samples; i++) LS_TRY(put_sample(to, e, i));
    return LS_OK;
}

static ls_status put_npy(sink *to, const ls_evaluation *e)
{
    unsigned char header[LS_NPY_HEADER_BYTES];
    LS_TRY(put(to, header, ls_npy_header(e->samples, e->columns, header)));
    return put(to, e->rows, e->samples * e->columns * sizeof *e->rows);
}

static bool ends_with(const char *text, const char *tail)
{
    const size_t n = strlen(text), t = strlen(tail);
    return n > t && strcmp(text + n - t, tail) == 0;
}

/* Predict, and write the rows to `to`. */
static ls_status predict_to(const ls_invocation *v, const char *path, sink *to)
{
    ls_evaluated e;
    LS_TRY(ls_evaluate_argument(v, true, true, path, &e));
    const ls_evaluation *result = &e.result;
    ls_status status = path && ends_with(path, ".npy") ? put_npy(to, result) : put_csv(to, result);
    if (status == LS_OK && path) status = ls_new_file_commit(&to->file);
    if (status == LS_OK && path) {
        printf("%s: %zu sample%s of the %s part, %zu number%s each\n", path, result->samples,
               LS_PLURAL(result->samples), ls_evaluated_part(&e), result->columns,
               LS_PLURAL(result->columns));
    }
    ls_evaluation_free(&e.result);
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
    sink to = { .is_file = path != NULL, .file = { .fd = -1 } };
    if (!path) return predict_to(v, NULL, &to);
    LS_TRY(ls_new_file_open(&to.file, path, &ls_file_calls_posix)); /* before all the work */
    const ls_status status = predict_to(v, path, &to);
    ls_new_file_close(&to.file);
    return status;
}

static const char *const predict_options[] = { "data", "devices", "threads", "timeout", NULL };

const ls_command ls_command_predict = {
    .name = "predict",
    .arguments = "CHECKPOINT [--data SPEC] [--out FILE.csv|FILE.npy] [option ...]",
    .summary = "what a checkpoint says about every sample",
    .about =
        "Predicts every sample of the test part (or of the training part, where there is no test\n"
        "part), in the order of the data. Prints CSV, or writes a file. Data without answers\n"
        "are csv:FILE,label=none or npy:X.npy; of others the answers are printed as well.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = predict_options,
    .flag = { LS_EVALUATION_FLAG_LIST,
              [FLAG_OUT] = { "out", "FILE.csv|FILE.npy", "write a file instead of printing" } },
    .run = run_predict,
};
