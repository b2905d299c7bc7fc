/* SPDX-License-Identifier: MIT */
/* eval.c -- `lockstep eval`: loss, metrics and confusion matrix of a checkpoint on a data set. */
#include "cli/evaluation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"

enum { FLAG_CONFUSION = LS_EVALUATION_FLAGS, FLAG_JSON };
enum { CONFUSION_MAX = 1000 };

/* -- the confusion matrix ---------------------------------------------------------------------- */

/* Characters of the widest number of a square matrix, and of its class numbers. */
static int widest(const size_t *count, size_t classes)
{
    size_t most = classes - 1;
    for (size_t i = 0; i < classes * classes; i++) most = count[i] > most ? count[i] : most;
    return snprintf(NULL, 0, "%zu", most);
}

static ls_status check_confusion(const ls_evaluation *e)
{
    if (e->classes == 0)
        return ls_fail(LS_ERR_ARGUMENT, "--confusion: the data have numbers, expected classes");
    if (e->classes > CONFUSION_MAX)
        return ls_fail(LS_ERR_ARGUMENT, "--confusion: %zu classes, expected at most %d",
                       e->classes, CONFUSION_MAX);
    return LS_OK;
}

/* Samples by label (a row each) and prediction: [classes, classes], the caller's. */
static ls_status count_confusion(const ls_evaluation *e, size_t **out)
{
    const size_t classes = e->classes;
    LS_TRY(check_confusion(e));
    size_t *count = *out = calloc(classes * classes, sizeof *count);
    if (!count) return ls_fail(LS_ERR_MEMORY, "no memory for %zu classes", classes);
    for (size_t i = 0; i < e->samples; i++) {
        count[(size_t)e->label[i] * classes + (size_t)e->predicted[i]]++;
    }
    return LS_OK;
}

/* A row per label, with its name at the end if it has one; a column per prediction. */
static void print_confusion(const ls_evaluation *e, const size_t *count)
{
    const size_t classes = e->classes;
    const int width = widest(count, classes);
    printf("confusion   a row per label, a column per prediction\n%*s", width, "");
    for (size_t c = 0; c < classes; c++) printf(" %*zu", width, c);
    for (size_t r = 0; r < classes; r++) {
        const char *name = ls_evaluation_class_name(e, r);
        printf("\n%*zu", width, r);
        for (size_t c = 0; c < classes; c++) printf(" %*zu", width, count[r * classes + c]);
        if (name) printf("  %s", name);
    }
    printf("\n");
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void write_confusion(ls_json_writer *json, const size_t *count, size_t classes)
{
    ls_json_write_key(json, "confusion");
    ls_json_write_open(json, '[');
    for (size_t r = 0; r < classes; r++) {
        ls_json_write_open(json, '[');
        for (size_t c = 0; c < classes; c++) ls_json_write_count(json, count[r * classes + c]);
        ls_json_write_close(json, ']');
    }
    ls_json_write_close(json, ']');
}

/* One line, an object. confusion: or NULL. */
static ls_status print_json(const ls_evaluated *e, const size_t *confusion)
{
    ls_json_writer json = { .text = NULL };
    ls_json_write_open(&json, '{');
    ls_json_member_string(&json, "checkpoint", e->checkpoint);
    ls_json_member_string(&json, "data", e->data);
    ls_json_member_string(&json, "part", ls_evaluated_part(e));
    ls_json_member_count(&json, "samples", e->result.samples);
    ls_json_member_number(&json, "loss", e->result.loss);
    for (int m = 0; m < e->result.metric_count; m++)
        ls_json_member_number(&json, e->result.metric_name[m], e->result.metric[m]);
    if (confusion) write_confusion(&json, confusion, e->result.classes);
    ls_json_write_close(&json, '}');
    return ls_console_print_json(&json);
}

/* -- the command ------------------------------------------------------------------------------- */

/* All digits: they can be compared. */
static void print_number(const char *name, double x)
{
    char text[LS_NUMBER_BYTES];
    ls_number_text(x, text);
    printf("%-11s %s\n", name, text);
}

/* confusion: or NULL. */
static void print_text(const ls_evaluated *e, const size_t *confusion)
{
    printf("checkpoint  %s\ndata        %s\npart        %s\nsamples     %zu\n", e->checkpoint,
           e->data, ls_evaluated_part(e), e->result.samples);
    print_number("loss", e->result.loss);
    for (int m = 0; m < e->result.metric_count; m++)
        print_number(e->result.metric_name[m], e->result.metric[m]);
    if (confusion) print_confusion(&e->result, confusion);
}

static ls_status run_eval(const ls_invocation *v, int *exit_code)
{
    (void)exit_code;
    ls_evaluated e;
    const bool confusion = v->flag[FLAG_CONFUSION] != NULL;
    LS_TRY(ls_evaluate_argument(v, confusion, false, NULL, &e));
    size_t *count = NULL;
    ls_status status = confusion ? count_confusion(&e.result, &count) : LS_OK;
    if (status == LS_OK && v->flag[FLAG_JSON]) status = print_json(&e, count);
    else if (status == LS_OK) print_text(&e, count);
    free(count);
    ls_evaluation_free(&e.result);
    return status;
}

static const char *const eval_options[] = { "data", "devices", "threads", "timeout", "metrics",
                                            NULL };

const ls_command ls_command_eval = {
    .name = "eval",
    .arguments = "CHECKPOINT [--data SPEC] [option ...]",
    .summary = "loss and metrics of a checkpoint on a data set",
    .about =
        "Evaluates every sample of the test part (or of the training part, where there is no test\n"
        "part) exactly once. CHECKPOINT is a .safetensors file, or a run folder: its last one,\n"
        "not its best. Without --data it is the data that the checkpoint was trained on, without\n"
        "--metrics its run's. Samples are not weighted. The result is the same, bit for bit, for\n"
        "any --devices and --threads.\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .takes = eval_options,
    .own_default = { { "metrics", "its run's" } },
    .flag = { LS_EVALUATION_FLAG_LIST,
              [FLAG_CONFUSION] = { "confusion", NULL,
                                   "print how many samples of each class are taken for which" },
              [FLAG_JSON] = { "json", NULL, "print one line of JSON" } },
    .run = run_eval,
};
